"""The vendors' batch lanes over real HTTP: made, found again, looked at, cancelled, and read as a live answer is."""

import json
import time
from typing import cast, get_args

import pytest
from vendors import asking
from vendors.answers import Fault, Say, Seen, Wire
from vendors.batches import Fate
from vendors.server import BATCH_PATH, VendorServer

from forgepool.workers.llm.batch import WAITS, Batches
from forgepool.workers.llm.messages import Turn
from forgepool.workers.llm.provider import ModelFailed
from forgepool.workers.llm.wires.anthropic import AnthropicMessages
from forgepool.workers.llm.wires.anthropic_batch import AnthropicBatches
from forgepool.workers.llm.wires.openai_batch import OpenAIBatches

SAY = Say(text="I read it.", calls=[("write_file", {"path": "a", "text": 'x "y"'})], thinking="hm")
WIRES: tuple[Wire, ...] = asking.WIRES
KEY = "p-1.one.1.review-1"


def lane(wire: Wire, server: VendorServer) -> Batches:
    live = asking.provider(wire, server)
    return AnthropicBatches(live) if isinstance(live, AnthropicMessages) else OpenAIBatches(live)  # type: ignore[arg-type]  # the other two


@pytest.mark.parametrize("wire", WIRES)
def test_a_batches_answer_reads_as_the_live_one(wire: Wire) -> None:
    request = asking.request(must_call=True)
    with VendorServer(lambda seen: SAY) as server:
        live = asking.provider(wire, server).ask(request, stop=asking.never)
        batches = lane(wire, server)
        found = batches.look(batches.create(KEY, request), KEY)
        read = batches.read(found.answer, request)
        assert found.kind == "answered" and server.invalid == []
        by_batch, direct = server.seen[1], server.seen[0]
    assert read.usage.input_tokens and read.usage.output_tokens == live.usage.output_tokens
    assert _bare(read) == _bare(live) and read.stop == "calls"
    assert by_batch.path == BATCH_PATH and by_batch.texts == direct.texts and by_batch.tools == direct.tools
    assert b"cache_control" not in json.dumps(by_batch.body.get("messages")).encode() and "stream" not in by_batch.body
    assert (b"cache_control" in by_batch.raw) == (wire == "anthropic"), "other calls have the same beginning"


def _bare(turn: Turn) -> list[object]:
    return [part.model_dump(exclude={"id", "block", "phase"}) for part in turn.parts if part.kind != "opaque"]


@pytest.mark.parametrize("wire", WIRES)
def test_a_batch_is_found_by_the_name_of_its_call_alone(wire: Wire) -> None:
    """Anthropic's name is in the results only: until these are there, a batch of one call may be the one."""
    with VendorServer(lambda seen: SAY) as server:
        batches, began = lane(wire, server), time.time()
        assert batches.find(KEY, began, ()) is None
        server.batches.delay_s = 60.0
        made, other = batches.create(KEY, asking.request()), batches.create("another", asking.request())
        by_name = wire != "anthropic"
        assert batches.find(KEY, began, ()) == (made if by_name else "")
        assert batches.find("a third", began, (made, other)) is None
        assert batches.look(made, KEY) == WAITS
        server.batches.delay_s = 0.0
        assert batches.find(KEY, began, ()) == made and batches.find("a third", began, ()) is None
        assert batches.find(KEY, time.time() + 600.0, ()) is None


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("fate", [one for one in get_args(Fate) if one != "answered"])
def test_a_batch_without_an_answer_says_why(wire: Wire, fate: Fate) -> None:
    if wire == "anthropic" and fate == "failed":
        return
    with VendorServer(lambda seen: SAY) as server:
        server.batches.fates = {1: fate}
        batches = lane(wire, server)
        found = batches.look(batches.create(KEY, asking.request()), KEY)
    said = {"errored": "could not", "expired": "has expired", "failed": "has failed: line 1 is no call"}[fate]
    assert found.kind == "over" and said in found.why, found.why


@pytest.mark.parametrize("wire", WIRES)
def test_a_cancelled_batch_ends_without_an_answer_or_with_the_one_it_had(wire: Wire) -> None:
    with VendorServer(lambda seen: SAY) as server:
        batches, server.batches.delay_s = lane(wire, server), 60.0
        first = batches.create(KEY, asking.request())
        batches.cancel(first)
        assert "is cancelled" in batches.look(first, KEY).why
        server.batches.delay_s = 0.0
        second = batches.create(KEY, asking.request())
        assert batches.look(second, KEY).kind == "answered"
        batches.cancel(second)
        assert batches.look(second, KEY).kind == "answered"
        server.batches.forget = {second}
        assert batches.look(second, KEY).why == f"the vendor has no batch {second}"
        batches.cancel(second)


@pytest.mark.parametrize("wire", WIRES)
def test_a_refused_batch_is_a_failure_without_the_key(wire: Wire) -> None:
    with VendorServer(lambda seen: SAY) as server:
        error = {"type": "invalid_request_error", "message": f"no lane for {asking.KEY}", "code": None}
        server.batches.refuse = (400, {"type": "error", "error": error})
        with pytest.raises(ModelFailed) as failed:
            lane(wire, server).create(KEY, asking.request())
    assert failed.value.trouble == "bad_request" and asking.KEY not in str(failed.value)


@pytest.mark.parametrize("wire", WIRES)
def test_an_answer_that_is_cut_off_or_none_is_read_as_a_live_one(wire: Wire) -> None:
    answers = iter([Say(text="Writing", stop="max_tokens"), Fault(kind="server")])

    def brain(seen: Seen) -> Say | Fault:
        return next(answers)

    with VendorServer(brain) as server:
        batches, request = lane(wire, server), asking.request(max_output_tokens=1)
        turn = batches.read(batches.look(batches.create(KEY, request), KEY).answer, request)
        assert turn.stop == "max_tokens"
        assert batches.look(batches.create("b", request), "b").kind == "over"
        with pytest.raises(ModelFailed):
            batches.read(cast("object", {"content": 7, "choices": 7, "output": 7}), request)
