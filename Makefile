SHELL := /bin/sh
GO ?= go
export CGO_ENABLED ?= 0

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "%-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: lint
lint: ## golangci-lint over both modules and both systems
	GOWORK=off $(GO) build -modfile=tools/go.mod -o .cache/tools/ github.com/golangci/golangci-lint/v2/cmd/golangci-lint
	.cache/tools/golangci-lint run ./...
