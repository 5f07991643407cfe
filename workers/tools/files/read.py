"""
`read_file`: a file's lines with their numbers, a page at a time.
"""

from pydantic import Field

from forgepool.workers.tools.files.text_file import read_text, show_text
from forgepool.workers.tools.tool import Arguments, ToolAnswer, make_typed_tool
from forgepool.workers.tools.workplace import Workplace

_PAGE_CHARACTERS = 48_000
_LINE_CHARACTERS = 2_000


class ReadFile(Arguments):
    path: str = Field(description="below the worktree, or absolute for a file that an answer has named so")
    start: int = Field(default=1, ge=1, description="first line, from 1")
    lines: int = Field(default=2000, ge=1, description="how many lines")


def read_file(arguments: ReadFile, workplace: Workplace) -> ToolAnswer:
    text = read_text(workplace.readable_path(arguments.path), arguments.path, workplace)
    lines = show_text(text).split("\n")
    if lines[-1] == "":
        lines.pop()
    if not lines:
        return ToolAnswer(text=f"{arguments.path} is empty")
    if arguments.start > len(lines):
        message = f"{arguments.path}: has {len(lines)} lines; start at {len(lines)} or before"
        return ToolAnswer(text=message, is_error=True)
    page = _page(lines[arguments.start - 1 : arguments.start - 1 + arguments.lines], arguments.start)
    after = arguments.start + len(page)
    note = f"[{arguments.path}: lines {arguments.start}-{after - 1} of {len(lines)}"
    note += f"; go on with start={after}]" if after <= len(lines) else "]"
    if "\r\n" in text:
        note += "\n[its lines end in CR LF; edit_file keeps that]"
    return ToolAnswer(text="\n".join([*page, note]))


def _page(lines: list[str], first: int) -> list[str]:
    """As many numbered lines as fit, at least one."""
    page: list[str] = []
    room = _PAGE_CHARACTERS
    for number, line in enumerate(lines, start=first):
        cut = line
        if len(line) > _LINE_CHARACTERS:
            cut = f"{line[:_LINE_CHARACTERS]} [{len(line) - _LINE_CHARACTERS:,} more characters]"
        numbered = f"{number:6}\t{cut}"
        room -= len(numbered) + 1
        if page and room < 0:
            break
        page.append(numbered)
    return page


READ_FILE = make_typed_tool(
    "read_file",
    "Reads a text file, a page of lines at a time. Every line comes with its number and a tab before it.",
    ReadFile,
    read_file,
    kind="read",
)
