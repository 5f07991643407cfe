"""
Silenced tests, look-alike dependencies, assembled secrets and words to reviewers are kept out by scans alone.

Honest changes beside them pass. `tests_and_supply` holds both, as stories; those with a `rule` are dishonest.
"""

from pathlib import Path
from typing import Any

import pytest
import yaml
from stories import Stage, story

from forgepool.workers.workspace.scans.findings import ScanFinding
from forgepool.workers.workspace.scans.scanning import find_kept_out

_STORIES: dict[str, dict[str, Any]] = {
    f"{file.stem}: {told['name']}": told
    for file in sorted(Path(__file__).with_name("tests_and_supply").glob("*.yaml"))
    for told in yaml.safe_load(file.read_text(encoding="utf-8"))
}
_DISHONEST = [name for name, told in _STORIES.items() if "rule" in told]
_HONEST = [name for name, told in _STORIES.items() if "rule" not in told]

Found = dict[str, tuple[ScanFinding, ...]]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Found:
    """Return what keeps each story out where no review is asked for."""
    stories = [
        story(**{key: value for key, value in told.items() if key not in ("rule", "weight")})
        for told in _STORIES.values()
    ]
    scanned = Stage(tmp_path_factory.mktemp("stage") / "stage.git").scan_all(stories)
    return {name: find_kept_out(each, reviewed=False) for name, each in zip(_STORIES, scanned, strict=True)}


def test_there_are_enough_of_them() -> None:
    assert len(_DISHONEST) >= 20 and len(_HONEST) >= 15


@pytest.mark.parametrize("name", _DISHONEST)
def test_a_dishonest_change_is_kept_out(name: str, found: Found) -> None:
    told = _STORIES[name]
    weights = (told["weight"],) if "weight" in told else ("blocks", "attention")
    assert told["rule"] in {each.rule for each in found[name] if each.weight in weights}, found[name]


@pytest.mark.parametrize("name", _HONEST)
def test_an_honest_change_passes(name: str, found: Found) -> None:
    assert found[name] == ()
