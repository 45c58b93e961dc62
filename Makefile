SHELL := /bin/sh
GO ?= go
export CGO_ENABLED ?= 0

# What is built or downloaded once and kept: the linter, the parts of the tests.
CACHE := $(abspath $(or $(KEEL_CACHE),.cache))
TOOLS := $(CACHE)/tools/$(shell cat tools/go.mod tools/go.sum | cksum | tr ' ' -)-$(shell $(GO) env GOVERSION 2>/dev/null)
GIT := git -c safe.directory='*'
VERSION := $(or $(shell $(GIT) describe --tags --always --abbrev=12 --dirty 2>/dev/null),unknown)
COMMIT := $(or $(shell $(GIT) rev-parse HEAD 2>/dev/null),unknown)

# What ships is what go.mod says: no workspace. The same commit gives the same bytes, wherever it lies.
STAMP := -X github.com/tlspu/keel/cmd/cli.version=$(VERSION) -X github.com/tlspu/keel/cmd/cli.commit=$(COMMIT)
BUILD := GOWORK=off $(GO) build -trimpath -buildvcs=false -ldflags '-s -w $(STAMP)'
PLATFORMS := linux-amd64 linux-arm64 freebsd-amd64 freebsd-arm64

# An image has the time of its commit. Whoever publishes one gives it a name of their own.
TIME := $(or $(SOURCE_DATE_EPOCH),$(shell $(GIT) log -1 --format=%ct 2>/dev/null),0)
IMAGE := dist/keel-$(VERSION)-image.tar
IMAGE_NAME := docker.io/library/keel
IMAGE_ARCH := amd64 arm64

.PHONY: go help build run test parts lint generate verify bench dist image clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "%-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# What needs Go says what is missing, before make says what it could not run.
go:
	@command -v $(GO) >/dev/null || { \
		echo "make: $(GO) is not in PATH: install Go $$(sed -n 's/^go //p' go.mod) or later from https://go.dev/dl, or add it: PATH=/usr/local/go/bin:\$$PATH make $(MAKECMDGOALS)" >&2; exit 1; }

build run test parts lint generate verify bench dist image: | go

build: ## bin/keel, a static binary stamped with the version
	@echo 'Compiling bin/keel: seconds from the cache of Go, 2 to 10 minutes the first time' >&2
	@$(BUILD) -o bin/keel ./cmd/keel

run: build ## show Keel keeping an example root; as root after make parts, a node of a cluster too
	@test/e2e/run.sh
	@test/e2e/cluster.sh '$(CACHE)'

test: ## every test of both modules, with -race where a C compiler is; ends with a list of the skips
	@PATH='$(TOOLS)':"$$PATH" $(GO) run ./test/report

parts: $(TOOLS)/controller-gen ## as root on Debian: install and build what no test should have to skip for
	@test/parts/debian.sh '$(CACHE)'
	@test/parts/kube.sh '$(CACHE)'

lint: $(TOOLS)/golangci-lint ## golangci-lint over both modules, for linux and for freebsd; go vet for arm64
	for os in linux freebsd; do \
		GOOS=$$os $< run --allow-parallel-runners ./... && \
		(cd api && GOOS=$$os $< run --allow-parallel-runners -c ../.golangci.yml ./...) && \
		GOOS=$$os GOARCH=arm64 $(GO) vet ./... ./api/... || exit 1; \
	done

generate: $(TOOLS)/controller-gen ## deepcopy code, CRDs and documents made from code
	PATH='$(TOOLS)':"$$PATH" $(GO) generate ./... ./api/...

verify: generate ## generate and tidy; fails, naming the files, when that changes what is committed
	GOWORK=off $(GO) mod tidy
	cd api && GOWORK=off $(GO) mod tidy
	$(GO) work sync
	@$(GO) list -m all >/dev/null # as editors and linters do: it completes go.work.sum
	@changed=$$($(GIT) status --porcelain) && [ -z "$$changed" ] || \
		{ printf 'not committed, or not what make verify makes of it:\n%s\n' "$$changed"; exit 1; }

bench: build ## measure Keel against other programs, and with an API server, and print tables
	$(GO) run ./test/bench
	$(GO) test -run '^$$' -bench . -benchtime 1x -timeout 0 ./test/bench/kube

dist: ## dist/keel-VERSION-OS-ARCH for linux and freebsd on amd64 and arm64, and SHA256SUMS
	rm -rf dist
	@for p in $(PLATFORMS); do \
		echo "dist/keel-$(VERSION)-$$p" && \
		GOOS=$${p%-*} GOARCH=$${p#*-} $(BUILD) -o dist/keel-$(VERSION)-$$p ./cmd/keel || exit 1; \
	done
	cd dist && sha256sum keel-* >SHA256SUMS

image: ## dist/keel-VERSION-image.tar, an OCI image for linux on amd64 and arm64
	@mkdir -p '$(dir $(IMAGE))'
	@for a in $(IMAGE_ARCH); do GOOS=linux GOARCH=$$a $(BUILD) -o '$(IMAGE)'.$$a ./cmd/keel || exit 1; done
	@$(GO) run ./deploy/image -name '$(IMAGE_NAME)' -version '$(VERSION)' -commit '$(COMMIT)' -time '$(TIME)' \
		$(foreach a,$(IMAGE_ARCH),'$(a)=$(IMAGE).$(a)') >'$(IMAGE).new'
	@rm -f $(foreach a,$(IMAGE_ARCH),'$(IMAGE).$(a)')
	@mv '$(IMAGE).new' '$(IMAGE)' && echo '$(IMAGE)'

clean: ## remove what was built, but for the cache
	rm -rf bin dist

$(TOOLS)/golangci-lint: | go
	@echo 'Compiling golangci-lint: some minutes, once' >&2
	cd tools && GOWORK=off $(GO) build -buildvcs=false -o '$@' github.com/golangci/golangci-lint/v2/cmd/golangci-lint

$(TOOLS)/controller-gen: | go
	@echo 'Compiling controller-gen: a minute or two, once' >&2
	cd tools && GOWORK=off $(GO) build -buildvcs=false -o '$@' sigs.k8s.io/controller-tools/cmd/controller-gen
