"""A transcript is printed so that a person can follow it: texts, calls, results and cost."""

import pytest

from forgepool.workers.agents.render_transcript import NarratedLine, lines, narrate_entries
from forgepool.workers.context.transcript.edit import Edit
from forgepool.workers.context.transcript.entries import (
    Answered,
    CheckpointKept,
    ConversationStarted,
    Entry,
    Finished,
    Noted,
    PlanCommitted,
    Profiled,
    QuestionTried,
    Rebuilt,
    Resumed,
    Summoned,
    TurnSaid,
    Verified,
)
from forgepool.workers.llm.messages import Opaque, Text, ToolCall, ToolResult, Turn, Usage, user
from forgepool.workers.schema.orders import Spent

STARTED = ConversationStarted(
    at=0.0, order_id="r.a.1", model="m-1", system=("s",), tools=("read_file", "finish"), phase="plan"
)


def said(*parts: Text | ToolCall | Opaque, **more: object) -> TurnSaid:
    return TurnSaid(at=1.0, turn=Turn.model_validate({"role": "assistant", "parts": parts, "model": "m-1", **more}))


def call(name: str, **arguments: str | int | list[str]) -> ToolCall:
    return ToolCall(id="1", name=name, arguments=arguments)


def answered(text: str, *, is_error: bool = False, seconds: float = 0.1) -> Answered:
    return Answered(at=2.0, iteration=1, seconds=seconds, result=ToolResult(call_id="1", text=text, is_error=is_error))


def told(*entries: Entry, most_lines: int | None = 3) -> list[str]:
    return [line.text for line in lines(entries, most_lines=most_lines)]


def test_a_conversation_reads_from_phase_to_phase_with_its_turns_numbered() -> None:
    usage = Usage(input_tokens=12_000, cached_tokens=9_000, output_tokens=340, cost_usd=0.0123)
    found = told(
        STARTED,
        TurnSaid(at=1.0, turn=user(Text(text="Do it"))),
        said(Text(text="I look"), call("read_file", path="src/a.py", first=3), usage=usage),
        answered("1\tx"),
        said(call("finish", summary="done")),
        Finished(at=9.0, ended="finished", detail="all done", spent=Spent(turns=2, seconds=8.5, input_tokens=12_000)),
    )
    assert found[0].startswith("=== PLAN of r.a.1 at ")
    assert found[1:] == [
        "    m-1, with read_file, finish",
        "--- told",
        "Do it",
        "--- 1. m-1",
        "I look",
        "> read_file src/a.py (first=3)",
        "    12,000 tokens in (75% cached), 340 out, 0.0123 USD",
        "< 1\tx",
        "--- 2. m-1",
        "> finish done",
        "=== finished: all done (2 turns, 8.5 s, 12,000 tokens, 0.0000 USD)",
    ]


def test_a_long_result_is_cut_and_says_how_much_more_there_is() -> None:
    assert told(answered("a\nb\nc\nd\ne\n")) == ["< a", "< b", "< c", "< ... 2 more lines"]
    assert told(answered("a\nb\nc\nd")) == ["< a", "< b", "< c", "< ... 1 more line"]
    assert told(answered("a\nb\nc")) == ["< a", "< b", "< c"]
    assert told(answered("a\nb\nc\nd\ne"), most_lines=None) == ["< a", "< b", "< c", "< d", "< e"]
    red = Verified(at=1.0, ok=False, detail="`make` exited with 2", output="a\nb\nc\nd\n")
    assert told(red) == ["=== VERIFY: `make` exited with 2", "    | ... 1 more line", "    | b", "    | c", "    | d"]


@pytest.mark.parametrize(
    ("made", "line"),
    [
        (call("bash", command="ls -l\nwc x", timeout_s=5), "> bash ls -l wc x (timeout_s=5)"),
        (call("grep", first=1, pattern="x.*y"), "> grep x.*y (first=1)"),
        (call("odd", things=["a", "b"]), '> odd ["a", "b"]'),
        (call("none"), "> none"),
        (call("write_file", path="x", text="y" * 2000), f"> write_file x (text={'y' * 100}... (2,000 characters))"),
        (ToolCall(id="1", name="bash", malformed='{"comm'), '> bash (malformed: {"comm)'),
    ],
)
def test_a_call_is_one_line_with_what_it_is_about_first(made: ToolCall, line: str) -> None:
    assert told(said(made))[1] == line


def test_what_happened_beside_the_conversation_is_told() -> None:
    found = told(
        QuestionTried(
            at=1.0, model="m-1", account="x", trouble="rate_limit", said="slow\ndown", status=429, seconds=0.5, wait_s=8
        ),
        QuestionTried(at=1.0, model="m-1", account="x", trouble="authentication", said="no", seconds=0.5),
        PlanCommitted(at=1.0, plan="first this", files=("a", "b")),
        PlanCommitted(at=1.0, plan="", files=(), synthetic=True),
        Verified(at=1.0, ok=True, detail=""),
        Noted(at=1.0, text="a stronger model goes on"),
        CheckpointKept(at=1.0),
    )
    assert found == [
        "    (m-1: rate_limit 429 after 0.5 s, slow down; again in 8.0 s)",
        "    (m-1: authentication after 0.5 s, no; no further try)",
        "=== the plan, for a, b",
        "    first this",
        "=== a plan made by the harness, for no file in particular",
        "=== VERIFY: all is well",
        "    (a stronger model goes on)",
    ]
    assert told(Resumed(at=1.0, order_id="r.a.2"))[0].startswith("=== gone on with as r.a.2 at ")


def test_what_is_odd_about_a_turn_is_said() -> None:
    assert told(said(Text(text="x"), stop="max_tokens"))[0] == "--- 1. m-1 (ended by max_tokens)"
    unpriced = said(Text(text="x"), usage=Usage(input_tokens=5, cost_usd=None))
    assert told(unpriced)[-1] == "    5 tokens in, 0 out, cost unknown"
    assert told(answered("no", is_error=True, seconds=4.0)) == ["    in 4.0 s", "! no"]
    hidden = Opaque(wire="anthropic", model="m-1", block={})
    assert "reasoning" in told(said(hidden))[1]


def test_what_was_told_before_is_left_out_and_turns_keep_their_numbers() -> None:
    entries = [STARTED, said(Text(text="one")), said(Text(text="two"))]
    assert list(lines(entries, most_lines=3, skip=2)) == [
        NarratedLine("model", "--- 2. m-1"),
        NarratedLine("text", "two"),
    ]


def test_as_plain_text_nothing_is_cut() -> None:
    assert narrate_entries([answered("\n".join("x" * 40))]) == "< x\n" * 40


REBUILT = Rebuilt(
    at=1.0,
    profile="ledger",
    cause="call",
    why="it pays",
    edit=Edit(cut=3),
    before_tokens=40_000,
    after_tokens=10_000,
    window_tokens=200_000,
    dropped=(1, 2, 3, 4, 7, 9, 10),
    archive="/x/outputs/steps",
)


def test_a_rebuild_says_what_it_saved_what_it_cost_and_where_the_rest_is() -> None:
    usage = Usage(input_tokens=1_000, cached_tokens=900, output_tokens=50, cost_usd=0.002)
    asked = REBUILT.model_copy(update={"calls": 1, "usage": usage, "dropped": (7,)})
    kept = asked.model_copy(update={"edit": None, "calls": 2, "why": "it said nothing", "dropped": ()})
    assert told(REBUILT, asked, kept) == [
        "=== context rebuilt (ledger, call): 40,000 -> 10,000 tokens (20% -> 5% of the window): it pays; "
        "steps 1-4, 7, 9-10 can be read in /x/outputs/steps",
        "=== context rebuilt (ledger, call): 40,000 -> 10,000 tokens (20% -> 5% of the window): it pays; "
        "step 7 can be read in /x/outputs/steps; "
        "1 call to a model: 1,000 tokens in (90% cached), 50 out, 0.0020 USD",
        "=== the context stays as it is (ledger, call): it said nothing; "
        "2 calls to a model: 1,000 tokens in (90% cached), 50 out, 0.0020 USD",
    ]


def test_a_profile_and_a_shortened_result_are_told_beside() -> None:
    """The record that a model is about to be asked is only for a later attempt."""
    short = answered("[identical to the result of step 1 (read_file a.py)]")
    short = short.model_copy(update={"whole": "x" * 1_200, "shortened": "identical"})
    assert told(
        Profiled(at=1.0, profile="pace"),
        Profiled(at=1.0, profile="off", by="a person"),
        short,
        Summoned(at=1.0, once="pace-compress"),
    ) == [
        "    (context profile pace)",
        "    (context profile off, chosen by a person)",
        "< [identical to the result of step 1 (read_file a.py)]",
        "    (shortened when it entered, identical: of 1,200 characters)",
    ]
