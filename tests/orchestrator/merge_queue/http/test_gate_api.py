"""The API over a real socket: who may ask, what may be sent, and that a request is handled as any other."""

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kept_gate import TOKEN, Caller, KeptGate

from forgepool.orchestrator.decisions.plan_index import gate_course, gate_plan
from forgepool.orchestrator.journal import inbox
from forgepool.orchestrator.merge_queue.http_desk import Desk
from forgepool.orchestrator.merge_queue.http_server import (
    MOST_BYTES,
    Address,
    address,
    api_beside,
    api_token,
    bind_socket,
    serving,
)
from forgepool.orchestrator.merge_queue.submit import Wish, push_submission
from forgepool.orchestrator.run.hub import CannotRun
from forgepool.orchestrator.run.run_folder import KeptRun, RunOptions
from forgepool.workers.schema.settings import Settings
from forgepool.worktrees.git.git import CommitId


@pytest.fixture
def api(gate: KeptGate) -> Iterator[Caller]:
    listening = bind_socket(Address(host="127.0.0.1", port=0))
    desk = Desk(view=gate.view(), mirror=gate.post.hub.mirror, target="main")
    with serving(desk, TOKEN, listening):
        yield Caller(f"http://127.0.0.1:{listening.getsockname()[1]}")


def said(answer: tuple[int, dict[str, Any]], status: int) -> str:
    assert answer[0] == status, answer
    assert set(answer[1]) == {"said"} or status == 202, answer
    sentence = answer[1]["said"]
    assert "\n" not in sentence and "Error" not in sentence
    return str(sentence)


def test_without_the_token_nothing_is_told_and_nothing_done(api: Caller, gate: KeptGate) -> None:
    """This includes addresses that do not exist. Only `health` answers without a token."""
    for method, path in (("GET", "/entries"), ("GET", "/entries/x"), ("POST", "/pause"), ("DELETE", "/entries/x")):
        assert "a token is required" in said(api.ask(method, path, token=None), 401)
        assert "is wrong" in said(api.ask(method, path, token=TOKEN + "x"), 401)
        assert "is wrong" in said(api.ask(method, path, token="é"), 401)
    assert "a token is required" in said(api.ask("POST", "/entries", {"branch": "one"}, token=None), 401)
    assert gate.refs() == {} and list(inbox.waiting(gate.folder)) == []
    assert said(api.ask("GET", "/health", token=None), 200) == "the queue's API is up"


def test_a_branch_enters_by_a_push_to_the_hub(api: Caller, gate: KeptGate) -> None:
    """It is shown as submitted until the queue has read it, and then with the queue's state."""
    wish = {"branch": "team/x", "class": "hotfix", "by": "grace", "agent": "coder", "family": ["red"]}
    status, answer = api.ask("POST", "/entries", wish)
    assert (status, answer["name"], answer["commit"]) == (202, "team/x", gate.head("team/x"))
    assert list(gate.refs()) == ["refs/forgepool/for/main/team--x"]
    assert api.ask("GET", "/entries/team/x")[1]["state"] == "submitted"
    gate.turn()
    status, entry = api.ask("GET", "/entries/team%2Fx")
    assert (status, entry["state"], entry["class"], entry["by"]) == (200, "waits", "hotfix", "grace")
    assert entry["explained"].startswith("'team/x' (") and entry["reasons"] == []
    author = gate.state.submitted["team--x"].author
    assert (author.agent, author.families) == ("coder", ("red",))


def test_a_commit_enters_where_the_hub_has_it_and_only_there(api: Caller, gate: KeptGate) -> None:
    """A commit that only this host's mirror has is refused."""
    api.ask("POST", "/entries", {"commit": gate.head("one"), "name": "first"})
    gate.turn()
    assert api.ask("POST", "/entries", {"commit": gate.head("two"), "needs": ["first"]})[0] == 202
    gate.turn()
    assert gate.state.submitted[gate.head("two")[:12]].needs == ("first",)
    mirror = gate.post.hub.mirror.git
    stray = mirror.text(
        "-c", "user.name=x", "-c", "user.email=x", "commit-tree", "-m", "x", f"{gate.head('one')}^{{tree}}"
    )
    assert "is not on any branch or tag of the hub" in said(api.ask("POST", "/entries", {"commit": stray}), 422)
    assert "not a commit id" in said(api.ask("POST", "/entries", {"commit": "HEAD"}), 422)
    for branch in ("three", "*", "../main", "-x"):
        assert f"the hub has no branch '{branch}'" in said(api.ask("POST", "/entries", {"branch": branch}), 422)


def test_what_the_gate_would_refuse_is_refused_at_once(api: Caller, gate: KeptGate) -> None:
    assert "main has" in said(api.ask("POST", "/entries", {"branch": "main"}), 409)
    assert "needs 'two'" in said(api.ask("POST", "/entries", {"branch": "one", "needs": ["two"]}), 409)
    assert "there is no class 'urgent'" in said(api.ask("POST", "/entries", {"branch": "one", "class": "urgent"}), 422)
    assert gate.refs() == {}
    assert api.ask("POST", "/entries", {"branch": "one"})[0] == 202


BAD_BODIES: list[tuple[Any, str]] = [
    (b"{", "the body is not JSON"),
    (b"[]", "wrong"),
    (b"\xff", "not JSON"),
    (b"", "either 'branch' or 'commit'"),
    ({"branch": "one", "nam": "x"}, "unknown key 'nam'; keys are: branch, commit, name, class, needs"),
    ({"branch": "one", "klass": "low"}, "unknown key 'klass'"),
    ({"branch": "one", "commit": "a"}, "either 'branch' or 'commit'"),
    ({"branch": 1}, "'branch' is wrong: input should be a valid string"),
    ({"branch": "one", "by": "x\nClass: hotfix"}, "'by' is wrong: it has unprintable characters"),
    ({"branch": "one", "by": "x" * 201}, "'by' is wrong"),
    ({"branch": "one", "needs": ["x"] * 51}, "'needs' is wrong"),
]


def test_a_body_that_cannot_be_read_is_answered_with_why(api: Caller, gate: KeptGate) -> None:
    for body, why in BAD_BODIES:
        assert why in said(api.ask("POST", "/entries", body), 422), body
    assert gate.refs() == {}


def test_a_body_without_end_is_not_read(api: Caller) -> None:
    """This holds with and without a stated length."""
    assert "longer than" in said(api.ask("POST", "/pause", b" " * (MOST_BYTES + 1)), 413)
    assert api.ask("POST", "/pause", b" " * (MOST_BYTES - 2) + b"{}")[0] == 202
    host, port = api.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as line:
        head = f"POST /pause HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\nTransfer-Encoding: chunked\r\n\r\n"
        line.sendall(head.encode() + b"10001\r\n" + b" " * 0x10001 + b"\r\n")
        assert line.recv(64).startswith(b"HTTP/1.1 413")


def test_words_are_left_for_the_gate_and_refused_where_they_change_nothing(api: Caller, gate: KeptGate) -> None:
    api.ask("POST", "/entries", {"branch": "one"})
    gate.turn()
    assert said(api.ask("POST", "/entries/one/hold", {"by": "grace"}), 202) == "the queue is asked to hold 'one'"
    gate.turn()
    assert api.ask("GET", "/entries/one")[1]["code"] == "held"
    assert "nothing to hold: 'one' is queued" in said(api.ask("POST", "/entries/one/hold"), 409)
    assert api.ask("POST", "/entries/one/release")[0] == 202
    assert api.ask("PUT", "/entries/one/class", {"class": "low"})[0] == 202
    gate.turn()
    assert api.ask("GET", "/entries")[1]["entries"][0]["class"] == "low"
    assert "there is no class 'x'" in said(api.ask("PUT", "/entries/one/class", {"class": "x"}), 422)
    assert "lacks 'class'" in said(api.ask("PUT", "/entries/one/class", {}), 422)
    assert api.ask("DELETE", "/entries/one")[0] == 202
    gate.turn()
    assert "nothing to withdraw: 'one' is withdrawn" in said(api.ask("DELETE", "/entries/one"), 409)
    assert api.ask("POST", "/entries/one/retry")[0] == 202
    gate.turn()
    assert gate.state.tasks["one"].phase == "queued" and gate.state.tasks["one"].attempt == 2


def test_a_pause_is_told_with_its_reason_and_ends(api: Caller, gate: KeptGate) -> None:
    assert "nothing to resume" in said(api.ask("POST", "/resume"), 409)
    api.ask("POST", "/pause", {"why": "the release is cut", "by": "grace"})
    gate.turn()
    assert api.ask("GET", "/status")[1]["paused"] == "the release is cut"
    assert "nothing to pause" in said(api.ask("POST", "/pause", {}), 409)
    assert "unknown key" in said(api.ask("POST", "/pause", {"reason": "x"}), 422)
    assert api.ask("POST", "/resume")[0] == 202
    gate.turn()
    assert api.ask("GET", "/status")[1] == {
        "gate": "gate-main",
        "hub": str(gate.hub),
        "target": "main",
        "tip": gate.head("main"),
        "in_line": 0,
        "paused": "",
        "shut": "",
        "frozen_until": None,
    }


def test_what_is_not_there_has_its_sentence(api: Caller, gate: KeptGate) -> None:
    for method, path in (("GET", ""), ("DELETE", ""), ("POST", "/hold"), ("POST", "/retry")):
        assert "there is no entry 'x'; the latest are: none yet" in said(api.ask(method, f"/entries/x{path}"), 404)
    assert "there is nothing at GET /nowhere" in said(api.ask("GET", "/nowhere"), 404)
    assert "there is nothing at GET /entries/" in said(api.ask("GET", "/entries/"), 404)
    assert "DELETE /status is not allowed" in said(api.ask("DELETE", "/status"), 405)
    assert "is not a limit" in said(api.ask("GET", "/entries?limit=0"), 422)


def test_why_an_entry_was_not_taken_in_is_told_by_its_name(api: Caller, gate: KeptGate) -> None:
    """Another person pushed it, without the API."""
    gate.post.hub.mirror.fetch()
    wish = Wish(
        what="", repo="", hub=None, target=None, name=None, klass="urgent", needs=(), by="x", agent=None, family=()
    )
    push_submission(gate.post.hub.mirror, "main", CommitId(gate.head("one")), "odd", wish)
    gate.turn()
    assert "was not accepted: there is no class 'urgent'" in said(api.ask("GET", "/entries/odd"), 404)


def test_what_has_ended_stands_behind_what_waits(api: Caller, gate: KeptGate) -> None:
    for branch in ("one", "two"):
        api.ask("POST", "/entries", {"branch": branch})
        gate.turn()
    gate.give_back("one", "test is red")
    _, found = api.ask("GET", "/entries")
    assert [(one["entry"], one["state"]) for one in found["entries"]] == [("two", "waits"), ("one", "returned")]
    assert api.ask("GET", "/entries?limit=1")[1]["total"] == 2
    assert api.ask("GET", "/entries/one")[1]["reasons"][0]["summary"] == "test is red"
    gate.land("two")
    assert "has landed" in said(api.ask("POST", "/entries", {"branch": "one", "name": "two"}), 409)


def test_a_token_that_could_be_guessed_is_none(tmp_path: Path) -> None:
    file = tmp_path / "token"
    for content in ("", "short\n", "with a space inside it", "ünlucky-but-very-long"):
        file.write_text(content)
        with pytest.raises(CannotRun, match="token"):
            api_token(Settings(), file)
    with pytest.raises(CannotRun, match="cannot be read"):
        api_token(Settings(), tmp_path / "none")
    with pytest.raises(CannotRun, match="FORGEPOOL_GATE_API_TOKEN"):
        api_token(Settings(), None)
    file.write_text(f"{TOKEN}\n")
    assert api_token(Settings(), file) == TOKEN


def test_an_address_says_its_host_and_is_free() -> None:
    for text in ("8321", ":8321", "host:", "host:99999", "host:x", "host:²"):
        with pytest.raises(CannotRun, match="HOST:PORT"):
            address(text)
    assert address("[::1]:80") == Address(host="::1", port=80) and address("[::1]:80").is_loopback
    assert not address("0.0.0.0:80").is_loopback and not address("gate.example:80").is_loopback
    with (
        bind_socket(Address(host="127.0.0.1", port=0)) as taken,
        pytest.raises(CannotRun, match="the server cannot listen at"),
    ):
        bind_socket(Address(host="127.0.0.1", port=taken.getsockname()[1]))


def test_an_address_that_others_can_reach_is_told(gate: KeptGate, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(TOKEN)
    options = RunOptions(run="g", hub="h", target="main", workers=0, plan_file="", plan_file_digest="", gate=True)
    plan = gate_plan("g", "main")
    kept = KeptRun(gate.folder, options, plan, gate_course(plan, gate.state))
    for host, warned in (("0.0.0.0", 1), ("127.0.0.1", 0)):
        heard: list[str] = []
        with api_beside(f"{host}:0", file, "main", Settings(), heard.append)(kept, gate.post.hub.mirror):
            assert len(heard) == 1 + warned and TOKEN not in "".join(heard)
            assert ("plain HTTP" in heard[0]) == bool(warned)
            port = heard[-1].split(";")[0].rsplit(":", 1)[1]
            assert Caller(f"http://127.0.0.1:{port}").ask("GET", "/status")[1]["target"] == "main"


@pytest.mark.parametrize(
    "beginning",
    [b"", b"GET /health HTTP/1.1\r\nHost: x\r\nA", b"GET /health HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n"],
)
def test_a_caller_that_never_ends_its_request_is_hung_up_on(gate: KeptGate, beginning: bytes) -> None:
    listening = bind_socket(Address(host="127.0.0.1", port=0))
    desk = Desk(view=gate.view(), mirror=gate.post.hub.mirror, target="main")
    with serving(desk, TOKEN, listening, sent_within_s=0.5):
        where = listening.getsockname()[1]
        with socket.create_connection(("127.0.0.1", where), timeout=30) as slow:
            slow.sendall(beginning)
            while slow.recv(1000):
                pass
        assert said(Caller(f"http://127.0.0.1:{where}").ask("GET", "/health", token=None), 200)
