"""
Diffs for pages. A diff is made when a person asks for it, once: what lies between two commits never changes.
"""

import os
import signal
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryFile
from threading import Timer

from forgepool.orchestrator.reports.leftovers import mirror_of
from forgepool.orchestrator.state.run import RunState
from forgepool.orchestrator.state.task import TaskState
from forgepool.workers.schema.settings import Settings
from forgepool.workers.workspace.refs import candidate_ref
from forgepool.worktrees.errors import InfrastructureError, UserError
from forgepool.worktrees.git.git import DEVNULL, CommitId, Git, GitFailed, is_object_id, start_git

_MOST_BYTES, _MOST_LINES = 400_000, 4000
_ENDS_WITHIN_S = 60.0
_KINDS = {"+": "added", "-": "removed", "@": "place"}


@dataclass(frozen=True, slots=True, kw_only=True)
class WebDiff:
    """A diff, or the sentence why there is none."""

    lines: tuple[tuple[str, str], ...] = ()
    """The kind of each line (`added`, `removed`, `place`, `file` or none), and the line."""
    is_cut: bool = False
    trouble: str = ""


def change_of(state: RunState, task: TaskState) -> tuple[str, str, str, str]:
    """Return a task's change for `diff_of`: the hub, the commit it began from, the change and its ref in the hub."""
    ref = candidate_ref(state.run, task.id, task.made_by)
    return state.hub, task.base or state.tip, task.commit or task.candidate, ref


def diff_of(settings: Settings, hub: str, base: str, commit: str, ref: str) -> WebDiff:
    """Return the diff of a change against the commit that it began from. `ref` is the change's own in the hub."""
    if not commit:
        return WebDiff(trouble="There is no change yet.")
    if not (is_object_id(base) and is_object_id(commit)):  # A journal may come from a hub: git would take options.
        return WebDiff(trouble="The journal has no full ids of the two commits, so nothing can be compared.")
    try:
        return _made(settings.cache, settings.git_credential_helper, hub, base, commit, ref)
    except (InfrastructureError, UserError, OSError) as away:
        return WebDiff(trouble=f"The repository cannot show it now: {away}")


@lru_cache(maxsize=32)
def _made(cache: Path, helper: str | None, hub: str, base: str, commit: str, ref: str) -> WebDiff:
    mirror = mirror_of(hub, Settings(cache=cache, git_credential_helper=helper))
    for one in (commit, base):
        if not mirror.has(CommitId(one)):
            mirror.ensure(CommitId(one), refs=(ref,) if one == commit and ref in mirror.hub_refs(ref) else ())
    options = ("--no-color", "--no-ext-diff", "--no-textconv", "--stat=100", "--patch", "--end-of-options")
    found = _read_beginning(mirror.git, "diff", *options, f"{base}...{commit}", "--")
    lines = os.fsdecode(found[:_MOST_BYTES].removesuffix(b"\n")).split("\n")
    return WebDiff(
        lines=tuple(mark_lines(lines[:_MOST_LINES])), is_cut=len(found) > _MOST_BYTES or len(lines) > _MOST_LINES
    )


def _read_beginning(git: Git, *argv: str) -> bytes:
    """Return git's output, of a long one one byte more than is shown; git is killed then. Raises GitFailed, OSError."""
    with (
        TemporaryFile() as complaint,
        start_git(
            argv, git.git_dir, {"GIT_DIR": str(git.git_dir)}, stdin=DEVNULL, stderr=complaint.fileno()
        ) as process,
    ):

        def kill() -> None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)

        late = Timer(_ENDS_WITHIN_S, kill)
        late.start()
        found = b""
        while process.stdout and len(found) <= _MOST_BYTES and (more := process.stdout.read(_MOST_BYTES)):
            found += more
        if len(found) > _MOST_BYTES:
            kill()
        status = process.wait()
        late.cancel()
        complaint.seek(0)
        said = complaint.read(_MOST_BYTES).decode(errors="replace")
    if status and len(found) <= _MOST_BYTES:
        git.doubt(said)
        too_late = f"Timeout: it did not end within {_ENDS_WITHIN_S:g} s"
        raise GitFailed(argv, status, too_late if status == -signal.SIGKILL else said)
    return found


def mark_lines(lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield each line with its kind; the lines before a hunk name files."""
    in_hunk = False
    for line in lines:
        if line.startswith("diff --git "):
            in_hunk = False
            yield "file", line
        elif line.startswith("@@"):
            in_hunk = True
            yield "place", line
        else:
            yield (_KINDS.get(line[:1], "") if in_hunk else "", line)
