"""A person's grant for one commit of an entry: what it changes, and what it does not."""

import pytest
from gate_world import after, opened, submitted

from forgepool.orchestrator.cli.queue.control import granting
from forgepool.orchestrator.decisions.plan_index import gate_course, gate_plan
from forgepool.orchestrator.decisions.queue.intake import apply_request
from forgepool.orchestrator.journal.events import EntrySubmitted, TaskCancelled
from forgepool.orchestrator.journal.inbox import PersonRequest
from forgepool.orchestrator.reports.event_text import sentence
from forgepool.orchestrator.run.hub import CannotRun


def grant(*globs: str, entry: str = "a", waive: tuple[str, ...] = ()) -> PersonRequest:
    return granting(globs, waive, "Ada").model_copy(update={"task": entry})


@pytest.mark.parametrize(
    ("globs", "rules", "said"),
    [
        ((), (), "name what to grant: globs of paths that the entry may change, or --waive RULE"),
        (("a/**.py",), (), "cannot grant the glob 'a/**.py': '**' must be a whole segment"),
        (("a/\udcff",), (), r"the glob 'a/\udcff' is not UTF-8; give it as UTF-8 text"),
        ((), ("placeholders",), "there is no rule 'placeholders'; did you mean 'placeholder'?"),
    ],
)
def test_what_cannot_be_granted_is_said(globs: tuple[str, ...], rules: tuple[str, ...], said: str) -> None:
    with pytest.raises(CannotRun) as wrong:
        granting(globs, rules, "Ada")
    assert said in str(wrong.value)


def test_a_grant_is_a_revision_of_the_same_commit_and_adds_to_earlier_ones() -> None:
    state = opened(submitted("a"))
    for request in (grant("ci/**"), grant("docs", waive=("placeholder",))):
        after(state, *(apply_request(state, request) or ()))
    entry = gate_course(gate_plan("g", "main"), state).tasks["a"]
    assert (entry.grants, entry.waive) == (("ci/**", "docs"), ("placeholder",))
    assert (state.submitted["a"].commit, state.submitted["a"].revision) == (submitted("a").commit, 3)
    assert apply_request(state, grant("docs")) == [], "what it has already is no news"


def test_another_commit_has_no_leave() -> None:
    state = opened(submitted("a"))
    after(state, *(apply_request(state, grant("ci/**")) or ()))
    after(state, submitted("a", revision=3))
    assert gate_course(gate_plan("g", "main"), state).tasks["a"].grants == ()


def test_who_is_unknown_is_granted_nothing_and_who_was_withdrawn_stands_in_line_again() -> None:
    state = opened(submitted("a"))
    assert apply_request(state, grant("ci/**", entry="b")) == []
    after(state, TaskCancelled(task="a"))
    after(state, *(apply_request(state, grant("ci/**")) or ()))
    assert state.tasks["a"].phase == "queued"


def test_who_has_granted_what_is_told() -> None:
    event = submitted("a").model_copy(update={"grants": ("ci/**",), "waive": ("placeholder",), "granted_by": "Ada"})
    assert isinstance(event, EntrySubmitted)
    said = sentence(event, run="g")
    assert said is not None
    assert said.endswith("Ada allows it to change ci/** and waives placeholder")


def test_a_leave_is_of_the_commit_that_the_person_has_seen() -> None:
    """Another commit was submitted in the meantime, and needs its own grant."""
    state = opened(submitted("a"))
    after(state, submitted("a", revision=2).model_copy(update={"commit": "f" * 40}))
    seen = grant("ci/**").model_copy(update={"candidate": submitted("a").commit})
    assert apply_request(state, seen) == []
    assert apply_request(state, seen.model_copy(update={"candidate": "f" * 40}))
    after(state, TaskCancelled(task="a"))
    again = PersonRequest(do="retry", task="a", candidate=submitted("a").commit)
    assert apply_request(state, again) == []
    assert apply_request(state, again.model_copy(update={"candidate": "f" * 40}))
