from collections.abc import Callable

import pytest
from pydantic import JsonValue

from forgepool.workers.llm.messages import ToolCall
from forgepool.workers.tools.endings import ASK, GRANTED, Permission, commit_plan_tool, finish_tool
from forgepool.workers.tools.tool import Finish, PersonAsked, Planned, Queued, Tool, ToolAnswer, carry_out
from forgepool.workers.tools.workplace import Workplace

Use = Callable[..., ToolAnswer]


@pytest.fixture
def end(place: Workplace) -> Use:
    def call(tool: Tool, **arguments: JsonValue) -> ToolAnswer:
        return carry_out(ToolCall(id="1", name=tool.name, arguments=arguments), (tool,), place)

    return call


def test_finish_carries_the_claim(end: Use) -> None:
    """The claim is the model's own summary."""
    answer = end(finish_tool(lambda: None), summary="all done")
    assert (answer.ends, answer.is_error) == (Finish(summary="all done"), False)


def test_finish_is_refused_while_the_work_is_not_finished(end: Use) -> None:
    """The harness looks itself. The conversation continues with the reason, and later the model may finish."""
    reasons: list[str | None] = ["nothing was changed", None]
    tool = finish_tool(lambda: reasons.pop(0))
    refused = end(tool, summary="all done")
    assert (refused.text, refused.is_error, refused.ends) == ("not finished: nothing was changed", True, None)
    assert end(tool, summary="all done").ends == Finish(summary="all done")


def test_a_plan_names_each_of_its_files_once(end: Use) -> None:
    """Paths are normalised to the worktree's form."""
    asked: list[tuple[str, ...]] = []

    def may_touch(paths: tuple[str, ...]) -> Permission:
        asked.append(paths)
        return GRANTED

    answer = end(commit_plan_tool(may_touch), plan="do it", files_to_modify=["src/../a.py", "./a.py", "b.py"])
    assert answer.ends == Planned(plan="do it", files=("a.py", "b.py"))
    assert asked == [("a.py", "b.py")]


def test_a_plan_beyond_what_the_task_may_touch_is_not_committed(end: Use) -> None:
    tool = commit_plan_tool(lambda paths: Permission(verdict="refused", why=f"{paths[0]} belongs to task 'other'"))
    answer = end(tool, plan="do it", files_to_modify=["a.py"])
    assert answer.text == "the plan is not committed: a.py belongs to task 'other'"
    assert (answer.is_error, answer.ends) == (True, None)


def test_a_plan_that_has_to_wait_ends_the_conversation(end: Use) -> None:
    """The task begins again later, and holds no slot until then."""
    tool = commit_plan_tool(lambda paths: Permission(verdict="queued", why="task 'other' holds a.py"))
    assert end(tool, plan="do it", files_to_modify=["a.py"]).ends == Queued(why="task 'other' holds a.py")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"plan": "x", "files_to_modify": ["../x"]}, "../x: lies outside the worktree"),
        ({"plan": "x", "files_to_modify": [".git/config"]}, "is git's own"),
        ({"plan": "x"}, "the call lacks the key 'files_to_modify'"),
        ({"plan": "", "files_to_modify": ["a"]}, "'plan' must not be empty"),
    ],
)
def test_a_plan_that_makes_no_sense_is_told_so(end: Use, arguments: dict[str, JsonValue], told: str) -> None:
    """Impossible paths are not asked for."""

    def may_touch(paths: tuple[str, ...]) -> Permission:
        raise AssertionError(paths)

    answer = end(commit_plan_tool(may_touch), **arguments)
    assert answer.is_error
    assert answer.ends is None
    assert told in answer.text


def test_a_question_rests_the_work(end: Use) -> None:
    """The question is in the model's own words, and an empty one is refused."""
    assert end(ASK, question="Which shelf?").ends == PersonAsked(question="Which shelf?")
    assert end(ASK, question="").is_error


def test_who_could_look_nothing_up_says_what_was_missing(end: Use) -> None:
    """The field is required, and the summary and the plan show it."""
    finish = finish_tool(lambda: None, injected=True)
    answer = end(finish, summary="all done", missing=["the schema of orders"])
    assert isinstance(answer.ends, Finish)
    assert answer.ends.summary.endswith("Missing from what the agent was given, as it says:\n- the schema of orders")
    silent = end(finish, summary="all done")
    assert silent.is_error and silent.ends is None and "missing" in silent.text
    plan = commit_plan_tool(lambda paths: GRANTED, injected=True)
    planned = end(plan, plan="do it", files_to_modify=[], missing=[]).ends
    assert isinstance(planned, Planned)
    assert planned.plan == "do it\n\nMissing from what the agent was given, as it says: nothing"
    assert "missing" not in str(finish_tool(lambda: None).offer.schema)
