"""A held folder opens the files below it and nothing else, with either of the two kernel interfaces."""

import errno
import gc
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from swapping import swapped

from forgepool.worktrees.git.beneath import FOLDER, LISTED, Beneath, _walked

Open = Callable[[Beneath, Path, int], int]


def asked(folder: Beneath, below: Path, flags: int) -> int:
    return folder.open(below, flags)


def walked(folder: Beneath, below: Path, flags: int) -> int:
    """Open as on a kernel without `openat2`."""
    with folder.folder(Path()) as descriptor:
        return _walked(descriptor, below, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


both = pytest.mark.parametrize("way", [asked, walked])


@pytest.fixture
def held(tmp_path: Path) -> Beneath:
    (tmp_path / "in" / "deep").mkdir(parents=True)
    (tmp_path / "out").mkdir()
    (tmp_path / "in" / "deep" / "a").write_text("inside")
    (tmp_path / "out" / "a").write_text("outside")
    return Beneath(tmp_path / "in")


@both
@pytest.mark.parametrize("link", ["link", "link/a", "deep/up/out/a", "own/a", "file", "proc/root/etc/hostname"])
def test_no_link_is_followed(held: Beneath, way: Open, link: str) -> None:
    """
    A link is refused at the end of a path and inside it, even if it stays in the folder. The path was judged with its
    links resolved.
    """
    (held.path / "link").symlink_to(held.path.parent / "out")
    (held.path / "deep" / "up").symlink_to("../..")
    (held.path / "own").symlink_to("deep")
    (held.path / "file").symlink_to("deep/a")
    (held.path / "proc").symlink_to("/proc/self")
    with pytest.raises(OSError) as refused:
        os.close(way(held, Path(link), os.O_RDONLY))
    assert refused.value.errno in (errno.ELOOP, errno.ENOTDIR)


@pytest.mark.parametrize("path", ["/etc/passwd", "../out/a", "deep/../../out/a", "a\0b"])
def test_a_path_that_is_not_below_is_a_mistake(held: Beneath, path: str) -> None:
    with pytest.raises(ValueError, match="is not a path below a folder"):
        held.open(Path(path), os.O_RDONLY)


@both
def test_the_way_is_not_left_while_folders_are_swapped(held: Beneath, way: Open) -> None:
    """In 3,000 tries each open finds the file inside, or nothing."""
    (held.path / "link").symlink_to(held.path.parent / "out")
    found = []
    with swapped(held.path / "deep", held.path / "link"):
        for _ in range(3_000):
            try:
                file = way(held, Path("deep/a"), os.O_RDONLY)
            except OSError:
                continue
            found.append(os.read(file, 99))
            os.close(file)
    assert set(found) == {b"inside"}


def test_a_folder_that_is_moved_away_is_still_the_one_that_is_held(held: Beneath) -> None:
    """`is_still_there` reports that its name now leads elsewhere."""
    assert held.is_still_there()
    held.path.rename(held.path.with_name("moved"))
    held.path.symlink_to("out")
    assert not held.is_still_there()
    assert held.read(Path("deep/a"), most_bytes=99) == b"inside"


def test_folders_are_made_on_the_way_and_not_through_a_link(held: Beneath) -> None:
    (held.path / "link").symlink_to(held.path.parent / "out")
    with held.folder(Path("one/two/three"), make=True, flags=LISTED):
        pass
    assert (held.path / "one/two/three").is_dir()
    with pytest.raises(OSError, match=r"directory|symbolic"), held.folder(Path("link/two"), make=True):
        pass
    assert [each.name for each in (held.path.parent / "out").iterdir()] == ["a"]


def test_what_is_no_regular_file_is_not_read_and_not_waited_for(held: Beneath) -> None:
    """A pipe without a writer, a folder, and a file with more bytes than allowed."""
    os.mkfifo(held.path / "pipe")
    for name, reason in (("pipe", errno.EINVAL), ("deep", errno.EISDIR), ("deep/a", errno.EFBIG)):
        with pytest.raises(OSError) as refused:
            held.read(Path(name), most_bytes=3)
        assert refused.value.errno == reason


def test_state_tells_of_the_link_and_removing_removes_it(held: Beneath) -> None:
    (held.path / "link").symlink_to(held.path.parent / "out" / "a")
    state = held.state(Path("link"))
    assert state is not None
    assert state.st_ino == (held.path / "link").lstat().st_ino
    held.remove(Path("link"))
    held.remove(Path("link"))
    assert held.state(Path("link")) is None
    assert (held.path.parent / "out" / "a").read_text() == "outside"


def test_a_descriptor_is_closed_with_its_folder(tmp_path: Path) -> None:
    """It closes at the end of a block, or when the object is collected."""
    gc.collect()  # What other tests left open to be collected would be, in between.
    before = len(list(Path("/proc/self/fd").iterdir()))
    with Beneath(tmp_path) as folder:
        os.close(folder.open(Path(), FOLDER))
    Beneath(tmp_path)
    assert len(list(Path("/proc/self/fd").iterdir())) == before
