# What contributors and CI call. `make help` lists it.

# Coverage that `make cover` demands of everything, and `make test` (with branches) of what decides.
COVER_ALL ?= 95
COVER_CORE ?= 100
CORE := --include='*/longwatch/core/*'
# Three workers for two cores: most tests wait for processes, and a fourth makes their windows late.
WORKERS ?= 3

SUPPORTED := 3.11 3.12 3.13
PYTHON ?= $(or $(shell scripts/find-python $(SUPPORTED)),python3)
VENV := .venv
BIN := $(VENV)/bin
PYTEST := pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder

# Some machines forbid byte code, which doubles the start of everything that is measured and tested here.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help venv demo test test-long cover test-all test-lab test-sdks test-engines soak lint format bench capabilities clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# Two stamps, so that a first look (make demo) does not wait for the test tools.
$(VENV)/.installed: pyproject.toml scripts/longwatch
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing longwatch into $(VENV)"
	@$(BIN)/python -m pip install --quiet --editable .
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	@echo "installing what tests and checks need into $(VENV)"
	@$(BIN)/python -m pip install --quiet --editable '.[dev]'
	@$(BIN)/python scripts/measure_children.py
	@touch $@

venv: $(VENV)/.installed-dev ## Make .venv with longwatch and the tools for work on it

demo: $(VENV)/.installed ## Watch a lively command and a stuck one
	@PATH="$(CURDIR)/$(BIN):$$PATH" sh scripts/demo.sh

test: venv ## Run all tests, and check that those of the core cover all of it
	@rm -rf .cache/coverage && mkdir -p .cache/coverage
	COVER_LONGWATCH=$(CURDIR)/tests/measure.py $(BIN)/python -m $(PYTEST) tests/core
	@$(BIN)/coverage combine --quiet
	@core=$$($(BIN)/coverage report --format=total --fail-under=$(COVER_CORE) $(CORE)) || \
	{ $(BIN)/coverage report $(CORE); exit 1; }; echo "covered: $$core % of the core ($(COVER_CORE) wanted)"
	$(BIN)/python -m $(PYTEST) --ignore=tests/core

test-long: venv ## Run the tests that take longest: whole days of daemons, batches, engines, agents
	$(BIN)/python -m $(PYTEST) -m long

# Measuring doubles what the programs under test cost, so the whole is measured on its own.
cover: venv ## Run all tests, and check what they cover (twice as long as make test)
	@rm -rf .cache/coverage && mkdir -p .cache/coverage
	COVER_LONGWATCH=$(CURDIR)/tests/measure.py $(BIN)/python -m $(PYTEST) -m 'not lab and not soak and not sdk and not engine'
	@$(BIN)/coverage combine --quiet
	@all=$$($(BIN)/coverage report --format=total --fail-under=$(COVER_ALL)) || \
	{ $(BIN)/coverage report; exit 1; }; echo "covered: $$all % of all ($(COVER_ALL) wanted)"

test-all: venv ## Run all tests on each supported Python that is here
	@failed=; for version in $(SUPPORTED); do \
	    python=$$(scripts/find-python $$version) || { echo "no Python $$version here: skipped"; continue; }; \
	    echo "Python $$version"; venv=$(VENV)-$$version; \
	    test -x $$venv/bin/python || $$python -m venv $$venv || exit; \
	    $$venv/bin/python -m pip install --quiet --editable '.[dev]' || exit; \
	    $$venv/bin/python -m $(PYTEST) || failed="$$failed $$version"; \
	done; test -z "$$failed" || { echo "failed on:$$failed"; exit 1; }

AGENTS := claude codex copilot gemini opencode pi qwen

# Three at a time: one test waits for eleven minutes, and agents in node fill a core each.
test-lab: venv ## Run real agent programs against a scripted model
	@mkdir -p .cache/agents
	@for agent in $(AGENTS); do \
	    test -e .cache/agents/.$$agent && continue; \
	    echo "installing $$agent"; \
	    $(BIN)/python tests/lab/agents.py install $$agent --into .cache/agents >>.cache/agents.log 2>&1 \
	    && touch .cache/agents/.$$agent \
	    || echo "$$agent cannot be installed here, so its tests are skipped (see .cache/agents.log)"; \
	done
	$(BIN)/python -m pytest -m lab -rs -n 3 --dist worksteal tests/lab

SDKS := $(VENV)-sdks

$(SDKS)/.installed: pyproject.toml tests/sdks/requirements.txt
	@test -x $(SDKS)/bin/python || $(PYTHON) -m venv $(SDKS)
	@echo "installing agent SDKs into $(SDKS)"
	@$(SDKS)/bin/python -m pip install --quiet --editable . --requirement tests/sdks/requirements.txt
	@touch $@

# `-o pythonpath`: one SDK is called agents, and so is a module of the lab.
test-sdks: $(SDKS)/.installed ## Guard streams of real agent SDKs with their own test doubles
	LONGWATCH_SDKS=1 $(SDKS)/bin/python -m pytest -m sdk -o pythonpath=tests tests/sdks

ENGINES := $(VENV)-engines

$(ENGINES)/.installed: pyproject.toml
	@test -x $(ENGINES)/bin/python || $(PYTHON) -m venv $(ENGINES)
	@echo "installing ray into $(ENGINES)"
	@$(ENGINES)/bin/python -m pip install --quiet --editable '.[all,ray]' 'pytest>=8.3' 'pytest-timeout>=2.3' \
	    'hypothesis>=6.120'
	@touch $@

# One after the other: a cluster on loopback takes a gigabyte, and a frozen node all patience.
test-engines: $(ENGINES)/.installed ## Run items on the local engine and on a Ray cluster of three nodes on loopback
	LONGWATCH_ENGINES=1 $(ENGINES)/bin/python -m pytest -m 'engine or not engine' tests/engines

soak: venv ## Repeat the torture tests a hundred times under load
	$(BIN)/python -m $(PYTEST) -m soak --timeout 1800

lint: venv ## Check style, types, and who imports whom
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python scripts/reference.py --check

format: venv ## Let the formatter and the fixer change the files
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: venv ## Measure an installed wheel against its peers, and print ratios
	@rm -rf dist
	@$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist .
	@test -x $(VENV)-bench/bin/python || $(PYTHON) -m venv $(VENV)-bench
	@$(VENV)-bench/bin/python -m pip install --quiet "$$(ls dist/*.whl)[all]" trio
	@$(VENV)-bench/bin/python -m pip install --quiet --no-deps --force-reinstall dist/*.whl
	$(VENV)-bench/bin/python -m bench $(ARGS)

capabilities: venv ## List capability rows and faults without a test
	@$(BIN)/python scripts/capabilities.py

clean: ## Remove all that was made here
	rm -rf $(VENV) $(VENV)-* dist build htmlcov .cache .mypy_cache .ruff_cache .hypothesis \
	    .import_linter_cache
	find . -name __pycache__ -prune -exec rm -rf {} +
