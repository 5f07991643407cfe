"""
The process over a host's Celery workers: it starts them, announces them, and ends what they leave behind.

    host (sub-reaper) -> a Celery main for each post -> one pool child per message -> commands

A main is forked from the host, which has imported what messages need, so it starts at once. A pool child or a main
killed with -9 leaves its commands without a parent. The kernel hands them to the host, which kills every process that
is not its own worker. When the host's parent dies (a one-machine run that was killed), the kernel sends it SIGUSR1 and
it ends everything.
"""

import gc
import importlib
import os
import signal
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import structlog

from forgepool.workers.queue import leases
from forgepool.workers.queue.broker import (
    CANNOT_START,
    CHECKS,
    LANDINGS,
    ORDERS,
    PROTOCOL,
    REVIEWS,
    WORKER_MODULES,
    BrokerAway,
    Queue,
    connect,
    serve_queues,
    use_broker,
)
from forgepool.workers.sandbox import tree
from forgepool.workers.sandbox.own_processes import RARE_COLLECTION, Fork, go_on_beside
from forgepool.workers.sandbox.scratch import scratch
from forgepool.workers.sandbox.tree import find_abandoned
from forgepool.workers.schema.logs import log_to_stderr
from forgepool.workers.schema.orders import compile_all
from forgepool.workers.schema.settings import Settings, whole_environment
from forgepool.worktrees.errors import InfrastructureError
from forgepool.worktrees.git.objects import close_readers

_NEEDED: dict[Queue, tuple[str, ...]] = {
    ORDERS: (
        "forgepool.workers.order.run_order",
        "forgepool.workers.agents.dispatch",
        "forgepool.workers.agents.builtin.agent",
    ),
    CHECKS: (
        "forgepool.supervisor.gate.check_entry",
        "forgepool.workers.workspace.scans.scanning",
        "detect_secrets.plugins.base",
    ),
    LANDINGS: ("forgepool.supervisor.gate.land",),
    REVIEWS: (),
}
"""The modules that every message of a queue needs."""


def import_needed(queues: Iterable[Queue]) -> None:
    """Import what messages need, once before the forks, so that no process per message does it again."""
    # What is imported stays: the collector would look through it again and again, and find nothing.
    gc.disable()
    gc.set_threshold(*RARE_COLLECTION)
    for name in (*WORKER_MODULES, *(name for queue in queues for name in _NEEDED[queue])):
        importlib.import_module(name)
    compile_all()
    gc.enable()


def work(queues: tuple[Queue, ...], concurrency: int) -> None:
    """Serve messages of these queues, `concurrency` at once, until SIGTERM. The settings name the broker."""
    settings = Settings()
    log_to_stderr()
    use_broker(settings.broker_url or "")
    name = f"forgepool-{'-'.join(queues)}@{settings.host}"
    events = settings.celery_events
    serve_queues(queues, concurrency, name=name, host=settings.host, events=events, at_process_end=close_readers)


log = structlog.get_logger()

PARENT_DIED = signal.SIGUSR1
_TURN_S = 0.1
_ANNOUNCE_S, _LOOK_S = 4.0, 1.0
_LONGEST_PAUSE_S = 30.0
_MOST_DEATHS, _DEATHS_WITHIN_S = 5, 60.0
_LAST_WORDS_CHARS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerPost:
    """A worker of a host: its queues, and the file of its log."""

    queues: tuple[str, ...]
    concurrency: int
    log: Path


class WorkersDie(InfrastructureError):
    """A host's worker dies again and again; one sentence with its last words."""


def serve(posts: Sequence[WorkerPost], settings: Settings, facts: leases.HostFacts | None = None) -> int:
    """
    Run a worker for each post until told to stop, and restart each that dies. Return the exit status.

    SIGTERM or SIGINT once lets running work finish; twice, or SIGUSR1, ends everything at once.

    Raises:
        WorkersDie: a worker, or processes of it that could not start, died five times within a minute.
    """
    tree.become_subreaper()
    left_over = find_abandoned()
    if left_over:
        log.warning("left_over.killed", pids=left_over)
        tree.kill_tree(left_over)
    return _Watch(posts, settings, facts or leases.HostFacts()).run()


def serve_posts(words: Sequence[str]) -> int:
    """Run a worker for each `QUEUES=CONCURRENCY=LOG`, by the settings of the environment. Return the exit status."""
    log_to_stderr()
    posts = []
    for word in words:
        queues, concurrency, log = word.split("=", 2)
        posts.append(WorkerPost(queues=tuple(queues.split(",")), concurrency=int(concurrency), log=Path(log)))
    return serve(posts, Settings())


class _Worker:
    """One post's worker: its process, or the time at which the next one starts."""

    def __init__(self, post: WorkerPost, settings: Settings) -> None:
        self.post, self.settings = post, settings
        self.place = scratch()
        self.child: Fork | None = None
        self.ending = False
        """It takes nothing new, and ends with the work that it has."""
        self.deaths = 0
        self.died: list[float] = []
        self.started = 0.0
        self.starts_at = 0.0

    def running(self) -> bool:
        return self.child is not None and self.child.running()

    def drain(self) -> None:
        if self.child is not None:
            self.child.signal(signal.SIGTERM)
            self.ending = True

    def notice_death(self) -> bool:
        """Return whether it has died since the last call. It restarts at once at first, then ever more slowly."""
        if self.child is None or self.child.running():
            return False
        if self.ending:
            self.child, self.ending, self.deaths, self.starts_at = None, False, 0, 0.0
            return True
        lived_long = time.monotonic() > self.started + _LONGEST_PAUSE_S
        self.deaths = 1 if lived_long else self.deaths + 1
        log.warning("worker.died", queues=self.post.queues, status=self.child.status, deaths=self.deaths)
        self.died = [*self.died, time.monotonic()][-_MOST_DEATHS:]
        often = len(self.died) == _MOST_DEATHS and self.died[-1] - self.died[0] < _DEATHS_WITHIN_S
        if often or self.child.status == CANNOT_START:
            raise WorkersDie(self._last_words())
        self.child = None
        self.starts_at = time.monotonic() + min(_LONGEST_PAUSE_S, 0.25 * 2 ** min(10, self.deaths - 1))
        return True

    def _last_words(self) -> str:
        said = ""
        with suppress(OSError):
            lines = self.post.log.read_text(errors="replace").splitlines()
            # Each of them has died with the same words. Lines in brackets are the log's own: that one died, not why.
            words = Counter(line.strip() for line in lines[-1000:] if line.strip() and not line.startswith(("[", "{")))
            said = "".join(f": {line[:_LAST_WORDS_CHARS]}" for line, _ in words.most_common(1))
        names = " and ".join(self.post.queues)
        return f"the processes for {names} died {_MOST_DEATHS} times within a minute{said}; {self.post.log} has more"

    def start_when_due(self) -> None:
        if self.child is not None or time.monotonic() < self.starts_at:
            return
        if self.deaths:
            self.place.remove()
            self.place = scratch()
        self.started = time.monotonic()
        env = {**worker_environment(self.settings), "TMPDIR": str(self.place.path)}
        self.child = go_on_beside(self._work, env=env, log=self.post.log)

    def _work(self) -> None:
        # The folder is the host's: its lock must not outlive the host in this process.
        os.close(self.place.lock_fd)
        work(self.post.queues, self.post.concurrency)


class _Watch:
    """The state of the loop: the workers, and what signals have asked for."""

    def __init__(self, posts: Sequence[WorkerPost], settings: Settings, facts: leases.HostFacts) -> None:
        self.settings, self.facts = settings, facts
        self.client = connect(settings.broker_url or "")
        self.asked = 0
        self.at_once = False
        self.announced = 0.0
        self.drained = False
        self.looked = 0.0
        self.since = time.time()
        import_needed(queue for post in posts for queue in post.queues)
        signal.signal(signal.SIGTERM, self._ask)
        signal.signal(signal.SIGINT, self._ask)
        signal.signal(PARENT_DIED, self._end)
        # Each has a folder, which a signal that came before would leave behind.
        self.workers = [_Worker(post, settings) for post in posts]

    def run(self) -> int:
        """Run until told to stop. Whatever ends it, nothing it started or laid down stays behind."""
        try:
            self._stand()
        finally:
            tree.kill_tree(tree.descendants(os.getpid()))
            for worker in self.workers:
                worker.place.remove()
            self._withdraw()
        return 0

    def _stand(self) -> None:
        while not self.at_once:
            if self.asked == 0:
                self._notice_drain()
                self._start_those_due()
            elif self.asked == 1:
                self._withdraw()
                for worker in self.workers:
                    if worker.child is not None:
                        worker.child.signal(signal.SIGTERM)
                self.asked = 2
            elif not any(worker.running() for worker in self.workers):
                break
            self._bury()
            self._announce()
            time.sleep(_TURN_S)

    def _notice_drain(self) -> None:
        """Follow a person's word on this host: drained workers finish what they have, and none starts again."""
        if time.monotonic() < self.looked + _LOOK_S:
            return
        self.looked = time.monotonic()
        with suppress(*BrokerAway):
            drained = leases.is_drained(self.client, self.settings.host)
            if drained == self.drained:
                return
            log.info("host.drained" if drained else "host.readmitted")
            self.drained, self.announced = drained, 0.0
            self._announce()
            for worker in self.workers if drained else ():
                worker.drain()

    def _start_those_due(self) -> None:
        if any([worker.notice_death() for worker in self.workers]):
            self.announced = 0.0
            self._bury()
        if not self.drained:
            for worker in self.workers:
                worker.start_when_due()

    def _ask(self, number: int, frame: FrameType | None) -> None:
        """Pass the first request on to the workers; a second one, by a person, does not wait for them."""
        if self.asked:
            self.at_once = True
        self.asked = max(self.asked, 1)

    def _end(self, number: int, frame: FrameType | None) -> None:
        self.at_once = True

    def _bury(self) -> None:
        """End the processes that the kernel handed us, whose parents among our workers are dead."""
        known = {worker.child.pid for worker in self.workers if worker.child is not None and worker.running()}
        orphans = tree.orphans_of_mine(known)
        if orphans:
            log.warning("orphans.killed", pids=orphans)
            tree.kill_tree(orphans)

    def _announce(self) -> None:
        if self.asked or time.monotonic() < self.announced + _ANNOUNCE_S:
            return
        self.announced = time.monotonic()
        try:
            for worker in self.workers:
                if worker.running() or self.drained:
                    leases.announce(self.client, self._present(worker))
        except BrokerAway:
            self.announced = time.monotonic() - _ANNOUNCE_S + 0.5

    def _withdraw(self) -> None:
        try:
            for worker in self.workers:
                leases.withdraw(self.client, self._present(worker))
        except BrokerAway:
            return

    def _present(self, worker: _Worker) -> leases.Present:
        return leases.Present(
            host=self.settings.host,
            pid=os.getpid(),
            queues=worker.post.queues,
            concurrency=worker.post.concurrency,
            since=self.since,
            protocol=PROTOCOL,
            facts=self.facts,
            drained=self.drained or worker.ending,
        )


def worker_environment(settings: Settings) -> Mapping[str, str]:
    """Return this process's environment, with the settings in force written out."""
    variables = {
        "FORGEPOOL_HOME": str(settings.home),
        "FORGEPOOL_CACHE": str(settings.cache),
        "FORGEPOOL_HOST": settings.host,
        "FORGEPOOL_BROKER_URL": settings.broker_url or "",
        "FORGEPOOL_LEASE_TTL_S": str(settings.lease_ttl_s),
        "FORGEPOOL_SANDBOX": settings.sandbox,
    }
    return whole_environment() | variables
