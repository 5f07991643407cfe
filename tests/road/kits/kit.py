"""
Run the `forgepool` command as a person does, in processes with their own home, and read the hub with plain git.

Tests read the journal and the hub, and do not rely on what a run prints.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import warm

from forgepool.orchestrator.journal import events as e
from forgepool.orchestrator.journal.store import JournalUnreadable, Recorded, read

_IDENTITY = {
    "GIT_AUTHOR_NAME": "A Person",
    "GIT_AUTHOR_EMAIL": "person@localhost",
    "GIT_COMMITTER_NAME": "A Person",
    "GIT_COMMITTER_EMAIL": "person@localhost",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
}
_LOOK_S = 0.01
_SETTLED_NS = 100_000_000
"""Nanoseconds after which a file's time of change differs from that of any later write."""

T = TypeVar("T")
E = TypeVar("E")


def wait_until(seen: Callable[[], T | None], what: str, *, within_s: float = 60.0) -> T:
    """
    Return the first true value of `seen`, or fail the test when the time is over. Polling takes at most a third of the
    time.
    """
    until = time.monotonic() + within_s
    looked = time.monotonic()
    while not (found := seen()):
        now = time.monotonic()
        assert now < until, f"waited {within_s} s in vain: {what}"
        time.sleep(max(_LOOK_S, 2 * (now - looked)))
        looked = time.monotonic()
    return found


@dataclass(frozen=True, slots=True)
class Ran:
    """A command that has ended."""

    status: int
    out: str
    err: str

    @property
    def answer(self) -> Any:
        """The one JSON value it printed."""
        return json.loads(self.out)


@dataclass(frozen=True, slots=True, kw_only=True)
class Repository:
    """A repository on disk, asked with plain git."""

    path: Path

    def git(self, *argv: str, status: int = 0) -> str:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        ran = subprocess.run(
            ["git", *argv], cwd=self.path, env=kept | _IDENTITY, capture_output=True, text=True, check=False
        )
        assert ran.returncode == status, f"git {argv}: {ran.stderr}"
        return ran.stdout.strip()

    def commits(self, branch: str) -> list[str]:
        """Return the branch's first-parent commits since `main`, oldest first."""
        return self.git("rev-list", "--first-parent", "--reverse", f"main..{branch}").split()

    def trailer(self, commit: str, name: str) -> str:
        return self.git("log", "-1", f"--format=%(trailers:key={name},valueonly,separator=%x2C)", commit)

    def landed(self, branch: str) -> list[str]:
        """Return the tasks named in the trailers of the branch's first-parent history, in landing order."""
        return [self.trailer(commit, "Forgepool-Task") for commit in self.commits(branch)]

    def file(self, branch: str, path: str) -> str:
        return self.git("show", f"{branch}:{path}")

    def refs(self, prefix: str) -> list[str]:
        return self.git("for-each-ref", "--format=%(refname)", prefix).split()

    def is_green(self, commit: str, checks: Sequence[str], scratch: Path) -> bool:
        """Run the checks on a fresh clone of the commit, without the gate, and return whether all pass."""
        commit = self.git("rev-parse", commit)
        folder = scratch / f"green-{commit[:12]}"
        self.git("clone", "-q", "--no-checkout", str(self.path), str(folder))
        Repository(path=folder).git("checkout", "-q", "--detach", commit)
        ended = [subprocess.run(["sh", "-c", check], cwd=folder, check=False).returncode for check in checks]
        return ended == [0] * len(checks)


def make_repository(path: Path, files: Mapping[str, str]) -> Repository:
    """Make a repository with one commit on `main`."""
    path.mkdir(parents=True)
    made = Repository(path=path)
    made.git("init", "-q", "-b", "main")
    for name, text in files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text(text)
    made.git("add", "-A")
    made.git("commit", "-q", "-m", "first")
    return made


@dataclass(slots=True)
class Started:
    """A `forgepool` command that runs."""

    process: "subprocess.Popen[str] | warm.Forked"
    out: Path
    err: Path

    @property
    def pid(self) -> int:
        return self.process.pid

    def running(self) -> bool:
        return self.process.poll() is None

    def kill(self) -> None:
        """Send SIGKILL, as the kernel does when memory runs out."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def ended(self, *, within_s: float = 120.0) -> Ran:
        try:
            status = self.process.wait(timeout=within_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still running after {within_s} s:\n{self.said()}") from None
        return Ran(status, self.out.read_text(), self.err.read_text())

    def said(self) -> str:
        return self.out.read_text()[-4000:] + self.err.read_text()[-4000:]


@dataclass(slots=True, kw_only=True)
class Machine:
    """A host: its home, cache, temporary folder, name, and the Redis address it is given, if any."""

    folder: Path
    name: str
    broker: str | None = None
    variables: dict[str, str] = field(default_factory=dict)
    """Environment variables in addition to those every machine has."""
    before: tuple[str, ...] = ()
    """Words put before each command, to run it under another program."""
    started: list[Started] = field(default_factory=list)
    _journals: dict[str, tuple[list[tuple[int, int]] | None, list[Recorded]]] = field(default_factory=dict)
    """Events last read of each run, and the size and time of its journal files then."""

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def cache(self) -> Path:
        return self.folder / "cache"

    @property
    def tmp(self) -> Path:
        return self.folder / "tmp"

    def start(self, *argv: str | Path) -> Started:
        self.tmp.mkdir(parents=True, exist_ok=True)
        number = len(self.started)
        out, err = self.folder / f"out-{number}", self.folder / f"err-{number}"
        process: subprocess.Popen[str] | warm.Forked
        with out.open("w") as out_file, err.open("w") as err_file:
            if self.before:
                process = subprocess.Popen(
                    [*self.before, sys.executable, "-m", "forgepool.orchestrator.cli", *map(str, argv)],
                    cwd=self.folder,
                    env=self._environment(),
                    stdin=subprocess.DEVNULL,
                    stdout=out_file,
                    stderr=err_file,
                    text=True,
                    start_new_session=True,
                )
            else:
                process = warm.start(argv, cwd=self.folder, env=self._environment(), stdout=out_file, stderr=err_file)
        self.started.append(Started(process, out, err))
        return self.started[-1]

    def run(self, *argv: str | Path, within_s: float = 120.0) -> Ran:
        return self.start(*argv).ended(within_s=within_s)

    def _environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("FORGEPOOL_")}
        mine = {
            "FORGEPOOL_HOME": str(self.home),
            "FORGEPOOL_CACHE": str(self.cache),
            "FORGEPOOL_HOST": self.name,
            "TMPDIR": str(self.tmp),
        }
        return kept | mine | self.variables | ({"FORGEPOOL_BROKER_URL": self.broker} if self.broker else {})

    def runs(self) -> list[str]:
        folder = self.home / "runs"
        return sorted(one.name for one in folder.iterdir()) if folder.is_dir() else []

    def the_run(self, *, within_s: float = 60.0) -> str:
        """Return the name of the only run, once it has journaled an event."""
        return wait_until(
            lambda: self.runs()[0] if self.runs() and self.journal() else None, "a run", within_s=within_s
        )

    def journal(self, run: str | None = None) -> list[Recorded]:
        """Return the events so far, read from the file."""
        try:
            return [one for name in ([run] if run else self.runs()[:1]) for one in self._read(name)]
        except JournalUnreadable:
            return []

    def _read(self, run: str) -> list[Recorded]:
        """Read the events again only if the file may have changed, because waiting tests poll often."""
        folder = self.home / "runs" / run
        stands = [how for name in ("journal.db", "journal.db-wal") if (how := _how_it_is(folder / name))]
        before, recorded = self._journals.get(run, (None, []))
        if before != stands:
            settled = all(time.time_ns() - at > _SETTLED_NS for _, at in stands)
            recorded = list(read(folder))
            self._journals[run] = (stands if settled else None, recorded)
        return list(recorded)

    def wait_for(self, kind: str, *, task: str | None = None, count: int = 1, within_s: float = 60.0) -> Recorded:
        """Wait for the `count`th event of that kind (and task)."""

        def seen() -> Recorded | None:
            found = [one for one in self.journal() if one.event.kind == kind and task in (None, about(one.event))]
            return found[count - 1] if len(found) >= count else None

        try:
            return wait_until(seen, f"{kind} of {task}", within_s=within_s)
        except AssertionError as vain:
            raise AssertionError(f"{vain}\n{self.started[-1].said()}{self.logs()}") from None

    def logs(self) -> str:
        """Return the ends of the run's logs, for the message of a failed test."""
        return "".join(f"\n== {log.name}\n{log.read_text()[-2000:]}" for log in self.home.glob("runs/*/logs/*.log"))


def _how_it_is(path: Path) -> tuple[int, int] | None:
    """Return the size and the time of the last change."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns


def about(event: e.Event) -> str | None:
    """Return the task of an event."""
    if isinstance(event, e.MessageTaken | e.MessageLost):
        return event.message_id.split(".")[1]
    return getattr(event, "task", None)


def events_of(recorded: Sequence[Recorded], kind: type[E]) -> Iterator[E]:
    return (one.event for one in recorded if isinstance(one.event, kind))


def write_plan(folder: Path, plan: Mapping[str, Any]) -> Path:
    """Write a plan file as JSON, which is YAML."""
    path = folder / f"{plan['name']}.yaml"
    path.write_text(json.dumps({"version": 1, **plan}, indent=1))
    return path


def command(script: str) -> dict[str, str]:
    return {"command": script}
