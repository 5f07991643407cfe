"""What a host remembers about checks is bounded, replaceable, and out of the checks' reach."""

import os
import time
from pathlib import Path

import pytest
from gates import Gate, check

from forgepool.supervisor.checks import store as stores
from forgepool.supervisor.checks.results.evidence import Evidence
from forgepool.supervisor.checks.results.judging import Ran
from forgepool.supervisor.checks.store import KEPT_S, MOST_KEPT, Store, StoredResult, open_store
from forgepool.workers.schema.settings import Settings

RAN = Ran(how="exit", status=0, evidence=Evidence(tests=3))


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(folder=tmp_path / "verdicts")


def files(store: Store) -> list[str]:
    assert store.folder is not None
    return sorted(path.name for path in store.folder.iterdir())


def test_what_was_said_last_is_remembered_under_its_key_alone(store: Store) -> None:
    store.keep("one", Ran(how="timeout"), 9.0)
    store.keep("one", RAN, 2.0)
    said = store.find("one")
    assert said is not None and (said.ran, said.seconds) == (RAN, 2.0)
    assert store.find("two") is None
    assert files(store) == ["one.json"], "nothing is left beside it"


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b'{"ran": {"how": "exit"}}', b"[]"])
def test_what_cannot_be_read_is_as_if_it_were_not_there(store: Store, content: bytes) -> None:
    store.keep("one", RAN, 2.0)
    assert store.folder is not None
    (store.folder / "one.json").write_bytes(content)
    assert store.find("one") is None
    store.keep("one", RAN, 2.0)
    assert store.find("one") is not None


@pytest.mark.parametrize("late_s", [KEPT_S + 60, -3600.0])
def test_what_was_said_too_long_ago_or_tomorrow_is_not_believed(store: Store, late_s: float) -> None:
    store.keep("one", RAN, 2.0)
    assert store.folder is not None
    (store.folder / "one.json").write_text(StoredResult(ran=RAN, seconds=2.0, at=time.time() - late_s).encode())
    assert store.find("one") is None


def test_only_so_many_are_kept_and_the_oldest_go(store: Store) -> None:
    store.keep("last", RAN, 1.0)
    assert store.folder is not None
    text = (store.folder / "last.json").read_bytes()
    for number in range(MOST_KEPT):
        path = store.folder / f"{number}.json"
        path.write_bytes(text)
        os.utime(path, (time.time() - 1000 + number / 10,) * 2)
    store.keep("newest", RAN, 1.0)
    left = files(store)
    assert len(left) < MOST_KEPT and "newest.json" in left and "last.json" in left
    assert "0.json" not in left and f"{MOST_KEPT - 1}.json" in left


def test_what_is_too_old_goes_however_few_there_are(store: Store) -> None:
    store.keep("old", RAN, 1.0)
    assert store.folder is not None
    os.utime(store.folder / "old.json", (time.time() - KEPT_S - 60,) * 2)
    store.keep("new", RAN, 1.0)
    assert files(store) == ["new.json"]


def test_a_place_that_cannot_be_written_costs_the_memory_alone(tmp_path: Path) -> None:
    (tmp_path / "verdicts").write_text("a file")
    blocked = Store(folder=tmp_path / "verdicts")
    blocked.keep("one", RAN, 1.0)
    assert blocked.find("one") is None


def test_more_than_a_file_may_hold_is_not_kept(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "MOST_BYTES", 10)
    store.keep("one", RAN, 1.0)
    assert store.find("one") is None


def test_costs_are_remembered_by_definition(store: Store) -> None:
    store.keep_cost("definition", 12.5)
    assert (store.cost("definition"), store.cost("another")) == (12.5, None)


def test_where_nothing_holds_commands_nothing_is_remembered(tmp_path: Path) -> None:
    """A command that may write any file could write a verdict."""
    settings = Settings(cache=tmp_path)
    open_store(settings, "bubblewrap", "r").keep("one", RAN, 1.0)
    assert open_store(settings, "bubblewrap", "r").find("one") is not None
    assert open_store(settings, "off", "r").find("one") is None


def test_a_command_of_a_candidate_neither_sees_nor_writes_what_is_remembered(gate: Gate) -> None:
    gate.examine(gate.request(gate.entry("first", {"b": "2\n"}), check("test -e a")))
    kept = gate.settings.cache / "verdicts"
    before = {path.name: path.read_bytes() for path in kept.iterdir()}
    assert before
    tries = f"ls {kept} || cat {kept}/*.json || mkdir -p {kept} && echo x > {kept}/forged.json || rm -rf {kept}"
    forging = check(f"! ( {tries} )", "forging")
    gate.examine(gate.request(gate.entry("second", {"b": "3\n"}), forging))
    after = {path.name: path.read_bytes() for path in kept.iterdir()}
    assert before.items() <= after.items() and "forged.json" not in after
