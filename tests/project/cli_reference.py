"""
Writes docs/reference/commands.md from the program's own commands and options.

    python tests/project/cli_reference.py
"""

from collections.abc import Iterator
from pathlib import Path

import typer
from typer._click import Command, Context  # typer carries its own click
from typer.core import TyperGroup

from forgepool.orchestrator.cli.app import GROUPS, app

PAGE = Path(__file__).parents[2] / "docs/reference/commands.md"
_HEAD = """\
# Commands and options

This page is written by `python tests/project/cli_reference.py` from what `forgepool COMMAND --help` says.
[The command line](cli.md) has exit statuses, output, logs and settings.
"""


def page() -> str:
    """Return the page for the program's current commands."""
    root = typer.main.get_command(app)
    assert isinstance(root, TyperGroup)
    context = Context(root, info_name="forgepool")
    parts = [_HEAD]
    for heading, names in GROUPS.items():
        parts.append(f"## {heading}\n")
        for name in names:
            command = root.get_command(context, name)
            assert command is not None
            for one, its in walk(command, Context(command, parent=context, info_name=name)):
                parts += _described(one, its)
    return "\n".join(parts)


def walk(command: Command, context: Context) -> Iterator[tuple[Command, Context]]:
    """Yield a command, and then the commands of a group."""
    yield command, context
    if isinstance(command, TyperGroup):
        for name in command.list_commands(context):
            one = command.get_command(context, name)
            if one is not None and not one.hidden:
                yield from walk(one, Context(one, parent=context, info_name=name))


def help_records(command: Command, context: Context) -> list[tuple[str, str]]:
    """Return the arguments and options with their help."""
    records = (one.get_help_record(context) for one in command.get_params(context) if one.name != "help")
    return [record for record in records if record is not None]


def _described(command: Command, context: Context) -> Iterator[str]:
    """Yield a command's heading, usage, help, arguments and options."""
    usage = " ".join((context.command_path, *command.collect_usage_pieces(context)))
    yield f"### {context.command_path}\n\n    {usage}\n\n{_in_one_line(command.help)}\n"
    if shown := help_records(command, context):
        rows = (f"| `{_in_one_line(name)}` | {_in_one_line(said)} |" for name, said in shown)
        yield "\n".join(("| | |\n|---|---|", *rows, ""))


def _in_one_line(text: str | None) -> str:
    return " ".join((text or "").split()).replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page())
