# make run   sets everything up and makes one run      make test   lint, types and tests, within 15 minutes on 2 cores
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
TORCH ?= torch==2.13.0
SOURCES := $(wildcard cuda_ext/*)

.PHONY: run test test-slow lint gpu-test bench gpu-bench ui docs build clean

run: $(VENV)/built
	$(BIN)/foxflow run --seed 42 --quick

test: $(VENV)/built lint
	OMP_WAIT_POLICY=passive $(BIN)/python -m pytest -n 2 --dist loadfile -m "not gpu and not slow"

test-slow: $(VENV)/built
	$(BIN)/python -m pytest -m "slow and not gpu"

lint: $(VENV)/built
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

gpu-test:
	bash tests/gpu.sh

bench: $(VENV)/built
	$(BIN)/python -m benchmarks

# As gpu-test: PYTHON names an interpreter with a CUDA build of torch.
gpu-bench:
	$(PYTHON) -m benchmarks --device cuda

ui: $(VENV)/built
	$(BIN)/foxflow ui

build: $(VENV)/built

# The pinned environment first, so that the build sees the torch it will run with.
$(VENV)/ready: constraints.txt pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(PIP) install -q -c constraints.txt $(TORCH) scikit-build-core cmake ninja
	touch $@

$(VENV)/built: $(VENV)/ready $(SOURCES)
	PATH="$(CURDIR)/$(BIN):$$PATH" $(PIP) install -q -c constraints.txt --no-build-isolation -e '.[dev]'
	touch $@

docs: $(VENV)/built
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

clean:
	rm -rf build $(VENV)
