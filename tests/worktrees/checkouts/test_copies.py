"""A folder is copied from one untrusted tree into another unchanged, and never through a link."""

import os
from pathlib import Path

import pytest

from forgepool.worktrees.checkouts.trees import InTheWay, copy_folder
from forgepool.worktrees.git.beneath import Beneath


@pytest.fixture
def places(tmp_path: Path) -> tuple[Beneath, Beneath, Path]:
    """Return the source, the destination, and a folder beside them that must not be read."""
    for name in ("from/deps/sub", "to", "outside"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "from/deps/sub/tool").write_text("tool")
    (tmp_path / "outside/secret").write_text("secret")
    return Beneath(tmp_path / "from"), Beneath(tmp_path / "to"), tmp_path / "outside"


def test_files_come_with_modes_and_times_and_links_stay_links(places: tuple[Beneath, Beneath, Path]) -> None:
    """Read-only folders, which some package managers make, are copied too."""
    source, destination, outside = places
    tool = source.path / "deps/sub/tool"
    tool.chmod(0o755)
    os.utime(tool, ns=(10**18, 10**18 + 5))
    (source.path / "deps/link").symlink_to(outside)
    os.mkfifo(source.path / "deps/pipe")
    (source.path / "deps/sub").chmod(0o555)
    copy_folder(Path("deps"), source, destination)
    copied = destination.path / "deps/sub/tool"
    assert copied.read_text() == "tool"
    assert (copied.stat().st_mode & 0o777, copied.stat().st_mtime_ns) == (0o755, 10**18 + 5)
    assert copied.parent.stat().st_mode & 0o777 == 0o555
    assert (destination.path / "deps/link").readlink() == outside
    assert sorted(each.name for each in (destination.path / "deps").iterdir()) == ["link", "sub"]


@pytest.mark.parametrize("link", ["deps", "deps/sub", "deps/sub/tool"])
def test_nothing_is_written_through_a_link(places: tuple[Beneath, Beneath, Path], link: str) -> None:
    source, destination, outside = places
    place = destination.path / link
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(outside / "secret" if link.endswith("tool") else outside)
    with pytest.raises(InTheWay):
        copy_folder(Path("deps"), source, destination)
    assert [each.name for each in outside.iterdir()] == ["secret"]
    assert (outside / "secret").read_text() == "secret"


def test_nothing_is_read_through_a_link(places: tuple[Beneath, Beneath, Path]) -> None:
    """A set-up command that replaces its folder by a link to outside gets nothing from there."""
    source, destination, outside = places
    (source.path / "linked").symlink_to(outside)
    for folder in ("linked", "linked/sub"):
        with pytest.raises(InTheWay):
            copy_folder(Path(folder), source, destination)
    assert list(destination.path.iterdir()) == []
