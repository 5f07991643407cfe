"""The vendor server refuses what vendors refuse; a server that accepts everything would prove nothing."""

import json
from typing import Any

import pytest
from vendors.answers import Body, Wire
from vendors.server import Fault, Say, VendorServer, scripted
from vendors.wires.sealing import seal

_PATHS: dict[Wire, str] = {
    "anthropic": "/v1/messages",
    "openai-responses": "/v1/responses",
    "openai-chat": "/v1/chat/completions",
}


def _post(url: str, body: Body, **headers: str) -> tuple[int, Body]:
    import httpx2

    answer = httpx2.post(url, json=body, headers={"authorization": "Bearer k", "anthropic-version": "1", **headers})
    return answer.status_code, answer.json()


def _judged(wire: Wire, body: Body, *, strict: bool = True) -> str:
    """Return the reason for refusing a request, or an empty text."""
    with VendorServer(scripted(Say(text="taken")), strict=strict) as server:
        status, _ = _post(server.url + _PATHS[wire], {"model": "m"} | body)
    assert (status == 200) == (server.invalid == []) == (len(server.seen) == 1)
    return "; ".join(server.invalid)


def _user(*blocks: Body | str) -> Body:
    return {"role": "user", "content": [_block(one) for one in blocks]}


def _model(*blocks: Body | str) -> Body:
    return {"role": "assistant", "content": [_block(one) for one in blocks]}


def _block(one: Body | str) -> Body:
    return {"type": "text", "text": one} if isinstance(one, str) else one


def _use(name: str) -> Body:
    return {"type": "tool_use", "id": name, "name": "t", "input": {}}


def _result(name: str) -> Body:
    return {"type": "tool_result", "tool_use_id": name, "content": "x"}


def _marked(ttl: str | None = None) -> Body:
    mark = {"type": "ephemeral"} | ({"ttl": ttl} if ttl else {})
    return {"type": "text", "text": "x", "cache_control": mark}


_THOUGHT = {"type": "thinking", "thinking": "hm", "signature": seal("m", "hm")}


@pytest.mark.parametrize(
    ("messages", "wrong"),
    [
        ([_user("hi")], ""),
        ([_user("hi"), _model(_use("a")), _user(_result("a"), "go on")], ""),
        ([_user("hi"), _model(_THOUGHT, "x"), _user("go on")], ""),
        ([_user(*[_marked("1h"), _marked()] * 1, _marked(), _marked())], ""),
        ([], "at least one message"),
        ([_user()], "non-empty content"),
        ([_user(" ")], "non-whitespace"),
        ([_user("hi"), _user("again")], "alternate"),
        ([_model("hi"), _user("hi")], "first message"),
        ([_user("hi"), _model("hello")], "prefill"),
        ([_user("hi"), _model(_use("a")), _user("go on")], "without `tool_result`"),
        ([_user("hi"), _model(_use("a"), _use("b")), _user(_result("a"))], "without `tool_result`"),
        ([_user("hi"), _model("x"), _user(_result("a"))], "unexpected `tool_use_id`"),
        ([_user("hi"), _model(_use("a")), _user("go on", _result("a"))], "must come first"),
        ([_user("hi"), _model(_use("a")), _user(_result("a"), _result("a"))], "single result"),
        ([_user("hi"), _model(_use("a:0")), _user(_result("a:0"))], "match pattern"),
        ([_user("hi"), *[_model(_use("a")), _user(_result("a"))] * 2], "must be unique"),
        ([_user("hi"), _model(_THOUGHT | {"thinking": "ha"}), _user("x")], "Invalid `signature`"),
        ([_user("hi"), _model({"type": "redacted_thinking", "data": "x"}), _user("x")], "Invalid `data`"),
        ([_user(*[_marked()] * 5)], "maximum of 4"),
        ([_user(_marked(), _marked("1h"))], "must not come after"),
    ],
)
def test_anthropic_takes_what_is_right_and_nothing_else(messages: list[Body], wrong: str) -> None:
    """Each request breaks one rule."""
    refused = _judged("anthropic", {"max_tokens": 5, "messages": messages})
    assert wrong in refused
    assert bool(refused) == bool(wrong)


def test_anthropic_wants_a_version_a_limit_and_no_temperature() -> None:
    """These are the three rules that do not concern the messages."""
    body = {"model": "m", "messages": [_user("hi")]}
    with VendorServer(scripted()) as server:
        url = server.url + "/v1/messages"
        _post(url, body)
        _post(url, body | {"max_tokens": 5}, **{"anthropic-version": ""})
        _post(url, body | {"max_tokens": 5, "temperature": 0}, **{"anthropic-version": "2026-10-21"})
    assert [one.split(":")[0] for one in server.invalid] == ["max_tokens", "anthropic-version", "temperature"]


def _call(name: str, arguments: str = "{}") -> Body:
    return {"type": "function_call", "call_id": name, "name": "t", "arguments": arguments}


def _output(name: str) -> Body:
    return {"type": "function_call_output", "call_id": name, "output": "x"}


_HI: Body = {"role": "user", "content": "hi"}
_REASONING: Body = {"type": "reasoning", "id": "r", "summary": [], "encrypted_content": seal("m", "r")}


@pytest.mark.parametrize(
    ("items", "wrong"),
    [
        ([_HI], ""),
        ([_HI, _REASONING, _call("a"), _output("a")], ""),
        ([], "Missing required"),
        ([{"role": "user", "content": ""}], "empty"),
        ([_HI, {"role": "assistant", "content": [{"type": "input_text", "text": "x"}]}, _HI], "expected 'output_text'"),
        ([_HI, _call("a")], "No tool output"),
        ([_HI, _call("a"), _HI, _output("a")], "No tool output"),
        ([_HI, _output("a")], "No tool call found"),
        ([_HI, _call("a"), _output("a"), _output("a")], "No tool call found"),
        ([_HI, _call("a"), _output("a"), _call("a"), _output("a")], "Duplicate"),
        ([_HI, _call("a", "{oops"), _output("a")], "not a JSON object"),
        ([_HI, _call("a" * 65), _output("a" * 65)], "too long"),
        ([_HI, _REASONING, _HI], "required following item"),
        ([_HI, _REASONING | {"encrypted_content": "x"}, _call("a"), _output("a")], "could not be verified"),
        ([_HI, _REASONING | {"encrypted_content": None}, _call("a"), _output("a")], "not persisted"),
        ([_HI, {"role": "assistant", "content": "x"}], "ends with the assistant"),
    ],
)
def test_responses_takes_what_is_right_and_nothing_else(items: list[Body], wrong: str) -> None:
    """Each request breaks one rule."""
    refused = _judged("openai-responses", {"store": False, "input": items})
    assert wrong in refused
    assert bool(refused) == bool(wrong)


def _calls(*names: str, arguments: str = "{}") -> Body:
    calls = [{"id": name, "type": "function", "function": {"name": "t", "arguments": arguments}} for name in names]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def _told(name: str) -> Body:
    return {"role": "tool", "tool_call_id": name, "content": "x"}


@pytest.mark.parametrize(
    ("messages", "wrong"),
    [
        ([_HI], ""),
        ([{"role": "system", "content": "s"}, _HI, _calls("a", "b"), _told("a"), _told("b"), _HI], ""),
        ([], "Missing required"),
        ([{"role": "user", "content": ""}], "non-empty"),
        ([_HI, {"role": "assistant", "content": None}, _HI], "non-empty"),
        ([_HI, _calls(), _HI], "empty array"),
        ([_HI, _calls("a"), _HI], "must be followed by"),
        ([_HI, _calls("a")], "must be followed by"),
        ([_HI, _told("a")], "response to a preceding"),
        ([_HI, _calls("a"), _told("a"), _told("a")], "response to a preceding"),
        ([_HI, _calls("a", "a"), _told("a")], "must be unique"),
        ([_HI, _calls("a", arguments="{oops"), _told("a")], "a JSON object as arguments"),
        ([_HI, _HI], "must alternate"),
        ([_HI, {"role": "system", "content": "s"}], "at the beginning"),
        ([_HI, {"role": "assistant", "content": "x"}], "end with the assistant"),
    ],
)
def test_chat_takes_what_is_right_and_nothing_else(messages: list[Body], wrong: str) -> None:
    """Each request breaks one rule."""
    refused = _judged("openai-chat", {"messages": messages})
    assert wrong in refused
    assert bool(refused) == bool(wrong)


def test_what_only_some_servers_insist_on_can_be_left_out() -> None:
    """The real CLIs do not obey these rules."""
    assert _judged("openai-chat", {"messages": [_HI, _HI]}, strict=False) == ""


@pytest.mark.parametrize("wire", _PATHS)
def test_an_answer_comes_in_one_piece_where_no_stream_is_asked_for(wire: Wire) -> None:
    """The real CLIs ask for small answers in this way."""
    shown = {"input": [_HI]} if wire == "openai-responses" else {"messages": [_HI], "max_tokens": 5}
    with VendorServer(scripted(Say(text="hello there", calls=[("t", {})]))) as server:
        status, answer = _post(server.url + _PATHS[wire], {"model": "m"} | shown)
    assert status == 200
    assert "hello there" in json.dumps(answer)
    assert '"t"' in json.dumps(answer)


def test_keys_models_and_places_are_what_they_are() -> None:
    """A wrong key is refused, models are listed, tokens are counted, and unknown addresses are recorded."""
    import httpx2

    with VendorServer(scripted(), keys=["right"], models=["m1"]) as server:
        status, _ = _post(server.url + "/v1/messages", {"model": "m", "max_tokens": 5, "messages": [_HI]})
        models: Any = httpx2.get(server.url + "/v1/models").json()
        counted, _ = _post(server.url + "/a/v1/messages/count_tokens", {"messages": [_HI]})
        httpx2.get(server.url + "/nowhere")
    assert (status, counted, models["data"][0]["id"], server.lost) == (401, 200, "m1", ["GET /nowhere"])


def test_what_a_brain_commonly_asks_is_the_same_on_every_wire() -> None:
    """Texts, results, tools and the number of turns agree for all vendors' formats."""
    from vendors.asking import CARD, WIRES, never, provider, reply, request

    for wire in WIRES:
        with VendorServer(scripted(Say(text="x", calls=[("read_file", {})]), Say(text="done"))) as server:
            asked = provider(wire, server)
            turn = asked.ask(request(), stop=never)
            asked.ask(request(CARD, turn, reply(turn)), stop=never)
        first, second = server.seen
        assert (first.answered, second.answered, second.tools) == (0, 1, ["read_file", "write_file"])
        assert (second.texts, second.results) == (["The task: add an adder.", "Go on."], ["read_file: done"])
        assert "What all tasks share." in second.system
        assert (second.model, second.key) == ("model-1", "sk-test-0123456789")


def test_a_script_that_is_over_says_so() -> None:
    """The refusal contains the request. A fault's own text and headers are sent."""
    fault = Fault(kind="server", status=502, message="bad gateway", headers={"retry-after": "3"})
    with VendorServer(scripted(fault)) as server:
        body = {"model": "m", "messages": [_HI]}
        assert _post(server.url + "/v1/chat/completions", body)[0] == 502
        status, answer = _post(server.url + "/v1/chat/completions", body)
    assert (status, answer["error"]["message"]) == (400, "the script has 1 answers, and this asks for one more")
