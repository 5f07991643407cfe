"""
`write_file`: a whole new content for a file. The answer is a receipt; the content is not repeated.
"""

from pydantic import Field

from forgepool.workers.tools.files.text_file import write_text
from forgepool.workers.tools.tool import Arguments, ToolAnswer, make_typed_tool
from forgepool.workers.tools.workplace import Workplace


class WriteFile(Arguments):
    path: str = Field(description="of the file, below the worktree")
    content: str = Field(description="all of the file's new content")


def write_file(arguments: WriteFile, workplace: Workplace) -> ToolAnswer:
    path = workplace.path(arguments.path)
    size = write_text(path, arguments.content, workplace)
    return ToolAnswer(text=receipt(size, workplace.name(path), workplace.iteration))


def receipt(size: int, name: str, iteration: int) -> str:
    """What stands in the conversation for a written file. The form is fixed: views recognise it."""
    return f"OK: wrote {size:,} bytes to {name} (iter {iteration})"


WRITE_FILE = make_typed_tool(
    "write_file",
    "Creates a file or replaces all of its content. Folders are made as needed.",
    WriteFile,
    write_file,
    kind="write",
)
