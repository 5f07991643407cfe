# Everything a fresh clone needs is made below .venv/; nothing is installed outside this folder.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/ready

HONEST := $(VENV)/honest
# Bundles of real repositories that `make verify` edits; without them it edits source distributions alone.
FORGEPOOL_HONEST_REPOSITORIES ?= $(abspath $(wildcard ../shared/data/repositories))
export FORGEPOOL_HONEST_REPOSITORIES

# Tests start hundreds of Python processes, each of which would compile every module again.
unexport PYTHONDONTWRITEBYTECODE
# Tests that wait for processes leave a core idle now and then; one more than there are cores keeps them busy.
TESTERS := $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1)

# `make soak SESSIONS=20 SEED=500` plays other sessions, or fewer.
SESSIONS ?= 300
SEED ?= 1

.PHONY: help demo test verify soak bench man install
.NOTPARALLEL:

help:
	@echo 'make demo     a real plan on a small repository, with a worker killed in its middle (less than a minute)'
	@echo 'make test     format, lint, types, import directions and the tests'
	@echo 'make verify   edits ten real projects with formatters and linters, and has the scans judge that (a few minutes)'
	@echo 'make soak     more tests of the kind that kill processes, then SESSIONS=300 of chaos (an hour and more)'
	@echo 'make bench    the benchmarks in benchmarks/ (several minutes)'
	@echo 'make man      manual pages of all commands in $(VENV)/share/man, which `man` finds while $(VENV)/bin is on PATH'
	@echo 'make install  the virtual environment $(VENV) alone'
	@echo 'PYTHON=python3.12 on any of them chooses another Python.'

demo: $(READY)
	@$(BIN)/forgepool demo

test: $(READY)
	@command -v bwrap >/dev/null || echo \
	    'there is no bubblewrap, so the tests of the first choice of sandbox are skipped; to run them: apt-get install bubblewrap'
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pytest -n $(TESTERS) --dist worksteal

verify: $(READY) $(HONEST)/ready
	$(BIN)/pytest -m honest -n 2 --dist loadgroup tests/honest

soak: $(READY)
	$(BIN)/pytest -m soak
	$(BIN)/python benchmarks/fleet/chaos.py --sessions $(SESSIONS) --seed $(SEED) --jobs $(shell getconf _NPROCESSORS_ONLN)

bench: $(READY)
	$(BIN)/python benchmarks/planning/schedule.py
	$(BIN)/python benchmarks/worktrees/checkouts.py
	$(BIN)/python benchmarks/worktrees/large_repository.py
	$(BIN)/python benchmarks/road.py
	$(BIN)/python benchmarks/agent_overhead.py
	$(BIN)/python benchmarks/worktrees/git_door.py
	$(BIN)/python benchmarks/fleet/startup.py
	$(BIN)/python benchmarks/fleet/loop.py
	$(BIN)/python benchmarks/fleet/scale.py --quick
	$(BIN)/python benchmarks/fleet/export.py
	$(BIN)/python benchmarks/fleet/pace.py
	$(BIN)/python benchmarks/fleet/mending.py
	$(BIN)/python benchmarks/sandbox.py
	$(BIN)/python benchmarks/context.py build
	$(BIN)/python benchmarks/context.py day23
	$(BIN)/python benchmarks/gate.py
	$(BIN)/python benchmarks/queue/review.py
	$(BIN)/python benchmarks/queue/batched_reviews.py
	$(BIN)/python benchmarks/queue/merge_queue.py --seeds 101-103
	$(BIN)/python benchmarks/queue/landing.py

man: $(READY)
	$(BIN)/python tests/project/man_pages.py $(VENV)/share/man/man1

install: $(READY)

# Made again when the dependencies may have changed, and only then.
$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; v = sys.version_info; v >= (3, 11) or sys.exit( \
	    "Forgepool needs Python 3.11 or later; $(PYTHON) is %d.%d: say make PYTHON=python3.12, or whatever yours is called" % v[:2])'
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	    echo '$(PYTHON) has no venv module; install it (Debian and Ubuntu: apt-get install python3-venv), then make again' >&2; exit 1; }
	@command -v git >/dev/null || { echo 'there is no git; install git 2.38 or later, then make again' >&2; exit 1; }
	@echo 'setting up $(VENV), about a minute the first time'
	@$(PYTHON) -m venv --clear $(VENV)
	@$(BIN)/python -m pip install --upgrade 'pip>=25.1' >$(VENV)/install.log 2>&1 \
	    && $(BIN)/python -m pip install --group dev --editable '.[all]' >>$(VENV)/install.log 2>&1 \
	    || { tail -n 30 $(VENV)/install.log >&2; exit 1; }
	@# The type checker finds the packages by their installed name through this link.
	@mkdir -p $(VENV)/tree && ln -sfn ../.. $(VENV)/tree/forgepool
	@touch $@

# Downloaded once; a later run needs no network.
$(HONEST)/ready: $(READY) tests/honest/sdists.txt
	@echo 'installing what edits the projects, and downloading four of them'
	@$(BIN)/python -m pip install --quiet --group verify
	@mkdir -p $(HONEST)
	@$(BIN)/python -m pip download --quiet --no-deps --dest $(HONEST) --requirement tests/honest/sdists.txt && touch $@ \
	    || echo 'the source distributions could not be downloaded, so the tests on them are skipped' >&2
