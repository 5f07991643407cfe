"""
`list_files`: what is in the worktree, whole or by a glob. Links are listed, not followed.
"""

import os
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from pydantic import Field

from workers.tools.refusal import Refused
from workers.tools.tool import Answer, Arguments, Tool
from workers.tools.workplace import Workplace

_MOST = 500


class ListFiles(Arguments):
    path: str = Field(default=".", description="the folder to look in")
    pattern: str = Field(default="**", description="a glob below that folder, such as **/*.py or src/{a,b}*.ts")


def list_files(arguments: ListFiles, workplace: Workplace) -> Answer:
    folder = workplace.path(arguments.path)
    if not folder.is_dir():
        return Answer(text=f"{arguments.path}: no such folder; use list_files without a path", is_error=True)
    try:
        wanted = glob_pattern(arguments.pattern)
    except re.error as wrong:
        raise Refused(f"{arguments.pattern}: {wrong}; give a glob such as **/*.py") from wrong
    found: list[str] = []
    for path in _files(folder):
        if wanted.fullmatch(path.relative_to(folder).as_posix()):
            found.append(shown_name(workplace.name(path)))
            if len(found) > _MOST:
                break
    if not found:
        return Answer(text=f"no file below {arguments.path} matches {arguments.pattern}")
    more = [f"[only the first {_MOST}; narrow the path or the pattern]"] if len(found) > _MOST else []
    return Answer(text="\n".join(found[:_MOST] + more))


def shown_name(name: str) -> str:
    """A name on a line of its own, whatever characters it is made of."""
    plain = name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return plain if plain.isprintable() else repr(plain)


@cache
def glob_pattern(glob: str) -> re.Pattern[str]:
    """
    A glob as a regular expression over whole paths: `**` spans folders, `*` and `?` do not, `{a,b}` is
    either.
    """
    glob = re.sub(r"(\*\*/)+", "**/", glob)  # the same, and linear to match
    tokens = re.findall(r"\*\*/|\*\*|\[!?\]?[^\]]*\]|.", glob, re.DOTALL)
    depth = 0
    out = ""
    for token in tokens:
        if token == "{":
            depth += 1
        elif token == "}" and depth:
            depth -= 1
        out += _translated(token, depth)
    return re.compile(out if depth == 0 else re.escape(glob), re.DOTALL)


def _translated(token: str, depth: int) -> str:
    plain = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]", "{": "(?:"}
    if token in plain:
        return plain[token]
    if token == "}":
        return ")"
    if token == "," and depth:
        return "|"
    if len(token) > 2 and token[0] == "[":
        inner = token[1:-1].replace("\\", r"\\").replace("[", r"\[")
        return f"[^/{inner[1:]}]" if inner[0] == "!" else f"[{inner}]"
    return re.escape(token)


def _files(folder: Path) -> Iterator[Path]:
    """Everything but folders and what is git's, in the order of names."""
    for here, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name.lower() != ".git")
        linked = [name for name in folders if Path(here, name).is_symlink()]
        yield from (Path(here, name) for name in sorted(names + linked) if name.lower() != ".git")


LIST_FILES = Tool(
    name="list_files",
    description="Lists the files below a folder of the worktree, or those that match a glob.",
    arguments=ListFiles,
    function=list_files,
)
