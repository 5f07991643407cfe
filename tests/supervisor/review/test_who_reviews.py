"""
Choosing a reviewer, over real HTTP: never one of the author's family, and a sentence for the person if there is none.
"""

from pathlib import Path
from typing import Any

import pytest
from review_kit import CLAUDE, COMMAND, Desk, Serve, finding, read, script, verdict
from vendors.answers import Fault, Say, Seen, Tokens, Wire
from vendors.server import VendorServer

from forgepool.supervisor.messages.answers import Review
from forgepool.supervisor.messages.requests import Author, ReviewPolicy
from forgepool.workers.context.transcript.entries import ConversationStarted
from forgepool.workers.llm.messages import Usage
from forgepool.workers.llm.provider import ModelFailed
from forgepool.workers.llm.routing.breaker import Breaker
from forgepool.workers.llm.routing.pace import AccountPace, PacedCall
from forgepool.workers.queue.broker import Redis
from forgepool.workers.schema.orders import Limits

WIRES: tuple[Wire, ...] = ("anthropic", "openai-responses", "openai-chat")
TWO = {"a": "2\n"}
GPT = Author(agent="builtin", models=("gpt-6.1-sol",), families=("gpt",))
UNKNOWN = Author(agent="cli", models=("mine",), families=("unknown",))
PASSED = {"verdict": "pass", "findings": [], "confidence": 0.8, "summary": "read a"}
FAILED = PASSED | {"verdict": "fail", "findings": [finding("a")]}


def reads_and_passes(seen: Seen) -> Say:
    return Say(calls=[("verdict", PASSED) if seen.answered else ("read_file", {"path": "a"})])


def asked(server: VendorServer) -> list[str]:
    return list(dict.fromkeys(seen.model for seen in server.seen))


@pytest.mark.parametrize("wire", WIRES)
def test_a_model_of_another_family_reviews_over_every_wire(desk: Desk, serve: Serve, wire: Wire) -> None:
    server = serve(reads_and_passes, wire=wire)
    found = desk.review(TWO, ReviewPolicy())
    assert (found.outcome, found.models, found.families) == ("passed", ("gpt-x",), ("gpt",)), found
    assert server.invalid == [] and asked(server) == ["gpt-x"]
    assert found.spent.cost_usd is not None and 0 < found.spent.cost_usd < 0.1
    assert set(server.seen[0].tools) == {"read_file", "glob", "grep", "verdict"}


def test_the_verdicts_schema_refers_to_nothing(desk: Desk, serve: Serve) -> None:
    """Not every server follows references in a schema."""
    server = serve(reads_and_passes)
    desk.review(TWO, ReviewPolicy())
    assert b"$ref" not in server.seen[0].raw and b"data_loss" in server.seen[0].raw


@pytest.mark.parametrize(
    ("author", "first"),
    [(CLAUDE, "gpt-x"), (GPT, "claude-x"), (COMMAND, "gpt-x"), (Author(agent="person"), "gpt-x")],
    ids=["claude", "gpt", "command", "person"],
)
def test_the_route_is_asked_without_the_authors_family(desk: Desk, serve: Serve, author: Author, first: str) -> None:
    server = serve(reads_and_passes)
    assert desk.review(TWO, ReviewPolicy(), author=author).models == (first,)
    assert asked(server) == [first]


def test_a_fallback_and_the_last_resort_are_of_other_families_too(desk: Desk, serve: Serve) -> None:
    """Every other model refuses its key. The author's own would answer and is not asked."""

    def brain(seen: Seen) -> Say | Fault:
        return Fault(kind="authentication") if not seen.model.startswith("claude") else reads_and_passes(seen)

    server = serve(brain)
    found = desk.review(TWO, ReviewPolicy())
    assert (found.outcome, found.models) == ("not_configured", ())
    assert asked(server) == ["gpt-x", "gemini-x"]


def test_a_reviewer_may_fall_back_to_a_third_family(desk: Desk, serve: Serve) -> None:
    server = serve(lambda seen: Fault(kind="authentication") if seen.model == "gpt-x" else reads_and_passes(seen))
    found = desk.review(TWO, ReviewPolicy())
    assert (found.outcome, found.models, found.families) == ("passed", ("gemini-x",), ("gemini",))
    assert asked(server) == ["gpt-x", "gemini-x"]


@pytest.mark.parametrize("by", [("claude-x",), ("claude-in-disguise",), ("nobodys",), ("claude-x", "claude-haiku-5-5")])
def test_whom_the_plan_names_is_not_asked_where_it_may_be_the_authors_family(
    desk: Desk, serve: Serve, by: tuple[str, ...]
) -> None:
    server = serve(reads_and_passes)
    found = desk.review(TWO, ReviewPolicy(by=by))
    assert (found.outcome, server.seen) == ("unreachable", [])
    assert "no model of another family than claude can be asked of those the plan names" in found.detail


def test_of_those_the_plan_names_the_first_of_another_family_is_asked_and_nobody_else(desk: Desk, serve: Serve) -> None:
    server = serve(lambda seen: Fault(kind="authentication"))
    desk.review(TWO, ReviewPolicy(by=("claude-x", "gemini-x")))
    assert asked(server) == ["gemini-x"]


def test_a_name_that_is_none_is_told_with_its_like(desk: Desk, serve: Serve) -> None:
    server = serve(reads_and_passes)
    found = desk.review(TWO, ReviewPolicy(by=("gpt-y",)))
    assert found.outcome == "not_configured" and "there is no model 'gpt-y'; did you mean" in found.detail
    assert server.seen == []


def test_where_a_key_is_wanting_it_is_named(desk: Desk, serve: Serve) -> None:
    server = serve(reads_and_passes, keyed="claude")
    found = desk.review(TWO, ReviewPolicy())
    assert (found.outcome, server.seen) == ("unreachable", [])
    assert "set NO_KEY_FOR_GPT or NO_KEY_FOR_GEMINI where reviews are done" in found.detail


@pytest.mark.parametrize(
    "author",
    [
        UNKNOWN,
        Author(agent="builtin", models=("m",)),
        Author(agent="codex"),
        Author(),
        Author(agent="builtin", models=("m", "n"), families=("claude", "unknown")),
    ],
)
def test_of_an_author_of_unknown_family_nobody_is_known_to_be_another(desk: Desk, serve: Serve, author: Author) -> None:
    server = serve(reads_and_passes)
    found = desk.review(TWO, ReviewPolicy(), author=author)
    assert (found.outcome, server.seen) == ("unreachable", [])
    assert "of no known family" in found.detail


def test_an_author_with_two_families_is_reviewed_by_a_third(desk: Desk, serve: Serve) -> None:
    both = Author(agent="builtin", models=("claude-x", "gpt-x"), families=("claude", "gpt"))
    server = serve(reads_and_passes)
    assert desk.review(TWO, ReviewPolicy(), author=both).families == ("gemini",)
    assert asked(server) == ["gemini-x"]


@pytest.mark.parametrize(("word", "families"), [("Anthropic", ("gpt",)), ("openai", ("gemini",))])
def test_a_family_by_its_vendors_name_is_the_same_family(
    desk: Desk, serve: Serve, word: str, families: tuple[str, ...]
) -> None:
    serve(
        reads_and_passes, route="[claude-x, gpt-x, gemini-x]" if word == "Anthropic" else "[gpt-x, gemini-x, claude-x]"
    )
    author = Author(agent="builtin", models=("m",), families=(word,))
    assert desk.review(TWO, ReviewPolicy(), author=author).families == families


def test_a_usage_limit_waits_until_it_ends(desk: Desk, serve: Serve, redis_url: str) -> None:
    desk.gate.settings = desk.gate.settings.model_copy(update={"broker_url": redis_url})
    serve(lambda seen: Fault(kind="usage_limit"), route="[gpt-x]")
    found = desk.review(TWO, ReviewPolicy())
    assert found.outcome == "infrastructure" and found.not_before is not None, found
    again = desk.review(TWO, ReviewPolicy(), request_id="r.one.1.review-2")
    assert (again.outcome, again.not_before) == ("infrastructure", found.not_before), "known to all, without asking"


def test_a_server_that_breaks_is_infrastructure(desk: Desk, serve: Serve) -> None:
    """A failed request is repeated for a while, and a stop in the meantime blames no entry."""
    server = serve(lambda seen: Fault(kind="server"), route="[gpt-x]")
    found = desk.review(TWO, ReviewPolicy(), stop=lambda: bool(server.seen))
    assert found.outcome == "infrastructure"


def test_what_it_may_cost_ends_it(desk: Desk, serve: Serve) -> None:
    server = serve(reads_and_passes)
    found = desk.review(TWO, ReviewPolicy(), cost_usd=0.0001)
    assert (found.outcome, server.seen) == ("limits", []), found
    assert "0.0001 USD" in found.detail


@pytest.mark.parametrize(
    "capped", [{"cost_usd": 1.0}, {"policy": ReviewPolicy(by=("unpriced",), limits=Limits(cost_usd=1))}]
)
def test_where_money_is_limited_nobody_without_a_price_is_asked(
    desk: Desk, serve: Serve, capped: dict[str, Any]
) -> None:
    server = serve(reads_and_passes)
    request = desk.request(desk.entry(TWO), ReviewPolicy(by=("unpriced",)))
    found = desk.conduct(request.model_copy(update=capped))
    assert (found.outcome, server.seen) == ("unreachable", []) and "its price is not known" in found.detail
    assert desk.conduct(request).outcome == "passed"


def test_an_account_that_is_closed_for_a_review_is_not_asked(desk: Desk, serve: Serve) -> None:
    serve(reads_and_passes, route="[gpt-x, gemini-x]")
    found = desk.review(TWO, ReviewPolicy(), closed_accounts=("gpt",))
    assert (found.outcome, found.families) == ("passed", ("gemini",))
    both = desk.review(TWO, ReviewPolicy(), closed_accounts=("gpt", "gemini"), request_id="r.one.1.review-2")
    assert both.outcome == "unreachable" and "raise that limit" in both.detail, both


def test_a_review_tells_how_long_it_waited_for_a_rate_limit(
    desk: Desk, serve: Serve, redis: Redis, redis_url: str
) -> None:
    """Another review is refused while this one reads."""
    desk.gate.settings = desk.gate.settings.model_copy(update={"broker_url": redis_url})
    pace = AccountPace(breaker=Breaker(client=redis))
    refused = PacedCall(model="m", input_tokens=1, most_output=1, counts_cached=True)

    def brain(seen: Seen) -> Say:
        if not seen.answered:
            pace.ask("gpt", refused)
            failure = ModelFailed("x", trouble="rate_limit", retry_after_s=1.0)
            pace.settle("gpt", refused, "refused", Usage(), failure)
        return reads_and_passes(seen)

    serve(brain, route="[gpt-x]")
    found = desk.review(TWO, ReviewPolicy())
    assert found.outcome == "passed" and found.waited_s > 0.5, found


def test_tokens_of_failed_tries_and_of_all_turns_are_counted_up_to_the_limit(desk: Desk, serve: Serve) -> None:
    used = Tokens(input=30_000, output=100)
    server = serve(lambda seen: Say(calls=[("read_file", {"path": "b"})], usage=used))
    found = desk.review(TWO, ReviewPolicy(), tokens=60_000)
    assert found.outcome == "limits"
    assert found.spent.tokens == 30_100 * len(server.seen) <= 60_200


def test_reviewers_of_a_debate_are_of_different_families_and_share_one_purse(desk: Desk, serve: Serve) -> None:
    """The first reviewer's second answer exceeds the budget, so the second reviewer does not start."""

    def brain(seen: Seen) -> Say:
        used = Tokens(input=30_000 if seen.answered else 20_000, output=1_000)
        return Say(calls=list(reads_and_passes(seen).calls), usage=used)

    server = serve(brain)
    found = desk.review(TWO, ReviewPolicy(reviewers=2))
    assert (found.outcome, found.families, found.spent.tokens) == ("passed", ("gpt", "gemini"), 104_000)
    assert asked(server) == ["gpt-x", "gemini-x"]
    short = desk.review(TWO, ReviewPolicy(reviewers=2), tokens=43_000, request_id="r.one.1.review-2")
    assert (short.outcome, short.families, short.spent.tokens) == ("passed", ("gpt",), 52_000)
    assert "gemini-x: what the review may cost was used up before it was asked" in short.summary


def test_turns_are_limited_by_the_policy(desk: Desk) -> None:
    endless = script(*(read("b", "a") if number % 2 else read("b") for number in range(9)))
    found = desk.review(TWO, ReviewPolicy(script=endless, limits=Limits(turns=3)))
    assert (found.outcome, found.spent.turns) == ("limits", 3)


def test_a_reviewer_that_takes_too_long_is_out_of_its_limits(desk: Desk) -> None:
    slow = script({"pause_s": 600, **read("a")})
    assert desk.review(TWO, ReviewPolicy(script=slow, limits=Limits(wall_s=0.3))).outcome == "limits"


def test_a_review_that_is_stopped_blames_nobody(desk: Desk) -> None:
    slow = script(read("a"), {"pause_s": 600, **verdict("pass")})
    began = desk.folder() / "1-critic.jsonl"
    found = desk.review(TWO, slow, stop=lambda: began.exists() and "read_file" in began.read_text())
    assert (found.outcome, found.not_before) == ("infrastructure", None)


def test_a_model_that_refuses_has_given_no_verdict(desk: Desk, serve: Serve) -> None:
    serve(lambda seen: Say(text="I can't help with that.", stop="refusal"))
    found = desk.review(TWO, ReviewPolicy())
    assert found.outcome == "void" and "refused" in found.detail


def test_a_scripted_reviewer_of_the_authors_family_is_not_asked(desk: Desk) -> None:
    """A script without a family is of the family `scripted`, as scripted authors are."""
    scripted = Author(agent="scripted", models=("scripted",), families=("scripted",))
    passes = script(read("a"), verdict("pass"), family=None)
    found = desk.review(TWO, passes, author=scripted)
    assert found.outcome == "unreachable" and "author's family (scripted)" in found.detail
    assert desk.review(TWO, passes, request_id="r.one.1.review-2").families == ("scripted",)
    other = script(read("a"), verdict("pass"), family="another")
    found = desk.review(TWO, other, author=scripted, request_id="r.one.1.review-3")
    assert (found.outcome, found.families, found.models) == ("passed", ("another",), ("scripted",))


@pytest.mark.parametrize("text", ["turns: [", "family: a b\nturns: [{say: x}]\n", "family: x\n"])
def test_a_script_that_is_none_is_told(desk: Desk, text: str) -> None:
    found = desk.review(TWO, text)
    assert found.outcome == "not_configured" and "script of reviewer 1" in found.detail


def test_a_script_without_a_turn_for_the_task_gives_no_verdict(desk: Desk) -> None:
    found = desk.review(TWO, script({"when": {"shown_contains": "another task"}, **read("a")}))
    assert found.outcome == "not_configured" and "the script has no turn for what it was shown" in found.detail


def test_a_script_has_turns_for_the_task_and_the_attempt(desk: Desk) -> None:
    other = read("b", when={"shown_contains": "Make it three"})
    own = read("a", when={"shown_contains": "Make it two"}, attempt=1)
    found = desk.review(TWO, script(other, own, verdict("pass")))
    assert (found.outcome, found.read) == ("passed", ("a",))


def test_a_conversation_begins_afresh_each_time(desk: Desk) -> None:
    """A request that is delivered again is reviewed again, and the earlier spending counts."""
    passes = script(read("a"), verdict("pass"))
    first, second = desk.review(TWO, passes), desk.review(TWO, passes)
    assert (first.outcome, second.outcome) == ("passed", "passed")
    assert (first.spent.turns, second.spent.turns) == (2, 4)
    assert sorted(desk.transcripts()) == ["1-critic", "1-critic-2"]
    for entries in desk.transcripts().values():
        assert [entry.phase for entry in entries if isinstance(entry, ConversationStarted)] == ["review"]


@pytest.mark.parametrize("how", ["away", "missing", "conflict", "stale"])
def test_what_cannot_be_composed_is_not_reviewed(desk: Desk, how: str) -> None:
    """No model is asked, and no entry is blamed."""
    entry = desk.entry(TWO)
    request = desk.request(entry, script(read("a"), verdict("pass")))
    if how == "away":
        desk.gate.hub.path.rename(desk.gate.folder / "away.git")
    elif how == "missing":
        lost = entry.model_copy(update={"commit": "1" * 40})
        request = request.model_copy(update={"entries": (lost,)})
    elif how == "conflict":
        request = request.model_copy(update={"base": desk.gate.hub.commit({"a": "3\n"})})
    else:
        first = desk.gate.hub.commit({"b": "2\n"}, branch="elsewhere", start="main~1")
        request = request.model_copy(update={"base": first})
    found = desk.conduct(request)
    wanted = {"away": "infrastructure", "missing": "infrastructure", "conflict": "conflict", "stale": "stale"}[how]
    assert (found.outcome, found.spent.turns) == (wanted, 0), found
    assert found.detail


def test_what_the_policy_lets_no_model_read_is_sent_to_none(desk: Desk, tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(
        "version: 1\nrules:\n"
        "  - {name: private, match: {tool: read_file, path: a}, decision: deny, reason: it is private}\n"
    )
    desk.gate.settings = desk.gate.settings.model_copy(update={"policy": policy})
    found = desk.review(TWO, script(read("a"), verdict("pass")))
    assert (found.outcome, desk.transcripts()) == ("unreachable", {})
    assert "no model may read a" in found.detail


def test_an_answer_survives_the_wire(desk: Desk) -> None:
    found = desk.review(TWO, script(read("a"), verdict("fail", finding("a"))))
    assert Review.model_validate_json(found.encode()) == found


def test_another_model_of_the_family_reviews_where_that_is_asked_for_and_is_told_as_such(
    desk: Desk, serve: Serve
) -> None:
    """Another family is asked first. If it has no key, another model of the author's family is asked."""
    author = Author(agent="builtin", models=("claude-opus-5-5",), families=("claude",))
    server = serve(reads_and_passes, keyed="claude")
    assert desk.review(TWO, ReviewPolicy(), author=author).outcome == "unreachable"
    found = desk.review(TWO, ReviewPolicy(), author=author, independence="other_model")
    assert (found.outcome, found.families, found.same_family) == ("passed", ("claude",), True), found
    assert "claude-opus-5-5" not in found.models and asked(server) == list(found.models)


def test_another_family_is_asked_first_all_the_same(desk: Desk, serve: Serve) -> None:
    serve(reads_and_passes)
    found = desk.review(TWO, ReviewPolicy(), independence="other_model")
    assert (found.models, found.same_family) == (("gpt-x",), False)
