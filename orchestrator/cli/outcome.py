"""The end of a run on the terminal: the table, where things lie, what to type next."""

import time

from orchestrator.bill import bill_words, budget_words, usd_words
from orchestrator.cli.say import out, say, say_json, table
from orchestrator.runs import KeptRun
from orchestrator.standing import Standing, TaskStanding, standing
from orchestrator.state import State
from orchestrator.telling import answer_with
from orchestrator.through.standing import held_up


def exit_status(state: State, ending: str) -> int:
    """0 all landed, 1 something did not, 3 infrastructure stood in the way, 130 interrupted."""
    if ending == "interrupted":
        return 130
    if ending == "halted":
        return 3 if state.halted_by_infrastructure or state.gate_away else 1
    return 0 if all(task.phase == "landed" for task in state.tasks.values()) else 1


def tell_outcome(kept: KeptRun, state: State, ending: str, *, as_json: bool) -> None:
    now = standing(kept.course, state, now=time.time(), live=False)
    if as_json:
        say_json(now.as_json() | {"ending": ending, "exit_status": exit_status(state, ending)})
        return
    tell_table(now)
    tell_use(now)
    landed = sum(task.phase == "landed" for task in now.tasks)
    say(f"\n{landed} of {len(now.tasks)} landed on {now.target}, which is at {now.tip[:12]}")
    if ending == "halted":
        say(f"the gate is shut: {state.halted}" if state.halted else held_up(state, patient=False))
    if ending != "ended":
        say(f"go on with:  forgepool resume {now.run}")
    say(f"journal:     {kept.folder / 'journal.db'}")
    say(f"report:      forgepool report {now.run}")
    say(f"history:     git log --graph --oneline {now.target}")


def tell_table(now: Standing) -> None:
    """What models used has columns only where some were."""
    by_models = now.used.counts
    columns = ("task", "attempts", "outcome", "commit", "seconds", *(("tokens", "USD") if by_models else ()), "why")
    out().print(table(columns, [_row(task, by_models=by_models) for task in now.tasks]))


def tell_use(now: Standing) -> None:
    """Who is asked what, which models were used, and how the budget stands; in lines that can be copied."""
    tell_wanted(now)
    for held in now.whole.review.held if now.whole is not None and now.whole.tasks else ():
        say(f"held against what has landed, as a whole: {held}")
    if said := bill_words(now.used):
        say(f"models: {said}")
    for one in budget_words(now.budget):
        say(f"budget: {one}")


def tell_wanted(now: Standing) -> None:
    """What each task that waits for a person waits for, with the commands."""
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
        str(task.attempts),
        task.phase,
        (task.commit or "")[:12],
        "" if task.seconds is None else f"{task.seconds:.1f}",
        *(spent if by_models else ()),
        _why(task),
    )


def _why(task: TaskStanding) -> str:
    """What is told below with commands to copy is not told twice."""
    if task.question:
        return f"asks: {task.question}"
    return "waits for a person's word on its candidate, see below" if task.wanted == "review" else task.detail
