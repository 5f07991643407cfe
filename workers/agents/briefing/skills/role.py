"""
One skill: its frontmatter, its text, and the sentences for what is wrong with either.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from forgepool.workers.schema.documents import read, validate
from forgepool.workers.schema.mistakes import DocumentWrong, Mistake, Slug, nearest, show_value

ContextMode = Literal["autonomous", "injected", "hybrid"]
"""
How the agent comes to know things. `autonomous`: it looks for itself. `injected`: it is given everything and can look
nothing up, so that what is missing shows in the result. `hybrid`: it is given a beginning and looks up the rest in the
repository's files.
"""

TOOL_NAMES = frozenset(
    {
        *("read_file", "glob", "grep", "find_symbol", "find_references", "diagnostics"),
        *("write_file", "edit_file", "apply_patch", "rename_symbol"),
        *("bash", "bash_background", "check_background", "stop_background"),
        *("commit_plan", "confirm_red_phase", "finish", "ask"),
    }
)


def _listed(value: object) -> object:
    """`read_file, grep` as its names."""
    if not isinstance(value, str):
        raise ValueError(f"must be names with commas between them such as read_file, grep, is {show_value(value)}")
    return tuple(name for name in (part.strip() for part in value.split(",")) if name)


def _known(names: tuple[str, ...]) -> tuple[str, ...]:
    """Tools of other programs (`server__tool`) are not known here; they are taken at their word."""
    for name in names:
        if name not in TOOL_NAMES and "__" not in name:
            meant = nearest(name, TOOL_NAMES)
            more = f"did you mean {meant[0]}?" if meant else f"tools are: {', '.join(sorted(TOOL_NAMES))}"
            raise ValueError(f"names the tool {show_value(name)}, which there is not; {more}")
    return names


class Frontmatter(BaseModel):
    """What stands between the two lines of dashes."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Slug
    description: str = Field(min_length=1)
    context_mode: ContextMode = Field(default="autonomous", alias="context-mode")
    allowed_tools: Annotated[tuple[str, ...], BeforeValidator(_listed), AfterValidator(_known)] | None = Field(
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
    The skill in a file that is called `<name>.md`.

    Raises:
        DocumentWrong: with file and line.
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
    return Skill(
        name=head.name,
        description=head.description,
        context_mode=head.context_mode,
        allowed_tools=head.allowed_tools,
        model=head.model,
        text=body,
    )
