"""The memory of checks is bounded, replaceable and out of reach of commands; hosts with a key share the green of it."""

import os
import time
from pathlib import Path

import pytest
from gates import Gate, check

from forgepool.orchestrator.run.transport import Link
from forgepool.supervisor.checks import store as stores
from forgepool.supervisor.checks.results.evidence import RunEvidence
from forgepool.supervisor.checks.results.judging import Ran
from forgepool.supervisor.checks.store import KEPT_S, MOST_KEPT, Store, StoredResult, open_store
from forgepool.workers.queue.broker import Redis
from forgepool.workers.queue.replies import MessageRefused
from forgepool.workers.queue.signing import sign
from forgepool.workers.schema.settings import Settings

RAN = Ran(how="exit", status=0, evidence=RunEvidence(tests=3))


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(folder=tmp_path / "verdicts")


def files(store: Store) -> list[str]:
    assert store.folder is not None
    return sorted(path.name for path in store.folder.iterdir())


def test_what_was_said_last_is_remembered_under_its_key_alone(store: Store) -> None:
    store.keep("one", Ran(how="timeout"), 9.0)
    store.keep("one", RAN, 2.0)
    said = store.find("one")
    assert said is not None and (said.ran, said.seconds) == (RAN, 2.0)
    assert store.find("two") is None
    assert files(store) == ["one.json"], "nothing is left beside it"


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b'{"ran": {"how": "exit"}}', b"[]"])
def test_what_cannot_be_read_is_as_if_it_were_not_there(store: Store, content: bytes) -> None:
    store.keep("one", RAN, 2.0)
    assert store.folder is not None
    (store.folder / "one.json").write_bytes(content)
    assert store.find("one") is None
    store.keep("one", RAN, 2.0)
    assert store.find("one") is not None


@pytest.mark.parametrize("late_s", [KEPT_S + 60, -3600.0])
def test_what_was_said_too_long_ago_or_tomorrow_is_not_believed(store: Store, late_s: float) -> None:
    store.keep("one", RAN, 2.0)
    assert store.folder is not None
    (store.folder / "one.json").write_text(StoredResult(ran=RAN, seconds=2.0, at=time.time() - late_s).encode())
    assert store.find("one") is None


def test_only_so_many_are_kept_and_the_oldest_go(store: Store) -> None:
    store.keep("last", RAN, 1.0)
    assert store.folder is not None
    text = (store.folder / "last.json").read_bytes()
    for number in range(MOST_KEPT):
        path = store.folder / f"{number}.json"
        path.write_bytes(text)
        os.utime(path, (time.time() - 1000 + number / 10,) * 2)
    store.keep("newest", RAN, 1.0)
    left = files(store)
    assert len(left) < MOST_KEPT and "newest.json" in left and "last.json" in left
    assert "0.json" not in left and f"{MOST_KEPT - 1}.json" in left


def test_what_is_too_old_goes_however_few_there_are(store: Store) -> None:
    store.keep("old", RAN, 1.0)
    assert store.folder is not None
    os.utime(store.folder / "old.json", (time.time() - KEPT_S - 60,) * 2)
    store.keep("new", RAN, 1.0)
    assert files(store) == ["new.json"]


def test_a_place_that_cannot_be_written_costs_the_memory_alone(tmp_path: Path) -> None:
    (tmp_path / "verdicts").write_text("a file")
    blocked = Store(folder=tmp_path / "verdicts")
    blocked.keep("one", RAN, 1.0)
    assert blocked.find("one") is None


def test_more_than_a_file_may_hold_is_not_kept(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "MOST_BYTES", 10)
    store.keep("one", RAN, 1.0)
    assert store.find("one") is None


def test_costs_are_remembered_by_definition(store: Store) -> None:
    store.keep_cost("definition", 12.5)
    assert (store.cost("definition"), store.cost("another")) == (12.5, None)


def test_where_nothing_holds_commands_nothing_is_remembered(tmp_path: Path) -> None:
    """A command that may write any file could write a verdict."""
    settings = Settings(cache=tmp_path)
    open_store(settings, "bubblewrap", "r").keep("one", RAN, 1.0)
    assert open_store(settings, "bubblewrap", "r").find("one") is not None
    assert open_store(settings, "off", "r").find("one") is None


def test_a_command_of_a_candidate_neither_sees_nor_writes_what_is_remembered(gate: Gate) -> None:
    gate.examine(gate.request(gate.entry("first", {"b": "2\n"}), check("test -e a")))
    kept = gate.settings.cache / "verdicts"
    before = {path.name: path.read_bytes() for path in kept.iterdir()}
    assert before
    tries = f"ls {kept} || cat {kept}/*.json || mkdir -p {kept} && echo x > {kept}/forged.json || rm -rf {kept}"
    forging = check(f"! ( {tries} )", "forging")
    gate.examine(gate.request(gate.entry("second", {"b": "3\n"}), forging))
    after = {path.name: path.read_bytes() for path in kept.iterdir()}
    assert before.items() <= after.items() and "forged.json" not in after


RED = Ran(how="exit", status=1)
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
    hosts.store("east").keep("key", RAN, 2.0)
    found = hosts.store("west").find("key")
    assert found is not None and (found.ran, found.seconds, found.host) == (RAN, 2.0, "east")
    assert hosts.store("west").find("another") is None
    own = hosts.store("east").find("key")
    assert own is not None and own.host == "", "its own is from its disk"
    assert 0 < int(hosts.redis.ttl(PLACE)) <= KEPT_S and hosts.told() == []


def test_a_red_run_is_kept_by_the_host_that_had_it_alone(hosts: Hosts) -> None:
    hosts.store("east").keep("key", RED, 2.0)
    assert hosts.store("east").find("key") is not None
    assert not hosts.redis.exists(PLACE) and hosts.store("west").find("key") is None


def test_without_a_key_nothing_is_shared(hosts: Hosts, monkeypatch: pytest.MonkeyPatch) -> None:
    hosts.store("east").keep("key", RAN, 2.0)
    monkeypatch.delenv("FORGEPOOL_FLEET_KEY")
    assert hosts.store("west").find("key") is None, "nor is what others share looked at"
    hosts.redis.delete(PLACE)
    hosts.store("east").keep("key", RAN, 2.0)
    assert not hosts.redis.exists(PLACE)


def result(**said: object) -> str:
    return StoredResult(**{"ran": RAN, "seconds": 1.0, "at": time.time(), "host": "east"} | said).encode()  # type: ignore[arg-type]


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
    hosts.store("east").keep("key", RAN, 2.0)
    monkeypatch.setenv("FORGEPOOL_FLEET_KEY", "o" * 32)
    assert hosts.store("west").find("key") is None
    assert "it is signed with another key" in hosts.told()[0].why


def test_a_key_of_another_kind_is_told_and_not_believed(hosts: Hosts) -> None:
    hosts.redis.lpush(PLACE, "x")
    assert hosts.store("west").find("key") is None and len(hosts.told()) == 1
    hosts.store("east").keep("key", RAN, 2.0)
    assert hosts.store("west").find("key") is not None


def test_an_old_result_that_is_written_again_is_not_believed(hosts: Hosts) -> None:
    hosts.redis.set(PLACE, sign(result(at=time.time() - KEPT_S - 60), PLACE))
    assert hosts.store("west").find("key") is None


def test_a_redis_that_is_away_costs_the_sharing_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORGEPOOL_FLEET_KEY", "k" * 32)
    url = f"unix://{tmp_path / 'none'}"
    store = open_store(Settings(cache=tmp_path, broker_url=url, host="east"), "bubblewrap", "r")
    assert store.find("key") is None
    store.keep("key", RAN, 1.0)
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
    """A host without a tool leaves tests out on the target as well, so the entry is not at fault."""
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


def test_a_target_that_crashes_here_excuses_no_missing_tests(
    gate: Gate, redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORGEPOOL_FLEET_KEY", "k" * 32)
    tool = 'if test -e "$(git rev-parse --git-common-dir)/tool"; then echo "== 9 passed in 0.1s =="; '
    tool += 'elif test -e c; then echo "== 7 passed in 0.1s =="; else exit 1; fi; ! grep -q bad b'
    move(gate, redis_url, "east", tmp_path)
    (gate.mirror.path / "tool").touch()
    gate.examine(gate.request(gate.entry("one", {"b": "2\n"}), check(tool)))
    move(gate, redis_url, "west", tmp_path)
    for name in ("two", "three"):
        found = gate.examine(gate.request(gate.entry(name, {"c": f"{name}\n"}), check(tool)))
        assert ["runs 2 fewer tests than on the target" in one.said for one in found.findings] == [True], found
