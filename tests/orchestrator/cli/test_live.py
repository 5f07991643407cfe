"""A message about Ctrl-C does not mix with the live display, which guesses no times."""

import os
import signal
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

import pytest
from plans import begun, course, task
from rich.console import Console
from rich.live import Live

from forgepool.orchestrator.cli.output.progress import Display
from forgepool.orchestrator.cli.run.run import listen_to_ctrl_c, listen_to_run
from forgepool.workers.schema.settings import Settings


@pytest.fixture
def signals() -> Iterator[None]:
    """Restore the signal handlers afterwards."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("signals")
def test_an_interrupt_is_told_between_two_drawings_and_never_within_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wishes = listen_to_ctrl_c()
    drawn: list[str] = []

    def draw(state: object, recorded: object) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        drawn.append(capsys.readouterr().err)

    listen = listen_to_run(draw, wishes, Settings(home=tmp_path, broker_url=None))
    state = begun(course(task("a")))
    state.run = ""
    for _ in range(3):
        listen(state, ())
    assert wishes.drain and wishes.stop
    first, second, third = drawn
    assert first == "", "nothing is written while the table is drawn"
    assert "starting nothing new" in second and "stopping now" in third


@pytest.mark.parametrize(
    ("duration_s", "head"), [(None, "0:00 elapsed: "), (90, "0:00 elapsed, at least 3:00 to go: ")]
)
def test_time_to_go_is_told_only_by_durations_that_are_known(duration_s: float | None, head: str) -> None:
    of = course(task("a", duration_s=duration_s), task("b", "a", duration_s=duration_s))
    paper = Console(file=StringIO(), force_terminal=True, width=100)
    with Live(console=paper, auto_refresh=False) as live:
        Display(of, paper, live).listen(begun(of), ())
    assert isinstance(paper.file, StringIO)
    assert head in paper.file.getvalue() and "where or why" in paper.file.getvalue()
