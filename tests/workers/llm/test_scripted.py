import pytest

from forgepool.workers.llm.messages import Text, ToolResult, Turn, user
from forgepool.workers.llm.provider import ModelFailed, ModelRequest
from forgepool.workers.llm.scripted import ScriptedModel, scripts_in

CARD = user(Text(text="# Task rename: call it new\nattempt 1 came back: tests are red"))


def ask(model: ScriptedModel, *turns: Turn) -> Turn:
    return model.ask(ModelRequest(system=(), tools=(), turns=turns), stop=lambda: False)


def results(*texts: str, is_error: bool = False) -> Turn:
    return user(*(ToolResult(call_id="x", text=text, is_error=is_error) for text in texts))


def test_turns_come_in_their_order() -> None:
    """Text and calls are as written, marked as scripted, and each call has its own id."""
    model = ScriptedModel(
        "turns:\n"
        "  - say: reading\n"
        "    calls: [{tool: read_file, path: a.py, start: 3}, {tool: glob}]\n"
        "  - calls: [{tool: finish, summary: done}]\n",
        attempt=1,
    )
    first = ask(model, CARD)
    assert (first.model, first.text, first.stop) == ("scripted", "reading", "calls")
    assert [(call.name, dict(call.arguments)) for call in first.calls] == [
        ("read_file", {"path": "a.py", "start": 3}),
        ("glob", {}),
    ]
    assert len({call.id for call in first.calls}) == 2
    second = ask(model, CARD, first, results("1\tx", "a.py"))
    assert second.calls[0].name == "finish"


def test_another_process_can_go_on_with_a_conversation() -> None:
    """The place in the script follows from the conversation; the model remembers nothing."""
    script = "turns: [{say: one}, {say: two}]"
    first = ask(ScriptedModel(script, attempt=1), CARD)
    assert ask(ScriptedModel(script, attempt=1), CARD, first, CARD).text == "two"


@pytest.mark.parametrize(
    ("when", "shown", "taken"),
    [
        ("last_result_contains: old", results("no", "def old():"), "yes"),
        ("last_result_contains: old", results("def new():"), "no"),
        ("last_result_is_error: true", results("boom", is_error=True), "yes"),
        ("last_result_is_error: true", results("fine"), "no"),
        ("last_result_is_error: false", results("fine"), "yes"),
        ("shown_contains: tests are red", results("fine"), "yes"),
        ("shown_contains: never said", results("fine"), "no"),
        ("last_result_contains: fine, last_result_is_error: true", results("fine"), "no"),
    ],
)
def test_a_turn_is_taken_when_all_its_conditions_hold(when: str, shown: Turn, taken: str) -> None:
    """Conditions are about what the model is shown. A turn whose condition fails is skipped."""
    model = ScriptedModel(f"turns: [{{say: start}}, {{when: {{{when}}}, say: 'yes'}}, {{say: 'no'}}]", attempt=1)
    first = ask(model, CARD)
    assert ask(model, CARD, first, shown).text == taken


def test_what_was_passed_over_does_not_come_back() -> None:
    """The script is read once, from top to bottom."""
    model = ScriptedModel(
        "turns:\n"
        "  - {when: {last_result_contains: a}, say: a}\n"
        "  - {say: b}\n"
        "  - {when: {last_result_contains: a}, say: c}\n",
        attempt=1,
    )
    first = ask(model, CARD)
    assert first.text == "b"
    assert ask(model, CARD, first, results("a")).text == "c"


def test_a_turn_for_one_attempt_is_not_taken_in_another() -> None:
    """A script may do better at the second attempt."""
    script = "turns: [{attempt: 1, say: badly}, {attempt: 2, say: better}]"
    assert ask(ScriptedModel(script, attempt=1), CARD).text == "badly"
    assert ask(ScriptedModel(script, attempt=2), CARD).text == "better"


def test_a_script_without_a_fitting_turn_says_what_was_shown() -> None:
    """The end of the script and a script without a fitting turn are failures."""
    model = ScriptedModel("turns: [{when: {shown_contains: x86}, say: a}]", attempt=1)
    with pytest.raises(ModelFailed, match="no turn for what it was shown, which begins: # Task rename"):
        ask(model, CARD)


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("turns: []", "must not be empty"),
        ("turns: [{sya: hello}]", "unknown key 'sya'; did you mean 'say'"),
        ("turns: [{calls: [{path: x}]}]", "lacks the key 'tool'"),
        ("turns:\n  - when: {contains: x}", "script.yaml:2: .*unknown key 'contains'"),
        ("turns: [", "script.yaml:.: is not YAML"),
    ],
)
def test_a_wrong_script_is_told_with_its_line(script: str, why: str) -> None:
    """The mistake is found before anything is done."""
    with pytest.raises(ModelFailed, match=why):
        ScriptedModel(script, attempt=1, name="script.yaml")


def test_a_pause_ends_when_it_is_stopped() -> None:
    model = ScriptedModel("turns: [{say: slowly, pause_s: 3600}]", attempt=1)
    asked: list[int] = []

    def stop() -> bool:
        asked.append(1)
        return len(asked) > 2

    assert model.ask(ModelRequest(system=(), tools=(), turns=(CARD,)), stop=stop).text == "slowly"


def test_a_script_may_play_a_family_and_is_said_to_be_scripted_all_the_same() -> None:
    played = ScriptedModel("family: critic\nturns: [{say: hm}]", attempt=1)
    assert (played.family, ask(played, CARD).model) == ("critic", "scripted")
    assert ScriptedModel("turns: [{say: hm}]", attempt=1).family == "scripted"


def test_several_scripts_are_one_after_a_line_of_dashes_each() -> None:
    """A line of dashes inside a text belongs to the text. Line numbers in messages count the whole file."""
    text = (
        "---\nfamily: one\nturns: [{say: x}]\n"
        "--- # the second\nfamily: two\nturns:\n  - say: |\n      a\n      ---\n      b\n---\n"
    )
    first, second = (ScriptedModel(script, attempt=1) for script in scripts_in(text))
    assert (first.family, second.family) == ("one", "two")
    assert ask(second, CARD).text == "a\n---\nb\n"
    assert scripts_in("family: one\nturns: []\n") == ("family: one\nturns: []\n",)
    with pytest.raises(ModelFailed, match=r"s:5"):
        ScriptedModel(scripts_in("turns: [{say: x}]\n\n---\nfamily: two\nturn: []\n")[1], attempt=1, name="s")
