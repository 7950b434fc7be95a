# Each target sets up what it needs by itself, on a machine with Python 3.11+ and make (and apt, as root or with sudo).
# Variables: VENV (the virtual environment), ARGS (more arguments for the command that a target runs), JOBS (processes
# that run tests).
VENV ?= .venv
ARGS ?=
# Three processes for two processors, eight at most, as a test waits for half of its time. Each has servers of its own.
JOBS ?= $(shell n=$$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2); n=$$((n + n / 2)); [ $$n -lt 8 ] && echo $$n || echo 8)
# Tests that start no server: core and client machines, checks, scenarios.
UNIT := tests/core tests/scenarios tests/analytics/test_checks.py tests/client/test_copies.py \
	tests/client/test_delivery.py tests/client/test_embedded.py tests/client/test_reading_time.py
BIN := $(VENV)/bin
READY := $(VENV)/.inorder-ready
# The web UI's source, folders too: a file that was removed also means a new build.
WEBUI_SOURCE := $(shell find webui/app -name node_modules -prune -o -print)
WEBUI := webui/inorder_webui/static/.built

.DEFAULT_GOAL := help
# Each process of a test would read all modules as source again.
unexport PYTHONDONTWRITEBYTECODE
.PHONY: help demo dist test unit test-long test-webui webui screenshots check format bench bench-check mutants clean broker servers

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 12

demo: $(READY) $(WEBUI) broker ## two bridged MQTT brokers, without and then with inorder
	$(BIN)/inorder demo $(ARGS)

test: check test-webui servers ## check, then all tests except the long ones
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal $(ARGS)

unit: $(READY) ## core, client machines, checks, scenarios: no server, no lint, seconds
	$(BIN)/python -m pytest -q -p no:schemathesis -n $(JOBS) --dist worksteal $(ARGS) $(UNIT)

test-long: $(READY) servers ## the long tests alone
	$(BIN)/python -m pytest -m long $(ARGS)

test-webui: $(WEBUI) ## the web UI's formatting, types and unit tests
	scripts/setup npm $(VENV) --silent run check
	scripts/setup npm $(VENV) --silent test

webui: $(WEBUI) ## build the web UI into the Python package

screenshots: $(READY) $(WEBUI) servers ## every page of the web UI, in both themes, into build/screenshots
	$(BIN)/python -m tests.webui.screenshots build/screenshots

check: $(READY) ## lint, formatting, types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(READY) ## put the code into shape
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

dist: $(READY) $(WEBUI) ## source distribution and wheel, with the web UI in them, into dist
	rm -rf dist
	$(BIN)/python -m build --outdir dist

bench: $(READY) servers ## measure beside what would be used without inorder, on the same brokers
	$(BIN)/inorder bench $(ARGS)

bench-check: $(READY) ## has a hot path become dearer? (instructions, counted by valgrind)
	@scripts/setup system valgrind
	$(BIN)/python -m inorder_bench.costs.check $(ARGS)

mutants: $(READY) ## plant small mistakes in the modules of ARGS; which does no fast test notice?
	nice $(BIN)/python -m tests.mutants $(ARGS)

clean: ## remove builds and caches; the virtual environment stays
	rm -rf webui/inorder_webui/static webui/app/node_modules build dist *.egg-info */*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .tmp
	find . -name __pycache__ -type d -not -path './$(VENV)/*' -prune -exec rm -rf {} +

# The stamp file is written last, so an interrupted set-up is done again.
$(READY): pyproject.toml scripts/setup
	scripts/setup python $(VENV)

$(WEBUI): $(READY) $(WEBUI_SOURCE)
	scripts/setup webui $(VENV)
	touch $@

broker: ## (set-up) what the demo needs from the system
	@scripts/setup system mosquitto

servers: ## (set-up) what the tests need from the system
	@scripts/setup system mosquitto redis-server postgresql pgbouncer openssl chromium java
