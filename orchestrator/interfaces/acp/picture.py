"""A run as the editor shows it: the entries of its plan, and sentences. Pure, but for reading the journal."""

from collections.abc import Iterator
from dataclasses import dataclass

from acp.helpers import plan_entry
from acp.schema import PlanEntry, PlanEntryStatus

from forgepool.orchestrator.cli.run.check import PlanPreview
from forgepool.orchestrator.decisions.reasons import count_of
from forgepool.orchestrator.interfaces.clients.results import clean, shorten
from forgepool.orchestrator.journal.store import read
from forgepool.orchestrator.reports.attention import AttentionRow, attention
from forgepool.orchestrator.reports.costs import bill
from forgepool.orchestrator.reports.event_text import sentence, shorten_list
from forgepool.orchestrator.reports.home import RunLook
from forgepool.orchestrator.reports.status import outcome_of, standing
from forgepool.orchestrator.state.task import DONE, TERMINAL

_MOST_CHARACTERS = 500
_MOST_SENTENCES = 200
"""Sentences about what happened that are shown at once; of more, the last ones are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPicture:
    """A run at one moment."""

    number: int
    """Number of the last event."""
    live: bool
    finished: bool
    entries: tuple[PlanEntry, ...]
    happened: tuple[str, ...]
    """A sentence for each event since the picture before."""
    rows: tuple[AttentionRow, ...]
    """The things that need a person."""
    candidates: dict[str, str]
    """The commits that wait for approval, by their tasks."""
    questions: dict[str, str]
    """The questions, by their tasks."""
    ending: str
    """How it stands, in one sentence."""


def take_picture(look: RunLook, after: int) -> RunPicture:
    """Return the run's picture, with what happened after an event."""
    state, run = look.state, look.state.run
    records = [one for one in read(look.kept.folder, after=after) if one.number <= state.number]
    said = [told for one in records if (told := sentence(one.event, run=run)) is not None]
    left_out = (
        [f"({len(said) - _MOST_SENTENCES} earlier sentences are left out)"] if len(said) > _MOST_SENTENCES else []
    )
    rows = attention(look.course, state, look.alive)
    return RunPicture(
        number=state.number,
        live=look.alive.live,
        finished=state.finished,
        entries=tuple(_entries(look)),
        happened=tuple(map(_plain, (*left_out, *said[-_MOST_SENTENCES:]))),
        rows=tuple(rows),
        candidates={row.task: state.tasks[row.task].candidate for row in rows if row.task and row.cause == "approval"},
        questions={task.id: _plain(task.question) for task in state.tasks.values() if task.question},
        ending=_ending(look),
    )


def _entries(look: RunLook) -> Iterator[PlanEntry]:
    titles = {task.id: task.title for task in look.course.plan.tasks}
    for task in standing(look.course, look.state, now=look.alive.now, live=look.alive.live).tasks:
        title = titles.get(task.task, "")
        about = f"{task.task}: {title}" if title and title != task.task else task.task
        phase = task.phase.replace("_", " ")
        yield plan_entry(_plain(f"{about} ({phase})"), status=_status(look.state.tasks[task.task].phase))


def _status(phase: str) -> PlanEntryStatus:
    """Return the protocol's word. It has none for a task that failed or needs a person: it is not completed."""
    if phase in DONE:
        return "completed"
    return "pending" if phase in TERMINAL or phase == "pending" else "in_progress"


def _ending(look: RunLook) -> str:
    state = look.state
    outcome = outcome_of(look.course, state, live=look.alive.live)
    done = f"{state.count(*DONE)} of {count_of(look.course.count_tasks(state), 'task')} done"
    usd = bill(state.uses()).cost_usd
    cost = f", {usd:.2f} USD" if usd else ""
    return f"Run {state.run} is {outcome}: {done}{cost}; the target is {_plain(state.target)}."


def describe_rows(picture: RunPicture) -> str:
    """Return what a person can do now, as lines of markdown."""
    lines = [f"- {row.about}: {_plain(row.sentence)} (`{row.command}`)" for row in picture.rows]
    if picture.questions and not picture.live:
        lines.append(how_to_answer(picture))
    elif not picture.finished and not picture.live:
        lines.append("`/continue` continues the run.")
    return "\n".join(lines)


def how_to_answer(picture: RunPicture) -> str:
    if len(picture.questions) == 1:
        return "Answer the question with your next prompt."
    return f"Answer a question with its task's name before it, as in `{next(iter(picture.questions))}: ANSWER`."


def preview_text(shown: PlanPreview) -> str:
    """Return a plan's preview as markdown."""
    at_once = "" if shown["width_is_exact"] else "at least "
    head = f"Plan {shown['plan']}: {count_of(shown['tasks'], 'task')} for {shown['target']}, {at_once}{shown['width']} "
    lines = [f"{head}at once."]
    lines += [f"{number}. {shorten_list(wave)}" for number, wave in enumerate(shown["waves"], start=1)]
    lines += [
        f"- {' and '.join(one['tasks'])} never run together: they may write the same paths"
        for one in shown["conflicts"][:20]
    ]
    return "\n".join(map(_plain, lines))


def _plain(text: str) -> str:
    return shorten(" ".join(clean(text).split("\n")), _MOST_CHARACTERS)
