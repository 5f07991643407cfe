import copy
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forgepool.workers.context.replay.formats import read_recordings
from forgepool.workers.context.replay.recording import (
    NO_RESULT,
    NO_TASK,
    NOTHING,
    Assembly,
    BadRecording,
    Recording,
    project_named,
)
from forgepool.workers.context.transcript.entries import Answered, ConversationStarted, Entry, Finished, TurnSaid
from forgepool.workers.llm.messages import Opaque, Text, ToolCall, ToolResult, Turn, Usage, user
from forgepool.workers.schema.orders import Spent

Json = Any

# --- what holds of every recording ------------------------------------------------------------------------------------


def assert_sound(recording: Recording) -> None:
    turns = recording.turns
    assert len(turns) == len(recording.times)
    assert [turn.role for turn in turns] == ["user" if place % 2 == 0 else "assistant" for place in range(len(turns))]
    assert isinstance(turns[0].parts[0], Text)
    assert any(turn.role == "assistant" for turn in turns)
    ids = [call.id for turn in turns for call in turn.calls]
    assert "" not in ids and len(ids) == len(set(ids))
    for place, turn in enumerate(turns):
        assert turn.parts
        answered = [call.id for call in turns[place - 1].calls] if place else []
        assert [result.call_id for result in turn.results] == answered
    assert not turns[-1].calls
    assert all(at is None or math.isfinite(at) for at in recording.times)
    assert recording.name and recording.project


def read(folder: Path, name: str, content: str | bytes) -> list[Recording]:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    found = read_recordings(path)
    assert found
    for recording in found:
        assert_sound(recording)
    return found


def only(folder: Path, name: str, content: str | bytes) -> Recording:
    (recording,) = read(folder, name, content)
    return recording


def lines(*records: Json) -> str:
    return "".join(f"{json.dumps(record)}\n" for record in records)


def spoken(recording: Recording) -> list[Json]:
    """Return each turn in short: texts, (tool, arguments), [result]."""
    return [[_short(part) for part in turn.parts] for turn in recording.turns]


def _short(part: object) -> Json:
    match part:
        case Text(text=text):
            return text
        case ToolCall(name=name, arguments=arguments):
            return (name, dict(arguments))
        case ToolResult(text=text):
            return [text]
        case _:
            return part


# --- our own ----------------------------------------------------------------------------------------------------------


def transcript(*entries: Entry) -> str:
    return "".join(f"{entry.encode()}\n" for entry in entries)


def started(at: float, *system: str) -> ConversationStarted:
    return ConversationStarted(at=at, order_id="r.t.1", model="m", system=system, tools=("read",))


def said(at: float, turn: Turn) -> TurnSaid:
    return TurnSaid(at=at, turn=turn)


def model(*parts: Any, usage: Usage | None = None) -> Turn:
    return Turn(role="assistant", parts=parts, usage=usage or Usage())


OWN = (
    started(1.0, "be good", " ", "be brief"),
    said(2.0, user(Text(text="the card"))),
    said(3.0, model(Text(text="looking"), ToolCall(id="a", name="read"), ToolCall(id="b", name="read"))),
    Answered(at=5.0, iteration=1, seconds=1, result=ToolResult(call_id="b", text="B", is_error=True)),
    Answered(at=4.0, iteration=1, seconds=1, result=ToolResult(call_id="a", text="A")),
    said(6.0, user(Text(text="by the way"))),
    said(7.0, model(Text(text="planned"), usage=Usage(input_tokens=9, cached_tokens=4, output_tokens=2))),
    Finished(at=8.0, ended="finished", detail="", spent=Spent()),
    started(9.0, "now do it"),
    said(10.0, user(Text(text="the card"), Text(text="the plan"))),
    said(11.0, model(Text(text="done"))),
)


def test_own_conversations_of_one_transcript_are_not_mixed(tmp_path: Path) -> None:
    plan, execute = read(tmp_path, "order.jsonl", transcript(*OWN))
    assert (plan.name, execute.name, plan.format) == ("order.jsonl", "order.jsonl#2", "own")
    assert (plan.system, execute.system) == ("be good\n\nbe brief", "now do it")
    assert spoken(plan) == [
        ["the card"],
        ["looking", ("read", {}), ("read", {})],
        [["A"], ["B"], "by the way"],
        ["planned"],
    ]
    assert [result.is_error for result in plan.turns[2].results] == [False, True]
    assert plan.times == (2.0, 3.0, 6.0, 7.0)
    assert plan.turns[3].usage == Usage(input_tokens=9, cached_tokens=4, output_tokens=2)
    assert spoken(execute) == [["the card", "the plan"], ["done"]]


def test_own_line_that_a_killed_writer_tore_is_no_error(tmp_path: Path) -> None:
    whole = transcript(*OWN)
    assert read(tmp_path, "t.jsonl", whole + '{"kind":"said","at":1') == read(tmp_path, "t.jsonl", whole)


def test_own_line_changed_by_somebody_is_named(tmp_path: Path) -> None:
    broken = transcript(*OWN).replace('"kind":"said"', '"kind":"sad"', 1)
    with pytest.raises(BadRecording, match=r"t\.jsonl:2: not an entry of a transcript"):
        read(tmp_path, "t.jsonl", broken)


def test_own_conversation_without_an_answer_is_left_out(tmp_path: Path) -> None:
    (recording,) = read(tmp_path, "t.jsonl", transcript(started(0.0), said(0.5, user(Text(text="hm"))), *OWN[8:]))
    assert recording.name == "t.jsonl"
    with pytest.raises(BadRecording, match="no model answers in it"):
        read(tmp_path, "t.jsonl", transcript(*OWN[:2]))


def test_own_blocks_only_the_vendor_understands_are_kept(tmp_path: Path) -> None:
    thought = Opaque(wire="anthropic", model="m", block={"signature": "s"})
    recording = only(tmp_path, "t.jsonl", transcript(*OWN[:2], said(3.0, model(thought, Text(text="x")))))
    assert recording.turns[1].parts == (thought, Text(text="x"))


def test_own_results_are_read_as_they_were_before_they_were_shortened(tmp_path: Path) -> None:
    result = ToolResult(call_id="a", text="short")
    answered = Answered(at=4.0, iteration=1, seconds=1, result=result, whole="all of it")
    recording = only(tmp_path, "t.jsonl", transcript(*OWN[:3], answered))
    assert spoken(recording)[2] == [["all of it"], [NO_RESULT]]


# --- the normal form --------------------------------------------------------------------------------------------------


def step(turn: int | None, tool: str = "bash", **other: Json) -> Json:
    made = {"assistant_text": f"thought {turn}", "tool": "bash", "raw_tool": tool, "input": {"command": f"ls {turn}"}}
    return {**made, "output": f"out {turn}", "is_error": False, "turn": turn, "user_text": "", "ts": None, **other}


NORMAL = {
    "source": {"source": "github:somebody/runs", "path": "x/y.json", "licence": "MIT"},
    "task": "mend it",
    "steps": [
        step(0, ts=1763510147, usage={"prompt": 100, "cached": 20, "completion": 7}),
        step(1, tool="Read", input={"path": "a"}, output="A", ts=1763510150),
        step(1, tool="Read", assistant_text="", input={"path": "b"}, output="B", is_error=True, ts=1763510149),
        step(2, user_text="and the docs", output=None),
        step(3, tool="", input={}, output="", assistant_text="done"),
    ],
}


def test_normal_parallel_calls_become_one_turn(tmp_path: Path) -> None:
    recording = only(tmp_path, "django__django-11138.json", json.dumps(NORMAL))
    assert spoken(recording) == [
        ["mend it"],
        ["thought 0", ("bash", {"command": "ls 0"})],
        [["out 0"]],
        ["thought 1", ("Read", {"path": "a"}), ("Read", {"path": "b"})],
        [["A"], ["B"], "and the docs"],
        ["thought 2", ("bash", {"command": "ls 2"})],
        [[NO_RESULT]],
        ["done"],
    ]
    assert [result.is_error for turn in recording.turns for result in turn.results] == [False, False, True, True]
    assert recording.turns[1].usage == Usage(input_tokens=100, cached_tokens=20, output_tokens=7, cost_usd=None)
    assert recording.times == (None, 1763510147.0, None, 1763510150.0, None, None, None, None)
    assert (recording.project, recording.format, recording.system) == ("django__django", "normal", "")


def test_normal_project_is_that_of_the_source_where_the_name_says_nothing(tmp_path: Path) -> None:
    assert only(tmp_path, "one.json", json.dumps(NORMAL)).project == "somebody__runs"
    source = {"path": "trajs/sphinx-doc__sphinx-8035/sphinx-doc__sphinx-8035.traj.json"}
    assert only(tmp_path, "one.json", json.dumps({**NORMAL, "source": source})).project == "sphinx-doc__sphinx"
    assert only(tmp_path, "one.json", json.dumps({**NORMAL, "source": {}})).project == "one"


def test_normal_steps_without_turns_are_turns_of_their_own(tmp_path: Path) -> None:
    steps = [step(None), step(None)]
    recording = only(tmp_path, "n.json", json.dumps({"task": "t", "steps": steps}))
    assert [len(turn.calls) for turn in recording.turns] == [0, 1, 0, 1, 0]


def test_normal_time_that_is_no_number_is_not_known(tmp_path: Path) -> None:
    steps = [step(0, ts=math.inf), step(1, ts=math.nan), step(2, ts=3)]
    assert only(tmp_path, "n.json", json.dumps({"task": "t", "steps": steps})).times[1::2] == (None, None, 3.0)


def test_normal_form_with_a_wrong_value_says_where(tmp_path: Path) -> None:
    wrong = copy.deepcopy(NORMAL)
    wrong["steps"][1]["output"] = 5  # type: ignore[index]
    with pytest.raises(BadRecording, match=r"n\.json: not a run in the normal form: steps\.1\.output: input should be"):
        read(tmp_path, "n.json", json.dumps(wrong))


# --- Claude Code ------------------------------------------------------------------------------------------------------


def record(type: str, uuid: str, parent: str | None, content: Json = None, **other: Json) -> Json:
    made: Json = {
        "type": type,
        "uuid": uuid,
        "parentUuid": parent,
        "isSidechain": False,
        "cwd": "/home/me/shop",
        **other,
    }
    if content is not None and "message" not in other:
        made["message"] = {"role": type, "content": content}
    return made


def answer(uuid: str, parent: str | None, id: str, *blocks: Json, output: int = 5, **other: Json) -> Json:
    usage = {
        "input_tokens": 3,
        "cache_read_input_tokens": 10,
        "cache_creation_input_tokens": 4,
        "output_tokens": output,
    }
    message = {"id": id, "role": "assistant", "model": "claude-x", "content": list(blocks), "usage": usage}
    return record("assistant", uuid, parent, **{"message": message, **other})


def use(id: str, **arguments: Json) -> Json:
    return {"type": "tool_use", "id": id, "name": "Read", "input": arguments}


def outcome(id: str, content: Json, **other: Json) -> Json:
    return {"type": "tool_result", "tool_use_id": id, "content": content, **other}


def text(value: str) -> Json:
    return {"type": "text", "text": value}


CLAUDE = (
    {"type": "summary", "summary": "Mending", "leafUuid": "a3"},
    {"type": "file-history-snapshot", "messageId": "x", "snapshot": {}},
    record("user", "u0", None, "Caveat: local commands", isMeta=True),
    record("user", "u1", "u0", "<command-name>/model</command-name>"),
    record("user", "u2", "u1", "mend the shop", timestamp="2026-01-01T00:00:00Z"),
    answer("a0", "u2", "m1", {"type": "thinking", "thinking": "hm", "signature": "s"}, output=1),
    answer("a1", "a0", "m1", text("I look"), use("t1", path="a"), output=1),
    record("user", "r1", "a1", [outcome("t1", "A")], timestamp="2026-01-01T00:00:05.500Z"),
    answer("a2", "a1", "m1", use("t2", path="b"), output=40, timestamp="2026-01-01T00:00:02Z"),
    record("user", "r2", "a2", [outcome("t2", [text("B1"), {"type": "image"}, text("B2")], is_error=True)]),
    {"type": "attachment", "uuid": "q1", "attachment": {"type": "queued_command", "prompt": "also the till"}},
    answer("a3", "q1", "m2", text("done")),
    record("assistant", "e1", "a3", message={"model": "<synthetic>", "content": [text("API Error")]}),
)


def test_claude_pieces_of_one_answer_are_one_turn_counted_once(tmp_path: Path) -> None:
    """The first calls' results may be written before the last piece."""
    recording = only(tmp_path, "s.jsonl", lines(*CLAUDE))
    assert spoken(recording) == [
        ["mend the shop", "Caveat: local commands", "<command-name>/model</command-name>"],
        ["I look", ("Read", {"path": "a"}), ("Read", {"path": "b"})],
        [["A"], ["B1\n[image]\nB2"], "also the till"],
        ["done"],
    ]
    expected = Usage(input_tokens=17, cached_tokens=10, written_tokens=4, output_tokens=40, cost_usd=None)
    assert recording.turns[1].usage == expected
    assert (recording.turns[1].id, recording.turns[1].model, recording.turns[1].stop) == ("m1", "claude-x", "calls")
    assert [result.is_error for result in recording.turns[2].results] == [False, True]
    assert recording.times == (1767225600.0, 1767225602.0, 1767225605.5, None)
    assert (recording.project, recording.format) == ("shop", "claude-code")


def test_claude_piece_that_repeats_the_earlier_ones_adds_only_what_is_new(tmp_path: Path) -> None:
    recording = only(
        tmp_path,
        "s.jsonl",
        lines(
            record("user", "u", None, "go"),
            answer("a0", "u", "m", text("I look"), use("t1")),
            answer("a1", "a0", "m", text("I look"), use("t1"), use("t2")),
        ),
    )
    assert spoken(recording)[1] == ["I look", ("Read", {}), ("Read", {})]


COMPACTED = (
    *CLAUDE,
    {"type": "system", "subtype": "compact_boundary", "uuid": "c", "parentUuid": None, "logicalParentUuid": "a3"},
    record("user", "s", "c", "This session is being continued. We mended.", isCompactSummary=True),
    answer("a4", "s", "m3", text("going on")),
)


def test_claude_compaction_begins_a_new_recording_with_its_summary(tmp_path: Path) -> None:
    before, after = read(tmp_path, "s.jsonl", lines(*COMPACTED))
    assert (before.name, after.name) == ("s.jsonl", "s.jsonl#2")
    assert before.turns == only(tmp_path, "s.jsonl", lines(*CLAUDE)).turns
    assert spoken(after) == [["This session is being continued. We mended."], ["going on"]]


SIDES = (
    record("user", "x0", None, "count the tills", isSidechain=True),
    answer("x1", "x0", "n1", text("three"), isSidechain=True),
    record("user", "y0", None, "count the doors", isSidechain=True, agentId="d00"),
    answer("y1", "y0", "n2", text("four"), isSidechain=True, agentId="d00"),
)


def test_claude_sub_agents_are_not_mixed_into_the_conversation(tmp_path: Path) -> None:
    mixed = [*CLAUDE[:8], SIDES[0], SIDES[2], SIDES[1], *CLAUDE[8:], SIDES[3]]
    main, tills, doors = read(tmp_path, "s.jsonl", lines(*mixed))
    assert main == only(tmp_path, "s.jsonl", lines(*CLAUDE))
    assert [(one.name, spoken(one)) for one in (tills, doors)] == [
        ("s.jsonl#side1", [["count the tills"], ["three"]]),
        ("s.jsonl#side2", [["count the doors"], ["four"]]),
    ]


def test_claude_file_of_a_sub_agent_is_a_recording_like_any(tmp_path: Path) -> None:
    assert only(tmp_path, "agent-d00.jsonl", lines(*SIDES[2:])).name == "agent-d00.jsonl"


def test_claude_answers_that_a_person_went_back_behind_are_left_out(tmp_path: Path) -> None:
    went_back = (
        record("user", "u", None, "go"),
        answer("a0", "u", "m0", text("I could")),
        record("user", "v", "a0", "the wrong way"),
        answer("a1", "v", "m1", text("wrong")),
        record("user", "w", "a0", "the right way"),
        answer("a2", "w", "m2", text("right")),
    )
    assert spoken(only(tmp_path, "s.jsonl", lines(*went_back))) == [["go"], ["I could"], ["the right way"], ["right"]]


def test_claude_prompt_without_a_parent_begins_anew(tmp_path: Path) -> None:
    again = record("user", "n", None, "from the start"), answer("n1", "n", "m9", text("yes"))
    _, second = read(tmp_path, "s.jsonl", lines(*CLAUDE, *again))
    assert spoken(second) == [["from the start"], ["yes"]]


@pytest.mark.parametrize(
    "late",
    [
        record("user", "z", "a1", "a reminder", isMeta=True),
        record("user", "z", "a1", [outcome("t1", "again")]),
        record("assistant", "z", "a1", message={"model": "claude-x", "content": "Error"}, isApiErrorMessage=True),
        record("user", "z", "unknown", "go on"),
    ],
)
def test_claude_line_hung_on_an_earlier_one_takes_nothing_back(tmp_path: Path, late: Json) -> None:
    """Only a person's prompt does."""
    before = only(tmp_path, "s.jsonl", lines(*CLAUDE)).turns
    assert only(tmp_path, "s.jsonl", lines(*CLAUDE, late)).turns[: len(before)] == before


def test_claude_prompt_between_pieces_of_an_answer_takes_none_of_them_back(tmp_path: Path) -> None:
    stopped = record("user", "z", "a1", "[Request interrupted by user]")
    recording = only(tmp_path, "s.jsonl", lines(*CLAUDE[:10], stopped))
    assert len(recording.turns[1].calls) == 2


def test_claude_line_written_twice_is_read_once(tmp_path: Path) -> None:
    assert only(tmp_path, "s.jsonl", lines(*CLAUDE, *CLAUDE[5:12])) == only(tmp_path, "s.jsonl", lines(*CLAUDE))


def test_claude_answer_made_up_for_an_error_is_none(tmp_path: Path) -> None:
    failed = record("assistant", "z", "a3", message={"model": "claude-x", "content": "Error"}, isApiErrorMessage=True)
    assert only(tmp_path, "s.jsonl", lines(*CLAUDE, failed)) == only(tmp_path, "s.jsonl", lines(*CLAUDE))


@pytest.mark.parametrize("timestamp", ["yesterday", "0001-01-01T00:00:00", ""])
def test_claude_time_that_is_none_is_not_known(tmp_path: Path, timestamp: str) -> None:
    session = record("user", "u", None, "go"), answer("a", "u", "m", text("yes"), timestamp=timestamp)
    assert only(tmp_path, "s.jsonl", lines(*session)).times[0] is None


def test_claude_last_line_may_be_torn_and_no_other(tmp_path: Path) -> None:
    whole = lines(*CLAUDE)
    assert read(tmp_path, "s.jsonl", whole + '{"type":"us') == read(tmp_path, "s.jsonl", whole)
    with pytest.raises(BadRecording, match=r"s\.jsonl:3: not JSON"):
        read(tmp_path, "s.jsonl", lines(*CLAUDE[:2]) + '{"type":"us\n' + lines(*CLAUDE[2:]))


def test_claude_message_of_another_shape_is_named_by_its_line(tmp_path: Path) -> None:
    broken = record("user", "z", "a3", content=7)
    with pytest.raises(BadRecording, match=r"s\.jsonl:14: not a line of a session of Claude Code: message\.content"):
        read(tmp_path, "s.jsonl", lines(*CLAUDE, broken))


def test_halves_of_characters_do_not_spoil_a_session(tmp_path: Path) -> None:
    """Its writer cuts long texts in the middle of a character."""
    session = record("user", "u", None, "cut \ud83d"), answer("a", "u", "m", text("whole \U0001f600 é"))
    assert spoken(only(tmp_path, "s.jsonl", lines(*session))) == [["cut ?"], ["whole \U0001f600 é"]]


# --- mini-swe-agent ---------------------------------------------------------------------------------------------------


def block(command: str) -> str:
    return f"THOUGHT: {command}?\n\n```bash\n{command}\n```"


MINI_1: Json = {
    "info": {"exit_status": "Submitted", "mini_version": "1.15.0"},
    "messages": [
        {"role": "system", "content": "you have a shell"},
        {"role": "user", "content": [text("mend it")], "timestamp": 1.0},
        {"role": "assistant", "content": block("ls"), "timestamp": 2.0, "extra": {"response": {"usage": None}}},
        {"role": "user", "content": "<returncode>0</returncode>\n<output>\na\n</output>", "timestamp": 3.0},
        {"role": "assistant", "content": "I forgot the command"},
        {"role": "user", "content": "Please give exactly one action"},
        {"role": "assistant", "content": f"{block('a')}\n{block('b')}"},
        {"role": "user", "content": "Please give exactly one action, not two"},
        {"role": "assistant", "content": block("make\nmake test")},
        {"role": "user", "content": "<returncode>2</returncode>\n<output>\nno\n</output>"},
        {"role": "assistant", "content": block("submit")},
        {"role": "user", "content": "the diff"},
    ],
    "trajectory_format": "mini-swe-agent-1",
}


def test_mini_one_fenced_block_is_a_call_and_any_other_number_is_text(tmp_path: Path) -> None:
    recording = only(tmp_path, "django__django-1.traj.json", json.dumps(MINI_1, indent=2))
    assert spoken(recording) == [
        ["mend it"],
        ["THOUGHT: ls?", ("bash", {"command": "ls"})],
        [["<returncode>0</returncode>\n<output>\na\n</output>"]],
        ["I forgot the command"],
        ["Please give exactly one action"],
        [f"{block('a')}\n{block('b')}"],
        ["Please give exactly one action, not two"],
        ["THOUGHT: make\nmake test?", ("bash", {"command": "make\nmake test"})],
        [["<returncode>2</returncode>\n<output>\nno\n</output>"]],
        ["THOUGHT: submit?", ("bash", {"command": "submit"})],
        [["the diff"]],
    ]
    assert [result.is_error for turn in recording.turns for result in turn.results] == [False, True, False]
    assert recording.times[:4] == (1.0, 2.0, 3.0, None)
    assert (recording.project, recording.format) == ("django__django", "mini-swe-agent")
    assert recording.system == "you have a shell"


def wire_call(id: str, arguments: str, name: str = "bash") -> Json:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


USAGE: Json = {"prompt_tokens": 50, "completion_tokens": 9, "prompt_tokens_details": {"cached_tokens": 30}}
MINI_2: Json = {
    "info": {"mini_version": "2.3.0"},
    "messages": [
        {"role": "system", "content": "you have a shell"},
        {"role": "user", "content": "mend it"},
        {
            "role": "assistant",
            "content": "both",
            "tool_calls": [wire_call("c", '{"command": "ls"}'), wire_call("d", '{"command": "ls')],
            "extra": {"timestamp": 5.5, "response": {"id": "r", "model": "deep", "usage": USAGE}},
        },
        {"role": "tool", "tool_call_id": "d", "content": "bad", "extra": {"returncode": -1, "timestamp": 6.5}},
        {"role": "tool", "tool_call_id": "c", "content": "<returncode>0</returncode>"},
        {"role": "user", "content": "no tool calls found", "extra": {"interrupt_type": "FormatError"}},
        {"role": "assistant", "content": None, "tool_calls": [wire_call("c", '{"command": "submit"}')]},
        {"role": "exit", "content": "the diff", "extra": {"exit_status": "Submitted"}},
        {"role": "user", "content": "never"},
    ],
    "trajectory_format": "mini-swe-agent-1.1",
    "instance_id": "astropy__astropy-12907",
}


def test_mini_native_calls_are_paired_by_id_and_ids_made_unique(tmp_path: Path) -> None:
    recording = only(tmp_path, "a.json", json.dumps(MINI_2))
    assert spoken(recording) == [
        ["mend it"],
        ["both", ("bash", {"command": "ls"}), ("bash", {})],
        [["<returncode>0</returncode>"], ["bad"], "no tool calls found"],
        [("bash", {"command": "submit"})],
        [[NO_RESULT]],
    ]
    assert [call.malformed for call in recording.turns[1].calls] == [None, '{"command": "ls']
    assert [result.is_error for turn in recording.turns for result in turn.results] == [False, True, True]
    assert recording.turns[1].usage == Usage(input_tokens=50, cached_tokens=30, output_tokens=9, cost_usd=None)
    assert recording.times == (None, 5.5, 6.5, None, None)
    assert recording.project == "astropy__astropy"


def test_mini_answers_over_the_responses_wire_are_read(tmp_path: Path) -> None:
    answered = {
        "object": "response",
        "output": [
            {"type": "reasoning", "summary": []},
            {"type": "message", "content": [{"type": "output_text", "text": "look"}]},
            {"type": "function_call", "call_id": "c", "name": "bash", "arguments": '{"command": "ls"}'},
        ],
        "usage": {"input_tokens": 8, "output_tokens": 2, "input_tokens_details": {"cached_tokens": 6}},
    }
    result = {"type": "function_call_output", "call_id": "c", "output": "a", "extra": {"returncode": 1}}
    messages = [{"role": "user", "content": "mend it"}, answered, result]
    recording = only(tmp_path, "a.json", json.dumps({"info": {}, "messages": messages}))
    assert spoken(recording) == [["mend it"], ["look", ("bash", {"command": "ls"})], [["a"]]]
    assert recording.turns[2].results[0].is_error
    assert recording.turns[1].usage == Usage(input_tokens=8, cached_tokens=6, output_tokens=2, cost_usd=None)


def test_mini_what_ran_is_taken_from_the_file_where_it_says_so(tmp_path: Path) -> None:
    content = "An example:\n```bash\nrm x\n```\nand now\n```mswea_bash_command\nls\n```"
    said = {"role": "assistant", "content": content, "extra": {"actions": [{"command": "ls"}]}}
    messages = [{"role": "user", "content": "mend it"}, said, {"role": "user", "content": "a"}]
    recording = only(tmp_path, "a.json", json.dumps({"info": {}, "messages": messages}))
    assert spoken(recording)[1:] == [
        ["An example:\n```bash\nrm x\n```\nand now", ("bash", {"command": "ls"})],
        [["a"]],
    ]


def test_mini_person_who_broke_in_is_not_taken_for_the_result(tmp_path: Path) -> None:
    broke_in = {"role": "user", "content": "stop", "extra": {"interrupt_type": "UserInterruption"}}
    messages = [{"role": "user", "content": "mend it"}, {"role": "assistant", "content": block("ls")}, broke_in]
    recording = only(tmp_path, "a.json", json.dumps({"info": {}, "messages": messages}))
    assert spoken(recording)[2] == [[NO_RESULT], "stop"]


def test_mini_command_in_another_fence_is_known_by_what_ran(tmp_path: Path) -> None:
    said = {"role": "assistant", "content": "<run>ls</run>", "extra": {"actions": [{"command": "ls"}]}}
    recording = only(tmp_path, "a.json", json.dumps({"info": {}, "messages": [{"role": "user", "content": "t"}, said]}))
    assert spoken(recording)[1] == ["<run>ls</run>", ("bash", {"command": "ls"})]


# --- SWE-agent --------------------------------------------------------------------------------------------------------

SWE_HISTORY: Json = [
    {"role": "system", "content": "special interface", "agent": "main"},
    {"role": "user", "content": "a demonstration", "is_demo": True},
    {"role": "assistant", "content": "of it", "is_demo": True},
    {"role": "user", "content": [text("mend it")], "agent": "main"},
    {"role": "assistant", "content": "I look\n```\nls\n```", "thought": "I look", "action": "ls\n"},
    {"role": "user", "content": "a.py"},
    {"role": "assistant", "content": "no command here", "thought": "no command here", "action": ""},
    {"role": "user", "content": "give one"},
    {
        "role": "assistant",
        "content": "open",
        "thought": "open",
        "action": "open a.py",
        "tool_calls": [wire_call("c1", '{"path": "a.py"}', "open")],
    },
    {"role": "tool", "content": "x = 1", "tool_call_ids": ["c1"]},
]
SWE_STEPS: Json = [
    {
        "action": "ls\n",
        "observation": "a.py",
        "response": "I look\n```\nls\n```",
        "thought": "I look",
        "state": {},
        "query": SWE_HISTORY[:4],
    },
    {"action": "", "observation": "give one", "response": "no command here", "thought": "no command here"},
    {"action": "submit", "observation": "", "response": "", "thought": ""},
]
SWE: Json = {"environment": "main", "trajectory": SWE_STEPS, "history": SWE_HISTORY, "info": {}}


def test_swe_history_is_read_without_its_demonstrations(tmp_path: Path) -> None:
    recording = only(tmp_path, "pydicom__pydicom-1458.traj", json.dumps(SWE, indent=2))
    assert spoken(recording) == [
        ["mend it"],
        ["I look", ("bash", {"command": "ls\n"})],
        [["a.py"]],
        ["no command here"],
        ["give one"],
        ["open", ("open", {"path": "a.py"})],
        [["x = 1"]],
    ]
    assert (recording.system, recording.project, recording.format) == (
        "special interface",
        "pydicom__pydicom",
        "swe-agent",
    )


def test_swe_results_are_paired_by_id(tmp_path: Path) -> None:
    calls = [wire_call("c1", "{}", "open"), wire_call("c2", "{}", "open")]
    history = [
        {"role": "user", "content": "mend it"},
        {"role": "assistant", "content": "both", "tool_calls": calls},
        {"role": "tool", "content": "two", "tool_call_ids": ["c2"]},
        {"role": "tool", "content": "one", "tool_call_ids": ["c1"]},
    ]
    assert spoken(only(tmp_path, "s.traj", json.dumps({"history": history})))[2] == [["one"], ["two"]]


@pytest.mark.parametrize("history", [[], None, SWE_HISTORY[:5]])
def test_swe_steps_are_read_where_the_history_is_not_whole(tmp_path: Path, history: Json) -> None:
    recording = only(tmp_path, "s.traj", json.dumps({"trajectory": SWE_STEPS, "history": history}))
    assert spoken(recording) == [
        ["mend it"],
        ["I look", ("bash", {"command": "ls\n"})],
        [["a.py"]],
        ["no command here"],
        ["give one"],
        [("bash", {"command": "submit"})],
        [[""]],
    ]
    assert recording.system == "special interface"


def test_swe_steps_that_do_not_say_the_task_say_that(tmp_path: Path) -> None:
    recording = only(tmp_path, "s.traj", json.dumps({"trajectory": SWE_STEPS[1:]}))
    assert spoken(recording)[0] == [NO_TASK]


def test_swe_attempts_are_recordings_of_their_own(tmp_path: Path) -> None:
    second = {"trajectory": SWE_STEPS[1:], "history": []}
    both = read(tmp_path, "s.traj", json.dumps({"attempts": [SWE, second], **SWE}))
    assert [one.name for one in both] == ["s.traj", "s.traj#2"]
    assert len(both[0].turns) == 7 and len(both[1].turns) == 5


# --- what no reader can read ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", r"x\.dat: empty; right would be a transcript of Forgepool"),
        (b"hello\nworld", r"x\.dat:1: not JSON; right would be"),
        (b'{\n "task": "t",\n "steps": [,]\n}', r"x\.dat:3: not JSON"),
        (b"\xff\xfe\xff", r"x\.dat: not JSON"),
        (b"[1, 2]", r"x\.dat: of no form known here \(list\)"),
        (b'{"b": 1, "a": 2}', r"x\.dat: of no form known here \(a, b\)"),
        (b'{"task": "t", "steps": []}\n{"task": "t", "steps": []}', r"x\.dat:2: more than one value"),
        (b'{"task": "t", "steps": []}', r"x\.dat: no model answers in it"),
        (b'{"type": "session_meta", "payload": {}}\n', r"x\.dat: JSON lines of no form known here"),
        (b'{"type": "user", "message": {"content": "x"}}\n7\n', r"x\.dat:2: not an object"),
        (b'{"task": ' + b"[" * 200_000, r"x\.dat: nested too deeply"),
        (b'{"task": "t", "steps": [' + b"9" * 5000 + b"]}", r"x\.dat: not JSON"),
    ],
)
def test_file_that_is_no_recording_is_refused_in_one_sentence(tmp_path: Path, content: bytes, sentence: str) -> None:
    with pytest.raises(BadRecording, match=sentence) as refused:
        read(tmp_path, "x.dat", content)
    assert "\n" not in str(refused.value)


def test_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadRecording, match=r"none\.json: cannot be read: no such file"):
        read_recordings(tmp_path / "none.json")


@pytest.mark.parametrize(
    ("names", "project"),
    [
        (("pytest-dev__pytest-5787.json",), "pytest-dev__pytest"),
        (("", "runs/mrdoob__three.js-12.traj.json"), "mrdoob__three.js"),
        (("notes.json", "psf__requests-1.traj"), "psf__requests"),
        (("night.order.1.jsonl",), "night"),
        ((".hidden",), ".hidden"),
    ],
)
def test_project_is_told_by_an_instance_else_by_the_file(names: Sequence[str], project: str) -> None:
    assert project_named(*names) == project


# --- properties -------------------------------------------------------------------------------------------------------

DOCUMENTS = (
    [json.loads(entry.encode()) for entry in OWN],
    NORMAL,
    list(COMPACTED) + list(SIDES),
    MINI_1,
    MINI_2,
    SWE,
    {"trajectory": SWE_STEPS},
)
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**30), 10**30),
    st.floats(),
    st.sampled_from(["", "x", "u0", "a1", "t1", "user", "assistant", "\ud800", "2026-13-01", "9" * 5000]),
    st.lists(st.integers(), max_size=2),
    st.dictionaries(st.sampled_from(["type", "text", "content", "role"]), st.text(max_size=3), max_size=2),
)


def places(value: Json, at: tuple[Json, ...] = ()) -> list[tuple[Json, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [at, *(place for key, item in inner for place in places(item, (*at, key)))]


def changed(document: Json, place: tuple[Json, ...], how: str, value: Json) -> Json:
    if not place:
        return value
    made = copy.deepcopy(document)
    inner = made
    for key in place[:-1]:
        inner = inner[key]
    last = place[-1]
    if how == "drop":
        del inner[last]
    elif how == "repeat" and isinstance(inner, list):
        inner.insert(last, copy.deepcopy(inner[last]))
    elif how == "swap" and isinstance(inner, list):
        inner[last], inner[0] = inner[0], inner[last]
    else:
        inner[last] = value
    return made


def written(document: Json) -> bytes:
    content = lines(*document) if isinstance(document, list) else json.dumps(document)
    return content.encode()


def read_or_refused(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    try:
        found = read_recordings(path)
    except BadRecording as refused:
        assert str(path) in str(refused)
        return
    assert found
    for recording in found:
        assert_sound(recording)
    assert len({recording.name for recording in found}) == len(found)


@settings(max_examples=400, deadline=None)
@given(data=st.data())
def test_changed_values_are_refused_or_read_soundly(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    document = data.draw(st.sampled_from(DOCUMENTS))
    for _ in range(data.draw(st.integers(1, 4))):
        if isinstance(document, (dict, list)) and (found := places(document)[1:]):
            how = data.draw(st.sampled_from(["put", "drop", "repeat", "swap"]))
            document = changed(document, data.draw(st.sampled_from(found)), how, data.draw(VALUES))
    read_or_refused(tmp_path_factory.getbasetemp() / "m.json", written(document))


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_changed_bytes_are_refused_or_read_soundly(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    content = bytearray(written(data.draw(st.sampled_from(DOCUMENTS))))
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(content)))
        content[start : start + data.draw(st.integers(0, 40))] = data.draw(st.binary(max_size=4))
    read_or_refused(tmp_path_factory.getbasetemp() / "b.json", bytes(content))


IDS = st.sampled_from(["", "a", "b", "a~1", "call~1"])
PIECES = st.one_of(
    st.tuples(st.just("hear"), st.sampled_from(["", "x"])),
    st.tuples(st.just("answer"), st.lists(IDS, max_size=3)),
    st.tuples(st.just("more"), st.lists(IDS, max_size=2)),
    st.tuples(st.just("result"), IDS),
)


@settings(max_examples=300, deadline=None)
@given(pieces=st.lists(PIECES, max_size=25))
def test_assembled_conversation_is_sound_whatever_happened(pieces: list[tuple[str, Any]]) -> None:
    assembly = Assembly()
    for number, (what, value) in enumerate(pieces):
        match what:
            case "hear":
                assembly.hear(value, float(number))
            case "result":
                assembly.result(f"result {number}", call_id=value, at=float(number))
            case _:
                calls = [ToolCall(id=id, name="t") for id in value]
                assembly.answer(model(*calls), float(number), more=what == "more")
    if not assembly.answered:
        return
    recording = assembly.recording(name="n", format="own", project="p")
    assert_sound(recording)
    again = assembly.recording(name="n", format="own", project="p")
    assert again == recording
    texts = [result.text for turn in recording.turns for result in turn.results if result.text != NO_RESULT]
    assert len(texts) == len(set(texts))


def test_two_answers_in_a_row_stay_two_calls_of_the_model() -> None:
    assembly = Assembly()
    assembly.hear("go")
    assembly.answer(model(Text(text="one")))
    assembly.answer(model())
    recording = assembly.recording(name="n", format="own", project="p")
    assert spoken(recording) == [["go"], ["one"], [NOTHING], [NOTHING]]
    assert_sound(recording)


def test_result_that_comes_late_is_put_where_its_call_was() -> None:
    assembly = Assembly()
    assembly.answer(model(ToolCall(id="a", name="t")))
    assembly.answer(model(ToolCall(id="b", name="t")))
    assembly.hear(" \n")
    assembly.result("late", call_id="a")
    assembly.result("again", call_id="a")
    assembly.result("of nothing", call_id="c")
    recording = assembly.recording(name="n", format="own", project="p")
    assert spoken(recording) == [[NO_TASK], [("t", {})], [["late"]], [("t", {})], [[NO_RESULT]]]
