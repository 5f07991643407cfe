"""Rules about the files that tasks name: they exist or are new, belong to one task at a time, and may be changed."""

import posixpath
import re
from collections import defaultdict
from collections.abc import Iterator

from forgepool.orchestrator.plan.document import Task
from forgepool.orchestrator.plan.overlap import Globs
from forgepool.orchestrator.plan.readiness import find_conflicts
from forgepool.orchestrator.plan.validation.case import Case, is_by_model
from forgepool.orchestrator.plan.validation.facts import Fault
from forgepool.workers.agents.briefing.prediction.signals import find_named
from forgepool.workers.schema.mistakes import nearest
from forgepool.workers.workspace.scans.protection import find_manifests, is_protected

_WILD = re.compile(r"[*?\[{]")
_SURE = 0.9
LIKELY = 0.7
"""The least probability of a file that a task is asked about."""
_MOST_NAMED = 4


def find_unmatched(case: Case) -> Iterator[Fault]:
    """
    Yield a fault for each glob that matches no file and is not declared as new.

    A new file is declared by its plain path alone where its folder exists. Where the folder is new, too, the plan's
    words name the file or the folder, or another of its globs lies there.
    """
    for task in case.plan.tasks:
        for key, globs in (("files", task.files or ()), ("reads", task.reads)):
            for at, glob in enumerate(globs):
                if case.is_there(glob) or next(case.match_files(glob), None) is not None:
                    continue
                yield from _unmatched(case, task, (key, at), glob)


def _unmatched(case: Case, task: Task, where: tuple[str, int], glob: str) -> Iterator[Fault]:
    makers = case.makers(task, Globs.of([glob]))
    if any(case.is_before(maker, task.id) for maker in makers):
        return
    if where[0] == "reads" and makers:
        wrong = f"reads '{glob}', which only '{makers[0]}' makes; add '{makers[0]}' to its needs"
        yield case.fault("used-before-made", task, where, wrong)
        return
    literal = None if _WILD.search(glob) else glob.rstrip("/")
    like = nearest(literal or _head(glob), case.facts.paths if literal else case.tree.directories)
    wrong = f"has '{glob}' in '{where[0]}', which matches no file" + (f"; did you mean '{like[0]}'?" if like else "")
    if where[0] == "reads":
        yield case.fault("unmatched-glob", task, where, wrong)
    elif _is_new(case, literal or _head(glob), glob):
        return
    elif literal is None or ("/" in literal and not case.is_there(posixpath.dirname(literal))):
        yield case.fault("unmatched-glob", task, where, f"{wrong}; if it is new, name it in the description")
    elif other := _sibling(case, literal):
        wrong = f"would make '{literal}', beside '{other}'; if that is meant, name it in the description"
        meant = posixpath.basename(other) in f"{task.title}\n{task.description}" and not case.may_make(task, other)
        yield case.fault("unmatched-glob", task, where, wrong, "error" if meant else "warning")


def _head(glob: str) -> str:
    """Return the folder before a glob's first wildcard."""
    return posixpath.dirname(_WILD.split(glob, maxsplit=1)[0])


def _is_new(case: Case, path: str, glob: str) -> bool:
    """Tell whether the plan's words name a path or a folder above it that is not there, or another glob lies there."""
    new = [path]
    while (folder := posixpath.dirname(new[-1])) and not case.is_there(folder):
        new.append(folder)
    if not case.words.isdisjoint(name for each in new for name in (each, posixpath.basename(each))):
        return True
    others = {other for each in case.plan.tasks for other in each.files or ()} - {glob}
    return any(other.startswith(f"{folder}/") for folder in new[1:] for other in others)


def _sibling(case: Case, path: str) -> str | None:
    """Return a file in the same folder whose name is this one with a slip of the pen: it may be the one meant."""
    folder, name = posixpath.split(path)
    beside = (other for other in case.facts.paths if posixpath.dirname(other) == folder)
    return next((other for other in beside if _is_slip(name, posixpath.basename(other))), None)


def _is_slip(name: str, other: str) -> bool:
    """Tell whether two names differ by one letter too many, or by two neighbours that changed places."""
    short, long = sorted((name, other), key=len)
    at = next((at for at, (a, b) in enumerate(zip(short, long, strict=False)) if a != b), len(short))
    if len(short) == len(long):
        return name != other and short[at : at + 2] == long[at : at + 2][::-1] and short[at + 2 :] == long[at + 2 :]
    return long[at].isalpha() and short[at:] == long[at + 1 :]


def find_overlaps(case: Case) -> Iterator[Fault]:
    """Yield a fault for each task that meets the files of earlier ones, where no need orders the two."""
    met: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for first, second, _, glob in find_conflicts(case.graph):
        met[second].append((first, glob))
    for task, others in met.items():
        names = _listed([f"'{other}'" for other, _ in others])
        wrong = f"meets {names} at '{others[0][1]}', and no need orders them; split the files, or add a need"
        yield case.fault("overlap", case.tasks[task], ("files",), wrong, "warning")


def find_named_outside(case: Case) -> Iterator[Fault]:
    """
    Yield a fault for each file that a task's text names and that it neither may write nor reads.

    A task that declares to write nothing may name any file.
    """
    for task in case.plan.tasks:
        declared = case.writes[task.id]
        if not declared or not is_by_model(task):
            continue
        text = f"{task.title}\n{task.description}"
        reads = Globs.of((*task.reads, *(path for need in task.needs for path in case.tasks[need.id].files or ())))
        found = find_named(text, case.named)
        named = dict.fromkeys(path for path, _, sign in found if sign.strength >= _SURE and _base(path) in text)
        shown = {reference.partition(":")[0] for reference in task.context}
        outside = [f"'{path}'" for path in named if path not in shown and not (declared | reads).covers(path)]
        if outside:
            wrong = f"names {_listed(outside)}, which it may not write; add it to 'files', or to 'reads'"
            yield case.fault("named-outside", task, ("files",), wrong, "warning")


def _base(path: str) -> str:
    return posixpath.basename(path)


def find_likely_outside(case: Case) -> Iterator[Fault]:
    """
    Yield a fault for each file that a task changes very likely, by the repository's past, and that no task may write.

    A file that the task reads, or is given, has been thought of. One that wants a grant is no file to propose.
    """
    for task in case.plan.tasks:
        declared = case.writes[task.id]
        if not declared or not is_by_model(task):
            continue
        known = Globs.of(task.reads) | Globs.exactly(reference.partition(":")[0] for reference in task.context)
        outside = [
            f"'{path}' ({probability:.0%})"
            for path, probability in case.facts.likely.get(task.id, ())
            if probability >= LIKELY
            and not (known.covers(path) or _needs_grant(case, task, path))
            and not case.graph.find_writers(Globs.exactly([path]))
        ]
        if outside:
            wrong = (
                f"very likely changes {_listed(outside)}, too, as past commits like it did; if so, add it to 'files'"
            )
            yield case.fault("likely-outside", task, ("files",), wrong, "warning")


def find_many_files(case: Case) -> Iterator[Fault]:
    """Yield a fault for each task of a model that may write more files than a model changes well."""
    for task in case.plan.tasks:
        if task.files is None or not is_by_model(task):
            continue
        files = {path for glob in task.files for path in (list(case.match_files(glob)) or [glob])}
        if len(files) > case.limits.files:
            wrong = f"may write {len(files)} files; models rarely succeed with more than {case.limits.files}: split it"
            yield case.fault("many-files", task, ("files",), wrong, "warning")


def find_protected(case: Case) -> Iterator[Fault]:
    """Yield a fault for each path that is written, that the gate protects, and for which there is no grant."""
    for task in case.plan.tasks:
        grants = Globs.of(task.grants)
        for at, glob in enumerate(task.files or ()):
            files = list(case.match_files(glob)) or [glob]
            if all(_needs_grant(case, task, path) and not grants.covers(path) for path in files):
                wrong = f"may write '{glob}', which the gate protects; add 'grants: [\"{glob}\"]', or leave it out"
                yield case.fault("protected-path", task, ("files", at), wrong)


def _needs_grant(case: Case, task: Task, path: str) -> bool:
    manifests = find_manifests(path)
    if manifests is not None:
        return not any(posixpath.basename(glob) in manifests for glob in task.files or ())
    return is_protected(path) or path in case.facts.protected


def _listed(names: list[str]) -> str:
    more = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
