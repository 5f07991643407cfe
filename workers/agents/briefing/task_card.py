"""
The task card: what an agent is asked to do, and everything the harness knows of it before it begins.

The same order and sections give the same bytes. The task's own words are never shortened. Sections that need git are
made elsewhere (`material`, `hints`, `priors`) and given as text.
"""

from forgepool.workers.agents.briefing.material import quote_text
from forgepool.workers.schema.orders import ReasonPack, Reply, WorkOrder

_MOST_ASSETS = 50


def task_card(order: WorkOrder, *, conventions: str = "", hints: str = "", priors: str = "", files: str = "") -> str:
    """
    The task in its own words; what it may write and what will judge it; what is known beforehand; why earlier
    attempts came back, and what a person has answered, last.

    The sections are those of `material.conventions`, `workers.agents.briefing.hints.hint.render_hints`,
    `priors.write_priors` and `material.files_at_base`; an empty one is left out.
    """
    parts = [f"# Task {order.task}: {order.title}"]
    if order.description.strip():
        parts.append(order.description.strip("\n"))
    if order.files:
        parts.append("## Files you may write\n" + _listed(order.files))
    if order.network:
        parts.append("## Hosts that commands may reach\n" + _listed(order.network))
    if order.assets is not None:
        named = _listed(order.assets.paths[:_MOST_ASSETS])
        parts.append("## Files of the plan, read-only in the folder $FORGEPOOL_ASSETS\n" + named)
    if order.acceptance:
        parts.append("## Commands that must succeed\n" + _listed(order.acceptance))
    parts += [section.strip("\n") for section in (conventions, priors, hints, files) if section]
    parts += [_reason(reason) for reason in order.reasons]
    parts += [_reply(reply) for reply in order.replies]
    return "\n\n".join(parts) + "\n"


def _reason(reason: ReasonPack) -> str:
    lines = [f"## Why attempt {reason.attempt} came back: {reason.kind}", reason.summary]
    if reason.conflicting_entry is not None:
        lines.append(f"It clashes with: {reason.conflicting_entry}")
    if reason.paths:
        lines.append("Paths:\n" + _listed(reason.paths))
    if reason.findings:
        lines.append("What has to be mended:\n" + _listed(tuple(_one_line(one) for one in reason.findings)))
    if reason.tests:
        lines.append("Tests that failed:\n" + _listed(tuple(_one_line(one) for one in reason.tests)))
    if reason.reproduce:
        lines.append(f"To see it again: {reason.reproduce}")
    if reason.tried:
        lines.append("What it said it had done:\n" + quote_text(reason.tried.strip("\n")))
    if reason.log_tail:
        lines.append("The end of its log:\n" + quote_text(reason.log_tail.strip("\n")))
    if reason.diff_tail:
        lines.append("The end of its diff:\n" + quote_text(reason.diff_tail.strip("\n")))
    return "\n".join(lines)


def _reply(reply: Reply) -> str:
    by = f" by {reply.by}" if reply.by else ""
    return f"## A question that was answered{by}\nAsked:\n{quote_text(reply.question)}\nAnswer:\n{reply.answer.strip()}"


def _one_line(text: str) -> str:
    """Others are its authors: it can end neither its line nor the section."""
    return " ".join(text.split())


def _listed(items: tuple[str, ...]) -> str:
    return "\n".join(f"- {item}" for item in items)
