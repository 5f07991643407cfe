"""The end of a run as a terminal shows it."""

from pathlib import Path

import pytest
from plans import answered, begun, course, follow, sent, task

from forgepool.orchestrator.cli.output import progress
from forgepool.orchestrator.cli.output.standing import tally, tell_table
from forgepool.orchestrator.decisions.plan_index import PlanIndex
from forgepool.orchestrator.journal.events import TaskReported, TaskUnchanged
from forgepool.orchestrator.reports.status import standing, tell_verdict
from forgepool.orchestrator.run.run_folder import KeptRun, RunOptions
from forgepool.orchestrator.state.run import RunState
from forgepool.workers.schema.reports import Report
from forgepool.workers.schema.settings import Settings

OF = course(task("a"))


def test_the_end_of_a_run_reads_its_hub_in_the_cache_of_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The demo has its own cache and leaves nothing in the person's."""
    read: list[Path] = []

    def nothing_kept(mirror: Path, _: object) -> dict[str, list[str]]:
        read.append(mirror)
        return {}

    def cache_of(_: str, settings: Settings) -> Path:
        return settings.cache

    monkeypatch.setattr(progress, "mirror_of", cache_of)
    monkeypatch.setattr(progress, "refs_left", nothing_kept)
    options = RunOptions(run="r-1", hub="/hub", target="t", workers=1, plan_file="p", plan_file_digest="d")
    own = Settings().model_copy(update={"cache": tmp_path / "own"})
    kept = KeptRun(tmp_path, options, OF.plan, OF)
    progress.tell_outcome(kept, begun(OF), "ended", as_json=False, settings=own)
    assert read == [tmp_path / "own"]


def _tallies(state: RunState, of: PlanIndex | None = None) -> tuple[str, str]:
    return tally(standing(of or TWO, state, now=1.0, live=False)), tell_verdict(of or TWO, state)


TWO = course(task("a", answers=True), task("b"))


def test_a_run_of_which_all_is_done_says_so_first() -> None:
    reported = (sent("a"), answered("a", 1, "reported"), TaskReported(task="a", report=Report(summary="so")))
    state = begun(TWO, *reported)
    assert _tallies(state) == ("0 of 2 landed, 1 reported", "0 of 2 tasks landed on t, 1 reported, 1 did not land")
    follow(state, sent("b"), answered("b", 1, "no_change"), TaskUnchanged(task="b", why="nothing"))
    told = "2 of 2 done: 1 reported, 1 had no changes", "2 of 2 tasks done: 1 reported, 1 had nothing to do"
    assert _tallies(state) == told
    state.tasks["b"].enter("landed", 1.0)
    assert _tallies(state) == ("2 of 2 done: 1 landed, 1 reported", "2 of 2 tasks done: 1 landed on t, 1 reported")
    state.tasks["a"].enter("landed", 1.0)
    assert _tallies(state) == ("2 of 2 landed", "2 of 2 tasks landed on t")


def test_a_survey_that_ended_without_a_report_does_not_count() -> None:
    of = course(task("survey", answers=True, surveys=True), task("b", "survey"))
    state = begun(of)
    assert _tallies(state, of) == ("0 of 2 landed", "0 of 2 tasks landed on t, 2 did not land")
    state.tasks["survey"].enter("failed", 1.0)
    state.tasks["b"].enter("landed", 1.0)
    assert _tallies(state, of) == ("1 of 1 landed", "1 of 1 task landed on t")


def test_a_long_report_is_its_first_sentence_in_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    for summary, shown in (("The zone\nis lost. It is mended.", "The zone is lost"), ("x" * 400, "x" * 100 + " ...")):
        report = TaskReported(task="a", report=Report(summary=summary))
        state = begun(TWO, sent("a"), answered("a", 1, "reported"), report)
        tell_table(standing(TWO, state, now=1.0, live=False))
        row = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("a "))
        assert row.endswith(f"  {shown}"), row
