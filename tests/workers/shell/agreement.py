"""Tells whether what bash really ran is among the facts."""

from collections.abc import Sequence

from forgepool.workers.shell.language.script import Execution, ShellScript, ShellWord


def is_found(script: ShellScript, argv: Sequence[str]) -> bool:
    """Return whether this program with these words is one of the executions, or belongs to an unreadable script."""
    return any(_fits(each, argv) or (each.opaque and _names(each, argv[0])) for each in script.executions)


def fits(words: Sequence[ShellWord], argv: Sequence[str]) -> bool:
    """Match static words exactly, others by their prefix, and words that may be several any number of times."""
    reached = {0}
    for word in words:
        if word.static:
            reached = {at + 1 for at in reached if at < len(argv) and argv[at] == word.text}
        elif word.several:
            reached = {further for at in reached for further in range(at, len(argv) + 1)}
        else:
            reached = {at + 1 for at in reached if at < len(argv) and argv[at].startswith(word.text)}
    return len(argv) in reached


def _fits(execution: Execution, argv: Sequence[str]) -> bool:
    named = execution.argv[0].text.rpartition("/")[2] == argv[0]
    return named and fits(execution.argv[1:], argv[1:])


def _names(execution: Execution, program: str) -> bool:
    """Return whether the script itself is run by a shell, as in `bash m1`."""
    return any(word.text.rpartition("/")[2] == program for word in execution.argv)
