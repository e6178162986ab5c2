# The commands a person needs. `make` alone lists them.

.DEFAULT_GOAL := help
.PHONY: help setup demo test check bench

target := $(or $(CARGO_TARGET_DIR),target)
c_files = $(shell find crates rtos bindings bench examples tests -name '*.[ch]' 2>/dev/null)

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-6s  %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## install what is missing, encode the demo's recording, build the board images
	@scripts/setup.sh

demo: setup ## the main job: flash -> pool -> RTOS core decodes -> RTP, checked end to end
	cargo build --release -p hythe-cli
	$(target)/release/hythe demo

test: setup ## all tests: Rust, the model checker's, C
	cargo test --workspace
	RUSTFLAGS='--cfg loom' cargo test --release --target-dir $(target)/loom -p hythe-queue -p hythe-pool --test 'loom*'
	$(MAKE) -C rtos BUILD=$(abspath $(target))/rtos test

check: setup ## format, lints, tidy, licences, docs; mends nothing
	cargo fmt --check
	clang-format --dry-run -Werror $(c_files)
	cargo xtask tidy
	cargo xtask licences
	cargo clippy --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS='-D warnings' cargo doc --workspace --no-deps --lib

bench: setup ## benchmarks, with baselines and peers in the same run
	cargo build --release -p hythe-cli
	$(target)/release/hythe bench ipc
