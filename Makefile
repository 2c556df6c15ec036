# The same commands by hand and in CI. `make demo` and `make test` set up by themselves.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.setup-stamp

.PHONY: setup demo test test-federation federation check quality presets methods rivals results clean

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "afcl needs Python 3.11 or newer; set PYTHON=/path/to/python3.11")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

demo: $(STAMP)
	$(BIN)/afcl demo --out afcl-demo --force

check: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# One run with the compiled kernels, one of the kernels' tests with compilation
# switched off (so that coverage sees inside them), then the two thresholds. Two workers
# on two cores: more threads in each would only get in each other's way.
test: export OMP_NUM_THREADS = 1
test: export OPENBLAS_NUM_THREADS = 1
test: $(STAMP)
	$(BIN)/coverage erase
	$(BIN)/python -m pytest -n 2 -m 'not federation' --cov --cov-report=
	NUMBA_DISABLE_JIT=1 $(BIN)/python -m pytest -q tests/kernels --cov --cov-append --cov-report=
	$(BIN)/coverage report --skip-covered --fail-under=95
	$(BIN)/coverage report --include='src/afcl/core/*,src/afcl/kernels/*' --fail-under=100

# Real processes of the engine on this machine; a few minutes.
test-federation: export OMP_NUM_THREADS = 1
test-federation: $(STAMP)
	$(BIN)/python -m pytest -m federation tests/federation

# Five sites with keys and TLS, one of them late: watch it.
federation: $(STAMP)
	$(BIN)/python examples/federation.py

# The table of "Must hold" figures: make quality DATA=dir [RUNS=20] [ONLY=IR,SE]
quality: $(STAMP)
	$(BIN)/python benchmarks/quality.py --data "$(DATA)" --runs $(or $(RUNS),20) $(if $(ONLY),--only $(ONLY))

# The presets beside each other, all runs counted: make presets DATA=dir [RUNS=20]
presets: $(STAMP)
	$(BIN)/python benchmarks/presets.py --data "$(DATA)" --runs $(or $(RUNS),20)

# What every method costs on one mixture: the figures of docs/methods.md
methods: $(STAMP)
	$(BIN)/python benchmarks/methods.py

# The rivals beside their check values: make rivals DATA=dir [RUNS=20]
rivals: $(STAMP)
	$(BIN)/python benchmarks/rivals.py --data "$(DATA)" --runs $(or $(RUNS),20)

# All runs of every spec, then the tables and plots of docs/results: make results DATA=dir
# Hours on two cores; interrupted, it goes on where it stopped. SPECS="ablation seeds" for some.
SPECS ?= trajectories convergence ablation seeds cost asynchrony paper-tables significance learned-k k-recovery time
RUNS_DIR ?= bench-runs
results: $(STAMP)
	for spec in $(SPECS); do $(BIN)/afcl bench run $$spec --data "$(DATA)" --out $(RUNS_DIR) || exit 1; done
	$(BIN)/afcl bench report $(RUNS_DIR) --data "$(DATA)" --pages docs/results

clean:
	rm -rf .venv afcl-demo .coverage .mypy_cache .ruff_cache .pytest_cache
