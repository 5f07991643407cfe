"""
What the bot does next: which changes enter the gate, which leave it, and what the forge is told. Pure.

An entry is for one commit. Another commit on the change is another entry: the one before leaves the gate, and nothing
that was found out about it counts. What a forge has been told is told again only when it has changed.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

import structlog
from pydantic import Field, ValidationError

from forgepool.orchestrator.merge_queue.forges.protocol import PullRequest, Reported
from forgepool.workers.schema.orders import Message


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


log = structlog.get_logger()


class Given(Message):
    """The newest entry of a change."""

    name: str
    head: str
    withdrawn: bool = False
    """By the bot itself, not by a person."""


class ToldForge(Message):
    state: Reported
    summary: str


class _Kept(Message):
    forge: str
    given: dict[int, Given] = Field(default_factory=dict)
    told: dict[str, ToldForge] = Field(default_factory=dict)
    """By commit, the status it was given last."""
    commented: tuple[str, ...] = ()
    """What was said in comments, or may have been."""


@dataclass(slots=True)
class Memory:
    """Of one gate and one forge; each change is kept before the call returns."""

    path: Path
    forge: str
    given: dict[int, Given]
    told: dict[str, StatusReport]
    commented: set[str]

    def give(self, number: int, given: Given) -> None:
        if self.given.get(number) != given:
            self.given[number] = given
            self._keep()

    def tell(self, report: StatusReport) -> None:
        self.told[report.commit] = report
        self._keep()

    def comment(self, what: str) -> None:
        self.commented.add(what)
        self._keep()

    def uncomment(self, what: str) -> None:
        self.commented.discard(what)
        self._keep()

    def _keep(self) -> None:
        told = {one: ToldForge(state=report.state, summary=report.summary) for one, report in self.told.items()}
        kept = _Kept(forge=self.forge, given=self.given, told=told, commented=tuple(sorted(self.commented)))
        draft = self.path.with_suffix(".draft")
        with draft.open("w", encoding="utf-8") as file:
            file.write(kept.encode())
            file.flush()
            os.fsync(file.fileno())
        draft.replace(self.path)


def load_memory(folder: Path, forge: str) -> Memory:
    """What there is of this forge; of another one, or of a file that cannot be read, nothing counts."""
    path = folder / "forge.json"
    kept = _Kept(forge=forge)
    try:
        found = _Kept.model_validate_json(path.read_text(encoding="utf-8"))
        kept = found if found.forge == forge else kept
    except FileNotFoundError:
        pass
    except (OSError, ValueError, ValidationError) as wrong:
        log.warning("forge.forgotten", path=str(path), why=str(wrong)[:200])
    told = {one: StatusReport(one, said.state, said.summary) for one, said in kept.told.items()}
    return Memory(path, forge, dict(kept.given), told, set(kept.commented))
