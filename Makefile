# Every target sets up all it needs, in an environment of its own that is made again only when what it holds changes.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo test lint types contract unit bench docs test-pythons test-gpu clean

demo: $(READY)
	@$(BIN)/backprobe demo

test: lint types contract unit

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/mypy

contract: $(READY)
	$(BIN)/lint-imports --no-logo

unit: $(READY)
	$(BIN)/pytest -n 2 -m "not gpu" --ignore=tests/frameworks
	$(BIN)/pytest -n 2 tests/frameworks  # in a process of their own: with one framework imported, numbers belong to it

bench: $(READY)
	$(BIN)/python bench/probe.py
	$(BIN)/python bench/draw.py

# into docs/_build/html; a warning is an error, and all pages are read each time so that none is missed
docs: $(READY)
	$(BIN)/sphinx-build -q -E -W --keep-going docs docs/_build/html

# the tests that rewrite source, which need no framework, on every Python that is supported
PYTHONS ?= python3.11 python3.12 python3.13
test-pythons:
	for python in $(PYTHONS); do \
	  venv=.venv-$$(basename $$python); \
	  test -x $$venv/bin/pytest || ($$python -m venv $$venv && $$venv/bin/pip install --quiet --editable . pytest) || exit 1; \
	  $$venv/bin/pytest tests/test_source.py || exit 1; \
	done

# on a machine with a CUDA device, in an environment that has PyTorch with CUDA
test-gpu:
	$(PYTHON) -m pytest -m gpu

$(READY): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	touch $@

clean:
	rm -rf .venv .venv-* .mypy_cache .ruff_cache .hypothesis .import_linter_cache docs/_build
