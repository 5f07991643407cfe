import os
from collections.abc import Callable
from pathlib import Path

import pytest

from workers.llm.messages import Text, ToolCall, Turn, Usage
from workers.llm.provider import ModelFailed, Request
from workers.llm.scripted import ScriptedModel
from workers.loop import Brief, Outcome, converse
from workers.messages import Limits
from workers.tools.toolset import WORK
from workers.tools.workplace import Workplace
from workers.transcript import Finished, Transcript, conversation, read_transcript


class Replies:
    """A provider that gives turns as they are; what it was asked is kept."""

    def __init__(self, *turns: Turn | ModelFailed) -> None:
        self._turns = list(turns)
        self.asked: list[Request] = []

    def ask(self, request: Request, *, stop: Callable[[], bool]) -> Turn:
        self.asked.append(request)
        turn = self._turns.pop(0)
        if isinstance(turn, ModelFailed):
            raise turn
        return turn


Lead = Callable[..., Outcome]


@pytest.fixture
def lead(tmp_path: Path) -> Lead:
    """Leads a conversation in an empty worktree."""
    (tmp_path / "worktree").mkdir()
    (tmp_path / "tmp").mkdir()
    place = Workplace(
        root=tmp_path / "worktree",
        tmp=tmp_path / "tmp",
        env={"PATH": os.environ["PATH"]},
        stop=lambda: False,
        left_s=lambda: 0.0,
    )

    def go(
        model: Replies | ScriptedModel,
        *,
        limits: Limits | None = None,
        stop: Callable[[], bool] = lambda: False,
    ) -> Outcome:
        brief = Brief(
            order_id="r.t.1",
            model="scripted",
            system=("be good",),
            card="# Task t",
            tools=WORK,
            limits=limits or Limits(wall_s=20),
        )
        with Transcript(tmp_path / "t.jsonl") as transcript:
            return converse(model, brief, place, transcript, stop=stop)

    return go


def scripted(text: str) -> ScriptedModel:
    return ScriptedModel(text, attempt=1)


def says(*parts: Text | ToolCall, **given: object) -> Turn:
    return Turn.model_validate({"role": "assistant", "parts": parts, "stop": "calls"} | given)


WRITE = ToolCall(id="w", name="write_file", arguments={"path": "a.py", "content": "new\n"})
FINISH = ToolCall(id="f", name="finish", arguments={"summary": "wrote it"})


def test_a_conversation_ends_with_the_models_word(lead: Lead, tmp_path: Path) -> None:
    """Tools are carried out in the worktree; the claim, the turns and the transcript are there."""
    outcome = lead(
        scripted(
            "turns:\n"
            "  - calls: [{tool: write_file, path: a.py, content: 'def old(): ...'}]\n"
            "  - calls: [{tool: read_file, path: a.py}]\n"
            "  - when: {last_result_contains: def old}\n"
            "    calls: [{tool: edit_file, path: a.py, old: old, new: new}]\n"
            "  - calls: [{tool: finish, summary: renamed}]\n"
        )
    )
    assert (outcome.ended, outcome.summary, outcome.spent.turns) == ("finished", "renamed", 4)
    assert (tmp_path / "worktree" / "a.py").read_text() == "def new(): ..."
    entries = read_transcript(tmp_path / "t.jsonl")
    assert isinstance(entries[-1], Finished)
    results = [result.text for turn in conversation(entries) for result in turn.results]
    assert results[0] == "OK: wrote 14 bytes to a.py (iter 1)"
    assert results[2].endswith("(iter 3)")


def test_the_model_is_shown_exactly_what_the_transcript_holds(lead: Lead, tmp_path: Path) -> None:
    """What a later process reads back is what the model saw: a prefix of the whole, at every question."""
    model = Replies(says(Text(text="so"), WRITE), says(), says(FINISH))
    lead(model)
    turns = conversation(read_transcript(tmp_path / "t.jsonl"))
    for request in model.asked:
        assert request.turns == turns[: len(request.turns)]
        assert request.turns[-1].role == "user"


def test_every_call_gets_exactly_one_result(lead: Lead) -> None:
    """
    Good, unknown and senseless ones, in their order; one that fails does not keep the others from running.
    """
    calls = (WRITE, ToolCall(id="u", name="unknown"), ToolCall(id="m", name="read_file"), WRITE)
    model = Replies(says(*calls), says(FINISH))
    lead(model)
    results = model.asked[1].turns[-1].results
    assert [result.call_id for result in results] == ["w", "u", "m", "w"]
    assert [result.is_error for result in results] == [False, True, True, False]


def test_nothing_is_run_after_finish(lead: Lead, tmp_path: Path) -> None:
    """Calls beside `finish` that come after it are answered and not carried out."""
    assert lead(Replies(says(FINISH, WRITE))).ended == "finished"
    assert not (tmp_path / "worktree" / "a.py").exists()
    (turn,) = [turn for turn in conversation(read_transcript(tmp_path / "t.jsonl")) if turn.results]
    assert [result.is_error for result in turn.results] == [False, True]


def test_a_finish_without_a_summary_does_not_end(lead: Lead) -> None:
    """The model is told what is missing and goes on."""
    assert lead(Replies(says(ToolCall(id="f", name="finish")), says(FINISH))).spent.turns == 2


def test_an_empty_turn_is_nudged_once(lead: Lead) -> None:
    """Then it goes on; a second one ends the attempt, and silence is never success."""
    model = Replies(says(Text(text="hm"), stop="end"), says(FINISH))
    assert lead(model).ended == "finished"
    assert "You called no tool" in model.asked[1].turns[-1].text
    outcome = lead(Replies(says(stop="end"), says(WRITE), says(stop="end")))
    assert (outcome.ended, outcome.detail) == ("failed", "the model twice answered without calling a tool")


def test_no_tool_runs_from_a_turn_that_was_cut_off(lead: Lead, tmp_path: Path) -> None:
    """Its arguments may be half of what was meant; the model is told."""
    model = Replies(says(WRITE, stop="max_tokens"), says(FINISH))
    assert lead(model).ended == "finished"
    assert not (tmp_path / "worktree" / "a.py").exists()
    assert "not run: the answer was cut off" in model.asked[1].turns[-1].results[0].text


def test_a_refusal_fails(lead: Lead) -> None:
    """With the model's own words."""
    outcome = lead(Replies(says(Text(text="I will not"), stop="refusal")))
    assert (outcome.ended, outcome.detail) == ("failed", "the model refused: I will not")


def test_a_model_that_fails_says_why(lead: Lead, tmp_path: Path) -> None:
    """The sentence is the answer's, and the transcript's last word."""
    outcome = lead(scripted("turns: [{when: {shown_contains: nothing}, say: x}]"))
    assert outcome.ended == "failed"
    assert "no turn for what it was shown" in outcome.detail
    last = read_transcript(tmp_path / "t.jsonl")[-1]
    assert isinstance(last, Finished)
    assert last.detail == outcome.detail


def test_the_limit_of_turns_holds(lead: Lead) -> None:
    """Not one question more than allowed is asked."""
    model = Replies(*[says(WRITE)] * 9)
    outcome = lead(model, limits=Limits(turns=3))
    assert (outcome.ended, len(model.asked)) == ("limits", 3)


def test_the_wall_clock_cuts_a_tool_short(lead: Lead) -> None:
    """A command that outlasts the attempt ends with it."""
    call = ToolCall(id="b", name="bash", arguments={"command": "sleep 60"})
    outcome = lead(Replies(says(call), says(FINISH)), limits=Limits(wall_s=0.3))
    assert outcome.ended == "timeout"
    assert outcome.spent.seconds < 5


def test_the_wall_clock_cuts_a_model_short(lead: Lead) -> None:
    """A model that takes its time, too."""
    outcome = lead(scripted("turns: [{pause_s: 3600, say: late}]"), limits=Limits(wall_s=0.3))
    assert outcome.ended == "timeout"


def test_a_stop_ends_between_two_calls(lead: Lead, tmp_path: Path) -> None:
    """What was not run is answered as not run, so that the transcript stays whole."""
    stopping: list[bool] = []

    def stop() -> bool:
        return (tmp_path / "worktree" / "a.py").exists() or bool(stopping)

    outcome = lead(Replies(says(WRITE, ToolCall(id="l", name="list_files"))), stop=stop)
    assert outcome.ended == "stopped"
    results = conversation(read_transcript(tmp_path / "t.jsonl"))[-1].results
    assert [result.text for result in results][1] == "not run: the attempt is being stopped"


def test_usage_is_added_up(lead: Lead) -> None:
    """A turn whose price nobody knows makes the sum unknown, not smaller."""
    usages = [Usage(input_tokens=10, output_tokens=1, cost_usd=0.5), Usage(input_tokens=20, output_tokens=2)]
    spent = lead(Replies(says(WRITE, usage=usages[0]), says(FINISH, usage=usages[1]))).spent
    assert (spent.input_tokens, spent.output_tokens, spent.cost_usd) == (30, 3, 0.5)
    unknown = lead(Replies(says(WRITE, usage=usages[0]), says(FINISH, usage=Usage(cost_usd=None)))).spent
    assert unknown.cost_usd is None
