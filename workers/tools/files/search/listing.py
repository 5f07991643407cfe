"""
`glob`: which files there are, by name or by how lately they changed. Links are listed, not followed.
"""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal

from pydantic import Field

from forgepool.workers.tools.files.search.globs import glob_pattern
from forgepool.workers.tools.refusal import ToolRefused
from forgepool.workers.tools.tool import Arguments, ToolAnswer, make_typed_tool
from forgepool.workers.tools.workplace import Workplace
from forgepool.worktrees.git.git import GitFailed

_MOST = 500
_TIMEOUT_S = 30.0


class GlobArguments(Arguments):
    pattern: str = Field(default="**", description="such as **/*.py or src/{a,b}*.ts; ** spans folders, * does not")
    path: str = Field(default=".", description="the folder that the pattern begins in")
    sort: Literal["path", "recent"] = Field(default="path", description="by path, or the latest changed first")


def glob(arguments: GlobArguments, workplace: Workplace) -> ToolAnswer:
    folder = workplace.path(arguments.path)
    if not folder.is_dir():
        raise ToolRefused(f"{arguments.path}: no such folder; use glob without a path")
    wanted = glob_pattern(arguments.pattern.removeprefix("./"))
    found = [path for path in _files(folder, workplace) if wanted.matches(path.relative_to(folder).as_posix())]
    if not found:
        return ToolAnswer(text=_nothing(arguments))
    ordered = sorted(found, key=_age) if arguments.sort == "recent" else sorted(found)
    lines = [show_name(workplace.name(path)) for path in ordered[:_MOST]]
    if len(found) > _MOST:
        lines.append(f"[{len(found) - _MOST:,} more; narrow the path or the pattern]")
    return ToolAnswer(text="\n".join(lines))


def show_name(name: str) -> str:
    """A name on a line of its own, whatever characters it is made of."""
    plain = name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return plain if plain.isprintable() else repr(plain)


def _nothing(arguments: GlobArguments) -> str:
    deeper = "" if "/" in arguments.pattern else f"; **/{arguments.pattern} looks in all folders"
    return f"no file below {arguments.path} matches {arguments.pattern} (files that git ignores are left out){deeper}"


def _age(path: Path) -> tuple[float, str]:
    try:
        return (-path.lstat().st_mtime, str(path))
    except OSError:
        return (0.0, str(path))


def _files(folder: Path, workplace: Workplace) -> Iterable[Path]:
    """What git does not ignore; everything, where git does not know the worktree."""
    if workplace.git is None:
        return _walked(folder)
    inside = folder.relative_to(workplace.root).as_posix()
    argv = ("ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", inside)
    try:
        names = workplace.git.run(*argv, timeout_s=_TIMEOUT_S).fields
    except GitFailed:
        return _walked(folder)
    paths = (workplace.root / name for name in dict.fromkeys(names))
    return [path for path in paths if os.path.lexists(path)]


def _walked(folder: Path) -> Iterator[Path]:
    """Everything but folders and what is git's."""
    for here, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name.lower() != ".git"]
        linked = [name for name in folders if Path(here, name).is_symlink()]
        yield from (Path(here, name) for name in names + linked if name.lower() != ".git")


GLOB = make_typed_tool(
    "glob",
    "Lists files whose paths match a pattern, all of them without one. Files that git ignores are left out.",
    GlobArguments,
    glob,
    kind="read",
)
