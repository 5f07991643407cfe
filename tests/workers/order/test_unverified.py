"""Work without a verdict: the hub keeps it where no candidate is, and what must not be published stays here."""

import json
import os
import signal
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from host_kit import Host
from repositories import git

from forgepool.workers.queue import leases
from forgepool.workers.queue.broker import Redis, connect
from forgepool.workers.queue.replies import WorkNote, read
from forgepool.workers.sandbox.own_processes import in_own_process
from forgepool.workers.schema.orders import CommandAgent, Limits, ScriptedAgent, WorkResult
from forgepool.workers.schema.policy_rules import ScanTerms

REF = "refs/forgepool/r/unverified/t/1"
KEY = "AKIA" + "Q7RTB2WXNMZKLP4S"
ASKS = """
turns:
  - calls: [{tool: write_file, path: a, content: "2\\n"}]
  - calls: [{tool: ask, question: Which?}]
"""


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def work(host: Host, run: str, **said: Any) -> WorkResult:
    return host.carry_out(agent=CommandAgent(run=run), **said)


def kept(host: Host) -> list[str]:
    return git(host.hub, "for-each-ref", "--format=%(refname)", "refs/forgepool").split()


@pytest.mark.parametrize(
    ("run", "said", "outcome"),
    [
        ("echo 2 > a", {"acceptance": ("grep -q 9 a",)}, "verify_failed"),
        ("echo 2 > a; exit 3", {}, "agent_failed"),
        ("echo 2 > a; sleep 60", {"limits": Limits(wall_s=1.0)}, "limits_spent"),
        ("echo 2 > a; sleep 60", {"limits": Limits(idle_s=1.0)}, "limits_spent"),
        ("echo 2 > a; kill -9 $$", {}, "agent_failed"),
    ],
)
def test_work_of_every_ending_is_kept_where_no_candidate_is(
    host: Host, run: str, said: dict[str, Any], outcome: str
) -> None:
    done = work(host, run, **said)
    assert (done.outcome, done.commit, done.withheld) == (outcome, None, ""), done
    assert kept(host) == [REF]
    assert git(host.hub, "rev-parse", f"{REF}^{{commit}}") == done.unverified
    assert host.content(done.unverified, "a") == "2" and git(host.hub, "rev-parse", f"{REF}^{{commit}}^") == host.base
    tag = json.loads(git(host.hub, "cat-file", "tag", REF).partition("\n\n")[2])
    assert (tag["outcome"], tag["unverified"], tag["commit"]) == (outcome, done.unverified, None)
    message = git(host.hub, "log", "-1", "--format=%B", done.unverified or "")
    assert message.startswith(f"Unverified, {outcome}: Change a\n")


def test_files_that_the_acceptance_commands_leave_are_no_part_of_it(host: Host) -> None:
    done = work(host, "echo 2 > a", acceptance=("touch litter; false",))
    assert git(host.hub, "ls-tree", "--name-only", done.unverified or "").split() == ["a", "b"]


def test_an_attempt_that_changed_nothing_leaves_nothing(host: Host) -> None:
    done = work(host, "exit 3")
    assert (done.outcome, done.unverified, done.withheld) == ("agent_failed", None, "")
    assert kept(host) == []


def test_an_attempt_that_another_one_continues_is_kept_with_its_conversation(host: Host) -> None:
    done = host.carry_out(agent=ScriptedAgent(script=ASKS))
    assert (done.outcome, done.resumable, done.unverified) == ("needs_human", True, None), done
    assert kept(host) == ["refs/forgepool/r/progress/t/1"]
    assert git(host.hub, "show", "refs/forgepool/r/progress/t/1:files/a") == "2"


def test_a_secret_stays_on_its_host_and_its_value_in_no_word(host: Host) -> None:
    done = work(host, f"echo 'key = \"{KEY}\"' > c.py; exit 3")
    assert (done.outcome, kept(host)) == ("agent_failed", [])
    assert done.withheld.startswith("c.py:1 looks like an AWS Access Key; only host here has it: git -C ")
    assert KEY not in done.encode()
    (mirror,) = (host.settings.cache / "mirrors").glob("*.git")
    assert git(mirror, "rev-parse", "refs/hub/forgepool/r/unverified/t/1^{commit}") == done.unverified
    shown = done.withheld.partition(": git ")[2].split()
    assert KEY in git(host.folder, *shown), "the command that the words name shows the work"


def test_a_name_that_no_message_carries_is_escaped(host: Host) -> None:
    done = work(host, f"printf 'key = \"{KEY}\"' > \"$(printf 'c\\351.py')\"; exit 3")
    assert done.withheld.startswith("c\\udce9.py:1 looks like an AWS Access Key") and done.encode()


def test_a_waived_rule_lets_it_be_pushed(host: Host) -> None:
    done = work(host, f"echo 'key = \"{KEY}\"' > c.py; exit 3", scans=ScanTerms(waive=("secret",)))
    assert (done.withheld, kept(host)) == ("", [REF])


def test_what_cannot_be_searched_or_is_too_large_stays_on_its_host(host: Host) -> None:
    long = work(host, "yes 0123456789 | head -c 4000000 > long.txt; exit 3")
    assert long.withheld.startswith("long.txt is too large to be searched for secrets"), long.withheld
    large = work(host, "head -c 51000000 /dev/zero > core; exit 3", attempt=2)
    assert large.withheld.startswith("core: the file has 51.0 MB, and the limit is 50 MB"), large.withheld
    assert kept(host) == []


def test_a_hub_that_is_gone_changes_no_verdict(host: Host) -> None:
    host.unconfined()
    done = work(host, f"echo 2 > a; mv {host.hub} {host.hub}.away", acceptance=("false",))
    assert done.outcome == "verify_failed" and done.unverified is not None
    assert done.withheld.startswith("the hub could not be reached") and "only host here has it" in done.withheld


def test_a_stopped_delivery_leaves_its_work_and_the_next_its_candidate(
    host: Host, redis: Redis, redis_url: str
) -> None:
    """The run that stopped it waits for no answer, so that it is told by a note."""
    host.settings = host.settings.model_copy(update={"broker_url": redis_url})
    until = time.monotonic() + 1.0
    stopped = host.carry_out(agent=CommandAgent(run="echo 2 > a; sleep 60"), stop=lambda: time.monotonic() > until)
    assert stopped.outcome == "agent_failed" and stopped.unverified is not None
    ((_, told),) = read(redis, "r", after="0-0", wait_s=1.0)
    note = WorkNote.model_validate_json(told)
    assert (note.order_id, note.commit, note.withheld) == ("r.t.1", stopped.unverified, "")
    done = work(host, "echo 3 > a", resent=True)
    assert (done.outcome, host.content(done.commit, "a")) == ("candidate", "3"), "nothing takes the one for the other"
    assert kept(host) == ["refs/forgepool/r/orders/t/1", REF]


def deliver(host: Host, redis_url: str, script: str, answer: Path, *, answers: bool = True) -> int:
    """Carry the order out in a process of its own, under the order's lease of a second, as a delivery does."""

    def carry_out_under_lease() -> None:
        with connect(redis_url) as client:
            lease = leases.claim(client, "r.t.1", token="tok", host="here", ttl_s=1.0)
            assert isinstance(lease, leases.Lease), lease
            with leases.keep_lease(lease):
                done = host.carry_out(agent=CommandAgent(run=script), stop=lease.is_lost)
                if answers and not lease.is_lost():
                    client.set(leases.key_of_done("r.t.1"), "1")
        answer.write_text(done.encode())

    return in_own_process(carry_out_under_lease, began=lambda pid: answer.with_suffix(".pid").write_text(str(pid)))


@pytest.mark.parametrize("paused", ["the agent", "the whole delivery"])
def test_a_late_delivery_does_not_replace_the_work_of_its_successor(
    host: Host, redis: Redis, redis_url: str, tmp_path: Path, paused: str
) -> None:
    """Its process sleeps until its lease is over, and the order was delivered again. It may know of that or not."""
    host.settings = host.settings.model_copy(update={"broker_url": redis_url})
    host.unconfined()
    began, go, first, second = (tmp_path / name for name in ("began", "go", "first", "second"))
    script = f"echo early > a; touch {began}; until test -e {go}; do sleep 0.05; done; exit 3"
    with ThreadPoolExecutor() as beside:
        late = beside.submit(deliver, host, redis_url, script, first)
        _wait(began.exists)
        pid = int(first.with_suffix(".pid").read_text())
        os.kill(pid, signal.SIGSTOP)
        _wait(lambda: not leases.holders(redis, ["r.t.1"]))
        assert deliver(host, redis_url, "echo late > a; exit 3", second) == 0
        if paused == "the agent":
            go.touch()
        os.kill(pid, signal.SIGCONT)
        if paused == "the whole delivery":
            time.sleep(0.5)
            go.touch()
        assert late.result() == 0
    told = WorkResult.model_validate_json(first.read_text())
    assert told.withheld.startswith("another delivery of the order has left its own work there; only host here has it")
    successor = WorkResult.model_validate_json(second.read_text())
    assert successor.withheld == "" and kept(host) == [REF]
    assert host.content(REF, "a") == "late" and git(host.hub, "rev-parse", f"{REF}^{{commit}}") == successor.unverified


def test_the_delivery_with_the_lease_replaces_the_work_of_an_earlier_one(
    host: Host, redis: Redis, redis_url: str, tmp_path: Path
) -> None:
    host.settings = host.settings.model_copy(update={"broker_url": redis_url})
    for text in ("early", "late"):
        assert deliver(host, redis_url, f"echo {text} > a; exit 3", tmp_path / text, answers=False) == 0
    assert host.content(REF, "a") == "late"


@pytest.mark.soak
@pytest.mark.slow
def test_a_hub_that_hangs_holds_a_stop_up_for_seconds_only(host: Host) -> None:
    """The words say that the work is on this host alone."""
    hook = host.hub / "hooks" / "pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\nsleep 300\n")
    hook.chmod(0o755)
    began = time.monotonic()
    stopped = host.carry_out(
        agent=CommandAgent(run="echo 2 > a; sleep 60"), stop=lambda: time.monotonic() > began + 1.0
    )
    assert time.monotonic() < began + 60 and kept(host) == []
    assert "only host here has it: git -C " in stopped.withheld and "it did not end within " in stopped.withheld, (
        stopped.withheld
    )


def _wait(seen: Callable[[], bool]) -> None:
    until = time.monotonic() + 60
    while not seen():
        assert time.monotonic() < until, "waited in vain"
        time.sleep(0.05)


def test_a_secret_in_a_candidate_is_no_candidate(host: Host) -> None:
    """A command's work is searched before it is pushed. The reason is the one for which the gate would return it."""
    done = work(host, f"echo 'key = \"{KEY}\"' > c.py", scans=ScanTerms())
    assert (done.outcome, done.commit, kept(host)) == ("verify_failed", None, [])
    assert "c.py:1: secret: this looks like an AWS Access Key" in done.detail and KEY not in done.encode()
    assert done.withheld.startswith("c.py:1 looks like an AWS Access Key; only host here has it: git -C ")
    waived = work(host, f"echo 'key = \"{KEY}\"' > c.py", scans=ScanTerms(waive=("secret",)), attempt=2)
    assert waived.outcome == "candidate"


def test_secrets_in_the_end_of_a_log_are_hidden(host: Host) -> None:
    """Secrets are known by their form, by their name, or from the work's own files. A key may have several lines."""
    block = "-----BEGIN RSA PRIVATE KEY-----\\nMIIEpAIBAAKCAQEA7\\n-----END RSA PRIVATE KEY-----"
    value = "hX9k2mQ7vL4w"
    shown = f"echo {KEY}; printf '%b' '{block}\\n'; echo saw {value}; echo plain"
    said = f"echo 'password = \"{value}\"' > c.py; {shown}; exit 3"
    done = work(host, said)
    assert done.outcome == "agent_failed" and "plain" in done.log_tail
    assert done.log_tail.count("[secret hidden]") == 3, done.log_tail
    told = done.encode()
    assert not [one for one in (KEY, "MIIEpAIBAAKCAQEA7", value) if one in told]
