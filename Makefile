# One command each: `make run` shows a real pod, `make test` tests everything, `make bench` measures.
# The runtime parts (containerd, runc, CNI plugins) are pinned in tools/go.mod and built into .bin.

GO ?= go
BIN := $(CURDIR)/.bin
export PODSYNC_BIN := $(BIN)

# Real parts need Linux and root; elsewhere the in-memory runtime does.
REAL := $(shell [ "$$(uname -s)" = Linux ] && [ "$$(id -u)" = 0 ] && echo yes)

.PHONY: help runtime run test bench clean

help:
	@echo "make run      run the demo pod of examples/manifests on a real, private containerd (root, Linux)"
	@echo "make test     all tests; with root on Linux also those on a real containerd"
	@echo "make bench    benchmarks"
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

test: $(if $(REAL),runtime)
	$(GO) test ./...
	cd tools && $(GO) test ./cmd/...

bench: $(if $(REAL),runtime)
	$(GO) test -run '^$$' -bench . -benchmem ./...

clean:
	rm -rf $(BIN)
