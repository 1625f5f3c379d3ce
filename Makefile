# The commands of this project. `make demo` and `make test` need Python 3.11, Java 17 and Maven; `make setup` installs
# everything else, pinned, inside the checkout.

.DEFAULT_GOAL := help
.PHONY: help setup check lint unit test fuzz memory chromium browser demo down bench wheel
.DELETE_ON_ERROR:

SHELL := /bin/bash
PYTHON ?= python3.11
MVN ?= mvn
# `make CARGO=` leaves the record path in Rust out.
CARGO ?= cargo
BIN := .venv/bin
# Spark's workers and Airflow start programs by name: the programs of this environment come first.
export PATH := $(CURDIR)/$(BIN):$(PATH)

help:  ## list these targets
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*##/\t/' | expand -t 10

setup: .venv/.installed .venv/.native .jars/.checked .jars/spark.jsa  ## install the pinned packages and jars; instant when nothing changed

check: .venv/.installed .venv/.native  ## run lint, types and the tests that need no services, in under a minute
	@$(MAKE) --no-print-directory -j2 lint unit

lint:
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@found=$$($(BIN)/lint-imports --no-cache) || { echo "$$found" >&2; exit 1; }
	@if [ -e .venv/.native ]; then \
	  cd native && $(CARGO) fmt --check && $(CARGO) clippy -q --release --locked -- -D warnings; fi

unit:
	@$(BIN)/pytest -q -n 2 -m "not services"

# Each process runs whole files, in their order: the longest tests start early, and a file starts its services once. The
# files that share an Airflow run in one process.
test: check .jars/.checked .jars/spark.jsa chromium  ## run lint, types and all tests
	@$(BIN)/pytest -q -n 2 --dist loadfile --no-loadscope-reorder -m services

fuzz: .venv/.native  ## compare both record paths on 5 million records; FUZZ="--records 200000 --seed 1" for others
	@cd tests && PYTHONPATH=../include ../$(BIN)/python record_differences.py $(FUZZ)

memory: .venv/.native  ## read by Rust under valgrind: no fault in the crate or in librdkafka
	@cd tests && PYTHONPATH=../include ../$(BIN)/python memory_check.py

# Root installs the browser of Debian where it is missing.
chromium:
	@command -v chromium chromedriver >/dev/null || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && \
	    apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium chromium-driver >/dev/null; } || \
	  { echo "make: Chromium is missing. Next: install chromium and chromedriver; on Debian as root:" \
	         "apt-get install chromium chromium-driver" >&2; exit 2; }

browser: setup chromium  ## run the tests in a real browser; PICTURES=docs/images makes the pictures of the docs
	@$(if $(PICTURES),PICTURES=$(abspath $(PICTURES))) $(BIN)/pytest -q -m browser

demo: setup  ## start the embedded stack and load sample orders, twice
	@$(BIN)/python -m penstock_stack.demo

down:  ## stop the demo's stack with all its processes
	@if [ -x $(BIN)/penstock ]; then $(BIN)/penstock stack down; else echo "Penstock is not installed here, so no stack runs"; fi

bench: setup .venv-bench/.installed  ## compare the speed with other tools; RECORDS=1000000 for less
	@$(BIN)/python -m bench $(if $(RECORDS),--records $(RECORDS)) $(BENCH)

# setuptools would pack files of an earlier build: build/ is removed first.
wheel: .venv/.installed .venv/.native  ## build the wheel of the package into dist/, and that of the record path in Rust
	@rm -rf build dist
	@$(BIN)/uv build -q --wheel --no-build-isolation --python $(BIN)/python
	@if [ -e .venv/.native ]; then cp target/native/*.whl dist/; fi

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

# The record path in Rust is optional: without it the path in Python takes all records.
.venv/.native: .venv/.installed native/Cargo.toml native/Cargo.lock native/pyproject.toml $(wildcard native/src/*.rs)
	@if [ -z "$(CARGO)" ] || ! command -v $(CARGO) >/dev/null; then rm -f $@; \
	  echo "Rust is missing: the record path in Python takes all records" >&2; exit 0; fi; \
	echo "building the record path in Rust" >&2; rm -rf target/native; \
	found=$$($(BIN)/maturin build --release --locked -m native/Cargo.toml -i $(BIN)/python -o target/native 2>&1) || \
	  { echo "$$found" >&2; exit 2; }; \
	$(BIN)/uv pip install -q --python $(BIN)/python --no-deps --reinstall target/native/*.whl && touch $@

# The other tools get an environment of their own: Penstock's environment holds only packages that Penstock needs.
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
	@# .jars only ever holds jars whose checksums were checked.
	@$(BIN)/python -m penstock_stack.jars target/jars
	@rm -rf .jars && mv target/jars .jars
	@touch $@

# With this archive, and the home of Spark beside it, Spark's drivers start in half the time; they start without it too.
.jars/spark.jsa: .jars/.checked include/penstock/spark/class_archive.py
	@echo "preparing a fast start of Spark" >&2
	@$(BIN)/python -m penstock.spark.class_archive || true
