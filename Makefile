# netgain: two commands. `make serve` runs the default model on http://127.0.0.1:8000,
# `make test` runs the suite. Both set up .venv first and do nothing twice.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
ARGS ?=
PIP_ARGS ?=
CPU := src/netgain/ops/cpu
CPP := $(wildcard $(CPU)/native/*.h $(CPU)/native/*.cpp)
CPP_TESTS := $(wildcard tests/ops/*.cpp tests/ops/*/*.cpp tests/ops/*/*.h)
HOOK := hatch_build.py $(CPU)/build.py $(CPU)/sources.py

.DEFAULT_GOAL := help
.PHONY: help install native pull serve test fuzz-http lint format bench-peers bench-tools docs clean

help:
	@echo "make serve    install, fetch the default model, serve on http://127.0.0.1:8000"
	@echo "              (make serve ARGS='--port 9000' passes arguments on; see netgain serve --help)"
	@echo "              (make install PIP_ARGS='--index-url ...' chooses where packages come from)"
	@echo "make test     install and run the tests"
	@echo "make fuzz-http   5,000 generated requests and more (ten minutes) against a tiny model; fails for any server error"
	@echo "make docs     write the tables in docs/ that are made from the code"
	@echo "make lint     ruff, mypy --strict, import-linter; warnings and format of the C++"
	@echo "make format   let ruff and clang-format format and fix what they can"
	@echo "make native   compile the native CPU library again (CXX=... chooses the compiler)"
	@echo "make bench-peers   netgain beside llama.cpp, OpenVINO, vLLM and transformers, each in its own"
	@echo "              environment, made on first use (docs/benchmarks.md); ARGS='--quick' for a first look"
	@echo "make bench-tools   netgain's load generator beside vllm bench serve and guidellm, each in its own"
	@echo "              environment; fails where a common metric differs by more than 2 %"
	@echo "make pull     fetch the default model, unless it is there"
	@echo "make clean    remove .venv, what was compiled, and caches"

install: $(VENV)/.installed $(VENV)/.native

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "netgain needs Python 3.11 or newer; set PYTHON=/path/to/python3.11"; exit 1; }
	@$(PYTHON) -m venv $(VENV) 2>/dev/null \
		|| { rm -rf $(VENV); $(PYTHON) -m pip install --user --quiet virtualenv && $(PYTHON) -m virtualenv --quiet $(VENV); } \
		|| { echo "cannot make a virtual environment: install your system's python3-venv package"; exit 1; }

$(VENV)/.installed: pyproject.toml constraints.txt hatch_build.py | $(VENV)/bin/python
	@echo "installing into $(VENV) and compiling the CPU kernels (once; a few minutes)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt $(PIP_ARGS) -e '.[dev]'
	@touch $@

# The build hook has compiled it already, unnoticed by pip: this says how that went, and compiles what
# changed since. Without a compiler netgain still works, so this does not fail then.
$(VENV)/.native: $(VENV)/.installed $(CPP) $(HOOK)
	@$(BIN)/python -m netgain.ops.cpu.build || true
	@touch $@

native: $(VENV)/.installed
	@$(BIN)/python -m netgain.ops.cpu.build
	@touch $(VENV)/.native

pull: install
	@$(BIN)/netgain pull

serve: install
	@$(BIN)/netgain serve $(ARGS)

test: install
	@$(BIN)/netgain pull
	@$(BIN)/python -m pytest $(ARGS)

fuzz-http: install
	@$(BIN)/python -m tests.api.http_fuzzing $(ARGS)

docs: install
	@$(BIN)/python -m netgain.server.reference docs/http-api.md
	@$(BIN)/python -m netgain.lab.workloads.reference docs/workloads.md

lint: install
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/clang-format --dry-run --Werror $(CPP) $(CPP_TESTS)
	@$(BIN)/python -m netgain.ops.cpu.build --check

format: install
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .
	@$(BIN)/clang-format -i $(CPP) $(CPP_TESTS)

bench-peers: install
	@$(BIN)/netgain pull
	@$(BIN)/python -m benchmarks.peers --json build/peers.json $(ARGS)

bench-tools: install
	@$(BIN)/python -m benchmarks.load_tools --json build/load-tools.json $(ARGS)

clean:
	rm -rf $(VENV) build $(CPU)/native/_native.* .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
