"""
This host's memory of check results, by the key of their inputs: one small file each, below the cache.

It is a cache: an unreadable file counts as absent, and losing all files costs only time. Commands in a sandbox neither
see nor write this folder. Without a sandbox a candidate's tests could write into it, so nothing is kept or believed
there (see `open_store`).

Why a run is kept and not its verdict: a run is judged against the target's tip, and the tip moves.

Hosts with the fleet's key share their green runs through Redis, signed. The key of a run names the tree, the definition
and the environment: system, machine, Python, sandbox, and the variables that commands get. It is no more trust than
there is already, since a certificate of any host lets an entry land. A red run is not shared: it could excuse an entry
by the fault of another host.

Set-up folders are not shared. They hold absolute paths, so one fits only a checkout of the same path. Each state of a
lock file would put tens of megabytes into the hub or Redis, and spare each host one installation from its cache.
"""

import os
import tempfile
import time
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import structlog
from pydantic import Field, ValidationError

from forgepool.supervisor.checks.results.judging import Ran
from forgepool.supervisor.checks.traced.proofs import Proofs
from forgepool.workers.queue.broker import BrokerAway, Redis, RedisTrouble, connect
from forgepool.workers.queue.replies import MessageRefused, tell
from forgepool.workers.queue.signing import sign, verify
from forgepool.workers.schema.confinement import Level
from forgepool.workers.schema.orders import Message
from forgepool.workers.schema.settings import Settings

log = structlog.get_logger()

MOST_KEPT = 2_000
KEPT_S = 14 * 24 * 3600.0
"""Seconds for which a result is kept; later the host's programs may have changed unnoticed."""
MOST_BYTES = 8_000_000
"""The largest size of one file, in bytes."""
MOST_FLAKY = 500
"""Flaky tests that are remembered of a check."""
MOST_SHARED_BYTES = 1_000_000
"""The largest size of one shared result, in bytes."""
_PRUNED_TO = 0.9

M = TypeVar("M", bound=Message)


class StoredResult(Message):
    """The result of a check's last run on certain inputs."""

    ran: Ran
    seconds: float
    at: float
    """By this host's clock, as all times here."""
    host: str = ""
    """The other host that ran it; '' where it was this one."""
    traced: str = ""
    """How much of a traced check was left out."""


def is_green(ran: Ran) -> bool:
    return ran.how == "exit" and ran.status == 0


class _Cost(Message):
    seconds: float = Field(ge=0)


class _Flaky(Message):
    tests: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedResults:
    """The green runs of all hosts with the fleet's key. What is broken or forged is removed, and its run told."""

    broker_url: str
    host: str
    run: str
    """The run that is told of a result that is not believed."""

    def find(self, key: str) -> StoredResult | None:
        """Return another host's result for exactly these inputs; None too where Redis is away."""
        place = f"forgepool:green:{key}"
        with suppress(*BrokerAway), connect(self.broker_url) as client:
            try:
                written = client.get(place)
                if written is None:
                    return None
                found = StoredResult.model_validate_json(verify(str(written), place))
                if not is_green(found.ran) or not found.host:
                    raise ValueError("it is no green run of a host")
            except BrokerAway:
                raise
            except (ValueError, RedisTrouble) as wrong:
                self._tell(client, place, wrong)
                return None
            return found if found.host != self.host and time.time() - found.at <= KEPT_S else None
        return None

    def keep(self, key: str, result: StoredResult) -> None:
        place = f"forgepool:green:{key}"
        # Hosts of earlier releases refuse the field, and have no traced checks.
        unset = set() if result.traced else {"traced"}
        text = result.model_copy(update={"host": self.host}).model_dump_json(exclude=unset)
        if is_green(result.ran) and len(text) <= MOST_SHARED_BYTES:
            with suppress(RedisTrouble), connect(self.broker_url) as client:
                client.set(place, sign(text, place), ex=int(KEPT_S))

    def _tell(self, client: Redis, place: str, wrong: Exception) -> None:
        why = "it cannot be read" if isinstance(wrong, ValidationError | RedisTrouble) else str(wrong)
        said = f"a shared result of a check is not believed: {why}"
        log.warning("shared_result.refused", key=place, why=why)
        tell(client, self.run, MessageRefused(message_id="", host=self.host, why=said))
        client.delete(place)


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """One host's. Several processes may use it at once: a file is replaced as a whole."""

    folder: Path | None
    """None keeps nothing, and knows nothing."""
    shared: SharedResults | None = None

    def find(self, key: str) -> StoredResult | None:
        """Return the result for exactly these inputs; None where there is none, or only one that is too old."""
        found = self._read(f"{key}.json", StoredResult)
        if found is not None and 0 <= time.time() - found.at <= KEPT_S:
            return found
        return None if self.shared is None else self.shared.find(key)

    def keep(self, key: str, ran: Ran, seconds: float, traced: str = "") -> None:
        result = StoredResult(ran=ran, seconds=seconds, at=time.time(), traced=traced)
        self._write(f"{key}.json", result)
        if self.shared is not None:
            self.shared.keep(key, result)

    def cost(self, definition: str) -> float | None:
        """Seconds that a check of this definition took when it was last run to its end."""
        found = self._read(f"{definition}.cost.json", _Cost)
        return None if found is None else found.seconds

    def keep_cost(self, definition: str, seconds: float) -> None:
        self._write(f"{definition}.cost.json", _Cost(seconds=seconds))

    def flaky(self, definition: str) -> frozenset[str]:
        """Return the tests that were red and green on one tree here, under a check of this definition."""
        found = self._read(f"{definition}.flaky.json", _Flaky)
        return frozenset() if found is None else frozenset(found.tests)

    def keep_flaky(self, definition: str, tests: Collection[str]) -> None:
        """Add to them; where two processes do at once, one is forgotten until it flakes again."""
        known = self.flaky(definition)
        if not known.issuperset(tests):
            self._write(f"{definition}.flaky.json", _Flaky(tests=(*sorted(known.union(tests)),)[:MOST_FLAKY]))

    def proofs(self, key: str) -> Proofs:
        """Return the proofs of a traced check; those of a definition and an environment have one key."""
        return self._read(f"{key}.traced.json", Proofs) or Proofs()

    def keep_proofs(self, key: str, proofs: Proofs) -> None:
        self._write(f"{key}.traced.json", proofs)

    def _read(self, name: str, form: type[M]) -> M | None:
        if self.folder is None:
            return None
        try:
            return form.model_validate_json((self.folder / name).read_bytes())
        except (OSError, ValidationError):
            return None

    def _write(self, name: str, value: Message) -> None:
        """A disk that is full costs the memory alone."""
        data = value.encode().encode()
        if self.folder is None or len(data) > MOST_BYTES:
            return
        with suppress(OSError):
            self.folder.mkdir(parents=True, exist_ok=True)
            descriptor, beside = tempfile.mkstemp(prefix=".new-", dir=self.folder)
            try:
                with os.fdopen(descriptor, "wb") as stream:
                    stream.write(data)
                Path(beside).replace(self.folder / name)
            except OSError:
                Path(beside).unlink(missing_ok=True)
                raise
            self._prune()

    def _prune(self) -> None:
        """The oldest go when there are too many, in one go; and what is too old to be believed."""
        assert self.folder is not None
        with os.scandir(self.folder) as entries:
            aged = sorted((entry.stat(follow_symlinks=False).st_mtime, entry.path) for entry in entries)
        most = len(aged) if len(aged) <= MOST_KEPT else int(MOST_KEPT * _PRUNED_TO)
        for at, (written, path) in enumerate(aged):
            if at < len(aged) - most or time.time() - written > KEPT_S:
                Path(path).unlink(missing_ok=True)


def open_store(settings: Settings, level: Level, run: str) -> Store:
    """The host's store, for commands that are held as `level` says; an empty one where nothing holds them."""
    if level == "off":
        return Store(folder=None)
    url = settings.broker_url if settings.fleet_key is not None else None
    shared = None if url is None else SharedResults(broker_url=url, host=settings.host, run=run)
    return Store(folder=settings.cache / "verdicts", shared=shared)
