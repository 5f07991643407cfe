import os
from collections.abc import Callable
from pathlib import Path

import pytest

from forgepool.workers.tools.tool import ToolAnswer
from forgepool.workers.tools.workplace import Workplace

Use = Callable[..., ToolAnswer]

SHELF = """\
class Shelf:
    def put(self):
        return 1

    def take(self):
        return 1


class Box:
    def put(self):
        return 1
"""


def patch(*lines: str) -> str:
    return "\n".join(["*** Begin Patch", *lines, "*** End Patch"])


@pytest.fixture
def shelf(place: Workplace) -> Path:
    path = place.root / "shelf.py"
    path.write_text(SHELF)
    return path


def test_a_patch_adds_changes_moves_and_deletes(use: Use, place: Workplace, shelf: Path) -> None:
    """It is one call, and the receipt has a line for each file."""
    (place.root / "old.py").write_text("old\n")
    (place.root / "tool.sh").write_text("echo 1\n")
    (place.root / "tool.sh").chmod(0o755)
    answer = use(
        "apply_patch",
        input=patch(
            "*** Add File: new/a.py",
            "+a = 1",
            "+",
            "+b = 2",
            "*** Update File: shelf.py",
            "@@ class Box:",
            "     def put(self):",
            "-        return 1",
            "+        return 2",
            "*** Update File: tool.sh",
            "*** Move to: bin/tool.sh",
            "@@",
            "-echo 1",
            "+echo 2",
            "",
            "*** Delete File: old.py",
        ),
    )
    assert answer.text.split("\n") == [
        "OK: patched 4 files (iter 14)",
        "A new/a.py",
        "M shelf.py",
        "R tool.sh -> bin/tool.sh",
        "D old.py",
    ]
    assert (place.root / "new" / "a.py").read_text() == "a = 1\n\nb = 2\n"
    assert shelf.read_text() == SHELF.removesuffix("1\n") + "2\n"
    assert (place.root / "bin" / "tool.sh").read_text() == "echo 2\n"
    assert (place.root / "bin" / "tool.sh").stat().st_mode & 0o777 == 0o755
    assert sorted(os.listdir(place.root)) == ["bin", "new", "shelf.py"]  # noqa: PTH208 - names only
    assert list(place.tmp.iterdir()) == []


@pytest.mark.parametrize(
    ("hunks", "told"),
    [
        (["@@", "-        return 1", "+        return 2"], "hunk 1: fits in 3 places (lines 3, 6, 11); give more"),
        (["@@ class Shelv:", "-x", "+y"], "hunk 1: its @@ line 'class Shelv:' is not in the file; nearest is line 1:"),
        (["@@", "-    def give(self):", "+x"], "hunk 1: its old lines are not in the file; nearest is line 5: "),
        (["@@", "-  def take(self):", "+x"], "line 5 differs in indentation only; it is '    def take(self):'"),
        (
            ["@@", "-class Box:", "+class Case:", "@@", "-    def take(self):", "+    def give(self):"],
            "hunk 2: its old lines are at line 5, before the end of the hunk above; give hunks in the file's order",
        ),
        (["@@ class Box:", "-    def take(self):", "+x"], "hunk 1: its old lines are at line 5, above its @@ line"),
        (["@@", "-class Box:", "+x", "*** End of File"], "are at line 9, not at the end of the file"),
        (["@@", " class Box:"], "hunk 1: changes nothing; mark lines that go"),
        (["@@", "class Box:"], "hunk 1: 'class Box:': a line of a hunk begins with ' ', '-' or '+'"),
        (["@@ class Box:"], "hunk 1: has no lines below its @@ line"),
        ([], "the update has no hunk"),
        (["@@", "-class Box:", "+class Box:"], "the patch leaves it as it is; nothing to do"),
    ],
)
def test_a_hunk_that_does_not_fit_is_named(
    use: Use, place: Workplace, shelf: Path, hunks: list[str], told: str
) -> None:
    """One line gives file, hunk and what would be right. No part of the patch is applied."""
    text = patch("*** Add File: other.py", "+x", "*** Update File: shelf.py", *hunks)
    answer = use("apply_patch", input=text)
    assert answer.is_error
    assert answer.text.startswith("shelf.py")
    assert told in answer.text
    assert "\n" not in answer.text
    assert [path.name for path in place.root.iterdir()] == ["shelf.py"]
    assert shelf.read_text() == SHELF


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (["*** Add File: shelf.py", "+x"], "shelf.py: is there already; use '*** Update File: shelf.py'"),
        (["*** Add File: a.py", "x"], "a.py, line 1: 'x': every line of an added file begins with '+'"),
        (["*** Delete File: shelv.py"], "shelv.py: no such file; did you mean shelf.py?"),
        (["*** Delete File: folder"], "folder: is a folder"),
        (["*** Update File: image.png", "@@", "-a", "+b"], "image.png: is binary"),
        (["*** Update File: shelf.py", "*** Move to: image.png"], "image.png: is there already; move shelf.py to"),
        (["*** Update File: shelf.py", "*** Move to: ../x.py"], "../x.py: lies outside the worktree"),
        (["*** Update File: link.py", "*** Move to: y.py"], "link.py: is a link; move shelf.py itself"),
        (["*** Add File: .git/hooks/x", "+x"], "is git's own"),
        (["*** Add File: "], "names no file"),
        (["*** Frob File: x"], "patch line 2: '*** Frob File: x': begin a file with"),
        ([], "the patch changes nothing"),
        (
            ["*** Delete File: shelf.py", "*** Update File: shelf.py", "@@", "-class Box:", "+x"],
            "shelf.py: the patch has removed it further up; change it before",
        ),
    ],
)
def test_a_patch_that_makes_no_sense_is_refused_whole(
    use: Use, place: Workplace, shelf: Path, lines: list[str], told: str
) -> None:
    """Valid parts before the wrong one are not applied either."""
    (place.root / "folder").mkdir()
    (place.root / "image.png").write_bytes(b"\x89PNG\0")
    (place.root / "link.py").symlink_to("shelf.py")
    before = sorted(place.root.iterdir())
    first = ["*** Add File: first.py", "+x"] if lines and "Frob" not in lines[0] else []
    answer = use("apply_patch", input=patch(*first, *lines))
    assert answer.is_error
    assert told in answer.text
    assert "\n" not in answer.text
    assert sorted(place.root.iterdir()) == before
    assert shelf.read_text() == SHELF


@pytest.mark.parametrize("text", ["", "x", "*** Begin Patch\n*** Add File: a\n+x", "--- a\n+++ b\n@@ -1 +1 @@\n-a\n+b"])
def test_what_is_no_patch_is_told_the_form(use: Use, place: Workplace, text: str) -> None:
    answer = use("apply_patch", input=text)
    assert answer.is_error
    assert "a patch goes from '*** Begin Patch' to '*** End Patch'" in answer.text
    assert list(place.root.iterdir()) == []


def test_a_disk_that_fails_half_way_leaves_nothing_changed(use: Use, place: Workplace, shelf: Path) -> None:
    """A file is where a folder is needed. Earlier writes of the patch are undone."""
    (place.root / "gone.bin").write_bytes(b"\0\1")
    (place.root / "link.py").symlink_to("shelf.py")
    shelf.chmod(0o640)
    answer = use(
        "apply_patch",
        input=patch(
            *("*** Update File: shelf.py", "@@", "-class Box:", "+class Case:"),
            *("*** Delete File: gone.bin", "*** Delete File: link.py"),
            *("*** Add File: new.py", "+x"),
            *("*** Add File: new.py/below", "+x"),
        ),
    )
    assert answer.is_error
    assert (shelf.read_text(), shelf.stat().st_mode & 0o777) == (SHELF, 0o640)
    assert (place.root / "gone.bin").read_bytes() == b"\0\1"
    assert (place.root / "link.py").is_symlink()
    assert not (place.root / "new.py").exists()


def test_anchors_lead_to_the_place(use: Use, shelf: Path) -> None:
    """Anchors may follow one another and need no removed lines. Line numbers of other patch formats are ignored."""
    answer = use(
        "apply_patch",
        input=patch(
            "*** Update File: shelf.py",
            *("@@ class Shelf:", "@@ def take(self):", "-        return 1", "+        return 5"),
            *("@@ class Box:", "+    size = 3"),
            *("@@ -9,2 +9,3 @@ class Box:", "     def put(self):", "+        pass", "         return 1"),
            *("@@", "+# the end"),
        ),
    )
    assert not answer.is_error, answer.text
    expected = SHELF.replace("take(self):\n        return 1", "take(self):\n        return 5")
    expected = expected.replace("class Box:\n", "class Box:\n    size = 3\n")
    head, tail = expected.rsplit("        return 1\n", 1)
    assert shelf.read_text() == f"{head}        pass\n        return 1\n{tail}# the end\n"


def test_a_link_is_deleted_and_not_what_it_leads_to(use: Use, place: Workplace, shelf: Path) -> None:
    (place.root / "link.py").symlink_to("shelf.py")
    assert use("apply_patch", input=patch("*** Delete File: link.py")).text.endswith("D link.py")
    assert [path.name for path in place.root.iterdir()] == ["shelf.py"]


def test_a_wrapped_patch_is_unwrapped(use: Use, place: Workplace) -> None:
    """Models send it as for a shell, with CR LF, and without blanks at line ends."""
    (place.root / "a.py").write_text("a  \n\nb\n")
    text = (
        "<<'EOF'\r\n" + patch("*** Update File: a.py", "@@", " a", "", "-b", "+c").replace("\n", "\r\n") + "\r\nEOF\r\n"
    )
    assert not use("apply_patch", input=text).is_error
    assert (place.root / "a.py").read_text() == "a  \n\nc\n"


def test_a_file_may_be_changed_twice_in_one_patch(use: Use, place: Workplace, shelf: Path) -> None:
    """The second part sees the result of the first. A file may be replaced by another of its name."""
    answer = use(
        "apply_patch",
        input=patch(
            *("*** Update File: shelf.py", "@@", "-class Box:", "+class Case:"),
            *("*** Update File: shelf.py", "@@", "-class Case:", "+class Crate:"),
        ),
    )
    assert not answer.is_error, answer.text
    assert shelf.read_text() == SHELF.replace("Box", "Crate")
    answer = use("apply_patch", input=patch("*** Delete File: shelf.py", "*** Add File: shelf.py", "+new"))
    assert not answer.is_error, answer.text
    assert shelf.read_text() == "new\n"
