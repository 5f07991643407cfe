"""A notification is signed, is tried three times at most, and never delays or fails the run."""

import hashlib
import hmac
import json
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from people import Person, person_in
from plans import answered, begun, course, follow, sent, task
from pydantic import SecretStr

from forgepool.orchestrator.journal import events as e
from forgepool.orchestrator.journal.store import Recorded
from forgepool.orchestrator.launch.notify import Notifier, NotifyWrong, describe, open_notifier
from forgepool.orchestrator.plan.budget import Budget
from forgepool.workers.schema.orders import Spent
from forgepool.workers.schema.settings import Settings

_KEY = "a key of the webhook"
_PLAN = """\
version: 1
name: p
checks: {there: test -f a.txt}
tasks:
  - {id: one, files: [one.txt], agent: {command: "echo 1 > one.txt"}}
  - {id: bad, files: [bad.txt], attempts: 1, agent: {command: "exit 7"}}
"""


@contextmanager
def webhook(*statuses: int) -> Iterator[tuple[str, list[tuple[dict[str, str], bytes]]]]:
    """Yield the address of a server that answers with these statuses in turn, then 200, and what it has got."""
    got: list[tuple[dict[str, str], bytes]] = []
    left = list(statuses)

    class Hook(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            got.append((dict(self.headers), self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(left.pop(0) if left else 200)
            self.send_header("Location", "/elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Hook)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/hook", got
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture
def ada(redis_program: str) -> Iterator[Person]:
    folder = Path(tempfile.mkdtemp(prefix="fp-"))
    made = person_in(folder, {"a.txt": "a\n"})
    (made.folder / "plan.yaml").write_text(_PLAN)
    yield made
    shutil.rmtree(folder)


@pytest.mark.slow
def test_the_end_of_a_run_is_posted_with_its_signature(ada: Person) -> None:
    with webhook() as (url, got):
        ran = ada.forgepool("run", "plan.yaml", "--workers", "1", "--notify", url, FORGEPOOL_NOTIFY_KEY=_KEY)
    assert ran.status == 1, ran.out + ran.err
    (headers, body) = got[-1]
    signed = hmac.new(_KEY.encode(), headers["Forgepool-Timestamp"].encode() + b"." + body, hashlib.sha256)
    assert headers["Forgepool-Signature"] == f"sha256={signed.hexdigest()}"
    told = json.loads(body)
    assert (told["kind"], told["verdict"]) == ("forgepool.end", "1 of 2 tasks landed on forgepool/p, 1 did not land")
    assert told["wanted"][0]["command"] == f"forgepool resume {told['run']} --plan FILE"
    assert (
        "bad: Failed after 1 attempt: the command ended with status 7; its command does the same again" in told["text"]
    )


@pytest.mark.slow
def test_the_persons_command_gets_it_on_standard_input_and_its_failure_is_one_sentence(ada: Person) -> None:
    told = ada.folder.parent / "told.json"
    ran = ada.forgepool("run", "plan.yaml", "--workers", "1", "--notify", f"cat > {told}; echo no >&2; exit 4")
    assert ran.status == 1, "the run ends as it would have"
    assert json.loads(told.read_text())["kind"] == "forgepool.end"
    assert "forgepool: a notification could not be sent: the command exited with 4: no\n" in ran.err


@pytest.mark.parametrize("url", ["ftp://example.org/x", "https://", "file:///etc/passwd"])
def test_an_address_that_is_none_is_refused_before_the_run(ada: Person, url: str) -> None:
    ran = ada.forgepool("run", "plan.yaml", "--notify", url)
    assert (ran.status, ran.err.count("\n")) == (2, 1) and "give one of http:// or https://" in ran.err
    assert not (ada.folder.parent / "home" / "runs").exists()


def _notifier(where: str, warned: list[str], **budget: Any) -> Notifier:
    of = course(task("a"), task("b"), budget=Budget(**budget))
    return Notifier(where, None, of, warned.append)


def _end(notifier: Notifier) -> None:
    notifier.tell_end(begun(notifier.course))


@pytest.mark.parametrize(
    ("statuses", "tries", "said"),
    [
        ((), 1, ""),
        ((500, 503), 3, ""),
        ((500, 500, 500), 3, "answers with status 500"),
        ((404,), 1, "answers with status 404"),
        ((302,), 1, "answers with status 302"),
    ],
)
def test_a_webhook_is_tried_again_only_where_that_may_help(statuses: tuple[int, ...], tries: int, said: str) -> None:
    warned: list[str] = []
    with webhook(*statuses) as (url, got):
        _end(_notifier(url, warned))
    assert len(got) == tries, "a redirect is not followed, and a refusal is final"
    assert "Forgepool-Signature" not in got[0][0], "there is no key"
    assert (warned == []) if not said else (len(warned) == 1 and said in warned[0])


def _kinds(got: list[tuple[dict[str, str], bytes]]) -> list[str]:
    return [json.loads(body)["kind"] for _, body in got]


def _listener(notifier: Notifier) -> Callable[..., None]:
    state = begun(notifier.course)
    notifier.listen(state, [])

    def listen(*events: e.Event) -> None:
        follow(state, *events)
        notifier._looked_at = float("-inf")
        notifier.listen(state, [Recorded(state.number, 1.0, one) for one in events])

    return listen


def test_several_questions_within_a_minute_are_one_notification() -> None:
    with webhook() as (url, got):
        notifier = _notifier(url, [])
        listen = _listener(notifier)
        for name in ("a", "b"):
            listen(sent(name), answered(name, 1, "needs_human"), e.TaskParked(task=name, question="why?"))
        notifier._sent_at -= 61
        listen()
        listen()
        _end(notifier)
    assert sorted(_kinds(got)) == ["forgepool.attention", "forgepool.attention", "forgepool.end"]
    told = [{one["about"] for one in json.loads(body)["wanted"]} for _, body in got if b"attention" in body]
    assert sorted(told, key=len) == [{"a"}, {"a", "b"}], "what came in between is in the next"


@pytest.mark.parametrize(("cost", "told"), [(7.9, False), (8.0, True)])
def test_four_fifths_of_the_budget_are_told_once(cost: float, told: bool) -> None:
    with webhook() as (url, got):
        notifier = _notifier(url, [], usd=10.0)
        listen = _listener(notifier)
        listen(sent("a"), answered("a", 1, "no_change", spent=Spent(cost_usd=cost, turns=1)))
        listen()
        _end(notifier)
    assert ("forgepool.budget" in _kinds(got)) == told and _kinds(got).count("forgepool.budget") == int(told)


def test_quiet_hours_end_with_one_notification_of_all_that_still_needs_a_person() -> None:
    hours = [23]
    with webhook() as (url, got):
        made = open_notifier(Settings(notify=SecretStr(url), notify_quiet="22-7"), course(task("a"), task("b")), print)
        assert made is not None and made.quiet == {22, 23, 0, 1, 2, 3, 4, 5, 6}
        made.hour = lambda: hours[0]
        listen = _listener(made)
        for name in ("a", "b"):
            listen(sent(name), answered(name, 1, "needs_human"), e.TaskParked(task=name, question="why?"))
        hours[0] = 7
        listen()
        listen()
        _end(made)
    assert sorted(_kinds(got)) == ["forgepool.attention", "forgepool.end"]
    (told,) = [json.loads(body) for _, body in got if b"forgepool.attention" in body]
    assert {one["about"] for one in told["wanted"]} == {"a", "b"}
    with pytest.raises(NotifyWrong, match="give one such as 22-7"):
        open_notifier(Settings(notify=SecretStr(url), notify_quiet="at night"), course(task("a")), print)
    for whole_day in ("7-7", "0-0", "24-24", "0-24", "24-0"):
        with pytest.raises(NotifyWrong, match="is no stretch of hours"):
            open_notifier(Settings(notify=SecretStr(url), notify_quiet=whole_day), course(task("a")), print)


def test_a_hostile_text_is_neither_markup_of_a_chat_nor_a_terminals() -> None:
    hostile = "\x1b[31m<!channel>\x1b[0m <http://evil|click> a & b \x07"
    with webhook() as (url, got):
        notifier = _notifier(url, [])
        _listener(notifier)(sent("a"), answered("a", 1, "needs_human"), e.TaskParked(task="a", question=hostile))
        _end(notifier)
    told = json.loads(next(body for _, body in got if b"forgepool.attention" in body))
    assert "&lt;!channel&gt; &lt;http://evil|click&gt; a &amp; b" in told["text"] and "<" not in told["text"]
    why = told["wanted"][0]["why"]
    assert "<!channel> <http://evil|click> a & b" in why and why.isprintable()


def test_the_end_of_a_run_is_told_with_the_reason_of_its_stop_and_the_command() -> None:
    of = course(task("a"), task("b"))
    told = describe("end", of, begun(of, e.RunPaused(why="the merge queue is silent")))
    assert str(told["text"]).endswith(
        "the run: It was stopped with 2 tasks to go: the merge queue is silent: forgepool resume r-1"
    )


def test_the_address_of_a_webhook_is_a_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORGEPOOL_NOTIFY", "https://hooks.example.org/T0/secret")
    settings = Settings()
    assert "secret" not in repr(settings).replace("SecretStr", "")
    notifier = open_notifier(settings, course(task("a")), print)
    assert notifier is not None and notifier.where == "https://hooks.example.org/T0/secret"
    assert "T0" not in repr(notifier)
