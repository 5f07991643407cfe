"""
Prints how long a gate takes to resume after a crash: it reads its journal and makes the first plan.

    python benchmarks/queue/gate_restart.py [--daemon] [ENTRIES ...]

There are two journals of each length. In one, no entry has been tried yet. The other records a long life: all entries
but the last 200 were tried, ten to a landing, and have landed.

With `--daemon`, `forgepool queue serve` itself resumes with the first kind, over a hub that has all the commits. The
seconds count from its start: to the journaled resumption, to the first trial, and to the first landing.
"""

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from forgepool.orchestrator.decisions.decide import decide
from forgepool.orchestrator.decisions.plan_index import gate_course, gate_plan
from forgepool.orchestrator.journal.events import (
    CheckAnswered,
    CheckSent,
    EntrySubmitted,
    Event,
    LandingAnswered,
    LandingIntended,
    MessageTaken,
    RunStarted,
)
from forgepool.orchestrator.journal.store import Journal
from forgepool.orchestrator.run import run_folder
from forgepool.orchestrator.run.run_folder import RunOptions
from forgepool.supervisor.messages.answers import Certificate, CheckResult, Landing
from forgepool.workers.schema.settings import Settings

_RUN = "gate-main-bench"
_LEFT = 200
_TOGETHER = 10
_SLOTS = 8

T = TypeVar("T")


def main() -> None:
    sizes = [int(word) for word in sys.argv[1:] if word != "--daemon"] or [200, 1000, 5000]
    if "--daemon" in sys.argv:
        print(f"{'entries':>8} {'goes on s':>10} {'first trial s':>14} {'first landing s':>16}")
        for size in sizes:
            print(_daemon_row(size))
        return
    print(f"{'entries':>8} {'events':>7} {'MB':>6} {'replay s':>9} {'course s':>9} {'first plan s':>13} {'all s':>7}")
    for size in sizes:
        for left in (size, min(size, _LEFT)):
            print(_row(size, left))


def _row(size: int, left: int) -> str:
    with tempfile.TemporaryDirectory(prefix="gate-restart-") as folder:
        settings = Settings(home=Path(folder))
        options = RunOptions(
            run=_RUN, hub="/hub.git", target="main", workers=0, plan_file="", plan_file_digest="", gate=True
        )
        kept = run_folder.keep(settings, options, gate_plan(_RUN, "main"))
        events = [*_life(size, left)]
        journal = Journal(kept.folder)
        journal.append(events, at=time.time())
        journal.close()
        megabytes = (kept.folder / "journal.db").stat().st_size / 1e6
        (state, _), replayed_s = _timed(kept.replay)
        course, course_s = _timed(lambda: gate_course(kept.plan, state))
        planned, plan_s = _timed(
            lambda: decide(course, state, now=time.time(), order_slots=0, check_slots=_SLOTS, draining=False)
        )
        assert planned, "somebody is to be tried"
        whole_s = replayed_s + course_s + plan_s
        return (
            f"{size:>8} {len(events):>7} {megabytes:>6.1f} {replayed_s:>9.2f} {course_s:>9.2f} {plan_s:>13.2f} "
            f"{whole_s:>7.2f}"
        )


def _daemon_row(size: int) -> str:
    sys.path.append(str(Path(__file__).parents[2] / "tests"))
    import find_helpers  # noqa: F401  # before any helper
    from gate_kit import GateOf, kept_gate

    def seen(gate: GateOf, kind: type[Event]) -> float:
        began = time.perf_counter()
        gate.wait_for(kind, within_s=120)
        return time.perf_counter() - began

    with kept_gate() as gate:
        gate.stop()
        entries = _in_hub(gate.hub.path, gate.run, size)
        journal = Journal(gate.folder)
        journal.append(entries, at=time.time())
        journal.close()
        goes_on = _timed(gate.serve)[1]
        trial = goes_on + seen(gate, CheckSent)
        landing = trial + seen(gate, LandingAnswered)
        gate.kill()
    return f"{size:>8} {goes_on:>10.2f} {trial:>14.2f} {landing:>16.2f}"


def _in_hub(hub: Path, run: str, size: int) -> list[Event]:
    """Pin commits of one file each in the hub, by one git process, and return their submissions."""
    lines = []
    for n in range(size):
        lines += [f"commit refs/forgepool/{run}/orders/entry-{n}/1", f"mark :{n + 1}", "committer A <a@b> 1 +0000"]
        lines += ["data 1\nx", "from refs/heads/main", f"M 100644 inline e/entry-{n}", "data 3\nok\n"]
    lines += [*(f"get-mark :{n + 1}" for n in range(size)), "done", ""]
    fed = subprocess.run(
        ["git", "fast-import", "--quiet", "--force", "--done"],
        cwd=hub,
        input="\n".join(lines),
        capture_output=True,
        text=True,
        check=True,
    )
    return [_submitted(f"entry-{n}", commit) for n, commit in enumerate(fed.stdout.split())]


def _timed(work: Callable[[], T]) -> tuple[T, float]:
    began = time.perf_counter()
    found = work()
    return found, time.perf_counter() - began


def _life(size: int, left: int) -> Iterator[Event]:
    """Yield the events: each batch is submitted, tried and landed before the next; the entries left come at the end."""
    yield RunStarted(run=_RUN, plan_digest="", hub="/hub.git", target="main", tip=_id("tip", 0), gate_file=True)
    tip = _id("tip", 0)
    for start in range(0, size - left, _TOGETHER):
        names = tuple(f"entry-{n}" for n in range(start, min(start + _TOGETHER, size - left)))
        for name in names:
            yield _submitted(name)
        commits = tuple(_id("landed", n) for n in range(start, start + len(names)))
        yield from _landed(names, commits, tip)
        tip = commits[-1]
    for n in range(size - left, size):
        yield _submitted(f"entry-{n}")


def _submitted(name: str, commit: str = "") -> EntrySubmitted:
    return EntrySubmitted(
        task=name, revision=1, commit=commit or _id(name, 0), title=f"Change what {name} changes", by="Ann"
    )


def _landed(names: tuple[str, ...], commits: tuple[str, ...], tip: str) -> Iterator[Event]:
    lead, check, land = names[-1], f"{_RUN}.{names[-1]}.1.check-1", f"{_RUN}.{names[-1]}.1.land-1"
    certificate = Certificate(
        key=_id("key", 1),
        check="tests",
        definition=_id("d", 1),
        environment="Linux",
        tree=_id("tree", 1),
        seconds=1.0,
        host="here",
    )
    yield CheckSent(task=lead, message_id=check, token="t", base=tip, car=names, at=0, decisive=False, issued_at=1.0)
    yield MessageTaken(message_id=check, host="here", pid=1)
    green = CheckResult(
        request_id=check,
        token="t",
        verdict="green",
        commit=commits[-1],
        commits=commits,
        tree=_id("tree", 1),
        certificates=(certificate,),
    )
    yield CheckAnswered(task=lead, result=green, car=names)
    yield LandingIntended(
        task=lead,
        message_id=land,
        token="t",
        base=tip,
        commit=commits[-1],
        tree=_id("tree", 1),
        entries=names,
        commits=commits,
        certificates=(certificate,),
        issued_at=1.0,
    )
    answer = Landing(request_id=land, token="t", outcome="landed", commit=commits[-1])
    yield LandingAnswered(task=lead, result=answer, entries=names)


def _id(word: str, number: int) -> str:
    return f"{word}{number}".encode().hex().rjust(40, "0")[-40:]


if __name__ == "__main__":
    main()
