import os
from collections.abc import Callable
from pathlib import Path

import pytest

from forgepool.workers.tools.files.listing import glob_pattern
from forgepool.workers.tools.tool import ToolAnswer
from forgepool.workers.tools.workplace import Workplace

Use = Callable[..., ToolAnswer]


def test_a_file_is_read_with_line_numbers(use: Use, place: Workplace) -> None:
    """The form is number, tab and line, and then the range of lines and their total."""
    (place.root / "a.py").write_text("one\ntwo\n")
    assert use("read_file", path="a.py").text == "     1\tone\n     2\ttwo\n[a.py: lines 1-2 of 2]"


def test_a_long_file_says_how_to_go_on(use: Use, place: Workplace) -> None:
    """A page names the start of the next, and all pages together are the file."""
    (place.root / "a.py").write_text("".join(f"line {number}\n" for number in range(1, 101)))
    first = use("read_file", path="a.py", start=11, lines=20)
    assert first.text.startswith("    11\tline 11\n")
    assert first.text.endswith("[a.py: lines 11-30 of 100; go on with start=31]")
    assert use("read_file", path="a.py", start=100).text.endswith("[a.py: lines 100-100 of 100]")


def test_a_page_has_a_size(use: Use, place: Workplace) -> None:
    """Neither many lines nor a long one fill the conversation."""
    (place.root / "wide.txt").write_text("x" * 1_000_000 + "\n" + "y" * 1500 + "\n" * 3)
    (place.root / "many.txt").write_text(("z" * 100 + "\n") * 5000)
    wide = use("read_file", path="wide.txt").text
    assert len(wide) < 10_000
    assert "[998,000 more characters]" in wide
    many = use("read_file", path="many.txt", lines=5000).text
    assert len(many) < 50_000
    assert "go on with start=" in many


def _missing(root: Path) -> None:
    (root / "paths.py").touch()


def _folder(root: Path) -> None:
    (root / "path.py").mkdir()


def _binary(root: Path) -> None:
    (root / "path.py").write_bytes(b"\x7fELF\0\0")


def _huge(root: Path) -> None:
    with (root / "path.py").open("wb") as file:
        file.truncate(1_000_000_000)


def _pipe(root: Path) -> None:
    os.mkfifo(root / "path.py")


@pytest.mark.parametrize(
    ("made", "told"),
    [
        (_missing, "path.py: no such file; did you mean paths.py?"),
        (_folder, "path.py: is a folder; use glob to see what is in it"),
        (_binary, "path.py: is binary (6 bytes); use bash with a program that knows its form"),
        (_huge, "path.py: 1,000,000,000 bytes are too many; use grep on it, or bash with head or sed -n"),
        (_pipe, "path.py: is not a file (a pipe, socket or device); only files can be read"),
    ],
)
def test_what_cannot_be_read_is_told_in_one_line(
    use: Use, place: Workplace, made: Callable[[Path], None], told: str
) -> None:
    """The line says what would be right, for reading and editing. There is no traceback or hang."""
    made(place.root)
    answer = use("read_file", path="path.py")
    assert (answer.text, answer.is_error) == (told, True)
    assert use("edit_file", path="path.py", old="a", new="b").text == told


def test_a_written_file_is_answered_with_its_receipt(use: Use, place: Workplace) -> None:
    """It has size, path and turn in the one form that views recognise, without the content."""
    answer = use("write_file", path="pace/auth.py", content="x" * 1247)
    assert answer.text == "OK: wrote 1,247 bytes to pace/auth.py (iter 14)"
    assert (place.root / "pace" / "auth.py").read_text() == "x" * 1247
    assert list(place.tmp.iterdir()) == []


def test_a_rewritten_file_keeps_its_permissions(use: Use, place: Workplace) -> None:
    """A script stays executable. A new file has the permissions of the umask."""
    script = place.root / "run.sh"
    script.write_text("old")
    script.chmod(0o755)
    use("write_file", path="run.sh", content="new")
    assert (script.read_text(), script.stat().st_mode & 0o777) == ("new", 0o755)
    use("write_file", path="plain", content="new")
    (place.root / "usual").touch()
    assert (place.root / "plain").stat().st_mode == (place.root / "usual").stat().st_mode


def test_a_hard_link_to_outside_is_not_written_through(use: Use, place: Workplace) -> None:
    """Package caches link their files into worktrees, and the cache must not change."""
    outside = place.root.parent / "outside" / "secret"
    (place.root / "linked").hardlink_to(outside)
    use("write_file", path="linked", content="changed\n")
    use("edit_file", path="linked", old="changed", new="again")
    assert (outside.read_text(), (place.root / "linked").read_text()) == ("secret\n", "again\n")


@pytest.mark.parametrize(
    "path",
    [
        "../outside/secret",
        "a/../../outside/secret",
        "/etc/passwd",
        "link/secret",
        "chain/secret",
        "file-link",
        "",
        "a\0b",
    ],
)
@pytest.mark.parametrize("tool", ["read_file", "write_file", "edit_file", "glob", "grep", "apply_patch"])
def test_no_path_leads_outside_the_worktree(use: Use, place: Workplace, tool: str, path: str) -> None:
    """Dots, absolute paths and links are refused before anything is touched."""
    outside = place.root.parent / "outside"
    (place.root / "a").mkdir()
    (place.root / "link").symlink_to(outside)
    (place.root / "chain").symlink_to("link")
    (place.root / "file-link").symlink_to(outside / "secret")
    given = {
        "write_file": {"content": "x"},
        "edit_file": {"old": "secret", "new": "x"},
        "grep": {"pattern": "secret"},
    }.get(tool, {})
    if tool == "apply_patch":
        given = {"input": f"*** Begin Patch\n*** Delete File: {path or '/'}\n*** End Patch"}
    else:
        given |= {"path": path}
    answer = use(tool, **given)
    assert answer.is_error
    assert "worktree" in answer.text
    assert [(entry.name, entry.read_text()) for entry in outside.iterdir()] == [("secret", "secret\n")]


@pytest.mark.parametrize("path", [".git", ".git/config", "sub/.git/hooks/x", ".GIT/config", "link/config"])
def test_gits_own_files_are_not_touched(use: Use, place: Workplace, path: str) -> None:
    """They are not read either. A written hook or setting would be run by a person's git."""
    (place.root / ".git").mkdir()
    (place.root / "link").symlink_to(".git")
    assert "git's own" in use("write_file", path=path, content="x").text
    assert "git's own" in use("read_file", path=path).text
    assert list((place.root / ".git").iterdir()) == []


def test_links_within_the_worktree_are_followed(use: Use, place: Workplace) -> None:
    """The file changes and the link stays. A circle of links is reported."""
    (place.root / "real.py").write_text("old\n")
    (place.root / "link.py").symlink_to("real.py")
    (place.root / "circle").symlink_to("circle")
    assert use("edit_file", path="link.py", old="old", new="new").text.startswith("OK: replaced 1 place in real.py")
    assert (place.root / "link.py").is_symlink()
    assert (place.root / "real.py").read_text() == "new\n"
    assert use("read_file", path="circle").is_error
    assert use("read_file", path=str(place.root / "real.py")).text.startswith("     1\tnew")


def test_an_edit_replaces_one_exact_text(use: Use, place: Workplace) -> None:
    """Its receipt names the line."""
    (place.root / "a.py").write_text("a = 1\nb = 2\n")
    answer = use("edit_file", path="a.py", old="b = 2", new="b = 3")
    assert answer.text == "OK: replaced 1 place in a.py, line 2 (iter 14)"
    assert (place.root / "a.py").read_text() == "a = 1\nb = 3\n"


def test_an_edit_that_could_mean_several_places_is_refused(use: Use, place: Workplace) -> None:
    """The answer names the lines. With the right count all are replaced, with another none."""
    path = place.root / "a.py"
    path.write_text("x\ny\nx\nx\n")
    assert "occurs 3 times (lines 1, 3, 4)" in use("edit_file", path="a.py", old="x", new="z").text
    assert "3 times (lines 1, 3, 4), not 2" in use("edit_file", path="a.py", old="x", new="z", count=2).text
    assert path.read_text() == "x\ny\nx\nx\n"
    assert use("edit_file", path="a.py", old="x", new="z", count=3).text.startswith("OK: replaced 3 places")
    assert path.read_text() == "z\ny\nz\nz\n"


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("def f():\n  return 1", "", "nearest is lines 2-3: line 2 differs in indentation only; it is '    def f():'"),
        ("\tdef f():\n", "", "nearest is line 2: line 2 differs in tabs and blanks only; it is '    def f():'"),
        ("class A: \n", "", "nearest is line 1: line 1 differs in white space at its end only; it is 'class A:'"),
        ("return  1", "", "nearest is line 3: line 3 differs in white space only; it is '        return 1'"),
        ("def f(x):", "", "nearest is line 2: line 2 is '    def f():', you gave 'def f(x):'"),
        (
            "class A:\n    def g():\n        return 1\n",
            "",
            "lines 1-3: line 2 is '    def f():', you gave '    def g():'",
        ),
        ("        return 1\n    # more", "", "nearest is lines 3-4: line 4 is ''"),
        ("nothing like it at all", "", "read the file again"),
        ("", "x", "the old text is empty"),
        ("class A:", "class A:", "old and new text are the same"),
    ],
)
def test_a_near_miss_is_pointed_at(use: Use, place: Workplace, old: str, new: str, told: str) -> None:
    """The answer says what to send instead, and the file stays."""
    text = "class A:\n    def f():\n        return 1\n"
    (place.root / "a.py").write_text(text)
    answer = use("edit_file", path="a.py", old=old, new=new)
    assert answer.is_error
    assert told in answer.text
    assert (place.root / "a.py").read_text() == text


def test_an_edit_keeps_line_ends_and_other_bytes(use: Use, place: Workplace) -> None:
    """CR LF, a byte order mark and bytes of another encoding stay."""
    path = place.root / "a.txt"
    path.write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\ncaf\xe9\r\n")
    assert "CR LF" in use("read_file", path="a.txt").text
    assert not use("edit_file", path="a.txt", old="one\ntwo\n", new="1\n2\n3\n").is_error
    assert path.read_bytes() == b"\xef\xbb\xbf1\r\n2\r\n3\r\ncaf\xe9\r\n"
    assert not use("edit_file", path="a.txt", old="2", new="two\nlines").is_error
    assert path.read_bytes() == b"\xef\xbb\xbf1\r\ntwo\r\nlines\r\n3\r\ncaf\xe9\r\n"


@pytest.mark.parametrize(
    ("glob", "path", "matches"),
    [
        ("*.py", "a.py", True),
        ("*.py", "src/a.py", False),
        ("**/*.py", "a.py", True),
        ("**/*.py", "x/y/a.py", True),
        ("src/**", "src/x/y", True),
        ("src/**/test_?.py", "src/test_a.py", True),
        ("src/{a,b}*.ts", "src/b1.ts", True),
        ("src/{a,b}*.ts", "src/c.ts", False),
        ("[!a]x", "bx", True),
        ("[!a]x", "ax", False),
        ("[]]", "]", True),
        ("a+b(c)", "a+b(c)", True),
        ("{a", "{a", True),
        ("**/**/**/**/**/**/**/**/**/**/**/**/x", "a/" * 200, False),
    ],
)
def test_globs_match_as_in_a_shell(glob: str, path: str, matches: bool) -> None:
    """Globs match within a folder, across folders, and one of several alternatives."""
    assert glob_pattern(glob).matches(path) is matches


def test_lent_folders_are_read_and_never_written(use: Use, place: Workplace) -> None:
    """They have absolute paths. A link in them is not followed out, and no other outside file is read."""
    lent = place.root.parent / "lent"
    lent.mkdir()
    (lent / "result.md").write_text("result\n")
    (lent / "link").symlink_to(place.root.parent / "outside" / "secret")
    at = {"readable": (lent,)}
    path = str(lent / "result.md")
    assert use("read_file", at, path=path).text.startswith("     1\tresult\n")
    assert use("read_file", at, path=str(lent / "none")).text.startswith(f"{lent}/none: no such file")
    assert "lies outside the worktree" in use("read_file", at, path=str(lent / "link")).text
    assert "lies outside the worktree" in use("read_file", path=path).text
    for call in (
        use("write_file", at, path=path, content="x"),
        use("edit_file", at, path=path, old="result", new="x"),
        use("apply_patch", at, input=f"*** Begin Patch\n*** Delete File: {path}\n*** End Patch"),
    ):
        assert "lies outside the worktree" in call.text
    assert (lent / "result.md").read_text() == "result\n"
