# Targets of the laboratory: benches, and the papers beside today's software. Included by the Makefile above; paths are from there.

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
# Options of make papers: --quick, --only STEP, --repeat N, --again, --list; see lab/README.md.
PAPERS =
LAB := $(OBORO)-lab
FCMALLOC := fcmalloc/build/libfcmalloc.so
# Programs and peers of make bench-alloc and make bench-numa.
ALLOC_BUILD := $(abspath $(or $(CARGO_TARGET_DIR),target))/alloc

# Each bench prints one JSON object a line and nothing else on standard output; BENCH gives it options.
bench-smoke: ## Run each bench that needs nothing built besides, in seconds, and check what it prints
	$(PYTHON) scripts/benches.py smoke

bench-full: ## Run every bench, those that take long with --quick, and check what it prints; BENCH=--reference for README
	PYTHONPATH=lab $(PYTHON) scripts/benches.py full $(BENCH)

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
	PYTHONPATH=lab:scripts $(PYTHON) -m papers --lab "$(LAB)" --keep "$(abspath $(or $(CARGO_TARGET_DIR),target))/papers" $(PAPERS)

build-lab: build ## Build the laboratory, which measures the command beside it
	cd lab && cargo build --profile $(BUILD_PROFILE) --locked
