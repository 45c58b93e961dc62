package kubetest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// authority is the certificate authority of one server.
type authority struct {
	cert      *x509.Certificate
	key       *ecdsa.PrivateKey
	pem       []byte
	adminCert []byte
	adminKey  []byte
}

// newAuthority makes an authority, and certificates of the server and of an
// administrator. The server reads its own from dir: ca.crt, ca.key, server.crt
// and server.key.
func newAuthority(dir string) (authority, error) {
	var a authority
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return a, err
	}
	a.key = key
	a.cert = &x509.Certificate{
		Subject:               pkix.Name{CommonName: "kubetest"},
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	caKey := []byte(nil)
	if a.pem, caKey, err = a.sign(a.cert, key); err != nil {
		return a, err
	}
	block, _ := pem.Decode(a.pem)
	if a.cert, err = x509.ParseCertificate(block.Bytes); err != nil {
		return a, err
	}
	serverCert, serverKey, err := a.issue(&x509.Certificate{
		Subject:     pkix.Name{CommonName: "kube-apiserver"},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:    []string{"localhost"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	})
	if err != nil {
		return a, err
	}
	a.adminCert, a.adminKey, err = a.issue(&x509.Certificate{
		Subject:     pkix.Name{CommonName: "admin", Organization: []string{"system:masters"}},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	if err != nil {
		return a, err
	}
	for name, data := range map[string][]byte{"ca.crt": a.pem, "ca.key": caKey, "server.crt": serverCert, "server.key": serverKey} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			return a, err
		}
	}
	return a, nil
}

// issue makes a certificate and its key, both as PEM.
func (a authority) issue(c *x509.Certificate) (cert, key []byte, err error) {
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	c.KeyUsage = x509.KeyUsageDigitalSignature
	return a.sign(c, k)
}

func (a authority) sign(c *x509.Certificate, k *ecdsa.PrivateKey) (cert, key []byte, err error) {
	now := time.Now()
	c.NotBefore, c.NotAfter = now.Add(-time.Hour), now.Add(365*24*time.Hour)
	if c.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 100)); err != nil {
		return nil, nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, c, a.cert, &k.PublicKey, a.key)
	if err != nil {
		return nil, nil, err
	}
	secret, err := x509.MarshalECPrivateKey(k)
	if err != nil {
		return nil, nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: secret}), nil
}
