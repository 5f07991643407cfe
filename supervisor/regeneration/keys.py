"""Which paths count for a command that makes files, and the key of what it makes of a tree."""

import hashlib
from collections.abc import Sequence

from forgepool.supervisor.gate_file.document import RegenerateDefinition
from forgepool.workers.schema.globs import parse
from forgepool.worktrees.commits.candidate import files_of
from forgepool.worktrees.git.git import CommitId, Git, TreeId

_FORM = b"regenerate-2\0"


def is_made(definition: RegenerateDefinition, path: str) -> bool:
    """Does the command make it?"""
    return any(parse(glob).matches(path) for glob in definition.paths)


def is_source(definition: RegenerateDefinition, path: str) -> bool:
    """Is something made of it?"""
    if not definition.of:
        return not is_made(definition, path)
    return any(parse(glob).matches(path) for glob in definition.of)


def counts(definition: RegenerateDefinition, path: str) -> bool:
    """The files themselves count as well: commands go by what is there, and leave as it is what need not change."""
    return is_made(definition, path) or is_source(definition, path)


def make_files(definition: RegenerateDefinition, git: Git, tree: CommitId | TreeId) -> dict[str, str]:
    """What of a tree the command makes, as `worktrees.commits.overlay` has files."""
    below = _begin(definition.paths)
    return {path: facts for path, facts in files_of(git, tree, below).items() if is_made(definition, path)}


def _begin(globs: Sequence[str]) -> tuple[str, ...] | None:
    """Folders and files in which all lies that they cover; None where it may lie anywhere."""
    heads = {"/".join(way.head) for glob in globs for way in parse(glob).ways}
    return None if "" in heads else tuple(sorted(heads))


def key_of(definition: RegenerateDefinition, tree: TreeId) -> str:
    """
    Equal for equal commands and equal trees, whoever asks.

    Whole trees, whatever the definition says that the files are made of: a command reads what it likes, its own scripts
    among it, and what it made for one entry must not be another's that lacks what the first had brought.
    """
    return hashlib.sha256(_FORM + definition.encode().encode() + b"\0" + tree.encode()).hexdigest()
