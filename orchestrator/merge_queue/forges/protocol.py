"""
What the gate needs of a forge, and the values they exchange. No HTTP in here, and nothing of one vendor.
"""

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal, Protocol

Reported = Literal["pending", "success", "failure"]

LABEL = "forgepool"
CONTEXT = "forgepool/gate"

_LINE = re.compile(r"^[ \t>*-]*depends-on:[ \t]*(.*?)[ \t]*\r?$", re.IGNORECASE | re.MULTILINE)
_WORD = re.compile(r"[#!](\d{1,9})")


class ForgeRefused(Exception):
    """The forge says no, and would again: a wrong token, a missing right, a wrong name, an impossible wish."""

    def __init__(self, said: str, status: int) -> None:
        super().__init__(said)
        self.status = status


class ForgeAway(Exception):
    """The forge cannot be asked now, or wants to be left alone for a while. Nothing is known; ask again later."""

    def __init__(self, said: str, after_s: float | None = None) -> None:
        super().__init__(said)
        self.after_s = after_s
        """Seconds that the forge wants to be left alone, where it said so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PullRequest:
    """A pull request or merge request that is ready for the gate, as it was when the forge was asked."""

    number: int
    head: str
    """The commit that is to land: this one, whatever is pushed to the change later."""
    ref: str
    """The ref of the hub that leads to it, also where the branch is in somebody's fork."""
    target: str
    author: str
    title: str
    url: str
    depends: tuple[int, ...] = ()
    """Changes that must have landed before, by lines `Depends-On: #12` of its description."""
    unclear: str = ""
    """Why it cannot be taken in as it is, in one sentence."""


class Forge(Protocol):
    """
    A repository at a forge.

    Raises, all of it:
        ForgeRefused: to ask again gains nothing.
        ForgeAway: nothing is known; ask again later.
    """

    def report_status(self, commit: str, state: Reported, summary: str, url: str | None = None) -> None:
        """What the gate thinks of the commit, in place of what it thought before. Again does nothing."""

    def comment(self, change: int, text: str) -> None:
        """A comment on the change. Not sent again where it may have arrived: `ForgeAway` then."""

    def changes_ready(self, known: Collection[int] = ()) -> tuple[PullRequest, ...]:
        """
        All open changes that bear the label and are no drafts, oldest first.

        A list of several pages may lack one that is there, when another was closed between two pages. So those that are
        `known` to the gate and are not in the list are asked for one by one.
        """

    def head_of(self, change: int) -> str:
        """The commit that the change has now."""

    def find_approvers(self, change: PullRequest) -> tuple[str, ...]:
        """Who of those that have a say in the repository approves of it as it is, its author left out."""

    def members_of(self, owner: str) -> tuple[str, ...] | None:
        """Who is meant by an owner of a CODEOWNERS file; None where it is no group and no role."""

    def note_landed(self, change: int, commit: str, *, contained: bool) -> None:
        """
        Says on the change that it has landed. Where its own commits are not `contained` in the target (squash, rebase)
        the forge cannot see that it is merged, and it is closed.
        """


def dependencies(description: str) -> tuple[tuple[int, ...], str]:
    """The changes a description says its own depends on, and what is unclear about that, in one sentence."""
    numbers: list[int] = []
    for said in _LINE.findall(description):
        words = said.replace(",", " ").split()
        for word in words:
            match = _WORD.fullmatch(word)
            if match is None:
                return (
                    (),
                    f"its Depends-On names '{word[:60]}', which is no change of this repository; write #12 or !12",
                )
            numbers.append(int(match[1]))
        if not words:
            return (), "its Depends-On names nothing; write Depends-On: #12, or leave it out"
    return tuple(dict.fromkeys(numbers)), ""


def shorten_line(text: str, limit: int) -> str:
    """The text as one line within the limit."""
    line = " ".join(text.split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"
