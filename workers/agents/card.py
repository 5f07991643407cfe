"""
What the built-in agent is told: who it is, the same for every task, and its task.
"""

from workers.messages import ReasonPack, WorkOrder

SYSTEM = (
    "You do one task in one git worktree, with the tools you are given. Everything you know of the code "
    "comes from reading it with them. Change what the task asks for and nothing else. Do not commit: what "
    "you leave in the files is taken as your work. Tests and linters are run on it afterwards, by others; "
    "run them yourself first. When everything is done, call `finish` with a summary.",
)


def task_card(order: WorkOrder) -> str:
    """
    The task in its own words, then what it may write, what will judge it, and why earlier attempts came
    back.
    """
    parts = [f"# Task {order.task}: {order.title}"]
    if order.description:
        parts.append(order.description.strip())
    if order.files:
        parts.append("## Files you may write\n" + _listed(order.files))
    if order.acceptance:
        parts.append("## Commands that must succeed\n" + _listed(order.acceptance))
    parts += [_reason(reason) for reason in order.reasons]
    return "\n\n".join(parts) + "\n"


def _reason(reason: ReasonPack) -> str:
    lines = [f"## Why attempt {reason.attempt} came back: {reason.kind}", reason.summary]
    if reason.conflicting_entry is not None:
        lines.append(f"It clashes with: {reason.conflicting_entry}")
    if reason.paths:
        lines.append("Paths:\n" + _listed(reason.paths))
    if reason.reproduce:
        lines.append(f"To see it again: {reason.reproduce}")
    if reason.log_tail:
        lines.append("The end of its log:\n" + _quoted(reason.log_tail.strip("\n")))
    return "\n".join(lines)


def _listed(items: tuple[str, ...]) -> str:
    return "\n".join(f"- {item}" for item in items)


def _quoted(text: str) -> str:
    """Indented, so that nothing in a log can look like a heading of the card."""
    return "\n".join(f"    {line}" for line in text.split("\n"))
