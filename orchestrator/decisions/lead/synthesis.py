"""
The proof of a lead's synthesis by the journal. Pure.

A sentence that says that something landed, is green, fixed or measured must name a task or a commit. The journal must
confirm the claim of each that it names. Any other such sentence is struck, and listed with the reason.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from forgepool.orchestrator.decisions.plan_index import PlanIndex
from forgepool.orchestrator.decisions.reasons import one_line
from forgepool.orchestrator.state.run import RunState
from forgepool.orchestrator.state.task import DONE, TaskState
from forgepool.workers.schema.reports import Report

_WORDS = r"landed|merged|fixed|green|passes|passed|passing|tested|measured"
_CLAIM = re.compile(rf"\b({_WORDS})\b", re.IGNORECASE)
_DENIED = re.compile(
    rf"\b(?:not|never|nothing|none|\w+n't)\s+(?:been\s+|yet\s+|have\s+|has\s+|is\s+)*(?:{_WORDS})\b", re.IGNORECASE
)
"""A claim that something is not done, which needs no proof."""
_END = re.compile(r"(?<=[.!?])\s+|\n")
_WORD = re.compile(r"[\w-]+", re.ASCII)
_COMMIT = re.compile(r"[0-9a-f]{7,64}")
_SUMMARY_WORDS = 100
_ON_TARGET = frozenset(("landed", "already_there"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvenText:
    """A text without the claims that are not confirmed, and these with the reason."""

    text: str
    struck: tuple[tuple[str, str], ...] = ()


def prove_text(text: str, state: RunState) -> ProvenText:
    struck: list[tuple[str, str]] = []
    lines = [_proven_line(line, state, struck) for line in text.strip().split("\n")]
    return ProvenText(text="\n".join(line for line in lines if line is not None), struck=tuple(struck))


def prove_report(report: Report, state: RunState) -> Report:
    """Return a lead's report with a summary that claims nothing unconfirmed; its output stays as it was written."""
    words = prove_text(report.output or report.summary, state).text.split()
    more = " ..." if len(words) > _SUMMARY_WORDS else ""
    summary = " ".join(words[:_SUMMARY_WORDS]) + more or "nothing of its synthesis is confirmed"
    return report.model_copy(update={"summary": summary})


def _proven_line(line: str, state: RunState, struck: list[tuple[str, str]]) -> str | None:
    """Return the line without its unproven sentences; None where nothing of it is left."""
    kept = []
    for sentence in _END.split(line):
        if (why := _find_doubt(sentence, state)) is None:
            kept.append(sentence)
        else:
            struck.append((one_line(sentence).lstrip("-*# "), why))
    return " ".join(kept) if kept or not line else None


def _find_doubt(sentence: str, state: RunState) -> str | None:
    """Return why a claim in the sentence is not confirmed; None where all are, or it makes none."""
    claims = [found[1].lower() for found in _CLAIM.finditer(_DENIED.sub(" ", sentence))]
    if not claims:
        return None
    named = [state.tasks[word] for word in _WORD.findall(sentence) if word in state.tasks]
    by_commit = [_of_commit(state, word) for word in _WORD.findall(sentence) if _is_commit(word, state)]
    unknown = [word for word in _WORD.findall(sentence) if _is_commit(word, state) and _of_commit(state, word) is None]
    if unknown:
        return f"no task of this run has landed as {unknown[0]}"
    cited = [*named, *(task for task in by_commit if task is not None)]
    if not cited:
        return "it names no task and no commit"
    return next((doubt for claim in claims for task in cited if (doubt := _doubt(claim, task)) is not None), None)


def _is_commit(word: str, state: RunState) -> bool:
    return word not in state.tasks and any(each.isdigit() for each in word) and _COMMIT.fullmatch(word) is not None


def _of_commit(state: RunState, word: str) -> TaskState | None:
    landed = (task for task in state.tasks.values() if task.phase in _ON_TARGET)
    return next((task for task in landed if task.commit.startswith(word)), None)


def _doubt(claim: str, task: TaskState) -> str | None:
    on_target = task.phase in _ON_TARGET
    match claim:
        case "measured":
            return None if on_target or task.phase == "reported" else f"'{task.id}' is {task.phase}"
        case "landed" | "merged" | "fixed":
            return None if on_target else f"'{task.id}' has not landed, it is {task.phase}"
        case _:
            green = on_target or (task.verdict is not None and task.verdict.verdict == "green")
            return None if green else f"no check of '{task.id}' is green, it is {task.phase}"


def synthesis_lines(course: PlanIndex, state: RunState) -> Iterator[str]:
    """Yield the synthesis of the run's lead as it is proven now; nothing before it has ended with one."""
    lead = state.tasks.get(course.lead or "")
    if lead is None or lead.report is None:
        return
    proven = prove_text(lead.report.output or lead.report.summary, state)
    yield from proven.text.split("\n")
    if proven.struck:
        yield from ("", "### Not confirmed", "")
        yield from (f"- {sentence} ({why})" for sentence, why in proven.struck)
    yield from ("", "No other model has reviewed this text.")
    undone = [task for task in state.tasks.values() if task.phase not in DONE]
    if undone:
        yield from ("", "### Not done", "")
        yield from (f"- {task.id} ({task.phase}): {one_line(task.detail)}" for task in undone)
