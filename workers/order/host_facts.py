"""The proof of what this host can do, made once when its worker starts."""

import os
import shutil
import time
from collections.abc import Iterator, Sequence
from importlib.metadata import version

from forgepool.workers.agents.cli.performing import PROGRAMS, find_installed
from forgepool.workers.llm.routing.open import keys_present
from forgepool.workers.llm.routing.router import RoutingQuestion, candidates, choose
from forgepool.workers.llm.routing.table import Table, read_table
from forgepool.workers.queue.broker import BrokerRefused, Redis
from forgepool.workers.queue.leases import HostFacts
from forgepool.workers.schema import capabilities
from forgepool.workers.schema.confinement import Level
from forgepool.workers.schema.settings import Settings, missing_extra, search_path, secret
from forgepool.workers.tools.config import read_tool_config
from forgepool.workers.tools.lsp.servers import KNOWN
from forgepool.worktrees.git.git import git_version

_MOST_CLOCK_OFF_S = 600.0
"""A message is stale an hour after it was sent, by the clock of its reader."""
_LEAST_DISK_MB = 16
_MB = 1_000_000


def prove(settings: Settings, level: Level, labels: Sequence[str], client: Redis) -> HostFacts:
    """
    Return what this host can do.

    Raises:
        BrokerRefused: it can do nothing well: its clock is wrong, or its disk is full.
        DocumentWrong: the models file or the tools file cannot be read.
    """
    off_s = _clock_off_s(client)
    if abs(off_s) > _MOST_CLOCK_OFF_S:
        raise BrokerRefused(
            f"this host's clock is {abs(off_s):.0f} s {'ahead of' if off_s > 0 else 'behind'} that of Redis; "
            "set it (for example with chrony), then start the worker"
        )
    settings.cache.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(settings.cache).free // _MB
    if free < _LEAST_DISK_MB:
        raise BrokerRefused(f"{settings.cache} has {free} MB free; make room, or set FORGEPOOL_CACHE to another disk")
    programs = find_installed(search_path())
    return HostFacts(
        version=version("forgepool"),
        can=tuple(
            sorted({*_words(settings, level), *map(capabilities.program, programs), *map(capabilities.label, labels)})
        ),
        git=".".join(map(str, git_version())),
        programs=programs,
        clock_off_s=round(off_s, 1),
        free_disk_mb=free,
        memory_mb=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // _MB,
    )


def _words(settings: Settings, level: Level) -> Iterator[str]:
    yield capabilities.sandbox(level)
    table = read_table(settings.models_file)
    yield from _askable(table)
    vendors = {name for one in PROGRAMS.values() for vendor in one.vendors(None) for name in vendor.keys}
    keys = {account.key for account in table.accounts.values() if account.key}
    yield from (capabilities.key(name) for name in vendors | keys if secret(name))
    own = read_tool_config(settings.tools_file).language_servers
    if missing_extra("acp") is None:
        yield capabilities.extra("acp")
    if missing_extra("lsp") is None:
        servers = (one for one in (*own, *KNOWN) if shutil.which(one.command[0], path=search_path()))
        yield from (capabilities.language_server(one.name) for one in servers)


def _askable(table: Table) -> Iterator[str]:
    """Yield the models that have a key here, and the types of task for which some model can be asked."""
    keys = keys_present(table)
    for name in table.models:
        if any(one.wants_key is None for one in candidates(table, name, keys=keys)):
            yield capabilities.model(name)
    for kind in table.routes:
        chosen = choose(table, RoutingQuestion(task_type=kind), keys=keys)
        if not isinstance(chosen, str) and any(one.wants_key is None for one in chosen.candidates):
            yield capabilities.task_type(kind)
    reviewers = choose(table, RoutingQuestion(task_type="review", phase="review"), keys=keys)
    if not isinstance(reviewers, str):
        yield from (capabilities.reviews_by(one.family) for one in reviewers.candidates if one.wants_key is None)


def _clock_off_s(client: Redis) -> float:
    """Return by how many seconds this host's clock is ahead of that of Redis."""
    before = time.time()
    seconds, micros = client.time()
    return (before + time.time()) / 2 - (seconds + micros / 1e6)
