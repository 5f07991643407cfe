"""A view is a fold of a conversation: it is the same however the conversation was divided."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from led import CARD, Led, code, ran, read, wrote

from forgepool.workers.context.edits.state import ContextState, EditProposal, Moment
from forgepool.workers.context.shorten.new_results import Birth, bases
from forgepool.workers.context.transcript.edit import Edit, show_turns
from forgepool.workers.context.transcript.usage import USUAL, Gauge, lengths, turn_length
from forgepool.workers.context.view.view import ContextView
from forgepool.workers.llm.messages import Opaque, Part, Text, ToolCall, ToolResult, Turn, Usage, user

_TEXTS = st.text(max_size=30)
_TURNS = st.lists(
    st.tuples(
        # Ids repeat, as with vendors that number them within a turn.
        st.lists(st.sampled_from(["a", "b", "c"]), max_size=3, unique=True),
        _TEXTS,
        st.lists(_TEXTS, max_size=2),
        st.integers(0, 3),
    ),
    min_size=1,
    max_size=8,
)


@dataclass(frozen=True)
class Fixed:
    """A profile with a fixed proposal."""

    edit: Edit
    name: str = "fixed"

    def propose(self, state: ContextState, moment: Moment) -> EditProposal | None:
        return EditProposal(edit=self.edit, why="as given")


def view() -> ContextView:
    return ContextView(gauge=Gauge(window_tokens=1_000, fixed_characters=7))


def edits(turns: list[Turn]) -> st.SearchStrategy[Edit]:
    """Draw any edit over the steps that leaves a conversation to show."""
    steps = st.integers(1, sum(len(turn.calls) for turn in turns) + 1)
    places = [1, *(place for place, turn in enumerate(turns) if turn.role == "assistant")]
    heads = st.lists(st.builds(lambda text: user(Text(text=text)), _TEXTS), max_size=2).map(tuple)
    return st.builds(
        Edit,
        cut=st.sampled_from(places),
        head=heads,
        results=st.dictionaries(steps, _TEXTS, max_size=4),
        inputs=st.dictionaries(steps, st.just({}), max_size=2),
    )


@given(st.data(), _TURNS)
@settings(max_examples=60)
def test_what_is_shown_piece_by_piece_is_what_the_edit_says_of_the_whole(
    data: st.DataObject, rounds: list[Any]
) -> None:
    """The edit may come into force at any time, and a view built at once is the same."""
    first = view()
    first.say(user(Text(text=CARD)))
    for ids, said, heard, when in rounds:
        calls = tuple(ToolCall(id=id, name="bash", arguments={"command": said}) for id in ids)
        first.say(Turn(role="assistant", parts=(Text(text=said), *calls)))
        if when == 1:
            first.use(data.draw(edits(first.turns)))
        for call in calls:
            first.answer(ToolResult(call_id=call.id, text=said + call.id), "")
        for text in heard:
            first.say(user(Text(text=text)))
        if when == 2:
            first.use(data.draw(edits(first.turns)))
    assert list(first.shown) == show_turns(first.turns, first.edit)
    state = first.state()
    assert state.sizes == [turn_length(turn) for turn in first.turns]
    assert state.shown_sizes == [turn_length(turn) for turn in first.shown]
    assert first.characters == lengths(first.shown) == first.characters_with(first.edit)
    assert _refolded(first) == (first.turns, first.shown, [*first.deeds])


def _refolded(first: ContextView) -> tuple[object, ...]:
    again = view()
    for turn in first.turns:
        if turn.role == "assistant":
            again.say(turn)
            continue
        for part in turn.parts:
            if isinstance(part, ToolResult):
                again.answer(part)
            else:
                again.say(user(part))
    again.use(first.edit)
    return again.turns, again.shown, [*again.deeds]


def test_all_that_the_users_side_says_in_a_row_is_one_turn() -> None:
    led = Led()
    led.model(ran("ls", "a"), ran("pwd", "b"))
    led.hear("Go on.")
    assert [turn.role for turn in led.view.turns] == ["user", "assistant", "user"]
    assert [type(part) for part in led.view.turns[2].parts] == [ToolResult, ToolResult, Text]


def test_a_mask_is_a_steps_even_where_its_calls_id_came_before() -> None:
    """It also holds for a result that arrives after the edit."""
    one = view()
    one.say(user(Text(text=CARD)))
    for number in range(3):
        one.say(Turn(role="assistant", parts=(ToolCall(id="same", name="bash", arguments={"command": str(number)}),)))
        if number == 2:
            one.use(Edit(results={2: "masked", 3: "late"}, inputs={1: {}}))
        one.answer(ToolResult(call_id="same", text=f"result {number}"))
    texts = [result.text for turn in one.shown for result in turn.results]
    assert texts == ["result 0", "masked", "late"]
    assert [dict(call.arguments) for turn in one.shown for call in turn.calls] == [
        {},
        {"command": "1"},
        {"command": "2"},
    ]
    assert [deed.result.text for deed in one.deeds] == ["result 0", "result 1", "result 2"]


def test_a_mask_holds_for_a_result_that_comes_after_others_of_its_turn() -> None:
    one = view()
    one.say(user(Text(text=CARD)))
    one.say(Turn(role="assistant", parts=(ToolCall(id="a", name="bash"), ToolCall(id="b", name="bash"))))
    one.answer(ToolResult(call_id="a", text="first"))
    one.use(Edit(results={2: "masked"}))
    one.answer(ToolResult(call_id="b", text="second"))
    assert [result.text for turn in one.shown for result in turn.results] == ["first", "masked"]
    assert one.characters == lengths(one.shown)


def test_an_edit_counts_as_a_rebuild_and_nothing_else_does() -> None:
    led = Led()
    led.model(ran("ls", "a"))
    assert led.view.rebuilds == 0
    led.use(Edit(results={1: "x"}))
    assert led.view.rebuilds == led.view.state().rebuilds == 1


def test_what_lasts_of_the_first_say_is_counted_with_the_card() -> None:
    """It is counted in parts. None means all of it, if no head says how much lasts."""
    led = Led(card=(CARD, "plan", "texts"))
    led.model(ran("ls", "a"))
    led.model(ran("ls", "b"))
    assert led.view.lasting is None
    head = user(Text(text="one"), Text(text="two"), Text(text="files"))
    led.use(Edit(cut=3, head=(head,), lasting=2))
    assert led.view.lasting == 3 + 2
    led.use(Edit(cut=3, head=(head,), lasting=2, opening=1))
    assert led.view.lasting == 1 + 2
    led.use(Edit(cut=3, head=(head,)))
    assert led.view.lasting is None


def test_a_provider_that_counts_sets_the_gauge_by_what_it_was_shown() -> None:
    """System and tools count. The answer is no part of the request."""
    led = Led(card=("x" * 1_000,))
    led.view.gauge.fixed_characters = 500
    assert led.view.gauge.tokens(1_000) == 1_000 / USUAL
    led.model(ran("ls", "y" * 300), said="z" * 700, tokens=500)
    assert led.view.gauge.characters_per_token == {"m": 3.0}
    assert led.view.gauge.tokens(900) == 300


def test_a_gauge_is_each_models_own() -> None:
    """The model that counted last is the next one asked, and a newer count weighs half."""
    gauge = Gauge(window_tokens=100, fixed_characters=0)
    gauge.count("one", 400, 100)
    gauge.count("two", 200, 100)
    assert (gauge.characters_per_token, gauge.tokens(400)) == ({"one": 4.0, "two": 2.0}, 200)
    gauge.count("one", 200, 100)
    assert (gauge.characters_per_token["one"], gauge.tokens(300)) == (3.0, 100)
    assert gauge.share(150) == 0.5
    gauge.fixed_characters = 150
    assert gauge.share(150) == 1.0


@pytest.mark.parametrize(("characters", "tokens"), [(400, 0), (0, 10), (400, -1), (10_000, 10), (10, 10_000)])
def test_an_absurd_count_is_left_out(characters: int, tokens: int) -> None:
    """Some proxies count nothing, or only uncached tokens."""
    gauge = Gauge(window_tokens=100, fixed_characters=0)
    gauge.count("m", 300, 100)
    gauge.count("m", characters, tokens)
    gauge.count("new", characters, tokens)
    assert gauge.characters_per_token == {"m": 3.0}
    assert gauge.tokens(300) == 100


def test_every_part_that_is_sent_has_a_length() -> None:
    sealed: Part = Opaque(wire="anthropic", model="m", block={"type": "thinking"})
    call = ToolCall(id="1", name="bash", arguments={"command": "ls -la", "timeout_s": 30})
    assert lengths([user(Text(text="abc"), ToolResult(call_id="1", text="de")), user(sealed)]) == 5 + len(
        "{'type': 'thinking'}"
    )
    assert turn_length(Turn(role="assistant", parts=(call,))) == len("bashcommandls -latimeout_s30")


def births() -> Led:
    """Return a conversation whose third result refers to the first, and whose fourth does not."""
    led = Led(birth=Birth())
    text = code("load")
    for done in (read("a.py", text), wrote("b.py", "x"), read("a.py", text), ran("ls", "c")):
        led.model(done)
    assert bases(led.deed(3)) == {1}
    return led


def test_a_kept_result_is_told_whole_where_what_it_refers_to_is_cut() -> None:
    led = births()
    led.profile = Fixed(Edit(cut=led.deed(2).turn))
    led.ask()
    assert [result.text for turn in led.view.shown for result in turn.results][1] == code("load")
    assert led.view.edit.results == {3: code("load")}


def test_a_kept_result_is_told_whole_where_what_it_refers_to_is_masked() -> None:
    led = births()
    led.profile = Fixed(Edit(results={1: "masked", 2: "masked"}))
    led.ask()
    assert led.view.edit.results == {1: "masked", 2: "masked", 3: code("load")}


@pytest.mark.parametrize(
    "edit",
    [
        lambda led: Edit(results={2: "masked"}),
        lambda led: Edit(results={3: "masked", 1: "masked"}),
        lambda led: Edit(results={1: led.deed(1).whole}),
        lambda led: Edit(cut=led.deed(4).turn),
    ],
)
def test_nothing_is_told_whole_without_need(edit: Callable[[Led], Edit]) -> None:
    """The result it refers to is still shown in full, or it is not shown itself."""
    led = births()
    led.profile = Fixed(edit(led))
    led.ask()
    assert led.view.edit == edit(led)


def test_what_is_told_whole_stays_so_when_the_model_has_still_not_answered() -> None:
    """A second rebuild at once, as after an overflow, carries the texts of the first, which hide nothing."""
    led = births()
    led.model(read("b.py", "x"), read("a.py", code("load")))
    assert bases(led.deed(6)) == {1}
    led.profile = Fixed(Edit(results={1: "masked"}))
    led.ask()
    led.profile = Fixed(led.view.edit.model_copy(update={"results": {**led.view.edit.results, 2: "masked"}}))
    led.ask("overflow")
    assert led.view.edit.results[6] == code("load")
    assert led.view.edit.results[2] == "masked"


def test_what_cannot_be_shown_is_told_and_changes_nothing() -> None:
    led = Led()
    led.model(ran("ls", "a"))
    moment = Moment(cause="call")
    said = led.view.propose(Fixed(Edit(cut=2)), moment)
    assert said == "fixed proposed what cannot be shown: it would cut away the model's last turn, or the task"
    assert led.view.rebuilds == 0
    unseen = led.view.propose(Fixed(Edit(results={1: "not a"})), moment)
    assert isinstance(unseen, str)


def test_of_nothing_nothing_is_proposed() -> None:
    assert view().propose(Fixed(Edit()), Moment(cause="call")) is None


def test_a_provider_that_tells_no_usage_leaves_the_gauge_alone() -> None:
    led = Led()
    led.view.say(Turn(role="assistant", parts=(Text(text="hm"),), model="m", usage=Usage()))
    assert led.view.gauge.characters_per_token == {}
