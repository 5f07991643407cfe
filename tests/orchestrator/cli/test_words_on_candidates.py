"""A person's request, typed during a run, names the candidate that existed then."""

import os
from pathlib import Path

import pytest
import warm
from plans import RUN, answered, awaited, check_sent, course, queued, sent, task, verdict

from forgepool.orchestrator.journal.events import CheckAnswered, Event, RunStarted
from forgepool.orchestrator.journal.inbox import waiting
from forgepool.orchestrator.journal.store import Journal
from forgepool.orchestrator.run.run_folder import KeptRun, RunOptions, keep
from forgepool.workers.schema.orders import BuiltinAgent
from forgepool.workers.schema.settings import Settings

STEPS: list[Event] = [
    RunStarted(run=RUN, plan_digest="d", hub="/nowhere", target="t", tip="c0"),
    *(sent("a"), answered("a"), queued("a", reviewed=True), check_sent("a")),
    *(CheckAnswered(task="a", result=verdict("a")), awaited("a")),
]


@pytest.fixture
def kept(tmp_path: Path) -> KeptRun:
    settings = Settings(home=tmp_path / "home", cache=tmp_path / "cache")
    options = RunOptions(run=RUN, hub="/nowhere", target="t", workers=1, plan_file="p.yaml", plan_file_digest="")
    return keep(settings, options, course(task("a", agent=BuiltinAgent())).plan)


@pytest.mark.parametrize("do", ["approve", "reject"])
def test_it_is_left_with_the_candidate_that_there_was(kept: KeptRun, do: str) -> None:
    journal = Journal(kept.folder)
    journal.append(STEPS, at=100.0)
    try:
        said = warm.forgepool(
            [do, RUN, "a", "--by", "Ada"],
            env={**os.environ, "FORGEPOOL_HOME": str(kept.folder.parents[1])},
            cwd=Path(__file__).parents[3],
        )
    finally:
        journal.close()
    assert said.returncode == 0, said
    assert [(wish.do, wish.candidate) for _, wish in waiting(kept.folder)] == [(do, "c-a-1")]
