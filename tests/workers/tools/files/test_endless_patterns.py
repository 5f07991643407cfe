"""Patterns and texts on which a plain regular expression would take forever."""

import subprocess
import time
from collections.abc import Callable, Iterator

import pytest

from forgepool.workers.tools.commands.runners import find_failed_runner, find_passed_runner, plain, why_broken
from forgepool.workers.tools.files.edit import near_miss
from forgepool.workers.tools.files.listing import glob_pattern
from forgepool.workers.tools.tool import ToolAnswer
from forgepool.workers.tools.workplace import ToolRefused, Workplace

Use = Callable[..., ToolAnswer]


@pytest.fixture(autouse=True)
def soon() -> Iterator[None]:
    """Fail if the block takes more than four seconds of CPU."""
    began = time.process_time()
    yield
    assert time.process_time() - began < 4


@pytest.mark.parametrize(
    ("glob", "path"),
    [("*a" * 12 + "b", "a" * 200), ("**/a/" * 12 + "**/b", "a/" * 200), ("**" * 40 + "b", "a" * 200)],
)
def test_many_stars_do_not_multiply(glob: str, path: str) -> None:
    """Each token is matched against the path once."""
    assert not glob_pattern(glob).matches(path)
    assert glob_pattern(glob).matches(path + "/b") or glob_pattern(glob).matches(path + "b")


def test_braces_that_multiply_are_refused() -> None:
    """The number of expanded patterns is limited. A few, also nested ones, are expanded."""
    with pytest.raises(ToolRefused, match="more than 64 patterns"):
        glob_pattern("{a,a}{b,b}" * 14)
    nested = glob_pattern("src/{a,{b,c}d}/*.{py,ts}")
    assert [nested.matches(f"src/{each}/x.ts") for each in ("a", "bd", "cd", "b")] == [True, True, True, False]


def test_file_names_are_not_matched_with_the_models_pattern(use: Use, place: Workplace) -> None:
    """They are ranked by its words. A search program can be killed, but the worker's own matching could not."""
    subprocess.run(["git", "init", "-q", str(place.root)], check=True)
    name = "a" * 60
    (place.root / f"{name}!").write_text("b\nb\n")
    (place.root / "shelf.py").write_text("one b\n")
    answer = use("grep", pattern="(a|aa)+$|b|shelf")
    assert answer.text.index("shelf.py") < answer.text.index(name)


def test_a_verdict_does_not_take_long(use: Use) -> None:
    """The texts are megabytes of empty lines, blanks, or one word."""
    for text in ("\n" * 2_000_000, " " * 2_000_000, "FAIL [" * 100_000, "1 " * 500_000):
        assert (find_failed_runner(plain(text)), find_passed_runner(text), why_broken(text)) == (None, None, None)
    assert find_failed_runner("x\n" * 1_000_000 + "1 failed in 0.1s") == "pytest"


def test_a_near_miss_does_not_take_long() -> None:
    """The files repeat one line, or have very many similar lines."""
    assert "nearest" in near_miss("}\n" * 20_000, "}\n" * 2_000)
    near_miss("\n".join(f"value_{number} = {'x' * 300}" for number in range(15_000)), f"value_y = {'x' * 299}z")
