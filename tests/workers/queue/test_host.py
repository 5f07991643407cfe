"""A host's worker is present while it lives, restarts when it is killed, and leaves nothing behind."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from servers import RedisServer

from forgepool.workers.queue.broker import PROTOCOL, Redis, connect
from forgepool.workers.queue.leases import Present, present
from forgepool.workers.sandbox import tree


def until(what: Callable[[], bool], within_s: float = 30.0) -> None:
    give_up = time.monotonic() + within_s
    while not what():
        assert time.monotonic() < give_up, "it did not come about"
        time.sleep(0.02)


def test_a_killed_worker_comes_again_and_a_stopped_host_leaves_nothing(
    redis: Redis, redis_url: str, tmp_path: Path
) -> None:
    host = subprocess.Popen(
        [
            *(sys.executable, "-m", "forgepool.orchestrator.cli", "worker", "--quiet", "--queues", "orders,checks"),
            *(
                "--concurrency",
                "1",
                "--label",
                "gpu",
                "--sandbox",
                "off",
                "--broker",
                redis_url,
                "--log",
                str(tmp_path / "worker.log"),
            ),
        ],
        env={
            **os.environ,
            "FORGEPOOL_HOME": str(tmp_path / "home"),
            "FORGEPOOL_CACHE": str(tmp_path / "cache"),
            "FORGEPOOL_HOST": "here",
        },
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        until(lambda: len(present(redis)) == 2)
        of_checks, of_orders = present(redis)
        one = Present(host="here", pid=host.pid, queues=("orders",), concurrency=1, since=of_orders.since)
        assert of_orders == one.model_copy(update={"protocol": PROTOCOL, "facts": of_orders.facts})
        assert (of_checks.queues, of_checks.concurrency) == (("checks",), 2), "checks wait for no order"
        assert {"label gpu", "sandbox off"} <= set(of_orders.facts.can or ())
        until(lambda: len(tree.children(host.pid)) == 2)
        worker, other = tree.children(host.pid)
        os.kill(worker, signal.SIGKILL)
        until(lambda: len(set(tree.children(host.pid)) - {worker, other}) == 1)
        below = tree.descendants(host.pid)
        host.send_signal(signal.SIGTERM)
        assert host.wait(timeout=30) == 0
        assert present(redis) == ()
        assert not [one for one in below if tree.alive(one)]
    finally:
        if host.poll() is None:
            tree.kill_tree([*tree.descendants(host.pid), host.pid])
            host.wait()


def test_a_host_that_is_stopped_while_it_starts_leaves_nothing(redis_url: str, tmp_path: Path) -> None:
    """Stopped as soon as its first temporary folder is there, which it may still fill."""
    places = tmp_path / "t"
    places.mkdir()
    variables = {"FORGEPOOL_HOME": str(tmp_path / "home"), "FORGEPOOL_CACHE": str(tmp_path / "cache")}
    host = subprocess.Popen(
        [
            *(sys.executable, "-m", "forgepool.orchestrator.cli", "worker", "--quiet", "--queues", "orders"),
            *("--broker", redis_url, "--log", str(tmp_path / "worker.log")),
        ],
        env={**os.environ, **variables, "TMPDIR": str(places)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        until(lambda: any(places.glob("fpool-*")))
        host.send_signal(signal.SIGTERM)
        host.wait(timeout=30)
        assert list(places.iterdir()) == []
    finally:
        if host.poll() is None:
            tree.kill_tree([*tree.descendants(host.pid), host.pid])
            host.wait()


def test_a_host_that_ends_by_a_bug_or_a_refusal_leaves_nothing_either(
    start_redis: Callable[..., RedisServer], tmp_path: Path
) -> None:
    """Here Redis does not let it announce its presence."""
    server = start_redis()
    client = connect(server.url)
    client.acl_setuser("guest", enabled=True, passwords=["+pw"], keys=["*"], channels=["*"], commands=["+@all", "-set"])
    places = tmp_path / "t"
    places.mkdir()
    host = subprocess.Popen(
        [
            *(sys.executable, "-m", "forgepool.orchestrator.cli", "worker", "--quiet", "--concurrency", "1"),
            *("--broker", f"unix://guest:pw@{server.url.removeprefix('unix://')}", "--log", str(tmp_path / "log")),
        ],
        env={
            **os.environ,
            "FORGEPOOL_HOME": str(tmp_path / "home"),
            "FORGEPOOL_CACHE": str(tmp_path / "cache"),
            "TMPDIR": str(places),
        },
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        _, said = host.communicate(timeout=30)
    finally:
        if host.poll() is None:
            tree.kill_tree([*tree.descendants(host.pid), host.pid])
            host.wait()
    client.close()
    assert host.returncode == 3 and said.count("\n") == 1, said
    assert list(places.iterdir()) == []


_CANNOT_START = """
import os, sys
from celery.signals import worker_process_init

def die(**_):
    print("no room for another process", file=sys.stderr, flush=True)
    os._exit(7)

worker_process_init.connect(die, weak=False)
"""


def test_a_worker_whose_processes_cannot_start_says_their_last_words_and_ends(redis_url: str, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(_CANNOT_START)
    host = subprocess.run(
        [
            *(sys.executable, "-m", "forgepool.orchestrator.cli", "worker", "--quiet", "--queues", "orders"),
            *("--concurrency", "2", "--broker", redis_url, "--log", str(tmp_path / "worker.log")),
        ],
        env={
            **os.environ,
            "FORGEPOOL_HOME": str(tmp_path / "home"),
            "FORGEPOOL_CACHE": str(tmp_path / "cache"),
            "FORGEPOOL_HOST": "here",
            "PYTHONPATH": str(tmp_path),
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert host.returncode == 3
    assert (
        "forgepool: the processes for orders died 5 times within a minute: no room for another process" in host.stderr
    )
    assert 5 <= (tmp_path / "worker.log").read_text().count("no room") < 50


def test_a_host_with_a_wrong_label_or_without_redis_says_what_would_be_right(redis_url: str) -> None:
    refused = subprocess.run(
        [sys.executable, "-m", "forgepool.orchestrator.cli", "worker", "--label", "a b", "--broker", redis_url],
        capture_output=True,
        text=True,
        check=False,
    )
    assert refused.returncode == 2 and refused.stderr.count("\n") == 1
    assert "'a b' is no label; use letters, digits" in refused.stderr
