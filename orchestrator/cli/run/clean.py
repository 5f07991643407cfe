"""`forgepool clean`: lists or removes what runs left: their folders on this host, and their refs in the hubs."""

import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Annotated

import typer
from pydantic import TypeAdapter, ValidationError

from forgepool.orchestrator.cli.output.say import complain, say, say_json, tell_slow
from forgepool.orchestrator.cli.output.terminal import out, table
from forgepool.orchestrator.cli.run.options import JsonList
from forgepool.orchestrator.decisions.reasons import count_of
from forgepool.orchestrator.journal.hub_copy import find_other_holder
from forgepool.orchestrator.journal.store import JournalBusy
from forgepool.orchestrator.journal.surveys import list_surveys
from forgepool.orchestrator.reports.event_text import shorten_list
from forgepool.orchestrator.reports.leftovers import (
    Leftover,
    folder_bytes,
    list_kept_tasks,
    list_leftovers,
    list_plan_texts,
    mirror_of,
    reclaim,
    refs_left,
)
from forgepool.orchestrator.run import run_folder
from forgepool.orchestrator.run.hub import CannotRun
from forgepool.workers.schema.mistakes import Duration
from forgepool.workers.schema.settings import Settings
from forgepool.worktrees.git.git import GitFailed
from forgepool.worktrees.hub.mirror import MissingCommit

_OLDER: TypeAdapter[float] = TypeAdapter(Duration)
_USUAL_S, _UNDER_WAY_S = 14 * 86400.0, 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    """One line of the list."""

    run: str
    ended: float
    """Unix seconds of its last event."""
    finished: bool
    hub: str
    bytes: int
    refs: int
    tasks: list[str]
    kept: str = ""
    """Why it is not removed."""
    removed: bool = False


def register(app: typer.Typer) -> None:
    app.command()(clean)


def clean(
    runs: Annotated[
        list[str] | None,
        typer.Argument(help="Runs to remove, whatever their age; one that can be resumed only if older than --older."),
    ] = None,
    older: Annotated[
        str | None,
        typer.Option(
            metavar="AGE", help="Only what was last used longer ago; default: 14d. A plan or survey: at least 1h."
        ),
    ] = None,
    hub: Annotated[
        bool, typer.Option("--hub", help="Also remove their refs in the hub: the work that did not land.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Remove them; without it they are only listed.")] = False,
    as_json: JsonList = False,
) -> int:
    """
    List what ended runs of this host still use, in their folders and in their hubs, with old surveys, and plans that
    no run uses; or remove it.
    """
    settings, older_s = Settings(), _seconds(older)
    named = {run_folder.find(settings, run).options.run for run in runs or []}
    found = [each for each in list_leftovers(settings) if not runs or each.run in named]
    # One that is under way writes more often than once an hour.
    before = time.time() - max(older_s, _UNDER_WAY_S)
    with tell_slow("looking through the runs and their hubs"):
        rows = [_row(each, named, older_s, settings, hub=hub, dated=older is not None) for each in found]
    shown = [row for row in rows if row is not None]
    going = [row.run for row in shown if not row.kept]
    texts = [] if runs else list_plan_texts(settings, before=before, but_of=going)
    surveys = [] if runs else list_surveys(settings.home, before=before)
    if not as_json:
        _tell(shown, len(texts), len(surveys), before, yes=yes)
    if yes:
        with tell_slow("removing"):
            shown = list(_remove(shown, {each.run: each for each in found}, settings, hub=hub))
            texts = [] if runs else list_plan_texts(settings, before=before)
            for text in texts:
                shutil.rmtree(text, ignore_errors=True) if text.is_dir() else text.unlink(missing_ok=True)
            for survey in surveys:
                survey.unlink(missing_ok=True)
    if as_json:
        others = [*(("plan", path) for path in texts), *(("survey", path) for path in surveys)]
        say_json(
            [*map(asdict, shown), *({what: str(path), "removed": yes and not path.exists()} for what, path in others)]
        )
    elif yes and (removed := [row for row in shown if row.removed]):
        say(f"removed: {_sum(removed)}")
    return 3 if any(row.kept.startswith("its hub") for row in shown) else 0


def _row(each: Leftover, named: set[str], older_s: float, settings: Settings, *, hub: bool, dated: bool) -> _Row | None:
    """Return the line of a run; None where it is not listed."""
    young = each.ended > time.time() - older_s
    if each.run not in named and (young or each.busy or not each.state.finished):
        return None
    row = _Row(
        run=each.run,
        ended=each.ended,
        finished=each.state.finished,
        hub=each.hub,
        bytes=folder_bytes(each.folder),
        refs=0,
        tasks=list(list_kept_tasks(each.state)),
    )
    if each.busy:
        return replace(row, kept="it is running")
    if young and (dated or not each.state.finished):
        how = "" if each.state.finished else "it can be resumed, and "
        return replace(row, kept=f"{how}its last event is younger than {older_s / 86400:g} days")
    if not hub:
        return replace(row, kept=why) if (why := _why_kept(each, settings)) else replace(row, tasks=[])
    try:
        mirror = mirror_of(each.hub, settings)
        if other := find_other_holder(mirror, each.folder, each.run):
            return replace(row, kept=f"{other} has taken it over; without --hub only this host's folder is removed")
        left = refs_left(mirror, each.state, markers_too=True)
    except (GitFailed, MissingCommit) as trouble:
        return replace(row, kept=f"its hub cannot be reached: {trouble}")
    return replace(row, refs=sum(map(len, left.values())), tasks=list(left))


def _why_kept(each: Leftover, settings: Settings) -> str:
    """Return why a run stays without --hub: its work is in the hub, or may be; empty where it has left none."""
    unlanded = list_kept_tasks(each.state)
    try:
        left = unlanded and refs_left(mirror_of(each.hub, settings), each.state, markers_too=True)
        return "the hub has its work; --hub removes both" if left else ""
    except (GitFailed, MissingCommit):
        known = each.state.removed | each.state.tasks
        tried = any(known[one].attempt for one in unlanded)
        return "the hub cannot be reached, and may have its work; --hub removes both" if tried else ""


def _remove(rows: Sequence[_Row], found: dict[str, Leftover], settings: Settings, *, hub: bool) -> Iterator[_Row]:
    for row in rows:
        if row.kept:
            yield row
            continue
        try:
            reclaim(found[row.run], settings, hub=hub)
            yield replace(row, removed=True)
        except (JournalBusy, GitFailed) as trouble:
            kept = f"its hub cannot be reached: {trouble}" if isinstance(trouble, GitFailed) else str(trouble)
            complain(f"{row.run} is kept: {kept}", 0)
            yield replace(row, kept=kept)


def _tell(rows: Sequence[_Row], texts: int, surveys: int, before: float, *, yes: bool) -> None:
    going = [row for row in rows if not row.kept]
    what = f"this {'removes' if yes else 'would remove'}"
    plans = f"{count_of(texts, 'plan')} that a client gave or a model wrote, and no run uses"
    since = time.strftime("%Y-%m-%d %H:%M", time.localtime(before))
    unused = f"{count_of(surveys, 'survey')} of repositories that no run has used since {since}"
    for words, count in ((plans, texts), (unused, surveys)):
        if count:
            say(f"{what} {words}{_offer(count, yes=yes)}")
    if not (texts or surveys or rows):
        say("no ended run has left anything that is old enough; name a run, or give --older")
        return
    if going:
        days = [time.strftime("%Y-%m-%d", time.localtime(row.ended)) for row in going]
        lines = [
            (
                row.run,
                "ended" if row.finished else "paused",
                day,
                _size(row.bytes),
                str(row.refs),
                shorten_list(row.tasks),
            )
            for row, day in zip(going, days, strict=True)
        ]
        out().print(table(("run", "state", "last event", "size", "refs", "tasks"), lines))
        say(f"{what} {_sum(going)}{_offer(len(going), yes=yes)}")
    for row in rows:
        if row.kept:
            say(f"kept: {row.run}: {row.kept}")


def _offer(count: int, *, yes: bool) -> str:
    return "" if yes else f"; --yes removes {'it' if count == 1 else 'them'}"


def _sum(rows: Sequence[_Row]) -> str:
    refs = f" and {count_of(sum(row.refs for row in rows), 'ref')}" if any(row.refs for row in rows) else ""
    return f"{count_of(len(rows), 'folder')} with {_size(sum(row.bytes for row in rows))}{refs}"


def _size(size: int) -> str:
    return f"{size / 1_000_000:,.1f} MB"


def _seconds(older: str | None) -> float:
    """Parse an age in seconds. Raises CannotRun."""
    try:
        return _USUAL_S if older is None else _OLDER.validate_python(older)
    except ValidationError as wrong:
        raise CannotRun(
            f"--older is '{(older or '')[:60]}'; give a duration of more than zero, such as 12h or 7d"
        ) from wrong
