# Everything a contributor runs. Each target first brings .venv up to date, and nothing outside this
# folder is changed.

PYTHON ?= python3
PYTEST_ARGS ?=

BIN := .venv/bin
STAMP := .venv/.setup-stamp
BENCH_STAMP := .venv/.bench-stamp

export PIP_DISABLE_PIP_VERSION_CHECK := 1
# pip's default cache is in the home folder.
export PIP_CACHE_DIR := $(CURDIR)/.venv/.pip-cache

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup start test test-long check fix bench bench-check clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(STAMP) ## Make .venv with the package and its tools

$(STAMP): pyproject.toml constraints.txt
	@echo "Setting up .venv (a minute or so the first time) ..."
	@$(PYTHON) -m venv .venv
	@$(BIN)/pip install --quiet -c constraints.txt -e '.[agent,embed,guard,postgres,dev]'
	@touch $@

$(BENCH_STAMP): $(STAMP)
	@echo "Installing the peers that the benchmarks compare with ..."
	@$(BIN)/pip install --quiet -c constraints.txt -e '.[agent,embed,guard,postgres,dev,bench]'
	@touch $@

start: $(STAMP) ## Chat with an agent that remembers: no key and no server needed
	@$(BIN)/recollect init --if-missing playground
	@$(BIN)/recollect chat --config playground

test: $(STAMP) ## Run all tests on SQLite and PostgreSQL (PYTEST_ARGS="-k name" for some)
	$(BIN)/pytest -n 2 --dist loadgroup $(PYTEST_ARGS)

test-long: export RECOLLECT_TEST_PROFILE := long
test-long: $(STAMP) ## Run the tests that take long too, and every property test on many more examples
	$(BIN)/pytest -n 2 --dist loadgroup --timeout 900 $(PYTEST_ARGS)

check: $(STAMP) ## Check format, lint, types and the direction of imports
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/basedpyright
	$(BIN)/pytest -q tests/house/test_import_direction.py

fix: $(STAMP) ## Repair lint where possible, format, and show what is left
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .
	$(BIN)/ruff check .

bench: $(BENCH_STAMP) ## Run every benchmark
	@$(BIN)/python -m benchmarks all

bench-check: $(STAMP) ## Run the benchmarks' own tests: that each works, not how fast anything is
	$(BIN)/pytest $(PYTEST_ARGS) benchmarks/tests

clean: ## Remove .venv, caches and build results
	rm -rf .venv .ruff_cache .pytest_cache .hypothesis .coverage build dist
	find src tests benchmarks -type d -name __pycache__ -prune -exec rm -rf {} +
