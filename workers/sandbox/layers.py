"""
The confinement levels that hold on this host, found by running a canary command under each.

Kernel versions and switches only suggest what should hold; the canary shows what does.
"""

import contextlib
import functools
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from forgepool.workers.sandbox.launch import cgroups
from forgepool.workers.sandbox.launch.confined import bubblewrap_program
from forgepool.workers.sandbox.launch.launch import release
from forgepool.workers.sandbox.run.process import Command, run
from forgepool.workers.sandbox.scratch import make_scratch
from forgepool.workers.schema.confinement import OPEN, Confinement, Level
from forgepool.worktrees.errors import InfrastructureError
from forgepool.worktrees.git import landlock
from forgepool.worktrees.git.beneath import take_lock

FIRST, COUNT = 60_706, 478
"""Uids that neither distributions nor systemd hand out, and that containers of 65,536 uids have too."""
_FOLDER = Path("/run/forgepool-uids")


class NoUid(OSError):
    """No uid is left, or the folder of their locks cannot be written."""


@contextmanager
def lease_uid(folder: Path = _FOLDER) -> Iterator[int]:
    """
    Lease a uid for this process until the block or the process ends.

    Raises:
        NoUid: all uids are taken, or the folder cannot be written.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = next(
            (
                (uid, lock)
                for uid in range(FIRST, FIRST + COUNT)
                if (lock := take_lock(folder / f"{uid}.lock")) is not None
            ),
            None,
        )
    except OSError as trouble:
        raise NoUid(0, f"{folder}: {trouble.strerror}; root keeps account there of who runs commands") from trouble
    if found is None:
        raise NoUid(0, f"all {COUNT} uids for commands are taken; run fewer workers on this host")
    uid, lock = found
    try:
        yield uid
    finally:
        os.close(lock)


_OUTSIDE = "docs/reference/sandbox.md says how"


@dataclass(frozen=True, slots=True, kw_only=True)
class Obstacle:
    found: str
    mend: str


def obstacle(root: Path = Path("/")) -> Obstacle | None:
    """Return the switch that most likely forbids user namespaces, or None."""
    switches = root / "proc" / "sys"
    if _number(switches / "kernel" / "apparmor_restrict_unprivileged_userns") == 1:
        return Obstacle(
            found="AppArmor refuses it user namespaces (kernel.apparmor_restrict_unprivileged_userns is 1)",
            mend=f"give bwrap an AppArmor profile that allows them; {_OUTSIDE}",
        )
    if _number(switches / "kernel" / "unprivileged_userns_clone") == 0:
        return Obstacle(
            found="user namespaces are switched off (kernel.unprivileged_userns_clone is 0)",
            mend="set it: sysctl -w kernel.unprivileged_userns_clone=1",
        )
    if _number(switches / "user" / "max_user_namespaces") == 0:
        return Obstacle(
            found="user namespaces are switched off (user.max_user_namespaces is 0)",
            mend="set it: sysctl -w user.max_user_namespaces=15000",
        )
    if any((root / mark).exists() for mark in (".dockerenv", "run/.containerenv")):
        return Obstacle(
            found="this is a container, whose own confinement forbids another inside",
            mend=f"start it with the security options that allow one; {_OUTSIDE}",
        )
    return None


def _number(file: Path) -> int | None:
    try:
        return int(file.read_text())
    except (OSError, ValueError):
        return None


Wanted = Literal["auto", "require", "off"]

WEAKER = (
    "processes of the host can be seen",
    "modes and times of your files outside can be changed, and their presence found out",
    "the worktree's .git file can be replaced (the harness does not read it)",
    "no command can open a socket of the internet, its own loopback included, and no host can be granted",
)
"""Gaps of the fallback, apart from memory and disk."""

_BOUNDARY = """
set -u
grep -q '^NoNewPrivs:.1' /proc/self/status || exit 41
grep -q '^Seccomp:.2' /proc/self/status || exit 42
( echo x > "$OUTSIDE/canary" ) 2>/dev/null && exit 43
( : < "$OUTSIDE/secret" ) 2>/dev/null && exit 44
( : >> /proc/sys/kernel/core_pattern ) 2>/dev/null && exit 45
echo x > inside || exit 46
"""
_MEANING = {
    41: "privileges can still be gained",
    42: "no filter of system calls holds",
    43: "a file outside could be written",
    44: "a file outside could be read",
    45: "a setting of the kernel could be opened for writing",
    46: "the command's own folder could not be written",
}


class NoSandbox(InfrastructureError):
    """Commands cannot be confined here as required; the text is one sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layers:
    """Why each level does not hold here; None for one that does."""

    bubblewrap: str | None
    landlock: str | None
    abi: int
    """The version of Landlock; 0 without it."""
    unheld: tuple[str, ...]
    """The gaps in this kernel's Landlock that a later version closes."""
    root: bool


def choose_level(wanted: Wanted) -> Level:
    """
    Return the level at which commands run here.

    Raises:
        NoSandbox: the wanted level does not hold.
    """
    if wanted == "off":
        return "off"
    first: Level = "seatbelt" if sys.platform == "darwin" else "bubblewrap"
    why_not = why_level_fails(first)
    if why_not is None:
        return first
    if wanted == "require":
        raise NoSandbox(f"{first} is required and does not hold: {why_not}; {_mend(why_not)}")
    why_neither = why_level_fails("landlock")
    if why_neither is None:
        return "landlock"
    raise NoSandbox(
        f"commands cannot be confined here: bubblewrap: {why_not}; Landlock: {why_neither}; {_mend(why_not)}, "
        "or set FORGEPOOL_SANDBOX=off to run commands with your own rights"
    )


def prepare_forks(wanted: Wanted) -> bool:
    """
    Find out what holds here once for all processes forked from this one. Return whether a launcher starts commands.
    """
    try:
        if choose_level(wanted) not in ("bubblewrap", "landlock"):
            return False
    except NoSandbox:
        return False
    with contextlib.suppress(OSError):
        cgroups.prepare_forks()
    return True


def prove_level(level: Level) -> Level:
    """
    Return the level after testing that it holds here.

    Raises:
        NoSandbox: it does not hold.
    """
    why_not = None if level == "off" else why_level_fails(level)
    if why_not is not None:
        raise NoSandbox(f"{level} does not hold here: {why_not}; {_mend(why_not)}")
    return level


def layers() -> Layers:
    """Try each level and return what holds here."""
    abi = landlock.abi() if sys.platform == "linux" else 0
    return Layers(
        bubblewrap=why_level_fails("bubblewrap"),
        landlock=why_level_fails("landlock"),
        abi=abi,
        unheld=landlock.unheld(abi),
        root=os.geteuid() == 0,
    )


def _mend(why_not: str) -> str:
    if "not installed" in why_not:
        return "install bubblewrap (Debian and Ubuntu: apt-get install bubblewrap)"
    against = obstacle()
    return "run as an ordinary user where user namespaces are allowed" if against is None else against.mend


def bubblewrap_version() -> str:
    """Return the version that bwrap prints; empty where it is not installed."""
    program = bubblewrap_program()
    if program is None:
        return ""
    with make_scratch() as folder:
        env, log = {"PATH": "/usr/bin:/bin"}, folder / "log"
        command = Command(argv=(program, "--version"), cwd=Path("/"), env=env, log=log, timeout_s=20, confined=OPEN)
        return run(command).tail.strip().removeprefix("bubblewrap ")


@functools.cache
def why_level_fails(level: Level) -> str | None:
    """
    Return why a canary command at this level was not confined; None when it was. Tried once per process and its forks.
    """
    if sys.platform != "linux":
        return None if level == "seatbelt" and os.access("/usr/bin/sandbox-exec", os.X_OK) else "this is not Linux"
    if level == "bubblewrap" and bubblewrap_program() is None:
        return "it is not installed"
    try:
        with make_scratch() as folder, lease_command_uid() as uid:
            return _tried(level, folder, uid)
    except OSError as trouble:
        return trouble.strerror or str(trouble)
    finally:
        release(())  # whoever only asks is left with no process


@contextlib.contextmanager
def lease_command_uid() -> Iterator[int | None]:
    """Yield a uid to run commands under when this process is root, else None: an ordinary user runs them as itself."""
    if os.geteuid() != 0:
        yield None
        return
    with lease_uid() as uid:
        yield uid


def _tried(level: Level, folder: Path, uid: int | None) -> str | None:
    inside, outside = folder / "inside", folder / "outside"
    inside.mkdir()
    outside.mkdir()
    (outside / "secret").write_text("secret")
    confined = Confinement(level=level, writable=(inside,), uid=uid)
    env = {"PATH": "/usr/bin:/bin", "OUTSIDE": str(outside)}
    argv = ("/bin/sh", "-c", _BOUNDARY)
    ended = run(Command(argv=argv, cwd=inside, env=env, log=folder / "log", timeout_s=20, confined=confined))
    if ended.succeeded:
        return None
    if ended.how == "exit" and ended.status in _MEANING:
        return _MEANING[ended.status]
    lines = [line.strip() for line in ended.tail.splitlines() if line.strip()]
    return _cause((lines or [f"its canary ended with {ended.how}"])[-1])


def _cause(line: str) -> str:
    """Cut the advice from a line of bwrap or the launcher: the canary is not the user's own command."""
    for advice in ("; give ", ", likely because", " See <"):
        line = line.partition(advice)[0]
    return line.removeprefix("program '/bin/sh': ").removeprefix("bwrap: ")
