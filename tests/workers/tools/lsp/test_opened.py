"""A server is shown only regular files of the worktree."""

import os
from pathlib import Path

import pytest

from forgepool.workers.tools.lsp.documents import NoAnswer, text_of
from forgepool.worktrees.git.beneath import Beneath


def test_only_regular_files_of_the_worktree_are_shown(tmp_path: Path) -> None:
    """It is shown no link, even to a file inside, no pipe, and nothing outside."""
    (tmp_path / "in").mkdir()
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "in" / "file").write_bytes(b"caf\xe9\n")
    (tmp_path / "in" / "link").symlink_to(tmp_path / "secret")
    os.mkfifo(tmp_path / "in" / "pipe")
    root = Beneath(tmp_path / "in")
    assert text_of(root.path / "file", root) == "caf\ufffd\n"
    for path in (root.path / "link", root.path / "pipe", root.path / "none", root.path, tmp_path / "secret"):
        assert text_of(path, root) is None


def test_a_file_that_is_too_large_is_told(tmp_path: Path) -> None:
    with (tmp_path / "large").open("wb") as file:
        file.truncate(11 * 1024 * 1024)
    with pytest.raises(NoAnswer, match="too large"):
        text_of(tmp_path / "large", Beneath(tmp_path))
