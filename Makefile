# `make` alone lists the targets. Each one does its own set-up (.ci/setup), quick the second time.
#   PYTHON=/path/to/python3   the interpreter to make .venv with (3.11 or newer)
#   KUBERNETES=v1.34.4        another version of the control plane (demo, test-lab, lab-up)
#   ARGS='...'                more arguments for pytest, `lab demo` or `lab up`
SHELL := bash
.DEFAULT_GOAL := help
.PHONY: help demo test lint bench lab-up lab-down docs clean \
	test-unit test-lab bench-admission bench-demo bench-scale lock
export PYTHON
# The command line of the lab and its tests read this one.
export TIPHYS_KUBERNETES := $(or $(KUBERNETES),$(TIPHYS_KUBERNETES))

python := .venv/bin/python

help: #+ list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  \1\t\2/p' $(MAKEFILE_LIST) | expand -t 19
	@echo; echo 'Parts of these, and rarer ones:'
	@sed -n 's/^\([a-z-]*\):.*#+ \(.*\)/  \1\t\2/p' $(MAKEFILE_LIST) | expand -t 19

demo: ## 16 workflows by kube-scheduler, then by Tiphys; a page; about 7 min once built
	@.ci/setup python binaries
	@$(python) -m lab demo $(ARGS)

# All of the set-up first: unit tests, too, are skipped where what they look at is not there.
test: ## unit tests with coverage, then tests on the real control plane
	@.ci/setup python debian binaries
	@$(MAKE) --no-print-directory test-unit
	@$(MAKE) --no-print-directory test-lab

lint: ## ruff, formatting, mypy, import rules
	@.ci/setup python
	$(python) -m ruff check
	$(python) -m ruff format --check
	$(python) -m mypy
	.venv/bin/lint-imports

bench: ## measure; compares with the limits in tests/bench/ranges.yaml
	@.ci/setup python debian binaries
	@$(python) -m pytest tests/bench -m bench --timeout=3600 $(ARGS)

lab-up: ## start a lab (`.venv/bin/python -m lab --help` has the rest)
	@.ci/setup python binaries
	@$(python) -m lab up $(ARGS)

lab-down: ## end it and everything that it started
	@.ci/setup python
	@$(python) -m lab down $(ARGS)

docs: ## build the pages of docs/ into build/docs; a broken link fails
	@.ci/setup python
	@$(python) -m mkdocs build --strict --config-file .ci/mkdocs.yml

clean: ## remove .venv, build/ and caches here; labs and built programs stay where they are
	rm -rf .venv build dist .pkg/*.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis \
		.import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

test-unit: #+ tests without a control plane, with coverage: one to three minutes on two cores
	@.ci/setup python
	@mkdir -p build/coverage
	@$(python) -m pytest tests/unit -n auto --maxprocesses 8 --dist worksteal --cov --cov-report=term $(ARGS)

test-lab: #+ tests on the real control plane (KUBERNETES=v1.34.4 for another)
	@.ci/setup python debian binaries
	@$(python) -m pytest tests/lab -m lab --timeout=1200 $(ARGS)

bench-admission: #+ what a create pays, what an answer and a release take: admission.json
	@.ci/setup python binaries
	@$(python) -m pytest tests/bench/test_admission.py tests/bench/test_decisions.py \
		tests/bench/test_releases.py -m bench --timeout=3600 $(ARGS)

bench-demo: #+ Tiphys against the default over loads and seeds (SEEDS=3); hours
	@.ci/setup python binaries
	@$(python) -m lab bench-demo --seeds $(or $(SEEDS),3) $(ARGS)

bench-scale: #+ ticks and decisions over 5,000 nodes and 20,000 waiting pods: scale.json
	@.ci/setup python
	@$(python) -m pytest tests/bench/test_scale.py -m bench --timeout=3600 $(ARGS)

lock: #+ renew requirements.lock from the ranges in setup.cfg (ARGS=--upgrade for all)
	@.ci/setup python
	env -u PIP_FIND_LINKS CUSTOM_COMPILE_COMMAND="make lock" $(python) -m piptools compile --quiet \
	    --generate-hashes --allow-unsafe --strip-extras --all-build-deps --newline lf \
	    --no-emit-options --no-emit-index-url --no-emit-find-links --no-emit-trusted-host \
	    --extra lab --extra operator --extra webhook --extra models --extra docs --extra traces --extra postgres \
	    --extra dev \
	    --output-file requirements.lock $(ARGS) setup.cfg
