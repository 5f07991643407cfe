"""
Proposed checks, and the `forgepool.yaml` that holds them.

A proposal is a guess. Nothing here runs a command or writes a file, and neither a run nor the gate reads it: only
what a person has committed counts.
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
"""The file for a repository in which nothing was found."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedFiles:
    """The regular files of one commit. Links are left out, as they may lead anywhere."""

    git: Git
    commit: CommitId
    paths: frozenset[str]

    def text(self, path: str) -> str:
        """Return the file's text. It is empty for a missing file, and for one too large for its kind."""
        if path not in self.paths:
            return ""
        try:
            return (read_file(self.git, self.commit, path) or b"").decode(errors="replace")
        except FileTooLarge:
            return ""

    def first(self, *paths: str) -> str | None:
        """Return the first of these paths that exists."""
        return next((path for path in paths if path in self.paths), None)


def read_committed(git: Git, commit: CommitId) -> CommittedFiles:
    """Return the files of a commit, whatever the work tree holds."""
    records = (record.partition("\t") for record in git.run("ls-tree", "-r", "-z", "--full-tree", commit).fields)
    return CommittedFiles(
        git=git, commit=commit, paths=frozenset(path for facts, _, path in records if facts[:3] == "100")
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Folder:
    """A folder that a set-up fills, cached by the contents of a committed file."""

    folder: str
    key: str
    writable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Preparation:
    """A set-up, and the reason for it."""

    run: str
    why: str
    folders: tuple[Folder, ...] = ()
    network: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckProposal:
    """A proposed check."""

    role: Role
    tool: str
    """A name, unique among all proposals. It names the check if two share a role."""
    run: str
    why: str
    """The committed file that suggests it, as a clause."""
    preparation: Preparation | None = None
    reports: tuple[str, ...] = ()
    network: tuple[str, ...] = ()
    """Hosts that the command itself needs."""
    uses: str | None = None
    """The tool of another proposal, whose checkout it runs in."""
    name: str = ""
    """The check's name, set once all proposals are known."""

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
    """The proposals for a commit."""

    proposals: tuple[CheckProposal, ...]
    notes: tuple[str, ...]
    """Sentences about what was seen and not proposed, and what a person should know."""


def name_proposals(proposals: Sequence[CheckProposal]) -> tuple[CheckProposal, ...]:
    """Return the proposals with their names: the role, or the tool if several share the role."""
    often = Counter(proposal.role for proposal in proposals)
    names = {proposal.tool: proposal.role if often[proposal.role] == 1 else proposal.tool for proposal in proposals}
    return tuple(
        replace(proposal, name=names[proposal.tool], uses=names[proposal.uses] if proposal.uses else None)
        for proposal in proposals
    )


def gate_file(detected: Detected) -> str:
    """Return a `forgepool.yaml` with every proposal and its reason. At least one is needed."""
    head = (
        "Proposed by `forgepool init` from what is committed here: a guess, which counts for nothing until a person "
        "has read, corrected, tried and committed it. docs/how-to/gate.md has every key."
    )
    lines = [*_comment(head)]
    for note in detected.notes:
        lines += _comment(note, bullet="- ")
    lines += ["version: 1", "checks:"]
    for proposal in detected.proposals:
        lines += _check(proposal)
    return "\n".join(lines) + "\n"


def one_line(text: str) -> str:
    """Return text from a repository, which may hold anything, as a part of one line."""
    return "".join(each if each.isprintable() else "?" for each in text)


def _check(proposal: CheckProposal) -> Iterator[str]:
    yield from _comment(proposal.why, indent="  ")
    yield f"  - name: {_scalar(proposal.name)}"
    yield f"    run: {_scalar(proposal.run)}"
    yield f"    timeout_s: {TIMEOUTS[proposal.role]}"
    if proposal.uses:
        yield f"    uses: [{_scalar(proposal.uses)}]"
    if proposal.reports:
        yield f"    reports: {_list(proposal.reports)}"
    if proposal.preparation:
        yield from _comment(proposal.preparation.why, indent="    ")
        yield f"    setup: {_scalar(proposal.preparation.run)}"
    if folders := _folders(proposal):
        yield "    cache:"
        yield from (f"      - {_folder(each)}" for each in folders)
    if hosts := _hosts(proposal):
        yield from _comment(
            "reached only where your own policy allows it too (docs/reference/policy.md)", indent="    "
        )
        yield f"    network: {_list(hosts)}"


def _folders(proposal: CheckProposal) -> tuple[Folder, ...]:
    return proposal.preparation.folders if proposal.preparation else ()


def _hosts(proposal: CheckProposal) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*(proposal.preparation.network if proposal.preparation else ()), *proposal.network)))


def _folder(folder: Folder) -> str:
    writable = ", writable: true" if folder.writable else ""
    return f"{{folder: {_scalar(folder.folder)}, key: {_scalar(folder.key)}{writable}}}"


def _list(words: Sequence[str]) -> str:
    return f"[{', '.join(_scalar(word) for word in words)}]"


def _scalar(text: str) -> str:
    """Return the text as YAML: plain if that is unambiguous, else in the quotes that need fewer escapes."""
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
