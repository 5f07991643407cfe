"""A recording is replayed with the same texts and calls in the same order."""

from typing import Any

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from forgepool.workers.context.transcript.entries import Answered, ConversationStarted, Entry, TurnSaid, Undone
from forgepool.workers.context.transcript.exchanges import as_script
from forgepool.workers.llm.messages import Opaque, Text, ToolCall, ToolResult, Turn, user
from forgepool.workers.llm.provider import ModelRequest
from forgepool.workers.llm.scripted import ScriptedModel, read_script
from forgepool.workers.schema.orders import PhaseName


def started(phase: PhaseName = "execute") -> ConversationStarted:
    return ConversationStarted(at=0.0, order_id="r.a.1", model="m-1", system=(), tools=(), phase=phase)


def said(*parts: Any) -> TurnSaid:
    return TurnSaid(at=1.0, turn=Turn(role="assistant", parts=parts, model="m-1"))


def call(name: str, number: int = 0, **arguments: Any) -> ToolCall:
    return ToolCall(id=f"c{number}", name=name, arguments=arguments)


def replayed(script: str, turns: int) -> list[tuple[str, list[tuple[str, dict[str, Any]]]]]:
    """Return each turn's text and calls, telling the model that all its calls were done."""
    model = ScriptedModel(script, attempt=1)
    told: tuple[Turn, ...] = (user(Text(text="do it")),)
    found = []
    for _ in range(turns):
        turn = model.ask(ModelRequest(system=(), tools=(), turns=told), stop=lambda: False)
        found.append((turn.text, [(one.name, dict(one.arguments)) for one in turn.calls]))
        results = tuple(ToolResult(call_id=one.id, text="OK") for one in turn.calls)
        told = (*told, turn, user(*(results or (Text(text="go on"),))))
    return found


_TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=40) | st.sampled_from(
    [
        "yes",
        "no",
        "1:30",
        "007",
        "0o17",
        "1e3",
        "~",
        "null",
        "<<",
        "=",
        " a\n  b \n",
        "a\n\nb\n",
        "|",
        "\t",
        "'\"",
        "\u2028",
        "\x85",
    ]
)
_VALUES = st.recursive(
    _TEXTS | st.integers(-(2**40), 2**40) | st.booleans() | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["k", "on", "1"]), inner, max_size=2),
    max_leaves=4,
)
_CALLS = st.lists(
    st.tuples(
        st.sampled_from(["bash", "edit_file", "yes"]),
        st.dictionaries(st.sampled_from(["path", "old", "new", "say", "y"]), _VALUES, max_size=3),
    ),
    max_size=2,
)


@settings(max_examples=150, deadline=None)
@given(turns=st.lists(st.tuples(_TEXTS, _CALLS), min_size=1, max_size=4))
def test_a_recorded_conversation_is_replayed_turn_by_turn(turns: list[tuple[str, list[tuple[str, Any]]]]) -> None:
    entries: list[Entry] = [started()]
    for text, calls in turns:
        made = [ToolCall(id=f"c{at}", name=name, arguments=given) for at, (name, given) in enumerate(calls)]
        entries.append(said(*([Text(text=text)] if text else []), *made))
    assert replayed(as_script(entries), len(turns)) == turns


def test_only_the_last_work_is_recorded_and_the_script_says_what_it_is() -> None:
    script = as_script(
        [
            started("plan"),
            said(call("commit_plan", plan="p")),
            started(),
            said(Opaque(wire="anthropic", model="m-1", block={}), Text(text="at it")),
            said(call("bash", command="make"), ToolCall(id="2", name="bash", malformed="{")),
            Answered(at=1.0, iteration=1, seconds=0.1, result=ToolResult(call_id="c0", text="secret output")),
            said(call("finish", summary="done")),
        ]
    )
    assert "commit_plan" not in script and "secret output" not in script
    head = script[: script.index("turns:")]
    assert "Recorded from m-1 (r.a.1), 3 turns" in head and "no model is asked" in head
    assert "1 malformed call(s) are left out" in head
    assert [turn.say for turn in read_script(script, "s").turns] == ["at it", "", ""]


def test_all_phases_that_changed_files_are_recorded_but_for_those_undone() -> None:
    """Only the last one finishes: a scripted model has one phase, which its first `finish` would end."""
    phases = [started().model_copy(update={"name": name}) for name in ("red", "green", "tidy")]
    script = as_script(
        [
            phases[0],
            said(call("write_file", path="test_a.py"), call("confirm_red_phase", 1, command="make test")),
            said(Text(text="red"), call("finish", summary="red")),
            phases[1],
            said(call("bash", command="make")),
            said(call("finish", summary="green")),
            phases[2],
            said(call("bash", command="rm -r src")),
            Undone(at=1.0, why="red"),
        ]
    )
    assert [[one.tool for one in turn.calls] for turn in read_script(script, "s").turns] == [
        ["write_file"],
        ["bash"],
        ["finish"],
    ]
    assert "rm -r src" not in script and "r.a.1), 3 turns" in script


def test_texts_of_several_lines_stay_readable() -> None:
    assert "new: |-\n      def f():\n          pass\n" in as_script(
        [started(), said(call("edit", new="def f():\n    pass"))]
    )


def test_of_nothing_a_script_is_made_that_says_nothing() -> None:
    assert yaml.safe_load(as_script([])) == {"turns": [{"say": ""}]}
