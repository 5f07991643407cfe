"""
The built-in agent: a model, the tools, and a conversation about one task.

So far the model is the scripted one, and the conversation has one phase.
"""

from collections.abc import Callable
from pathlib import Path

from workers.agents.agent import AgentAnswer, Assignment
from workers.agents.card import SYSTEM, task_card
from workers.agents.command import task_variables, write_reasons
from workers.agents.narration import narrated
from workers.llm.provider import ModelFailed, Provider
from workers.llm.scripted import MODEL, ScriptedModel
from workers.loop import Brief, converse
from workers.tools.toolset import WORK
from workers.tools.workplace import Workplace
from workers.transcript import Transcript, TranscriptWrong, read_transcript

_TAIL_CHARACTERS = 16_000


def perform_scripted(assignment: Assignment, script: str, *, stop: Callable[[], bool]) -> AgentAnswer:
    order = assignment.order
    try:
        model = ScriptedModel(script, attempt=order.attempt, name=f"script of task '{order.task}'")
    except ModelFailed as wrong:
        return AgentAnswer(ended="failed", detail=str(wrong))
    return _perform(assignment, model, MODEL, stop=stop)


def _perform(assignment: Assignment, provider: Provider, model: str, *, stop: Callable[[], bool]) -> AgentAnswer:
    brief = Brief(
        order_id=assignment.order.order_id,
        model=model,
        system=SYSTEM,
        card=task_card(assignment.order),
        tools=WORK,
        limits=assignment.order.limits,
    )
    with Transcript(assignment.transcript) as transcript:
        outcome = converse(provider, brief, _workplace(assignment, stop), transcript, stop=stop)
    return AgentAnswer(
        ended=outcome.ended,
        detail=outcome.detail,
        log_tail=_write_log(assignment.transcript, assignment.log)[-_TAIL_CHARACTERS:],
        claimed_summary=outcome.summary,
        spent=outcome.spent,
    )


def _workplace(assignment: Assignment, stop: Callable[[], bool]) -> Workplace:
    reasons = write_reasons(assignment.order, assignment.tmp)
    return Workplace(
        root=assignment.worktree.resolve(),
        tmp=assignment.tmp,
        env={**assignment.env, **task_variables(assignment.order, reasons)},
        stop=stop,
        left_s=lambda: assignment.order.limits.wall_s,
        pass_fds=assignment.pass_fds,
    )


def _write_log(transcript: Path, log: Path) -> str:
    """The transcript once more, as a person reads it, where a command's log would be."""
    try:
        text = narrated(read_transcript(transcript))
    except TranscriptWrong as wrong:
        text = f"{wrong}\n"
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text(text, encoding="utf-8", errors="replace")
    return text
