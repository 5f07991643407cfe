"""
Writes the manual pages of all commands, from what `forgepool COMMAND --help` says: `make man`.

    python tests/project/man_pages.py FOLDER
"""

import inspect
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import typer
from typer._click import Command, Context  # typer carries its own click

sys.path.append(str(Path(__file__).parents[2]))

from forgepool.orchestrator.cli.app import app
from tests.project.cli_reference import help_records, walk


def man_pages() -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each page, such as `forgepool-gate-check`."""
    root = typer.main.get_command(app)
    for command, context in walk(root, Context(root, info_name="forgepool")):
        yield context.command_path.replace(" ", "-"), "\n".join(_lines(command, context)) + "\n"


def _lines(command: Command, context: Context) -> Iterator[str]:
    name = context.command_path.replace(" ", "-")
    usage = " ".join((context.command_path, *command.collect_usage_pieces(context)))
    words = inspect.cleandoc(command.help or "")
    yield f'.TH {name.upper()} 1 "" "forgepool {version("forgepool")}"'
    yield from (".SH NAME", f"{_roff(name)} \\- {_roff(words.partition('. ')[0].splitlines()[0].rstrip('.'))}")
    yield from (".SH SYNOPSIS", _roff(usage))
    yield from (".SH DESCRIPTION", *(_roff(line) if line else ".PP" for line in words.splitlines()))
    if records := help_records(command, context):
        yield ".SH OPTIONS"
        for option, said in records:
            yield from (".TP", f".B {_roff(option)}", _roff(" ".join(said.split())))
    if inner := [one.command_path for _, one in walk(command, context) if one.parent is context]:
        yield from (".SH COMMANDS", *(f"{_roff(path)}\n.br" for path in inner))


def _roff(text: str) -> str:
    """Return text that roff takes as it stands: no line of it is a request."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{escaped}" if escaped.startswith((".", "'")) else escaped


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in man_pages():
        (folder / f"{name}.1").write_text(text)
