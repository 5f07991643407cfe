"""
Kill the queue's processes at every step of a landing and under load: each entry lands once, and nothing is left behind.
"""

import os
import shutil
import signal
from collections.abc import Iterator

import pytest
from gate_kit import GateOf, kept_gate
from kit import events_of
from processes import Found, processes

from forgepool.orchestrator.journal import events as e

pytestmark = pytest.mark.slow

_OF_THE_LOOP = (
    "landing.intended.unjournaled",
    "landing.intended.journaled",
    "landing.answered.unjournaled",
    "landing.answered.journaled",
)
_OF_THE_LANDER = ("landing.before-push", "landing.after-push")


@pytest.fixture(scope="module")
def kept(redis_program: str) -> Iterator[GateOf]:
    """
    Yield one queue for the module. At the end it asserts that no process and no ref is left, except for entries that
    did not land.
    """
    with kept_gate() as gate:
        yield gate
        gate.tidy()
        gate.stop()
        assert [" ".join(one.argv) for one in processes(gate.go.parent)] == []
        assert [one for one in gate.own_refs() if "/orders/" not in one] == []


@pytest.fixture
def gate(kept: GateOf) -> Iterator[GateOf]:
    mark = kept.mark()
    yield kept
    kept.machine.variables.pop("FORGEPOOL_FAULT", None)
    if kept.daemon is None or not kept.daemon.running():
        kept.daemon = None
        kept.serve()
    kept.tidy()
    assert not list(events_of(kept.since(mark), e.TaskFailed)), "somebody was blamed for a crash"


def _anew(gate: GateOf, *, dies_at: str = "") -> None:
    """Kill the running daemon and start another; the new one dies at `dies_at`, if given."""
    if gate.daemon is not None and gate.daemon.running():
        gate.kill()
    if dies_at:
        gate.machine.variables["FORGEPOOL_FAULT"] = f"{dies_at}:{gate.go / dies_at}"
    gate.serve()


def _submit_car(gate: GateOf, stem: str) -> tuple[str, ...]:
    """Submit three entries that land together. The first one's own check waits until the test lets it go."""
    names = (f"{stem}-1", f"{stem}-2", f"{stem}-3")
    (gate.go / "hold" / names[0]).write_text(f"{names[2]}\n")
    for name in names:
        gate.push(name)
    return names


def _landed_once(gate: GateOf, before: str, names: tuple[str, ...]) -> None:
    gate.wait(lambda: {*names} <= {*gate.here()}, "all to be there")
    gate.wait_landed(*names)
    assert gate.landed(after=before) == [*names]
    moves = [one for move in gate.moves() for one in move]
    assert [moves.count(one) for one in names] == [1, 1, 1]


@pytest.mark.parametrize("point", _OF_THE_LOOP)
def test_a_daemon_that_dies_at_a_landing_lands_it_once_when_it_is_back(gate: GateOf, point: str) -> None:
    """The points: before and after journaling the intent to land, and before and after journaling the answer."""
    before = gate.tip()
    _anew(gate, dies_at=point)
    names = _submit_car(gate, point.replace(".", "-"))
    assert gate.daemon is not None
    assert gate.daemon.ended(within_s=40).status == -signal.SIGKILL
    gate.daemon = None
    if "answered" in point:
        assert gate.landed(after=before) == [*names], "it had landed, and the daemon did not know"
    gate.serve()
    _landed_once(gate, before, names)
    gate.waits_for_no_refs()


@pytest.mark.parametrize("point", _OF_THE_LANDER)
def test_a_lander_that_dies_beside_its_push_is_followed_by_one_that_finds_out(gate: GateOf, point: str) -> None:
    """The points: before the push, and after the push but before the answer."""
    before = gate.tip()
    _anew(gate, dies_at=point)
    names = _submit_car(gate, point.replace(".", "-"))
    _landed_once(gate, before, names)
    assert (gate.go / point).exists(), "somebody died there"
    gate.waits_for_no_refs()


def _pushing(gate: GateOf) -> list[Found]:
    """Return the processes of the lander's `git push`, on both sides."""
    return [one for one in processes(gate.go.parent) if any(word in ("push", "receive-pack") for word in one.argv)]


@pytest.mark.parametrize("name", ["pre-receive", "post-receive"])
def test_a_push_that_is_killed_on_its_way_lands_once(gate: GateOf, name: str) -> None:
    """Kill the push with its process groups in a hook, before or after the hub moved the target."""
    before = gate.tip()
    with gate.hook(name=name) as hook:
        names = _submit_car(gate, name)
        gate.wait(hook.reached, "the push")
        _kill_push(gate)
        hook.go()
        if name == "pre-receive":
            assert gate.tip() == before
    _landed_once(gate, before, names)
    gate.waits_for_no_refs()


def _kill_push(gate: GateOf) -> None:
    groups = {os.getpgid(one.pid) for one in _pushing(gate)}
    assert groups
    for group in groups:
        os.killpg(group, signal.SIGKILL)


def test_the_locks_of_a_push_that_was_killed_are_waited_out_and_taken_away(gate: GateOf) -> None:
    """
    Kill the push while git holds its locks. The queue removes the locks once they are old, and checks nothing again.
    """
    before, mark = gate.tip(), gate.mark()
    with gate.hook(name="reference-transaction") as hook:
        names = _submit_car(gate, "locks")
        gate.wait(hook.reached, "the push")
        _kill_push(gate)
        hook.go()
    locks = [gate.hub.path / name for name in ("HEAD.lock", "refs/heads/main.lock")]
    assert all(lock.exists() for lock in locks)
    gate.wait(lambda: "File exists" in gate.stand(names[-1]).why, "the lock to be told of")
    sent = len(gate.trials(mark))
    for lock in gate.hub.path.rglob("*.lock"):
        os.utime(lock, times=(0, 0))
    _landed_once(gate, before, names)
    assert len(gate.trials(mark)) == sent
    gate.wait(lambda: not list(gate.hub.path.rglob("*.lock")), "the locks to be gone, also those of moves under way")


def test_a_daemon_killed_under_load_loses_nobody(gate: GateOf) -> None:
    """Submit twenty entries and kill the daemon twice; its Redis and its workers are not killed."""
    before, mark = gate.tip(), gate.mark()
    names = [f"load{n}" for n in range(20)]
    for name in names:
        gate.push(name)
    gate.wait_for(e.LandingIntended, since=mark)
    _anew(gate)
    wanted = len(list(gate.answered_landed())) + 3
    gate.wait(lambda: len(list(gate.answered_landed())) >= wanted or {*names} <= {*gate.here()}, "some more")
    _anew(gate)
    gate.wait(lambda: {*names} <= {*gate.here()}, "all", within_s=60)
    assert sorted(gate.landed(after=before)) == sorted(names)
    gate.wait_landed(*names)
    gate.waits_for_no_refs()


def test_an_older_journal_learns_from_the_hub_what_has_landed(gate: GateOf) -> None:
    """Put back an old copy of the run's folder. No entry lands twice, and new revisions replace the old ones."""
    before = gate.tip()
    gate.asks("pause")
    gate.wait(lambda: gate.state().paused, "a pause")
    gate.push("old-one")
    gate.phase("old-one", "queued")
    gate.push("old-two", "ok one")
    gate.phase("old-two", "queued")
    gate.kill()
    copy = gate.go / "copy"
    shutil.copytree(gate.folder, copy)
    gate.asks("go")
    gate.asks("hold", "old-two")
    gate.serve()
    gate.wait_landed("old-one")
    gate.push("old-two", "ok two")
    gate.wait_for(e.EntrySubmitted, of="old-two", count=2)
    gate.kill()
    shutil.rmtree(gate.folder)
    copy.rename(gate.folder)
    gate.forget_journal()
    gate.serve()
    gate.phase("old-one", "landed")
    gate.push("old-two", "ok three")
    gate.asks("go")
    gate.wait_landed("old-two")
    assert gate.landed(after=before) == ["old-one", "old-two"]
    assert gate.hub.file("main", "e/old-two") == "ok three"


def test_what_is_asked_while_nobody_keeps_the_gate_is_kept(gate: GateOf) -> None:
    """
    While the queue is down, one entry is retried by command and another is pushed. Both are taken in when it starts.
    """
    with gate.held("idle"):
        gate.push("idle")
        gate.phase("idle", "testing")
        said = gate.machine.run("gate", "withdraw", "idle", "--gate", gate.run)
        assert said.status == 0, said.err
        gate.phase("idle", "cancelled")
    gate.kill()
    said = gate.machine.run("gate", "retry", "idle", "--gate", gate.run)
    assert said.status == 0, said.err
    gate.push("meanwhile")
    gate.asks("pause")
    gate.serve()
    gate.wait(lambda: f"refs/forgepool/{gate.run}/orders/idle/2" in gate.own_refs(), "its pin")
    gate.asks("go")
    gate.wait_landed("idle", "meanwhile")
