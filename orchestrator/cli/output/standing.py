"""How a run stands, as lines: its table of tasks, what was used, and what waits for a person."""

from collections import Counter

from forgepool.orchestrator.cli.output.say import say
from forgepool.orchestrator.cli.output.terminal import print_table
from forgepool.orchestrator.decisions.reasons import one_line
from forgepool.orchestrator.reports.costs import bill_words, budget_words, usd_words
from forgepool.orchestrator.reports.event_text import answer_with
from forgepool.orchestrator.reports.status import Standing, TaskStanding
from forgepool.orchestrator.state.task import DONE

_REPORT_CHARACTERS = 100


def tally(now: Standing) -> str:
    """Count outcomes: `3 of 7 landed, 1 reported, 2 had no changes`, or `7 of 7 done: 3 landed, 4 reported`."""
    count, total = Counter(task.phase for task in now.tasks), now.total
    words = {"reported": "reported", "no_changes": "had no changes", "already_there": "already there"}
    others = [f"{count[phase]} {said}" for phase, said in words.items() if count[phase]]
    if others and sum(count[phase] for phase in DONE) == total:
        landed = [f"{count['landed']} landed"] if count["landed"] else []
        return f"{total} of {total} done: {', '.join([*landed, *others])}"
    return ", ".join([f"{count['landed']} of {total} landed", *others])


def tell_table(now: Standing) -> None:
    """Print the table of tasks; columns on models appear only if any were used."""
    by_models = now.used.counts
    columns = ("task", "attempts", "outcome", "commit", "seconds", *(("tokens", "USD") if by_models else ()), "why")
    print_table(columns, [_row(task, by_models=by_models) for task in now.tasks])


def tell_use(now: Standing) -> None:
    """Print open questions, models and budget, in lines that can be copied."""
    tell_wanted(now)
    for task in now.tasks:
        for gap in task.missing:
            say(f"{task.task} lacked: {one_line(gap)}")
    for held in now.whole.review.held if now.whole is not None and now.whole.tasks else ():
        say(f"integration review found: {held}")
    if now.whole is not None and now.whole.waits:
        say(f"integration review waits: {now.whole.waits}")
    if said := bill_words(now.used):
        say(f"models: {said}")
    for line in budget_words(now.budget):
        say(f"budget: {line}")


def tell_wanted(now: Standing) -> None:
    """Print what each waiting task needs from a person, with the commands."""
    for task in now.tasks:
        if task.question:
            say(f"{task.task} asks: {task.question}\n    {answer_with(now.run, task.task)}")
        elif task.wanted:
            say(f"{task.task} waits for a person: {task.detail}")


def _row(task: TaskStanding, *, by_models: bool) -> tuple[str, ...]:
    used = task.used
    cost = "unknown" if used.cost_usd is None else usd_words(used.cost_usd)
    spent = (f"{used.input_tokens + used.output_tokens:,}", cost) if used.counts else ("", "")
    return (
        task.task,
        str(task.attempts) if task.mends is None else f"{task.attempts}, mends {task.mends}",
        task.phase.replace("_", " "),
        (task.commit or "")[:12],
        "" if task.seconds is None else f"{task.seconds:.1f}",
        *(spent if by_models else ()),
        _why(task),
    )


def _why(task: TaskStanding) -> str:
    """Return the reason in a row; commands to copy are printed below the table."""
    if task.question:
        return f"asks: {task.question}"
    if task.phase == "reported":
        first = one_line(task.detail).partition(". ")[0]
        return first if len(first) <= _REPORT_CHARACTERS else f"{first[:_REPORT_CHARACTERS]} ..."
    return "waits for a person's approval, see below" if task.wanted == "review" else task.detail
