"""The tools of a lead: the forms that they refuse, and the requests by which its conversation rests."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic import JsonValue

from forgepool.workers.agents.lead.rules import LeadStanding
from forgepool.workers.agents.lead.tools import guard, lead_tools
from forgepool.workers.llm.messages import ToolCall
from forgepool.workers.schema.confinement import OPEN
from forgepool.workers.schema.reports import DispatchedTask, LeadNote, LeadRequest, Report
from forgepool.workers.tools.endings import ASK
from forgepool.workers.tools.tool import Parked, Reported, ToolAnswer, carry_out
from forgepool.workers.tools.workplace import Workplace
from forgepool.worktrees.git.git import Git

Use = Callable[..., ToolAnswer]
FRAMED = LeadStanding(notes=[LeadNote(kind="frame", at=0.0, parts={})], asked=2)
LOADED = LeadStanding(unweighed=["t1", "t2"])
TASK: dict[str, JsonValue] = {
    "id": "t1",
    "objective": "The parser reads dates with a time zone.",
    "notes": "The old one drops the zone without a word; keep its name.",
}
FRAME: dict[str, JsonValue] = {
    "questions": ["which parser?", "which zones?"],
    "dependencies": [],
    "known": ["dates.py parses"],
    "expected": ["t1: zones are kept"],
    "would_change_the_plan": ["zones are kept already"],
}


@pytest.fixture
def use(tmp_path: Path) -> Use:
    place = Workplace(
        root=tmp_path,
        git=Git(git_dir=tmp_path / ".git", work_tree=tmp_path),
        tmp=tmp_path,
        env={"PATH": os.environ["PATH"]},
        confined=OPEN,
        stop=lambda: False,
        left_s=lambda: 20.0,
    )

    def call(tool: str, standing: LeadStanding = FRAMED, **arguments: JsonValue) -> ToolAnswer:
        def find_wrong(task: DispatchedTask) -> list[str]:
            return [] if task.skill in (None, "tester") else [f"no skill '{task.skill}'"]

        tools = lead_tools(lambda: standing, find_wrong)
        every = (*tools, guard(ASK, lambda: standing))
        return carry_out(ToolCall(id="1", name=tool, arguments=arguments), every, place)

    return call


def test_dispatch_rests_with_the_next_number(use: Use) -> None:
    answer = use("dispatch", tasks=[{**TASK, "files": ["dates.py"], "skill": "tester"}])
    task = DispatchedTask.model_validate({**TASK, "files": ("dates.py",), "skill": "tester"})
    assert answer.ends == Parked(request=LeadRequest(number=3, do="dispatch", tasks=(task,)))


@pytest.mark.parametrize("key", ["objective", "notes"])
def test_a_task_without_forty_characters_of_objective_and_notes_is_refused(use: Use, key: str) -> None:
    answer = use("dispatch", tasks=[{**TASK, key: "fix it"}])
    assert (answer.is_error, answer.ends) == (True, None)
    assert f"'{key}' of task '{TASK['id']}' must have at least 40 characters, has 6" in answer.text


def test_a_task_with_an_unknown_skill_is_refused(use: Use) -> None:
    assert use("dispatch", tasks=[{**TASK, "skill": "wizard"}]).text == "not run: no skill 'wizard'"


@pytest.mark.parametrize("number", [1, 5])
def test_a_frame_has_two_to_four_questions(use: Use, number: int) -> None:
    assert use("frame", **FRAME).text == "OK: kept in sight"
    assert use("frame", **{**FRAME, "questions": ["what?"] * number}).is_error


def test_collect_read_and_cancel_rest_with_what_they_want(use: Use) -> None:
    wanted = {
        ("collect", "what", "all"): LeadRequest(number=3, do="collect", what="all"),
        ("read_result", "id", "t1"): LeadRequest(number=3, do="read", what="t1"),
    }
    for (tool, key, value), request in wanted.items():
        assert use(tool, **{key: value}).ends == Parked(request=request)
    full = use("read_result", id="t1", depth="full").ends
    assert full == Parked(request=LeadRequest(number=3, do="read", what="t1", full=True))
    cancelled = use("cancel", ids=["t1"], why="it has become needless").ends
    assert cancelled == Parked(request=LeadRequest(number=3, do="cancel", ids=("t1",), why="it has become needless"))


def test_every_tool_that_may_not_be_called_now_is_refused_with_what_comes_first(use: Use) -> None:
    first = "not run: 2 results are collected (t1, t2); call `checkpoint` first"
    for tool in ("frame", "dispatch", "collect", "cancel", "brief", "synthesize", "answer", "ask"):
        answer = use(tool, LOADED)
        assert (answer.text, answer.is_error, answer.ends) == (first, True, None)
    weighed = use("checkpoint", LOADED, changed=["both hold"], in_tension=[], open=[])
    assert (weighed.text, weighed.ends) == ("OK: kept in sight", None)
    assert use("read_result", LOADED, id="t1").ends is not None


def test_an_answer_ends_the_work_with_its_text(use: Use) -> None:
    report = Report(summary="it is in dates.py", output="it is in dates.py")
    assert use("answer", text="it is in dates.py").ends == Reported(report=report)
