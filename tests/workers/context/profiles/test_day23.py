"""The published 33-turn run: what is left of it to the byte, and its cost with a cache and without."""

from dataclasses import replace

import pytest
from day23 import LAST, PLAN, READS, SIZES, STRATEGIES, TEST, TESTS, WRITES, Talk, day23, drivers, final, rows, tokens

from forgepool.workers.context.edits.state import Moment, SummaryQuestion, SummaryReply
from forgepool.workers.context.profiles.pace import Pace, fork_history
from forgepool.workers.context.transcript.actions import deeds
from forgepool.workers.context.transcript.edit import Edit, show_turns
from forgepool.workers.context.view.view import wrong
from forgepool.workers.llm.messages import Turn
from forgepool.workers.tools.files.text_file import receipt

SUMMARY = "files_read:\n- pace/auth.py\nkey_decisions:\n- Sessions expire in the store, not in the API.\n" * 20


@pytest.fixture(scope="module")
def talk() -> Talk:
    return day23()


def _texts(turns: list[Turn]) -> dict[str, str]:
    return {result.call_id: result.text for turn in turns for result in turn.results}


def _live(talk: Talk) -> set[str]:
    """Return the call ids of results that nothing later replaces, from the published tables alone."""
    last_write = {path: turn for turn, path in WRITES.items()}
    found = set()
    for deed in talk.deeds:
        turn = (deed.turn + 1) // 2
        if deed.call.name == "read_file":
            live = last_write.get(READS[turn], 0) < turn
        else:
            live = deed.call.arguments.get("command") != TEST or deed.call.name != "bash" or turn == max(TESTS)
        if live:
            found.add(deed.call.id)
    return found


def test_the_run_has_the_published_measure(talk: Talk) -> None:
    """
    It has 33 turns and 69,000 tokens, split 45/23/22/10. The files' texts are in the calls, and receipts in the
    answers.
    """
    parts = drivers(talk)
    total = sum(parts.values())
    assert sum(turn.role == "assistant" for turn in talk.turns) == LAST and total == pytest.approx(69_000, rel=0.01)
    assert [round(100 * part / total) for part in parts.values()] == [45, 23, 22, 10]
    assert [deed.turn // 2 + 1 for deed in talk.deeds if deed.reads] == [*range(1, 14), 19, 21]
    assert [deed.turn // 2 + 1 for deed in talk.deeds if deed.command == TEST and deed.call.name == "bash"] == [*TESTS]
    written = [deed for deed in talk.deeds if deed.writes]
    assert [deed.turn // 2 + 1 for deed in written] == [14, 15, 20, 22, 23, 24]
    for deed, size in zip(written, SIZES.values(), strict=True):
        body = str(deed.call.arguments["content"])
        assert len(body) == pytest.approx(size * 60_000 / 50_766, abs=1)
        assert deed.result.text == receipt(len(body), deed.writes[0].path, deed.turn // 2 + 1)


def test_the_first_stage_leaves_all_that_is_live_and_little_else(talk: Talk) -> None:
    """
    At most 11,000 of 69,000 tokens stay, with no model asked. Live results stay to the byte, and others become
    placeholders.
    """
    edit = final(Pace(), talk)
    view = show_turns(talk.turns, edit)
    assert wrong(talk.turns, edit) is None and tokens(view) <= 11_000
    before, now, live = _texts(talk.turns), _texts(view), _live(talk)
    assert len(live) == 11
    assert {call for call, text in now.items() if text == before[call]} == live
    for deed in talk.deeds:
        if deed.call.id not in live:
            path = deed.reads[0].path if deed.reads else ""
            gone = f"[evicted: {path} was read here but has since been written — see current version on disk]"
            dedup = "[dedup: pytest -v --tb=short — see most recent output later in history]"
            assert now[deed.call.id] == (gone if path else dedup)
    assert [call.id for turn in view for call in turn.calls] == [deed.call.id for deed in talk.deeds]


def test_the_run_is_read_as_it_is_meant(talk: Talk) -> None:
    """The rules for any conversation give the same view."""
    found = deeds(talk.turns, tests=(TEST,))
    assert [(one.step, one.turn, one.writes) for one in found] == [
        (one.step, one.turn, one.writes) for one in talk.deeds
    ]
    assert final(Pace(), replace(talk, deeds=found)) == final(Pace(), talk)


def test_every_view_on_the_way_is_one_that_can_be_shown(talk: Talk) -> None:
    """Each stage leaves results that the model has not seen yet unchanged."""
    pace, edit = Pace(), Edit()
    for turns in range(1, len(talk.turns) + 1, 2):
        proposal = pace.propose(talk.state(edit, turns=turns), Moment(cause="call"))
        edit = proposal.edit if proposal else edit
        assert wrong(talk.turns[:turns], edit) is None
        assert show_turns(talk.turns[:turns], edit)[-1] == talk.turns[turns - 1]


def test_the_published_code_takes_what_was_just_read(talk: Talk) -> None:
    """Its set has no order, so the answer of turn 21 goes before it is seen. Ours keeps it to the end."""
    turns = 1 + 2 * 21
    coded = Pace(order_aware=False, write_bodies=False).propose(talk.state(turns=turns), Moment(cause="call"))
    ours = Pace().propose(talk.state(turns=turns), Moment(cause="call"))
    assert coded is not None and ours is not None
    assert show_turns(talk.turns[:turns], coded.edit)[-1].results[0].text.startswith("[evicted: tests/test_auth.py ")
    assert show_turns(talk.turns[:turns], ours.edit)[-1] == talk.turns[turns - 1]
    assert wrong(talk.turns[:turns], coded.edit) is not None


def test_both_costs_of_every_strategy_are_told(talk: Talk) -> None:
    """Without a cache, eviction wins. With one, it loses before every call and wins when done rarely."""
    found = {row.name: row for row in rows()}
    assert list(found) == [name for name, _ in STRATEGIES]
    assert found["unmanaged"].final == pytest.approx(69_500, rel=0.02)
    assert found["as coded"].final == pytest.approx(23_000, rel=0.02)
    assert found["+ bodies"].final == tokens(show_turns(talk.turns, final(Pace(), talk))) <= 11_000
    assert found["+ bodies"].input < 0.5 * found["unmanaged"].input
    assert found["as coded"].units > 1.4 * found["unmanaged"].units
    assert found["+ bodies"].units > 1.3 * found["unmanaged"].units
    for limit in ("25,000", "40,000"):
        assert found[f"+ batched above {limit}"].units < 0.9 * found["unmanaged"].units
    assert found["unmanaged"].written == found["unmanaged"].peak
    assert found["unmanaged"].units == pytest.approx(207_000, rel=0.05)
    assert all("no cache=" in str(row) and "cached=" in str(row) for row in found.values())


def test_a_fork_at_turn_14_begins_small(talk: Talk) -> None:
    """At most 5,000 of 32,000 tokens: the exact card, the summary, and the plan last, with or without a model."""
    state = talk.state(turns=1 + 2 * 13)
    for summary in ("", SUMMARY):
        opening = fork_history(state, summary, PLAN)
        assert [turn.role for turn in opening] == ["user", "assistant", "user"]
        assert tokens(list(opening)) <= 5_000 < tokens(list(state.turns)) / 6
        assert opening[0] == talk.turns[0] and PLAN.strip() in opening[2].text
        assert summary.strip() in opening[1].text and "files_read:" in opening[1].text


def test_a_conversation_forks_by_itself_where_its_plan_is_committed(talk: Talk) -> None:
    """It happens once, within one conversation, without a model. The answer to `commit_plan` stays."""

    def ask(question: SummaryQuestion) -> SummaryReply:
        raise AssertionError(question.instruction)

    state = talk.state(turns=1 + 2 * 13)
    proposal = Pace(fork=True).propose(state, Moment(cause="call", ask=ask))
    assert proposal is not None and proposal.once == "pace-fork" and proposal.replies == ()
    view = show_turns(state.turns, proposal.edit)
    assert wrong(state.turns, proposal.edit) is None and tokens(view) <= 5_000
    assert [turn.role for turn in view] == ["user", "assistant", "user", "assistant", "user"]
    assert PLAN.strip() in view[2].text and view[3:] == talk.turns[25:27]
    again = Pace(fork=True).propose(state, Moment(cause="call", fired=frozenset({"pace-fork"})))
    assert again is not None and again.once == "" and again.edit.cut == 1
    assert Pace(fork=True).propose(talk.state(proposal.edit, turns=29), Moment(cause="call")) is None
