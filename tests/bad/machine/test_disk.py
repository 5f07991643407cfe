"""A disk that is full stops a run with one sentence; room made, everything lands, and no task was blamed."""

import os
import sys
from dataclasses import replace

import pytest
from disks import fill, small_disk
from premises import Premises, await_file

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or sys.platform != "linux", reason="mounting a small tmpfs takes root on Linux"
)


def test_a_full_home_loses_nothing(premises: Premises) -> None:
    premises = premises.unconfined()
    go_on = premises.folder / "go-on"
    with small_disk(premises.folder / "small", "8m") as disk:
        small = replace(premises, home=disk / "home")
        filler = fill(disk)
        plan = small.plan({"one": f"{await_file(go_on)}; echo 1 > one.txt", "two": "echo 2 > two.txt"})
        small.run(plan).is_refusal(3, "No space left on device")
        assert small.git("for-each-ref", "refs/heads/forgepool", "refs/forgepool") == ""
        filler.unlink()
        with small.going("run", plan, "--repo", small.repo) as going:
            going.await_words("two: landed")
            filler = fill(disk)
            go_on.touch()
            said = going.ended()
        assert said.status == 3, said
        said.is_sentence("full", "forgepool resume")
        filler.unlink()
        resumed = small.forgepool("resume", "p", "--json")
        assert resumed.status == 0, resumed
        assert {(task["phase"], task["attempts"] <= 2) for task in resumed.answer["tasks"]} == {("landed", True)}
    assert premises.landed() == ["two", "one"]


def test_a_full_cache_is_trouble_and_no_failure(premises: Premises) -> None:
    """Be it that the command itself fails for it."""
    premises = premises.unconfined()
    go_on = premises.folder / "go-on"
    with small_disk(premises.folder / "small", "8m") as disk:
        small = replace(premises, cache=disk / "cache")
        plan = small.plan({"one": f"{await_file(go_on)}; seq 9999 > one.txt"}, defaults={"attempts": 1})
        filler = fill(disk)
        small.run(plan).is_refusal(3, "No space left on device")
        filler.unlink()
        with small.going("run", plan, "--repo", small.repo, "--json") as going:
            going.await_words("one: attempt 1 begins")
            filler = fill(disk)
            go_on.touch()
            going.await_words("one: could not run")
            filler.unlink()
            said = going.ended()
        assert said.status == 0, said
        assert "failed" not in said.err
    assert premises.landed() == ["one"]
