"""A Redis that cannot be used is reported in one sentence, without its password, and no run begins."""

import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from premises import Premises, await_file, await_that
from servers import RedisServer

from forgepool.orchestrator.launch.embedded import redis_binary
from forgepool.workers.queue.broker import BrokerAway, connect
from forgepool.workers.schema.settings import Settings

SIMPLE = {"one": "echo 1 > one.txt"}
PASSWORD = "open-sesame"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        assert isinstance(port, int)
        return port


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield `HOST:PORT` of a Redis that requires a password."""
    port = _free_port()
    folder = tmp_path_factory.mktemp("redis")
    argv = [redis_binary(Settings()), "--port", str(port), "--bind", "127.0.0.1", "--requirepass", PASSWORD]
    server = subprocess.Popen(
        [*argv, "--save", "", "--appendonly", "no", "--dir", str(folder)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )
    client = connect(f"redis://:{PASSWORD}@127.0.0.1:{port}/0")

    def answers() -> bool:
        try:
            return bool(client.ping())
        except BrokerAway:
            return False

    try:
        await_that(answers, "Redis answers")
        client.close()
        yield f"127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait()


def _began_nothing(premises: Premises) -> bool:
    branches = premises.git("for-each-ref", "--format=%(refname)").split()
    return branches == ["refs/heads/main"] and not (premises.home / "runs").exists()


def test_run_refuses_a_redis_that_is_not_there(premises: Premises) -> None:
    where = f"127.0.0.1:{_free_port()}"
    said = premises.run(premises.plan(SIMPLE), "--broker", f"redis://:{PASSWORD}@{where}/0")
    said.is_refusal(3, f"no Redis answers at redis://***@{where}/0", "start one there, or leave out --broker")
    assert PASSWORD not in said.err
    assert _began_nothing(premises)


@pytest.mark.parametrize("user", [":wrong@", "ann:wrong@", ""])
def test_run_refuses_a_wrong_password(premises: Premises, guarded: str, user: str) -> None:
    url = f"redis://{user}{guarded}/0"
    said = premises.run(premises.plan(SIMPLE), env={"FORGEPOOL_BROKER_URL": url})
    said.is_refusal(3, guarded, "password", "FORGEPOOL_BROKER_URL")
    assert "wrong" not in said.err
    assert _began_nothing(premises)


def test_run_refuses_a_database_that_redis_does_not_have(premises: Premises, guarded: str) -> None:
    said = premises.run(premises.plan(SIMPLE), "--broker", f"redis://:{PASSWORD}@{guarded}/99")
    said.is_refusal(3, "refuses us", "DB index is out of range")
    assert PASSWORD not in said.err
    assert _began_nothing(premises)


@pytest.mark.parametrize("url", ["http://somewhere/0", "somewhere", "redis://:sesame@host:port/0", "redis://[::1/0"])
def test_run_refuses_what_is_no_broker_url(premises: Premises, url: str) -> None:
    said = premises.run(premises.plan(SIMPLE), "--broker", url)
    said.is_refusal(3, "broker URL", "is not usable", "redis://")
    assert "sesame" not in said.err
    assert _began_nothing(premises)


def test_run_refuses_a_redis_server_that_is_no_program(premises: Premises) -> None:
    said = premises.run(premises.plan(SIMPLE), env={"FORGEPOOL_REDIS_SERVER": "/nonexistent/redis"})
    said.is_refusal(3, "FORGEPOOL_REDIS_SERVER names /nonexistent/redis", "not a program")
    assert _began_nothing(premises)


def test_run_refuses_a_redis_server_that_does_not_start(premises: Premises) -> None:
    said = premises.run(premises.plan(SIMPLE), env={"FORGEPOOL_REDIS_SERVER": "/bin/false"})
    assert said.status == 3
    said.is_sentence("the private Redis did not start", "redis.log says why")


def test_worker_refuses_to_work_without_a_broker(premises: Premises) -> None:
    said = premises.forgepool("worker")
    said.is_refusal(3, "no shared Redis is named", "--broker", "FORGEPOOL_BROKER_URL")


def test_worker_refuses_a_wrong_password(premises: Premises, guarded: str) -> None:
    said = premises.forgepool("worker", "--broker", f"redis://:wrong@{guarded}/0")
    said.is_refusal(3, "refuses the password")


@pytest.mark.parametrize("queues", ["orders,ordres", ","])
def test_worker_refuses_a_queue_there_is_not(premises: Premises, queues: str) -> None:
    said = premises.forgepool("worker", "--queues", queues, "--broker", "redis://127.0.0.1:1/0")
    said.is_refusal(2, "queues are: landings, checks, reviews, orders", "ordres" if "ordres" in queues else "queue")


def test_doctor_says_that_a_broker_refuses_the_password(premises: Premises, guarded: str, tmp_path: Path) -> None:
    said = premises.forgepool("doctor", "--broker", f"redis://:wrong@{guarded}/0")
    assert said.status == 3
    (line,) = [line for line in said.out.splitlines() if "shared Redis" in line]
    assert line.startswith("bad")
    assert "refuses the password" in line


def test_a_redis_that_takes_nothing_for_a_while_ends_no_run_and_the_answer_is_json_alone(
    premises: Premises, start_redis: Callable[..., RedisServer]
) -> None:
    """Its memory is full while an order is worked on. The run and the worker wait, and their logs say so."""
    server = start_redis()
    redis = connect(server.url)
    premises = premises.unconfined()
    begun, go = premises.folder / "begun", premises.folder / "go"
    plan = premises.plan({"one": f"touch {begun}; {await_file(go)}; echo 1 > one.txt", "two": "echo 2 > two.txt"})
    shared = {"FORGEPOOL_BROKER_URL": server.url}
    with (
        premises.going("worker", "--concurrency", "1", env=shared) as worker,
        premises.going("run", plan, "--repo", premises.repo, "--json", env=shared) as going,
    ):
        await_that(begun.exists, "an agent works")
        redis.config_set("maxmemory", "1")
        log = premises.home / "runs" / premises.run_name() / "logs" / "orchestrator.log"
        go.touch()
        await_that(lambda: log.is_file() and "redis.away" in log.read_text(), "the run misses Redis")
        redis.config_set("maxmemory", "0")
        said = going.ended()
        assert worker.process.poll() is None
    redis.close()
    assert said.status == 0, said
    assert said.outcomes() == {"one": "landed", "two": "landed"}
    assert "redis.away" not in said.err
