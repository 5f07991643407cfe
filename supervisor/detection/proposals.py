"""
What checks are proposed to a person, by which committed files; and the `forgepool.yaml` that says so.

A proposal is a guess. Nothing here runs a command, writes a file, or is asked by a run or by the gate: what counts is
what a person has committed.
"""

import json
import re
import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from forgepool.worktrees.commits.changes import FileTooLarge, read_file
from forgepool.worktrees.git.git import CommitId, Git

Role = Literal["test", "lint", "types", "format", "build"]
TIMEOUTS: dict[Role, str] = {"test": "15m", "lint": "5m", "types": "10m", "format": "5m", "build": "15m"}
_COLUMNS = 118
_PLAIN = re.compile(r"(?:[A-Za-z]|\./|\.[a-z])[A-Za-z0-9 ./_=+-]*[A-Za-z0-9./_=+-]")
_WORDS = frozenset({"true", "false", "null", "none", ".inf", ".nan"})

EXAMPLE = """\
version: 1
checks:
  - name: test
    run: ./run-the-tests
    timeout_s: 15m
"""
"""For a repository in which nothing was found."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedFiles:
    """The regular files of one commit. Links are none: what they lead to is nobody's word."""

    git: Git
    commit: CommitId
    paths: frozenset[str]

    def text(self, path: str) -> str:
        """The file's text; empty where there is none, or one too large to be what it is called."""
        if path not in self.paths:
            return ""
        try:
            return (read_file(self.git, self.commit, path) or b"").decode(errors="replace")
        except FileTooLarge:
            return ""

    def first(self, *paths: str) -> str | None:
        """The first of them that is there."""
        return next((path for path in paths if path in self.paths), None)


def read_committed(git: Git, commit: CommitId) -> CommittedFiles:
    """The files of a commit, whatever lies in anybody's work tree."""
    records = (one.partition("\t") for one in git.run("ls-tree", "-r", "-z", "--full-tree", commit).fields)
    return CommittedFiles(
        git=git, commit=commit, paths=frozenset(path for facts, _, path in records if facts[:3] == "100")
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Folder:
    """A folder that the set-up fills, kept by a committed file."""

    folder: str
    key: str
    writable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Preparation:
    """A set-up, and why it is proposed."""

    run: str
    why: str
    folders: tuple[Folder, ...] = ()
    network: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckProposal:
    """A check that a person may want."""

    role: Role
    tool: str
    """Unique among all that can be proposed; the check's name where two have one role."""
    run: str
    why: str
    """By which committed file; a clause."""
    preparation: Preparation | None = None
    reports: tuple[str, ...] = ()
    network: tuple[str, ...] = ()
    """Hosts that the command itself needs."""
    uses: str | None = None
    """The tool of another proposal, whose leavings it needs."""
    name: str = ""
    """The check's; given when all proposals are known."""

    def as_json(self) -> dict[str, object]:
        before = self.preparation
        return {
            "name": self.name,
            "run": self.run,
            "timeout_s": TIMEOUTS[self.role],
            "setup": before.run if before else None,
            "cache": [{"folder": one.folder, "key": one.key, "writable": one.writable} for one in _folders(self)],
            "network": list(_hosts(self)),
            "reports": list(self.reports),
            "uses": [self.uses] if self.uses else [],
            "why": self.why,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Detected:
    """What was found in a commit."""

    proposals: tuple[CheckProposal, ...]
    notes: tuple[str, ...]
    """What was seen and is not proposed, and what a person should know, a sentence each."""


def name_proposals(proposals: Sequence[CheckProposal]) -> tuple[CheckProposal, ...]:
    """Each with its name: its role, or its tool where several have that role."""
    often = Counter(one.role for one in proposals)
    names = {one.tool: one.role if often[one.role] == 1 else one.tool for one in proposals}
    return tuple(replace(one, name=names[one.tool], uses=names[one.uses] if one.uses else None) for one in proposals)


def gate_file(detected: Detected) -> str:
    """The text of a `forgepool.yaml` with every proposal, and why it is there; at least one is needed."""
    head = (
        "Proposed by `forgepool init` from what is committed here: a guess, which counts for nothing until a person "
        "has read, corrected, tried and committed it. docs/how-to/gate.md has every key."
    )
    lines = [*_comment(head)]
    for note in detected.notes:
        lines += _comment(note, bullet="- ")
    lines += ["version: 1", "checks:"]
    for one in detected.proposals:
        lines += _check(one)
    return "\n".join(lines) + "\n"


def one_line(text: str) -> str:
    """Words from a repository, which may hold anything, as a part of one line."""
    return "".join(each if each.isprintable() else "?" for each in text)


def _check(one: CheckProposal) -> Iterator[str]:
    yield from _comment(one.why, indent="  ")
    yield f"  - name: {_scalar(one.name)}"
    yield f"    run: {_scalar(one.run)}"
    yield f"    timeout_s: {TIMEOUTS[one.role]}"
    if one.uses:
        yield f"    uses: [{_scalar(one.uses)}]"
    if one.reports:
        yield f"    reports: {_list(one.reports)}"
    if one.preparation:
        yield from _comment(one.preparation.why, indent="    ")
        yield f"    setup: {_scalar(one.preparation.run)}"
    if folders := _folders(one):
        yield "    cache:"
        yield from (f"      - {_folder(each)}" for each in folders)
    if hosts := _hosts(one):
        yield from _comment(
            "reached only where your own policy allows it too (docs/reference/policy.md)", indent="    "
        )
        yield f"    network: {_list(hosts)}"


def _folders(one: CheckProposal) -> tuple[Folder, ...]:
    return one.preparation.folders if one.preparation else ()


def _hosts(one: CheckProposal) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*(one.preparation.network if one.preparation else ()), *one.network)))


def _folder(one: Folder) -> str:
    writable = ", writable: true" if one.writable else ""
    return f"{{folder: {_scalar(one.folder)}, key: {_scalar(one.key)}{writable}}}"


def _list(words: Sequence[str]) -> str:
    return f"[{', '.join(_scalar(word) for word in words)}]"


def _scalar(text: str) -> str:
    """As YAML has it: plain where that can be read in one way only, else in the quotes that need fewer escapes."""
    if _PLAIN.fullmatch(text) and text.lower() not in _WORDS:
        return text
    single = '"' in text and "'" not in text and text.isprintable()
    return f"'{text}'" if single else json.dumps(text, ensure_ascii=False)


def _comment(text: str, *, indent: str = "", bullet: str = "") -> list[str]:
    first, rest = f"{indent}# {bullet}", f"{indent}# {' ' * len(bullet)}"
    return textwrap.wrap(
        one_line(text),
        _COLUMNS,
        initial_indent=first,
        subsequent_indent=rest,
        break_long_words=False,
        break_on_hyphens=False,
    )
