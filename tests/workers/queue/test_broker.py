"""The module that connects to Redis: a problem is one sentence with its remedy, and never shows a password."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from redis.exceptions import ResponseError
from servers import RedisServer

from forgepool.workers.queue.broker import (
    BrokerAway,
    BrokerRefused,
    Redis,
    address_of,
    connect,
    count_waiting,
    ping,
    without_password,
)
from forgepool.workers.schema.orders import CommandAgent, WorkOrder

# A process uses only one broker.
_SENDS = """
import sys
from forgepool.workers.order.entry import run_order
from forgepool.workers.schema.orders import WorkOrder
from forgepool.workers.queue.broker import BrokerAway, send, use_broker

use_broker(sys.argv[1])
try:
    send(run_order, WorkOrder.model_validate_json(sys.argv[2]), message_id="r.t.1")
except BrokerAway:
    print("away")
"""
ORDER = WorkOrder(
    order_id="r.t.1",
    token="t",
    run="r",
    task="t",
    attempt=1,
    hub="/h",
    target="m",
    base="c",
    title="t",
    agent=CommandAgent(run="true"),
    issued_at=1.0,
    start_by=2.0,
)


def test_a_wrong_password_is_told_with_the_mend_and_without_itself(start_redis: Callable[..., RedisServer]) -> None:
    server = start_redis("--requirepass", "right-one")
    folder = server.url.removeprefix("unix://")
    for url in (f"unix://:wrong-one@{folder}", f"unix://{folder}"):
        with pytest.raises(BrokerRefused, match=r"refuses the password; put the right one into FORGEPOOL_") as caught:
            ping(connect(url), url)
        assert "wrong-one" not in str(caught.value) and "\n" not in str(caught.value)
    right = f"unix://:right-one@{folder}"
    ping(connect(right), right)


def test_a_redis_that_is_not_there_is_told_with_the_mend() -> None:
    url = "redis://:secret@127.0.0.1:1/0"
    with pytest.raises(
        BrokerRefused, match=r"no Redis answers at redis://\*\*\*@127\.0\.0\.1:1/0; start one"
    ) as caught:
        ping(connect(url), url)
    assert "secret" not in str(caught.value)


def test_a_url_of_no_known_form_is_refused_at_once() -> None:
    with pytest.raises(BrokerRefused, match="is not usable") as caught:
        connect("http://user:secret@host/0")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://host:6379/0", "redis://host:6379/0"),
        ("redis://:secret@host:6379/0", "redis://***@host:6379/0"),
        ("rediss://user:se@cret@host/0", "rediss://***@host/0"),
        ("unix:///tmp/redis.sock", "unix:///tmp/redis.sock"),
        ("unix://:secret@/tmp/redis.sock", "unix://***@/tmp/redis.sock"),
    ],
)
def test_a_url_is_shown_without_its_password(url: str, shown: str) -> None:
    assert without_password(url) == shown


def _send_apart(url: str) -> "subprocess.CompletedProcess[str]":
    words = [sys.executable, "-c", _SENDS, url, ORDER.encode()]
    return subprocess.run(words, capture_output=True, text=True, check=True)


def test_a_message_waits_in_its_jobs_queue_as_json_or_is_not_promised(
    start_redis: Callable[..., RedisServer],
) -> None:
    server = start_redis()
    assert _send_apart(server.url).stdout == ""
    client = connect(server.url)
    assert [count_waiting(client, queue) for queue in ("orders", "checks", "landings")] == [1, 0, 0]
    (raw,) = client.lrange("orders", 0, -1)
    envelope = json.loads(raw)
    assert envelope["content-type"] == "application/json"
    assert envelope["headers"]["id"] == "r.t.1" and envelope["headers"]["task"] == "workers.entry.run_order"
    client.close()
    server.kill()
    assert _send_apart(server.url).stdout == "away\n"


def test_what_another_program_put_under_a_queues_key_is_set_aside(start_redis: Callable[..., RedisServer]) -> None:
    server = start_redis()
    redis = connect(server.url)
    redis.set("orders", "theirs")
    redis.set("_kombu.binding.orders", "theirs, too")
    sent = _send_apart(server.url)
    assert "redis.set_aside" in sent.stdout + sent.stderr
    assert count_waiting(redis, "orders") == 1
    redis.set("orders.h", "theirs, once more")
    assert count_waiting(redis, "orders.h") == 0
    assert redis.delete(*redis.scan_iter("forgepool:aside:orders.h:*")) == 1
    assert sorted(redis.get(key) for key in redis.scan_iter("forgepool:aside:*")) == ["theirs", "theirs, too"]
    redis.close()


_SERVES = """
import sys
from forgepool.workers.order.entry import run_order
from forgepool.workers.queue.broker import serve_queues, use_broker
from forgepool.workers.schema.logs import log_to_stderr
log_to_stderr()
use_broker(sys.argv[1])
for text, queue in (("of all", "orders"), ("of one", "orders.h")):
    run_order.apply_async((text,), task_id=text, queue=queue)
serve_queues(["orders"], 1, name="w@h", host="h", events=False, at_process_end=lambda: None)
"""


@pytest.mark.soak
def test_a_host_takes_what_waits_for_it_alone_before_what_waits_for_any(redis_url: str, tmp_path: Path) -> None:
    """Neither is a message, so each is told in the log, in the order in which they are taken."""
    places = {"FORGEPOOL_HOME": str(tmp_path), "FORGEPOOL_CACHE": str(tmp_path), "FORGEPOOL_BROKER_URL": redis_url}
    worker = subprocess.Popen(
        [sys.executable, "-c", _SERVES, redis_url], stderr=subprocess.PIPE, text=True, env=os.environ | places
    )
    assert worker.stderr is not None
    told = (line for line in worker.stderr if "message.unreadable" in line)
    try:
        assert ["of one" in next(told, ""), "of all" in next(told, "")] == [True, True]
    finally:
        worker.terminate()
        worker.communicate()


def full_memory(redis: Redis) -> None:
    redis.config_set("maxmemory", "1")


def unwritable_disk(redis: Redis) -> None:
    """Make Redis fail to write a snapshot, because its folder does not exist."""
    redis.config_set("save", "3600 1")
    redis.config_set("dbfilename", "x")
    redis.set("k", "before")
    folder = Path(redis.config_get("dir")["dir"] or "")
    (folder / "x").mkdir()
    redis.bgsave()
    until = time.monotonic() + 15
    while redis.info("persistence")["rdb_last_bgsave_status"] == "ok":
        assert time.monotonic() < until
        time.sleep(0.01)


def replica(redis: Redis) -> None:
    redis.replicaof("127.0.0.1", "1")


@pytest.mark.parametrize("make_unwilling", [full_memory, unwritable_disk, replica])
def test_a_redis_that_takes_nothing_for_now_counts_as_away(
    start_redis: Callable[..., RedisServer], make_unwilling: Callable[[Redis], None]
) -> None:
    """This holds for a plain command, a transaction, a script, and Celery."""
    server = start_redis()
    redis = connect(server.url)
    make_unwilling(redis)
    with pytest.raises(BrokerAway):
        redis.set("k", "v")
    with pytest.raises(BrokerAway), redis.pipeline(transaction=True) as both:
        both.set("k", "v")
        both.execute()
    with pytest.raises(BrokerAway):
        redis.eval("return redis.call('set', KEYS[1], 'v')", 1, "k")
    redis.close()
    sends = subprocess.run(
        [sys.executable, "-c", _SENDS, server.url, ORDER.encode()], capture_output=True, text=True, timeout=60
    )
    assert (sends.returncode, sends.stdout) == (0, "away\n"), sends.stderr


def test_a_command_that_is_wrong_is_not_taken_for_a_redis_that_is_away(redis: Redis) -> None:
    redis.set("k", "text")
    with pytest.raises(ResponseError) as caught:
        redis.lpush("k", "v")
    assert not isinstance(caught.value, BrokerAway)


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("", ""),
        ("redis://host:6379/0", "redis://host:6379/0"),
        ("rediss://me:p@ss?w rd@host/1?ssl_ca_certs=/a", "rediss://host/1"),
        ("redis://:p ss@host", "redis://host"),
        ("redis+socket:///run/redis.sock", "redis+socket:///run/redis.sock"),
    ],
)
def test_an_address_has_no_secrets(url: str, address: str) -> None:
    assert address_of(url) == address
