"""Asks a small model, which is shown the task and the names of the files, which of them the task is about."""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import structlog
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from forgepool.workers.agents.briefing.hints import Hint, best, hintable_paths, words_of
from forgepool.workers.agents.briefing.prediction.signals import words
from forgepool.workers.agents.briefing.system_prompt import prompt
from forgepool.workers.llm.messages import Text, Usage, user
from forgepool.workers.llm.provider import ModelFailed, ModelRequest, Provider
from forgepool.workers.schema.orders import HintSettings, WorkOrder
from forgepool.worktrees.commits.changes import FileTooLarge, read_file
from forgepool.worktrees.git.git import CommitId, Git, GitFailed

log = structlog.get_logger()

GUIDES = ("engineering.md", "docs/engineering.md", ".forgepool/engineering.md", ".pace/context/engineering.md")
"""Files in which a repository may describe itself; the first that exists counts."""
_GUIDE_CHARACTERS = 12_000
_LIST_CHARACTERS = 60_000
_OUTPUT_TOKENS = 1_024
_LEAST_SURE, _MOST_SURE = 0.7, 0.9
"""The least and the most that a model's own confidence counts: it is no probability."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Guess:
    """The hints a model proposes, and the usage of asking it."""

    hints: tuple[Hint, ...] = ()
    usage: Usage = field(default_factory=Usage)
    model: str = ""
    """The model that answered; empty without an answer."""


class _Line(BaseModel):
    model_config = ConfigDict(extra="forbid")

    path: str
    confidence: float = Field(ge=0, le=1)
    reason: str = Field(max_length=300)


_LINES = TypeAdapter(list[_Line])


def hints_by_model(
    provider: Provider, order: WorkOrder, git: Git, base: CommitId, wanted: HintSettings, *, stop: Callable[[], bool]
) -> Guess:
    """Return the existing files that the model proposes; none where it does not answer in the form asked for."""
    paths = hintable_paths(git, base)
    if not paths:
        return Guess()
    guide, text = _guide(git, base)
    try:
        turn = provider.ask(_request(order, paths, guide, text), stop=stop)
    except ModelFailed as failed:
        log.info("hints.none", of="model", why=str(failed))
        return Guess()
    source = guide or f"the list of files, by {turn.model or 'a model'}"
    strict = wanted.model_copy(update={"threshold": max(wanted.threshold, _LEAST_SURE)})
    hints = best(_parse(turn.text, source), frozenset(paths), strict) if turn.stop == "end" else ()
    return Guess(hints=hints, usage=turn.usage, model=turn.model)


def _request(order: WorkOrder, paths: Sequence[str], guide: str, text: str) -> ModelRequest:
    task = words_of(order)
    parts = [f"# The task\n\n{task}"]
    if text:
        parts.append(f"# {guide}, as the repository has it\n\n{text}")
    parts.append("# The files\n\n" + "\n".join(_listed(paths, task)))
    return ModelRequest(
        system=(prompt("hints"),),
        tools=(),
        turns=(user(Text(text="\n\n".join(parts))),),
        phase="plan",
        max_output_tokens=_OUTPUT_TOKENS,
    )


def _listed(paths: Sequence[str], task: str) -> Iterator[str]:
    """List as many paths as fit, chosen by words they share with the task, then by nearness to the root."""
    wanted = {part for word in words(task.casefold()) for part in re.findall(r"[a-z0-9]{4,}", word)}

    def rank(path: str) -> tuple[int, int, str]:
        shared = wanted & set(re.findall(r"[a-z0-9]{4,}", path.casefold()))
        return -len(shared), path.count("/"), path

    room = _LIST_CHARACTERS
    chosen: list[str] = []
    for path in sorted(paths, key=rank):
        room -= len(path) + 1
        if room < 0:
            break
        chosen.append(path)
    yield from sorted(chosen)
    if len(chosen) < len(paths):
        yield f"({len(paths) - len(chosen)} more are not listed)"


def _guide(git: Git, base: CommitId) -> tuple[str, str]:
    """Return path and text of the repository's own description; both are empty where it has none."""
    for path in GUIDES:
        try:
            data = read_file(git, base, path)
        except (GitFailed, FileTooLarge):
            continue
        if data:
            return path, data.decode("utf-8", "replace")[:_GUIDE_CHARACTERS]
    return "", ""


def _parse(answer: str, source: str) -> list[Hint]:
    """Read the one JSON list that was asked for; anything else is no answer."""
    match = re.search(r"\[.*\]", answer, re.DOTALL)
    try:
        lines = _LINES.validate_python(json.loads(match[0])) if match else []
    except (ValueError, ValidationError, RecursionError) as wrong:
        log.info("hints.none", of="model", why=f"not the form asked for: {type(wrong).__name__}")
        return []
    return [
        Hint(
            path=line.path.removeprefix("./"),
            confidence=min(line.confidence, _MOST_SURE),
            reason=" ".join(line.reason.split()),
            source=source,
        )
        for line in lines
    ]
