"""The text about an entry speaks of its own change, and places are in the order in which entries land."""

import pytest
from gate_world import after, commit, decided, opened, submitted

from forgepool.orchestrator.decisions.queue.intake import take_in
from forgepool.orchestrator.decisions.queue.submissions import Submission
from forgepool.orchestrator.journal.events import (
    CheckAnswered,
    CheckSent,
    EntrySubmitted,
    Event,
    LandingIntended,
    TaskFailed,
)
from forgepool.orchestrator.reports.queue_status import explain_task, standing_of, standings
from forgepool.orchestrator.state.run import RunState
from forgepool.supervisor.messages.answers import CheckResult
from forgepool.workers.workspace.scans.findings import ScanFinding, Weight
from forgepool.worktrees.git.git import CommitId


def finding(entry: str, path: str, weight: Weight) -> ScanFinding:
    return ScanFinding(rule="protected-path", path=path, weight=weight, said="this is CI", entry=entry)


def sent(state: RunState) -> CheckSent:
    return next(one for one in decided(state, slots=1) if isinstance(one, CheckSent))


def answer(check: CheckSent, **said: object) -> CheckAnswered:
    fields = {"request_id": check.message_id, "token": check.token, "commit": commit("c"), "tree": commit("t")}
    result = CheckResult.model_validate(fields | said)
    return CheckAnswered(task=check.task, result=result, ahead=check.ahead, car=check.car)


def hotfix(name: str) -> Event:
    return submitted(name).model_copy(update={"klass": "hotfix"})


def order(state: RunState) -> list[tuple[str, int | None]]:
    return [(one.entry, one.place) for one in standings(state, 100.0)]


def test_a_hotfix_stands_in_front_of_what_is_not_green() -> None:
    state = opened(submitted("a"), submitted("b"), hotfix("fire"))
    assert order(state) == [("fire", 1), ("a", 2), ("b", 3)]
    after(state, *decided(state, slots=1))
    after(state, submitted("c"), hotfix("smoke"))
    assert [name for name, _ in order(state)] == ["fire", "smoke", "a", "b", "c"]


def test_a_hotfix_stands_behind_what_is_being_tested_as_soon_as_that_is_green() -> None:
    state = opened(submitted("a"))
    check = sent(state)
    after(state, check, submitted("b"), hotfix("fire"))
    assert [name for name, _ in order(state)] == ["fire", "a", "b"]
    after(state, answer(check, verdict="green", commits=(commit("c"),)))
    assert [name for name, _ in order(state)] == ["a", "fire", "b"]


def returned(state: RunState) -> RunState:
    """Return `a`, which was in one batch with `b`."""
    check = sent(state)
    assert check.car == ("a", "b")
    after(state, check)
    findings = (finding("b", "b/secret-plans.yml", "blocks"), finding("a", "a/ci.yml", "blocks"))
    after(state, answer(check, verdict="findings", about="a", detail="a/ci.yml: this is CI", findings=findings))
    failed = next(one for one in decided(state, slots=1) if isinstance(one, TaskFailed))
    assert failed.task == "a"
    return after(state, failed)


def test_advice_names_the_paths_of_its_own_entry_alone() -> None:
    state = returned(opened(submitted("a"), submitted("b")))
    stand = standing_of(state, state.tasks["a"], 100.0)
    assert stand.next.endswith("or, if this is intended: forgepool queue grant a a/ci.yml")
    assert "secret-plans" not in explain_task(state, state.tasks["a"], 100.0)
    assert state.tasks["a"].reasons[-1].findings == ("a/ci.yml: protected-path: this is CI",)


def test_what_scans_report_is_one_block_below_the_result() -> None:
    state = opened(submitted("a"))
    check = sent(state)
    findings = (finding("a", "ci.yml", "note"), finding("other", "b.yml", "note"))
    after(state, check, answer(check, verdict="green", commits=(commit("c"),), findings=findings))
    after(state, next(one for one in decided(state, slots=1) if isinstance(one, LandingIntended)))
    _, *block = explain_task(state, state.tasks["a"], 100.0).split("\n")
    assert block == ["scan notes, which do not block:", "  ci.yml: protected-path: this is CI"]


@pytest.mark.parametrize(
    ("said", "is_person"),
    [({}, True), ({"agent": ("person",)}, True), ({"agent": ("codex",)}, False), ({"family": ("gpt",)}, False)],
)
def test_who_names_an_agent_or_a_family_is_no_person(said: dict[str, tuple[str, ...]], is_person: bool) -> None:
    at = CommitId(commit("a"))
    one = Submission(ref="", at=at, name="a", commit=at, said=said)
    event = take_in(opened(), one, contained=False)[0]
    assert isinstance(event, EntrySubmitted)
    assert event.author.is_person is is_person
