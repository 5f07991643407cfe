"""A command replaces the harness's own files and folders, and the harness is not misled."""

import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from forgepool.workers.sandbox.run.background import Background
from forgepool.workers.tools.files.text_file import read_text, write_text
from forgepool.workers.tools.tool import ToolAnswer
from forgepool.workers.tools.workplace import ToolRefused, Workplace

Use = Callable[..., ToolAnswer]

_SWAP = {
    "link": 'ln -sf "$SECRET" "$log"',
    "pipe": 'rm "$log"; mkfifo "$log"',
    "device": 'ln -sf /dev/zero "$log"',
}


@pytest.mark.parametrize("what", _SWAP)
def test_a_background_log_that_was_swapped_is_not_read(
    use: Use, place: Workplace, background: Background, what: str
) -> None:
    """The harness reads the file it made, so there is no secret, no hang and no endless device."""
    secret = place.root.parent / "outside" / "secret"
    waits = "echo begun; until [ -e name ]; do sleep 0.02; done"
    script = f"{waits}; SECRET={secret}; log=$(cat name); {_SWAP[what]}; echo over"
    log = use("bash_background", command=script).text.split()[-1]
    (place.root / "part").write_text(log)
    (place.root / "part").rename(place.root / "name")
    began = time.monotonic()
    answer = use("check_background", id=1, wait_s=15, until="over")
    answer_2 = use("check_background", id=1, wait_s=15)
    told = answer.text + answer_2.text
    assert time.monotonic() - began < 14
    assert "begun\nover" in told
    assert "secret" not in told.replace(str(secret), "")


def test_a_commands_log_has_no_name_to_take(use: Use, place: Workplace) -> None:
    """Whatever a command does in its TMPDIR, its own long output is kept."""
    script = (
        f"for each in $(find {place.tmp} -type f); do rm $each; ln -s /proc/self/environ $each; done; "
        "seq 20000; echo the end"
    )
    answer = use("bash", command=script)
    whole = Path(answer.text.split("read_file or grep ")[1].split("]")[0])
    assert not whole.is_symlink()
    assert whole.read_text().endswith("20000\nthe end\n")
    assert [each for each in place.tmp.rglob("*") if each.is_file()] == [whole]


def test_a_tmp_that_became_a_link_lends_nothing(use: Use, place: Workplace) -> None:
    """Paths below it are no longer readable, and nothing is written through it."""
    outside = place.root.parent / "outside"
    (outside / "outputs").mkdir()
    (outside / "outputs" / "key").write_text("the key")
    place.tmp.rename(place.tmp.with_name("moved"))
    place.tmp.symlink_to(outside)
    assert "lies outside the worktree" in use("read_file", path=str(place.tmp / "outputs" / "key")).text
    refused = use("write_file", path="a.txt", content="new")
    assert refused.text == f"{place.tmp}: is not the folder it was; remove it, and it is made again"
    assert sorted(each.name for each in outside.rglob("*")) == ["key", "outputs", "secret"]


def test_a_tmp_that_is_another_folder_lends_nothing(use: Use, place: Workplace) -> None:
    """A folder moved to its name was not made for the work."""
    outside = place.root.parent / "outside"
    (outside / "outputs").mkdir()
    (outside / "outputs" / "key").write_text("the key")
    place.tmp.rename(place.tmp.with_name("moved"))
    outside.rename(place.tmp)
    assert "lies outside the worktree" in use("read_file", path=str(place.tmp / "outputs" / "key")).text


def test_a_lent_folder_that_was_swapped_is_not_lent(use: Use, place: Workplace) -> None:
    """The readable paths are fixed when the work begins."""
    lent, outside = place.root.parent / "lent", place.root.parent / "outside"
    lent.mkdir()
    (lent / "page").write_text("a page")
    lending = replace(place, readable=(lent,))
    at: dict[str, object] = {"readable": (lent,), "anchors": lending.anchors}
    assert "a page" in use("read_file", at, path=str(lent / "page")).text
    lent.rename(lent.with_name("moved"))
    lent.symlink_to(outside)
    for path in (lent / "secret", outside / "secret"):
        assert "lies outside the worktree" in use("read_file", at, path=str(path)).text


def test_tools_go_on_when_their_tmp_is_gone(use: Use, place: Workplace) -> None:
    """A command that empties its TMPDIR gets its answer, and the next call makes the folder again."""
    answer = use("bash", command=f"rm -rf {place.tmp}; seq 20000; exit 3")
    assert answer.text.startswith("[exit status 3")
    assert "read_file or grep" in answer.text
    assert not use("bash", command=f"rm -rf {place.tmp}").is_error
    assert not use("write_file", path="a.txt", content="new").is_error
    assert place.tmp.stat().st_mode & 0o077 == 0


def test_a_pipe_is_refused_and_not_waited_for(place: Workplace) -> None:
    """It has no writer, so a normal open would wait forever."""
    pipe = place.root / "pipe"
    os.mkfifo(pipe)
    began = time.monotonic()
    with pytest.raises(ToolRefused, match="is not a file"):
        read_text(pipe, "pipe", place)
    assert time.monotonic() - began < 5


def test_a_folder_swapped_after_the_path_was_judged_is_not_entered(place: Workplace) -> None:
    """Each folder is opened from the one above it, and a link among them is refused."""
    (place.root / "src").mkdir()
    path = place.path("src/secret")
    (place.root / "src").rmdir()
    (place.root / "src").symlink_to(place.root.parent / "outside")
    with pytest.raises(OSError, match=r"directory|symbolic"), place.reading(path):
        pass
    with pytest.raises(OSError, match=r"directory|symbolic"):
        write_text(path, "taken", place)
    assert (place.root.parent / "outside" / "secret").read_text() == "secret\n"


def test_a_file_comes_in_from_another_file_system(place: Workplace, tmp_path: Path) -> None:
    """It gets a new inode with the same permissions, so hard links to the old one do not change."""
    shared = Path("/dev/shm")
    if not shared.is_dir() or shared.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("there is no second file system")
    other = shared / f"forgepool-{os.getpid()}"
    other.mkdir()
    try:
        path, kept = place.root / "a.sh", place.root.parent / "outside" / "kept"
        kept.write_text("old")
        kept.chmod(0o750)
        os.link(kept, path)
        write_text(path, "new", replace(place, tmp=other))
        assert (path.read_text(), kept.read_text()) == ("new", "old")
        assert path.stat().st_mode & 0o777 == 0o750
        assert list(other.iterdir()) == []
    finally:
        other.rmdir()


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("bash", {"command": "echo \0"}),
        ("bash_background", {"command": "echo \0"}),
        ("grep", {"pattern": "a\0b"}),
        ("grep", {"pattern": "a", "glob": "\0"}),
        ("glob", {"pattern": "a\0"}),
        ("read_file", {"path": "a\0"}),
    ],
)
def test_a_nul_character_is_answered_in_one_line(
    use: Use, place: Workplace, tool: str, arguments: dict[str, str]
) -> None:
    """No program or file name can contain one."""
    (place.root / "a").write_text("a\n")
    answer = use(tool, **arguments)
    assert answer.is_error
    assert "\n" not in answer.text


def test_an_edit_never_mixes_encodings(use: Use, place: Workplace) -> None:
    """In a file that is not UTF-8, only ASCII text can be inserted, and every other byte stays."""
    path = place.root / "a.txt"
    path.write_bytes(b"caf\xe9\nold\n")
    refused = use("edit_file", path="a.txt", old="old", new="né")
    assert refused.text.startswith("a.txt: is not UTF-8, and the new text is not ASCII")
    patch = "*** Begin Patch\n*** Update File: a.txt\n@@\n-old\n+né\n*** End Patch"
    assert use("apply_patch", input=patch).text == refused.text
    assert path.read_bytes() == b"caf\xe9\nold\n"
    assert not use("edit_file", path="a.txt", old="old", new="new").is_error
    assert path.read_bytes() == b"caf\xe9\nnew\n"


def test_places_that_overlap_are_all_counted(use: Use, place: Workplace) -> None:
    """It is unclear which one is meant, so none is replaced."""
    (place.root / "a.txt").write_text("x aa aa aa x\n")
    assert "occurs 2 times" in use("edit_file", path="a.txt", old="aa aa", new="b").text


def test_an_anchor_in_two_places_is_refused(use: Use, place: Workplace) -> None:
    """The hunk fits below both. A line above the right one decides."""
    (place.root / "a.py").write_text("class A:\n    def f():\n        x\nclass B:\n    def f():\n        x\n")
    hunk = "     def f():\n-        x\n+        y\n"
    doubtful = "@@     def f():\n-        x\n+        y\n"
    refused = use("apply_patch", input=f"*** Begin Patch\n*** Update File: a.py\n{doubtful}*** End Patch")
    assert "stands in several places (lines 2, 5), and the hunk fits below each" in refused.text
    assert not use(
        "apply_patch", input=f"*** Begin Patch\n*** Update File: a.py\n@@ class B:\n{hunk}*** End Patch"
    ).is_error
    assert (place.root / "a.py").read_text().endswith("class B:\n    def f():\n        y\n")


def test_what_ripgrep_has_against_a_pattern_is_told(use: Use, place: Workplace) -> None:
    """Its error is about the pattern, not the path. A stand-in prints what the program prints."""
    folder = place.root.parent / "bin"
    folder.mkdir()
    (folder / "rg").write_text(
        "#!/bin/sh\nprintf 'rg: regex parse error:\\n    (\\n    ^\\nerror: unclosed group\\n'\nexit 2\n"
    )
    (folder / "rg").chmod(0o755)
    answer = use("grep", {"env": {"PATH": f"{folder}:{place.env['PATH']}"}}, pattern="(")
    assert answer.text == "'(': unclosed group; give a regular expression"
