# Everything below builds with the same flags, so that all targets share what the
# Go build cache holds.
export CGO_ENABLED := 0
export GOFLAGS := $(strip $(filter-out -trimpath,$(shell go env GOFLAGS)) -trimpath)

PREFIX ?=
VERSION ?=
WRITE ?=
BINDIR = $(if $(PREFIX),$(PREFIX)/bin,$(shell go env GOPATH)/bin)
LDFLAGS = -s -w $(if $(VERSION),-X main.version=$(VERSION))
# Without inlining, the code of CEL is a megabyte smaller; it checks a rule now and
# then. The releases are built the same way.
GCFLAGS = github.com/google/cel-go/...=-l
CONTROLPLANE = testdata/controlplane/build.sh
LINT = .ci/lint/go.mod
TESTFLAGS ?=
BENCHFLAGS ?= $(if $(WRITE),-save testdata/bench)
TIMEOUT ?= 40m

.PHONY: all build install test test-unit chaos demo lint bench bench-check bench-scale bench-build bench-go controlplane controlplane-dir release clean help

all: build ## Same as build

build: ## Build bin/kubectl-crdver, and its second name for completion
	go build -gcflags '$(GCFLAGS)' -ldflags '$(LDFLAGS)' -o bin/kubectl-crdver ./cmd/kubectl-crdver
	ln -sf kubectl-crdver bin/kubectl_complete-crdver

install: build ## Install both into PREFIX/bin, or into GOPATH/bin
	mkdir -p '$(BINDIR)'
	cp bin/kubectl-crdver '$(BINDIR)/kubectl-crdver'
	ln -sf kubectl-crdver '$(BINDIR)/kubectl_complete-crdver'

test: build controlplane ## Run all tests, building the control plane if there is none
	@# Two packages at a time, whatever the machine: each runs servers of its own.
	KUBEBUILDER_ASSETS="$$($(CONTROLPLANE))" go test -p 2 -tags controlplane -timeout $(TIMEOUT) $(TESTFLAGS) ./...

test-unit: ## Run the tests that need no API server
	go test -short $(TESTFLAGS) ./...

chaos: build controlplane ## Break everything that can break during a migration of 5,000 objects (about forty minutes)
	KUBEBUILDER_ASSETS="$$($(CONTROLPLANE))" go test -p 1 -tags controlplane -timeout 2h $(TESTFLAGS) -v -run TestChaos ./pkg/cmd/chaos -long

demo: build ## Show a CRD's way from v1beta1 to v1 on a throwaway API server (KEEP=1, DEMO_KUBECONFIG=file)
	@echo 'compiling the API server; this takes some minutes the first time, and seconds afterwards'
	go build -o bin/crdver-demo ./cmd/crdver-demo
	@bin/crdver-demo

lint: ## Run golangci-lint and go vet
	go tool -modfile=$(LINT) golangci-lint run ./...
	go vet -tags controlplane ./...

bench: bench-build ## Compare migrating with the ways of others (BENCHFLAGS, WRITE=1)
	KUBEBUILDER_ASSETS="$$($(CONTROLPLANE))" bin/crdver-bench migrate $(BENCHFLAGS)

bench-check: bench-build ## Check the budgets, and fail when one is exceeded (BENCHFLAGS, WRITE=1)
	KUBEBUILDER_ASSETS="$$($(CONTROLPLANE))" bin/crdver-bench check $(BENCHFLAGS)

bench-scale: bench-build ## Compare the memory of clients at 10,000 and 100,000 objects, about an hour (BENCHFLAGS, WRITE=1)
	KUBEBUILDER_ASSETS="$$($(CONTROLPLANE))" bin/crdver-bench scale $(BENCHFLAGS)

bench-build: build controlplane
	go build -o bin/ ./cmd/crdver-bench ./cmd/crdver-bench-client

bench-go: ## Run the benchmarks of the packages
	go test -bench . -run '^$$' $(TESTFLAGS) ./...

controlplane: ## Build kube-apiserver, kube-controller-manager, kubectl and etcd into a cache, once
	@$(CONTROLPLANE) >/dev/null

controlplane-dir: ## Print the directory of the control plane
	@$(CONTROLPLANE) --dir

release: ## Build the archives of a release and its krew manifest into dist/ (VERSION=vX.Y.Z, WRITE=1)
	go run ./cmd/crdver-release -version '$(or $(VERSION),$(shell sed -n 's/^  version: //p' krew-manifest.yaml))' -out dist $(if $(WRITE),-write)

clean: ## Delete what the other targets put into the tree
	rm -rf bin dist

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z][a-z-]*:.*## / { printf "  %-18s %s\n", $$1, $$2 }' Makefile
