module github.com/tlspu/keel/api

go 1.26.0

require gopkg.in/yaml.v3 v3.0.1

require (
	github.com/google/go-cmp v0.7.0
	k8s.io/apimachinery v0.37.2 // indirect
)
