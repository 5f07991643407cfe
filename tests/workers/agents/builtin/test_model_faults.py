"""
The table of vendors' faults in the middle of an attempt, over real HTTP, and their effects.

Each fault happens once, at the turn that would write, and then the vendor works. The strictest vendor accepts the whole
conversation. The file is written once and correctly, and no tool runs from a bad turn.
"""

from dataclasses import replace
from pathlib import Path

import pytest
from host_kit import Host
from vendors.answers import Answer, Fault, Say, Seen, Tokens, Wire
from vendors.server import EMPTY, MALFORMED, MAX_TOKENS_IN_CALL, OVERFLOW_MIDWAY, REFUSAL, VendorServer

from forgepool.workers.context.transcript.entries import ConversationStarted, QuestionTried, TurnSaid
from forgepool.workers.schema.orders import BuiltinAgent, Limits, WorkResult

KEY = "THE_TEST_KEY"
WIRES: tuple[Wire, ...] = ("anthropic", "openai-responses", "openai-chat")
WRITE = ("bash", {"command": "echo once >> written"})
READ = ("read_file", {"path": "none"})

TRIED_AGAIN: dict[str, tuple[Fault, str]] = {
    "429 with retry-after": (Fault(kind="rate_limit", headers={"retry-after": "0.2"}), "rate_limit"),
    "429 without": (Fault(kind="rate_limit"), "rate_limit"),
    "529": (Fault(kind="overloaded"), "overloaded"),
    "500": (Fault(kind="server"), "server"),
    "reset before the answer": (Fault(kind="reset"), "connection"),
    "reset in its middle": (Fault(kind="reset_midway"), "connection"),
    "cut off cleanly": (Fault(kind="cut"), "truncated"),
    "error inside the stream": (Fault(kind="error_event"), "overloaded"),
    "silence": (Fault(kind="silence", seconds=20.0), "silence"),
}
TOLD: dict[str, tuple[Say, str]] = {
    "malformed arguments": (MALFORMED, "not one JSON object"),
    "an unknown tool": (Say(calls=[("teleport", {"to": "x"})]), "no tool is called 'teleport'"),
    "a missing argument": (Say(calls=[("write_file", {"path": "a"})]), "the call lacks the key 'content'"),
    "cut off inside a call": (
        replace(MAX_TOKENS_IN_CALL, usage=Tokens(input=99, output=4000)),
        "not run: the answer was cut off",
    ),
    "an empty turn": (EMPTY, "You called no tool"),
}
ENDS: dict[str, tuple[Answer, str]] = {
    "refusal": (REFUSAL, "refused"),
    "spend limit": (Fault(kind="usage_limit"), "infrastructure"),
    "a key that is refused": (Fault(kind="authentication"), "needs_human"),
    "a request that is refused": (Fault(kind="bad_request"), "agent_failed"),
}


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    monkeypatch.setenv(KEY, "k-1")
    return Host(tmp_path, {"a": "1\n"})


class Bad:
    """A brain whose first turn of EXECUTE is bad, and which then writes and finishes."""

    def __init__(self, answer: Answer) -> None:
        self._bad: list[Answer] = [answer]

    def __call__(self, seen: Seen) -> Answer:
        if "commit_plan" in seen.tools:
            return Say(calls=[("commit_plan", {"plan": "write it", "files_to_modify": ["written"]})])
        if self._bad:
            return self._bad.pop()
        wrote = any(result.startswith("[exit status 0") for result in seen.results) or "written" in _learned(seen)
        return Say(calls=[("finish", {"summary": "written"}) if wrote else WRITE])


def _learned(seen: Seen) -> str:
    return seen.texts[0].partition("files_written")[2].partition("plan_committed")[0]


def work(host: Host, answer: Answer, wire: Wire) -> tuple[WorkResult, VendorServer]:
    with VendorServer(Bad(answer)) as server:
        url = server.url if wire == "anthropic" else f"{server.url}/v1"
        models = host.folder / "models.yaml"
        models.write_text(
            f"accounts:\n  local: {{wire: {wire}, key: {KEY}, base_url: '{url}', silence_s: 0.5}}\n"
            "models:\n  m: {account: local, family: test, window_tokens: 100000, max_output_tokens: 4000}\n"
            "routes:\n  code: {primary: m, reason: a test, source: here, date: '2026-11-01'}\nbudget: m\n"
        )
        host.settings = host.settings.model_copy(update={"models": models})
        return host.carry_out(agent=BuiltinAgent(model="m"), limits=Limits(wall_s=60)), server


def written_once(host: Host, done: WorkResult, server: VendorServer) -> None:
    assert done.outcome == "candidate", done.detail
    assert done.paths == ("written",) and host.content(done.commit, "written") == "once"
    assert server.invalid == []


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("fault", TRIED_AGAIN)
def test_what_passes_is_tried_again(host: Host, fault: str, wire: Wire) -> None:
    """The same question is asked again, and the failed try is in the transcript."""
    answer, trouble = TRIED_AGAIN[fault]
    done, server = work(host, answer, wire)
    written_once(host, done, server)
    (tried,) = [entry for entry in host.transcript() if isinstance(entry, QuestionTried)]
    assert tried.trouble == trouble
    assert tried.wait_s is not None
    assert server.seen[1].body == server.seen[2].body


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("fault", TOLD)
def test_what_a_model_does_wrong_it_is_told(host: Host, fault: str, wire: Wire) -> None:
    """It is told in the result of its call, or in a message if there was no call, and then does it right."""
    answer, said = TOLD[fault]
    done, server = work(host, answer, wire)
    written_once(host, done, server)
    heard = server.seen[2]
    assert any(said in text for text in (*heard.results, *heard.texts[1:])), (heard.results, heard.texts[1:])


@pytest.mark.parametrize("wire", WIRES)
def test_of_two_calls_one_may_fail(host: Host, wire: Wire) -> None:
    """Each has its own result, and the effect of the other is there."""
    done, server = work(host, Say(calls=[READ, WRITE]), wire)
    written_once(host, done, server)
    failed, worked = server.seen[2].results
    assert "no such file" in failed and worked.startswith("[exit status 0")


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("answer", [Fault(kind="overflow"), OVERFLOW_MIDWAY], ids=["before", "midway"])
def test_an_overflow_begins_the_phase_afresh(host: Host, answer: Answer, wire: Wire) -> None:
    """The new conversation is shorter, and this happens once."""
    done, server = work(host, answer, wire)
    written_once(host, done, server)
    phases = [entry.phase for entry in host.transcript() if isinstance(entry, ConversationStarted)]
    assert phases == ["plan", "execute", "execute"]


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("fault", ENDS)
def test_what_does_not_pass_ends_the_attempt(host: Host, fault: str, wire: Wire) -> None:
    """The outcome names the fault. The model is asked once, and nothing is written."""
    answer, outcome = ENDS[fault]
    done, server = work(host, answer, wire)
    assert (done.outcome, done.commit) == (outcome, None), done.detail
    assert len(server.seen) == 2 and server.invalid == []
    turns = [
        entry.turn for entry in host.transcript() if isinstance(entry, TurnSaid) and entry.turn.role == "assistant"
    ]
    assert len(turns) == (2 if outcome == "refused" else 1)
    assert "k-1" not in done.encode() and "k-1" not in str(host.transcript())
