"""A host proves at its start what it can do, and one that can do nothing well takes no work."""

import os
import sys
import time
from pathlib import Path

import pytest
from disks import fill, small_disk

from forgepool.workers.order.host_facts import prove
from forgepool.workers.queue.broker import BrokerRefused, Redis
from forgepool.workers.schema.settings import Settings


def _settings(folder: Path) -> Settings:
    return Settings(home=folder, cache=folder / "cache", host="h")


def test_a_host_proves_its_sandbox_its_labels_and_its_clock(redis: Redis, tmp_path: Path) -> None:
    facts = prove(_settings(tmp_path), "bubblewrap", ["gpu"], redis)
    assert {"sandbox bubblewrap", "label gpu"} <= {*facts.can}
    assert abs(facts.clock_off_s) < 60
    assert facts.free_disk_mb >= 16 and facts.memory_mb and facts.git and facts.version


@pytest.mark.parametrize(("off_s", "words"), [(3600, "3600 s ahead of"), (-3600, "3600 s behind")])
def test_a_host_whose_clock_is_wrong_is_refused(
    redis: Redis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, off_s: float, words: str
) -> None:
    """It would take every message for stale, or none."""
    right = time.time
    monkeypatch.setattr(time, "time", lambda: right() + off_s)
    with pytest.raises(BrokerRefused) as refused:
        prove(_settings(tmp_path), "none", [], redis)
    assert str(refused.value) == (
        f"this host's clock is {words} that of Redis; set it (for example with chrony), then start the worker"
    )


@pytest.mark.skipif(os.geteuid() != 0 or sys.platform != "linux", reason="mounting a small tmpfs takes root on Linux")
def test_a_host_without_room_is_refused(redis: Redis, tmp_path: Path) -> None:
    with small_disk(tmp_path / "small", "32m") as disk:
        prove(_settings(disk), "none", [], redis)
        fill(disk)
        with pytest.raises(BrokerRefused) as refused:
            prove(_settings(disk), "none", [], redis)
        assert str(refused.value) == (
            f"{disk / 'cache'} has 0 MB free; make room, or set FORGEPOOL_CACHE to another disk"
        )
