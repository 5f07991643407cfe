"""The interface of a forge, and the values it exchanges. No HTTP, and nothing specific to one vendor."""

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal, Protocol
from urllib.parse import quote

Reported = Literal["pending", "success", "failure"]

LABEL = "forgepool"
CONTEXT = "forgepool/gate"

_LINE = re.compile(r"^[ \t>*-]*depends-on:[ \t]*(.*?)[ \t]*\r?$", re.IGNORECASE | re.MULTILINE)
_WORD = re.compile(r"[#!](\d{1,9})")


class ForgeRefused(Exception):
    """The forge refuses, and would again: a wrong token, a missing right, a wrong name, an impossible request."""

    def __init__(self, said: str, status: int) -> None:
        super().__init__(said)
        self.status = status


class ForgeAway(Exception):
    """The forge cannot be asked now, or asks to be left alone. Nothing is known; ask again later."""

    def __init__(self, said: str, after_s: float | None = None) -> None:
        super().__init__(said)
        self.after_s = after_s
        """Seconds to wait, where the forge said so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PullRequest:
    """A pull or merge request that is ready for the queue, as of the last look."""

    number: int
    head: str
    """The commit to land, whatever is pushed to the change later."""
    ref: str
    """The hub's ref of it, which also exists for a branch in a fork."""
    target: str
    author: str
    title: str
    url: str
    depends: tuple[int, ...] = ()
    """Changes that must land first, from lines `Depends-On: #12` of its description."""
    unclear: str = ""
    """One sentence saying why it cannot enter as it is; empty where it can."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposed:
    """A change that is now open."""

    url: str
    written: bool = True
    """False if its text is a person's own, which was kept."""


class Forge(Protocol):
    """
    A repository at a forge.

    Raises, from every method:
        ForgeRefused: asking again is useless.
        ForgeAway: nothing is known; ask again later.
    """

    def report_status(self, commit: str, state: Reported, summary: str, url: str | None = None) -> None:
        """Set the queue's status of a commit, replacing the previous one. Repeating it does nothing."""

    def comment(self, change: int, text: str) -> None:
        """Comment on the change. Not repeated where it may have arrived: raises ForgeAway."""

    def changes_ready(self, known: Collection[int] = ()) -> tuple[PullRequest, ...]:
        """
        Return all open labelled changes that are no drafts, oldest first.

        A list of several pages can miss a change when another closes meanwhile, so missing `known` ones are asked for
        one by one.
        """

    def head_of(self, change: int) -> str:
        """Return the change's current commit."""

    def find_approvers(self, change: PullRequest) -> tuple[str, ...]:
        """Return those with rights in the repository who approve the current commit, without its author."""

    def members_of(self, owner: str) -> tuple[str, ...] | None:
        """Return the members of a CODEOWNERS owner; None if it is neither a group nor a role."""

    def note_landed(self, change: int, commit: str, *, contained: bool) -> None:
        """
        Comment that the change has landed. If the target does not contain its commits (squash, rebase) the forge cannot
        see the merge, so the change is closed.
        """

    def find_open(self, head: str, base: str) -> int | None:
        """
        Return the number of the open change from one branch of the repository itself to another; None if there is none.
        """

    def propose(self, head: str, base: str, title: str, text: str) -> Proposed:
        """
        Open a change from one branch to another, or give the one that is open this text, unless a person wrote its
        text. It is not opened again where it may have been: raises ForgeAway.
        """


def make_mark(head: str) -> str:
    """Return the comment, shown to no reader, by which a text of `propose` is known again as ours."""
    return f"<!-- forgepool run: {quote(head, safe='/')} -->"


def dependencies(description: str) -> tuple[tuple[int, ...], str]:
    """Return the changes that a description depends on, and one sentence on what is unclear about it."""
    numbers: list[int] = []
    for said in _LINE.findall(description):
        words = said.replace(",", " ").split()
        for word in words:
            match = _WORD.fullmatch(word)
            if match is None:
                return (
                    (),
                    f"its Depends-On has '{word[:60]}', which is not a change number; write #12 or !12",
                )
            numbers.append(int(match[1]))
        if not words:
            return (), "its Depends-On is empty; write Depends-On: #12, or remove the line"
    return tuple(dict.fromkeys(numbers)), ""


def shorten_line(text: str, limit: int) -> str:
    """Return the text as one line within the limit."""
    line = " ".join(text.split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"
