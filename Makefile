# The commands a person needs. `make` alone lists them.

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-slow test-boot test-latency test-media test-p1 test-targets
.PHONY: arm miri mutants check hosts test-hosts install uninstall deb
.PHONY: bench bench-core bench-host bench-media bench-preload soak fuzz

target := $(or $(CARGO_TARGET_DIR),target)
# Of the emulated board. Linked statically: the recorder runs there without a library.
guest_target := x86_64-unknown-linux-gnu
# What is installed, and from where. Where root has no cargo, `make deb` as another user, and install the packages as root.
profile := $(or $(PROFILE),release)
built := $(target)/$(if $(filter dev,$(profile)),debug,$(profile))
# What users get names no directory of the machine it was built on. (A build for tests, PROFILE=dev, shares its libraries with them.)
remap = --remap-path-prefix=$(CURDIR)=hythe --remap-path-prefix=$(or $(CARGO_HOME),$(HOME)/.cargo)=cargo
release_flags = $(if $(filter release,$(profile)),RUSTFLAGS='$(strip $(RUSTFLAGS) $(remap))')
# The command `hythe`, and the programs that it becomes.
commands = -p hythe-cli -p 'hythe-*-command' -p hythe-demo -p hythe-play -p hythe-report
define build_product
$(release_flags) cargo build --profile $(profile) $(commands) -p hythe-bench -p hythe-c -p hythe-shm -p hythe-libpvm3 -p hythe-libgpvm3
cargo xtask boards
endef
# Of a workspace of its own, as it alone builds TLS and Zenoh.
hostd = CARGO_TARGET_DIR='$(abspath $(target))/hosts' scripts/hostd.sh
install = PREFIX='$(PREFIX)' LIBDIR='$(LIBDIR)' DESTDIR='$(DESTDIR)' packaging/install.sh
c_files = $(shell find crates rtos preload-init bindings bench examples tests -name '*.[ch]' 2>/dev/null)

help: ## this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "make %-13s  %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## install what is missing, encode the demo's recording and a movie, build the board images
	@scripts/setup.sh

demo: setup ## the main job: flash -> pool -> RTOS core decodes -> RTP, checked end to end
	cargo build --profile quick -p hythe-demo --no-default-features
	$(target)/quick/hythe-demo

test: setup ## all tests but the slow ones: Rust, the model checker's, C; side by side, with the ten slowest at the end
	cargo xtask test

test-slow: setup ## the slow tests: sweeps, emulated boards, musl and i686; PART=0/8 to 7/8 for an eighth
	cargo xtask test --slow $(PART)

test-boot: ## packaging/ on Debian 12 in QEMU: a boot recorded, read ahead in three ways, faults; images laid out by a recording (root; about 30 minutes, 12 of them once; BOOTS=3 times it, too)
	RUSTFLAGS='-C target-feature=+crt-static' cargo build --release -p hythe-cli -p hythe-preload-command --target $(guest_target)
	$(MAKE) -C preload-init BUILD=$(abspath $(target))/preload-init
	scripts/erofs-tools.sh $(target)/erofs
	cargo build --workspace
	HYTHE_EROFS=$(abspath $(target))/erofs cargo test -p hythe-cli --test it preload_images:: -- --nocapture
	scripts/boot-debian.sh $(target)/boot-debian $(target)/$(guest_target)/release/hythe $(target)/preload-init/preload-init $(BOOTS)

test-services: ## pools of services on Debian 12 in QEMU: what systemd-logind removes, who is told, what keeps it (root; 2 minutes, and 2 once)
	RUSTFLAGS='-C target-feature=+crt-static' cargo build --release -p hythe-cli --target $(guest_target)
	scripts/services-debian.sh $(target)/services-debian $(target)/$(guest_target)/release/hythe

test-media: setup ## ffmpeg, GStreamer and VLC play what we send, the first two send what we receive, tshark reads it; departure times on Debian's kernel in QEMU (root, for capturing; 3 to 6 minutes, and once 90 MB of VLC)
	scripts/media-tools.sh
	scripts/vlc-live555.sh $(target)/vlc
	cargo build --workspace
	HYTHE_TEST_MEDIA=1 HYTHE_VLC=$(or $(HYTHE_VLC),$(abspath $(target))/vlc/bin/vlc) cargo test -p hythe-cli --test it media_players::
	scripts/network-guest.sh $(target)/guest $(target)/network-guest

test-latency: setup ## real-time latency: this machine beside cyclictest, FreeRTOS beside Linux under Xen, pages of results in Chromium (root; 8 minutes, and once 27 MB, a browser and a minute to build Xen)
	scripts/latency-tools.sh
	scripts/xen-tools.sh $(target)/xen
	cargo build --workspace
	HYTHE_TEST_LATENCY=1 HYTHE_XEN=$(abspath $(target))/xen cargo test -p hythe-cli --test it -- latency_peers:: latency_xen:: report_browser:: --nocapture --test-threads=1

test-p1: setup ## the table of tests of the paper on shared memory between cores, on mps2-an386: a line each, with the commands behind it (half a minute)
	cargo build --workspace
	RUST_BACKTRACE=0 HYTHE_TEST_P1=1 cargo test -q -p hythe-cli --test it p1:: -- --nocapture

test-targets: ## a pool shared by an i686 and an x86-64 process, a static hythe built for musl (3 minutes at first, then seconds)
	scripts/other-targets.sh test

hosts: ## the agent of the host hop, hythe-hostd, in $(target)/hosts (PROFILE=dev for a quick build: 4 minutes of a CPU at first, 12 else)
	$(release_flags) $(hostd) build --profile $(profile)

test-hosts: setup ## tests of the agent, in network namespaces, and of the commands that need it (root)
	cargo xtask test --hosts

arm: ## golden vectors, pool and node tests as armhf and arm64 programs under emulation, a pool shared with one, data of PVM exchanged with both, the storage hop on their kernels
	scripts/arm.sh $(target)/arm

miri: ## tests of abi, memory, queue and pool under Miri; SEEDS=16 schedules of those with threads, not 4 (5 minutes, and once a network, for a nightly compiler with Miri); SHARE=1 for a minute of them
	scripts/miri.sh $(if $(SHARE),share,all)

mutants: ## weakens each ordering of the lock-free code, and takes out, moves and shortens each cache operation and barrier of rtos/src, in turn; a model must fail each time (5 to 7 minutes)
	scripts/mutate-caches.sh
	scripts/mutate-orderings.sh $(target)/mutants

check: setup ## format, lints, tidy, licences, sizes of the C library, public names, docs, fuzz targets compile; mends nothing
	cargo fmt --check
	clang-format --dry-run -Werror $(c_files)
	cargo xtask tidy
	cargo xtask licences
	cargo xtask sizes
	cargo xtask api
	cargo clippy --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS='-D warnings' cargo doc --workspace --no-deps --lib
	$(hostd) check
	cargo check --locked --manifest-path fuzz/Cargo.toml --target-dir $(target)

# The agent is built apart (`make hosts`), and installed if it is there.
agent = $(wildcard $(target)/hosts/$(if $(filter dev,$(profile)),debug,$(profile))/hythe-hostd)

install: ## commands, board images, libraries, manuals, completions, and the agent if `make hosts` built it, into PREFIX (/usr/local), under DESTDIR; PROFILE=dev for a quick build
	$(build_product)
	$(install) install $(built) $(target)/boards $(agent)

uninstall: ## remove from PREFIX, under DESTDIR, what `make install` put there
	$(install) uninstall

deb: ## Debian packages hythe, libhythe0.1, libhythe-dev, hythe-pvm, and hythe-hostd if `make hosts` built it, in target/deb
	$(build_product)
	packaging/deb.sh $(built) $(target)/boards $(or $(debs),$(target)/deb) $(agent)

bench: setup ## benchmarks, with baselines and peers in the same run
	$(release_flags) cargo build --release $(commands) -p hythe-bench
	$(target)/release/hythe bench ipc

bench-core: setup ## this machine and an RTOS core, emulated and hosted, beside copying as RPMsg does it; what each service costs; a pair of processes on one CPU and on two; the player (under half an hour, on an idle machine); kept in bench/results
	$(release_flags) cargo build --release $(commands) -p hythe-bench
	for board in mps2-an386 hosted; do \
	  for part in shared services pair player; do \
	    case $$part in shared) name=core ;; *) name=core-$$part ;; esac; \
	    $(target)/release/hythe bench core --$$part --board $$board --json \
	      >$(target)/core.json && \
	    mv $(target)/core.json bench/results/$$name-$$(date +%F)-$$board.json || exit 1; \
	  done; \
	done

bench-host: setup hosts ## two hosts, each a network namespace, over each carrier, beside TCP, UDP, MPI, UCX, PVM, Zenoh and their floors (as root, ten minutes, on an idle machine); kept in bench/results
	$(release_flags) cargo build --release $(commands) -p hythe-bench
	$(target)/release/hythe bench host --json >$(target)/host.json
	mv $(target)/host.json bench/results/host-$$(date +%F).json

bench-media: setup ## RTP sending by every method, ffmpeg and GStreamer beside it, 100 times, paced calls, a way that loses (over half an hour, as root, on an idle machine); kept in bench/results
	$(release_flags) cargo build --release $(commands) -p hythe-bench
	$(target)/release/hythe bench media --json >$(target)/media.json
	mv $(target)/media.json bench/results/media-$$(date +%F).json

bench-preload: setup ## the storage experiment on an emulated board, UBIFS, JFFS2 and ext4 (over an hour, on an idle machine); kept in bench/results
	$(release_flags) cargo build --release $(commands) -p hythe-bench
	RUSTFLAGS='-C target-feature=+crt-static' cargo build --release -p hythe-preload-command --target $(guest_target)
	install -s $(target)/$(guest_target)/release/hythe-preload $(target)/guest/hythe-preload
	$(target)/release/hythe bench preload --fs ubifs,jffs2,ext4 --json >$(target)/preload.json
	mv $(target)/preload.json bench/results/preload-$$(date +%F).json

soak: setup ## 30 minutes of random joins, kills and traffic among 16 processes, audited; prints a result document
	$(release_flags) cargo run --release -p hythe-bench -- soak --minutes $(or $(MINUTES),30)

fuzz: ## a minute of each fuzz target; needs a nightly compiler and `cargo install cargo-fuzz`
	scripts/fuzz-seeds.sh fuzz/corpus
	for target in $$(cargo +nightly fuzz list --fuzz-dir fuzz); do \
		cargo +nightly fuzz run --fuzz-dir fuzz $$target -- -len_control=0 -max_len=4096 -max_total_time=$(or $(FUZZ_SECONDS),60) || exit 1; \
	done
	$(MAKE) -C preload-init BUILD=$(abspath $(target))/preload-init FUZZ_SECONDS=$(or $(FUZZ_SECONDS),60) fuzz
