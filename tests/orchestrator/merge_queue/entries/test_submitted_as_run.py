"""Run commands given to a queue, and text that is not valid: each is refused in a sentence and leaves nothing."""

from collections.abc import Callable
from contextlib import closing, nullcontext
from pathlib import Path

import pytest
from gate_world import RUN, opened, submitted

from forgepool.orchestrator.cli.queue import control
from forgepool.orchestrator.cli.run import requests, retry
from forgepool.orchestrator.cli.run.options import complete_entry
from forgepool.orchestrator.decisions.plan_index import gate_plan
from forgepool.orchestrator.journal.events import RunStarted
from forgepool.orchestrator.journal.inbox import PersonRequest, waiting
from forgepool.orchestrator.journal.store import Journal
from forgepool.orchestrator.run.hub import CannotRun
from forgepool.orchestrator.run.run_folder import KeptRun, RunOptions, keep
from forgepool.workers.schema.settings import Settings


@pytest.fixture
def gate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> KeptRun:
    """A queue with an entry `a`, which no daemon serves."""
    monkeypatch.setenv("FORGEPOOL_HOME", str(tmp_path))
    told = {"run": RUN, "hub": "/hub", "target": "main", "workers": 0, "plan_file": "", "plan_file_digest": ""}
    kept = keep(Settings(), RunOptions.model_validate({**told, "gate": True}), gate_plan(RUN, "main"))
    journal, start = Journal(kept.folder), opened()
    begun = RunStarted(run=RUN, plan_digest="", hub=start.hub, target="main", tip=start.tip)
    journal.append([begun, submitted("a")], at=100.0)
    journal.close()
    return kept


@pytest.mark.parametrize(
    ("word", "todo"),
    [
        (
            lambda: requests.cancel(RUN),
            "queue withdraw ENTRY --target main; to pause all: forgepool queue pause --target main",
        ),
        (lambda: requests.cancel(RUN, "a"), "to withdraw one: forgepool queue withdraw a --target main"),
        (lambda: retry.retry(RUN, ["a"]), "to retry one: forgepool queue retry a --target main"),
    ],
)
def test_a_run_s_word_to_a_gate_is_told_the_gate_s(gate: KeptRun, word: Callable[[], None], todo: str) -> None:
    """This holds while a daemon serves it, which would drop the request."""
    for held in (nullcontext(), closing(Journal(gate.folder))):
        with held, pytest.raises(CannotRun, match=f"^{RUN} is a merge queue, and its tasks are entries; ") as refused:
            word()
        assert todo in str(refused.value)
        assert [*waiting(gate.folder)] == []
    assert gate.state().tasks["a"].phase == "queued"


def test_the_gate_s_own_word_is_taken(gate: KeptRun) -> None:
    assert control.withdraw("a", target=RUN) == 0
    assert gate.state().tasks["a"].phase == "cancelled"


def test_what_goes_on_when_the_gate_is_kept_is_not_told_to_resume_a_run(
    gate: KeptRun, capsys: pytest.CaptureFixture[str]
) -> None:
    with closing(Journal(gate.folder)):
        requests.ask(RUN, PersonRequest(do="reject", task="a", text="no", by="Ada"))
    said = capsys.readouterr().out
    assert "if it ends before it reads this: forgepool queue serve --repo /hub --target main" in said


def test_a_pause_for_no_text_is_refused_and_one_for_text_is_kept(gate: KeptRun) -> None:
    with pytest.raises(CannotRun, match="the reason is not UTF-8; give it as UTF-8 text"):
        control.pause("\udcff")
    assert not gate.state().paused
    assert control.pause("größer") == 0
    assert "größer" in gate.state().paused


def test_a_shell_completes_the_names_of_entries(gate: KeptRun) -> None:
    assert complete_entry("") == ["a"]
    assert complete_entry("b") == []
