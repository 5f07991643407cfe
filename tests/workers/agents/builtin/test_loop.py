import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from forgepool.workers.agents.builtin.loop import ConversationBrief, ConversationOutcome, Talk
from forgepool.workers.agents.builtin.permission import allow_all
from forgepool.workers.context.profiles.registry import Off
from forgepool.workers.context.transcript.entries import (
    ConversationStarted,
    Finished,
    PlanCommitted,
    Transcript,
    TurnSaid,
    conversation,
    read_transcript,
)
from forgepool.workers.context.transcript.entries import QuestionTried as TriedEntry
from forgepool.workers.context.transcript.usage import Meter
from forgepool.workers.context.view.archive import Archive
from forgepool.workers.context.view.live import Context
from forgepool.workers.llm.messages import Text, ToolCall, Turn, Usage, user
from forgepool.workers.llm.provider import Hear, ModelFailed, ModelRequest, ProviderTry, deaf
from forgepool.workers.llm.scripted import ScriptedModel
from forgepool.workers.schema.confinement import OPEN
from forgepool.workers.schema.orders import Limits, PhaseName, Spent
from forgepool.workers.tools.commands.run import BASH
from forgepool.workers.tools.endings import ASK, GRANTED, commit_plan_tool, finish_tool
from forgepool.workers.tools.files.edit import EDIT_FILE
from forgepool.workers.tools.files.text_file import READ_FILE, WRITE_FILE
from forgepool.workers.tools.workplace import Workplace


class Replies:
    """A provider that gives prepared turns and keeps the requests."""

    def __init__(self, *turns: Turn | ModelFailed) -> None:
        self._turns = list(turns)
        self.asked: list[ModelRequest] = []

    def ask(self, request: ModelRequest, *, stop: Callable[[], bool], hear: Hear = deaf) -> Turn:
        self.asked.append(request)
        turn = self._turns.pop(0)
        if isinstance(turn, ModelFailed):
            raise turn
        return turn


Lead = Callable[..., ConversationOutcome]


def plain(transcript: Transcript, place: Workplace, brief: ConversationBrief) -> Context:
    """Return a context that shows all of the conversation."""
    archive = Archive(place)
    return Context(transcript=transcript, profile=Off(), like=brief.like, window_tokens=99_999, archive=archive)


@pytest.fixture
def lead(tmp_path: Path) -> Lead:
    """Lead a conversation in an empty worktree."""
    (tmp_path / "worktree").mkdir()
    (tmp_path / "tmp").mkdir()
    ends = (finish_tool(lambda: None), commit_plan_tool(lambda paths: GRANTED), ASK)

    def go(
        model: Replies | ScriptedModel,
        *,
        limits: Limits | None = None,
        phase: PhaseName = "execute",
        stop: Callable[[], bool] = lambda: False,
        price: Callable[[int, int], float | None] = lambda given, answered: 0.0,
    ) -> ConversationOutcome:
        limits = limits or Limits(wall_s=20)
        meter = Meter(limits=limits)
        ends_at = meter.began + limits.wall_s
        place = Workplace(
            root=tmp_path / "worktree",
            tmp=tmp_path / "tmp",
            env={"PATH": os.environ["PATH"]},
            confined=OPEN,
            stop=lambda: stop() or time.monotonic() >= ends_at,
            left_s=lambda: ends_at - time.monotonic(),
        )
        with Transcript(tmp_path / "t.jsonl") as transcript:
            transcript.append(
                ConversationStarted(at=0.0, order_id="r.t.1", model="m", system=("be good",), tools=(), phase=phase)
            )
            transcript.append(TurnSaid(at=0.0, turn=user(Text(text="# Task t"))))
            brief = ConversationBrief(
                phase=phase, system=("be good",), tools=(READ_FILE, WRITE_FILE, EDIT_FILE, BASH, *ends), price=price
            )
            return Talk(
                provider=model,
                brief=brief,
                workplace=place,
                transcript=transcript,
                context=plain(transcript, place, brief),
                meter=meter,
                stop=stop,
                rule=allow_all,
            ).lead()

    return go


def spent(folder: Path) -> Spent:
    last = read_transcript(folder / "t.jsonl")[-1]
    assert isinstance(last, Finished)
    return last.spent


def scripted(text: str) -> ScriptedModel:
    return ScriptedModel(text, attempt=1)


def says(*parts: Text | ToolCall, **given: object) -> Turn:
    return Turn.model_validate({"role": "assistant", "parts": parts, "stop": "calls"} | given)


WRITE = ToolCall(id="w", name="write_file", arguments={"path": "a.py", "content": "new\n"})
FINISH = ToolCall(id="f", name="finish", arguments={"summary": "wrote it"})


def test_a_conversation_ends_with_the_models_word(lead: Lead, tmp_path: Path) -> None:
    """Tools run in the worktree, and the claim, the turns and the transcript are recorded."""
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
    assert (outcome.ended, outcome.summary, spent(tmp_path).turns) == ("finished", "renamed", 4)
    assert (tmp_path / "worktree" / "a.py").read_text() == "def new(): ..."
    entries = read_transcript(tmp_path / "t.jsonl")
    assert isinstance(entries[-1], Finished)
    results = [result.text for turn in conversation(entries) for result in turn.results]
    assert results[0] == "OK: wrote 14 bytes to a.py (iter 1)"
    assert results[2].endswith("(iter 3)")


def test_the_model_is_shown_exactly_what_the_transcript_holds(lead: Lead, tmp_path: Path) -> None:
    """A later process reads back what the model saw: at every question a prefix of the whole."""
    model = Replies(says(Text(text="so"), WRITE), says(), says(FINISH))
    lead(model)
    turns = conversation(read_transcript(tmp_path / "t.jsonl"))
    for request in model.asked:
        assert request.turns == turns[: len(request.turns)]
        assert request.turns[-1].role == "user"


def test_every_call_gets_exactly_one_result(lead: Lead) -> None:
    """Valid, unknown and malformed calls are answered in order, and a failed one does not stop the others."""
    calls = (WRITE, ToolCall(id="u", name="unknown"), ToolCall(id="m", name="read_file"), WRITE)
    model = Replies(says(*calls), says(FINISH))
    lead(model)
    results = model.asked[1].turns[-1].results
    assert [result.call_id for result in results] == ["w", "u", "m", "w"]
    assert [result.is_error for result in results] == [False, True, True, False]


def test_nothing_is_run_after_finish(lead: Lead, tmp_path: Path) -> None:
    """Calls after `finish` in the same turn are answered and not carried out."""
    assert lead(Replies(says(FINISH, WRITE))).ended == "finished"
    assert not (tmp_path / "worktree" / "a.py").exists()
    (turn,) = [turn for turn in conversation(read_transcript(tmp_path / "t.jsonl")) if turn.results]
    assert [result.is_error for result in turn.results] == [False, True]


def test_a_finish_without_a_summary_does_not_end(lead: Lead, tmp_path: Path) -> None:
    """The model is told what is missing, and continues."""
    assert lead(Replies(says(ToolCall(id="f", name="finish")), says(FINISH))).ended == "finished"
    assert spent(tmp_path).turns == 2


def test_an_empty_turn_is_nudged_once(lead: Lead) -> None:
    """A second empty turn in a row ends the attempt, and silence is never success."""
    model = Replies(says(Text(text="hm"), stop="end"), says(FINISH))
    assert lead(model).ended == "finished"
    assert "You called no tool" in model.asked[1].turns[-1].text
    outcome = lead(Replies(says(WRITE), says(stop="end"), says(stop="end")))
    assert (outcome.ended, outcome.detail) == ("failed", "the model twice answered without calling a tool")


def test_no_tool_runs_from_a_turn_that_was_cut_off(lead: Lead, tmp_path: Path) -> None:
    """Its arguments may be incomplete, so the model is told."""
    model = Replies(says(WRITE, stop="max_tokens"), says(FINISH))
    assert lead(model).ended == "finished"
    assert not (tmp_path / "worktree" / "a.py").exists()
    assert "not run: the answer was cut off" in model.asked[1].turns[-1].results[0].text


def test_a_refusal_is_a_refusal(lead: Lead) -> None:
    """The detail has the model's own text."""
    outcome = lead(Replies(says(Text(text="I will not"), stop="refusal")))
    assert (outcome.ended, outcome.detail) == ("refused", "the model refused: I will not")


def test_a_model_that_fails_says_why(lead: Lead, tmp_path: Path) -> None:
    """The reason is in the outcome and at the end of the transcript."""
    outcome = lead(scripted("turns: [{when: {shown_contains: nothing}, say: x}]"))
    assert outcome.ended == "failed"
    assert "no turn for what it was shown" in outcome.detail
    last = read_transcript(tmp_path / "t.jsonl")[-1]
    assert isinstance(last, Finished)
    assert last.detail == outcome.detail


def test_the_limit_of_turns_holds(lead: Lead) -> None:
    model = Replies(*[says(WRITE)] * 9)
    outcome = lead(model, limits=Limits(turns=3))
    assert (outcome.ended, len(model.asked)) == ("limits", 3)


def test_the_wall_clock_cuts_a_tool_short(lead: Lead, tmp_path: Path) -> None:
    call = ToolCall(id="b", name="bash", arguments={"command": "sleep 60"})
    outcome = lead(Replies(says(call), says(FINISH)), limits=Limits(wall_s=0.3))
    assert outcome.ended == "timeout"
    assert spent(tmp_path).seconds < 5


def test_the_wall_clock_cuts_a_model_short(lead: Lead) -> None:
    outcome = lead(scripted("turns: [{pause_s: 3600, say: late}]"), limits=Limits(wall_s=0.3))
    assert outcome.ended == "timeout"


def test_a_stop_ends_between_two_calls(lead: Lead, tmp_path: Path) -> None:
    """Calls that did not run are answered as such, so that the transcript stays complete."""
    stopping: list[bool] = []

    def stop() -> bool:
        return (tmp_path / "worktree" / "a.py").exists() or bool(stopping)

    outcome = lead(Replies(says(WRITE, ToolCall(id="l", name="read_file"))), stop=stop)
    assert outcome.ended == "stopped"
    results = conversation(read_transcript(tmp_path / "t.jsonl"))[-1].results
    assert [result.text for result in results][1] == "not run: the attempt is being stopped"


def test_usage_is_added_up(lead: Lead, tmp_path: Path) -> None:
    """A turn with an unknown price makes the sum unknown, not smaller."""
    known = Usage(input_tokens=10, cached_tokens=4, output_tokens=1, cost_usd=0.5)
    lead(Replies(says(WRITE, usage=known), says(FINISH, usage=known)))
    used = spent(tmp_path)
    assert (used.input_tokens, used.cached_tokens, used.output_tokens, used.cost_usd) == (20, 8, 2, 1.0)
    lead(Replies(says(WRITE, usage=known), says(FINISH, usage=Usage(cost_usd=None))))
    assert spent(tmp_path).cost_usd is None


def test_no_question_is_asked_that_could_lead_beyond_the_limit_of_tokens(lead: Lead) -> None:
    """The answer's maximum is what is left. If too little is left, no question is asked."""
    used = Usage(input_tokens=4_000, output_tokens=1_000)
    model = Replies(*[says(WRITE, usage=used)] * 9)
    outcome = lead(model, limits=Limits(tokens=14_000))
    assert (outcome.ended, outcome.detail) == ("limits", "the agent used its 14,000 tokens without finishing")
    assert len(model.asked) == 2
    assert model.asked[1].max_output_tokens is not None and model.asked[1].max_output_tokens < 4_000


def test_no_question_is_asked_that_could_lead_beyond_the_limit_of_money(lead: Lead) -> None:
    """The highest possible cost is computed before. An unknown price limits nothing."""
    used = Usage(input_tokens=1_000, output_tokens=1_000, cost_usd=0.02)

    def price(given: int, answered: int) -> float:
        return (given + answered) * 0.00001

    model = Replies(*[says(WRITE, usage=used)] * 9)
    assert (
        lead(model, limits=Limits(cost_usd=0.05), price=price).detail == "the agent used its 0.05 USD without finishing"
    )
    assert len(model.asked) == 2
    assert lead(Replies(says(FINISH)), limits=Limits(cost_usd=0.05), price=lambda *of: None).ended == "finished"


def test_a_plan_ends_its_conversation_and_is_kept(lead: Lead, tmp_path: Path) -> None:
    """The transcript has the plan before the end of the conversation."""
    plan = ToolCall(id="p", name="commit_plan", arguments={"plan": "rename it", "files_to_modify": ["./a.py", "a.py"]})
    assert lead(Replies(says(plan)), phase="plan").ended == "planned"
    (committed,) = [one for one in read_transcript(tmp_path / "t.jsonl") if isinstance(one, PlanCommitted)]
    assert (committed.plan, committed.files, committed.synthetic) == ("rename it", ("a.py",), False)


def test_a_question_to_a_person_ends_the_conversation(lead: Lead) -> None:
    outcome = lead(Replies(says(ToolCall(id="q", name="ask", arguments={"question": "Which of the two?"}))))
    assert (outcome.ended, outcome.detail) == ("asked", "Which of the two?")


def test_exploring_without_end_is_ended(lead: Lead, tmp_path: Path) -> None:
    """It ends after twenty turns, whatever the model still wants to read."""
    for number in range(30):
        (tmp_path / "worktree" / f"{number}.py").write_text(f"x = {number}\n")
    reads = [says(ToolCall(id="r", name="read_file", arguments={"path": f"{n}.py"})) for n in range(30)]
    model = Replies(*reads)
    assert lead(model, phase="plan").ended == "explored"
    assert len(model.asked) == 20


def test_a_model_in_circles_is_told_once_and_then_ended(lead: Lead) -> None:
    """The warning is part of the conversation."""
    same = says(ToolCall(id="r", name="read_file", arguments={"path": "none.py"}))
    model = Replies(*[same] * 20)
    outcome = lead(model)
    assert outcome.ended == "failed" and "circles" in outcome.detail
    warnings = [request for request in model.asked if "going in circles" in request.turns[-1].text]
    assert len(warnings) == 1


@pytest.mark.parametrize("stop", ["overflow", "refusal"])
def test_no_tool_runs_from_a_turn_that_ended_badly(lead: Lead, tmp_path: Path, stop: str) -> None:
    """Each call is still answered, so that the conversation can continue."""
    assert lead(Replies(says(WRITE, stop=stop))).ended in ("overflow", "refused")
    assert not (tmp_path / "worktree" / "a.py").exists()
    (result,) = conversation(read_transcript(tmp_path / "t.jsonl"))[-1].results
    assert result.is_error and result.text.startswith("not run")


def test_an_overflow_before_the_answer_is_told_from_a_failure(lead: Lead) -> None:
    """The conversation then has to become shorter."""
    assert lead(Replies(ModelFailed("too long", trouble="overflow"))).ended == "overflow"


def test_a_call_whose_arguments_are_no_object_is_not_run(lead: Lead, tmp_path: Path) -> None:
    """The model is told and sends it again."""
    broken = ToolCall(id="w", name="write_file", malformed='{"path": "a.py", "con')
    model = Replies(says(broken), says(FINISH))
    assert lead(model).ended == "finished"
    assert "not one JSON object" in model.asked[1].turns[-1].results[0].text


def test_every_try_is_in_the_transcript(lead: Lead, tmp_path: Path) -> None:
    """This includes tries that brought no turn."""

    class Stumbling(Replies):
        def ask(self, request: ModelRequest, *, stop: Callable[[], bool], hear: Hear = deaf) -> Turn:
            hear(
                ProviderTry(
                    model="m",
                    account="a",
                    trouble="overloaded",
                    said="busy",
                    status=529,
                    seconds=0.1,
                    wait_s=0.5,
                    usage=Usage(input_tokens=70, cost_usd=0.01),
                )
            )
            return super().ask(request, stop=stop, hear=hear)

    lead(Stumbling(says(FINISH)))
    (tried,) = [entry for entry in read_transcript(tmp_path / "t.jsonl") if isinstance(entry, TriedEntry)]
    assert (tried.trouble, tried.status, tried.wait_s) == ("overloaded", 529, 0.5)
    used = spent(tmp_path)
    assert (used.turns, used.input_tokens, used.cost_usd) == (1, 70, 0.01), "a try that broke off is paid for, too"
    assert Meter.of(Limits(), read_transcript(tmp_path / "t.jsonl")).spent.input_tokens == 70


def test_a_question_that_was_cut_short_is_paid_for(lead: Lead, tmp_path: Path) -> None:
    """The vendor charges for the partial answer, although no turn accounts for it."""
    cut = ModelFailed("stopped", trouble="stopped", usage=Usage(input_tokens=50, output_tokens=5, cost_usd=0.02))
    lead(Replies(says(WRITE), cut))
    used = spent(tmp_path)
    assert (used.turns, used.input_tokens, used.output_tokens, used.cost_usd) == (1, 50, 5, 0.02)
    assert Meter.of(Limits(), read_transcript(tmp_path / "t.jsonl")).spent.cost_usd == 0.02


def told(folder: Path) -> list[str]:
    """Return what the harness has said, in the order in which it was said."""
    turns = [entry.turn for entry in read_transcript(folder / "t.jsonl") if isinstance(entry, TurnSaid)]
    return [part.text for turn in turns if turn.role == "user" for part in turn.parts if isinstance(part, Text)][1:]


def test_a_model_is_told_once_of_a_limit_that_is_near_and_of_its_last_turns(lead: Lead, tmp_path: Path) -> None:
    writes = [
        says(WRITE.model_copy(update={"id": f"w{number}", "arguments": {"path": f"{number}.py", "content": "x\n"}}))
        for number in range(20)
    ]
    outcome = lead(Replies(*writes), limits=Limits(wall_s=20, turns=16))
    assert outcome.ended == "limits"
    assert told(tmp_path) == [
        "[the harness] A limit is near: 75 % of your 16 turns are used. Do what matters most first, and end in time.",
        "[the harness] Your last turns: 3 of your 16 turns left. End with what stands.",
    ]


def test_a_model_without_near_limits_is_told_nothing_of_them(lead: Lead, tmp_path: Path) -> None:
    assert lead(Replies(says(WRITE), says(FINISH)), limits=Limits(wall_s=20, turns=150)).ended == "finished"
    assert told(tmp_path) == []
