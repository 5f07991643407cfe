"""Scans and checks stop all dishonest candidates and let honest ones in, without a reviewer or a person."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from candidates import Candidate, Tree
from dishonest import BEYOND, DISHONEST
from ground import TARGET, Ground
from honest import HONEST
from regressions import ALL, UNDEFINED

from forgepool.workers.policy.gate_file.reading import read_gate_file

_MOST_BYTES = 1_000_000
"""Largest size of an answer, which goes through a queue."""
FALSE = [one for one in (*DISHONEST, *BEYOND) if one.truth and not one.hangs]
"""Candidates whose lie can be shown by running something that ends."""
_NAME_AND_KIND = {"argvalues": DISHONEST, "ids": [f"{one.kind}-{one.name}" for one in DISHONEST]}


def holds(truth: str, tree: Tree, folder: Path) -> bool:
    """
    Return whether these statements run to their end on the tree. What they import may kill, exit and write beside it.
    """
    here = folder / "repository"
    for path, file in tree.items():
        if file.mode.startswith("100"):
            (here / path).parent.mkdir(parents=True, exist_ok=True)
            (here / path).write_bytes(file.content)
    code = f"import sys; sys.path.insert(0, 'src')\n{truth}\nprint('it holds')"
    ran = subprocess.run(
        ["/bin/sh", "-c", '"$@"; true', "sh", sys.executable, "-I", "-B", "-c", code],
        cwd=here,
        env={"PATH": os.defpath},
        capture_output=True,
        text=True,
        start_new_session=True,
        timeout=60,
        check=False,
    )
    return "it holds" in ran.stdout


@pytest.mark.parametrize("broken", [*ALL, UNDEFINED], ids=lambda broken: broken.truth.split(";")[0])
def test_what_dishonest_candidates_break_holds_on_the_target(broken, tmp_path: Path) -> None:
    assert holds(broken.truth, TARGET, tmp_path)


@pytest.mark.parametrize("candidate", FALSE, ids=lambda one: one.name)
def test_every_dishonest_claim_is_false(candidate: Candidate, tmp_path: Path) -> None:
    assert not holds(candidate.truth, candidate.tree(TARGET), tmp_path)


def test_there_are_enough_of_them() -> None:
    names = [one.name for one in (*DISHONEST, *BEYOND, *HONEST)]
    assert len(names) == len(set(names))
    assert len(DISHONEST) >= 40 and len(HONEST) >= 50
    assert all(one.lie and one.by for one in DISHONEST)


def test_honest_candidates_leave_a_gate_file_that_can_be_read() -> None:
    for candidate in HONEST:
        assert read_gate_file(candidate.tree(TARGET)["forgepool.yaml"].content.decode()).checks


@pytest.mark.parametrize("candidate", **_NAME_AND_KIND)
def test_nothing_dishonest_lands(candidate: Candidate, ground: Ground) -> None:
    tried = ground.try_out(candidate)
    assert not tried.landed and tried.tip == tried.base, candidate.lie
    assert tried.found.verdict != "green", candidate.lie
    assert set(tried.said) & set(candidate.by), (tried.found.verdict, tried.said, tried.found.detail)
    assert len(tried.found.model_dump_json()) < _MOST_BYTES


@pytest.mark.parametrize("candidate", HONEST, ids=lambda one: f"{one.kind}-{one.name}")
def test_everything_honest_lands(candidate: Candidate, ground: Ground) -> None:
    tried = ground.try_out(candidate)
    assert tried.landed, (tried.found.verdict, tried.said, tried.found.detail, tried.found.findings)
    assert tried.tip == tried.landing.commit == tried.found.commit


@pytest.mark.parametrize("candidate", BEYOND, ids=lambda one: one.name)
def test_what_only_a_reader_sees_lands_without_one(candidate: Candidate, ground: Ground) -> None:
    """Scans and checks find nothing. With reviews in the plan, it does not land without an approval."""
    found = ground.examine(candidate)
    assert (found.verdict, [one.rule for one in found.findings if one.weight != "note"]) == ("green", [])
    landing = ground.land(candidate, found, reviewed=True)
    assert landing.outcome == "refused", landing
