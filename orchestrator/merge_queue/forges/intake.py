"""
What the bot does next: which changes enter the gate, which leave it, and what the forge is told. Pure.

An entry is for one commit. Another commit on the change is another entry: the one before leaves the gate, and nothing
that was found out about it counts. What a forge has been told is told again only when it has changed.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from forgepool.orchestrator.merge_queue.forges.protocol import PullRequest, Reported


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownEntry:
    """What the gate knows of the newest entry of a change."""

    number: int
    head: str
    """The commit that entered."""
    standing: Literal["waiting", "landed", "returned", "withdrawn"]
    said: str
    """Why it is so, for people, in one sentence."""
    commit: str = ""
    """What it landed as."""
    contained: bool = True
    """Are the change's own commits in the target?"""


@dataclass(frozen=True, slots=True)
class Submit:
    """The change enters the gate with the commit it has."""

    change: PullRequest


@dataclass(frozen=True, slots=True)
class Withdraw:
    """The change's entry leaves the gate."""

    number: int
    why: str


@dataclass(frozen=True, slots=True)
class StatusReport:
    """The commit's status at the forge."""

    commit: str
    state: Reported
    summary: str


@dataclass(frozen=True, slots=True)
class Explain:
    """A comment that says why the change was returned."""

    number: int
    text: str


@dataclass(frozen=True, slots=True)
class NoteLanded:
    """The change has landed, and the forge is told."""

    number: int
    commit: str
    contained: bool


Step: TypeAlias = Submit | Withdraw | StatusReport | Explain | NoteLanded


def steps(
    changes: Iterable[PullRequest],
    entries: Mapping[int, KnownEntry],
    told: Mapping[str, StatusReport],
    targets: Iterable[str],
) -> tuple[Step, ...]:
    """
    What follows from the forge's ready changes, the gate's entries by number, and what was last told of each commit.

    To be done in this order: what replaces an entry is submitted after that was withdrawn. Changes of other targets are
    left alone.
    """
    gated = frozenset(targets)
    ready = {change.number: change for change in changes if change.target in gated}
    found: list[Step] = []
    for number, change in sorted(ready.items()):
        found += _of_change(change, entries.get(number))
    for number, entry in sorted(entries.items()):
        if entry.standing == "waiting" and number not in ready:
            found.append(Withdraw(number, "it is closed, is a draft, has lost its label, or has another target"))
        found += _of_entry(entry, ready.get(number))
    return tuple(_news(found, told))


def _of_change(change: PullRequest, entry: KnownEntry | None) -> Iterator[Step]:
    waits = entry is not None and entry.standing == "waiting"
    if entry is not None and entry.head == change.head and entry.standing in ("landed", "returned"):
        return
    if change.unclear:
        if waits:
            yield Withdraw(change.number, change.unclear)
        yield StatusReport(change.head, "failure", change.unclear)
    elif not waits or (entry is not None and entry.head != change.head):
        if waits:
            yield Withdraw(change.number, "another commit was pushed to it")
        yield Submit(change)
        yield StatusReport(change.head, "pending", "taken in by the gate")


def _of_entry(entry: KnownEntry, change: PullRequest | None) -> Iterator[Step]:
    """Of a change that is closed meanwhile as well: that it landed closes it."""
    is_current = change is not None and change.head == entry.head
    match entry.standing:
        case "landed":
            yield StatusReport(entry.head, "success", f"landed as {entry.commit[:12]}")
            yield NoteLanded(entry.number, entry.commit, entry.contained)
        case "returned":
            yield StatusReport(entry.head, "failure", entry.said)
            if is_current:
                yield Explain(entry.number, entry.said)
        case "waiting" if change is not None and is_current and not change.unclear:
            yield StatusReport(entry.head, "pending", entry.said)


def _news(found: Iterable[Step], told: Mapping[str, StatusReport]) -> Iterator[Step]:
    """Without reports that were given before, and without what goes with them."""
    known = False
    for step in found:
        if isinstance(step, StatusReport):
            known = told.get(step.commit) == step
        if isinstance(step, Submit | Withdraw) or not known:
            yield step
