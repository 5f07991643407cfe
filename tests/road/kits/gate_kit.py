"""
A merge queue served by a real daemon, its entries, and checks that wait until a test lets them go.

Each entry adds a file `e/<name>`, whose content decides the result of the check. `ok` passes and `bad` fails; `flaky`
fails the first time. `without x` fails where `x` is present. `floods 1` prints 30 MB and exits with 1. `orphans` leaves
processes behind.

While a file `hold/<name>` exists, checks of trees with that entry wait.
"""

import itertools
import json
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

from kit import Machine, Ran, Repository, Started, T, events_of, make_repository
from processes import Found, kill_all, processes

from forgepool.orchestrator.journal import events as e
from forgepool.orchestrator.journal.events import Event
from forgepool.orchestrator.journal.inbox import PersonRequest, leave
from forgepool.orchestrator.journal.store import JournalUnreadable, Recorded, read
from forgepool.orchestrator.merge_queue.serve.serve import gate_name
from forgepool.orchestrator.reports.queue_status import EntryStanding, explain_task, standing_of
from forgepool.orchestrator.state.fold import apply
from forgepool.orchestrator.state.run import RunState
from forgepool.orchestrator.state.task import Phase

_LOOK_S = 0.03
_TAGS = itertools.count()
CHECK = """
go="$1"
may_go() {
  read -r unless 2>/dev/null < "$go/hold/$1" || return 0
  test -n "$unless" -a -e "e/$unless"
}
echo $(ls e 2>/dev/null) >> "$go/ran"
for one in e/*; do
  until may_go "${one#e/}"; do sleep 0.1; done
  read -r word rest < "$one" || test -n "$word" || continue
  case "$word" in
    bad) echo "$one is bad" >&2; exit 1 ;;
    flaky) mkdir "$go/flaky-${one#e/}" 2>/dev/null && exit 1 ;;
    without) test -e "e/$rest" && exit 1 ;;
    floods) head -c 30000000 /dev/zero | tr '\\0' x ; exit "$rest" ;;
    orphans) (sleep 301 &) ; (setsid sleep 302 &) ; setsid sh -c 'sleep 303 & sleep 304' & ;;
  esac
done
exit 0
"""


@dataclass(frozen=True, slots=True)
class Hook:
    """A hook of the hub that may wait for the test."""

    place: Path

    def reached(self) -> bool:
        return (self.place / "reached").exists()

    def go(self) -> None:
        (self.place / "go").touch()


@dataclass(slots=True, kw_only=True)
class GateOf:
    """A queue in front of one branch of one hub, served from one machine."""

    machine: Machine
    hub: Repository
    go: Path
    target: str = "main"
    daemon: Started | None = None
    _read: list[Recorded] = field(default_factory=list)
    _state: RunState = field(default_factory=lambda: RunState.blank(()))

    @property
    def run(self) -> str:
        return gate_name(str(self.hub.path), self.target)

    @property
    def folder(self) -> Path:
        return self.machine.home / "runs" / self.run

    def serve(self, *more: str) -> None:
        """Start the daemon, and wait until it has journaled its start."""
        began = sum(isinstance(one.event, e.RunStarted | e.RunResumed) for one in self.journal())
        words = ("gate", "serve", "--repo", str(self.hub.path), "--target", self.target, "--trials", "3")
        self.daemon = self.machine.start(*words, *more)
        self.wait(
            lambda: sum(isinstance(one.event, e.RunStarted | e.RunResumed) for one in self.journal()) > began,
            "the gate to open",
        )

    def kill(self) -> None:
        assert self.daemon is not None
        self.daemon.kill()

    def stop(self) -> Ran:
        assert self.daemon is not None
        self.daemon.process.send_signal(signal.SIGINT)
        self.daemon.process.send_signal(signal.SIGINT)
        return self.daemon.ended(within_s=30)

    def journal(self) -> list[Recorded]:
        """Return all events so far; only new ones are read from disk."""
        try:
            self._read.extend(read(self.folder, after=self._read[-1].number if self._read else 0))
        except JournalUnreadable:
            return self._read
        return self._read

    def state(self) -> RunState:
        """Return the state computed from the journal."""
        for one in self.journal():
            if one.number > self._state.number:
                apply(self._state, one.event, number=one.number, at=one.at)
        return self._state

    def stand(self, entry: str) -> EntryStanding:
        state = self.state()
        if entry not in state.tasks:
            self.phase(entry, *get_args(Phase))
        return standing_of(state, state.tasks[entry], time.time())

    def paragraph(self, entry: str) -> str:
        state = self.state()
        return explain_task(state, state.tasks[entry], time.time())

    def tidy(self) -> None:
        """Release all checks, open the queue and withdraw all entries."""
        for one in (self.go / "hold").iterdir():
            one.unlink()
        if self.state().paused or self.state().halted:
            self.asks("go")
        self.wait(lambda: not self.state().paused and not self.state().halted, "an open gate")
        for one in list(self.state().train.line.entries):
            self.asks("cancel", one)
        self.wait(lambda: not self.state().train.line.entries, "an empty line")

    def phase(self, entry: str, *phases: str, within_s: float = 25.0) -> None:
        """Wait until the entry is in one of these phases."""

        def seen() -> bool:
            task = self.state().tasks.get(entry)
            return task is not None and task.phase in phases

        self.wait(seen, f"'{entry}' {' or '.join(phases)}", within_s=within_s)

    def forget_journal(self) -> None:
        """Forget the events read so far, because the file was replaced."""
        self._read.clear()
        self._state = RunState.blank(())

    def mark(self) -> int:
        """Return the number of the latest event, for `since`."""
        return self.journal()[-1].number

    def since(self, mark: int) -> list[Recorded]:
        return [one for one in self.journal() if one.number > mark]

    def wait(self, seen: Callable[[], T | None], what: str, *, within_s: float = 25.0) -> T:
        until = time.monotonic() + within_s
        while not (found := seen()):
            assert self.daemon is None or self.daemon.running(), f"the daemon has ended:\n{self._told()}"
            assert time.monotonic() < until, f"waited {within_s} s in vain: {what}\n{self._told()}"
            time.sleep(_LOOK_S)
        return found

    def _told(self) -> str:
        last = "\n".join(str(one.event)[:300] for one in self._read[-25:])
        return f"{last}\n{self.daemon.said() if self.daemon else ''}\n{self.machine.logs()[-3000:]}"

    def wait_for(
        self, kind: type[Event], *, of: str | None = None, since: int = 0, count: int = 1, within_s: float = 25.0
    ) -> Any:
        """Wait for the `count`th event of the kind about the entry."""

        def seen() -> Any:
            found = [one for one in events_of(self.since(since), kind) if of in (None, _about(one))]
            return found[count - 1] if len(found) >= count else None

        return self.wait(seen, f"{kind.__name__} of {of}", within_s=within_s)

    def commit(self, files: Mapping[str, str | None], *, base: str | None = None, ref: str = "refs/scratch/one") -> str:
        """Make a person's commit in the hub with one process; `None` deletes a file."""
        base = base or self.tip()
        lines = [
            f"commit {ref}",
            "mark :1",
            f"committer A Person <person@localhost> {int(time.time())} +0000",
            _data(f"{', '.join(files) or 'nothing'}"),
            f"from {base}",
            *(
                f"D {path}" if text is None else f"M 100644 inline {path}\n{_data(text)}"
                for path, text in files.items()
            ),
            "",
            "get-mark :1",
            "done",
        ]
        return self.feed("fast-import", "--quiet", "--force", "--done", text="\n".join(lines) + "\n")

    def feed(self, *argv: str, text: str) -> str:
        """Run git in the hub with this standard input, and return its output."""
        ran = subprocess.run(["git", *argv], cwd=self.hub.path, input=text, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, f"git {argv}: {ran.stderr}"
        return ran.stdout.strip()

    def push(
        self, name: str, word: str = "ok", *, base: str | None = None, more: Mapping[str, str] | None = None
    ) -> str:
        """Submit a commit with one file, as a push would, and return the commit."""
        commit = self.commit({f"e/{name}": f"{word}\n", **(more or {})}, base=base)
        self.give(name, commit)
        return commit

    def give(self, name: str, commit: str, **said: str) -> None:
        """Submit a commit, or a tag on it that carries more fields."""
        self.give_all({name: self.tagged(name, commit, **said) if said else commit})

    def give_all(self, at: Mapping[str, str]) -> None:
        """Submit several commits in one push."""
        lines = [f"update refs/forgepool/for/{self.target}/{name} {one}\n" for name, one in at.items()]
        self.feed("update-ref", "--stdin", text="".join(lines))

    def tagged(self, name: str, commit: str, **said: str) -> str:
        """Make a new tag object each time, because the queue deletes the ref of the object it has answered."""
        at = 1700000000 + next(_TAGS)
        head = f"object {commit}\ntype commit\ntag {name}\ntagger A Person <> {at} +0000\n\nForgepool\n\n"
        return self.feed("mktag", text=head + "".join(f"{key}: {value}\n" for key, value in said.items()))

    def asks(self, do: str, entry: str | None = None, **more: str | tuple[str, ...]) -> None:
        """Leave a person's request in the inbox, as the commands do."""
        leave(self.folder, PersonRequest.model_validate({"do": do, "task": entry, "by": "someone", **more}))

    def explained(self, entry: str) -> Any:
        """Return the JSON of `gate explain`."""
        said = self.machine.run("gate", "explain", entry, "--json", "--gate", self.run)
        assert said.status == 0, said.err
        return json.loads(said.out)

    def tip(self) -> str:
        return self.hub.git("rev-parse", f"refs/heads/{self.target}")

    def landed(self, *, after: str) -> list[str]:
        """
        Return the entries on the target's first-parent history since a commit, in order; `-` marks a commit that the
        queue did not land.
        """
        commits = self.hub.git("rev-list", "--first-parent", "--reverse", f"{after}..{self.target}").split()
        return [self.hub.trailer(one, "Forgepool-Task") or "-" for one in commits]

    def _composed(self, wanted: set[str]) -> list[str]:
        return next((one.split() for one in self.tested() if {*one.split()} == wanted), [])

    def here(self) -> list[str]:
        """Return the entries whose files are in the target."""
        found = self.hub.git("ls-tree", "--name-only", self.target, "e/").split()
        return [one.removeprefix("e/") for one in found]

    def wait_landed(self, *names: str, since: int = 0) -> None:
        self.wait(lambda: set(names) <= {*self.answered_landed(since)}, f"{names} landed")

    def answered_landed(self, since: int = 0) -> Iterator[str]:
        for one in events_of(self.since(since), e.LandingAnswered):
            if one.result.outcome == "landed":
                yield from one.entries or (one.task,)

    def moves(self, since: int = 0) -> list[tuple[str, ...]]:
        """Return the entries of each landing, from the queue's journal."""
        found = events_of(self.since(since), e.LandingAnswered)
        return [one.entries or (one.task,) for one in found if one.result.outcome == "landed"]

    def trials(self, since: int = 0) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
        """Return the entries ahead and the batch of each trial that was sent."""
        return [(one.ahead, one.car or (one.task,)) for one in events_of(self.since(since), e.CheckSent)]

    def tested(self) -> list[str]:
        """Return the entries in each tree that was checked, as the check wrote them."""
        ran = self.go / "ran"
        return ran.read_text().splitlines() if ran.exists() else []

    @contextmanager
    def held(self, *names: str, unless: str = "") -> Iterator[Callable[..., None]]:
        """Make checks of trees with these entries and without `unless` wait until the yielded function is called."""
        for name in names:
            (self.go / "hold" / name).write_text(f"{unless}\n")

        def let_go(*some: str) -> None:
            for name in some or names:
                (self.go / "hold" / name).unlink(missing_ok=True)

        try:
            yield let_go
        finally:
            let_go()

    def under_test(self, *names: str, within_s: float = 25.0) -> None:
        """Wait until a check has begun on exactly these entries and those that have landed."""
        before = set(self.here()) if self.hub.git("ls-tree", "--name-only", self.target, "e") else set()
        wanted = {*names} | before
        self.wait(
            lambda: any({*one.split()} == wanted for one in self.tested()), f"a check of {names}", within_s=within_s
        )

    def foreign(self, files: Mapping[str, str | None], *, base: str | None = None) -> str:
        """Push to the target past the queue, and return the commit."""
        commit = self.commit(files, base=base)
        self.hub.git("update-ref", f"refs/heads/{self.target}", commit)
        return commit

    def merged(self, commit: str) -> str:
        """Merge a commit into the target past the queue, and return the merge."""
        tree = self.feed("merge-tree", "--write-tree", self.tip(), commit, text="").splitlines()[0]
        made = self.hub.git("commit-tree", tree, "-p", self.tip(), "-p", commit, "-m", "merged by hand")
        self.hub.git("update-ref", f"refs/heads/{self.target}", made)
        return made

    @contextmanager
    def hook(self, *, name: str = "pre-receive", ref: str = "", says: str = "", waits: bool = True) -> Iterator[Hook]:
        """Install a hook in the hub that waits or refuses when a push moves the ref, by default the target."""
        place = Path(tempfile.mkdtemp(prefix="hook-", dir=self.go))
        (place / "says").write_text(says)
        told = f"grep -q ' {ref or f'refs/heads/{self.target}'}$'"
        wanted = {
            "update": f"case $1 in {ref}) true ;; *) false ;; esac",
            "reference-transaction": f"test $1 = prepared && {told}",
        }.get(name, told)
        script = self.hub.path / "hooks" / name
        script.parent.mkdir(exist_ok=True)
        script.write_text(
            f"#!/bin/sh\n{wanted} || exit 0\ntouch {place}/reached\n"
            + (f"until test -e {place}/go; do sleep 0.05; done\n" if waits else "")
            + f"cat {place}/says >&2\ntest ! -s {place}/says\n"
        )
        script.chmod(0o755)
        try:
            yield Hook(place)
        finally:
            (place / "go").touch()
            script.unlink()

    def checking(self) -> list[Found]:
        """Return the processes of checks that run."""
        return [one for one in processes(self.go.parent) if str(self.go / "check.sh") in one.argv]

    def own_refs(self) -> list[str]:
        """Return the queue's refs in the hub."""
        return self.hub.refs(f"refs/forgepool/{self.run}")

    def waits_for_no_refs(self) -> None:
        """Wait until no refs are left except pins of returned entries that may be retried."""
        self.wait(
            lambda: not self._needless_refs() and not self.hub.refs("refs/forgepool/for"), "the gate's refs to go"
        )

    def _needless_refs(self) -> list[str]:
        returned = {one.id for one in self.state().in_phase("failed", "cancelled", "blocked", "needs_human")}
        return [one for one in self.own_refs() if "/orders/" not in one or one.split("/")[4] not in returned]


def _about(event: Event) -> str | None:
    return getattr(event, "task", None) or getattr(event, "name", None)


def _data(text: str) -> str:
    return f"data {len(text.encode())}\n{text}"


def make_gate(folder: Path, machine: Machine, name: str, *, target: str = "main", checks: str = "") -> GateOf:
    """
    Make a bare hub with a gate file; no daemon is started yet.

    Findings block a person's entry, too. test_gate_people.py tests the default.
    """
    go = folder / f"go-{name}"
    (go / "hold").mkdir(parents=True)
    script = go / "check.sh"
    script.write_text(CHECK)
    gate_file = f"version: 1\nscans: {{people: enforce}}\nchecks:\n  entries: sh {script} {go}\n{checks}"
    seed = make_repository(folder / f"seed-{name}", {"README.md": "read me\n", "forgepool.yaml": gate_file})
    hub = folder / f"{name}.git"
    seed.git("clone", "-q", "--bare", str(seed.path), str(hub))
    made = Repository(path=hub.resolve())
    if target != "main":
        made.git("branch", target, "main")
    machine.variables |= {"FORGEPOOL_SANDBOX": "off", "FORGEPOOL_LEASE_TTL_S": "4"}
    return GateOf(machine=machine, hub=made, go=go, target=target)


@contextmanager
def kept_gate(*more: str) -> Iterator[GateOf]:
    """Yield a queue with a daemon on its own machine, and remove everything afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="gate-")).resolve()
    (folder / "here").mkdir()
    try:
        gate = make_gate(folder, Machine(folder=folder / "here", name="here"), "hub")
        gate.serve(*more)
        yield gate
        if gate.daemon is not None and gate.daemon.running():
            gate.stop()
    finally:
        kill_all(folder)
        shutil.rmtree(folder, ignore_errors=True)
