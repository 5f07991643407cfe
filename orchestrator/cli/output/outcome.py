"""The end of a run on the terminal: the table, where things lie, what to type next."""

import time
from collections import Counter

from forgepool.orchestrator.cli.output.say import printable, say, say_json
from forgepool.orchestrator.cli.output.terminal import print_table
from forgepool.orchestrator.decisions.post_merge import where_to_look
from forgepool.orchestrator.decisions.queue.delegation import why_held_up
from forgepool.orchestrator.decisions.reasons import count_of
from forgepool.orchestrator.reports.costs import bill_words, budget_words, usd_words
from forgepool.orchestrator.reports.event_text import answer_with, shorten_list
from forgepool.orchestrator.reports.leftovers import mirror_of, refs_left
from forgepool.orchestrator.reports.status import Standing, TaskStanding, standing
from forgepool.orchestrator.run.run_folder import KeptRun
from forgepool.orchestrator.state.run import RunState
from forgepool.workers.schema.settings import Settings
from forgepool.worktrees.git.git import GitFailed


def exit_status(state: RunState, ending: str) -> int:
    """0 all landed or had nothing to do, 1 something did not, 3 infrastructure stood in the way, 130 interrupted."""
    if ending == "interrupted":
        return 130
    if ending == "halted":
        return 3 if state.halted_by_infrastructure or state.gate_away else 1
    return 0 if len(state.find_done()) == len(state.tasks) else 1


def tell_outcome(kept: KeptRun, state: RunState, ending: str, *, as_json: bool, before: str = "") -> None:
    """`before`: what a person types in front of each command, such as variables."""
    now = standing(kept.course, state, now=time.time(), live=False)
    if as_json:
        say_json(now.as_json() | {"ending": ending, "exit_status": exit_status(state, ending)})
        return
    tell_table(now)
    tell_use(now)
    say(f"\n{tally(now)} on {now.target}, which is at {now.tip[:12]}")
    if ending == "halted":
        say(f"landing is paused: {state.halted}" if state.halted else why_held_up(state, patient=False))
    for line in where_to_look(state.wave.base_red) if state.wave.base_red is not None else ():
        say(f"    {printable(line)}")
    forgepool = f"{before}forgepool"
    if ending != "ended":
        say(f"go on with:  {forgepool} resume {now.run}")
    if len(state.find_done()) < len(state.tasks):
        say(f"logs:        {forgepool} logs {now.run} TASK")
    say(f"journal:     {kept.folder / 'journal.db'}")
    say(f"report:      {forgepool} report {now.run}")
    say(f"history:     git log --graph --oneline {now.target}")
    if state.in_phase("already_there"):
        say("once more:   forgepool run PLAN --again does what is already there, too")
    if ending == "ended":
        _tell_leftovers(kept, state)


def _tell_leftovers(kept: KeptRun, state: RunState) -> None:
    """Say what the run leaves in its hub; nothing where that cannot be asked."""
    try:
        found = refs_left(mirror_of(kept.options.hub, Settings()), state)
    except GitFailed:
        return
    if found:
        refs = count_of(sum(map(len, found.values())), "ref")
        tasks = shorten_list(list(found))
        say(f"kept:        {refs} in the hub, the work of {tasks}; `forgepool clean` lists what is kept")


def tally(now: Standing) -> str:
    """`3 of 7 landed, 2 had no changes, 1 already there`."""
    count = Counter(task.phase for task in now.tasks)
    unchanged = f", {count['no_changes']} had no changes" if count["no_changes"] else ""
    there = f", {count['already_there']} already there" if count["already_there"] else ""
    return f"{count['landed']} of {len(now.tasks)} landed{unchanged}{there}"


def tell_table(now: Standing) -> None:
    """What models used has columns only where some were."""
    by_models = now.used.counts
    columns = ("task", "attempts", "outcome", "commit", "seconds", *(("tokens", "USD") if by_models else ()), "why")
    print_table(columns, [_row(task, by_models=by_models) for task in now.tasks])


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
        task.phase.replace("_", " "),
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
