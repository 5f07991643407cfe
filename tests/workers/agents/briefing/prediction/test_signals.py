"""Each signal by itself: what a text names, what a tree defines and links, and what the past says."""

from collections import defaultdict

import pytest

from forgepool.workers.agents.briefing.prediction.facts import facts_of
from forgepool.workers.agents.briefing.prediction.history import PastCommit
from forgepool.workers.agents.briefing.prediction.replay import WEIGH
from forgepool.workers.agents.briefing.prediction.signals import (
    Past,
    Signal,
    find_defined,
    find_evidence,
    find_named,
    find_words,
    identifiers,
)
from forgepool.workers.agents.briefing.prediction.snapshot import IndexedTree
from forgepool.worktrees.commits.changes import PathChange

PATHS = (
    "Makefile",
    "install",
    "src/auth/login.py",
    "src/web/login.py",
    "src/auth/token.py",
    "docs/token.md",
    "src/auth/__init__.py",
)


def snapshot(files: dict[str, str]) -> IndexedTree:
    return IndexedTree({path: path for path in files}, {path: facts_of(text) for path, text in files.items()})


def commit(text: str, *paths: str) -> PastCommit:
    changes = (PathChange(status="M", path=path, old_path=None, mode="100644", old_mode="100644") for path in paths)
    return PastCommit(text=text, changes=tuple(changes))


def learned(*commits: PastCommit) -> Past:
    past = Past()
    for each in commits:
        past.learn(each)
    return past


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Mend src/auth/token.py, please.", {"src/auth/token.py": 1.0}),
        ("see `./src/auth/token.py:14`", {"src/auth/token.py": 1.0}),
        ("token.md is old", {"docs/token.md": 0.9}),
        ("auth/login.py fails", {"src/auth/login.py": 0.9}),
        ("login.py fails", {"src/auth/login.py": 0.6, "src/web/login.py": 0.6}),
        ("call src.auth.token.check from", {"src/auth/token.py": 0.9}),
        ("the package src.auth is", {"src/auth/__init__.py": 0.9}),
        ("run Makefile", {"Makefile": 1.0}),
        ("please install", {}),
        ("a token for login", {}),
        ("nothing/here.py", {}),
    ],
)
def test_words_that_name_files_are_found(text: str, expected: dict[str, float]) -> None:
    """A more exact name is stronger, and ordinary words name no file."""
    tree = snapshot(dict.fromkeys(PATHS, ""))
    found: dict[str, float] = defaultdict(float)
    for path, _, evidence in find_named(text, tree):
        found[path] = max(found[path], evidence.strength)
    assert found == expected


def test_ordinary_words_find_files_called_so() -> None:
    """The whole name counts more than a part of it, and a word that many files share counts less."""
    tree = snapshot(dict.fromkeys(("src/cache_utils.py", "src/cache.py", "src/web.py"), ""))
    found = {path: evidence.strength for path, _, evidence in find_words("Let caches expire", tree)}
    assert found["src/cache.py"] > found["src/cache_utils.py"] > 0
    assert "src/web.py" not in found


def test_identifiers_are_what_no_sentence_has() -> None:
    text = "Rename `store` and TokenStore, read_token, getToken; the Token and API stay, e.g. in here"
    assert identifiers(text) == ("store", "TokenStore", "read_token", "getToken")


def test_files_that_define_a_name_are_found() -> None:
    """The place that defines it counts, not a use of it; a name in backticks counts more than a plain word."""
    tree = snapshot({"a.py": "def slugify(x):\n    pass\n", "b.py": "slugify(1)\n"})
    quoted = list(find_defined("mend `slugify`", tree))
    plain = list(find_defined("mend slugify", tree))
    assert [(path, evidence.reason) for path, _, evidence in quoted] == [("a.py", "defines slugify")]
    assert [path for path, *_ in plain] == ["a.py"]
    assert quoted[0][2].strength > plain[0][2].strength


def test_a_name_that_many_files_have_says_nothing() -> None:
    """This holds for a name defined in many files and for a common file name."""
    tree = snapshot({f"p{number}/setup.py": "def do_setup():\n    pass\n" for number in range(5)})
    assert list(find_defined("do_setup", tree)) == []
    assert list(find_named("setup.py", tree)) == []


TREE = {
    "src/parser.py": "class Parser:\n    pass\n",
    "src/reader.py": "from src.parser import Parser\n",
    "src/rules.py": "LIMIT = 1\n",
    "tests/test_parser.py": "import os\n",
    "tests/test_all.py": "from src import parser\n",
    "docs/guide.md": "",
    "CHANGES.md": "",
}


OTHERS = (commit("y", "gone.py"),) * 200


@pytest.mark.parametrize(
    ("signal", "text", "given", "past", "path", "reason"),
    [
        ("named", "Speed up rules.py", (), OTHERS, "src/rules.py", "the task names rules.py"),
        ("word", "Speed up the guide", (), OTHERS, "docs/guide.md", "the task says guide"),
        ("defined", "Raise `LIMIT`", (), OTHERS, "src/rules.py", "defines LIMIT"),
        (
            "together",
            "Go on",
            ("src/rules.py",),
            (commit("x", "src/rules.py", "docs/guide.md"),) * 4 + (commit("x", "src/rules.py"), *OTHERS),
            "docs/guide.md",
            "changed together with src/rules.py in 4 of 5 commits",
        ),
        (
            "said",
            "Honour umlauts",
            (),
            (commit("Mend umlauts", "src/rules.py"),) * 3 + OTHERS,
            "src/rules.py",
            "changed in 3 of 3 commits that say umlaut",
        ),
        ("often", "Go on", (), (commit("x", "CHANGES.md"),) * 5, "CHANGES.md", "changed in 5 of the last 5 commits"),
        ("imports", "Go on", ("src/parser.py",), OTHERS, "src/reader.py", "imports src/parser.py"),
        ("imports", "Go on", ("src/reader.py",), OTHERS, "src/parser.py", "is imported by src/reader.py"),
        ("tests", "Go on", ("src/parser.py",), OTHERS, "tests/test_parser.py", "tests src/parser.py, by its name"),
        ("tests", "Go on", ("src/parser.py",), OTHERS, "tests/test_all.py", "imports src/parser.py"),
        (
            "tests",
            "Go on",
            ("tests/test_parser.py",),
            OTHERS,
            "src/parser.py",
            "is tested by tests/test_parser.py, by its name",
        ),
    ],
)
def test_each_signal_finds_a_file(
    signal: Signal, text: str, given: tuple[str, ...], past: tuple[PastCommit, ...], path: str, reason: str
) -> None:
    """No other finds it, but that a file's name is a word of the text, too."""
    found = find_evidence(text, given, snapshot(TREE), learned(*past), WEIGH["text"])[path]
    assert found[signal].reason == reason
    assert found.keys() - {"word"} == {signal} - {"word"}


def test_a_found_file_leads_to_its_companions() -> None:
    """A file that the text names is where to start from, as one that is given."""
    found = find_evidence("Mend parser.py", (), snapshot(TREE), Past(), WEIGH["text"])
    assert {"src/parser.py", "src/reader.py", "tests/test_parser.py"} <= found.keys()


def test_a_sweeping_commit_says_nothing() -> None:
    past = learned(*[commit("all", *(f"f{number}.py" for number in range(40)))] * 5)
    assert (past.commits, past.together) == (0, {})


def test_files_that_are_given_or_gone_are_not_predicted() -> None:
    past = learned(*[commit("x", "src/rules.py", "gone.py", "CHANGES.md")] * 5)
    found = find_evidence("gone.py", ("src/rules.py",), snapshot(TREE), past, WEIGH["text"])
    assert found.keys() == {"CHANGES.md"}
