"""The result is the same with either search program."""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from forgepool.workers.tools.tool import ToolAnswer
from forgepool.workers.tools.workplace import Workplace

Use = Callable[..., ToolAnswer]


@pytest.fixture(params=["git", "rg"])
def path_of_program(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return a PATH with only one of the two programs."""
    program = shutil.which(request.param)
    if program is None:
        pytest.skip(f"there is no {request.param} on this host")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / request.param).symlink_to(program)
    return str(tmp_path / "bin")


@pytest.fixture
def find(use: Use, place: Workplace, path_of_program: str) -> Use:
    def call(pattern: str, **arguments: object) -> ToolAnswer:
        at = {"env": {"PATH": path_of_program}, "readable": (place.root.parent / "lent",)}
        return use("grep", at, pattern=pattern, **arguments)

    return call


@pytest.fixture
def repository(place: Workplace) -> Path:
    files = {
        "src/a.py": "import os\n\ndef shelf():\n    return 1\n\n\nshelf()\n",
        "src/b.py": "shelf = 1\n",
        "src/shelf.py": "class Shelf:\n    shelf: int\n",
        "notes.md": "# Shelf and (shelf)\n",
        "build/out.py": "shelf\n",
        ".hidden/c.py": "hidden shelf\n",
        "odd\nname": "odd shelf\n",
    }
    for name, text in files.items():
        (place.root / name).parent.mkdir(parents=True, exist_ok=True)
        (place.root / name).write_text(text)
    (place.root / "data.bin").write_bytes(b"shelf\0\1\2")
    (place.root / ".gitignore").write_text("build/\n")
    subprocess.run(["git", "init", "-q"], cwd=place.root, check=True)
    subprocess.run(["git", "add", "src/a.py"], cwd=place.root, check=True)
    return place.root


def test_files_that_matter_most_come_first(find: Use, repository: Path) -> None:
    """A matching name ranks first, then more matches. Ignored and binary files are left out."""
    assert find(r"\bshelf\b").text.split("\n") == [
        "src/shelf.py (1 match)",
        "     2:     shelf: int",
        "src/a.py (2 matches)",
        "     3: def shelf():",
        "     7: shelf()",
        ".hidden/c.py (1 match)",
        "     1: hidden shelf",
        "notes.md (1 match)",
        "     1: # Shelf and (shelf)",
        r"'odd\nname' (1 match)",
        "     1: odd shelf",
        "src/b.py (1 match)",
        "     1: shelf = 1",
    ]


def test_lines_around_a_match_are_marked_as_such(find: Use, repository: Path) -> None:
    """A colon marks a match, a dash a nearby line, and gaps are visible."""
    assert find("shelf", path="src/a.py", context=1).text.split("\n") == [
        "src/a.py (2 matches)",
        "     2- ",
        "     3: def shelf():",
        "     4-     return 1",
        "  --",
        "     6- ",
        "     7: shelf()",
    ]


@pytest.mark.parametrize(
    ("given", "files"),
    [
        ({"glob": "*.md"}, ["notes.md"]),
        ({"glob": "src/**/*.py", "pattern": "def"}, ["src/a.py"]),
        ({"path": "src", "glob": "b.py"}, ["src/b.py"]),
        ({"pattern": "(shelf)", "literal": True}, ["notes.md"]),
        ({"pattern": "CLASS", "ignore_case": True}, ["src/shelf.py"]),
        ({"pattern": r"^\w+ = \d$"}, ["src/b.py"]),
        ({"path": "build/out.py"}, ["build/out.py"]),
        ({"pattern": "--help"}, []),
        ({"pattern": "nowhere"}, []),
        ({"glob": "*.rs"}, []),
    ],
)
def test_the_search_is_narrowed(find: Use, repository: Path, given: dict[str, object], files: list[str]) -> None:
    """The filters are folder, file, glob and case. A file named explicitly is searched even if git ignores it."""
    answer = find(**({"pattern": "shelf"} | given))
    heads = [line.split(" (")[0] for line in answer.text.split("\n") if line.endswith(("match)", "matches)"))]
    assert heads == files
    assert bool(files) or answer.text.startswith("no line below ")
    assert not answer.is_error


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"pattern": "("}, "give a regular expression"),
        ({"pattern": "a\nb"}, "the pattern spans lines"),
        ({"pattern": "a", "path": "none"}, "none: no such file or folder; use glob"),
        ({"pattern": "shelf", "glob": "[z-a]"}, "give a glob such as"),
        ({"pattern": "a", "path": "/etc"}, "lies outside the worktree"),
    ],
)
def test_what_cannot_be_searched_is_told_in_one_line(
    find: Use, repository: Path, given: dict[str, str], told: str
) -> None:
    answer = find(**given)
    assert answer.is_error
    assert told in answer.text
    assert "\n" not in answer.text


def test_a_minified_file_is_shown_by_its_match(find: Use, repository: Path) -> None:
    """A line of a megabyte does not fill the conversation."""
    (repository / "min.js").write_text("x" * 500_000 + "needle" + "y" * 500_000)
    text = find("needle").text
    assert "needle" in text
    assert "[line of 1,000,006 characters]" in text
    assert len(text) < 500


def test_many_matches_are_capped_and_what_is_left_out_is_named(find: Use, repository: Path) -> None:
    """Every file is shown, or counted in the note."""
    for number in range(30):
        (repository / f"many{number:02}.txt").write_text("needle\n" * (number + 1))
    text = find("needle").text
    shown = sum(line.endswith(": needle") for line in text.split("\n"))
    note = text.split("\n")[-1]
    assert text.startswith("many29.txt (30 matches)")
    assert shown <= 100
    assert note.startswith(f"[{465 - shown} more in 30 files: many29.txt 25, ")
    assert note.endswith(", ...; narrow the pattern, the path or the glob]")


def test_a_flood_of_long_lines_is_capped(find: Use, repository: Path) -> None:
    for number in range(20):
        (repository / f"wide{number:02}.txt").write_text(("needle" + "x" * 230 + "\n") * 20)
    text = find("needle", context=3).text
    assert len(text) < 22_000
    assert text.split("\n")[-1].startswith("[")


def test_lent_folders_are_searched_by_their_own_path(find: Use, repository: Path, place: Workplace) -> None:
    """Results of other tasks are outside the worktree. Nothing beside them is found."""
    lent = place.root.parent / "lent"
    lent.mkdir()
    (lent / "result.md").write_text("the shelf holds\n")
    assert find("shelf", path=str(lent)).text == f"{lent / 'result.md'} (1 match)\n     1: the shelf holds"
    assert find("shelf", path=str(lent / "result.md")).text.endswith("     1: the shelf holds")
    assert find("secret", path=str(place.root.parent / "outside")).is_error


def test_the_search_takes_no_word_of_the_repository_s_configuration(
    find: Use, repository: Path, tmp_path: Path
) -> None:
    """No program from the git configuration of an agent or a hostile repository runs."""
    evil = f"touch {tmp_path}/ran"
    (repository / ".gitattributes").write_text("* diff=evil filter=evil\n")
    for name in ("core.fsmonitor", "core.pager", "diff.evil.textconv", "filter.evil.clean", "filter.evil.smudge"):
        subprocess.run(["git", "config", name, evil], cwd=repository, check=True)
    (repository / ".ripgreprc").write_text(f"--pre={evil}\n")
    assert "src/b.py" in find("shelf", glob="*.py").text
    assert "src/b.py" in find("shelf", path="src/b.py").text
    assert not (tmp_path / "ran").exists()


def test_no_search_outlives_the_attempt(use: Use, place: Workplace, repository: Path, path_of_program: str) -> None:
    """Without time left the answer comes at once."""
    (repository / "big.txt").write_text("a" * 40 + "\n" * 2_000_000)
    at = {"env": {"PATH": path_of_program}, "left_s": lambda: 0.0}
    assert use("grep", at, pattern="(a+)+b$").text
    assert os.listdir(place.tmp) == []  # noqa: PTH208 - names only
