package cluster

import (
	"errors"
	"fmt"
	"os"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/transport"

	"github.com/tlspu/keel/api/v1alpha1"
)

// namespaceFile holds the namespace of the pod it is read in.
const namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// A Client speaks with the API server. It is safe for concurrent use.
type Client struct {
	// Server is the URL of the API server.
	Server string
	// Namespace is the agent's own, or that of the kubeconfig's context. Empty: nobody
	// says.
	Namespace string

	core, keel *rest.RESTClient
	bound      string // name of the Node that the token is bound to; empty: none
}

// Connect makes a Client from a kubeconfig file, or from what a pod is given when
// the file's name is empty. It sends nothing: an API server that cannot be reached
// shows later. agent is the name and version for the server's logs.
func Connect(kubeconfig, agent string) (*Client, error) {
	c := new(Client)
	config, err := c.load(kubeconfig)
	if err != nil {
		return nil, err
	}
	c.Server = config.Host
	config.UserAgent = agent
	c.bound = boundTo(config)
	if file := config.BearerTokenFile; file != "" {
		// The kubelet writes a new token there. When the server refuses the one that was
		// read, it is read again with the next try, and not within a minute.
		config.BearerToken, config.BearerTokenFile = "", ""
		config.Wrap(transport.ResettableTokenSourceWrapTransport(transport.NewCachedFileTokenSource(file)))
	}
	// Enough for the statuses of all NodeConfigs of a node after a mass change.
	config.QPS, config.Burst = 20, 100
	s := scheme()
	if c.core, err = client(config, s, corev1.SchemeGroupVersion, "/api"); err != nil {
		return nil, err
	}
	c.keel, err = client(config, s, v1alpha1.GroupVersion, "/apis")
	return c, err
}

func (c *Client) load(kubeconfig string) (*rest.Config, error) {
	if kubeconfig == "" {
		config, err := rest.InClusterConfig()
		if errors.Is(err, rest.ErrNotInCluster) {
			return nil, errors.New("this is not a pod: name a file with kubeconfig, or manage the NodeConfigs of a directory with source=dir")
		}
		if err != nil {
			return nil, fmt.Errorf("read the pod's access to the API server: %w", err)
		}
		space, err := os.ReadFile(namespaceFile)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
		c.Namespace = strings.TrimSpace(string(space))
		return config, nil
	}
	file := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		&clientcmd.ClientConfigLoadingRules{ExplicitPath: kubeconfig}, &clientcmd.ConfigOverrides{})
	config, err := file.ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("kubeconfig %s: %w", kubeconfig, err)
	}
	c.Namespace, _, err = file.Namespace()
	return config, err
}

// scheme knows the types that are read and no others: client-go's own scheme holds
// all of Kubernetes.
func scheme() *runtime.Scheme {
	s := runtime.NewScheme()
	metav1.AddToGroupVersion(s, schema.GroupVersion{Version: "v1"})
	s.AddKnownTypes(corev1.SchemeGroupVersion, &corev1.Node{}, &corev1.NodeList{}, &corev1.ConfigMap{}, &corev1.ConfigMapList{},
		&corev1.Secret{}, &corev1.SecretList{}, &corev1.Namespace{}, &corev1.Event{})
	metav1.AddToGroupVersion(s, v1alpha1.GroupVersion)
	s.AddKnownTypes(v1alpha1.GroupVersion, &v1alpha1.NodeState{}, &v1alpha1.NodeStateList{})
	s.AddKnownTypeWithName(v1alpha1.GroupVersion.WithKind(v1alpha1.Kind), &object{})
	s.AddKnownTypeWithName(v1alpha1.GroupVersion.WithKind(v1alpha1.Kind+"List"), &objects{})
	return s
}

func client(config *rest.Config, s *runtime.Scheme, gv schema.GroupVersion, path string) (*rest.RESTClient, error) {
	of := rest.CopyConfig(config)
	of.GroupVersion, of.APIPath = &gv, path
	of.NegotiatedSerializer = serializer.NewCodecFactory(s).WithoutConversion()
	return rest.RESTClientFor(of)
}
