"""Requests for reviews, scripted reviewers, and their answers."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml
from gates import Gate, never
from vendors.answers import Wire
from vendors.server import VendorServer

from forgepool.supervisor.messages.answers import Review
from forgepool.supervisor.messages.requests import Author, EntryRef, ReviewPolicy, ReviewRequest
from forgepool.supervisor.review.run_review import conduct
from forgepool.workers.context.transcript.entries import Entry, TurnSaid, read_transcript

CLAUDE = Author(agent="builtin", models=("claude-opus-5-5",), families=("claude",))
COMMAND = Author(agent="command")

Turn = dict[str, Any]
Serve = Callable[..., VendorServer]
KEY, KEY_VALUE = "REVIEW_TEST_KEY", "k-0123456789"
_PRICE = "{input: 1, cached: 0.1, written: 1.25, output: 5}"


def calls(*made: Turn, **said: Any) -> Turn:
    return {"calls": list(made), **said}


def read(*paths: str, **said: Any) -> Turn:
    return calls(*({"tool": "read_file", "path": path} for path in paths), **said)


def verdict(word: str, *findings: Turn, confidence: float = 0.9, summary: str = "read it all", **said: Any) -> Turn:
    filled = {"verdict": word, "findings": list(findings), "confidence": confidence, "summary": summary}
    return calls({"tool": "verdict", **filled}, **said)


def finding(file: str = "a", line: int = 1, severity: str = "high", category: str = "bug", claim: str = "") -> Turn:
    said = {"severity": severity, "category": category, "file": file, "line": line}
    return {**said, "claim": claim or f"line {line} of {file} is wrong", "evidence": "called with nothing, it fails"}


def script(*turns: Turn, family: str | None = "critic") -> str:
    named = {} if family is None else {"family": family}
    return yaml.safe_dump({**named, "turns": list(turns)})


def several(*scripts: str) -> str:
    return "---\n".join(scripts)


class Desk:
    """A host that reviews."""

    def __init__(self, gate: Gate) -> None:
        self.gate = gate
        self._made: dict[tuple[tuple[str, str | None], ...], EntryRef] = {}

    def entry(self, files: Mapping[str, str | None], author: Author = CLAUDE, **said: Any) -> EntryRef:
        """Return the candidate for these files, the same one each time."""
        key = tuple(files.items())
        if key not in self._made:
            self._made[key] = self.gate.entry(f"t{len(self._made)}" if self._made else "one", files)
        return self._made[key].model_copy(update={"task": "one", "author": author, **said})

    def request(self, entry: EntryRef, policy: ReviewPolicy | str, **said: Any) -> ReviewRequest:
        checked = self.gate.request(entry).model_dump(exclude={"entries", "decisive", "diagnose"})
        policy = ReviewPolicy(script=policy) if isinstance(policy, str) else policy
        usual = {"request_id": "r.one.1.review-1", "policy": policy, "title": "Make it two", "reviewed": True}
        return ReviewRequest(**(checked | {"entries": (entry,)} | usual | said))

    def review(
        self,
        files: Mapping[str, str | None],
        policy: ReviewPolicy | str,
        *,
        author: Author = CLAUDE,
        stop: Callable[[], bool] = never,
        **said: Any,
    ) -> Review:
        return self.conduct(self.request(self.entry(files, author), policy, **said), stop=stop)

    def conduct(self, request: ReviewRequest, *, stop: Callable[[], bool] = never) -> Review:
        return conduct(request, self.gate.settings, stop=stop)

    def transcripts(self, request_id: str = "r.one.1.review-1") -> dict[str, list[Entry]]:
        folder = self.folder(request_id)
        return {path.stem: read_transcript(path) for path in sorted(folder.glob("*.jsonl"))}

    def folder(self, request_id: str = "r.one.1.review-1") -> Path:
        return self.gate.settings.home / "runs" / "r" / "logs" / "reviews" / request_id

    def told(self, name: str = "1-critic") -> str:
        """Return all that the harness said to a reviewer, with the results of tools."""
        turns = [entry.turn for entry in self.transcripts()[name] if isinstance(entry, TurnSaid)]
        return "\n".join(turn.text for turn in turns if turn.role == "user")


def table(url: str, wire: Wire, keyed: list[str], route: str) -> str:
    where = url if wire == "anthropic" else f"{url}/v1"
    lines = ["accounts:"]
    for family in ("claude", "gpt", "gemini"):
        key = KEY if family in keyed else f"NO_KEY_FOR_{family.upper()}"
        lines.append(f"  {family}: {{wire: {wire}, key: {key}, base_url: '{where}', batch: 0.5}}")
    lines.append("models:")
    usual = f"window_tokens: 100000, max_output_tokens: 4000, price: {_PRICE}, also: []"
    for name in ("claude-x", "gpt-x", "gemini-x", "claude-haiku-5-5"):
        family = name.partition("-")[0]
        lines.append(f"  {name}: {{account: {family}, id: {name}, family: {family}, {usual}}}")
    # A table that gives a model another family than its name suggests.
    lines.append(f"  claude-in-disguise: {{account: gpt, id: anthropic/claude-y, family: gpt, {usual}}}")
    lines.append(f"  nobodys: {{account: gpt, id: nobodys, family: unknown, {usual}}}")
    lines.append("  unpriced: {account: gpt, id: lab-7, family: lab, window_tokens: 100000, also: []}")
    first, *rest = route.strip("[]").split(", ")
    lines.append(
        f"routes: {{review: {{primary: {first}, then: [{', '.join(rest)}], reason: r, source: s, date: '2026-11-01'}}}}"
    )
    return "\n".join([*lines, "budget: claude-haiku-5-5", ""])
