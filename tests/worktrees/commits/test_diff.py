"""
Differences are exact to the byte: lines with their numbers, names as git holds them, and one id for one difference.
"""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from repositories import Files, MadeCommits
from repositories import git as by_hand

from forgepool.worktrees.commits import diff
from forgepool.worktrees.commits.compose import tree_of
from forgepool.worktrees.commits.diff import (
    FileDiff,
    contents,
    diff_tail,
    parse_hunks,
    patch_id,
    tree_diff,
    unread_paths,
)
from forgepool.worktrees.git.git import CommitId, Git, GitFailed

_NONE = "000000"
_LONG = b"".join(b"line %d\n" % number for number in range(60))


class Trees(MadeCommits):
    """Commits, and the differences between them."""

    def diff(self, before: Files, after: Files) -> tuple[FileDiff, ...]:
        return tree_diff(self.git, *self.pair(before, after))

    def id(self, before: Files, after: Files) -> str:
        return patch_id(self.git, *self.pair(before, after))


@pytest.fixture
def trees(tmp_path: Path) -> Trees:
    return Trees(tmp_path / "trees.git")


def _lines(file: FileDiff) -> tuple[list[tuple[int, str]], list[tuple[int, str]]]:
    return [(one.number, one.text) for one in file.removed], [(one.number, one.text) for one in file.added]


def test_lines_are_told_with_their_numbers_on_both_sides(trees: Trees) -> None:
    before = b"a\nb\nc\nd\ne\nf\ng\nh\n"
    after = b"a\nB\nc\nd\nd2\ne\nf\nh\n"
    (file,) = trees.diff({"x": before}, {"x": after})
    assert (file.status, file.path, file.old_path, file.binary, file.cut) == ("M", "x", None, False, False)
    assert _lines(file) == ([(2, "b"), (7, "g")], [(2, "B"), (5, "d2")])


def test_every_kind_of_change_is_told(trees: Trees) -> None:
    commit = b"7ec74e2a3f0c9b1d5e6f7a8b9c0d1e2f3a4b5c6d"
    found = trees.diff(
        {"gone": b"x\n", "mode": b"x\n", "old": _LONG, "type": b"x\n", "same": b"x\n", "sub": ("160000", commit)},
        {
            "added": b"1\n2",
            "mode": ("100755", b"x\n"),
            "new": _LONG + b"one more\n",
            "type": ("120000", b"same"),
            "same": b"x\n",
            "sub": ("160000", commit[::-1]),
            "empty": b"",
        },
    )
    told = {file.path: file for file in found}
    assert list(told) == ["added", "empty", "gone", "mode", "new", "sub", "type"]
    assert (told["added"].status, told["added"].old_mode, _lines(told["added"])) == (
        "A",
        _NONE,
        ([], [(1, "1"), (2, "2")]),
    )
    assert _lines(told["empty"]) == ([], [])
    assert (told["gone"].status, told["gone"].mode, _lines(told["gone"])) == ("D", _NONE, ([(1, "x")], []))
    assert (told["mode"].old_mode, told["mode"].mode, _lines(told["mode"])) == ("100644", "100755", ([], []))
    assert (told["new"].status, told["new"].old_path, _lines(told["new"])) == ("R", "old", ([], [(61, "one more")]))
    assert (told["type"].status, told["type"].mode) == ("T", "120000")
    assert _lines(told["type"]) == ([(1, "x")], [(1, "same")])
    assert _lines(told["sub"])[1] == [(1, f"Subproject commit {commit[::-1].decode()}")]


def test_names_may_hold_anything(trees: Trees) -> None:
    names = ("a b", 'a"b', "a\nb", "caf" + os.fsdecode(b"\xe9"), "@@ -1 +1 @@", "diff --git a/0 b/0", "-x", "a\tb")
    found = trees.diff(dict.fromkeys(names, b"1\n"), dict.fromkeys(names, b"2\n"))
    assert {file.path for file in found} == set(names)
    assert all(_lines(file) == ([(1, "1")], [(1, "2")]) for file in found)


def test_lines_that_look_like_headings_are_lines(trees: Trees) -> None:
    text = b"--- a/x\n+++ b/x\n@@ -1 +1 @@\ndiff --git a/00000000 b/00000000\n\\ No newline at end of file\n"
    (file,) = trees.diff({"x": b"start\nend\n"}, {"x": b"start\n" + text + b"end\n"})
    assert [line.text for line in file.added] == text.decode().splitlines()


def test_lines_around_a_change_count_on_both_sides() -> None:
    patch = b"diff --git a/00000003 b/00000003\nindex 1..2\n@@ -4,4 +7,5 @@ f\n a\n-b\n+c\n d\n+e\n f\n\\ No newline\n"
    ((number, (hunk,)),) = parse_hunks(patch).items()
    assert (number, [*hunk.removed], [*hunk.added]) == (3, [(5, b"b")], [(8, b"c"), (10, b"e")])
    assert hunk.before == b"\na\nb\nd\nf"
    assert len(hunk.lines) == 7


def test_ends_of_lines_are_no_text_and_a_missing_one_is_a_change(trees: Trees) -> None:
    (windows,) = trees.diff({"x": b"a\r\nb\r\n"}, {"x": b"a\r\nc\r\n"})
    assert _lines(windows) == ([(2, "b")], [(2, "c")])
    (without,) = trees.diff({"x": b"a\nb\n"}, {"x": b"a\nb"})
    assert _lines(without) == ([(2, "b")], [(2, "b")])
    (within,) = trees.diff({"x": b"a\n"}, {"x": b"a\rb\n"})
    assert _lines(within)[1] == [(1, "a\rb")]


def test_bytes_that_are_no_text_are_written_as_escapes(trees: Trees) -> None:
    (file,) = trees.diff({"x": b"a\n"}, {"x": b"caf\xe9 \xc3\xa9\n"})
    assert _lines(file)[1] == [(1, "caf\\xe9 é")]


@pytest.mark.parametrize("rule", [b"* -diff\n", b"* binary\n", b"* diff=none\n", b"*.py linguist-generated\n"])
def test_attributes_of_the_compared_trees_hide_nothing(trees: Trees, rule: bytes) -> None:
    found = trees.diff({"a.py": b"1\n", ".gitattributes": rule}, {"a.py": b"2\n", ".gitattributes": rule + b"\n"})
    assert _lines(found[1]) == ([(1, "1")], [(1, "2")])


def test_attributes_of_a_checkout_and_of_its_index_hide_nothing(trees: Trees, tmp_path: Path) -> None:
    base, tree = trees.pair({"a.py": b"1\n", ".gitattributes": b"* binary\n"}, {"a.py": b"2\n"})
    by_hand(tmp_path, "clone", "-q", "--no-checkout", str(trees.git.git_dir), "work")
    by_hand(tmp_path / "work", "checkout", "-q", "--detach", base)
    checkout = Git(git_dir=tmp_path / "work/.git", work_tree=tmp_path / "work")
    files = {file.path: file for file in tree_diff(checkout, base, tree)}
    assert _lines(files["a.py"]) == ([(1, "1")], [(1, "2")])


def test_a_nul_makes_a_file_binary_and_only_near_its_beginning(trees: Trees) -> None:
    near, far = trees.diff({"far": b"x\n", "near": b"x\n"}, {"near": b"x\0y\n", "far": b"x\n" * 4_001 + b"\0\n"})[::-1]
    assert (near.binary, near.added) == (True, ())
    assert (far.binary, len(far.added)) == (False, 4_001)


def test_a_file_too_large_is_cut_and_said_to_be(trees: Trees, monkeypatch: pytest.MonkeyPatch) -> None:
    large = b"x\n" * (diff.MOST_BYTES_OF_A_FILE // 2 + 1)
    files = {file.path: file for file in trees.diff({"a": b"1\n"}, {"a": large, "b": b"1\n"})}
    assert (files["a"].cut, files["a"].added, files["b"].cut) == (True, (), False)
    assert files["a"].id != files["a"].old_id
    monkeypatch.setattr(diff, "MOST_BYTES", 5)
    both = trees.diff({}, {"a": b"123\n", "b": b"456\n"})
    assert [file.cut for file in both] == [False, True]


def test_contents_are_read_whole_by_their_ids(trees: Trees) -> None:
    files = trees.diff({}, {"a": b"blob 3\n\n", "b": b"", "c": b"\0\xff\n", "large": b"x" * 20})
    found = contents(trees.git, [file.id for file in files], each=10)
    assert [found.get(file.id) for file in files] == [b"blob 3\n\n", b"", b"\0\xff\n", None]
    with pytest.raises(GitFailed):
        contents(trees.git, ["1" * 40])


def test_equal_differences_have_equal_ids_wherever_the_target_has_moved(trees: Trees) -> None:
    new = _LONG.replace(b"line 30\n", b"line thirty\n")
    first = trees.id({"x": _LONG}, {"x": new})
    assert trees.id({"x": _LONG, "y": b"1\n"}, {"x": new, "y": b"1\n"}) == first
    above = b"further\n" * 9
    assert trees.id({"x": above + _LONG}, {"x": above + new}) == first
    assert trees.id({"x": _LONG + above}, {"x": new + above}) == first


@pytest.mark.parametrize(
    "after",
    [
        {"x": _LONG.replace(b"line 30\n", b"line  thirty\n")},
        {"x": _LONG.replace(b"line 30\n", b"line thirty \n")},
        {"x": _LONG.replace(b"line 30\n", b"line thirty\r\n")},
        {"x": _LONG.replace(b"line 31\n", b"line thirty\n")},
        {"x": _LONG.replace(b"line 30\n", b"\nline thirty\n")},
        {"x": ("100755", _LONG.replace(b"line 30\n", b"line thirty\n"))},
        {"x": _LONG.replace(b"line 30\n", b"line thirty\n")[:-1]},
        {"y": _LONG.replace(b"line 30\n", b"line thirty\n")},
        {"x": _LONG.replace(b"line 30\n", b"line thirty\n"), "z": b""},
    ],
)
def test_any_other_difference_has_another_id(trees: Trees, after: Files) -> None:
    first = trees.id({"x": _LONG}, {"x": _LONG.replace(b"line 30\n", b"line thirty\n")})
    assert trees.id({"x": _LONG}, after) != first


def test_the_same_line_elsewhere_in_a_file_that_repeats_itself_has_another_id(trees: Trees) -> None:
    block = b"def f():\n    a()\n    b()\n    c()\n    d()\n    e()\n    g()\n"
    here = block.replace(b"    c()\n", b"    c()\n    return\n")
    assert trees.id({"x": block * 2}, {"x": here + block}) != trees.id({"x": block * 2}, {"x": block + here})


def test_what_is_binary_or_too_large_counts_by_its_bytes(trees: Trees) -> None:
    large = b"x\n" * (diff.MOST_BYTES_OF_A_FILE // 2 + 1)
    assert trees.id({"a": b"\0"}, {"a": b"\0\1"}) != trees.id({"a": b"\0"}, {"a": b"\0\2"})
    assert trees.id({"a": b"1\n"}, {"a": large}) != trees.id({"a": b"1\n"}, {"a": large + b"y"})


_text = st.lists(st.sampled_from([b"a\n", b"b\n", b"  b\n", b"\n", b"c"]), max_size=12).map(b"".join)
_files = st.dictionaries(st.sampled_from(["x", "y"]), _text)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(before=_files, one=_files, other=_files)
def test_on_one_commit_ids_are_equal_just_where_trees_are(
    trees: Trees, before: Files, one: Files, other: Files
) -> None:
    """The files are built from few different lines, which makes equal ids likely."""
    base = trees.commit(before)
    first, second = (tree_of(trees.git, trees.commit(files)) for files in (one, other))
    assert (patch_id(trees.git, base, first) == patch_id(trees.git, base, second)) == (first == second)


def test_the_tail_is_what_people_read_and_no_longer_than_asked_for(trees: Trees) -> None:
    base, tree = trees.pair(
        {"a": b"1\n2\n3\n", "b": b"\0"}, {"a": b"1\ntwo\n3\n", "b": b"\0\0", "c\nd": ("100755", b"new\n")}
    )
    told = diff_tail(trees.git, base, tree).split("\n")
    assert told[:6] == ["diff --git a/a b/a", "@@ -1 +1 @@", " 1", "-2", "+two", " 3"]
    assert told[-3:] == ["diff --git a/c\\nd b/c\\nd", "mode 000000 -> 100755", "+new"]
    assert any(line.startswith("contents differ") for line in told)
    assert diff_tail(trees.git, base, tree, lines=2).split("\n") == told[-2:]
    assert len(diff_tail(trees.git, base, tree, characters=10)) == 10


def test_generated_and_vendored_are_what_the_commit_itself_calls_so(trees: Trees, tmp_path: Path) -> None:
    rules = b"gen/** linguist-generated\nlib/** linguist-vendored=true\nlib/own.py -linguist-vendored\n"
    base = trees.commit(
        {".gitattributes": rules, "deep/er/.gitattributes": b"x.py linguist-generated=true\n", "a": b""}
    )
    asked = [
        "gen/a.py",
        "lib/a b.py",
        "lib/own.py",
        "deep/er/x.py",
        "deep/x.py",
        "a.py",
        "gen/caf" + os.fsdecode(b"\xe9"),
    ]
    assert unread_paths(trees.git, base, asked) == {"gen/a.py", "lib/a b.py", "deep/er/x.py", asked[-1]}
    assert unread_paths(trees.git, trees.commit({"a": rules}), asked) == frozenset()
    (trees.git.git_dir / ".gitattributes").write_bytes(b"* linguist-generated\n")
    assert "a.py" not in unread_paths(trees.git, base, asked)
    other = trees.commit({".gitattributes": b"a.py linguist-generated\n", "a.py": b""})
    assert unread_paths(trees.git, other, asked) == {"a.py", "gen/a.py"}
    assert not (trees.git.git_dir / "index").exists()


def test_a_missing_commit_is_a_failure(trees: Trees) -> None:
    base, tree = trees.pair({"a": b"1\n"}, {"a": b"2\n"})
    for call in (tree_diff, patch_id, diff_tail):
        with pytest.raises(GitFailed):
            call(trees.git, CommitId("1" * 40), tree)
    with pytest.raises(GitFailed):
        unread_paths(trees.git, CommitId("1" * 40), ["a"])
    assert base
