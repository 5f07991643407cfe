"""
The process that stands over a Celery worker on a host: starts it, announces it, ends what it leaves behind.

    host (sub-reaper) -> celery main -> one pool child per message -> commands

A pool child or a main process killed with -9 leaves its commands without a parent: the kernel hands them to the host,
which knows its only child and kills whatever else it is given. When the host's own parent dies (a one-machine run
that was killed), the kernel sends it SIGUSR1 and it takes everything with it.
"""

import os
import signal
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import structlog

from forgepool.workers import presence
from forgepool.workers.sandbox import service, tree
from forgepool.workers.sandbox.kin import abandoned
from forgepool.workers.sandbox.service import Service
from forgepool.workers.scratch import scratch
from forgepool.workers.settings import Settings, whole_environment
from forgepool.workers.wire import BrokerAway, connect

log = structlog.get_logger()

PARENT_DIED = signal.SIGUSR1
_TURN_S = 0.1
_ANNOUNCE_S = 4.0
_LONGEST_PAUSE_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Post:
    """What a host's worker listens to, and where its log goes."""

    queues: tuple[str, ...]
    concurrency: int
    log: Path


def serve(post: Post, settings: Settings) -> int:
    """
    Runs a worker until told to stop, and starts it again when it dies. Returns the exit status.

    SIGTERM or SIGINT once lets running work finish; twice, or SIGUSR1, ends everything at once.
    """
    tree.become_subreaper()
    left_over = abandoned()
    if left_over:
        log.warning("left_over.killed", pids=left_over)
        tree.kill_tree(left_over)
    return _Watch(post, settings).run()


class _Watch:
    """The loop's memory: the one child, and what the signals have asked for."""

    def __init__(self, post: Post, settings: Settings) -> None:
        self.post, self.settings = post, settings
        self.client = connect(settings.broker_url or "")
        self.asked = 0
        self.at_once = False
        self.deaths = 0
        self.started = 0.0
        self.place = scratch()
        self.announced = 0.0
        signal.signal(signal.SIGTERM, self._ask)
        signal.signal(signal.SIGINT, self._ask)
        signal.signal(PARENT_DIED, self._end)

    def run(self) -> int:
        """Whatever ends it, a bug included, nothing it has started or laid down stays behind."""
        try:
            self._stand()
        finally:
            tree.kill_tree(tree.descendants(os.getpid()))
            self.place.remove()
            self._withdraw()
        return 0

    def _stand(self) -> None:
        worker = self._start()
        while worker.running() or not self.asked:
            if self.at_once:
                break
            if self.asked == 1 and worker.running():
                self._withdraw()
                worker.signal(signal.SIGTERM)
                self.asked = 2
            elif not worker.running():
                worker = self._again(worker)
            self._bury({worker.pid})
            self._announce(worker)
            time.sleep(_TURN_S)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        """The first request is passed on to the worker; a second one, by a person, does not wait for it."""
        if self.asked:
            self.at_once = True
        self.asked = max(self.asked, 1)

    def _end(self, number: int, frame: FrameType | None) -> None:
        self.at_once = True

    def _start(self) -> Service:
        argv = [
            sys.executable,
            "-m",
            "forgepool.workers",
            ",".join(self.post.queues),
            str(self.post.concurrency),
        ]
        self.started = time.monotonic()
        env = {**worker_environment(self.settings), "TMPDIR": str(self.place.path)}
        return service.start("worker", argv, env=env, log=self.post.log)

    def _again(self, dead: Service) -> Service:
        """Starts a worker in place of a dead one, at once at first, then ever more slowly."""
        lived_long = time.monotonic() > self.started + _LONGEST_PAUSE_S
        self.deaths = 1 if lived_long else self.deaths + 1
        log.warning("worker.died", status=dead.process.returncode, deaths=self.deaths)
        self._bury(set())
        self.place.remove()
        self.place = scratch()
        pause_s = min(_LONGEST_PAUSE_S, 0.25 * 2 ** min(10, self.deaths - 1))
        until = time.monotonic() + pause_s
        while time.monotonic() < until and not self.asked and not self.at_once:
            time.sleep(_TURN_S)
        return self._start()

    def _bury(self, known: set[int]) -> None:
        """Ends what the kernel handed us: processes whose parents, of this worker, are dead."""
        orphans = tree.orphans_of_mine(known)
        if orphans:
            log.warning("orphans.killed", pids=orphans)
            tree.kill_tree(orphans)

    def _announce(self, worker: Service) -> None:
        if self.asked or not worker.running() or time.monotonic() < self.announced + _ANNOUNCE_S:
            return
        self.announced = time.monotonic()
        here = presence.Present(
            host=self.settings.host,
            pid=os.getpid(),
            queues=self.post.queues,
            concurrency=self.post.concurrency,
            since=time.time(),
        )
        try:
            presence.announce(self.client, here)
        except BrokerAway:
            self.announced = time.monotonic() - _ANNOUNCE_S + 0.5

    def _withdraw(self) -> None:
        try:
            presence.withdraw(self.client, self.settings.host, os.getpid())
        except BrokerAway:
            return


def worker_environment(settings: Settings) -> Mapping[str, str]:
    """This process' environment, with the settings in force said in so many words."""
    said = {
        "FORGEPOOL_HOME": str(settings.home),
        "FORGEPOOL_CACHE": str(settings.cache),
        "FORGEPOOL_HOST": settings.host,
        "FORGEPOOL_BROKER_URL": settings.broker_url or "",
        "FORGEPOOL_LEASE_TTL_S": str(settings.lease_ttl_s),
        "FORGEPOOL_SANDBOX": settings.sandbox,
    }
    return whole_environment() | said
