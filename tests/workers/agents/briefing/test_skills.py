"""Roles: built-in ones, a repository's own, mistakes in one, and the tools that a role takes away."""

from pathlib import Path

import pytest
from premade import repository

from forgepool.workers.agents.briefing.system_prompt import (
    Skill,
    builtin_skill,
    builtin_skills,
    find_skill,
    narrow_tools,
    parse_skill,
    system_blocks,
)
from forgepool.workers.schema.mistakes import DocumentWrong
from forgepool.workers.tools.commands.run import BASH
from forgepool.workers.tools.endings import ASK
from forgepool.workers.tools.files.edit import EDIT_FILE
from forgepool.workers.tools.files.text_file import READ_FILE, WRITE_FILE
from forgepool.workers.tools.tool import Arguments, Tool, ToolAnswer, make_typed_tool

ABROAD = make_typed_tool(
    "docs__fetch", "of another program", Arguments, lambda given, place: ToolAnswer(text=""), kind="read"
)
CONFIRM = make_typed_tool(
    "confirm_red_phase", "runs a test", Arguments, lambda given, place: ToolAnswer(text=""), kind="run"
)
ALL: tuple[Tool, ...] = (READ_FILE, ABROAD, WRITE_FILE, EDIT_FILE, BASH, CONFIRM, ASK)

OWN = """---
name: house
description: Ours.
context-mode: injected
allowed-tools: write_file
model: small
---
Do it our way.
"""


def test_every_built_in_role_is_there_and_right() -> None:
    """Each role and each lens of reviewers parses under its own name and has a text."""
    lenses = ("review-performance", "review-security", "review-tests")
    expected = ("documenter", "implementer", "lead", "planner", *lenses, "reviewer", "security", "tester")
    assert builtin_skills() == expected
    assert all(len(builtin_skill(name).text) > 400 and builtin_skill(name).description for name in expected)


def test_the_reviewer_looks_for_itself_and_edits_nothing() -> None:
    """It is always autonomous, and may write only the file for its findings."""
    skill = builtin_skill("reviewer")
    assert skill.context_mode == "autonomous"
    assert narrow_tools(ALL, skill, "execute") == (READ_FILE, WRITE_FILE, BASH, CONFIRM, ASK)


def test_a_repository_has_skills_of_its_own(tmp_path: Path) -> None:
    """They are read from the base commit and replace a built-in role of the same name."""
    tester = OWN.replace("house", "tester")
    files = {".forgepool/skills/house.md": OWN, ".forgepool/skills/tester.md": tester, "a.py": ""}
    git, base = repository(tmp_path / "r", files, {".forgepool/skills/house.md": OWN.replace("injected", "hybrid")})
    skill = find_skill("house", git, base)
    assert (skill.context_mode, skill.allowed_tools, skill.model, skill.text) == (
        "hybrid",
        ("write_file",),
        "small",
        "Do it our way.",
    )
    first = git.text("rev-parse", f"{base}^")
    assert find_skill("house", git, type(base)(first)).context_mode == "injected"
    assert find_skill("tester", git, base).text == "Do it our way."
    assert find_skill("planner", git, base) == builtin_skill("planner")


def test_an_unknown_skill_is_told_with_the_nearest_names(tmp_path: Path) -> None:
    git, base = repository(tmp_path / "r", {".forgepool/skills/testing.md": OWN.replace("house", "testing")})
    with pytest.raises(DocumentWrong) as wrong:
        find_skill("testr", git, base)
    said = (
        "skill 'testr': it is neither built in nor in .forgepool/skills/ at the base; did you mean tester or testing?"
    )
    assert str(wrong.value) == said
    with pytest.raises(DocumentWrong, match="skills are: documenter, implementer, lead, planner"):
        find_skill("zzzz", git, base)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("hello", "s.md:1: does not begin with frontmatter; put it between two lines of ---"),
        ("---\nname: s\n", "s.md:1: does not begin with frontmatter; put it between two lines of ---"),
        ("---\nname: s\n---\nx", "s.md:2: the file lacks the key 'description'"),
        ("---\nname: t\ndescription: d\n---\nx", "s.md:2: 'name' must be 's', as the file is called, is 't'"),
        (
            "---\nname: s\ndescription: d\n---\n\n",
            "s.md:4: has no text after the frontmatter; say what the role is to do",
        ),
        (
            "---\nname: s\ndescription: d\nallowed-tool: x\n---\nx",
            "s.md:4: the file has an unknown key 'allowed-tool'; did you mean 'allowed-tools'?",
        ),
        (
            "---\nname: s\ndescription: d\n\nallowed-tools: read_file, grepp\n---\nx",
            "s.md:5: 'allowed-tools' names the tool 'grepp', which there is not; did you mean grep?",
        ),
        (
            "---\nname: s\ndescription: d\ncontext-mode: sometimes\n---\nx",
            "s.md:4: 'context-mode' must be 'autonomous', 'injected' or 'hybrid', is 'sometimes'",
        ),
        ("---\n\tname: s\n---\nx", "s.md:2: a tab is used to indent; indent with spaces"),
    ],
)
def test_wrong_frontmatter_is_told_with_its_line(text: str, sentence: str) -> None:
    """The line number is the file's, counting the dashes."""
    with pytest.raises(DocumentWrong) as wrong:
        parse_skill(text, "s.md", "s")
    assert str(wrong.value) == sentence


def test_a_repositorys_skill_that_is_no_text_is_told_so(tmp_path: Path) -> None:
    files = {".forgepool/skills/a.md": OWN.encode() + b"\xff", ".forgepool/skills/b.md": "x" * 70_000}
    git, base = repository(tmp_path / "r", files)
    with pytest.raises(DocumentWrong, match=r"\.forgepool/skills/a\.md:9: is not UTF-8 text"):
        find_skill("a", git, base)
    with pytest.raises(DocumentWrong, match="is larger than 65,536 bytes"):
        find_skill("b", git, base)


def skill(**changes: object) -> Skill:
    plain = builtin_skill("implementer")
    return Skill(
        **{  # type: ignore[arg-type]  # the fields are those of Skill
            "name": plain.name,
            "description": plain.description,
            "context_mode": "autonomous",
            "allowed_tools": None,
            "model": None,
            "text": "be so",
        }
        | changes
    )


@pytest.mark.parametrize(
    ("mode", "phase", "left"),
    [
        ("autonomous", "plan", ALL),
        ("autonomous", "execute", ALL),
        ("injected", "plan", (CONFIRM, ASK)),
        ("injected", "execute", (WRITE_FILE, EDIT_FILE, CONFIRM, ASK)),
        ("hybrid", "plan", (READ_FILE, CONFIRM, ASK)),
        ("hybrid", "execute", ALL),
    ],
)
def test_a_context_mode_leaves_its_tools(mode: str, phase: str, left: tuple[Tool, ...]) -> None:
    """Tools that end a conversation, and tools that the task demands, always stay."""
    assert narrow_tools(ALL, skill(context_mode=mode), phase) == left  # type: ignore[arg-type]  # a Literal of the table


def test_allowed_tools_narrow_and_never_widen() -> None:
    mine = skill(allowed_tools=("write_file", "bash"))
    assert narrow_tools(ALL, mine, "execute") == (WRITE_FILE, BASH, CONFIRM, ASK)
    assert narrow_tools((READ_FILE, ASK), mine, "plan") == (ASK,)
    assert narrow_tools(ALL, None, "plan") == ALL


def test_the_invariant_block_is_first_and_the_same_for_all() -> None:
    """A provider can cache it across tasks, phases and skills. The skill's text comes last."""
    shown = [
        system_blocks(phase, red_first=red_first, skill=role)
        for phase in ("plan", "execute")
        for red_first in (False, True)
        for role in (None, skill())
    ]
    assert len({blocks[0] for blocks in shown}) == 1
    assert len({blocks[1] for blocks in shown}) == 4
    assert [len(blocks) for blocks in shown] == [2, 3] * 4
    assert all(blocks[-1] == "be so" for blocks in shown[1::2])
    assert "confirm_red_phase" in shown[2][1] and "confirm_red_phase" not in shown[0][1]
    assert "commit_plan" in shown[0][1] and "finish" in shown[4][1]
