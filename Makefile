# Two commands matter: make demo, make test. Everything is set up by itself.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
RUN := $(BIN)/python
LOCK := tests/requirements.lock
BUILD_LOCK := tests/build.lock
TOOLS_LOCK := tests/tools.lock
# Else each of some thousand processes of a test run would compile all of its modules again.
unexport PYTHONDONTWRITEBYTECODE
# These change what each of them says, asserts, and waits for, or where it finds its library and us.
unexport PYTHONDEVMODE PYTHONHOME PYTHONINSPECT PYTHONOPTIMIZE PYTHONSAFEPATH PYTHONWARNINGS
# Those of other projects: options of their tests, a server or an encryption that libpq would take
# for each connection, a Spark of another version with its Python. A password may be for a server
# that is given.
unexport PYTEST_ADDOPTS PYTEST_DISABLE_PLUGIN_AUTOLOAD PYTEST_PLUGINS
unexport $(filter-out PGPASSWORD PGPASSFILE,$(filter PG%,$(.VARIABLES)))
unexport $(filter SPARK_% PYSPARK_% HADOOP_% YARN_%,$(.VARIABLES))
# A proxy of the network is none for servers on this machine. A `*` stands alone: there is no proxy.
# Neither pip nor httpx goes through SOCKS, and httpx reads no range of IPv6 addresses.
SPACE := $() $()
COMMA := ,
is_range = $(findstring ::,$(1))
DIRECT := $(foreach one,$(subst $(COMMA), ,$(NO_PROXY) $(no_proxy)),$(if $(call is_range,$(one)),,$(one)))
ifeq (,$(filter *,$(NO_PROXY) $(no_proxy)))
export NO_PROXY := $(subst $(SPACE),$(COMMA),$(strip 127.0.0.1 localhost $(DIRECT)))
export no_proxy := $(NO_PROXY)
endif
PROXIES := $(filter %_proxy %_PROXY,$(.VARIABLES))
unexport $(foreach name,$(PROXIES),$(if $(filter socks%,$($(name))),$(name)))
READY := $(VENV)/.ready
# For ARGS with double quotes make takes a shell. That would end at a signal, and pass it on to
# nobody: the command comes in its place.
RUN_ARGS := $(if $(ARGS),exec )$(RUN)

.DEFAULT_GOAL := help

.PHONY: help
help: ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

# Downloads that fail once are tried again, beyond pip's own attempts. As a module: the script of pip
# finds no Python in a path with double quotes. Into the environment, whatever pip's settings say.
PIP := -m pip --quiet --disable-pip-version-check
INSTALL := install --no-user
twice = $(1) || { sleep 5; $(1); }

# Else pip finds no version of some package that few have heard of.
SUPPORTED := import sys; is_of = "$(PYTHON) is Python %d.%d" % sys.version_info[:2]; \
	(3, 11) <= sys.version_info[:2] <= (3, 13) or \
	sys.exit(is_of + ", and 3.11 to 3.13 are supported: name another, as in make PYTHON=python3.12")

# Nothing is installed but files of the lock's hashes: what builds a source package is locked too, and
# comes first. Compiled is what is imported, when it is: half of what is installed never is. Spark's
# jars are not compressed once more on their way, which takes ten seconds.
HASHED := $(INSTALL) --no-compile --require-hashes
STORED := --config-settings=--build-option=--compression=stored
$(READY): setup.cfg pyproject.toml $(LOCK) $(BUILD_LOCK)
	@$(PYTHON) -c '$(SUPPORTED)'
	$(PYTHON) -m venv $(VENV)
	$(call twice,$(RUN) $(PIP) $(HASHED) -r $(BUILD_LOCK))
	$(call twice,$(RUN) $(PIP) $(HASHED) $(STORED) --use-pep517 --no-build-isolation -r $(LOCK))
	$(RUN) $(PIP) $(INSTALL) --no-deps --no-build-isolation --editable .
	@touch $(READY)

.PHONY: setup
setup: $(READY) ## a virtual environment, servers and broker jars, once
	$(RUN) -m tests.stack --install --only kafka,redis,postgres
	$(RUN) -m tests.spark_audit.jars

# What tests alone need, and a first look at the demo need not wait for.
.PHONY: test-setup
test-setup: setup
	$(RUN) -m tests.stack --install
	$(RUN) -m tests.spark_audit.jars s3a
	$(RUN) -m tests.kit.axe
	$(RUN) -m tests.quick_starts broker

.PHONY: demo
demo: setup ## 2,000 payments, one worker killed on the way, their account; ARGS="--cut-kafka"
	$(RUN_ARGS) -m tests.stack -- $(RUN) -m tests.demo $(ARGS)

# With ARGS a part: nothing is installed or linted, and the servers of a `make stack` are used.
# Without: mypy and what is compiled keep the processors busy, while the rest is fetched and prepared.
.PHONY: test
ifdef ARGS
test: $(READY)
	$(RUN_ARGS) -m tests.stack --reuse -- $(RUN) -m pytest $(ARGS)
else
test: $(READY) ## all tests, on real servers; ARGS="tests/consumer/loop/order -k full" for a part
	$(MAKE) --no-print-directory --jobs 3 --output-sync test-setup lint docs test-compiled
	$(RUN) -m tests.stack --lean -- $(MAKE) --no-print-directory test-here
endif

# Pytest compiles what it collects and keeps that: else each process of the lanes would do it again,
# for 15 s each.
.PHONY: test-compiled
test-compiled: $(READY)
	@mkdir -p build
	$(RUN) -m pytest --collect-only -qq -p no:cacheprovider > build/collected.txt \
		|| { cat build/collected.txt; exit 1; }

.PHONY: test-long
test-long: test-setup ## what takes minutes by nature: chaos, a cluster, both journals everywhere
	$(RUN) -m tests.quick_starts spark
	$(RUN) -m tests.stack --lean -- $(MAKE) --no-print-directory test-here KIND=long

# In place of its shell: that would end at a signal, and pass it on to nobody.
KIND := not long
.PHONY: test-here
test-here: $(READY) ## the same, on the servers that the environment names
	exec $(RUN) -m tests.lanes "$(KIND)"

.PHONY: simulate
simulate: $(READY) ## schedules of a simulated world with faults: ARGS="--schedules N --seed S"
	$(RUN_ARGS) -m tests.simulation $(ARGS)

.PHONY: lint
lint: $(READY) ## ruff, codespell, mypy, the layers of the rooms, and the prose
	$(BIN)/ruff check .
	$(BIN)/codespell
	$(RUN) -m tests.prose
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --config setup.cfg --no-cache
	$(BIN)/mypy

# Sphinx does not start in a language that a login brought along and the machine has not.
.PHONY: docs
docs: export LC_ALL := C.UTF-8
docs: $(READY) ## the documentation in build/docs; each warning and each dead link is an error
	$(BIN)/sphinx-build --fresh-env --quiet --fail-on-warning --keep-going \
		-d build/docs/doctrees docs build/docs/html
	$(RUN) -m docs.checks build/docs/html

.PHONY: stack
stack: setup ## run Kafka, Redis and PostgreSQL, and print the settings to export
	$(RUN) -m tests.stack

.PHONY: bench
bench: setup ## requests/s and latency, beside Celery in the same run; ARGS=--peers: Dramatiq and FastStream too
	$(RUN_ARGS) -m tests.stack -- $(RUN) -m tests.bench $(ARGS)

.PHONY: bench-audit
bench-audit: setup ## the audit of 10 million requests, DuckDB beside it, and its staging
	$(RUN_ARGS) -m tests.stack -- $(RUN) -m tests.bench.audit $(ARGS)

.PHONY: bench-modes
bench-modes: setup ## at most once, at least once and batch beside each other, with a slow counterparty
	$(RUN_ARGS) -m tests.stack -- $(RUN) -m tests.bench.modes $(ARGS)

.PHONY: bench-journal
bench-journal: setup ## write-ahead log, sizes and requests/s of the journal on PostgreSQL
	$(RUN_ARGS) -m tests.bench.journal $(ARGS)

.PHONY: bench-journal-size
bench-journal-size: setup ## the journal on PostgreSQL with 10 million ended requests
	$(RUN_ARGS) -m tests.bench.journal.at_size $(ARGS)

.PHONY: bench-http
bench-http: setup ## the front door: submissions, status reads, event streams; ARGS="--streams 1000"
	$(RUN_ARGS) -m tests.stack -- $(RUN) -m tests.bench.http $(ARGS)

.PHONY: bench-console
bench-console: setup ## the console over 1,000,000 rows and 100,000 dead letters, and what it costs workers
	$(RUN_ARGS) -m tests.stack -- $(RUN) -m tests.bench.console $(ARGS)

.PHONY: bench-statuses
bench-statuses: setup ## memory of a request's status in Redis, by state
	$(RUN_ARGS) -m tests.bench.statuses $(ARGS)

.PHONY: chaos
chaos: test-setup ## every fault on the real stack, and the table of them; ARGS="redis-kill --seed 7"
	$(RUN_ARGS) -m tests.stack -- $(RUN) -m tests.chaos $(ARGS)

# Tools that no test imports: they lock, and look at what is locked.
TOOLS := build/tools
$(TOOLS)/.ready: $(BUILD_LOCK) $(TOOLS_LOCK)
	$(PYTHON) -m venv $(TOOLS)
	$(TOOLS)/bin/python $(PIP) $(HASHED) -r $(BUILD_LOCK) -r $(TOOLS_LOCK)
	@touch $@

PEERS := $(addprefix tests/bench/systems/,celery dramatiq faststream)
COMPILE = $(TOOLS)/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--no-annotate --no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" $(ARGS)
.PHONY: lock
lock: $(TOOLS)/.ready ## lock with hashes what setup.cfg and the bench's peers ask for; newer: ARGS="--upgrade-package NAME"
	$(COMPILE) --group build --output-file $(BUILD_LOCK)
	$(COMPILE) --extra test --output-file $(LOCK) setup.cfg
	$(COMPILE) --group tools --output-file $(TOOLS_LOCK)
	set -e; for peer in $(PEERS); do $(COMPILE) --output-file $$peer.lock $$peer.in; done

PRODUCT := consumer feedback onceward producer_client spark_audit
# The audit asks a service for known faults. Where that does not answer, or does not know a package,
# it fails and says so: nothing was found then, for nothing was looked at.
.PHONY: lint-security
lint-security: $(READY) $(TOOLS)/.ready ## bandit, licences of all dependencies, and known faults of locked packages
	$(TOOLS)/bin/bandit --quiet --recursive --baseline tests/bandit.json $(PRODUCT)
	$(TOOLS)/bin/pip-licenses --python $(RUN) --order license
	$(TOOLS)/bin/pip-audit --strict --require-hashes --disable-pip --requirement $(LOCK)

# Of the packages that a release asks for, not of those that test it.
.PHONY: sbom
sbom: $(READY) $(TOOLS)/.ready ## build/onceward.cdx.json: the dependencies of a release (CycloneDX), with hashes
	$(COMPILE) --extra audit --extra parquet --constraint $(LOCK) --output-file build/release.lock setup.cfg
	$(RUN) -c 'import feedback; print(f"[project]\nname = \"onceward\"\nversion = \"{feedback.__version__}\"")' > build/release.toml
	$(TOOLS)/bin/cyclonedx-py requirements --pyproject build/release.toml --output-reproducible \
		--output-file build/onceward.cdx.json build/release.lock

.PHONY: release-check
release-check: setup ## what would be released: built, looked at, installed clean, the first tutorial run
	$(RUN) -m tests.stack --reuse -- $(RUN) -m tests.release

.PHONY: fuzz
fuzz: $(READY) ## any bytes at every boundary that takes those of others; EXAMPLES=100000 ARGS="-k frames"
	ONCEWARD_FUZZ_EXAMPLES=$(or $(EXAMPLES),20000) $(RUN_ARGS) -m pytest tests/fuzz --timeout 0 $(ARGS)

.PHONY: clean
clean: ## remove what make made
	rm -rf $(VENV) build
