"""`forgepool salvage`: get the work of attempts that did not land."""

import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from forgepool.orchestrator.cli.output.say import complain, printable, say
from forgepool.orchestrator.cli.run.options import OneTask, Run, find_run_with
from forgepool.orchestrator.decisions.orders.kept_work import list_kept
from forgepool.orchestrator.decisions.reasons import author_in, count_of, one_line
from forgepool.orchestrator.launch.salvage import (
    SalvagedWork,
    compose_work,
    make_branch,
    make_worktree,
    read_patch,
)
from forgepool.orchestrator.run.hub import CannotRun
from forgepool.orchestrator.run.run_folder import KeptRun
from forgepool.orchestrator.state.run import RunState
from forgepool.orchestrator.state.task import TaskState
from forgepool.supervisor.messages.requests import PERSON
from forgepool.workers.schema.error_lines import error_lines
from forgepool.workers.schema.settings import Settings

_MOST_FILES, _LOG_LINES = 50, 6


def register(app: typer.Typer) -> None:
    app.command()(salvage)


def salvage(
    run: Run,
    task: OneTask = None,
    branch: Annotated[str | None, typer.Option(metavar="NAME", help="Make a branch of the work.")] = None,
    to: Annotated[
        Path | None, typer.Option("--to", metavar="DIR", help="Check the work out there, as a worktree.")
    ] = None,
    patch: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write the work as a patch; - is standard output.")
    ] = None,
    repo: Annotated[Path, typer.Option(help="The clone for --branch and --to.")] = Path(),
) -> int:
    """
    Show the newest work of a task that did not land, on the target's tip, with the reason and the way on; or get it.
    Without a task, list all such work. The run is not changed.
    """
    kept = find_run_with(run, task)
    if kept.options.gate:
        raise CannotRun(f"{kept.options.run} is a merge queue; its entries are branches of those who submitted them")
    if sum(one is not None for one in (branch, to, patch)) > 1:
        raise CannotRun("give one of --branch, --to and --patch")
    state = kept.state()
    if task is None:
        if branch or to or patch:
            raise CannotRun(f"no task is named; `forgepool salvage {state.run}` lists what there is")
        _list(state)
        return 0
    _refuse_to_overwrite(patch)
    work = compose_work(kept, state, state.tasks[task], Settings())
    place = _get(work, branch, to, patch, repo)
    if not place:
        say("\n".join(_describe(kept, state, state.tasks[task], work)))
        return 0
    lines = [f"{place}: {task}, attempt {work.kept.attempt}, {work.kept.what}; {_where(state, work)}"]
    if work.kept.withheld:
        lines.append(f"it was not pushed to the hub: {work.kept.withheld}")
    elif branch is not None:
        lines.append(f"mend it, then submit it: {_submission(kept, state, task, work, branch, repo)}")
    if patch != "-":
        say("\n".join(map(printable, lines)))
    elif work.conflicts or work.kept.withheld:
        complain("; ".join(lines), 0)
    return 0


def _get(work: SalvagedWork, branch: str | None, to: Path | None, patch: str | None, repo: Path) -> str:
    """Make what is asked for, and return its name; empty where nothing is."""
    if branch is not None:
        make_branch(work, repo, branch)
        return f"branch {branch}"
    if to is not None:
        make_worktree(work, repo, to)
        return str(to)
    if patch is not None:
        _write(patch, read_patch(work))
    return patch or ""


def _list(state: RunState) -> None:
    """Print the work that can be salvaged, newest attempt last."""
    found = [(task, one) for task in state.tasks.values() for one in list_kept(state, task)]
    for task, one in found:
        say(printable(f"{task.id}: {one.words}"))
    if found:
        say(f"to look at one: forgepool salvage {state.run} TASK")
    else:
        say(f"no task of run {state.run} has left work that did not land")


def _refuse_to_overwrite(patch: str | None) -> None:
    if patch is not None and patch != "-" and Path(patch).exists():
        raise CannotRun(f"{patch} is there already; give another file with --patch")


def _write(patch: str, content: bytes) -> None:
    if patch == "-":
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
        return
    with Path(patch).open("xb") as file:
        file.write(content)


def _describe(kept: KeptRun, state: RunState, task: TaskState, work: SalvagedWork) -> Iterator[str]:
    yield printable(f"{task.id}: {work.kept.words}")
    yield f"  {_where(state, work)}: {count_of(len(work.files), 'file')}"
    for change in work.files[:_MOST_FILES]:
        yield printable(f"    {change.status} {change.path}")
    if len(work.files) > _MOST_FILES:
        yield f"    and {len(work.files) - _MOST_FILES} more"
    reason = next((one for one in reversed(task.reasons) if one.attempt == work.kept.attempt), None)
    yield f"  why: {one_line(task.detail if reason is None else reason.summary)}"
    for command in kept.course.tasks[task.id].acceptance:
        yield f"  its acceptance: {one_line(command)}"
    if reason is not None:
        yield from (f"    | {line}" for line in error_lines(reason.log_tail, _LOG_LINES))
        if reason.reproduce:
            yield f"  see it again: {reason.reproduce}"
    name = f"forgepool salvage {state.run} {task.id}"
    yield f"  to get it: {name} --branch NAME, --to DIR or --patch FILE"
    note = "" if kept.course.tasks[task.id].agent.kind == "command" else " --note TEXT"
    yield f"  to have it done again: forgepool retry {state.run} {task.id}{note}"


def _where(state: RunState, work: SalvagedWork) -> str:
    if not work.conflicts:
        return f"on {state.target} at {work.base[:12]}"
    paths = printable(", ".join(work.conflicts[:10]))
    return f"it conflicts with {state.target} in {paths}, so this is the work as it was made, on {work.base[:12]}"


def _submission(kept: KeptRun, state: RunState, task: str, work: SalvagedWork, branch: str, repo: Path) -> str:
    """Return the command that submits the branch, which names the agent: its work is reviewed as an agent's."""
    words = ["forgepool", "queue", "submit", branch, "--target", state.target]
    if repo != Path():
        words += ["--repo", str(repo)]
    author = author_in(kept.course, state, state.tasks[task])
    if author.agent not in (PERSON, "command"):
        words += ["--agent", author.agent]
        of_it = state.tasks[task].result is not None and state.tasks[task].made_by == work.kept.attempt
        words += [word for family in author.families if of_it for word in ("--family", family)]
    return shlex.join(words)
