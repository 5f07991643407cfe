"""Reviews by a vendor's batch lane, over real HTTP: one call at half the price, made live where none comes back."""

import time
from typing import Any, get_args

import pytest
from review_kit import CLAUDE, Desk, Serve, finding
from vendors.answers import Say, Seen, Wire
from vendors.batches import Fate
from vendors.server import BATCH_PATH, VendorServer

from forgepool.supervisor.messages.answers import Review
from forgepool.supervisor.messages.requests import ReviewPolicy
from forgepool.workers.llm.batch import BatchCall, BatchTicket

WIRES: tuple[Wire, ...] = ("anthropic", "openai-responses", "openai-chat")
TWO = {"a": "2\n"}
PASSED = {"verdict": "pass", "findings": [], "confidence": 0.8, "summary": "read a"}
ONE_CALL = ReviewPolicy(context_mode="injected")
LANE = ReviewPolicy(context_mode="injected", lane="batch")
RID = "r.one.1.review-1"


def passes(seen: Seen) -> Say:
    return Say(calls=[("verdict", PASSED)])


def ask(desk: Desk, number: int = 1, *, ticket: BatchTicket | None = None, late: bool = False, **said: Any) -> Review:
    """Send the request of that number about the same call."""
    now = time.time()
    since, until = (now - 90.0, now - 30.0) if late else (now, now + 60.0)
    call = BatchCall(key=RID, since=since, until=until, again=number > 1, ticket=ticket)
    files = said.pop("files", TWO)
    return desk.review(files, LANE, request_id=f"r.one.1.review-{number}", batch=call, **said)


def live(server: VendorServer) -> list[Seen]:
    return [seen for seen in server.seen if seen.path != BATCH_PATH]


@pytest.mark.parametrize("wire", WIRES)
def test_a_review_in_one_call_is_shown_the_changed_files_and_has_no_tool_to_read(
    desk: Desk, serve: Serve, wire: Wire
) -> None:
    server = serve(passes, wire=wire)
    found = desk.review({"a": "1\n2\n3\n", "d/c": "5\n"}, ONE_CALL)
    assert (found.outcome, found.read, found.spent.turns) == ("passed", ("a", "d/c"), 1), found
    (seen,) = server.seen
    assert seen.tools == ["verdict"] and "== a\n     1\t1\n     2\t2\n" in "\n".join(seen.texts)
    assert "This review is one call" in seen.system and server.invalid == []


def test_a_verdict_in_one_call_that_does_not_count_is_mended_once(desk: Desk, serve: Serve) -> None:
    server = serve(lambda seen: Say(calls=[("verdict", PASSED | {"verdict": "fail"} if not seen.answered else PASSED)]))
    found = desk.review(TWO, ONE_CALL)
    assert found.outcome == "passed" and len(found.voids) == 1 and len(server.seen) == 2


def test_of_a_long_file_the_parts_around_its_changes_are_shown(desk: Desk, serve: Serve) -> None:
    server = serve(passes)
    lines = [f"line {number} of a file that is far too long for one call" for number in range(1, 6001)]
    desk.gate.hub.commit({"a": "\n".join(lines)})
    lines[3000] = "the change"
    assert desk.review({"a": "\n".join(lines)}, ONE_CALL).outcome == "passed"
    told = "\n".join(server.seen[0].texts)
    assert "  3001\tthe change" in told and "  2801\tline 2801" in told and "line 2700 " not in told


@pytest.mark.parametrize("wire", WIRES)
def test_a_batch_is_made_journaled_looked_at_and_read_at_half_the_price(desk: Desk, serve: Serve, wire: Wire) -> None:
    server = serve(passes, wire=wire)
    server.batches.delay_s = 60.0
    made = ask(desk)
    assert (made.outcome, made.spent.turns, made.spent.cost_usd) == ("infrastructure", 0, 0.0), made
    ticket = made.batch
    assert ticket is not None and ticket.id and (ticket.account, ticket.model) == ("gpt", "gpt-x") and not ticket.over
    assert made.not_before is not None and made.not_before > time.time() and server.seen == []

    still = ask(desk, 2, ticket=ticket)
    assert still.batch is not None and (still.batch.id, still.batch.looks) == (ticket.id, 1)
    server.batches.delay_s = 0.0
    found = ask(desk, 3, ticket=still.batch)
    assert (found.outcome, found.models, found.families, found.batch) == ("passed", ("gpt-x",), ("gpt",), None), found
    assert (found.read, found.spent.turns) == (("a",), 1) and live(server) == [] and server.invalid == []
    assert found.spent.cost_usd is not None and ticket.most.cost_usd is not None
    assert 0 < found.spent.cost_usd < ticket.most.cost_usd
    used, written = found.spent, 1.25 if wire == "anthropic" else 1.0
    full = [(used.input_tokens * price + used.output_tokens * 5) / 1e6 for price in (1.0, written)]
    assert full[0] / 2 <= used.cost_usd <= full[1] / 2, "nothing is cached yet"


def test_a_verdict_of_a_batch_is_held_against_the_change_as_a_live_one_is(desk: Desk, serve: Serve) -> None:
    serve(lambda seen: Say(calls=[("verdict", PASSED | {"verdict": "fail", "findings": [finding("a")]})]))
    found = ask(desk, 2, ticket=ask(desk).batch)
    assert found.outcome == "failed" and [one.file for one in found.findings] == ["a"]


@pytest.mark.parametrize("wire", WIRES)
def test_a_request_that_was_lost_after_its_batch_was_made_makes_no_second_one(
    desk: Desk, serve: Serve, wire: Wire
) -> None:
    server = serve(passes, wire=wire)
    server.batches.delay_s = 60.0
    assert ask(desk).batch is not None
    again = ask(desk, 2)
    assert again.batch is not None and len(server.batches.all) == 1
    server.batches.delay_s = 0.0
    if not again.batch.id:
        again = ask(desk, 3, ticket=again.batch)
        assert again.batch is not None and again.batch.id == server.batches.all[0].id
    assert ask(desk, 4, ticket=again.batch).outcome == "passed"
    assert (len(server.batches.all), server.batches.answered, live(server)) == (1, 1, [])


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("fate", [one for one in get_args(Fate) if one != "answered"])
def test_a_batch_that_brings_nothing_costs_nothing_and_the_review_is_made_live(
    desk: Desk, serve: Serve, wire: Wire, fate: Fate
) -> None:
    if wire == "anthropic" and fate == "failed":
        return
    server = serve(passes, wire=wire)
    server.batches.fates = {1: fate}
    found = ask(desk, 2, ticket=ask(desk).batch)
    assert found.outcome == "infrastructure" and found.batch is not None and found.batch.over, found
    assert found.detail.startswith("it is made live: ") and found.not_before is not None
    assert (found.spent.turns, found.spent.cost_usd) == (0, 0.0) and found.not_before <= time.time()
    assert server.seen == []


def test_a_batch_that_the_vendor_no_longer_knows_is_given_up(desk: Desk, serve: Serve) -> None:
    server = serve(passes)
    ticket = ask(desk).batch
    server.batches.forget = {one.id for one in server.batches.all}
    assert ask(desk, 2, ticket=ticket).detail == "it is made live: the vendor has no batch msgbatch_1"


@pytest.mark.parametrize("wire", WIRES)
def test_past_its_deadline_a_batch_is_cancelled_and_the_review_made_live(desk: Desk, serve: Serve, wire: Wire) -> None:
    server = serve(passes, wire=wire)
    server.batches.delay_s = 60.0
    ticket = ask(desk).batch
    server.batches.cancelling_s = 3600.0
    cancelled = ask(desk, 2, ticket=ticket, late=True)
    assert cancelled.batch is not None and cancelled.batch.cancelled and not cancelled.batch.over
    server.batches.cancelling_s = 0.0
    given_up = ask(desk, 3, ticket=cancelled.batch, late=True)
    assert (
        given_up.batch is not None and given_up.detail == "it is made live: its batch is cancelled, past its deadline"
    )
    assert given_up.spent.cost_usd == 0.0 and server.seen == []


@pytest.mark.parametrize("wire", WIRES)
def test_an_answer_that_came_before_the_batch_was_cancelled_is_used(desk: Desk, serve: Serve, wire: Wire) -> None:
    server = serve(passes, wire=wire)
    server.batches.delay_s, server.batches.cancelling_s = 60.0, 3600.0
    cancelled = ask(desk, 2, ticket=ask(desk).batch, late=True)
    assert cancelled.batch is not None and cancelled.batch.cancelled
    server.batches.delay_s = 0.0
    found = ask(desk, 3, ticket=cancelled.batch, late=True)
    assert found.outcome == "passed" and live(server) == []


def test_a_batch_that_does_not_end_when_cancelled_counts_with_all_that_it_can_cost(desk: Desk, serve: Serve) -> None:
    server = serve(passes)
    server.batches.delay_s, server.batches.cancelling_s = 9e9, 9e9
    ticket = ask(desk).batch
    assert ticket is not None
    now = time.time()
    call = BatchCall(key=RID, since=now - 9000.0, until=now - 1000.0, again=True, ticket=ticket)
    found = desk.review(TWO, LANE, request_id="r.one.1.review-2", batch=call)
    assert found.batch is not None and "has not ended since it was cancelled" in found.batch.over
    assert found.spent == ticket.most and (found.spent.cost_usd or 0) > 0


def test_a_verdict_of_a_batch_that_does_not_count_is_paid_and_the_review_made_live(desk: Desk, serve: Serve) -> None:
    server = serve(lambda seen: Say(calls=[("verdict", PASSED | {"verdict": "fail"})]))
    found = ask(desk, 2, ticket=ask(desk).batch)
    assert found.batch is not None and "does not count: gpt-x: it fails without a finding" in found.detail, found
    assert found.spent.turns == 1 and (found.spent.cost_usd or 0) > 0 and len(server.seen) == 1


def test_a_change_that_is_too_long_for_one_call_is_reviewed_live_with_tools(desk: Desk, serve: Serve) -> None:
    server = serve(lambda seen: Say(calls=[("verdict", PASSED) if seen.answered else ("read_file", {"path": "a"})]))
    long = {"a": "x" * 200 + "\n" + "y = 1\n" * 40_000}
    assert ask(desk, files=long).detail == "it is made live: the change is too long to be shown in one call"
    assert server.batches.all == []
    found = desk.review(long, LANE, request_id="r.one.1.review-2")
    assert found.outcome == "passed" and "read_file" in server.seen[0].tools


def test_an_account_without_a_lane_has_the_review_made_live(desk: Desk, serve: Serve) -> None:
    serve(passes)
    path = desk.gate.folder / "models.yaml"
    path.write_text(path.read_text().replace(", batch: 0.5", ""))
    found = ask(desk)
    assert found.detail == (
        "it is made live: no account of its reviewers has a batch lane (gpt, gemini); give one `batch` in models.yaml"
    )


def test_a_vendor_that_refuses_a_batch_has_it_made_live_and_one_that_is_away_is_asked_later(
    desk: Desk, serve: Serve
) -> None:
    server = serve(passes)
    error = {"type": "invalid_request_error", "message": "no lane for you"}
    server.batches.refuse = (400, {"type": "error", "error": error})
    assert "it is made live: it could not be sent to a batch: model 'gpt-x'" in ask(desk).detail
    server.batches.refuse = (529, {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}})
    away = ask(desk)
    assert away.batch is not None and (away.batch.id, away.batch.over) == ("", "") and "overloaded" in away.detail
    late = ask(desk, 2, ticket=away.batch, late=True)
    assert late.detail == "it is made live: no batch was made before its deadline"


def test_looks_come_less_often_the_longer_a_batch_takes(desk: Desk, serve: Serve) -> None:
    server = serve(passes)
    server.batches.delay_s = 9e9
    ticket, now, pauses = ask(desk).batch, time.time(), []
    for waited in (0.0, 60.0, 600.0, 3000.0):
        call = BatchCall(key=RID, since=now - waited, until=now - waited + 36_000.0, again=True, ticket=ticket)
        found = desk.review(TWO, LANE, author=CLAUDE, request_id="r.one.1.review-2", batch=call)
        assert found.not_before is not None
        pauses.append(round(found.not_before - now, -1))
    assert pauses == [300, 300, 300, 600]
