"""Rules about the proof that a task is done: commands that fail before the work, and can pass after it."""

import posixpath
import re
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise

from forgepool.orchestrator.plan.document import Task
from forgepool.orchestrator.plan.overlap import Globs
from forgepool.orchestrator.plan.validation.case import Case, is_by_model
from forgepool.orchestrator.plan.validation.facts import Fault
from forgepool.supervisor.checks.cannot_fail import why_unfailing
from forgepool.workers.shell.language.refusal import Refusal
from forgepool.workers.shell.purpose.commands import read_command
from forgepool.workers.shell.purpose.invocations import Invocation, invocations
from forgepool.workers.shell.purpose.programs import is_python

_RUNNERS = frozenset(
    ("pytest", "py.test", "node", "ruby", "bash", "sh", "jest", "vitest", "bats", "ruff", "mypy", "eslint")
)
_MATCHERS = frozenset(("grep", "egrep", "fgrep", "rg"))
_TESTS = frozenset(("-e", "-f", "-s", "-r", "-x"))
_VALUED = frozenset(("-k", "-m", "-o", "-p", "-c", "-n", "-r", "-W", "-A", "-B", "-C", "--config", "--deselect"))
_FILE = re.compile(
    r"[\w.+-][\w./+-]*\.(?:pyi?|[cm]?[jt]sx?|go|rs|rb|sh|bash|java|kts?|cc?|cpp|hh?|hpp|md|rst|txt|toml|ya?ml|json|cfg"
    r"|ini|html|css|sql|xml|csv|bats)"
)


def find_unfailing(case: Case) -> Iterator[Fault]:
    for task in case.plan.tasks:
        for command in task.acceptance:
            if why := why_unfailing(command):
                wrong = f"is accepted by `{command}`, which cannot fail: {why}"
                yield case.fault("cannot-fail", task, case.at_command(task, command), wrong)


def find_green(case: Case) -> Iterator[Fault]:
    """Yield a fault for each acceptance command that passes before the work, and guard that does not."""
    unknown: dict[str, list[tuple[Task, str]]] = defaultdict(list)
    for task in case.plan.tasks:
        for command in task.acceptance:
            result = case.facts.results.get((task.id, command))
            if result is None:
                continue
            where = case.at_command(task, command)
            if result.outcome == "unknown":
                unknown[result.why].append((task, command))
            elif result.outcome == "green" and command not in task.guards:
                wrong = f"is accepted by `{command}`, which passes without its work"
                mend = "write a command that fails until the work is done, or list this one under 'guards'"
                yield case.fault("green-on-base", task, where, f"{wrong}; {mend}")
            elif result.outcome == "red" and command in task.guards and not task.needs:
                wrong = f"has the guard `{command}`, which fails on the base; list it under 'acceptance'"
                yield case.fault("red-guard", task, where, wrong)
    for why, pairs in unknown.items():
        task, command = pairs[0]
        more = f" (and {len(pairs) - 1} more commands)" if len(pairs) > 1 else ""
        wrong = f"is accepted by `{command}`{more}, which gave no answer on the base: {why}"
        yield case.fault("not-tried", task, case.at_command(task, command), wrong, "warning")


def find_unproven(case: Case) -> Iterator[Fault]:
    """
    Yield an error for a task of a model that nothing proves, and a warning where only the checks do.

    A task that declares to write nothing has nothing to prove.
    """
    for task in case.plan.tasks:
        if task.acceptance or task.files == () or not is_by_model(task):
            continue
        if not case.facts.has_checks:
            wrong = "has no acceptance command, and there are no checks: nothing would prove it; add 'acceptance'"
            yield case.fault("no-proof", task, (), wrong)
        else:
            wrong = "has no acceptance command; the checks pass without its work, too"
            yield case.fault("no-acceptance", task, (), wrong, "warning")


def find_missing_files(case: Case) -> Iterator[Fault]:
    """Yield a fault for each file that an acceptance command needs, and that is not there once the task is done."""
    for task in case.plan.tasks:
        for command in task.acceptance:
            for path in _operands(command):
                if not case.is_there(path) and not case.may_make(task, path) and not _is_installed(path):
                    yield _missing(case, task, command, path)


def _missing(case: Case, task: Task, command: str, path: str) -> Fault:
    where = case.at_command(task, command)
    if makers := case.makers(task, Globs.exactly([path])):
        wrong = f"is accepted by `{command}`, and only '{makers[0]}' makes '{path}'; add '{makers[0]}' to its needs"
        return case.fault("used-before-made", task, where, wrong)
    wrong = f"is accepted by `{command}`, and nothing makes '{path}'; add it to 'files', or name a file that exists"
    return case.fault("missing-file", task, where, wrong)


def _is_installed(path: str) -> bool:
    """Tell whether a set-up makes a path, as in `.venv` and `node_modules`."""
    return any(part.startswith(".") or part == "node_modules" for part in path.split("/"))


def _operands(command: str) -> Iterator[str]:
    """Yield the paths that a command opens for certain, and does not make itself."""
    try:
        found = invocations(command).invocations
    except (Refusal, RecursionError):
        return
    made = {write.path for write in read_command(command).writes}
    for call in found:
        if call.folder is not None:
            paths = (posixpath.normpath(posixpath.join(call.folder, name)) for name in _names(call))
            yield from (path for path in paths if path not in made)


def _names(call: Invocation) -> Iterator[str]:
    words = [word.text.partition("::")[0] if word.static else "" for word in call.arguments]
    if call.program in ("test", "["):
        named = [after for word, after in pairwise(words) if word in _TESTS and "!" not in words]
    elif call.program in _MATCHERS:
        named = [word for word in words if not word.startswith("-")][0 if "-e" in words else 1 :]
    elif call.program in _RUNNERS or (is_python(call.program) and "-c" not in words):
        named = [word for before, word in pairwise(("", *words)) if before not in _VALUED]
    else:
        named = []
    yield from (name for name in named if _FILE.fullmatch(name))
