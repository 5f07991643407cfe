"""`forgepool context replay` and `use`: compare context profiles on recorded runs, and change the one of a run."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer

from forgepool.orchestrator.cli.app import add_group
from forgepool.orchestrator.cli.output.say import say, say_json
from forgepool.orchestrator.cli.output.terminal import out, table
from forgepool.orchestrator.cli.run.options import OneTask, Run, find_run_with
from forgepool.orchestrator.cli.run.requests import ask
from forgepool.orchestrator.decisions.reasons import count_of
from forgepool.orchestrator.decisions.requests import CONVERSING, may_choose_profile
from forgepool.orchestrator.journal.inbox import PersonRequest
from forgepool.orchestrator.run.hub import CannotRun
from forgepool.orchestrator.run.run_folder import KeptRun
from forgepool.orchestrator.state.run import RunState
from forgepool.workers.context.profiles.registry import find_profile
from forgepool.workers.context.replay.comparison import APPEND_ONLY, Row, cases, compare, row_names
from forgepool.workers.context.replay.cost import ANTHROPIC
from forgepool.workers.context.replay.cost import prices as prices_named
from forgepool.workers.context.replay.formats import read_recordings
from forgepool.workers.context.replay.recording import BadRecording, Recording
from forgepool.workers.context.replay.simulation import SYSTEM_TOKENS, WINDOW_TOKENS, ReplayTerms

_ENDINGS = frozenset({".json", ".jsonl", ".traj"})
_WIDTH = 132
_COLUMNS = (
    ("", "", "profile"),
    ("", "cost", "USD"),
    ("against", "append", "%"),
    ("with", "refetch", "%"),
    ("", "fresh", "ktok"),
    ("", "written", "ktok"),
    ("", "cached", "ktok"),
    ("cache", "hits", "%"),
    ("context", "peak", "ktok"),
    ("context", "mean", "ktok"),
    ("", "re-", "builds"),
    ("", "model", "calls"),
    ("needs", "lost", "%"),
    ("steps", "hit", "%"),
    ("anchors", "lost", "%"),
)
"""Column heads, three lines each."""


def register(app: typer.Typer) -> None:
    context = add_group(app, "context", "How an agent's conversation is kept short for its model.")
    context.command()(replay)
    context.command()(use)


def replay(
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help="Recordings, or folders with recordings.")],
    profile: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A profile to print; repeatable. Default: all."),
    ] = None,
    prices: Annotated[
        str, typer.Option(metavar="anthropic|openai|FILE", help="A price list, or your own YAML file.")
    ] = ANTHROPIC.name,
    window: Annotated[int, typer.Option(min=1, help="Size of the model's window, in tokens.")] = WINDOW_TOKENS,
    ttl: Annotated[
        float | None,
        typer.Option(min=0.0, metavar="SECONDS", help="Seconds a cache keeps an unused prefix; default: for ever."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON list.")] = False,
) -> int:
    """Show what recorded runs would have cost under each profile, and what the agent would have missed."""
    paths, names = _split_names(files, profile or [])
    terms = ReplayTerms(prices=prices_named(prices), window_tokens=window, ttl_s=ttl)
    found = _read(paths)
    rows = _compare_all(found.recordings, names, terms, with_baseline=not as_json)
    if as_json:
        say_json([row.columns for row in rows])
    else:
        _tell(rows, found, terms)
    return 0


@dataclass(slots=True)
class _Found:
    recordings: list[Recording] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    """Reasons why files in folders were skipped."""


def _split_names(words: Sequence[str], profiles: Sequence[str]) -> tuple[list[Path], list[str]]:
    """Split words into files and profile names: several names may follow `--profile`, unless a file has that name."""
    names = [name for each in profiles for name in each.split(",") if name]
    paths = []
    for word in words:
        if names and word in row_names() and not Path(word).exists():
            names.append(word)
        else:
            paths.append(Path(word))
    if not paths:
        raise BadRecording("no recording is named; give files with recordings, or folders with such files")
    return paths, list(dict.fromkeys(names))


def _read(paths: Sequence[Path]) -> _Found:
    """
    Read recordings from files and folders.

    Raises:
        BadRecording: a named file is not one, or a folder has none.
    """
    found = _Found()
    for path in paths:
        if not path.is_dir():
            found.recordings += read_recordings(path)
            continue
        before = len(found.recordings)
        for each in _below(path):
            try:
                found.recordings += read_recordings(each)
            except BadRecording as wrong:
                found.left_out.append(str(wrong))
        if len(found.recordings) == before:
            raise BadRecording(
                f"{path}: this folder has no recording, which would be a file ending in {', '.join(sorted(_ENDINGS))}"
            )
    return found


def _below(folder: Path) -> Iterator[Path]:
    yield from sorted(path for path in folder.rglob("*") if path.suffix in _ENDINGS and path.is_file())


def _compare_all(
    recordings: Sequence[Recording], names: Sequence[str], terms: ReplayTerms, *, with_baseline: bool
) -> list[Row]:
    wanted = list(names) or list(row_names())
    if with_baseline and APPEND_ONLY not in wanted:
        wanted.insert(0, APPEND_ONLY)
    rows = []
    with out(stderr=True).status("reading what was needed") as status:
        for row in compare(cases(recordings), wanted, terms):
            rows.append(row)
            status.update(f"{row.name}: done, {len(rows)} of {len(wanted)}")
    return rows


def _tell(rows: Sequence[Row], found: _Found, terms: ReplayTerms) -> None:
    columns = [
        _aligned(head, cells) for head, cells in zip(_COLUMNS, zip(*map(_cells, rows), strict=True), strict=True)
    ]
    paper = out()
    # Folded cells are unreadable on a narrow terminal; its own wrapping is not.
    paper.width = max(_WIDTH, paper.width)
    heads = ["\n".join(column[:3]) for column in columns]
    paper.print(table(heads, list(zip(*(column[3:] for column in columns), strict=True))))
    say(f"\n{_terms(rows, found, terms)}")
    for row in rows:
        for why in dict.fromkeys(row.refused):
            say(f"{row.name}: unchanged: {why}")
    for why in found.left_out:
        say(f"skipped: {why}")


def _aligned(head: Sequence[str], cells: Sequence[str]) -> list[str]:
    """Align numbers to the right, names to the left."""
    width = max(map(len, (*head, *cells)))
    is_names = head[-1] == "profile"
    return [each.ljust(width) if is_names else each.rjust(width) for each in (*head, *cells)]


def _cells(row: Row) -> tuple[str, ...]:
    columns = row.columns
    shares = (columns["needs_lost_pct"], columns["steps_hit_pct"], columns["anchors_lost_pct"])
    return (
        columns["profile"],
        f"{columns['cost_usd']:.2f}",
        _signed(columns["cost_vs_append_pct"]),
        _signed(columns["cost_with_refetch_pct"]),
        *(f"{columns[name] / 1000:,.0f}" for name in ("fresh_tokens", "written_tokens", "cached_tokens")),
        f"{100 * columns['hit_rate']:.1f}",
        *(f"{columns[name] / 1000:.1f}" for name in ("peak_tokens", "mean_tokens")),
        str(columns["rebuilds"]),
        str(columns["model_calls"]),
        *(f"{share:.1f}" for share in shares),
    )


def _signed(share: float | None) -> str:
    return "" if share is None else f"{share:+.1f}"


def _terms(rows: Sequence[Row], found: _Found, terms: ReplayTerms) -> str:
    prices, recordings = terms.prices, found.recordings
    per = f"fresh {prices.fresh:g}, written {prices.written:g}, cached {prices.cached:g}, output {prices.output:g}"
    cache = "an automatic prefix cache" if prices.automatic else "a cache of what is marked"
    kept = "for ever" if terms.ttl_s is None else f"for {terms.ttl_s:g} s"
    assumed = sum(not recording.system for recording in recordings)
    system = f", system prompts of {SYSTEM_TOKENS:,} tokens assumed in {assumed:,}" if assumed else ""
    measured = f"{count_of(len(recordings), 'recording')}, {count_of(rows[0].bill.calls, 'call')}"
    return (
        f"{measured}; a token is 4 characters{system}.\n"
        f"Prices {prices.name}, USD per million tokens: {per}; {cache} that keeps things {kept}.\n"
        f"Window of the model: {terms.window_tokens:,} tokens."
    )


def use(
    profile: Annotated[str, typer.Argument(help="A context profile; docs/explanation/context.md has them.")],
    run: Run,
    task: OneTask = None,
) -> None:
    """Change the context profile of a run or one of its tasks, from the model's next call on."""
    name = find_profile(profile).make().name
    kept = find_run_with(run, task)
    state = kept.state()
    able = [one for one in ([task] if task else state.tasks) if may_choose_profile(kept.course, state, one)]
    if not able:
        raise CannotRun(_why_not(kept, state, task))
    whom = f"'{task}'" if task else "all its tasks"
    ask(run, PersonRequest(do="context", task=task, text=name), wish=f"use the context profile '{name}' for {whom}")


def _why_not(kept: KeptRun, state: RunState, task: str | None) -> str:
    run = kept.options.run
    if task is None:
        return f"no task of run {run} has a conversation to change: all have ended, or run other programs"
    kind = kept.course.tasks[task].agent.kind
    if kind not in CONVERSING:
        return f"task '{task}' of run {run} runs another program (agent: {kind}), which manages its own context"
    phase = state.tasks[task].phase
    return f"task '{task}' of run {run} is {phase}; a profile can only be changed while a task runs"
