"""`forgepool salvage`: get the work of attempts that did not land."""

import shlex
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

from forgepool.orchestrator.cli.output.say import complain, printable, say
from forgepool.orchestrator.cli.run.check import interruptible
from forgepool.orchestrator.cli.run.options import OneTask, Run, find_run_with
from forgepool.orchestrator.decisions.orders.kept_work import list_kept
from forgepool.orchestrator.decisions.reasons import count_of, one_line
from forgepool.orchestrator.launch.salvage.partial import MOST_RUNS, PartialSearch, open_search
from forgepool.orchestrator.launch.salvage.work import (
    SalvagedWork,
    compose_work,
    find_author,
    make_branch,
    make_worktree,
    read_patch,
    require_room,
)
from forgepool.orchestrator.merge_queue.hub_queue import HubQueue
from forgepool.orchestrator.merge_queue.submit import Wish as SubmissionWish
from forgepool.orchestrator.merge_queue.submit import submit
from forgepool.orchestrator.run.hub import CannotRun
from forgepool.orchestrator.run.run_folder import KeptRun
from forgepool.orchestrator.state.run import RunState
from forgepool.orchestrator.state.task import TaskState
from forgepool.supervisor.messages.requests import Author
from forgepool.workers.schema.error_lines import error_lines
from forgepool.workers.schema.settings import Settings
from forgepool.worktrees.git.git import without_password

_MOST_FILES, _LOG_LINES = 50, 6


def register(app: typer.Typer) -> None:
    app.command()(salvage)


def salvage(
    run: Run,
    task: OneTask = None,
    attempt: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="The attempt; default: the newest with something that the target lacks."),
    ] = None,
    branch: Annotated[str | None, typer.Option(metavar="NAME", help="Make a branch of the work.")] = None,
    to: Annotated[
        Path | None, typer.Option("--to", metavar="DIR", help="Check the work out there, as a worktree.")
    ] = None,
    patch: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write the work as a patch; - is standard output.")
    ] = None,
    repo: Annotated[Path, typer.Option(help="The clone for --branch and --to.")] = Path(),
    partial: Annotated[
        bool,
        typer.Option("--partial", help="Find the largest set of hunks that the gate lets in, and submit that."),
    ] = False,
    runs: Annotated[
        int | None, typer.Option(metavar="N", min=1, help=f"With --partial: the most runs of the gate ({MOST_RUNS}).")
    ] = None,
) -> int:
    """
    Show the newest work of a task that did not land, on the target's tip, with the reason and the way on; or get it.
    Without a task, list all such work. The run is not changed.

    With --partial, a branch of the hunks that pass is made and submitted to the merge queue that serves the target;
    without such a queue, the command that submits it is printed. Exit status: 0 hunks were found, 1 none passes, 2
    wrong usage, or a target that is red or has no checks, 3 infrastructure, 130 interrupted.
    """
    kept = find_run_with(run, task)
    if kept.options.gate:
        raise CannotRun(f"{kept.options.run} is a merge queue; its entries are branches of those who submitted them")
    if sum(one is not None for one in (branch, to, patch)) > 1:
        raise CannotRun("give one of --branch, --to and --patch")
    if runs is not None and not partial:
        raise CannotRun("--runs is for --partial; add --partial, or leave --runs out")
    state = kept.state()
    if task is None:
        if branch or to or patch or partial or attempt is not None:
            raise CannotRun(f"no task is named; `forgepool salvage {state.run}` lists what there is")
        _list(state)
        return 0
    _refuse_to_overwrite(patch)
    work = compose_work(kept, state, state.tasks[task], Settings(), attempt)
    wish = WorkWish(kept=kept, state=state, task=task, branch=branch, to=to, patch=patch, repo=repo)
    return wish.find_partial(work, runs or MOST_RUNS) if partial else wish.get(work)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkWish:
    """The form in which a task's work is asked for, and the clone."""

    kept: KeptRun
    state: RunState
    task: str
    branch: str | None
    to: Path | None
    patch: str | None
    repo: Path

    def get(self, work: SalvagedWork) -> int:
        place = _get(work, self.branch, self.to, self.patch, self.repo)
        if not place:
            say("\n".join(_describe(self.kept, self.state, self.state.tasks[self.task], work)))
            return 0
        about = f"{self.task}, attempt {work.kept.attempt}, {work.kept.what}"
        lines = [f"{place}: {about}; {_where(self.state, work)}"]
        if work.kept.withheld:
            lines.append(f"it was not pushed to the hub: {work.kept.withheld}")
        elif self.branch is not None:
            lines.append(f"mend it, then submit it: {self._submission(work, self.branch)}")
        if self.patch != "-":
            say("\n".join(map(printable, lines)))
        elif work.conflicts or work.kept.withheld:
            complain("; ".join(lines), 0)
        return 0

    def find_partial(self, work: SalvagedWork, most_runs: int) -> int:
        """Find the hunks that the gate lets in, get them, and submit them where they became a branch."""
        search = open_search(self.kept, self.state.tasks[self.task], work, self._author(work), most_runs)
        wish = self
        if self.to is None and self.patch is None:
            wish = replace(self, branch=self.branch or f"salvage/{self.state.run}/{self.task}")
            require_room(replace(work, base=search.tip), self.repo, str(wish.branch))
        at_terminal = sys.stderr.isatty()

        def tell(line: str) -> None:
            if at_terminal:
                complain(line, 0)

        tell(f"{count_of(len(search.parts), 'hunk')}; at most {count_of(most_runs, 'run')} of the gate")
        with interruptible() as stop:
            search.search(Settings(), stop=stop, tell=tell)
        if search.ended in ("interrupted", "trouble") or not search.best:
            return _say_unfinished(search, self.state)
        found = search.result()
        place = _get(found, wish.branch, self.to, self.patch, self.repo)
        lines = [
            f"{place}: {self.task}, attempt {work.kept.attempt}: {search.share} pass the gate on {self.state.target} "
            f"at {found.base[:12]}; {search.effort}"
        ]
        if search.ended == "limit":
            lines.append("the limit of runs was reached; more hunks may pass with a larger --runs")
        lines += _list_left_out(search)
        if wish.branch is not None:
            lines.append(self._submit(found, wish.branch))
        for line in lines:
            if self.patch == "-":
                complain(line, 0)
            else:
                say(printable(line))
        return 0

    def _submit(self, work: SalvagedWork, branch: str) -> str:
        """Submit the branch where a queue serves the target; return a sentence about that, or the way."""
        target, hub = self.state.target, work.hub
        if work.kept.withheld:
            return f"it must not be pushed to the hub: {work.kept.withheld}"
        if target not in hub.heads or HubQueue(hub.mirror, target).look().silence:
            return f"no queue serves {target} now; to submit it: {self._submission(work, branch)}"
        author = self._author(work)
        wish = SubmissionWish(
            what=branch,
            repo=str(self.repo),
            hub=hub.facts.url,
            target=target,
            agent=author.agent,
            family=author.families,
        )
        _, done = submit(wish, Settings())
        return f"submitted to {target} as '{done.name}'; see: forgepool queue explain {done.name} --target {target}"

    def _author(self, work: SalvagedWork) -> Author:
        return find_author(self.kept, self.task, work.kept.attempt)

    def _submission(self, work: SalvagedWork, branch: str) -> str:
        """Return the command that submits the branch, which names the agent: its work is reviewed as an agent's."""
        author, target = self._author(work), self.state.target
        words = ["forgepool", "queue", "submit", branch, "--target", target]
        if self.repo != Path():
            words += ["--repo", str(self.repo)]
        words += ["--hub", without_password(work.hub.facts.url), "--agent", author.agent]
        words += [word for family in author.families for word in ("--family", family)]
        if target in work.hub.heads:
            return shlex.join(words)
        made = f"{work.base}:refs/heads/{target}"
        push = ["git", "-C", str(self.repo), "push", without_password(work.hub.facts.url), made]
        return f"{shlex.join(push)} && {shlex.join(words)}"


def _say_unfinished(search: PartialSearch, state: RunState) -> int:
    """Say why nothing is made of a search, and what it has found so far; return the exit status."""
    git = search.work.git
    if not search.best:
        so_far = "no hunk was found green"
    else:
        so_far = f"the best so far is {search.share}: git -C {git.git_dir} show {search.result().commit}"
    match search.ended:
        case "interrupted":
            return complain(f"interrupted after {search.effort}; {so_far}", 130)
        case "trouble":
            return complain(f"{search.trouble}; after {search.effort}, {so_far}", 3)
        case "limit":
            return complain(f"no hunk was found green in {search.effort}; give a larger --runs", 1)
        case _:
            whole = f"none of {count_of(len(search.parts), 'hunk')} passes the gate on {state.target}"
            return complain(f"{whole}, after {search.effort}; {search.list_left_out()[-1].why}", 1)


def _list_left_out(search: PartialSearch) -> Iterator[str]:
    left = search.list_left_out()
    if left:
        yield "left out:"
    for one in left:
        yield f"  {one.place}: {one.why}"
        if one.command:
            yield f"    it fails: {one_line(one.command)}" + (f" (its log: {one.log})" if one.log else "")


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
    yield f"  to get the hunks that pass the gate: {name} --partial"
    yield f"  to have it done again: forgepool retry {state.run} {task.id}{note}"


def _where(state: RunState, work: SalvagedWork) -> str:
    if not work.conflicts:
        return f"on {state.target} at {work.base[:12]}"
    paths = printable(", ".join(work.conflicts[:10]))
    return f"it conflicts with {state.target} in {paths}, so this is the work as it was made, on {work.base[:12]}"
