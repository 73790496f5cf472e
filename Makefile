# make demo    install into .venv and run the whole job on the bundled sample: no key, no network after the install
# make test    the same with the development extras, then the tests (those that need an engine skip without one)
# make test-all  and the slow ones
# make check   lint, format, types, and the direction of imports
PYTHON ?= python3
# Three on two cores, because many tests wait. In the order of the files: the slowest lie in the middle, so that no core
# waits for another at the end.
SPREAD := -n 3 --dist loadfile --no-loadscope-reorder
PYTEST_ARGS ?= $(SPREAD) -m "not slow"
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
# As pip does for a package that is not editable: what runs inside sandboxes cannot write its own byte code.
COMPILE = $(BIN)/python -m compileall -q scaffold/execcritic_scaffold/inject

.PHONY: demo install dev test test-all check clean

demo: install
	$(BIN)/execcritic demo

install: $(VENV)/.installed
dev: $(VENV)/.installed-dev

test: dev
	$(BIN)/python -m pytest $(PYTEST_ARGS)

test-all: dev
	$(BIN)/python -m pytest $(SPREAD)

check: dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed: make PYTHON=python3.12" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; }

$(VENV)/.installed: pyproject.toml | $(BIN)/python
	$(PIP) -e .
	$(COMPILE)
	touch $@

$(VENV)/.installed-dev: pyproject.toml | $(BIN)/python
	$(PIP) -e '.[dev]'
	$(COMPILE)
	touch $(VENV)/.installed $@
