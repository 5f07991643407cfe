"""Formatters and linters that edit a project, each with its own defaults and none of the project's settings."""

import sys
from collections.abc import Mapping
from pathlib import Path

from projects import Project, run

from forgepool.worktrees.git.git import CommitId

_COMMANDS: Mapping[str, str] = {
    "ruff format": "ruff format --isolated .",
    "ruff check --fix": "ruff check --isolated --exit-zero --select=ALL --fix .",
    "black": "black --fast --config=SETTINGS .",
    "isort": "isort --settings-file=SETTINGS .",
    "pyupgrade": "pyupgrade --py310-plus --exit-zero-even-if-changed",
    "autoflake": "autoflake --config=SETTINGS --in-place --recursive .",
}
TOOLS = tuple(_COMMANDS)
WEAKENING: Mapping[str, str] = {
    "ruff check --unsafe-fixes": "ruff check --isolated --exit-zero --select=ALL --fix --unsafe-fixes .",
    "unittest2pytest": "unittest2pytest --write --nobackups --no-diffs",
}
"""Edits that may change what a test asserts. They are judged like any other edit."""
_SETTINGS = "[tool.autoflake]\nremove-all-unused-imports = true\nremove-unused-variables = true\n"
"""Settings for every tool that would otherwise look for those of the project; autoflake refuses an empty file."""
_STATUS = {"black": (0, 123), "ruff format": (0, 2)}
"""Exit statuses that also occur with files the tool cannot parse, such as templates."""


def edit(project: Project, tool: str) -> CommitId:
    """Commit the tool's own edit of the project."""
    settings = project.folder.with_name("settings.toml")
    settings.write_text(_SETTINGS)
    program, *words = {**_COMMANDS, **WEAKENING}[tool].replace("SETTINGS", str(settings)).split()
    if tool == "unittest2pytest":
        # It gives up at the first file that it cannot read, and leaves that one as it is.
        for path in project.sources():
            run([_found(program), *words, path], project.folder, ok=(0, 1))
    else:
        files = project.sources() if program == "pyupgrade" else []
        run([_found(program), *words, *files], project.folder, ok=_STATUS.get(tool, (0,)))
    return project.commit()


def format_file(project: Project, path: str) -> None:
    run([_found("ruff"), "format", "--isolated", path], project.folder)


def _found(program: str) -> str:
    return str(Path(sys.executable).with_name(program))
