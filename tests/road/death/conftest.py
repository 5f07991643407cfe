"""A hub and a Redis that hosts share, and nothing else."""

import secrets
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from kit import Repository, make_repository, wait_until

from forgepool.workers.queue.broker import BrokerRefused, Redis, connect, ping
from forgepool.workers.sandbox.own_processes import Service, start_service
from forgepool.workers.schema.settings import whole_environment


@pytest.fixture
def hub(ground: Path) -> Repository:
    """A bare repository, known by its URL alone."""
    person = make_repository(ground / "person", {"README.md": "read me\n"})
    person.git("clone", "-q", "--bare", str(person.path), str(ground / "hub.git"))
    return Repository(path=ground / "hub.git")


@pytest.fixture
def broker(ground: Path, redis_program: str) -> Iterator[str]:
    """A Redis on a TCP port of this machine alone, behind a password."""
    with socket.socket() as asked:
        asked.bind(("127.0.0.1", 0))
        port = asked.getsockname()[1]
    password = secrets.token_hex(8)
    url = f"redis://:{password}@127.0.0.1:{port}/0"
    server = start_service(
        "redis",
        [
            redis_program,
            *("--bind", "127.0.0.1", "--port", str(port), "--requirepass", password),
            *("--save", "", "--appendonly", "no"),
        ],
        env=whole_environment(),
        log=ground / "redis.log",
    )
    wait_until(lambda: _answers(url, server), "Redis")
    yield url
    server.stop(within_s=5)


def _answers(url: str, server: Service) -> bool:
    assert server.running()
    client = connect(url)
    try:
        ping(client, url)
    except BrokerRefused:
        return False
    finally:
        client.close()
    return True


@pytest.fixture
def redis(broker: str) -> Iterator[Redis]:
    client = connect(broker)
    yield client
    client.close()
