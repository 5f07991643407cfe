"""
A mirror's own configuration: one of two known texts, put back whenever it is found to be something else.
"""

import os
from pathlib import Path

from forgepool.worktrees.git.git import GitFailed

_CONFIG = """\
[core]
\trepositoryformatversion = {version}
\tfilemode = true
\tbare = true
[fetch]
\tunpackLimit = 1
{extensions}"""
SHA1 = _CONFIG.format(version=0, extensions="").encode()
SHA256 = _CONFIG.format(version=1, extensions="[extensions]\n\tobjectFormat = sha256\n").encode()
_STRAYS = (
    *("info/attributes", "info/exclude", "info/sparse-checkout", "shallow", "config.worktree"),
    *("commondir", "objects/info/alternates", "objects/info/http-alternates"),
)
"""What a mirror never has, and by which it would be read as another repository."""
# Unpack limit 1: a fetch always arrives as one pack, which appears whole or not at all. Loose objects would
# appear one by one, commits first, and a fetch killed half way would leave commits without their trees.


def is_whole(mirror: Path) -> bool:
    """Is all there that a mirror has? It appears by one rename, never half-made, but may be damaged."""
    try:
        known = (mirror / "forgepool").read_bytes() in (SHA1, SHA256)
    except OSError:
        return False
    return known and (mirror / "HEAD").is_file() and (mirror / "refs").is_dir() and (mirror / "objects").is_dir()


def restore_config(mirror: Path) -> None:
    """
    The mirror's configuration is ours again. An agent's `git config` in a checkout writes to it, and filters,
    drivers and aliases set there are the one kind of configuration that cannot be switched off by a call.
    """
    ours = (mirror / "forgepool").read_bytes()
    if ours not in (SHA1, SHA256):
        raise GitFailed(("config",), 0, f"the mirror {mirror} was tampered with; remove it")
    config = mirror / "config"
    if config.is_symlink() or not config.is_file() or config.read_bytes() != ours:
        _write_whole(config, ours)
    for stray in _STRAYS:
        (mirror / stray).unlink(missing_ok=True)


def _write_whole(path: Path, content: bytes) -> None:
    """The file has the content or is untouched, whenever the process dies."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.write_bytes(content)
    draft.replace(path)
