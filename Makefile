# Every target sets up all it needs, in an environment of its own that is made again only when what it holds changes.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo test lint types contract unit bench bench-peers docs test-pythons test-jax-versions test-operators test-gpu clean

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

# more samples of each of PyTorch's operators than `make test` takes
test-operators: $(READY)
	OPERATOR_SAMPLES=10 $(BIN)/pytest -n 2 tests/test_operators.py

bench: $(READY)
	$(BIN)/python bench/importing.py
	$(BIN)/python bench/probe.py
	$(BIN)/python bench/probe_tensorflow.py
	$(BIN)/python bench/probe_jax.py
	$(BIN)/python bench/draw.py

# others that give gradients inside a model, asked for the same: each in an environment and a process of its own
PEERS := torchlens==2.36.1 nnsight==0.8.1
bench-peers: $(READY) $(foreach peer,$(PEERS),.venv-$(firstword $(subst ==, ,$(peer)))/.peer)
	PYTHONPATH=bench $(BIN)/python -m peers.with_backprobe
	PYTHONPATH=bench .venv-torchlens/bin/python -m peers.with_torchlens || echo "TorchLens failed: its error is above"
	PYTHONPATH=bench .venv-nnsight/bin/python -m peers.with_nnsight || echo "nnsight failed: its error is above"

.venv-%/.peer: constraints.txt Makefile
	test -x .venv-$*/bin/python || $(PYTHON) -m venv .venv-$*
	.venv-$*/bin/pip install --quiet --disable-pip-version-check --constraint constraints.txt \
	  $(filter $*==%,$(PEERS)) torch transformers
	touch $@

# into docs/_build/html; a warning is an error, and all pages are read each time so that none is missed
docs: $(READY)
	$(BIN)/sphinx-build -q -E -W --keep-going docs docs/_build/html

# the tests that rewrite source and that watch it run, which need no framework, on every Python that is supported
PYTHONS ?= python3.11 python3.12 python3.13
test-pythons:
	for python in $(PYTHONS); do \
	  venv=.venv-$$(basename $$python); \
	  test -x $$venv/bin/pytest || ($$python -m venv $$venv && $$venv/bin/pip install --quiet --editable . pytest) || exit 1; \
	  $$venv/bin/pytest tests/test_source.py tests/test_source_events.py || exit 1; \
	done

# the JAX backend on the oldest release that it supports, and on the newest
OLDEST_JAX ?= python3.11 jax==0.4.38 jaxlib==0.4.38
NEWEST_JAX ?= python3.13 jax
test-jax-versions:
	$(MAKE) --no-print-directory test-jax-release RELEASE="$(OLDEST_JAX)" KEPT=.venv-oldest-jax
	$(MAKE) --no-print-directory test-jax-release RELEASE="$(NEWEST_JAX)" KEPT=.venv-newest-jax

test-jax-release:
	test -x $(KEPT)/bin/pytest || ($(firstword $(RELEASE)) -m venv $(KEPT) && \
	  $(KEPT)/bin/pip install --quiet --editable . pytest hypothesis $(wordlist 2,9,$(RELEASE))) || exit 1
	$(KEPT)/bin/python -c "import jax; print('JAX', jax.__version__)"
	$(KEPT)/bin/pytest --noconftest -W default tests/frameworks/test_jax_control_flow.py tests/frameworks/test_jax_random.py

# on a machine with a CUDA device, in an environment that has PyTorch with CUDA
test-gpu:
	$(PYTHON) -m pytest -m gpu

$(READY): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	touch $@

clean:
	rm -rf .venv .venv-* .mypy_cache .ruff_cache .hypothesis .import_linter_cache docs/_build
