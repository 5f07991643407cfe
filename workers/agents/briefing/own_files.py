"""
The files in which a repository defines skills and workflows of its own, beside the built-in ones.

They are read from the commit the work starts from, never from the worktree: an agent that could write its own rules
could widen them.
"""

from collections.abc import Collection
from pathlib import PurePosixPath

from forgepool.workers.schema.mistakes import DocumentWrong, Mistake, nearest
from forgepool.worktrees.commits.changes import FileTooLarge, read_file
from forgepool.worktrees.git.git import CommitId, Git

_MOST_BYTES = 64 * 1024


def own_names(git: Git, base: CommitId, folder: str, suffix: str) -> tuple[str, ...]:
    """Return the sorted names of a folder's files with that suffix at `base`, valid or not."""
    paths = map(PurePosixPath, git.run("ls-tree", "-z", "--name-only", "--full-tree", base, f"{folder}/").fields)
    return tuple(sorted(path.stem for path in paths if path.suffix == suffix))


def own_text(git: Git, base: CommitId, file: str) -> str:
    """
    Return a file's text at `base`.

    Raises:
        DocumentWrong: the file is too large, or no text.
    """
    try:
        data = read_file(git, base, file, cap=_MOST_BYTES) or b""
        return data.decode("utf-8")
    except FileTooLarge as large:
        raise DocumentWrong(file, [Mistake(0, f"is larger than {_MOST_BYTES:,} bytes; shorten it")]) from large
    except UnicodeDecodeError as wrong:
        line = data.count(b"\n", 0, wrong.start) + 1
        raise DocumentWrong(file, [Mistake(line, "is not UTF-8 text; save the file as UTF-8")]) from wrong


def unknown_name(noun: str, name: str, folder: str, names: Collection[str]) -> DocumentWrong:
    """Return the refusal of a name that is neither built in nor in the folder, with the nearest of `names`."""
    known = sorted(set(names))
    meant = nearest(name, known, count=2)
    more = f"did you mean {' or '.join(meant)}?" if meant else f"{noun}s are: {', '.join(known)}"
    return DocumentWrong(
        f"{noun} '{name}'", [Mistake(0, f"it is neither built in nor in {folder}/ at the base; {more}")]
    )
