"""Only what the fleet's key has signed, for the very place where it is found, is read as a message."""

import json
import os
from pathlib import Path

import pytest
from pydantic import ValidationError

from forgepool.orchestrator.run.transport import Link
from forgepool.supervisor import entry
from forgepool.workers.order.entry import run_order
from forgepool.workers.queue import consumer
from forgepool.workers.queue.broker import Redis
from forgepool.workers.queue.replies import MessageRefused, MessageStarted, answer, read, tell
from forgepool.workers.queue.signing import NotSigned, sign, verify
from forgepool.workers.schema.orders import CommandAgent, WorkOrder, WorkResult
from forgepool.workers.schema.settings import Settings, mistake_in_settings, secret

KEY, OTHER = "k" * 32, "o" * 64
RESULT = WorkResult(order_id="r.a.1", token="t", outcome="no_change", host="beta")
ORDER = WorkOrder(
    order_id="r.a.1",
    token="t",
    run="r",
    task="a",
    attempt=1,
    hub="/none",
    target="t",
    base="b",
    title="a",
    agent=CommandAgent(run="true"),
    issued_at=1.0,
    start_by=2.0,
)


@pytest.fixture(autouse=True)
def no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FORGEPOOL_FLEET_KEY", "FORGEPOOL_FLEET_KEY_FILE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORGEPOOL_FLEET_KEY", KEY)


def with_key(monkeypatch: pytest.MonkeyPatch, key: str | None) -> None:
    if key is None:
        monkeypatch.delenv("FORGEPOOL_FLEET_KEY", raising=False)
    else:
        monkeypatch.setenv("FORGEPOOL_FLEET_KEY", key)


def test_without_a_key_a_message_is_written_and_read_as_it_is() -> None:
    assert verify(sign(RESULT.encode(), "place"), "place") == RESULT.encode() == sign(RESULT.encode(), "place")


@pytest.mark.usefixtures("key")
@pytest.mark.parametrize("text", [RESULT.encode(), "{}", "", "plain", '{"a": "\udcff\\u0000"}'])
def test_what_was_signed_is_read_at_its_place_alone(text: str) -> None:
    signed = sign(text, "place")
    assert verify(signed, "place") == text and KEY not in signed
    with pytest.raises(NotSigned):
        verify(signed, "another place")


@pytest.mark.parametrize(
    ("writer", "reader", "why"),
    [(None, KEY, "is not signed"), (OTHER, KEY, "another key"), (KEY, None, "host here has no key")],
)
def test_what_another_key_has_signed_or_none_is_refused(
    monkeypatch: pytest.MonkeyPatch, writer: str | None, reader: str | None, why: str
) -> None:
    monkeypatch.setenv("FORGEPOOL_HOST", "here")
    with_key(monkeypatch, writer)
    written = sign(RESULT.encode(), "place")
    with_key(monkeypatch, reader)
    with pytest.raises(NotSigned, match=why) as refused:
        verify(written, "place")
    assert refused.value.name("host") == "beta", "a name to be shown"


@pytest.mark.usefixtures("key")
def test_a_signed_message_that_was_changed_is_refused() -> None:
    signed = sign(RESULT.encode(), "place")
    for changed in (signed.replace("no_change", "candidate"), "0" + signed[1:], signed[:-1], signed[1:], signed * 2):
        with pytest.raises(NotSigned):
            verify(changed, "place")


@pytest.mark.parametrize("text", ["[1]", "{", "[" * 100_000, '{"host": 1}', '{"host": "\\u001b[31m"}', '{"host": ""}'])
def test_a_name_that_is_none_is_not_shown(text: str) -> None:
    assert NotSigned("why", text).name("host") == ""


@pytest.mark.parametrize("short", ["k", "k" * 31, " " * 20 + "k" * 31])
def test_a_short_key_is_refused_and_not_shown(monkeypatch: pytest.MonkeyPatch, short: str) -> None:
    monkeypatch.setenv("FORGEPOOL_FLEET_KEY", short)
    with pytest.raises(ValidationError) as wrong:
        Settings()
    sentence = mistake_in_settings(wrong.value)
    assert sentence == (
        "FORGEPOOL_FLEET_KEY is too short: a key has at least 32 characters; make one with `openssl rand -hex 32`"
    )
    assert short.strip() not in str(wrong.value).replace("fleet_key", "")


@pytest.mark.usefixtures("key")
def test_a_key_is_in_no_words_about_settings() -> None:
    assert KEY not in repr(Settings()) + str(Settings().model_dump()) + Settings().model_dump_json()


def test_a_secret_may_be_in_a_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "key").write_text(f"{KEY}\n")
    monkeypatch.setenv("FORGEPOOL_FLEET_KEY_FILE", str(tmp_path / "key"))
    monkeypatch.setenv("SOME_API_KEY_FILE", str(tmp_path / "key"))
    found = Settings().fleet_key
    assert found is not None and found.get_secret_value() == KEY == secret("SOME_API_KEY")
    monkeypatch.setenv("FORGEPOOL_FLEET_KEY", OTHER)
    found = Settings().fleet_key
    assert found is not None and found.get_secret_value() == OTHER, "the variable itself counts first"


def test_a_file_of_a_secret_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FORGEPOOL_FLEET_KEY_FILE", str(tmp_path / "none"))
    with pytest.raises(Exception, match=r"FORGEPOOL_FLEET_KEY_FILE is '.*none', which cannot be read: No such file"):
        Settings()


def test_answers_of_strangers_are_no_answers_but_told(redis: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    tell(redis, "r", MessageStarted(message_id="r.a.1", token="t", host="alpha", pid=1))
    with_key(monkeypatch, OTHER)
    answer(redis, "r", "r.a.1", RESULT)
    with_key(monkeypatch, KEY)
    answer(redis, "another", "r.a.1", RESULT)
    redis.xadd("forgepool:answers:r", redis.xrange("forgepool:answers:another")[0][1])
    answer(redis, "r", "r.a.1", RESULT)
    link = Link(client=redis, run="r", lease_ttl_s=8.0)
    *refused, accepted = link.answers(wait_s=0.01)
    assert accepted == RESULT
    assert [(one.host, one.message_id) for one in refused if isinstance(one, MessageRefused)] == [
        ("alpha", ""),
        ("beta", ""),
        ("beta", ""),
    ], "a stranger's answer makes nobody send again"


@pytest.mark.parametrize("job", [run_order, entry.check, entry.review, entry.land])
@pytest.mark.parametrize(("writer", "reader"), [(None, KEY), (OTHER, KEY), (KEY, None)])
def test_a_request_that_is_not_signed_is_not_done_and_its_run_told(
    redis: Redis,
    redis_url: str,
    monkeypatch: pytest.MonkeyPatch,
    job: "object",
    writer: str | None,
    reader: str | None,
) -> None:
    """The order is a valid one, and stale: had it been read, its lease would have been taken, and it answered."""
    monkeypatch.setattr(consumer, "_REFUSED_PAUSE_S", 0.0)
    monkeypatch.setenv("FORGEPOOL_BROKER_URL", redis_url)
    monkeypatch.setenv("FORGEPOOL_HOST", "here")
    with_key(monkeypatch, writer)
    written = sign(ORDER.encode(), job.name)  # type: ignore[attr-defined]  # celery has no types
    with_key(monkeypatch, reader)
    job(written)  # type: ignore[operator]
    notes = [text for _, text in read(redis, "r", after="0-0", wait_s=0.01)]
    note = MessageRefused.model_validate(json.loads(verify(notes[0], "forgepool:answers:r")))
    assert (note.message_id, note.host, len(notes)) == ("r.a.1", "here", 1)
    assert set(redis.scan_iter()) == {"forgepool:answers:r"}, "no lease, no mark"


@pytest.mark.usefixtures("key")
def test_a_signed_request_of_another_job_is_refused() -> None:
    with pytest.raises(NotSigned):
        verify(sign(ORDER.encode(), entry.check.name), entry.land.name)


@pytest.mark.usefixtures("key")
def test_a_task_s_command_is_lent_no_key() -> None:
    from forgepool.workers.schema.settings import inherit_environment

    assert "FORGEPOOL_FLEET_KEY" in os.environ
    assert not any(KEY in value for value in inherit_environment().values())
