PYTHON ?= python3
# More than the two cores of CI: tests with real sites wait much of their time.
WORKERS ?= 3
BIN := .venv/bin

# Build an environment in folder $(1) with what $(2) names, in the versions of the file $(3), by
# default constraints.txt. The machine's pip, however old, only fetches the pinned pip; that one does
# the rest.
define environment
@$(PYTHON) -c 'import sys; sys.exit(None if sys.version_info >= (3, 11) else "drfl needs Python 3.11 or newer; run make with PYTHON=<such a python>")'
@echo 'building $(1) from $(or $(3),constraints.txt)'
@$(PYTHON) -m venv --without-pip $(1)
@$(PYTHON) -m pip --python $(1)/bin/python install -qq --constraint constraints.txt pip
@$(1)/bin/python -m pip install -qq --constraint $(or $(3),constraints.txt) --build-constraint constraints.txt $(2)
@touch $(1)/.complete
endef

.PHONY: help setup lint test test-all attacks test-torch test-flower docs demo reproduce bench bench-check lock format clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1	\2/p' Makefile | expand -t 18

setup: .venv/.complete ## build .venv with everything the tests need, from pinned versions
.venv/.complete: pyproject.toml constraints.txt
	$(call environment,.venv,--editable . --group dev)

lint: setup ## ruff, mypy --strict, import-linter
	$(BIN)/ruff check --quiet .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

test: lint ## what CI runs: setup, lint and the fast tests
	OPENBLAS_NUM_THREADS=1 $(BIN)/pytest -q -n $(WORKERS) --dist worksteal

test-all: lint ## the same with the slow tests
	OPENBLAS_NUM_THREADS=1 $(BIN)/pytest -q -n $(WORKERS) --dist worksteal -m ""

attacks: .venv/.complete ## all attacks, and their table in docs/privacy.md
	ATTACKS=docs/privacy.md OPENBLAS_NUM_THREADS=1 $(BIN)/pytest -q -n $(WORKERS) --dist worksteal -m "" tests/attacks

test-torch: .venv-torch/.complete ## the tests of networks, in an environment with PyTorch
	OMP_NUM_THREADS=1 .venv-torch/bin/pytest -q -n $(WORKERS) --dist loadfile tests/networks
	OMP_NUM_THREADS=1 .venv-torch/bin/pytest -q --doctest-modules src/drfl/torch
.venv-torch/.complete: pyproject.toml constraints.txt
	$(call environment,.venv-torch,--editable . --group torch)

test-flower: .venv-flower/.complete $(if $(SLOW),.venv-flower/.torch) ## the tests over Flower, real SuperNodes among them; SLOW=1 for all faults and a network
	.venv-flower/bin/pytest -q -n 3 --dist loadfile $(if $(SLOW),-m "") tests/flower
.venv-flower/.complete: pyproject.toml constraints.txt constraints-flower.txt
	$(call environment,.venv-flower,--editable .[flower] --group flower,constraints-flower.txt)
.venv-flower/.torch: .venv-flower/.complete
	@.venv-flower/bin/python -m pip install -qq --constraint constraints-flower.txt --build-constraint constraints.txt --editable .[torch]
	@touch $@

docs: setup ## build the site, docs/_build/html/index.html; a warning is an error
	$(BIN)/sphinx-build -q -W --keep-going docs docs/_build/html

demo: .venv-demo/.complete ## install the core alone and compare seven models at a hospital that was not there
	@.venv-demo/bin/python -m experiments demo
.venv-demo/.complete: pyproject.toml constraints.txt
	$(call environment,.venv-demo,--editable .)

reproduce: setup ## repeat the paper's experiments (27 processor minutes for heart alone; WHAT=heart for one)
	$(BIN)/python -m experiments $(or $(WHAT),all)

bench: .venv-bench/.complete ## measure drfl beside everything else; A9A=FILE adds FedNL's data
	.venv-bench/bin/python -m benchmarks.suite $(if $(A9A),--libsvm $(A9A))

bench-check: .venv-bench/.complete ## fail if a ratio is 25 % worse than the stored one, or rounds are more; A9A=FILE and HOUSING=FILE check all that is stored
	.venv-bench/bin/python -m benchmarks.suite --check $(if $(A9A),--libsvm $(A9A))
	.venv-bench/bin/python benchmarks/rounds.py rounds flips curves classes --check $(if $(A9A),--libsvm $(A9A) --features 123) $(if $(HOUSING),--arff $(HOUSING))
.venv-bench/.complete: pyproject.toml constraints.txt benchmarks/requirements.txt benchmarks/requirements-no-deps.txt
	$(call environment,.venv-bench,--editable . --requirement benchmarks/requirements.txt)
	@.venv-bench/bin/python -m pip install -qq --no-deps --requirement benchmarks/requirements-no-deps.txt

lock: .venv-lock/.complete setup ## write requirements-site.txt, with hashes, and sbom-site.json
	.venv-lock/bin/pip-compile -q --generate-hashes --allow-unsafe --strip-extras --no-emit-index-url --no-emit-trusted-host --no-emit-options --no-annotate --no-header --extra sites --constraint constraints.txt --output-file .venv-lock/site.txt pyproject.toml
	$(BIN)/python tools/site_lock.py < .venv-lock/site.txt
.venv-lock/.complete: constraints.txt
	$(call environment,.venv-lock,pip-tools==7.6.2)

format: setup ## rewrite the code the way lint wants it
	$(BIN)/ruff check --quiet --fix .
	$(BIN)/ruff format .

clean: ## remove everything that make has built
	rm -rf .venv .venv-demo .venv-bench .venv-lock .venv-torch .venv-flower bench dist docs/_build .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
