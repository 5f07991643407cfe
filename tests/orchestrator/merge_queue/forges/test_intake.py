"""The bot submits a change that is ready once, with the commit it had, and reports each status once."""

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from forgepool.orchestrator.merge_queue.bot.intake import (
    Explain,
    KnownEntry,
    NoteLanded,
    StatusReport,
    Step,
    Submit,
    Withdraw,
    steps,
)
from forgepool.orchestrator.merge_queue.forges.protocol import PullRequest

A, B = "a" * 40, "b" * 40


def change(number: int = 1, head: str = A, **parts: Any) -> PullRequest:
    known: dict[str, Any] = {
        "target": "main",
        "author": "ada",
        "title": "t",
        "url": "u",
        "ref": f"refs/pull/{number}/head",
    }
    return PullRequest(number=number, head=head, **known | parts)


def entry(standing: Any = "waiting", head: str = A, **parts: Any) -> KnownEntry:
    return KnownEntry(number=1, head=head, standing=standing, said="waits behind 2", **parts)


def follow(changes: list[PullRequest], *entries: KnownEntry, told: tuple[StatusReport, ...] = ()) -> list[Step]:
    known = {one.number: one for one in entries}
    return list(steps(changes, known, {one.commit: one for one in told}, ["main"]))


def test_a_ready_change_enters_and_the_forge_shows_it() -> None:
    assert follow([change()]) == [Submit(change()), StatusReport(A, "pending", "queued")]


def test_a_change_of_a_target_without_a_gate_is_left_alone() -> None:
    assert follow([change(target="other")]) == []


def test_what_waits_is_reported_when_it_has_changed_and_not_submitted_again() -> None:
    waits = StatusReport(A, "pending", "waits behind 2")
    assert follow([change()], entry()) == [waits]
    assert follow([change()], entry(), told=(waits,)) == []


def test_another_commit_is_another_entry() -> None:
    withdrawn, submitted, reported = follow([change(head=B)], entry())
    assert isinstance(withdrawn, Withdraw) and submitted == Submit(change(head=B))
    assert reported == StatusReport(B, "pending", "queued")
    assert Submit(change(head=B)) in follow([change(head=B)], entry("returned"))


def test_what_is_ready_no_more_leaves_the_gate() -> None:
    for gone in ([], [change(target="other")]):
        (step,) = follow(gone, entry())
        assert isinstance(step, Withdraw)
    assert Submit(change()) in follow([change()], entry("withdrawn"))


def test_what_was_returned_is_explained_once_and_waits_for_another_commit() -> None:
    failed = StatusReport(A, "failure", "waits behind 2")
    assert follow([change()], entry("returned")) == [failed, Explain(1, "waits behind 2")]
    assert follow([change()], entry("returned"), told=(failed,)) == []


def test_what_landed_is_told_once_also_where_the_forge_has_closed_it() -> None:
    done = entry("landed", commit=B, contained=False)
    told = StatusReport(A, "success", f"landed as {B[:12]}")
    for changes in ([], [change()]):
        assert follow(changes, done) == [told, NoteLanded(1, B, False)]
        assert follow(changes, done, told=(told,)) == []


def test_a_change_that_cannot_be_read_does_not_enter_and_does_not_stay() -> None:
    unclear = change(unclear="its Depends-On has 'x'")
    failed = StatusReport(A, "failure", "its Depends-On has 'x'")
    assert follow([unclear]) == [failed]
    assert follow([unclear], entry()) == [Withdraw(1, unclear.unclear), failed]
    assert follow([unclear], told=(failed,)) == []


STANDINGS = st.sampled_from(["waiting", "landed", "returned", "withdrawn"])
ENTRIES = st.builds(entry, STANDINGS, st.sampled_from([A, B]), commit=st.just("c" * 40))
CHANGES = st.builds(
    change,
    st.just(1),
    st.sampled_from([A, B]),
    target=st.sampled_from(["main", "other"]),
    unclear=st.sampled_from(["", "?"]),
)


@given(st.lists(CHANGES, max_size=1), st.lists(ENTRIES, max_size=1))
def test_once_its_steps_are_done_nothing_is_left_to_do(changes: list[PullRequest], entries: list[KnownEntry]) -> None:
    """Two rounds are carried out, and the third is empty, whatever the forge and the queue report."""
    known = {one.number: one for one in entries}
    told: dict[str, StatusReport] = {}
    for _ in range(2):
        for step in steps(changes, known, told, ["main"]):
            match step:
                case Submit(change=taken):
                    assert known.get(taken.number) is None or known[taken.number].standing != "waiting"
                    known[taken.number] = replace(entry(), head=taken.head)
                case Withdraw(number=number):
                    assert known[number].standing == "waiting"
                    known[number] = replace(known[number], standing="withdrawn")
                case StatusReport():
                    told[step.commit] = step
    left = steps(changes, known, told, ["main"])
    assert left == (), left
    (only,) = known.values() if known else (None,)
    if only is not None and only.standing == "waiting":
        assert [(one.number, one.head) for one in changes if one.target == "main" and not one.unclear] == [
            (1, only.head)
        ]
