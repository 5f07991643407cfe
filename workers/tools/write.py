"""
`write_file`: a whole new content for a file. The answer is a receipt; the content is not repeated.
"""

from workers.tools.text_file import write_text
from workers.tools.tool import Answer, Arguments, Tool
from workers.tools.workplace import Workplace


class WriteFile(Arguments):
    path: str
    content: str


def write_file(arguments: WriteFile, workplace: Workplace) -> Answer:
    path = workplace.path(arguments.path)
    size = write_text(path, arguments.content, workplace)
    return Answer(text=receipt(size, workplace.name(path), workplace.iteration))


def receipt(size: int, name: str, iteration: int) -> str:
    """What stands in the conversation for a written file. The form is fixed: views recognise it."""
    return f"OK: wrote {size:,} bytes to {name} (iter {iteration})"


WRITE_FILE = Tool(
    name="write_file",
    description="Creates a file or replaces all of its content. Folders are made as needed.",
    arguments=WriteFile,
    function=write_file,
)
