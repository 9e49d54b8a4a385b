# What this project can do; `make` alone prints it.
.DEFAULT_GOAL := help
PYTHON ?= python3
BIN := .venv/bin
# The environment has what Métier needs to run; or also what its optional parts, tests and benchmarks need.
CORE := .venv/.core
READY := .venv/.ready
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
COMPILE := $(BIN)/uv pip compile --quiet pyproject.toml --universal --generate-hashes --no-emit-index-url --no-header
# The rules of the scanner, compiled as they lie here.
RULES := src/metier/scan/packs/compiled/.made
# What builds, checks and describes a release is apart from what tests it.
RELEASE := .venv-release/bin
RELEASE_READY := .venv-release/.ready
VERSION = $(shell sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)
# Three workers for each core: tests wait for processes, files and clocks more than half of their time.
WORKERS ?= $(shell expr $$(getconf _NPROCESSORS_ONLN) \* 3)
# With bytecode kept, tests need not be prepared anew each time.
PYTEST := PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest
PARALLEL := --workers $(WORKERS)
# The parts of the suite that are measured one after the other.
PARTS ?= $(sort $(dir $(wildcard tests/*/test_*.py))) 'tests/test_*.py'

.PHONY: help demo test test-slow test-touched coverage lint bench bench-quick docs texts freeze lock dist sbom workflows clean

help: ## what `make` can do here
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# Where Python has a pip that can, it fills an environment without one: to put one there takes as long as all of the rest.
# Nothing is compiled before it is used. Packages are verified by their hashes.
$(CORE): pyproject.toml requirements-core.lock
	@echo "1/4 a Python environment: .venv"
	@$(PYTHON) -m venv --without-pip .venv
	@$(PYTHON) -m pip --python $(BIN)/python --version >/dev/null 2>&1 || $(PYTHON) -m venv .venv
	@echo "2/4 the packages that Métier needs: requirements-core.lock"
	@pip="$(PYTHON) -m pip --python $(BIN)/python"; [ ! -e $(BIN)/pip ] || pip="$(BIN)/python -m pip"; \
	$$pip install --quiet --disable-pip-version-check --no-compile --require-hashes -r requirements-core.lock
	@echo "3/4 Métier, as it lies here"
	@$(PIP) --no-build-isolation --no-deps --editable .
	@touch $@
	@echo "4/4 the demo"

$(READY): pyproject.toml requirements.lock
	@echo "1/4 a Python environment: .venv"
	@$(PYTHON) -m venv .venv
	@echo "2/4 all packages of requirements.lock (some minutes)"
	@$(PIP) --require-hashes -r requirements.lock
	@echo "3/4 Métier, as it lies here"
	@$(PIP) --no-build-isolation --no-deps --editable .
	@echo "4/4 bytecode"
	@$(BIN)/python -m compileall -q -x bundled src/metier
	@touch $@

$(RULES): $(READY) $(wildcard src/metier/scan/packs/core/*.yaml) $(addprefix src/metier/scan/,pack.py phrase.py prefilter.py words.py)
	@$(BIN)/python -c "from metier.scan.pack_store import ship; ship()"
	@touch $@

demo: $(if $(wildcard $(READY)),$(READY),$(CORE)) ## see what Métier does, on skills that come with it; needs half a minute and 80 MB
	@$(BIN)/metier demo
	@echo "Here the command is $(BIN)/metier."

test: $(RULES) ## run the quick tests: every behaviour
	$(PYTEST) $(PARALLEL) --in-memory -m "not slow"

test-slow: $(RULES) ## run the tests that need minutes by nature: faults, browsers, fuzzing, real clients
	METIER_EXAMPLES=200 $(PYTEST) $(PARALLEL) -m "slow or hypothesis"

test-touched: $(RULES) ## run the tests of the rooms that a change touches (BASE=commit, else since origin/main)
	@# Pytest ends with 5 where all of them are slow.
	@tests="$$($(BIN)/python -m tests.touched $(BASE))" && \
	if [ -n "$$tests" ]; then echo "Touched: $$tests"; $(PYTEST) $(PARALLEL) --in-memory -m "not slow" $$tests || [ $$? -eq 5 ]; \
	else echo "The change touches no test."; fi

coverage: $(RULES) ## run the quick tests with branch coverage, part by part; fails if a room is below 85 %
	$(BIN)/coverage erase
	@# What counts here is what was run: a test that fails while it is traced fails `make test` if it is broken.
	@# Each part adds to what was measured, so that one that is stopped leaves the others; 2 is an interrupt.
	@for part in $(PARTS); do \
		echo "$$part"; \
		PYTHONDONTWRITEBYTECODE= $(BIN)/coverage run -m pytest $(PARALLEL) -q -m "not slow" $$part; \
		[ $$? -ne 2 ] || exit 2; \
		$(BIN)/coverage combine --quiet --append; \
	done
	$(BIN)/python -m tests.coverage_by_room 85

lint: $(READY) ## style, types, and no module over 800 lines
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	@! find src -name '*.py' -size +8k -exec wc -l {} + | awk '$$2 != "total" && $$1 > 800' | grep .

bench: $(RULES) ## run all benchmarks; fails if a limit of benchmarks/limits.toml is not met
	$(BIN)/python benchmarks/all.py

bench-quick: $(RULES) ## watch the hot paths: fails if one has become twice as slow
	$(BIN)/python benchmarks/quick.py

docs: $(READY) ## write the reference pages from the code
	$(BIN)/python docs/generate.py
	$(BIN)/python docs/pictures.py

texts: $(READY) ## print every text that a model can get, as one page
	@$(BIN)/python docs/model_texts.py

freeze: $(READY) ## write how this version reads the skills and policies of tests/frozen, for later ones to be held to
	@$(BIN)/python -m tests.frozen.snapshot

lock: $(READY) ## choose the versions in requirements.lock again; requirements-core.lock is a part of it
	$(COMPILE) --extra vectors --extra shell --group dev -o requirements.lock
	$(COMPILE) --group build --constraint requirements.lock -o requirements-core.lock
	$(filter-out pyproject.toml,$(COMPILE)) --group pyproject.toml:release --python-version 3.11 -o requirements-release.lock

$(RELEASE_READY): requirements-release.lock
	$(PYTHON) -m venv .venv-release
	$(RELEASE)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-release.lock
	touch $@

dist: $(RELEASE_READY) ## build wheel and sdist from the last commit's moment, the same bytes each time, and check them
	rm -rf dist
	SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) $(RELEASE)/python -m build --no-isolation --outdir dist
	$(RELEASE)/twine check --strict dist/*
	$(RELEASE)/check-wheel-contents dist/*.whl

sbom: dist ## list what an installation of that wheel brings, as a CycloneDX file beside it
	rm -rf build/sbom && mkdir -p build
	$(PYTHON) -m venv --without-pip build/sbom
	@# With the versions that the tests ran with; a marker says on which systems one is wanted.
	sed -n 's/^\([A-Za-z0-9][^ ]*==.*\) \\$$/\1/p' requirements.lock > build/sbom/versions.txt
	$(RELEASE)/python -m pip --python build/sbom/bin/python install --quiet --constraint build/sbom/versions.txt dist/*.whl
	$(RELEASE)/cyclonedx-py environment --pyproject pyproject.toml --mc-type library --output-reproducible \
		--output-file dist/metier-$(VERSION).cdx.json build/sbom/bin/python

workflows: $(RELEASE_READY) ## look for weaknesses in the workflows of GitHub, without asking anybody
	$(RELEASE)/zizmor --offline --quiet --min-severity low .github src/metier/proof/workflows/github.yml

clean: ## remove what the other targets made
	rm -rf .venv .venv-release build dist .hypothesis .mypy_cache .ruff_cache .coverage*
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
