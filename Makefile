# What a person types. `make demo` and `make test` need Python 3.11, Java 17 and Maven; all else is installed, pinned, here.

.DEFAULT_GOAL := help
.PHONY: help setup check lint unit test demo down bench
.DELETE_ON_ERROR:

SHELL := /bin/bash
PYTHON ?= python3.11
MVN ?= mvn
BIN := .venv/bin
# Spark's workers and Airflow start programs by name: ours come first.
export PATH := $(CURDIR)/$(BIN):$(PATH)

help:  ## these targets
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*##/\t/' | expand -t 10

setup: .venv/.installed .jars/.checked .jars/spark.jsa  ## install what is pinned; instant when nothing changed

check: .venv/.installed  ## lint, types and the tests that need no services, in under a minute
	@$(MAKE) --no-print-directory -j2 lint unit

lint:
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@found=$$($(BIN)/lint-imports --no-cache) || { echo "$$found" >&2; exit 1; }

unit:
	@$(BIN)/pytest -q -n 2 -m "not services"

# Whole files, in their order: what takes longest comes early, and what a file shares is started once.
test: check .jars/.checked .jars/spark.jsa  ## everything
	@$(BIN)/pytest -q -n 2 --dist loadfile --no-loadscope-reorder -m services

demo: setup  ## start the embedded stack and load sample orders, twice
	@$(BIN)/python -m penstock_stack.demo

down:  ## stop the demo's stack, leaving no process
	@if [ -x $(BIN)/penstock ]; then $(BIN)/penstock stack down; else echo "nothing is installed, so nothing runs"; fi

bench: setup .venv-bench/.installed  ## compare the speed with other tools; RECORDS=1000000 for less
	@$(BIN)/python -m bench $(if $(RECORDS),--records $(RECORDS)) $(BENCH)

.venv/.made:
	@$(PYTHON) -c 'import sys, venv; sys.exit(sys.version_info[:2] != (3, 11))' 2>/dev/null || \
	  { echo "make: Python 3.11 is missing. Next: install it as python3.11, or run make PYTHON=<its path>." >&2; exit 2; }
	@$(PYTHON) -m venv .venv
	@touch $@

.venv/.installed: .venv/.made requirements.lock requirements-uv.lock pyproject.toml
	@echo "installing the pinned packages" >&2
	@$(BIN)/python -m pip install -q --disable-pip-version-check --require-hashes -r requirements-uv.lock
	@$(BIN)/uv pip sync -q --compile-bytecode --python $(BIN)/python --require-hashes requirements.lock
	@$(BIN)/uv pip install -q --python $(BIN)/python --no-build-isolation --no-deps -e .
	@touch $@

# The other tools have an environment of their own: Penstock's holds only what Penstock needs.
.venv-bench/.installed: bench/requirements.lock | .venv/.installed
	@echo "installing the benchmark's peers" >&2
	@$(BIN)/uv venv -q --clear --python $(BIN)/python .venv-bench
	@$(BIN)/uv pip sync -q --compile-bytecode --python .venv-bench/bin/python --require-hashes bench/requirements.lock
	@touch $@

.jars/.checked: pom.xml jars.sha256 | .venv/.installed
	@{ command -v java && java -version; } >/dev/null 2>&1 || \
	  { echo "make: Java is missing. Next: install Java 17 and put it on PATH." >&2; exit 2; }
	@command -v $(MVN) >/dev/null || { echo "make: Maven is missing. Next: install it and put mvn on PATH." >&2; exit 2; }
	@echo "fetching the pinned jars" >&2
	@rm -rf target/jars
	@for use in broker spark bench; do \
	  $(MVN) -q -B -Dstyle.color=never -P $$use -Djars=target/jars dependency:copy-dependencies 2>&1 | sed 's/\x1b\[0m//g' >&2; \
	  [ $${PIPESTATUS[0]} = 0 ] || exit 2; done
	@# Only jars that were checked ever stand where they are used.
	@$(BIN)/python -m penstock_stack.jars target/jars
	@rm -rf .jars && mv target/jars .jars
	@touch $@

# Spark's drivers start in half the time with it, and start without it too.
.jars/spark.jsa: .jars/.checked
	@echo "preparing a fast start of Spark" >&2
	@$(BIN)/python -m penstock.spark.class_archive || true
