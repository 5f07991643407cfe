"""
Git beside a run's loop, in threads of the run's own process.

The loop ends whatever child it does not know: those are orphans of its workers, handed to it by the kernel. A git
process of another thread is such a child as well. So what runs beside the loop says that it runs (`ChildProcesses`),
and orphans are ended at a moment when nothing does.
"""

import threading
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from forgepool.worktrees.git.git import Git, GitOutput
from forgepool.worktrees.hub.mirror import Mirror


class ChildProcesses:
    """Counts the processes that threads beside the loop have started and not yet seen the end of."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running = 0

    @contextmanager
    def running(self) -> Iterator[None]:
        """Around the whole life of a process, from before its start until it is reaped."""
        with self._lock:
            self._running += 1
        try:
            yield
        finally:
            with self._lock:
                self._running -= 1

    @contextmanager
    def alone(self) -> Iterator[bool]:
        """Whether nothing runs beside the loop; until this is left nothing begins to."""
        with self._lock:
            yield self._running == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class GitAside(Git):
    aside: ChildProcesses

    def run(
        self,
        *argv: str,
        stdin: bytes | None = None,
        ok: Collection[int] = (0,),
        env: Mapping[str, str] | None = None,
        timeout_s: float = 600,
    ) -> GitOutput:
        with self.aside.running():
            return Git.run(self, *argv, stdin=stdin, ok=ok, env=env, timeout_s=timeout_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorAside(Mirror):
    """The same mirror, for a thread beside the loop."""

    aside: ChildProcesses

    @property
    def git(self) -> Git:
        return GitAside(git_dir=self.path, aside=self.aside)


def mirror_aside(mirror: Mirror, aside: ChildProcesses) -> Mirror:
    return MirrorAside(
        path=mirror.path,
        hub=mirror.hub,
        credential_helper=mirror.credential_helper,
        push_option=mirror.push_option,
        aside=aside,
    )
