"""However a delivery ends, its message is answered at most once, and its lease ends with it."""

import json
import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from host_kit import Host

from forgepool.workers.queue.broker import Redis
from forgepool.workers.queue.leases import Holder, fence, holders
from forgepool.workers.queue.replies import MessageStarted, read
from forgepool.workers.queue.run_presence import RunPresence, announce_run
from forgepool.workers.sandbox.launch.cgroups import find_places
from forgepool.workers.sandbox.layers import NoSandbox, choose_level
from forgepool.workers.schema.orders import CommandAgent, WorkResult

# A separate process, as a pool's child is: a fork needs a single thread, and pytest may have more.
_WORKER = """
import os, signal, sys, time
from forgepool.workers.queue.consumer import Delivery, deliver
from forgepool.workers.sandbox.tree import children
from forgepool.workers.schema.logs import log_to_stderr
from forgepool.workers.schema.orders import WorkResult

log_to_stderr()
message_id, start_by, work = sys.argv[1:]

def answer(stop):
    exec(work, globals() | {"stop": stop})
    return WorkResult(order_id=message_id, token="t", outcome="no_change", detail=str(os.getpid()))

def failed(why):
    return WorkResult(order_id=message_id, token="t", outcome="infrastructure", detail=why, host="h")

delivery = Delivery(message_id=message_id, token="t", run="r", start_by=float(start_by), failed=failed)
deliver(delivery, answer, apart=True)
print("left:", children(os.getpid()), file=sys.stderr)
"""

Deliver = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def deliver(redis_url: str, tmp_path: Path) -> Deliver:
    def start(
        work: str = "", *, message_id: str = "m", start_by: float = 1e12, lease_ttl: str = "20"
    ) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [sys.executable, "-c", _WORKER, message_id, str(start_by), textwrap.dedent(work)],
            env={
                **os.environ,
                "FORGEPOOL_BROKER_URL": redis_url,
                "FORGEPOOL_HOME": str(tmp_path / "home"),
                "FORGEPOOL_CACHE": str(tmp_path / "cache"),
                "FORGEPOOL_HOST": "h",
                "FORGEPOOL_LEASE_TTL_S": lease_ttl,
            },
            stderr=subprocess.PIPE,
            text=True,
        )

    return start


def ended(process: "subprocess.Popen[str]") -> str:
    _, said = process.communicate(timeout=30)
    assert process.returncode == 0, said
    return said


def answers(redis: Redis) -> list[WorkResult]:
    texts = [text for _, text in read(redis, "r", after="0-0", wait_s=0.01)]
    return [WorkResult.model_validate_json(text) for text in texts if '"work"' in text]


def notes(redis: Redis) -> list[MessageStarted]:
    texts = [text for _, text in read(redis, "r", after="0-0", wait_s=0.01)]
    return [MessageStarted.model_validate_json(text) for text in texts if '"started"' in text]


def until(what: Callable[[], bool], within_s: float = 15.0) -> None:
    give_up = time.monotonic() + within_s
    while not what():
        assert time.monotonic() < give_up, "it did not come about"
        time.sleep(0.01)


def test_a_message_is_begun_told_answered_and_let_go(redis: Redis, deliver: Deliver) -> None:
    process = deliver()
    ended(process)
    (answer,) = answers(redis)
    (note,) = notes(redis)
    assert (note.message_id, note.token, note.host, str(note.pid)) == ("m", "t", "h", answer.detail)
    assert note.pid != process.pid, "work is done in a process of its own"
    assert holders(redis, ["m"]) == {}


def test_a_message_delivered_twice_is_worked_on_once(redis: Redis, deliver: Deliver) -> None:
    ended(deliver())
    said = ended(deliver())
    assert len(answers(redis)) == 1 and '"done"' in said


def test_a_message_in_another_hand_is_left_there(redis: Redis, deliver: Deliver) -> None:
    redis.set("forgepool:lease:m", Holder("t", "elsewhere", 1).encode())
    assert '"held"' in ended(deliver())
    assert answers(redis) == [] and holders(redis, ["m"])["m"].host == "elsewhere"


def test_a_fenced_message_is_not_begun(redis: Redis, deliver: Deliver) -> None:
    fence(redis, "m")
    assert '"fenced"' in ended(deliver())
    assert answers(redis) == [] and notes(redis) == []


def test_a_stale_message_is_not_begun_and_its_sender_told(redis: Redis, deliver: Deliver) -> None:
    assert "message.stale" in ended(deliver(start_by=1.0))
    (answer,) = answers(redis)
    assert answer.outcome == "infrastructure" and "lay in a queue too long" in answer.detail
    assert answer.host == "", "it is not the host's fault"
    assert notes(redis) == [] and holders(redis, ["m"]) == {}


def test_a_message_is_never_stale_while_its_run_is_at_work(redis: Redis, deliver: Deliver) -> None:
    """It has waited because other runs have the slots. What its run no longer wants, it has fenced."""
    announce_run(redis, RunPresence(run="r", hub="/hub", target="t"))
    fence(redis, "unwanted")
    long_ago = time.time() - 11 * 3600
    assert '"fenced"' in ended(deliver(start_by=long_ago, message_id="unwanted"))
    assert "message.stale" not in ended(deliver(start_by=long_ago))
    assert [one.outcome for one in answers(redis)] == ["no_change"]
    assert "message.stale" in ended(deliver(start_by=1.0, message_id="m2")), "its fence may be forgotten by now"


def test_a_stale_copy_does_not_answer_for_the_one_at_work(redis: Redis, deliver: Deliver) -> None:
    redis.set("forgepool:lease:m", Holder("t", "elsewhere", 1).encode())
    assert '"held"' in ended(deliver(start_by=1.0))
    assert answers(redis) == [] and holders(redis, ["m"])["m"].host == "elsewhere"


@pytest.mark.parametrize("death", ["os.kill(os.getpid(), signal.SIGKILL)", "os._exit(3)"])
def test_a_process_that_dies_at_work_gives_its_lease_back_at_once(redis: Redis, deliver: Deliver, death: str) -> None:
    """The lease would have lasted twenty seconds more."""
    assert "message.process_died" in ended(deliver(death))
    assert len(notes(redis)) == 1 and answers(redis) == []
    assert holders(redis, ["m"]) == {}
    ended(deliver())
    assert len(answers(redis)) == 1, "another delivery takes it up"


def test_work_that_raises_is_logged_and_its_sender_told_what(redis: Redis, deliver: Deliver) -> None:
    said = ended(deliver("raise RuntimeError('what went wrong with \\udcff' + 'x' * 9999)"))
    assert "message.broken" in said and "Traceback" in said and "what went wrong" in said
    (answer,) = answers(redis)
    assert answer.outcome == "infrastructure" and len(answer.detail) < 3000
    assert answer.detail.startswith("RuntimeError: what went wrong with \\udcffxxx")
    assert holders(redis, ["m"]) == {}


def test_work_whose_lease_is_lost_is_told_to_stop_and_not_asked_for_its_answer(redis: Redis, deliver: Deliver) -> None:
    process = deliver("while not stop(): time.sleep(0.01)", lease_ttl="1")
    until(lambda: len(holders(redis, ["m"])) == 1)
    fence(redis, "m")
    assert "message.lease_lost" in ended(process)
    assert answers(redis) == []


def test_the_working_process_dies_with_the_one_that_delivered(redis: Redis, deliver: Deliver) -> None:
    process = deliver("time.sleep(60)")
    until(lambda: len(holders(redis, ["m"])) == 1)
    child = holders(redis, ["m"])["m"].pid
    process.kill()
    process.communicate()
    until(lambda: not Path(f"/proc/{child}").exists() or "\nState:\tZ" in Path(f"/proc/{child}/status").read_text())


@pytest.fixture
def sandbox() -> None:
    try:
        choose_level("auto")
    except NoSandbox as none:
        pytest.skip(str(none))


_IN_A_GROUP = """
from pathlib import Path
from forgepool.workers.sandbox.run.process import Command, run
from forgepool.workers.sandbox.sandbox_profile import Shelter, private
from forgepool.workers.schema.settings import Settings
started = []
sys.addaudithook(lambda event, facts: event == "subprocess.Popen" and started.append(facts[1]))
folder = Path(os.path.realpath({folder!r}))
with private({{}}, Shelter(settings=Settings(), writable=(folder,))) as own:
    def end(output):
        {meanwhile}
    argv = ("/bin/sh", "-c", "echo begun; sleep {seconds}")
    run(Command(argv=argv, cwd=folder, env=own.env, log=folder / "log", timeout_s=60, confined=own.confined), hear=end)
(folder / "started").write_text(str(started))
"""


@pytest.mark.usefixtures("sandbox")
def test_an_order_starts_no_process_but_its_commands(redis: Redis, deliver: Deliver, tmp_path: Path) -> None:
    """
    No interpreter is started to launch commands or to test the sandbox, because the pool's child knows the result.
    """
    said = ended(deliver(_IN_A_GROUP.format(folder=str(tmp_path), meanwhile="pass", seconds=0)))
    assert "left: []" in said, "nor does it leave one behind"
    assert (tmp_path / "started").read_text() == "[]", answers(redis)


@pytest.mark.usefixtures("sandbox")
@pytest.mark.skipif(not find_places().found, reason=f"no groups here: {find_places().why_not}")
def test_the_group_of_a_process_that_dies_at_work_is_removed_with_all_in_it(
    redis: Redis, deliver: Deliver, tmp_path: Path
) -> None:
    """This happens before the lease is given back, because another process may repeat the work at once."""
    then = "(folder / 'procs').write_text(str(own.confined.groups[0])); os.kill(os.getpid(), signal.SIGKILL)"
    assert "message.process_died" in ended(
        deliver(_IN_A_GROUP.format(folder=str(tmp_path), meanwhile=then, seconds=50))
    )
    assert not Path((tmp_path / "procs").read_text()).exists()
    assert holders(redis, ["m"]) == {}


_ENTER = """
import sys
from forgepool.supervisor.entry import check, land, review
from forgepool.workers.order.entry import run_order

{"order": run_order, "check": check, "review": review, "landing": land}[sys.argv[1]](sys.argv[2])
"""


@pytest.mark.parametrize("kind", ["order", "check", "review", "landing"])
def test_a_message_that_cannot_be_read_is_answered_as_such(
    redis: Redis, redis_url: str, tmp_path: Path, kind: str
) -> None:
    """By the id and the token, which every version has; else its sender would send it again and again."""
    name = "order_id" if kind == "order" else "request_id"
    encoded = json.dumps({name: "r.t.1", "token": "tok", "run": "r", "sent_by_a": "later version"})
    _enter(redis_url, tmp_path, kind, encoded)
    (_, answered) = list(read(redis, "r", after="0-0", wait_s=0.1))[-1]
    said = json.loads(answered)
    assert (said[name], said["token"], said["host"]) == ("r.t.1", "tok", "h")
    assert "this version of Forgepool cannot read the message at '" in said["detail"]
    if kind == "order":
        assert said["outcome"] == "needs_human" and said["lacks"], "another host is asked"
    else:
        assert "infrastructure" in (said.get("verdict"), said.get("outcome"))
    assert not holders(redis, ["r.t.1"])


def test_an_order_with_fields_of_a_later_version_is_carried_out(redis: Redis, redis_url: str, tmp_path: Path) -> None:
    order = Host(tmp_path).order(agent=CommandAgent(run="echo 2 > a"), start_by=1e12)
    fields = json.loads(order.encode()) | {"added_later": 1}
    fields["agent"]["added_later"] = {"a": 1}
    _enter(redis_url, tmp_path, "order", json.dumps(fields))
    (result,) = answers(redis)
    assert (result.outcome, result.paths) == ("candidate", ("a",)), result.detail


def test_what_is_no_message_at_all_stops_nobody(redis: Redis, redis_url: str, tmp_path: Path) -> None:
    said = _enter(redis_url, tmp_path, "order", "[]")
    assert "message.unreadable" in said and not list(read(redis, "r", after="0-0", wait_s=0.05))


def _enter(redis_url: str, folder: Path, kind: str, encoded: str) -> str:
    env = {**os.environ, "FORGEPOOL_BROKER_URL": redis_url, "FORGEPOOL_HOME": str(folder), "FORGEPOOL_HOST": "h"}
    env |= {"FORGEPOOL_CACHE": str(folder / "cache"), "FORGEPOOL_SANDBOX": "off"}
    words = [sys.executable, "-c", _ENTER, kind, encoded]
    done = subprocess.run(words, env=env, capture_output=True, text=True, check=True)
    return done.stdout + done.stderr
