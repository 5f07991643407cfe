"""`forgepool clean`: lists or removes the refs that ended runs left in their hubs."""

import time
from dataclasses import asdict, dataclass
from typing import Annotated

import typer
from pydantic import TypeAdapter, ValidationError

from forgepool.orchestrator.cli.output.say import complain, say, say_json
from forgepool.orchestrator.cli.output.terminal import out, table
from forgepool.orchestrator.cli.run.options import Json
from forgepool.orchestrator.decisions.reasons import count_of
from forgepool.orchestrator.reports.event_text import shorten_list
from forgepool.orchestrator.reports.leftovers import Leftover, list_ended_runs, mirror_of, refs_left, remove_refs
from forgepool.orchestrator.run.hub import CannotRun
from forgepool.workers.schema.mistakes import Duration
from forgepool.workers.schema.settings import Settings
from forgepool.worktrees.git.git import GitFailed

_OLDER: TypeAdapter[float] = TypeAdapter(Duration)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    """One line of the list."""

    run: str
    ended: float
    hub: str
    refs: int
    tasks: list[str]
    removed: bool


def register(app: typer.Typer) -> None:
    app.command()(clean)


def clean(
    older: Annotated[
        str | None, typer.Option(metavar="AGE", help="Only runs that ended longer ago than this, such as 7d.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Remove the refs; without it they are only listed.")] = False,
    as_json: Json = False,
) -> int:
    """List the git refs that ended runs of this host left in their repositories, or remove them."""
    settings, before = Settings(), time.time() - _seconds(older)
    rows, away = list[_Row](), set[str]()
    for one in list_ended_runs(settings):
        if one.ended > before or one.hub in away:
            continue
        try:
            found = _found(one, settings, yes=yes)
        except GitFailed as trouble:
            away.add(one.hub)
            complain(f"{one.hub} cannot be reached and was not changed: {trouble}", 0)
            continue
        if found:
            refs = sum(map(len, found.values()))
            rows.append(_Row(run=one.run, ended=one.ended, hub=one.hub, refs=refs, tasks=list(found), removed=yes))
    _tell(rows, yes=yes, as_json=as_json)
    return 3 if away else 0


def _found(one: Leftover, settings: Settings, *, yes: bool) -> dict[str, list[str]]:
    mirror = mirror_of(one.hub, settings)
    found = refs_left(mirror, one.state)
    if found and yes:
        remove_refs(mirror, one.state)
    return found


def _tell(rows: list[_Row], *, yes: bool, as_json: bool) -> None:
    if as_json:
        say_json([asdict(row) for row in rows])
        return
    if not rows:
        say("no ended run has left anything in its hub")
        return
    days = [time.strftime("%Y-%m-%d", time.localtime(row.ended)) for row in rows]
    shown = [(row.run, day, str(row.refs), shorten_list(row.tasks)) for row, day in zip(rows, days, strict=True)]
    out().print(table(("run", "ended", "refs", "tasks"), shown))
    refs = count_of(sum(row.refs for row in rows), "ref")
    say(f"{refs} removed" if yes else f"{refs}, all work of tasks that did not land; --yes removes them")


def _seconds(older: str | None) -> float:
    """Parse an age in seconds. Raises CannotRun."""
    try:
        return 0.0 if older is None else _OLDER.validate_python(older)
    except ValidationError as wrong:
        raise CannotRun(f"--older is '{older}'; give a duration such as 12h or 7d") from wrong
