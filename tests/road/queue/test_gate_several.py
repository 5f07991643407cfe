"""One daemon serves two branches: trouble at one does not affect the other, and a stop ends both."""

import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from gate_kit import GateOf, make_gate
from kit import Machine
from processes import kill_all

from forgepool.orchestrator.merge_queue.lookup import find_entry, find_queue
from forgepool.orchestrator.run.hub import CannotRun
from forgepool.workers.schema.settings import Settings

pytestmark = pytest.mark.slow

OTHER = "release-2"
Two = tuple[GateOf, GateOf]


@pytest.fixture(scope="module")
def kept(redis_program: str) -> Iterator[Two]:
    folder = Path(tempfile.mkdtemp(prefix="gates-")).resolve()
    (folder / "here").mkdir()
    try:
        main = make_gate(folder, Machine(folder=folder / "here", name="here"), "hub")
        main.hub.git("branch", OTHER, "main")
        yield main, GateOf(machine=main.machine, hub=main.hub, go=main.go, target=OTHER)
    finally:
        kill_all(folder)
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def gates(kept: Two) -> Two:
    main, other = kept
    if main.daemon is None or not main.daemon.running():
        main.daemon = None
        main.serve("--target", OTHER)
    other.daemon = main.daemon
    other.wait(lambda: other.state().run, "the other gate to open")
    return kept


def test_each_lands_on_its_own_branch_and_is_found_without_its_gate(gates: Two) -> None:
    main, other = gates
    home = Settings(home=main.machine.home)
    for gate, name in ((main, "for-main"), (other, "for-other"), (main, "both"), (other, "both")):
        gate.push(name, base=gate.tip())
    main.wait_landed("for-main", "both")
    other.wait_landed("for-other", "both")
    assert (main.here(), other.here()) == (["both", "for-main"], ["both", "for-other"])
    assert find_entry(home, "for-other", None).kept.options.run == other.run
    assert find_entry(home, "both", OTHER).kept.options.run == other.run
    with pytest.raises(CannotRun, match=f"of several queues; name one with --target: main, {OTHER}"):
        find_entry(home, "both", None)
    with pytest.raises(CannotRun, match="no queue has an entry 'nobody'; the latest are"):
        find_entry(home, "nobody", None)
    with pytest.raises(CannotRun, match=f"name one with --target: main, {OTHER}"):
        find_queue(home, None)
    assert find_queue(home, "main").options.run == main.run
    told = main.machine.run("gate", "status", "--json").answer["gates"]
    assert [(one["target"], len(one["entries"])) for one in told] == [("main", 2), (OTHER, 2)]


def test_a_branch_that_is_deleted_shuts_its_own_gate_alone(gates: Two) -> None:
    main, other = gates
    tip = other.tip()
    with other.held("orphan"):
        other.push("orphan", base=tip)
        other.phase("orphan", "testing")
        other.hub.git("update-ref", "-d", f"refs/heads/{OTHER}")
    other.wait(lambda: other.state().halted, "the gate to be shut")
    assert f"branch {OTHER} is gone" in other.stand("orphan").why
    main.push("unmoved")
    main.wait_landed("unmoved")
    other.hub.git("update-ref", f"refs/heads/{OTHER}", tip)
    other.asks("go")
    other.wait_landed("orphan")


def test_both_go_on_after_a_kill_and_stop_together(gates: Two) -> None:
    main, other = gates
    with main.held("late-main", "late-other"):
        main.push("late-main")
        other.push("late-other", base=other.tip())
        main.phase("late-main", "testing")
        other.phase("late-other", "testing")
        main.kill()
    main.daemon = other.daemon = None
    main.serve("--target", OTHER)
    main.wait_landed("late-main")
    other.wait_landed("late-other")
    other.asks("pause")
    other.push("waits", base=other.tip())
    other.phase("waits", "queued")
    # Ctrl-C twice. The second may come too late, because a daemon with nothing under way ends at the first.
    assert main.daemon is not None
    main.daemon.process.send_signal(signal.SIGTERM)
    ended = main.daemon.ended(within_s=30)
    assert ended.status == 130, "one in line at one of them"
    assert "the queue of main has stopped\n" in ended.out, ended.out
    assert f"the queue of {OTHER} has stopped; 1 in line" in ended.out, ended.out
    _who_is_gone_now_stays_shut_alone(main, other)


def _who_is_gone_now_stays_shut_alone(main: GateOf, other: GateOf) -> None:
    tip = other.tip()
    other.hub.git("update-ref", "-d", f"refs/heads/{OTHER}")
    try:
        main.serve("--target", OTHER)
        assert main.daemon is not None
        main.daemon.process.send_signal(signal.SIGTERM)
        ended = main.daemon.ended(within_s=30)
    finally:
        other.hub.git("update-ref", f"refs/heads/{OTHER}", tip)
    assert ended.status == 2, ended
    assert f"queue of {OTHER} is not served (the others are): {other.hub.path} has no branch" in ended.err, ended.err
    assert "the queue of main in" in ended.out and "the queue has stopped" in ended.out, ended.out
