# The default target prints this list.
PYTHON ?= .venv/bin/python
# Most tests of the second tier wait for others: more of them at once than cores.
AT_ONCE ?= 4
BUILD ?= build
# So type checkers find the package from other folders, too.
EDITABLE = --config-settings editable_mode=compat --editable

.PHONY: help install test acceptance test-all nightly nightly-tests release-check mutation mutation-python calendars exhaustive planted chaos chaos-quick chaos-servers chaos-servers-quick deploy-check beside-cron docs docs-links pictures fuzz bench bench-quick check lint format types ci clean

help: ## print the targets
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  \1: /' | column -t -s ':'

install: ## a virtual environment in .venv with all that development needs
	python3 -m venv .venv
	.venv/bin/pip install $(EDITABLE) '.[dev]'

test: ## the first tier of the tests, on a server that it starts itself (four minutes)
	$(PYTHON) -m pytest

acceptance: ## the second tier (terminals, browsers, Sentinel, Cluster, TLS, documentation), and the scripts on Redis
	$(PYTHON) -m pytest -q -n $(AT_ONCE) --timeout 300 -m "acceptance and not nightly"
	REDBIKE_SERVER=$$(command -v redis-server) $(PYTHON) -m pytest -q tests/store tests/connection

test-all: test acceptance ## both tiers, which must pass before a change is accepted

nightly: ## the third tier, which must pass before a release (hours)
	$(MAKE) nightly-tests exhaustive planted mutation calendars chaos chaos-servers beside-cron

nightly-tests: ## what pytest runs of the third tier
	$(PYTHON) -m pytest --timeout 1800 -m nightly
	REDBIKE_RANDOM=1 $(PYTHON) -m pytest --timeout 1800 -m hypothesis

release-check: ## the last commit as a release: built, compared, installed on each Python; the files are in dist (four minutes)
	@$(PYTHON) -c 'import build, cyclonedx_py, twine' 2>/dev/null || $(PYTHON) -m pip install --quiet $(EDITABLE) '.[release]'
	$(PYTHON) -m tests.release

mutation: ## mutants of the Lua scripts, each of which the tests must catch (an hour)
	$(PYTHON) -m tests.mutation lua

mutation-python: ## mutants of schedule/, store/, loop/, dispatcher/ and worker/, by the operators of mutmut (a night)
	$(PYTHON) -m pip install --quiet 'mutmut >= 3.8, < 3.9'
	$(PYTHON) -m tests.mutation python --tests=schedule -- redbike/schedule/; schedule=$$?; \
	$(PYTHON) -m tests.mutation python -- redbike/store/ redbike/loop/ redbike/dispatcher/ redbike/worker/ && exit $$schedule

calendars: ## imported calendars beside a package that asks for an older dateutil than Redbike, and works with its own
	$(PYTHON) -m pip install --quiet click
	$(PYTHON) -m pip install --quiet --no-deps 'recurring-ical-events >= 3.8' 'x-wr-timezone >= 2.0'
	$(PYTHON) -m pytest -q tests/importers/test_calendars.py

exhaustive: ## 100,000 random schedules and every change of clocks from 2020 to 2037, by brute force (half an hour)
	$(PYTHON) -m tests.exhaustive

planted: ## bugs planted one by one, each of which the tests must catch (10 minutes)
	$(PYTHON) -m tests.planted

fuzz: ## an hour of mutated texts for the parser
	$(PYTHON) -m pip install --quiet 'atheris >= 3.0'
	$(PYTHON) -m tests.exhaustive.fuzz --seconds=3600

bench: ## all benchmarks, beside other systems, which are installed for it (an hour); charts in build/charts
	mkdir -p build
	$(PYTHON) -m pip install --quiet $(EDITABLE) '.[bench]'
	$(PYTHON) benchmarks/suite.py --install-peers --json=build/bench.json --charts=build/charts

bench-quick: ## the benchmarks with fewer jobs, beside the three fastest others (four minutes)
	$(PYTHON) benchmarks/suite.py --quick --install-peers --peers=bullmq,dramatiq,huey

chaos: ## 10,000 faults at a farm of real processes, and whether anything was lost (75 minutes; as root, with faketime)
	mkdir -p build
	for seed in 1 2 3; do $(PYTHON) -m tests.chaos --jobs=4000 --steer --seed=$$seed --json=build/chaos-$$seed.json || exit 1; done
	for seed in 4 5; do $(PYTHON) -m tests.chaos --jobs=4000 --steer --seed=$$seed --fsync=always --json=build/chaos-$$seed.json || exit 1; done

chaos-quick: ## the same with 240 faults (four minutes)
	$(PYTHON) -m tests.chaos --faults=240 --minutes=2.5 --jobs=1500

deploy-check: ## the files of deploy/ on a real systemd and a real Docker (four minutes; as root)
	@# Only if they are missing: to install the package again would take it from what runs beside this.
	@$(PYTHON) -c 'import kubernetes_validate, yamllint' 2>/dev/null || $(PYTHON) -m pip install --quiet $(EDITABLE) '.[deploy]'
	$(PYTHON) -m tests.deploy

beside-cron: ## imported crontabs beside a real cron, for two weeks with a clock change (half an hour; as root, with cron and faketime)
	$(PYTHON) -m tests.beside_cron

chaos-servers: ## 500 faults with Sentinel, with a cluster, and with shards on one; masters die and are replaced (25 minutes)
	mkdir -p build
	for kind in sentinel cluster; do $(PYTHON) -m tests.chaos --servers=$$kind --faults=500 --minutes=5.5 --json=build/chaos-$$kind.json || exit 1; done
	$(PYTHON) -m tests.chaos --servers=cluster --shards=4 --move=7 --faults=500 --minutes=5.5 --json=build/chaos-shards.json

chaos-servers-quick: ## the same with 100 faults each (eight minutes)
	for kind in sentinel cluster; do $(PYTHON) -m tests.chaos --servers=$$kind --faults=100 --minutes=1.5 --jobs=1500 || exit 1; done
	$(PYTHON) -m tests.chaos --servers=cluster --shards=4 --move=7 --faults=100 --minutes=1.5 --jobs=1500

docs: ## the site in build/site and the man page in build/man; a warning is an error
	$(PYTHON) -m sphinx -W --keep-going -n -q -d $(BUILD)/read -b html docs $(BUILD)/site
	$(PYTHON) -m sphinx -W --keep-going -n -q -d $(BUILD)/read -b man docs $(BUILD)/man

pictures: ## the pictures of the page and of a terminal in docs/pictures (needs chromium)
	$(PYTHON) docs/pictures.py
	$(PYTHON) docs/terminal.py

docs-links: ## whether what the pages link to elsewhere is still there (needs the network)
	$(PYTHON) -m sphinx -q -b linkcheck docs build/links

check: lint types test ## all checks and the tests

lint: ## the linter and the formatter, and the files for a code host
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .
	@# It needs no network, and has the schemas of all these files.
	$(PYTHON) -m check_jsonschema -q --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(PYTHON) -m check_jsonschema -q --builtin-schema vendor.github-issue-forms .github/ISSUE_TEMPLATE/[!c]*.yml
	$(PYTHON) -m check_jsonschema -q --builtin-schema vendor.github-issue-config .github/ISSUE_TEMPLATE/config.yml

format: ## format the code
	$(PYTHON) -m ruff check --fix .
	$(PYTHON) -m ruff format .

types: ## the type checker
	$(PYTHON) -m mypy
	MYPYPATH=docs $(PYTHON) -m mypy --strict docs/conf.py docs/plain_links.py docs/sources.py

ci: ## what is run before a change is accepted
	bash .ci/run

clean: ## remove what builds and tests leave behind
	rm -rf build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
