# netgain: two commands. `make serve` runs the default model on http://127.0.0.1:8000,
# `make test` runs the suite. Both set up .venv first and do nothing twice.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
ARGS ?=
PIP_ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help install pull serve test lint format bench-peers clean

help:
	@echo "make serve    install, fetch the default model, serve on http://127.0.0.1:8000"
	@echo "              (make serve ARGS='--port 9000' passes arguments on; see netgain serve --help)"
	@echo "              (make install PIP_ARGS='--index-url ...' chooses where packages come from)"
	@echo "make test     install and run the tests"
	@echo "make lint     ruff, mypy --strict, import-linter"
	@echo "make format   let ruff format and fix what it can"
	@echo "make bench-peers   netgain beside llama.cpp, OpenVINO, vLLM and transformers, each in its own"
	@echo "              environment, made on first use (docs/benchmarks.md); ARGS='--quick' for a first look"
	@echo "make pull     fetch the default model, unless it is there"
	@echo "make clean    remove .venv and caches"

install: $(VENV)/.installed

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "netgain needs Python 3.11 or newer; set PYTHON=/path/to/python3.11"; exit 1; }
	@$(PYTHON) -m venv $(VENV) 2>/dev/null \
		|| { rm -rf $(VENV); $(PYTHON) -m pip install --user --quiet virtualenv && $(PYTHON) -m virtualenv --quiet $(VENV); } \
		|| { echo "cannot make a virtual environment: install your system's python3-venv package"; exit 1; }

$(VENV)/.installed: pyproject.toml constraints.txt | $(VENV)/bin/python
	@echo "installing into $(VENV) (once; about a minute)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt $(PIP_ARGS) -e '.[dev]'
	@touch $@

pull: install
	@$(BIN)/netgain pull

serve: install
	@$(BIN)/netgain serve $(ARGS)

test: install
	@$(BIN)/netgain pull
	@$(BIN)/python -m pytest $(ARGS)

lint: install
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

format: install
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

bench-peers: install
	@$(BIN)/netgain pull
	@$(BIN)/python -m benchmarks.peers --json build/peers.json $(ARGS)

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
