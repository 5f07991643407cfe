"""An order that names returned work begins with it: composed on its base, uncommitted, and told to the agent."""

import json
from pathlib import Path
from typing import Any

import pytest
from host_kit import Host
from repositories import git, write

from forgepool.workers.context.transcript.entries import TurnSaid
from forgepool.workers.schema.orders import CommandAgent, ReasonPack, ScriptedAgent, WorkResult
from forgepool.workers.schema.reports import EarlierWork

LINES = "".join(f"{number}\n" for number in range(20))
REASON = ReasonPack(attempt=1, kind="findings", summary="b says no")


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path, {"a": LINES, "b": "1\n"})


def first(host: Host, run: str) -> WorkResult:
    done = host.carry_out(agent=CommandAgent(run=run))
    assert done.outcome == "candidate", done
    return done


def land(host: Host, files: dict[str, str | None]) -> str:
    """Put a commit with these files on the hub's main branch, and return it."""
    work = host.folder / "person"
    write(work, files)
    git(work, "add", "-A")
    git(work, "commit", "-q", "-m", "theirs")
    git(work, "push", "-q", str(host.hub), "main")
    return git(host.hub, "rev-parse", "main")


def mend(host: Host, earlier: WorkResult, run: str | None = None, *turns: Any, **said: Any) -> WorkResult:
    """Carry out attempt 2, by a command or by these scripted turns, each a list of calls or a whole turn."""
    ref = f"refs/forgepool/r/{'orders' if earlier.commit else 'unverified'}/t/1"
    work = EarlierWork(attempt=1, commit=earlier.commit or earlier.unverified or "", ref=ref)
    script = {"turns": [one if isinstance(one, dict) else {"calls": list(one)} for one in turns]}
    agent = CommandAgent(run=run) if run is not None else ScriptedAgent(script=json.dumps(script))
    given = {"attempt": 2, "base": git(host.hub, "rev-parse", "main"), "reasons": (REASON,), **said}
    return host.carry_out(agent=agent, mends=work, **given)


def told(host: Host) -> str:
    turns = (entry.turn.text for entry in host.transcript(2) if isinstance(entry, TurnSaid))
    return "\n".join(turns)


FINISH = {"tool": "finish", "summary": "mended"}
MEND_B = {"tool": "edit_file", "path": "b", "old": "no", "new": "yes"}


def test_the_attempt_begins_with_the_change_on_its_base_and_leaves_one_commit(host: Host) -> None:
    earlier = first(host, "echo no > b; echo new > c")
    tip = land(host, {"d": "theirs\n"})
    done = mend(host, earlier, None, (MEND_B, FINISH))
    assert (done.outcome, done.paths, done.mended, done.unmended) == ("candidate", ("b", "c"), 1, False), done
    assert git(host.hub, "rev-parse", f"{done.commit}^") == tip
    assert (host.content(done.commit, "b"), host.content(done.commit, "c")) == ("yes", "new")
    assert "Your worktree begins with the change of attempt 1" in told(host) and "b says no" in told(host)


def test_the_change_is_uncommitted_work_to_the_agents_own_git(host: Host) -> None:
    earlier = first(host, "echo no > b; echo new > c")
    done = mend(host, earlier, "git status --porcelain -- b c > d; git log --format=%s > e")
    assert host.content(done.commit, "d") == "M b\n?? c", done
    assert host.content(done.commit, "e") == "first"


@pytest.mark.parametrize("run", ["true", "echo no > b"])
def test_an_attempt_that_leaves_the_change_as_it_was_says_so(host: Host, run: str) -> None:
    done = mend(host, first(host, "echo no > b"), run)
    assert (done.outcome, done.mended, done.unmended, done.paths) == ("candidate", 1, True, ("b",))


def test_an_agent_that_plans_nothing_more_leaves_the_change(host: Host) -> None:
    nothing = {"tool": "commit_plan", "plan": "it is right", "files_to_modify": []}
    done = mend(host, first(host, "echo no > b"), None, {"phase": "plan", "calls": [nothing]})
    assert (done.outcome, done.unmended, done.nothing_to_do) == ("candidate", True, True), done


def test_work_that_the_hub_has_lost_is_begun_afresh(host: Host, tmp_path: Path) -> None:
    earlier = first(host, "echo no > b")
    git(host.hub, "update-ref", "-d", "refs/forgepool/r/orders/t/1")
    git(host.hub, "prune", "--expire=now")
    host.settings = host.settings.model_copy(update={"cache": tmp_path / "another"})
    write_b = {"tool": "write_file", "path": "b", "content": "yes\n"}
    done = mend(host, earlier, None, ({"tool": "read_file", "path": "b"}, write_b, FINISH))
    assert (done.outcome, done.mended) == ("candidate", None), done
    assert done.detail == "it began afresh, since the hub has the work of attempt 1 no longer"
    assert "The change of attempt 1 is lost" in told(host)


def conflicting(host: Host) -> WorkResult:
    earlier = first(host, "sed -i 's/^5$/mine/' a; echo no > b")
    land(host, {"a": LINES.replace("5\n", "theirs\n", 1)})
    return earlier


def test_a_conflict_has_markers_which_the_agent_resolves(host: Host) -> None:
    both = {"tool": "write_file", "path": "a", "content": LINES.replace("5\n", "both\n", 1)}
    done = mend(host, conflicting(host), None, (FINISH,), ({"tool": "read_file", "path": "a"}, both, MEND_B, FINISH))
    assert (done.outcome, done.paths) == ("candidate", ("a", "b")), done
    assert host.content(done.commit, "a").split("\n")[5] == "both"
    assert "conflicts with the base in these files" in told(host) and "- a\n" in told(host)
    assert "conflict markers are left in a" in told(host), "the first `finish` did not count"


def test_a_marker_that_is_left_makes_no_candidate(host: Host) -> None:
    """Also of an agent whose work is not verified in its conversation, in any file."""
    earlier = conflicting(host)
    left = mend(host, earlier, "grep -q '^<<<<<<< ' a && echo yes > b")
    assert left.outcome == "verify_failed" and "conflict markers are left in a" in left.detail, left
    kept = mend(host, earlier, "true", attempt=3)
    assert (kept.outcome, kept.unverified) == ("verify_failed", None), "it has made nothing that could be kept"


def test_a_file_that_one_side_deleted_is_named(host: Host) -> None:
    earlier = first(host, "sed -i 's/^5$/mine/' a; echo no > b")
    land(host, {"a": None})
    done = mend(host, earlier, None, ({"tool": "bash", "command": "rm a"}, MEND_B, FINISH))
    assert (done.outcome, done.paths) == ("candidate", ("b",)) and "- a\n" in told(host), done


def test_work_whose_base_left_the_target_brings_only_its_own_change(host: Host) -> None:
    """The target was rewound since: what was taken out does not come back."""
    old = host.base
    host.base = land(host, {"gone": "1\n"})
    earlier = first(host, "echo no > b")
    git(host.hub, "update-ref", "refs/heads/main", old)
    done = mend(host, earlier, "echo yes > b")
    assert (done.outcome, done.paths) == ("candidate", ("b",)), done
