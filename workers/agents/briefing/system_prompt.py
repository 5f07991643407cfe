"""
The system prompt of a phase: what all tasks share, the phase's own text, and the text of the task's skill.

`prompts/invariant.md` comes first, with the same bytes for every task, phase and repository, so that a provider's cache
of it holds across all of them. Nothing about a task or a repository is in here: that is the task card's
(`task_card.py`), which a model may trust less.

A skill is a role that an agent is given: markdown with YAML frontmatter, built in (`skills/`) or the repository's own
in `.forgepool/skills/` (`own_files.py`). A skill of the repository replaces a built-in one of the same name.

Why may a skill only narrow? What a phase allows is the harness' rule, and a file in a repository is not the harness.
Why not several skills at once? They would contradict each other, and a reader could not tell which one was followed.
"""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from forgepool.workers.agents.briefing.own_files import own_names, own_text, unknown_name
from forgepool.workers.schema.documents import read, validate
from forgepool.workers.schema.mistakes import DocumentWrong, Mistake, Slug, nearest, show_value
from forgepool.workers.schema.orders import PhaseName
from forgepool.workers.tools.tool import Tool
from forgepool.worktrees.git.git import CommitId, Git

ContextMode = Literal["autonomous", "injected", "hybrid"]
"""
How an agent learns about the repository. `autonomous`: it looks for itself. `injected`: it is given everything and can
look nothing up, so that gaps show in the result. `hybrid`: it is given a beginning and reads the repository's files.
"""

TOOL_NAMES = frozenset(
    {
        *("read_file", "glob", "grep", "fetch", "find_symbol", "find_references", "diagnostics"),
        *("write_file", "edit_file", "apply_patch", "rename_symbol"),
        *("bash", "bash_background", "check_background", "stop_background"),
        *("commit_plan", "report", "confirm_red_phase", "finish", "ask"),
    }
)


def _listed(value: object) -> object:
    """Split `read_file, grep` into its names."""
    if not isinstance(value, str):
        raise ValueError(f"must be names with commas between them such as read_file, grep, is {show_value(value)}")
    return tuple(name for name in (part.strip() for part in value.split(",")) if name)


def check_tools(names: tuple[str, ...]) -> tuple[str, ...]:
    """Refuse unknown tools. Those of MCP servers (`server__tool`) are only known later, and pass."""
    for name in names:
        if name not in TOOL_NAMES and "__" not in name:
            meant = nearest(name, TOOL_NAMES)
            more = f"did you mean {meant[0]}?" if meant else f"tools are: {', '.join(sorted(TOOL_NAMES))}"
            raise ValueError(f"names the tool {show_value(name)}, which there is not; {more}")
    return names


class Frontmatter(BaseModel):
    """The YAML between a skill file's two lines of dashes."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Slug
    description: str = Field(min_length=1)
    context_mode: ContextMode = Field(default="autonomous", alias="context-mode")
    allowed_tools: Annotated[tuple[str, ...], BeforeValidator(_listed), AfterValidator(check_tools)] | None = Field(
        default=None, alias="allowed-tools"
    )
    model: str | None = Field(default=None, min_length=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Skill:
    name: str
    description: str
    """One sentence, for people who choose."""
    context_mode: ContextMode
    allowed_tools: tuple[str, ...] | None
    """None leaves a phase all of its tools."""
    model: str | None
    """A model of the worker's model table; None leaves the choice to the task."""
    text: str


def parse_skill(text: str, file: str, name: str) -> Skill:
    """
    Parse the text of a skill file called `<name>.md`.

    Raises:
        DocumentWrong: the file is no skill; the sentence has its file and line.
    """
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n")
    end = lines.index("---", 1) if "---" in lines[1:] else 0
    if lines[0] != "---" or not end:
        raise DocumentWrong(file, [Mistake(1, "does not begin with frontmatter; put it between two lines of ---")])
    # An empty line in place of the dashes: the lines of mistakes are then those of the file.
    document = read("\n".join(["", *lines[1:end]]), file)
    head = validate(document, Frontmatter)
    if head.name != name:
        wrong = f"'name' must be {show_value(name)}, as the file is called, is {show_value(head.name)}"
        raise DocumentWrong(file, [Mistake(document.line(["name"]), wrong)])
    body = "\n".join(lines[end + 1 :]).strip()
    if not body:
        raise DocumentWrong(file, [Mistake(end + 1, "has no text after the frontmatter; say what the role is to do")])
    return Skill(**dict(head), text=body)


FOLDER = ".forgepool/skills"


def find_skill(name: str, git: Git, base: CommitId) -> Skill:
    """
    Return the repository's skill of that name at `base`, else the built-in one.

    Raises:
        DocumentWrong: the skill does not exist, or its file is wrong.
        GitFailed: the repository cannot be read.
    """
    own = repository_skills(git, base)
    if name in own:
        file = f"{FOLDER}/{name}.md"
        return parse_skill(own_text(git, base, file), file, name)
    if name in builtin_skills():
        return builtin_skill(name)
    raise unknown_name("skill", name, FOLDER, (*own, *builtin_skills()))


@cache
def builtin_skills() -> tuple[str, ...]:
    """Return the sorted names of the built-in skills."""
    files = resources.files("forgepool.workers.agents.briefing").joinpath("skills").iterdir()
    return tuple(sorted(file.name.removesuffix(".md") for file in files if file.name.endswith(".md")))


@cache
def builtin_skill(name: str) -> Skill:
    return parse_skill(_read("skills", name), f"{name}.md", name)


def repository_skills(git: Git, base: CommitId) -> tuple[str, ...]:
    """Return the sorted names of the repository's own skills, valid or not."""
    return own_names(git, base, FOLDER, ".md")


_HARNESS = {"confirm_red_phase"}
"""Tools that the task asks for, not the role."""


def narrow_tools(
    tools: Sequence[Tool], skill: Skill | None, phase: PhaseName, only: Collection[str] | None = None
) -> tuple[Tool, ...]:
    """
    Return the phase's tools, in their order, that the skill's context mode and `allowed-tools` permit, and of these
    `only` those that a workflow names.

    Tools that end the conversation always stay. `injected` leaves the writing tools in EXECUTE and none in PLAN.
    `hybrid` leaves PLAN the built-in reading tools, and EXECUTE all of its tools.
    """
    return tuple(
        tool
        for tool in tools
        if tool.kind == "end"
        or tool.name in _HARNESS
        or ((only is None or tool.name in only) and (skill is None or _fits(tool, skill, phase)))
    )


def _fits(tool: Tool, skill: Skill, phase: PhaseName) -> bool:
    if skill.allowed_tools is not None and tool.name not in skill.allowed_tools:
        return False
    match skill.context_mode:
        case "autonomous":
            return True
        case "injected":
            return phase == "execute" and tool.kind == "write"
        case "hybrid":
            return phase == "execute" or (tool.kind == "read" and "__" not in tool.name)


PromptForm = Literal["answer", "lead", "report", "failing_test", "change"]
"""
The texts that stand in place of a phase's. `answer` and `lead` are for a task that ends with a report, `report` is for
one that another phase follows. `change` is EXECUTE with no plan before it.
"""


def system_blocks(
    phase: PhaseName | PromptForm, *, red_first: bool = False, skill: Skill | None = None, instructions: str = ""
) -> tuple[str, ...]:
    """
    Return the prompt's blocks: what all tasks share, the phase's with its workflow's instructions, the skill's.

    The same arguments give the same bytes, and the first block is the same for any arguments.
    """
    own = (prompt(phase), prompt("red_first") if red_first else "", instructions)
    return (prompt("invariant"), "\n\n".join(filter(None, own)), *((skill.text,) if skill is not None else ()))


@cache
def prompt(name: str) -> str:
    """Return the text of `prompts/<name>.md`; that of `change` is EXECUTE's without its words on a plan."""
    if name != "change":
        return _read("prompts", name).strip()
    text = prompt("execute").replace("Carry out the plan,", "Do what this phase asks,")
    text = text.replace("the committed plan, and what was learned while planning", "and what earlier phases handed on")
    return re.sub(r"- The plan is a means\..*\n", "", text)


def _read(folder: str, name: str) -> str:
    file = resources.files("forgepool.workers.agents.briefing").joinpath(folder, f"{name}.md")
    return file.read_text(encoding="utf-8")
