# What takes too long for .ci/run, and packages: each target is also a step of `make nightly`. Included by the Makefile
# above; paths are from there.

# Seconds that make fuzz gives each target, or the only one to run.
FUZZ_SECONDS = 60
FUZZ_TARGET =
# The only step of make nightly to run; FORCE=1 also runs steps that have passed on this tree.
STEP =
FORCE =
CARGO_FUZZ_VERSION := 0.13.1
CARGO_FUZZ := fuzz/target/tools/bin/cargo-fuzz
NUMA_VM := scripts/numa-vm.sh
S3_SERVER := scripts/s3-server.sh
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

# scripts/numa-vm.sh runs any other command there. It ends with 77 where there is no such machine.
test-numa: | setup-test ## Run the tests about NUMA on four nodes, emulated by QEMU
	@if $(NUMA_VM) --probe; then $(MAKE) on-four-nodes; else [ $$? -eq 77 ]; fi

.PHONY: on-four-nodes
on-four-nodes:
	$(on_four_nodes) -p oboro-arena --lib
	$(on_four_nodes) -p oboro-residency --lib placement
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
	OBORO_TRIALS=10000 cargo test --workspace --locked --test client a_liar
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

# Installed here, so that nothing outside this directory changes.
$(CARGO_FUZZ)-$(CARGO_FUZZ_VERSION): | setup-fuzz
	cargo install --quiet --locked --force --root fuzz/target/tools cargo-fuzz --version $(CARGO_FUZZ_VERSION)
	touch $@

target/tools/%:
	cargo install --quiet --locked --debug --root target/tools $*
	touch $@
