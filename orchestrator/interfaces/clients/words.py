"""Words of the command line that a client says about a run or a queue."""

from dataclasses import dataclass

from forgepool.orchestrator.cli.run.requests import confinements, may_resume
from forgepool.orchestrator.interfaces.clients.detached import RunLauncher
from forgepool.orchestrator.interfaces.web.actions import Word, leave_word, perform
from forgepool.orchestrator.journal.store import is_being_written
from forgepool.orchestrator.reports.home import HomeView, RunLook
from forgepool.orchestrator.run.hub import CannotRun
from forgepool.orchestrator.run.run_folder import KeptRun


@dataclass(frozen=True, slots=True, kw_only=True)
class WordLeft:
    said: str
    """One sentence about what follows."""
    resumed: bool = False
    """The run had ended, and goes on."""
    trouble: str = ""
    """The sentence of a run that should go on and does not."""


def say_word(
    home: HomeView,
    launcher: RunLauncher,
    kept: KeptRun,
    do: Word,
    task: str,
    *,
    text: str = "",
    by: str,
    seen: str = "",
) -> WordLeft:
    """
    Leave a word of the command line where that leaves it; a run that had ended and has work again goes on.

    Raises:
        CannotRun: the word would change nothing, or is about another candidate than `seen`.
    """
    before = kept.state()

    def leave(look: RunLook) -> str:
        candidate = look.state.tasks[task].candidate if do == "reject" and not seen else seen
        if look.kept.options.gate and do in ("retry", "cancel") and task:
            candidate = look.state.submitted[task].commit
        given = {"do": do, "task": task, "text": text, "by": by, "candidate": candidate}
        return leave_word(*perform(look, given), look)

    said = home.view(kept.options.run).look(leave)
    state, recorded = kept.replay()
    if state.finished or is_being_written(kept.folder) or not may_resume(kept, before, state, recorded):
        return WordLeft(said=said)
    confinement = ("--sandbox", "off") if confinements(recorded) == ["off"] else ()
    try:
        return WordLeft(said=said, resumed=launcher.resume(kept.options.run, *confinement, after=state.number))
    except CannotRun as stuck:
        return WordLeft(said=said, trouble=str(stuck))
