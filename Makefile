# Everything a newcomer, a contributor and CI run. `make demo` and `make test` need nothing done before them: the first
# one makes .venv in this folder and installs into it; it is made again when pyproject.toml or constraints.txt change.
#
#   make setup PYTHON=python3.12                                       another Python (3.11 or newer)
#   make setup TORCH_INDEX=https://download.pytorch.org/whl/cpu        torch without CUDA, much smaller (Linux)
#   make setup HASHED=1                                                in a new .venv: known files only, as in CI

PYTHON ?= python3
TORCH_INDEX ?=
HASHED ?=
WORKERS ?= 2

BIN := .venv/bin
STAMP := .venv/.installed
# pip fetches the build backend into an environment of its own, which hears of constraints by these variables alone.
PINNED := PIP_CONSTRAINT=$(CURDIR)/constraints.txt PIP_BUILD_CONSTRAINT=$(CURDIR)/constraints.txt
PIP := $(BIN)/pip --disable-pip-version-check install --quiet --quiet --no-compile

# With HASHED=1 pip first installs every pinned package by the hash of its file, and what follows may download nothing
# but torch. Torch has no hash: its builds (CPU, CUDA, a local one) share one version and no byte; it comes by version.
# HASHED is not the default: it takes every extra, and knows the wheels that CI's jobs use: those of Linux x86_64 for
# Python 3.11 and 3.12.
KNOWN := $(if $(HASHED),.venv/.installed-hashed)
OFFLINE := $(if $(HASHED),--no-index --no-build-isolation)

TRITON36 := .venv/triton-3.6
SCHEMATHESIS := .venv/schemathesis
ROUTERS := .venv/routers
RAY := .venv/ray

.DEFAULT_GOAL := help
.PHONY: help setup hashes demo test long lock nightly test-triton36 test-openapi lint types imports size check bench gpu proof book \
  ray serve mutants lab-mutants clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(STAMP) ## make .venv and install everything into it

.venv/.installed-hashed: .ci/requirements-hashed.txt | $(BIN)/pip
	@echo "Installing the packages whose hash is known into .venv ..."
	@$(PIP) --no-deps --only-binary :all: --require-hashes -r $<
	@touch $@

$(BIN)/pip:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "mini_vllm needs Python 3.11 or newer, \
	$(PYTHON) is " + sys.version.split()[0] + ": try make setup PYTHON=python3.12")'
	@echo "Making .venv ..."
	@$(PYTHON) -m venv .venv

$(STAMP): pyproject.toml constraints.txt $(KNOWN) | $(BIN)/pip
	@echo "Installing torch into .venv (a few minutes the first time) ..."
	@$(PIP) -c constraints.txt $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX)) torch
	@echo "Installing mini_vllm and its tools into .venv ..."
	@$(PINNED) $(PIP) $(OFFLINE) -c constraints.txt -e '.[engine,serve,labs,dev]'
	@$(BIN)/python -m compileall -q -q -j 0 -x '/(tests?|transformers/models|babel|fontTools|sympy|testing|_inductor)/' .venv/lib || true # on all cores; pip uses one
	@touch $@

# The demo and most labs need neither PyTorch nor the tools: the bundled model then runs in NumPy.
LIGHT := .venv/.light
$(LIGHT): pyproject.toml constraints.txt | $(BIN)/pip
	@echo "Installing mini_vllm without PyTorch into .venv (some seconds) ..."
	@$(PINNED) $(PIP) -c constraints.txt -e '.[labs]'
	@touch $@

UV := .venv/uv
hashes: | $(BIN)/pip ## write .ci/requirements-hashed.txt again, after a change of constraints.txt
	@test -x $(UV)/bin/uv || $(PIP) -c constraints.txt --target $(UV) uv==0.13.9 packaging
	@sed '/^#/d; /^torch==/d' constraints.txt | $(UV)/bin/uv pip compile --quiet --universal --python-version 3.11.5 \
	  --no-deps --format pylock.toml - | PYTHONPATH=$(UV) $(BIN)/python .ci/hashes.py

demo: $(if $(wildcard $(STAMP)),$(STAMP),$(LIGHT)) ## generate text with the bundled model, offline, and see each step
	@$(BIN)/mini-vllm demo

test: $(STAMP) ## the tests that a newcomer runs (two minutes)
	@$(BIN)/pytest -q -n $(WORKERS) --dist loadfile

long: $(STAMP) ## the longer tests and the proofs of labs, of what changed
	@$(BIN)/python -m labkit.prove --changed --workers $(WORKERS)
	@$(BIN)/python tools/long_tests.py --workers $(WORKERS)

lock: $(STAMP) ## the same, and write that it was green: proof/lock.json, tools/long_tests.json
	@$(BIN)/python -m labkit.prove --changed --write --workers $(WORKERS)
	@$(BIN)/python tools/long_tests.py --write --workers $(WORKERS)

nightly: $(STAMP) $(TRITON36)/numpy $(SCHEMATHESIS)/bin/schemathesis $(ROUTERS)/bin/smg $(RAY)/ray ## everything at full length (40 minutes)
	@.ci/nightly

$(TRITON36)/numpy: | $(STAMP)
	@$(PIP) --no-deps --target $(TRITON36) triton==3.6.0 'numpy==2.3.5'

test-triton36: $(STAMP) $(TRITON36)/numpy ## the kernels compiled for GPUs and tested at length, on Triton 3.6 (Linux)
	@PYTHONPATH=$(TRITON36) $(BIN)/pytest -q -n $(WORKERS) -m "slow or nightly" mini_vllm/attention/test_triton.py \
	  mini_vllm/attention/test_triton_engine.py tools/test_compile_kernels.py

$(SCHEMATHESIS)/bin/schemathesis: | $(STAMP)
	@$(PYTHON) -m venv $(SCHEMATHESIS)
	@$(SCHEMATHESIS)/bin/pip --disable-pip-version-check install --quiet schemathesis==4.32.5

$(ROUTERS)/bin/smg: | $(STAMP)
	@$(PYTHON) -m venv $(ROUTERS)
	@$(ROUTERS)/bin/pip --disable-pip-version-check install --quiet vllm-router==0.1.17 smg==1.13.0

ROUTER := vllm-router
cluster: $(STAMP) $(ROUTERS)/bin/smg ## two servers behind a router: make cluster ROUTER=vllm-router, or ROUTER=smg
	@PATH=$(CURDIR)/$(ROUTERS)/bin:$$PATH $(CURDIR)/$(BIN)/python examples/routers.py $(ROUTER)

$(RAY)/ray: | $(STAMP)
	@$(PIP) -c constraints.txt --target $(RAY) 'ray[data,serve]==2.60.0'

ray: $(STAMP) $(RAY)/ray ## two replicas behind Ray Serve (Linux)
	@PYTHONPATH=$(CURDIR)/$(RAY):$(CURDIR) $(BIN)/python examples/ray_serve/here.py

test-openapi: $(STAMP) $(SCHEMATHESIS)/bin/schemathesis ## the server against its own document, by schemathesis
	@$(BIN)/pytest -q -s -m nightly mini_vllm/serving/test_openapi.py

lint: $(STAMP) ## ruff: rules and format
	@$(BIN)/ruff check --output-format concise
	@$(BIN)/ruff format --check

types: $(STAMP) ## mypy --strict
	@$(BIN)/mypy

imports: $(STAMP) ## the import law; then the core with the standard library alone
	@$(BIN)/lint-imports --no-logo
	@$(BIN)/python -S -c 'import mini_vllm.scheduler, mini_vllm.observe.trace'

size: $(STAMP) ## source lines per file against their limits
	@$(BIN)/python tools/check_size.py

check: lint types imports size test ## everything a change must pass

gpu: ## on a machine with a GPU: the kernels' tests compiled, and the GPU's benchmarks
	@benchmarks/gpu.sh

bench: $(STAMP) ## run the benchmarks
	@set -e; for script in benchmarks/bench_*.py; do echo "== $$script"; $(BIN)/python "$$script"; done

proof: $(STAMP) ## prove the labs' graders
	@$(BIN)/python -m labkit.prove --workers $(WORKERS)

# The book needs no torch, so it has a stamp of its own; what runs in its pages is bundled by Node.
BOOK := .venv/.installed-book
WEB := tools/book/web/dist/book.js
MKDOCS := NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs

$(BOOK): pyproject.toml constraints.txt $(KNOWN) | $(BIN)/pip
	@$(PINNED) $(PIP) $(OFFLINE) -c constraints.txt -e '.[docs]'
	@touch $@

$(WEB): tools/book/web/package-lock.json tools/book/web/build.mjs $(wildcard tools/book/web/src/*) mini_vllm/observe/timeline.js
	@command -v npm > /dev/null || { echo "The book is bundled with Node.js 20 or newer, and npm is not here."; exit 1; }
	@cd tools/book/web && npm ci --silent --ignore-scripts && npm run --silent build

book: $(BOOK) $(WEB) ## build the book into site/ (needs Node.js)
	@$(BIN)/python tools/book/excerpts.py --check
	@$(BIN)/python tools/book/figures.py --check
	@$(BIN)/python tools/book/pictures --check
	@$(MKDOCS) build --strict

serve: $(BOOK) $(WEB) ## read the book on http://127.0.0.1:8000; it is built again when a chapter changes
	@$(MKDOCS) serve --dev-addr 127.0.0.1:8000

mutants: $(STAMP) ## mutation testing of the core (takes minutes to an hour)
	@CORE_EXAMPLES=10 $(BIN)/mutmut run --max-children $(WORKERS)
	@$(BIN)/mutmut results

lab-mutants: $(STAMP) ## mutation testing of the labs (minutes)
	@OMP_NUM_THREADS=1 $(BIN)/python tools/mutation/lab_mutants.py

clean: ## remove .venv, caches and what builds leave behind
	rm -rf .venv build dist site mutants tools/book/web/dist tools/book/web/node_modules
	rm -rf .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis *.egg-info
	find . -name __pycache__ -not -path './.git/*' -prune -exec rm -rf {} +
