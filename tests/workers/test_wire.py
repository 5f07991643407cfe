"""The door to Redis: what is wrong is one sentence with the mend, and a password is never in it."""

import json
from collections.abc import Callable

import pytest
from servers import RedisServer

from workers.entry import run_order
from workers.messages import CommandAgent, WorkOrder
from workers.wire import (
    BrokerAway,
    BrokerRefused,
    connect,
    ping,
    queued,
    send,
    use_broker,
    without_password,
)

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


def test_a_message_waits_in_its_jobs_queue_as_json_or_is_not_promised(
    start_redis: Callable[..., RedisServer],
) -> None:
    """One test, since a process has one broker in its life."""
    server = start_redis()
    use_broker(server.url)
    send(run_order, ORDER, message_id=ORDER.order_id)
    client = connect(server.url)
    assert [queued(client, queue) for queue in ("orders", "checks", "landings")] == [1, 0, 0]
    (raw,) = client.lrange("orders", 0, -1)
    envelope = json.loads(raw)
    assert envelope["content-type"] == "application/json"
    assert envelope["headers"]["id"] == "r.t.1" and envelope["headers"]["task"] == "workers.entry.run_order"
    client.close()
    server.kill()
    with pytest.raises(BrokerAway):
        send(run_order, ORDER, message_id=ORDER.order_id)
