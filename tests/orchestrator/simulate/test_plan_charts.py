"""A chart is readable: no text touches another, and no line crosses one."""

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator

import pytest
from plans import course, task
from virtual import terms

from forgepool.orchestrator.simulate.bounds import BoundsWatch
from forgepool.orchestrator.simulate.gantt import gantt
from forgepool.orchestrator.simulate.run import play

_SVG = "{http://www.w3.org/2000/svg}"
_LETTER = 6.63
"""Pixels of a letter, in a font whose letters are 0.602 times as wide as high."""
PLAN = course(
    task("models", files=("src/models/**",)),
    task("api", "models", files=("src/api/**",)),
    task("auth", "models", files=("src/api/auth.py",)),
    task("extraction-of-all-texts-there-are", files=("src/**",)),
    *(task(f"page-{one}", files=(f"pages/{one}", *(["index"] if one % 3 == 0 else []))) for one in range(7)),
    task("release", "api", "auth", files=("CHANGELOG.md",)),
)


def drawn(seed: int, **said: float) -> ET.Element:
    told = terms(PLAN, 900.0, **said)
    look = BoundsWatch(index=PLAN, terms=told)
    return ET.fromstring(gantt(play(PLAN, told, seed, watch=look), look, title="night <1> & more"))


@pytest.mark.parametrize(("workers", "bad", "seed"), [(1, 0.0, 1), (2, 0.3, 1), (3, 0.3, 2), (8, 0.5, 3)])
def test_words_of_a_chart_touch(workers: int, bad: float, seed: int) -> None:
    picture = drawn(seed, workers=workers, bad=bad)
    boxes = list(_words(picture))
    for at, (x, y, end, word) in enumerate(boxes):
        for other_x, other_y, other_end, other in boxes[at + 1 :]:
            assert abs(y - other_y) >= 11 or end <= other_x or other_end <= x, f"{word} touches {other}"
    for line_x, top, bottom in _leads(picture):
        for x, y, end, word in boxes:
            assert not (x < line_x < end and top < y - 4 < bottom), f"a line goes through {word}"
    assert all(end <= float(picture.get("width", "0")) for _, _, end, _ in boxes), "a word leaves the picture"


def test_a_task_is_missing_from_the_chart() -> None:
    """Each task has a bar with its full name as title, even without room for a label. Red results are marked."""
    picture = drawn(2, workers=3, bad=0.5)
    titles = " ".join(one.text or "" for one in picture.iter(f"{_SVG}title"))
    assert all(f"{name}: working" in titles for name in ("models", "extraction-of-all-texts-there-are"))
    assert "came back red" in titles and "night <1> & more" in titles
    assert {one.get("stroke") for one in picture.iter(f"{_SVG}rect")} >= {"#b3261e"}


def _words(picture: ET.Element) -> Iterator[tuple[float, float, float, str]]:
    """Yield left end, baseline and right end of each text except the headline."""
    for text in picture.iter(f"{_SVG}text"):
        x, y, word = float(text.get("x", "0")), float(text.get("y", "0")), text.text or ""
        width = _LETTER * len(word)
        start = {"end": x - width, "middle": x - width / 2}.get(text.get("text-anchor", ""), x)
        if text.get("font-weight") is None:
            yield start, y, start + width, word


def _leads(picture: ET.Element) -> Iterator[tuple[float, float, float]]:
    """Yield the lines from bars to their names. The pale lines of the axis are in the background."""
    for path in picture.iter(f"{_SVG}path"):
        found = re.fullmatch(r"M([\d.]+) ([\d.]+)V([\d.]+)", path.get("d", ""))
        assert found is not None
        if path.get("stroke") == "#9a9a9a":
            x, top, bottom = map(float, found.groups())
            yield x, top, bottom
