# One command each: `make run` shows a real pod, `make test` tests everything, `make bench` measures.
# The runtime parts (containerd, runc, CNI plugins) are pinned in tools/go.mod and built into .bin.

GO ?= go
BIN := $(CURDIR)/.bin
export PODSYNC_BIN := $(BIN)

# Real parts need Linux and root; elsewhere the in-memory runtime does.
REAL := $(shell [ "$$(uname -s)" = Linux ] && [ "$$(id -u)" = 0 ] && echo yes)

.PHONY: help runtime run test cluster test-cluster bench clean

help:
	@echo "make run      run the demo pod of examples/manifests on a real, private containerd (root, Linux)"
	@echo "make test     all tests; with root on Linux also those on a real containerd"
	@echo "make test-cluster  the tests that need a real API server; builds etcd and Kubernetes at first"
	@echo "make bench    benchmarks, and pod starts against the runtime's own floor"
	@echo "make runtime  build the pinned containerd, runc and CNI plugins into .bin"
	@echo "make clean    remove .bin"

runtime:
	@tools/install-packages.sh
	@tools/build-runtime.sh $(BIN)

run: $(if $(REAL),runtime)
	@mkdir -p $(BIN)
	@echo "building the example agent"
	@$(GO) build -o $(BIN)/edgeagent ./examples/edgeagent
	@$(GO) build -o $(BIN)/rundemo ./internal/realruntime/rundemo
	@$(BIN)/rundemo $(ARGS)

# What runs on a real containerd goes alone, one package after another: those
# tests look at the whole machine for what they might have left.
REALPKGS := ./internal/realruntime/... ./internal/e2e/...
UNITPKGS = $$($(GO) list ./... | grep -v -e /internal/realruntime -e /internal/e2e -e /internal/controlplane)

test: $(if $(REAL),runtime)
	@echo "format and vet"
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { echo "gofmt would change:"; gofmt -l $$(git ls-files '*.go'); exit 1; }
	@$(GO) vet ./...
	@echo "building for a system that is not Linux"
	@GOOS=darwin $(GO) build -o /dev/null ./examples/edgeagent
	@echo "tests with the race detector; the first build of all of them takes a few minutes"
	@{ $(GO) test -race -json -timeout 10m $(UNITPKGS); \
	   $(GO) test -race -json -timeout 20m -p 1 $(REALPKGS); \
	   cd tools && $(GO) test -json ./cmd/...; } | $(GO) run ./internal/testsummary -expect .ci/expected-skips

# The control plane takes some ten minutes to build when nothing is cached, so
# its tests stand apart from make test.
cluster:
	@tools/build-cluster.sh $(BIN)/cluster

CLUSTERPKGS := ./internal/controlplane/...

test-cluster: cluster
	@echo "tests against a real API server"
	@$(GO) test -race -json -timeout 20m -p 1 $(CLUSTERPKGS) | $(GO) run ./internal/testsummary -expect .ci/expected-skips

bench: $(if $(REAL),runtime)
	$(GO) test -run '^$$' -bench . -benchmem ./...
	$(GO) run ./internal/bench $(ARGS)

clean:
	rm -rf $(BIN)
