"""A real Redis for the tests that need one. It ends with pytest, however pytest ends."""

import gc
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings as hypothesis_settings

import forgepool.supervisor  # noqa: F401  # first, or the folder of its tests would be taken for it
from forgepool.orchestrator.launch.embedded import NoRedis, redis_binary
from forgepool.workers.queue.broker import Redis, connect
from forgepool.workers.sandbox.own_processes import RARE_COLLECTION
from forgepool.workers.schema.settings import Settings

sys.path.append(str(Path(__file__).parent))

import find_helpers  # noqa: F401  # before any helper
from servers import RedisServer

# Commands of tests use this Python. A sandbox shows it to them if it is on their PATH.
os.environ["PATH"] = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)))

# Hypothesis's own deadline measures the machine, and a slow machine is no failure.
hypothesis_settings.register_profile("forgepool", deadline=None, print_blob=True)
hypothesis_settings.load_profile("forgepool")

# Thousands of modules and tests stay alive. Searching them for garbage took a tenth of the time.
gc.set_threshold(*RARE_COLLECTION)

# The longest come first, so that no process is left alone with one at the end.
_LONGEST = ("tests/road/", "tests/supervisor/gate/", "tests/orchestrator/merge_queue/", "tests/bad/")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """
    Order the tests by module, the longest first, and deal the modules out to the processes.

    xdist gives each process an equal part of the list. Processes that are done take from the ends of the others.
    """
    processes = int(getattr(config, "workerinput", {}).get("workercount", 1))

    def rank(module: str) -> int:
        return next((at for at, folder in enumerate(_LONGEST) if module.startswith(folder)), len(_LONGEST))

    modules = dict.fromkeys(item.nodeid.partition("::")[0] for item in items)
    hand = {module: at % processes for at, module in enumerate(sorted(modules, key=rank))}
    items.sort(key=lambda item: (hand[module := item.nodeid.partition("::")[0]], rank(module)))


@pytest.fixture(scope="session")
def redis_program() -> str:
    """Skip where there is no Redis, but fail in CI."""
    try:
        return redis_binary(Settings())
    except NoRedis as missing:
        if os.environ.get("CI") == "true":
            pytest.fail(str(missing))
        pytest.skip(str(missing))


@pytest.fixture(scope="session")
def shared_redis(redis_program: str) -> Iterator[RedisServer]:
    # Not pytest's own temporary folder, because a unix socket's path holds about a hundred bytes.
    folder = Path(tempfile.mkdtemp(prefix="forgepool-test-"))
    server = RedisServer(folder, redis_program)
    yield server
    server.kill()
    shutil.rmtree(folder)


@pytest.fixture
def redis_url(shared_redis: RedisServer) -> str:
    """Return the URL of an empty Redis."""
    client = connect(shared_redis.url)
    client.flushall()
    client.close()
    return shared_redis.url


@pytest.fixture
def redis(redis_url: str) -> Iterator[Redis]:
    """Yield a client of an empty Redis."""
    client = connect(redis_url)
    yield client
    client.close()


@pytest.fixture
def start_redis(redis_program: str) -> Iterator[Callable[..., RedisServer]]:
    """Return a function that starts a Redis with further options, which the test may kill."""
    started: list[RedisServer] = []

    def start(*options: str) -> RedisServer:
        folder = Path(tempfile.mkdtemp(prefix="forgepool-test-"))
        started.append(RedisServer(folder, redis_program, *options))
        return started[-1]

    yield start
    for server in started:
        server.kill()
        shutil.rmtree(server.folder)
