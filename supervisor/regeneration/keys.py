"""Which paths count for a command that makes files, and the key of what it makes of a tree."""

import hashlib
import os

from supervisor.definitions import RegenerateDefinition
from workers.globs import parse
from worktrees.git import Git, TreeId

_FORM = b"regenerate-1\0"


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


def key_of(definition: RegenerateDefinition, git: Git, tree: TreeId) -> str:
    """Equal for equal commands and equal files that count, whatever else is in the tree and whoever asks."""
    digest = hashlib.sha256(_FORM + definition.encode().encode() + b"\0")
    if not definition.of:
        digest.update(tree.encode())
        return digest.hexdigest()
    for record in git.run("ls-tree", "-r", "-z", "--full-tree", tree).stdout.split(b"\0")[:-1]:
        if counts(definition, os.fsdecode(record.partition(b"\t")[2])):
            digest.update(b"%d:" % len(record) + record)
    return digest.hexdigest()
