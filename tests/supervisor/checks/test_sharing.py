"""Hosts with the fleet's key spare each other green runs; of nobody else is anything believed."""

import time
from pathlib import Path

import pytest
from gates import Gate, check

from forgepool.orchestrator.run.transport import Link
from forgepool.supervisor.checks.results.evidence import Evidence
from forgepool.supervisor.checks.results.judging import Ran
from forgepool.supervisor.checks.store import KEPT_S, Store, StoredResult, open_store
from forgepool.workers.queue.broker import Redis
from forgepool.workers.queue.replies import MessageRefused
from forgepool.workers.queue.signing import sign
from forgepool.workers.schema.settings import Settings

GREEN, RED = Ran(how="exit", status=0, evidence=Evidence(tests=3)), Ran(how="exit", status=1)
PLACE = "forgepool:green:key"


class Hosts:
    """Stores of several hosts that share nothing but a Redis."""

    def __init__(self, redis: Redis, url: str, folder: Path) -> None:
        self.redis, self.url, self.folder = redis, url, folder

    def store(self, host: str) -> Store:
        return open_store(Settings(cache=self.folder / host, broker_url=self.url, host=host), "bubblewrap", "r")

    def told(self) -> list[MessageRefused]:
        link = Link(client=self.redis, run="r", lease_ttl_s=8.0)
        return [one for one in link.answers(wait_s=0.01) if isinstance(one, MessageRefused)]


@pytest.fixture
def hosts(redis: Redis, redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hosts:
    monkeypatch.setenv("FORGEPOOL_FLEET_KEY", "k" * 32)
    return Hosts(redis, redis_url, tmp_path)


def test_a_green_run_is_found_at_every_host_with_the_key(hosts: Hosts) -> None:
    hosts.store("east").keep("key", GREEN, 2.0)
    found = hosts.store("west").find("key")
    assert found is not None and (found.ran, found.seconds, found.host) == (GREEN, 2.0, "east")
    assert hosts.store("west").find("another") is None
    own = hosts.store("east").find("key")
    assert own is not None and own.host == "", "its own is from its disk"
    assert 0 < int(hosts.redis.ttl(PLACE)) <= KEPT_S and hosts.told() == []


def test_a_red_run_is_kept_by_the_host_that_had_it_alone(hosts: Hosts) -> None:
    hosts.store("east").keep("key", RED, 2.0)
    assert hosts.store("east").find("key") is not None
    assert not hosts.redis.exists(PLACE) and hosts.store("west").find("key") is None


def test_without_a_key_nothing_is_shared(hosts: Hosts, monkeypatch: pytest.MonkeyPatch) -> None:
    hosts.store("east").keep("key", GREEN, 2.0)
    monkeypatch.delenv("FORGEPOOL_FLEET_KEY")
    assert hosts.store("west").find("key") is None, "nor is what others share looked at"
    hosts.redis.delete(PLACE)
    hosts.store("east").keep("key", GREEN, 2.0)
    assert not hosts.redis.exists(PLACE)


def result(**said: object) -> str:
    return StoredResult(**{"ran": GREEN, "seconds": 1.0, "at": time.time(), "host": "east"} | said).encode()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "forged",
    [
        result(),
        sign(result(), PLACE),
        "junk",
        "",
        lambda: sign(result(), "forgepool:green:other"),
        lambda: sign("{}", PLACE),
        lambda: sign(result(ran=RED), PLACE),
        lambda: sign(result(host=""), PLACE),
    ],
)
def test_a_result_that_is_broken_or_forged_is_told_once_and_not_believed(hosts: Hosts, forged: object) -> None:
    hosts.redis.set(PLACE, forged() if callable(forged) else str(forged))
    assert [hosts.store("west").find("key") for _ in range(3)] == [None] * 3
    (told,) = hosts.told()
    assert told.host == "west" and told.why.startswith("a shared result of a check is not believed: it ")


def test_a_result_of_another_key_is_told_and_not_believed(hosts: Hosts, monkeypatch: pytest.MonkeyPatch) -> None:
    hosts.store("east").keep("key", GREEN, 2.0)
    monkeypatch.setenv("FORGEPOOL_FLEET_KEY", "o" * 32)
    assert hosts.store("west").find("key") is None
    assert "it is signed with another key" in hosts.told()[0].why


def test_a_key_of_another_kind_is_told_and_not_believed(hosts: Hosts) -> None:
    hosts.redis.lpush(PLACE, "x")
    assert hosts.store("west").find("key") is None and len(hosts.told()) == 1
    hosts.store("east").keep("key", GREEN, 2.0)
    assert hosts.store("west").find("key") is not None


def test_an_old_result_that_is_written_again_is_not_believed(hosts: Hosts) -> None:
    hosts.redis.set(PLACE, sign(result(at=time.time() - KEPT_S - 60), PLACE))
    assert hosts.store("west").find("key") is None


def test_a_redis_that_is_away_costs_the_sharing_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORGEPOOL_FLEET_KEY", "k" * 32)
    url = f"unix://{tmp_path / 'none'}"
    store = open_store(Settings(cache=tmp_path, broker_url=url, host="east"), "bubblewrap", "r")
    assert store.find("key") is None
    store.keep("key", GREEN, 1.0)
    assert store.find("key") is not None


def move(gate: Gate, url: str, name: str, folder: Path) -> None:
    """From here on the gate is another host's: another cache, the same Redis."""
    gate.settings = gate.settings.model_copy(
        update=dict(Settings(cache=folder / name, home=folder / name, broker_url=url, host=name))
    )


def test_another_host_certifies_by_a_green_run_without_running_the_check(
    gate: Gate, redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORGEPOOL_FLEET_KEY", "k" * 32)
    entry = gate.entry("one", {"b": "2\n"})
    seen = []
    for host in ("east", "west"):
        move(gate, redis_url, host, tmp_path)
        request = gate.request(entry, check("! grep -q bad b"))
        found = gate.examine(request)
        (certificate,) = found.certificates
        seen.append((found.verdict, certificate.reused, certificate.host, len(list(gate.settings.home.rglob("*.log")))))
    assert seen == [("green", False, "east", 2), ("green", True, "east", 0)]
    assert gate.land(gate.landing(request, found)).outcome == "landed"


def test_a_host_with_fewer_programs_is_held_to_its_own_run_of_the_target(
    gate: Gate, redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a tool is missing, tests are left out: on the target as well, so the entry is not at fault."""
    monkeypatch.setenv("FORGEPOOL_FLEET_KEY", "k" * 32)
    tool = 'n=7; if test -e "$(git rev-parse --git-common-dir)/tool"; then n=9; fi; echo "== $n passed in 0.1s =="; '
    tool += "! grep -q bad b"
    move(gate, redis_url, "east", tmp_path)
    (gate.mirror.path / "tool").touch()
    first = gate.examine(gate.request(gate.entry("one", {"b": "2\n"}), check(tool)))
    assert [one.tests for one in first.certificates] == [9], first
    move(gate, redis_url, "west", tmp_path)
    found = gate.examine(gate.request(gate.entry("two", {"c": "2\n"}), check(tool)))
    assert (found.verdict, found.findings) == ("green", ())
    assert (found.certificates[0].tests, found.certificates[0].host) == (7, "west")
