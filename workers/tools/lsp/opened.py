"""
The files a server was shown, as it was last told they are.
"""

import errno
import re
from dataclasses import dataclass
from pathlib import Path

from forgepool.workers.tools.lsp.answers import NoAnswer
from forgepool.worktrees.git.beneath import Beneath

_MOST_BYTES = 10 * 1024 * 1024
_HALF = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class OpenedFile:
    """A file's text at a version; versions count up with each change that is told."""

    version: int
    text: str
    heard: int
    """How often the server had said, when it was told this text, what is wrong with the file."""


def text_of(path: Path, root: Beneath) -> str | None:
    """
    A file as it can be told, each byte that is not UTF-8 as one character; None when there is no such file below the
    folder, or only a link that leads to one.

    Raises:
        NoAnswer: it is too large.
    """
    try:
        data = root.read(path.relative_to(root.path), most_bytes=_MOST_BYTES)
    except OSError as trouble:
        if trouble.errno == errno.EFBIG:
            raise NoAnswer(f"{path.name}: is too large; use grep") from trouble
        return None
    except ValueError:
        return None
    return _HALF.sub("�", data.decode(errors="surrogateescape"))
