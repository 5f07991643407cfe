"""The rules of a lead: each of its tools is refused while something else comes first, by the transcript alone."""

from collections.abc import Sequence

import pytest
from pydantic import JsonValue

from forgepool.workers.agents.lead.rules import find_refusal, read_standing
from forgepool.workers.context.transcript.entries import Answered, Entry, Finished, TurnSaid
from forgepool.workers.llm.messages import Text, ToolCall, ToolResult, Turn, user
from forgepool.workers.schema.orders import Spent
from forgepool.workers.schema.reports import LeadReply, LeadRequest, LeadResult

EVERY = ("frame", "dispatch", "collect", "checkpoint", "read_result", "cancel", "brief", "synthesize", "answer", "ask")


def called(name: str, *, failed: bool = False, **arguments: JsonValue) -> list[Entry]:
    call = ToolCall(id=f"call-{name}", name=name, arguments=arguments)
    result = ToolResult(call_id=call.id, text="so", is_error=failed)
    return [
        TurnSaid(at=1.0, turn=Turn(role="assistant", parts=(call,))),
        Answered(at=2.0, iteration=1, seconds=0.0, result=result),
    ]


def heard(number: int, *ended: str, open: Sequence[str] = ()) -> list[Entry]:
    results = tuple(LeadResult(task=task, ended="landed") for task in ended)
    reply = LeadReply(number=number, text="", results=results, open=tuple(open))
    return [TurnSaid(at=3.0, turn=user(Text(text="the reply")), reply=reply)]


FRAME = called("frame", questions=["what?", "where?"], known=["nothing"])
CHECKPOINT = called("checkpoint", changed=["all"])
BRIEF = called("brief", what_matters=["t1"])


def refused(entries: Sequence[Entry], tool: str, begun_with: Sequence[LeadReply] = ()) -> str | None:
    return find_refusal(tool, read_standing(entries, begun_with))


def test_nothing_is_dispatched_before_a_frame() -> None:
    assert refused([], "dispatch") == "there is no frame yet; call `frame` first"
    assert refused(called("frame", failed=True), "dispatch") is not None
    assert refused(FRAME, "dispatch") is None


@pytest.mark.parametrize("tool", [one for one in EVERY if one not in ("checkpoint", "read_result")])
def test_after_two_results_everything_but_a_checkpoint_and_reads_is_refused(tool: str) -> None:
    one, two = heard(1, "t1", open=["t2"]), heard(2, "t2")
    assert refused([*FRAME, *one, *two], tool) == "2 results are collected (t1, t2); call `checkpoint` first"
    assert "checkpoint" not in (refused([*FRAME, *one], tool) or "")
    assert "checkpoint" not in (refused([*FRAME, *one, *two, *CHECKPOINT], tool) or "")
    assert "checkpoint" in (refused([*FRAME, *one, *two, *called("checkpoint", failed=True)], tool) or "")


@pytest.mark.parametrize("tool", ["checkpoint", "read_result"])
def test_a_checkpoint_and_reads_are_never_refused(tool: str) -> None:
    assert refused(heard(1, "t1", "t2", "t3"), tool) is None


def test_no_synthesis_without_a_brief_that_is_newer_than_the_last_result() -> None:
    first = "there is no brief that is newer than the last result; call `brief` first"
    assert refused(heard(1, "t1"), "synthesize") == first
    assert refused([*heard(1, "t1"), *BRIEF], "synthesize") is None
    assert refused([*BRIEF, *heard(1, "t1")], "synthesize") == first


def test_no_synthesis_while_results_are_not_collected() -> None:
    assert refused([*heard(1, "t1", open=["t2", "t3"]), *BRIEF], "synthesize") == (
        "not collected yet: t2, t3; collect them, or cancel what is not needed"
    )


def test_a_lead_without_tasks_answers_and_one_with_tasks_synthesizes() -> None:
    assert refused([*FRAME, *BRIEF], "synthesize") == "nothing is dispatched; end with `answer`"
    assert refused(FRAME, "answer") is None
    assert refused(heard(1, "t1"), "answer") == "the run has other tasks; end with `brief`, then `synthesize`"


def test_the_tasks_of_a_compiled_plan_count_as_dispatched() -> None:
    begun_with = (LeadReply(number=0, text="- t1", open=("t1",)),)
    assert refused([], "answer", begun_with) is not None
    assert refused(BRIEF, "synthesize", begun_with) is not None
    assert refused([*heard(1, "t1"), *BRIEF], "synthesize", begun_with) is None


def test_numbers_of_requests_go_on_from_the_last_request_and_the_last_reply() -> None:
    """A lead whose conversation was lost does not take a number that the orchestrator has answered."""
    request = LeadRequest(number=4, do="collect", what="all")
    rests = Finished(at=1.0, ended="waiting", detail="", spent=Spent(), request=request)
    assert read_standing([rests]).asked == 4
    assert read_standing([rests], (LeadReply(number=7, text="so"),)).asked == 7


def test_notes_keep_what_was_said_by_headings() -> None:
    (frame, brief) = read_standing([*FRAME, *called("checkpoint", failed=True, changed=["x"]), *BRIEF]).notes
    assert (frame.kind, frame.parts) == ("frame", {"questions": ("what?", "where?"), "known": ("nothing",)})
    assert (brief.kind, brief.parts) == ("brief", {"what_matters": ("t1",)})
