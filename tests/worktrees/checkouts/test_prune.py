"""Pruning deletes what has no owner, and never what is in use."""

import os
import shutil
from pathlib import Path

import pytest
from repositories import Hub, git, is_intact

from forgepool.worktrees.checkouts.checkout import lease_checkout
from forgepool.worktrees.checkouts.slots import prune_checkouts, shrink_pool
from forgepool.worktrees.hub.mirror import Mirror, open_mirror
from forgepool.worktrees.hub.target import prune_run


def test_a_leased_slot_stays_and_a_free_one_goes(hub: Hub, mirror: Mirror, pool: Path) -> None:
    tip = hub.tip()
    with lease_checkout(mirror, tip, pool) as kept:
        with lease_checkout(mirror, tip, pool) as free:
            pass
        assert prune_checkouts(mirror.path, pool) == 1
        assert is_intact(kept)
        assert kept.path.is_dir() and not free.path.exists() and not free.admin.exists()
        assert git(kept.path, "status", "--porcelain") == ""
    assert prune_checkouts(mirror.path, pool) == 1
    assert list((pool / mirror.path.stem).iterdir()) == []
    assert list((mirror.path / "worktrees").iterdir()) == []
    assert prune_checkouts(mirror.path, pool) == 0


def test_a_pruned_pool_is_filled_again(hub: Hub, mirror: Mirror, pool: Path) -> None:
    for _ in range(2):
        with lease_checkout(mirror, hub.tip(), pool) as checkout:
            assert is_intact(checkout)
        prune_checkouts(mirror.path, pool)


def test_locks_rubbish_and_entries_without_folders_go(hub: Hub, mirror: Mirror, pool: Path) -> None:
    with lease_checkout(mirror, hub.tip(), pool) as checkout:
        folder = checkout.path.parent
    (folder / "slot-7.lock").touch()
    (folder / "slot-7.indexes").mkdir()
    (folder / "rubbish-abc/it").mkdir(parents=True)
    (folder / "rubbish-abc/it").chmod(0o500)
    (mirror.path / "worktrees/rubbish-x").mkdir()
    with lease_checkout(mirror, hub.tip(), pool.with_name("second")) as other:
        pass
    for path in other.path.rglob("*"):
        if path.is_file():
            path.unlink()
    (other.path / "src").rmdir()
    other.path.rmdir()
    assert prune_checkouts(mirror.path, pool) == 2
    assert list(folder.iterdir()) == []
    assert list((mirror.path / "worktrees").iterdir()) == []


def test_an_entry_of_another_pools_live_slot_stays(hub: Hub, mirror: Mirror, pool: Path) -> None:
    with lease_checkout(mirror, hub.tip(), pool.with_name("second")) as other:
        prune_checkouts(mirror.path, pool)
        assert other.admin.is_dir()


def test_a_lease_removes_slots_that_stood_idle_for_a_day(hub: Hub, mirror: Mirror, pool: Path) -> None:
    other_mirror = open_mirror(f"file://{hub.path}", mirror.path.parents[1])
    other_mirror.ensure(hub.tip(), refs=("refs/heads/main",))
    with lease_checkout(mirror, hub.tip(), pool) as first, lease_checkout(mirror, hub.tip(), pool) as second:
        pass
    with lease_checkout(other_mirror, hub.tip(), pool) as other:
        pass
    for idle in (second.slot, other.slot):
        os.utime(idle.beside(".lock"), times=(0, 0))
    with lease_checkout(mirror, hub.tip(), pool):
        assert second.path.exists() and other.path.exists(), "it looks once an hour"
    os.utime(pool / ".shrunk", times=(0, 0))
    with lease_checkout(mirror, hub.tip(), pool) as third:
        assert third.path == first.path and is_intact(third)
        assert not second.path.exists() and not other.path.exists()


def test_a_pool_on_a_full_disk_keeps_what_is_leased_alone(hub: Hub, mirror: Mirror, pool: Path) -> None:
    with lease_checkout(mirror, hub.tip(), pool) as kept:
        with lease_checkout(mirror, hub.tip(), pool) as free:
            pass
        shrink_pool(mirror.path, pool)
        assert free.path.exists()
        shrink_pool(mirror.path, pool, least_free_bytes=shutil.disk_usage(pool).total)
        assert is_intact(kept) and not free.path.exists()


def test_a_run_is_pruned_but_for_its_orders(hub: Hub, mirror: Mirror) -> None:
    tip = hub.tip()
    order, landed, wip = (f"refs/forgepool/r1/{name}" for name in ("orders/t/1", "landed/t", "wip/t/1"))
    foreign = ("refs/forgepool/r10/landed/t", "refs/heads/refs/forgepool/r1/x", "refs/heads/main")
    for ref in (order, landed, wip, *foreign[:2]):
        git(hub.path, "update-ref", ref, tip)
    mirror.fetch("+refs/forgepool/*:refs/hub/forgepool/*")
    assert prune_run(mirror, "r1") == 2
    assert set(mirror.hub_refs()) == {order, *foreign}
    assert mirror.git.text("for-each-ref", "--format=%(refname)", "refs/hub/forgepool/r1/") == (
        "refs/hub/forgepool/r1/orders/t/1"
    )
    assert prune_run(mirror, "r1", keep_orders_of=()) == 1
    assert set(mirror.hub_refs()) == set(foreign)
    assert prune_run(mirror, "r1", keep_orders_of=()) == 0


def test_orders_of_the_tasks_named_stay_and_no_others(hub: Hub, mirror: Mirror) -> None:
    works = ("orders/t1/1", "progress/t1/2", "unverified/t1/3", "orders/t10/1", "progress/t2/1", "unverified/t2/1")
    refs = [f"refs/forgepool/r1/{work}" for work in works]
    for ref in refs:
        git(hub.path, "update-ref", ref, hub.tip())
    assert prune_run(mirror, "r1", keep_orders_of=["t1"]) == 3
    assert set(mirror.hub_refs("refs/forgepool/*")) == set(refs[:3])


def test_a_ref_that_is_to_be_kept_stays(hub: Hub, mirror: Mirror) -> None:
    """The marker of a possible landing is the only thing that prevents a second landing."""
    marker, other = "refs/forgepool/r1/landed/t1", "refs/forgepool/r1/landed/t2"
    for ref in (marker, other):
        git(hub.path, "update-ref", ref, hub.tip())
    assert prune_run(mirror, "r1", keep=[marker]) == 1
    assert set(mirror.hub_refs("refs/forgepool/*")) == {marker}


def test_a_ref_the_hub_protects_does_not_keep_the_others(hub: Hub, mirror: Mirror) -> None:
    for number in range(5):
        git(hub.path, "update-ref", f"refs/forgepool/r1/x/{number}", hub.tip())
    hook = hub.path / "hooks/update"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text('#!/bin/sh\ntest "$1" != refs/forgepool/r1/x/3\n')
    hook.chmod(0o755)
    assert prune_run(mirror, "r1") == 4
    assert set(mirror.hub_refs("refs/forgepool/*")) == {"refs/forgepool/r1/x/3"}


@pytest.mark.parametrize("name", ["", "*", "a/b", "..", "a b"])
def test_what_is_no_name_of_a_run_prunes_nothing(mirror: Mirror, name: str) -> None:
    with pytest.raises(ValueError, match="not the name of a run"):
        prune_run(mirror, name)
