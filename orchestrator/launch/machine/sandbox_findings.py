"""What holds the commands of agents and checks on this machine: each layer tried, not looked up."""

import os
import sys
from collections.abc import Iterator

from forgepool.orchestrator.launch.machine.finding import MachineFinding
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
from forgepool.workers.schema.confinement import LEVEL_WORDS, Level
from forgepool.workers.schema.settings import Settings

_SWITCH = "FORGEPOOL_SANDBOX"


def sandbox_findings(settings: Settings) -> list[MachineFinding]:
    """First what a run here would use; then what that rests on."""
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
            return f"leave {_SWITCH} out to have them held; as it is, run only plans you trust"
        case "landlock":
            return "what it does not hold: " + "; ".join(WEAKER)
        case "bubblewrap" | "seatbelt":
            return ""


def _bubblewrap(tried: Layers) -> MachineFinding:
    what = "bubblewrap"
    if tried.bubblewrap is None:
        found = f"{bubblewrap_version()} holds: a command in it could not read, write or gain what is outside"
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
        found = f"hold, ABI {tried.abi}; the fallback where there is no bubblewrap"
        return MachineFinding(
            what=what, verdict="ok", found=found, mend=f"with this kernel, then: {gaps}" if gaps else ""
        )
    mend = "so there is no fallback; Linux 5.19 and later have it where Landlock is switched on (lsm=landlock,...)"
    return MachineFinding(what=what, verdict="note", found=tried.landlock, mend=mend)


def _whose(tried: Layers) -> MachineFinding:
    what = "user of commands"
    if not tried.root:
        return MachineFinding(what=what, verdict="ok", found=f"yours, {os.getuid()}, with none of its rights outside")
    found = f"started by root: each order's commands run as a user of their own ({FIRST} to {FIRST + COUNT - 1})"
    return MachineFinding(what=what, verdict="ok", found=f"{found}, files stay root's")


def _bounds(settings: Settings) -> Iterator[MachineFinding]:
    memory = settings.command_memory_mb
    each = "nor for a process alone" if memory is None else f"only for each process, {memory} MiB"
    why_not = cgroups.why_not()
    if why_not is None:
        found = "an order's processes are counted together, by a control group"
        yield MachineFinding(what="memory, processes", verdict="ok", found=found)
    else:
        found = f"not bounded for an order as a whole, {each}"
        yield MachineFinding(what="memory, processes", verdict="note", found=found, mend=why_not)
    found = f"not bounded as a whole; the longest file a command may write is {settings.command_file_mb} MiB"
    mend = "keep FORGEPOOL_CACHE and the temporary folder on a disk that may fill up"
    yield MachineFinding(what="disk of commands", verdict="note", found=found, mend=mend)
