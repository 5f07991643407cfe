"""The tool that ends a review: its schema, and when it ends the review."""

import json
from collections.abc import Callable

import jsonschema
import pytest

from forgepool.workers.llm.messages import ToolCall
from forgepool.workers.tools.endings import Taken, verdict_tool
from forgepool.workers.tools.tool import Arguments, Finish, Tool, ToolAnswer, carry_out
from forgepool.workers.tools.workplace import Workplace


class Point(Arguments):
    file: str


class Form(Arguments):
    word: str
    points: tuple[Point, ...] = ()
    first: Point | None = None


def answer(take: Callable[[Form], Taken], place: Workplace, **arguments: object) -> ToolAnswer:
    call = ToolCall(id="1", name="verdict", arguments=json.loads(json.dumps(arguments)))
    return carry_out(call, [verdict_tool(Form, take)], place)


def tool() -> Tool:
    return verdict_tool(Form, lambda form: Taken())


def test_its_schema_is_whole_and_closed() -> None:
    """It has no references, and refuses unknown fields."""
    schema = dict(tool().offer.schema)
    assert "$ref" not in json.dumps(schema) and "$defs" not in schema
    jsonschema.validate({"word": "pass", "points": [{"file": "a"}], "first": {"file": "b"}}, schema)
    for wrong in ({"word": "pass", "points": [{"file": 1}]}, {"word": "pass", "more": 1}, {"points": []}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, schema)


def test_a_verdict_that_counts_ends_the_conversation(place: Workplace) -> None:
    seen: list[Form] = []

    def take(form: Form) -> Taken:
        seen.append(form)
        return Taken(summary="so")

    found = answer(take, place, word="pass", points=[{"file": "a"}])
    assert (found.is_error, found.ends) == (False, Finish(summary="so"))
    assert seen == [Form(word="pass", points=(Point(file="a"),))]


@pytest.mark.parametrize("goes_on", [True, False])
def test_one_that_does_not_says_why_and_ends_it_only_where_it_must(place: Workplace, goes_on: bool) -> None:
    found = answer(lambda form: Taken(void="nothing was read", goes_on=goes_on), place, word="pass")
    assert found.is_error and "nothing was read" in found.text
    assert (found.ends is None) is goes_on


def test_a_form_that_is_filled_in_wrongly_is_no_verdict(place: Workplace) -> None:
    found = answer(lambda form: Taken(), place, word=1, more="x")
    assert found.is_error and found.ends is None and "Its arguments are: word, points, first" in found.text


def test_it_is_no_matter_for_a_policy() -> None:
    assert tool().kind == "end"
