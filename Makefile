# Every target sets up all it needs, in an environment of its own that is made again only when what it holds changes.

PYTHON ?=
VENV ?= .venv
BIN := $(VENV)/bin
DEMO := $(VENV)/.demo
READY := $(VENV)/.ready
PARALLEL := -n 2 --dist worksteal
VENV_IN = test -x $(1)/bin/python || { python=$$(.ci/find-python $(2)) && "$$python" -m venv $(1); }
comma := ,
INSTALL := bin/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable

.PHONY: demo test lint types contract complexity unit unit-torch unit-frameworks bench bench-torch bench-peers docs clean \
  golden sweeps-torch sweeps-frameworks test-pythons test-versions test-coming-from test-schemas test-operators test-sweeps test-site \
  test-planted-numbers test-long long-torch long-frameworks seconds test-browser test-integrations test-libraries test-gpu \
  coverage contexts page check-project release test-engines bench-engines

demo: $(DEMO)
	@$(BIN)/backprobe demo

# Each part is one process, and two run at once, the longest first: with two processes for a part, each would import the
# frameworks and collect all tests. On a machine of more cores: make test WORKERS="-n 4".
test: lint contract complexity
	@$(MAKE) --no-print-directory --jobs=2 --output-sync=target unit-frameworks unit-torch types
	@echo "Left out: long tests (make test-long), the rest of the sweeps (make test-sweeps), more samples of PyTorch's operators (make test-operators)," \
	  "the site, a browser, other libraries, other Pythons (.ci/run), a GPU (make test-gpu)"

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

# the package by mypy, and what users see of it, in typing_tests, by both
types: $(READY)
	$(BIN)/mypy
	$(BIN)/pyright --pythonpath $(BIN)/python

contract: $(READY)
	$(BIN)/lint-imports --no-logo
	$(BIN)/python tools/house.py circles

# what explains has no function of radon's grade D or worse
EXPLAINING := src/backprobe/explain src/backprobe/cuts src/backprobe/remedies
complexity: $(READY)
	@! $(BIN)/radon cc --min D $(EXPLAINING) | grep . || { echo "These functions have radon's grade D or worse"; exit 1; }

# With one framework imported, numbers belong to it: the tests of all frameworks have a process of their own.
unit: $(READY)
	@$(MAKE) --no-print-directory --jobs=2 --output-sync=target unit-frameworks unit-torch

unit-torch: $(READY)
	$(BIN)/pytest $(WORKERS) -m "not gpu and not sweep and not long" --ignore=tests/frameworks

unit-frameworks: $(READY)
	$(BIN)/pytest $(WORKERS) -m "not sweep and not long" tests/frameworks

# what `make test` has left out of test functions that take long: see tests/budget.py
test-long: $(READY)
	@$(MAKE) --no-print-directory --jobs=2 --output-sync=target long-frameworks long-torch

long-torch: $(READY)
	$(BIN)/pytest $(WORKERS) -m "long and not gpu and not sweep" --ignore=tests/frameworks

long-frameworks: $(READY)
	$(BIN)/pytest $(WORKERS) -m "long and not sweep" tests/frameworks

# tests/seconds.json, by which long tests are chosen, measured anew
seconds: $(READY)
	WRITE_SECONDS=1 $(BIN)/pytest -m "not gpu and not sweep" --ignore=tests/frameworks
	WRITE_SECONDS=1 $(BIN)/pytest -m "not sweep" tests/frameworks

# what `make test` has left out of sweeps, and more of the programs that are drawn: see tests/sampled.py; SWEEPS=3 leaves
# out two of three states in which verbs leave programs of TensorFlow and JAX
test-sweeps: $(READY)
	@$(MAKE) --no-print-directory --jobs=2 --output-sync=target sweeps-frameworks sweeps-torch

SWEEPS ?= 1
sweeps-torch: $(READY)
	SWEEPS=$(SWEEPS) $(BIN)/pytest -m "not gpu and (sweep or drawn)" --ignore=tests/frameworks --ignore=tests/test_operators.py

# XLA compiles here as it does for users, which decides the last bits: see tests/frameworks/conftest.py
sweeps-frameworks: $(READY)
	XLA_FLAGS= SWEEPS=$(SWEEPS) $(BIN)/pytest -m "sweep or drawn" tests/frameworks

# explain on two thousand random programs with planted NaN, Inf and poles, over the frameworks
PLANTED ?= 700
test-planted-numbers: $(READY)
	PLANTED_NUMBERS=$(PLANTED) $(BIN)/pytest tests/test_planted_numbers.py
	PLANTED_NUMBERS=$(PLANTED) $(BIN)/pytest tests/frameworks/test_planted_numbers_frameworks.py

# every schema that is used again compared with its log, read anew: see docs/design/017-tracing.md
test-schemas: $(READY)
	COMPARE_SCHEMAS=1 $(BIN)/pytest $(PARALLEL) -m "not gpu" --ignore=tests/frameworks

# all of PyTorch's operators, with more samples than the one that `make test` takes of most
SAMPLES ?= 10
test-operators: $(READY)
	OPERATOR_SAMPLES=$(SAMPLES) $(BIN)/pytest $(PARALLEL) tests/test_operators.py

# the tests of PyTorch alone under coverage, long ones too, on a Python whose monitoring costs little: they run at least
# so many percent of the lines that need no other framework; with ONE_IN=3 every third test alone runs
COVERED ?= 87
coverage: .venv-python3.12/.ready
	.venv-python3.12/bin/coverage erase
	.venv-python3.12/bin/coverage run -m pytest $(PARALLEL) -m "not gpu and not sweep and not all_frameworks" \
	  --ignore=tests/frameworks
	.venv-python3.12/bin/coverage combine --quiet
	@echo "Lines that were run, in percent, of which $(COVERED) are the least:"
	@.venv-python3.12/bin/coverage report --omit "*/tensorflow/*,*/jax/*" --precision 1 --format total --fail-under $(COVERED)

# which tests of PyTorch run which lines: what tools/mutants.py chooses tests by
contexts: .venv-python3.12/.ready
	PYTHONPATH=tools .venv-python3.12/bin/pytest -p contexts -m "not gpu and not sweep and not all_frameworks" \
	  --ignore=tests/frameworks

# the sentences of tests/golden as they are now, after a change that is wanted: their diff is reviewed
golden: $(READY)
	WRITE_GOLDEN=1 $(BIN)/pytest $(WORKERS) $$(grep -l "^from goldens" tests/test_*.py)

# the site is built, and its pages are read
test-site: $(READY)
	$(BIN)/pytest tests/site

# the tables of PyTorch alone, or some of them: make bench-torch TABLES="small layers"
bench-torch: $(READY)
	$(BIN)/python bench/probe.py $(TABLES)

# all of it: about a quarter of an hour on a machine with nothing else to do
bench: $(READY)
	$(BIN)/python bench/importing.py
	$(BIN)/python bench/installed.py
	$(BIN)/python bench/first_use.py
	$(BIN)/python bench/probe.py
	$(BIN)/python bench/empty_block.py
	$(BIN)/python bench/probe_tensorflow.py
	$(BIN)/python bench/probe_jax.py
	$(BIN)/python bench/guard.py
	$(BIN)/python bench/attribute.py
	$(BIN)/python bench/curvature.py
	$(BIN)/python bench/per_sample.py
	$(BIN)/python bench/memory_of_steps.py
	$(BIN)/python bench/memory_frameworks.py
	$(BIN)/python bench/replay.py
	$(BIN)/python bench/watch.py
	$(BIN)/python bench/watch_jax.py
	$(BIN)/python bench/watch_long.py
	$(BIN)/python bench/runs.py
	$(BIN)/python bench/ranks.py
	$(BIN)/python bench/viewing.py
	$(BIN)/python bench/alerts.py
	$(BIN)/python bench/draw.py
	$(BIN)/python bench/explain.py
	$(BIN)/python bench/explain_call.py
	$(BIN)/python bench/printing.py
	$(BIN)/python bench/diff.py
	$(BIN)/python bench/diff_saved.py

# others that give gradients inside a model, asked for the same: each in an environment and a process of its own
PEERS := torchlens==2.36.1 nnsight==0.8.1
bench-peers: $(READY) $(foreach peer,$(PEERS),.venv-$(firstword $(subst ==, ,$(peer)))/.peer)
	PYTHONPATH=bench $(BIN)/python -m peers.with_backprobe
	PYTHONPATH=bench .venv-torchlens/bin/python -m peers.with_torchlens || echo "TorchLens failed: its error is above"
	PYTHONPATH=bench .venv-nnsight/bin/python -m peers.with_nnsight || echo "nnsight failed: its error is above"

.venv-%/.peer: constraints.txt Makefile
	@$(call VENV_IN,.venv-$*,$(PYTHON))
	.venv-$*/bin/pip install --quiet --disable-pip-version-check --constraint constraints.txt \
	  $(filter $*==%,$(PEERS)) torch transformers
	touch $@

# A warning is an error, and all pages are read each time so that none is missed. What the build and the cells' kernels
# have to say is shown only where it fails.
docs: $(READY)
	@mkdir -p docs/_build
	@$(BIN)/sphinx-build -q -E -W --keep-going docs docs/_build/html >docs/_build/log 2>&1 || (cat docs/_build/log; exit 1)
	@echo "The site is at file://$(CURDIR)/docs/_build/html/index.html"

# all tests that need no framework but PyTorch, on every Python that is supported: one that is not installed is an error
PYTHONS ?= 3.11 3.12 3.13
test-pythons: $(PYTHONS:%=test-python-%)

test-python-%: .venv-python%/.ready
	.venv-python$*/bin/pytest $(PARALLEL) -m "not gpu and not all_frameworks" --ignore=tests/frameworks

# of these, the tests of what differs between Pythons: the source text and bytecode of programs, and who reads them
test-source-%: .venv-python%/.ready
	.venv-python$*/bin/pytest $(PARALLEL) tests/test_source*.py tests/test_bytecode.py tests/test_block*.py \
	  tests/test_script.py tests/test_explain*.py tests/test_field.py

.PRECIOUS: .venv-python%/.ready
.venv-python%/.ready: pyproject.toml constraints.txt
	@$(call VENV_IN,.venv-python$*,$*)
	.venv-python$*/$(INSTALL) '.[test]'
	touch $@

# the releases of tests/versions/releases.toml, or some: make test-versions RELEASES="torch-2.6 oldest". Each has an
# environment of its own, of at most 12 GB, which is removed before the next one; the results make a table in the docs.
# RELEASES="--again torch-2.6" runs the files in which tests had failed.
RELEASES ?=
test-versions:
	$$(.ci/find-python $(or $(PYTHON),3.11)) tests/versions/run.py $(RELEASES)
	$$(.ci/find-python $(or $(PYTHON),3.11)) tests/libraries/page.py

# the viewer and the pages that bp.draw writes, opened in Debian's Chromium: recordings of PyTorch, where PyTorch is not
# installed; Node bundles the viewer's page anew, which must give what is there
test-browser: $(READY) tools/page/node_modules
	@command -v chromium >/dev/null || { echo "Chromium is missing. As root: apt-get install -y chromium"; exit 1; }
	@$(MAKE) --no-print-directory .venv-browser/.ready
	$(BIN)/python tests/browser/recorded.py .venv-browser/recorded
	TRAINER=$(BIN)/python RECORDED=.venv-browser/recorded .venv-browser/bin/pytest --confcutdir=tests/browser tests/browser

.venv-browser/.ready: pyproject.toml constraints.txt
	@$(call VENV_IN,.venv-browser,$(PYTHON))
	.venv-browser/$(INSTALL) . playwright pytest
	touch $@

# the viewer's page, bundled anew after a change of its sources; Node and npm are needed for that alone
page: $(READY) tools/page/node_modules
	$(BIN)/python tools/page/build.py

tools/page/node_modules: tools/page/package.json
	npm --prefix tools/page ci --silent
	touch $@

# the libraries that train models, and some that few people use: in an environment of their own, since `make test` needs
# none of them
LIBRARIES := diffrax dm-haiku entmax gpytorch jax opacus peft snntorch tensordict torch_geometric torchopt
test-integrations: $(READY) .venv-integrations/.ready
	KERAS_BACKEND=torch .venv-integrations/bin/pytest -W default tests/integrations
	KERAS_BACKEND=tensorflow $(BIN)/pytest -W default tests/integrations/test_keras.py

.venv-integrations/.ready: pyproject.toml constraints.txt
	@$(call VENV_IN,.venv-integrations,$(PYTHON))
	.venv-integrations/$(INSTALL) . torch transformers accelerate lightning keras pyarrow pandas polars matplotlib pytest \
	  tensorboard wandb mlflow-skinny $(LIBRARIES)
	touch $@

# engines that read runs and run experiments: DuckDB, Spark (which needs Java 17), Dask, Ray, submitit; and processes that
# run programs of JAX and TensorFlow, whose tests have a process of their own
OF_FRAMEWORKS := tests/engines/test_executors_frameworks.py
test-engines: .venv-engines/.ready
	.venv-engines/bin/pytest -W default --confcutdir=tests/engines tests/engines --ignore=$(OF_FRAMEWORKS)
	.venv-engines/bin/pytest -W default --confcutdir=tests/engines $(OF_FRAMEWORKS)

bench-engines: .venv-engines/.ready
	.venv-engines/bin/python bench/sql.py
	.venv-engines/bin/python bench/executors.py

.venv-engines/.ready: pyproject.toml constraints.txt Makefile
	@$(call VENV_IN,.venv-engines,$(PYTHON))
	.venv-engines/$(INSTALL) '.[sql]' torch cloudpickle dask distributed ray submitit pyspark pandas pytest \
	  tensorflow jax equinox flax
	touch $@

# Libraries that do unusual things with gradients, a row of docs/libraries.md each. A group is a folder of tests/libraries
# with an environment of its own, so that pins never fight: make test-libraries GROUP="gp graphs"
GROUP ?= $(patsubst tests/libraries/%/requirements.txt,%,$(wildcard tests/libraries/*/requirements.txt))
test-libraries: $(GROUP:%=test-library-group-%)

test-library-group-%: .venv-libraries-%/.ready
	.venv-libraries-$*/bin/pytest -W default tests/libraries/$*

.PRECIOUS: .venv-libraries-%/.ready
.venv-libraries-%/.ready: tests/libraries/%/requirements.txt pyproject.toml
	@$(call VENV_IN,.venv-libraries-$*,$(PYTHON))
	.venv-libraries-$*/bin/pip install --quiet --disable-pip-version-check --editable . pytest --requirement $<
	touch $@

# pairs of lines in other tools and in ours, which give the same numbers: each tool in an environment of its own
TOOLS := anomaly=torch backpack=backpack-for-pytorch==1.7.1 captum=captum==0.9.0 hooks=torch nnsight=nnsight==0.8.1 \
  torchlens=torchlens==2.36.1 transformerlens=transformer-lens==4.3.0 dashboards=tensorboard,wandb
test-coming-from: $(foreach tool,$(TOOLS),coming-from-$(firstword $(subst =, ,$(tool))))

coming-from-%: .venv-coming-from-%/.ready
	.venv-coming-from-$*/bin/python tests/coming_from/pairs.py $*

.PRECIOUS: .venv-coming-from-%/.ready
.venv-coming-from-%/.ready: constraints.txt pyproject.toml
	@$(call VENV_IN,.venv-coming-from-$*,$(PYTHON))
	.venv-coming-from-$*/$(INSTALL) . torch $(subst $(comma), ,$(patsubst $*=%,%,$(filter $*=%,$(TOOLS))))
	touch $@

# the files of the project that no program of its own reads: workflows, forms, citation, fragments; and the spelling
SCHEMA := .venv-project/bin/check-jsonschema --quiet --builtin-schema
check-project: .venv-project/.ready
	$(SCHEMA) vendor.github-workflows .github/workflows/*.yml
	$(SCHEMA) vendor.dependabot .github/dependabot.yml
	$(SCHEMA) vendor.github-issue-config .github/ISSUE_TEMPLATE/config.yml
	$(SCHEMA) vendor.github-issue-forms $(filter-out %/config.yml,$(wildcard .github/ISSUE_TEMPLATE/*.yml))
	$(SCHEMA) vendor.citation-file-format CITATION.cff
	.venv-project/bin/pre-commit validate-config
	.venv-project/bin/towncrier build --draft --version $(VERSION) >/dev/null
	git ls-files | xargs .venv-project/bin/codespell

# The fragments of the changelog move into it; sdist and wheel are built and checked; and the wheel, in an environment
# where nothing else was ever installed, runs what the README shows. What is left to do by hand is said at the end.
VERSION = $(shell sed -n 's/^__version__ = "\(.*\)"/\1/p' src/backprobe/__init__.py)
WHEEL = dist/backprobe-$(VERSION)-py3-none-any.whl
release: .venv-project/.ready
	@test -z "$(wildcard changelog.d/*.*.md)" || .venv-project/bin/towncrier build --yes --version $(VERSION)
	grep "^## $(VERSION) " CHANGELOG.md
	rm -rf dist .venv-release
	.venv-project/bin/pyproject-build --quiet
	.venv-project/bin/twine check --strict dist/*
	.venv-project/bin/check-wheel-contents $(WHEEL)
	@$(call VENV_IN,.venv-release,$(PYTHON))
	.venv-release/bin/pip install --quiet --disable-pip-version-check --constraint constraints.txt \
	  '$(WHEEL)[demo]' mypy
	env -u PYTHONPATH .venv-release/bin/python -P tests/readme.py
	.venv-release/bin/mypy --strict --config-file= typing_tests/torch_programs.py
	@echo "dist has $(VERSION), ready to be published. Commit CHANGELOG.md and changelog.d, and tag that commit v$(VERSION)."

PROJECT_TOOLS := build check-jsonschema check-wheel-contents codespell pre-commit towncrier twine
.venv-project/.ready: constraints.txt Makefile
	@$(call VENV_IN,.venv-project,$(PYTHON))
	.venv-project/bin/pip install --quiet --disable-pip-version-check --constraint constraints.txt $(PROJECT_TOOLS)
	touch $@

# on a machine with a CUDA device, in an environment that has PyTorch with CUDA
test-gpu:
	$(or $(PYTHON),python3) -m pytest -m gpu

# the demo needs PyTorch and transformers alone; what the tests need is added to the same environment
$(DEMO): pyproject.toml constraints.txt
	@$(call VENV_IN,$(VENV),$(PYTHON))
	$(VENV)/$(INSTALL) '.[demo]'
	touch $@

$(READY): pyproject.toml constraints.txt
	@$(call VENV_IN,$(VENV),$(PYTHON))
	$(VENV)/$(INSTALL) '.[dev]'
	touch $(DEMO) $@

clean:
	rm -rf .venv .venv-* .mypy_cache .ruff_cache .hypothesis .import_linter_cache docs/_build dist
