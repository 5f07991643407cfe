"""A commit or a set-up that replaces a kept folder by a link does not lead the harness outside."""

from pathlib import Path

import pytest
from gates import Gate, check

from forgepool.workers.policy.gate_file.document import CheckDefinition
from forgepool.workers.schema.orders import CachedFolder


@pytest.fixture
def count(gate: Gate, tmp_path: Path) -> Path:
    """Return the file in which set-up commands count their runs, outside the checkout and without a sandbox."""
    gate.unconfined()
    return tmp_path / "set-ups"


def with_setup(count: Path, setup: str) -> CheckDefinition:
    cache = (CachedFolder(folder="deps/of", key="lock"),)
    return check("test -e lock", setup=f"echo x >> {count} && {setup}", cache=cache)


def test_a_link_in_the_place_of_a_kept_folder_leads_nothing_outside(gate: Gate, count: Path) -> None:
    """The folder is not copied through the link, and the commit with the link gets its own set-up run."""
    gate.hub.commit({"lock": "1\n", "make": "if test ! -L deps; then mkdir -p deps/of && cp lock deps/of; fi\n"})
    checked = with_setup(count, "cd . && sh make")
    assert gate.examine(gate.request(gate.entry("plain", {"b": "1\n"}), checked)).verdict == "green"
    outside = gate.folder / "outside"
    outside.mkdir()
    entry = gate.entry("linked", {"b": "2\n"})
    (gate.hub.work / "deps").symlink_to(outside)
    commit = gate.hub.commit({}, branch="alone")
    linked = entry.model_copy(update={"commit": commit, "ref": "refs/heads/alone"})
    found = gate.examine(gate.request(linked, checked))
    assert list(outside.iterdir()) == []
    assert len(count.read_text().splitlines()) > 1, found


def test_a_set_up_that_makes_its_folder_a_link_to_outside_keeps_nothing_of_it(gate: Gate, count: Path) -> None:
    """The linked content comes neither into the kept folder nor into another checkout."""
    outside = gate.folder / "outside"
    outside.mkdir()
    (outside / "secret").write_text("SECRET")
    gate.hub.commit({"lock": "1\n"})
    checked = with_setup(count, f"mkdir deps && ln -s {outside} deps/of")
    assert gate.examine(gate.request(gate.entry("a", {"b": "1\n"}), checked)).verdict == "green"
    kept = [each for each in (gate.settings.cache / "setups").rglob("*") if each.name == "secret"]
    assert kept == []
