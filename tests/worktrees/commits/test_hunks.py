"""Parts of a change: together they are the change, and any of them can be applied without the others."""

import random
from pathlib import Path

import pytest
from repositories import Files, MadeCommits

from forgepool.worktrees.commits.candidate import commit_candidate
from forgepool.worktrees.commits.compose import tree_of
from forgepool.worktrees.commits.hunks import ChangePart, find_parts_at, split, tree_of_parts

_LONG = b"".join(b"line %d\n" % number for number in range(60))
_SUBMODULE = b"7ec74e2a3f0c9b1d5e6f7a8b9c0d1e2f3a4b5c6d"


@pytest.fixture
def made(tmp_path: Path) -> MadeCommits:
    return MadeCommits(tmp_path / "made.git")


def _changed(numbers: range, word: bytes = b"new") -> bytes:
    return b"".join(b"%s %d\n" % (word if at in numbers else b"line", at) for at in range(60))


def _places(parts: tuple[ChangePart, ...]) -> list[str]:
    return [part.place for part in parts]


def test_each_hunk_is_applied_alone(made: MadeCommits) -> None:
    after = _LONG.replace(b"line 5\n", b"five\nand a half\n").replace(b"line 30\n", b"").replace(b"line 59\n", b"end")
    base, tree = made.pair({"a": _LONG}, {"a": after})
    parts = split(made.git, base, tree)
    assert _places(parts) == ["a:6-7", "a:32", "a:60"]
    alone = [
        _LONG.replace(b"line 5\n", b"five\nand a half\n"),
        _LONG.replace(b"line 30\n", b""),
        _LONG.replace(b"line 59\n", b"end"),
    ]
    for part, content in zip(parts, alone, strict=True):
        assert tree_of_parts(made.git, base, [part]) == tree_of(made.git, made.commit({"a": content}))


@pytest.mark.parametrize(
    ("before", "after", "places"),
    [
        ({"a": b"x\n"}, {"a": b"x\n", "n": b"1\n"}, ["n"]),
        ({"a": b"x\n", "o": b"1\n"}, {"a": b"x\n"}, ["o"]),
        ({"old": _LONG}, {"new": _changed(range(2))}, ["new, old"]),
        ({"a": _LONG}, {"a": ("100755", _changed(range(2)) + b"end\n")}, ["a"]),
        ({"a": b"\0" + _LONG}, {"a": b"\0" + _changed(range(2))}, ["a"]),
        ({"a": b"x\n"}, {"a": ("120000", b"there")}, ["a"]),
        ({"a": ("160000", _SUBMODULE)}, {"a": ("160000", _SUBMODULE[::-1])}, ["a"]),
        ({"a": b"x\n", "a-b": b"y\n"}, {"a/b": b"z\n", "a/c": b"z\n", "a-b": b"yy\n"}, ["a, a/b, a/c", "a-b:1"]),
        ({"a/b": b"z\n", "a/c": b"q\n"}, {"a": b"x\n"}, ["a, a/b, a/c"]),
        ({"a": b""}, {"a": b"1\n2\n"}, ["a:1-2"]),
        ({"a": b"1\r\n2"}, {"a": b"1\r\n2\n"}, ["a:2"]),
    ],
)
def test_a_file_that_makes_sense_whole_is_one_part(
    made: MadeCommits, before: Files, after: Files, places: list[str]
) -> None:
    base, tree = made.pair(before, after)
    parts = split(made.git, base, tree)
    assert _places(parts) == places
    assert tree_of_parts(made.git, base, parts) == tree
    assert tree_of_parts(made.git, base, []) == tree_of(made.git, base)


def test_all_parts_of_any_change_are_the_change(made: MadeCommits) -> None:
    """Any of them can be left out, and what is left out is just the rest of the change."""
    for seed in range(12):
        chance = random.Random(seed)
        lines = [b"%d\n" % chance.randint(0, 9) for _ in range(chance.randint(0, 80))]
        edited = list(lines)
        for _ in range(chance.randint(1, 9)):
            at = chance.randint(0, len(edited))
            edited[at : at + chance.randint(0, 3)] = [b"new %d\n" % seed] * chance.randint(0, 3)
        before, after = b"".join(lines), b"".join(edited).removesuffix(chance.choice([b"\n", b""]))
        base, tree = made.pair({"a": before, "b": b"b"}, {"a": after, "b": b"b"})
        parts = split(made.git, base, tree)
        assert tree_of_parts(made.git, base, parts) == tree
        some = [part for part in parts if chance.random() < 0.5]
        half = tree_of_parts(made.git, base, some)
        between = commit_candidate(made.git, base=base, tree=half, message="half", at=0)
        assert len(split(made.git, base, half)) == len(some)
        rest = split(made.git, between, tree)
        assert tree_of_parts(made.git, between, rest) == tree


def test_a_place_is_found_in_the_tree_of_some_parts(made: MadeCommits) -> None:
    after = _LONG.replace(b"line 5\n", b"").replace(b"line 30\n", b"BAD\n")
    base, tree = made.pair({"a": _LONG, "b": b"x"}, {"a": after, "b": b"y"})
    first, second, other = split(made.git, base, tree)
    assert [*find_parts_at([first, second, other], "a", 30)] == [1]
    assert [*find_parts_at([second, other], "a", 31)] == [0]
    assert [*find_parts_at([first, second, other], "a", 0)] == [0, 1]
    assert [*find_parts_at([first, second, other], "a", 50)] == []
    assert [*find_parts_at([first, second, other], "b", 1)] == [2]


def test_parts_know_the_names_that_they_bring_and_take(made: MadeCommits) -> None:
    use = b"def work():\n    return old_name()\n"
    base, tree = made.pair(
        {"lib": b"def old_name():\n    return 1\n", "use": use},
        {
            "lib": b"def new_name():\n    return 1\n",
            "use": use.replace(b"old", b"new"),
            "more": b"def work():\n  new_name()\n",
        },
    )
    lib, more, used = split(made.git, base, tree)
    assert lib.names == used.names == {b"old_name", b"new_name"}
    assert more.names == {b"new_name"}
