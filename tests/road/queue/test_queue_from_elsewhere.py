"""A person with a clone and a home of their own submits, waits and asks; only the hub is shared with the queue."""

import json
import signal
from collections.abc import Iterator

import pytest
from gate_kit import GateOf, kept_gate
from kit import Machine, Ran, Repository, Started, wait_until

from forgepool.orchestrator.journal import events as e

pytestmark = pytest.mark.slow

BRANCH = "feature/base"


@pytest.fixture(scope="module")
def gate(redis_program: str) -> Iterator[GateOf]:
    """Yield one queue for the module, because a daemon takes seconds to start."""
    with kept_gate() as gate:
        yield gate


def person(gate: GateOf, name: str) -> Machine:
    """Make a person who works in a clone of the hub and has another home than the queue."""
    folder = gate.machine.folder.parent / name
    Repository(path=gate.hub.path).git("clone", "-q", str(gate.hub.path), str(folder))
    return Machine(folder=folder, name=name, variables={"FORGEPOOL_SANDBOX": "off"})


def branch(machine: Machine, name: str, word: str = "ok") -> str:
    """Make a branch of one commit on the hub's target in the person's clone, and return the commit."""
    clone = Repository(path=machine.folder)
    clone.git("fetch", "-q", "origin")
    clone.git("checkout", "-q", "-B", name, "origin/main")
    file = machine.folder / "e" / name.replace("/", "-")
    file.parent.mkdir(exist_ok=True)
    file.write_text(f"{word}\n")
    clone.git("add", "e")
    clone.git("commit", "-q", "-m", f"Add {name}")
    return clone.git("rev-parse", "HEAD")


def asked(machine: Machine, *words: str, status: int = 0) -> Ran:
    ran = machine.run("queue", *words)
    assert ran.status == status, ran.out + ran.err
    return ran


def says(started: Started, words: str) -> None:
    wait_until(lambda: words in started.out.read_text() or not started.running(), words)
    assert words in started.out.read_text(), started.said()


def test_a_submitter_sees_the_entry_from_their_own_clone_to_its_end(gate: GateOf) -> None:
    """
    `--wait` prints live lines and exits with the outcome's status. Output shows the branch's own name, not the name in
    its refs.
    """
    ada, grace = person(gate, "ada"), person(gate, "grace")
    branch(ada, BRANCH)
    with gate.held("feature-base"):
        waiting = ada.start("queue", "submit", BRANCH, "--wait")
        says(waiting, f"{BRANCH}: testing; its checks run")
        (row,) = asked(grace, "status", "--json").answer["entries"]
        assert (row["entry"], row["state"], row["place"]) == (BRANCH, "tested", 1)
        assert f"'{BRANCH}' (" in asked(grace, "explain", BRANCH).out
        assert asked(grace, "hold", BRANCH).out.startswith(f"{BRANCH}: held by ")
        assert asked(grace, "explain", BRANCH, "--json").answer["code"] == "held"
        assert asked(grace, "release", BRANCH, "--json").answer["done"] is True
    ended = waiting.ended()
    assert ended.status == 0 and ended.out.splitlines()[-1].endswith(f"{BRANCH}: landed as {gate.tip()[:12]}"), ended
    shown = asked(grace, "status").out + asked(grace, "explain", BRANCH).out + ended.out
    assert "feature--base" not in shown
    assert gate.hub.git("log", "-1", "--format=%s", "main") == f"{BRANCH}: Add {BRANCH}"
    late = asked(grace, "withdraw", BRANCH, status=2)
    assert late.err == f"forgepool: there is nothing to withdraw: '{BRANCH}' is landed\n"


def test_a_red_branch_and_a_conflict_are_returned_with_reasons_and_status_1(gate: GateOf) -> None:
    linus = person(gate, "linus")
    branch(linus, "team/red", "bad")
    red = asked(linus, "submit", "team/red", "--wait", "--json", status=1)
    assert (red.answer["outcome"], red.answer["entry"], red.answer["exit_status"]) == ("returned", "team/red", 1)
    assert "is bad" in red.answer["reasons"][-1]["log_tail"]
    assert "team/red: returned; check 'entries' exited with 1" in red.err
    branch(linus, "team/two", "ok")
    gate.foreign({"e/team-two": "something else\n"})
    conflict = asked(linus, "submit", "team/two", "--wait", status=1)
    assert "'team/two' conflicts with" in conflict.out and "e/team-two" in conflict.out, conflict
    assert "team--" not in conflict.out.replace("/orders/team--two/", "")


def test_ctrl_c_leaves_the_entry_in_the_queue_and_another_clone_withdraws_it_while_it_is_tested(gate: GateOf) -> None:
    ken, rob = person(gate, "ken"), person(gate, "rob")
    branch(ken, "topic/long")
    with gate.held("topic-long"):
        waiting = ken.start("queue", "submit", "topic/long", "--wait")
        says(waiting, "topic/long: testing")
        waiting.process.send_signal(signal.SIGINT)
        ended = waiting.ended()
        assert ended.status == 130
        assert "stopped waiting; 'topic/long' stays in the queue" in ended.err
        assert gate.stand("topic--long").state == "tested"
        again = ken.start("queue", "submit", "topic/long", "--wait")
        says(again, "topic/long: testing")
        assert asked(rob, "withdraw", "topic/long").out == "topic/long: withdrawn\n"
        withdrawn = again.ended()
        assert (withdrawn.status, "topic/long: returned; withdrawn" in withdrawn.out) == (1, True), withdrawn
    assert gate.stand("topic--long").state == "withdrawn"


def test_without_a_queue_at_work_that_is_said_and_the_entry_goes_on_when_one_starts(gate: GateOf) -> None:
    """
    A stopped queue removes its status from the hub, and a killed one leaves it. Entries submitted in the meantime are
    tested later.
    """
    dennis = person(gate, "dennis")
    gate.stop()
    branch(dennis, "topic/early")
    said = asked(dennis, "submit", "topic/early").out
    assert "No queue is serving main now: 'topic/early' is queued and will be picked up when one starts." in said
    status = asked(dennis, "status").out
    assert "No queue is serving main now" in status and "topic/early" in status
    waiting = dennis.start("queue", "submit", "topic/early", "--wait")
    says(waiting, "queued; no queue is serving main now, and it will be picked up when one starts")
    with gate.held("topic-early"):
        gate.serve()
        says(waiting, "topic/early: testing")
        gate.kill()
        assert asked(dennis, "explain", "topic/early", "--json").answer["entry"] == "topic/early"
        gate.serve()
        gate.phase("topic--early", "testing")
    assert waiting.ended().status == 0
    held = [
        one for one in gate.journal() if isinstance(one.event, e.EntrySubmitted) and one.event.task == "topic--early"
    ]
    assert len(held) == 1, "submitted again as it was, it is no second entry"


def test_the_api_shows_and_does_the_same_and_gate_is_still_a_name_of_queue(gate: GateOf) -> None:
    brian = person(gate, "brian")
    token = gate.go / "token"
    token.write_text("0123456789abcdef0123456789abcdef\n")
    gate.stop()
    gate.serve("--http", "127.0.0.1:0", "--token-file", str(token))
    assert gate.daemon is not None
    url = gate.daemon.err.read_text().partition("the API is at ")[2].partition(";")[0]
    where = ("--server", url, "--token-file", str(token))
    branch(brian, "topic/api")
    with gate.held("topic-api"):
        asked(brian, "submit", "topic/api")
        gate.phase("topic--api", "testing")
        assert asked(brian, "status", *where, "--json").answer["entries"][0]["entry"] == "topic/api"
        assert "'topic/api' (" in asked(brian, "explain", "topic/api", *where).out
        assert asked(brian, "hold", "topic/api", *where).out == "the queue is asked to hold 'topic/api'\n"
        gate.wait(lambda: "topic--api" in gate.state().held, "the hold")
        again = asked(brian, "hold", "topic/api", *where, status=2)
        assert "there is nothing to hold" in again.err
        asked(brian, "withdraw", "topic/api", *where)
        gate.phase("topic--api", "cancelled")
    wrong = asked(brian, "status", "--server", "http://127.0.0.1:1", "--token-file", str(token), status=3)
    assert "http://127.0.0.1:1 does not answer" in wrong.err
    old = brian.run("gate", "status", "--json")
    assert json.loads(old.out)["entries"][0]["entry"] == "topic/api"


def test_where_no_queue_can_be_meant_a_sentence_says_what_to_name(gate: GateOf) -> None:
    folder = gate.machine.folder.parent / "nowhere"
    folder.mkdir()
    nowhere = Machine(folder=folder, name="nowhere")
    lost = asked(nowhere, "status", status=2)
    assert "not a git repository" in lost.err and "or name the queue's repository with --hub" in lost.err
    other = folder / "other.git"
    Repository(path=gate.hub.path).git("clone", "-q", "--bare", str(gate.hub.path), str(other))
    bare = asked(nowhere, "explain", "one", "--hub", str(other), status=2)
    assert bare.err.startswith(f"forgepool: {other} has no queue; name another repository with --hub, or start one: ")
