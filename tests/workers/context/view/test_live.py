"""A live context: the causes of a rebuild, its record in the transcript, and the same view in another process."""

import time
from dataclasses import replace
from pathlib import Path

import pytest
from alive import CARD, LIKE, WITH_COMPACT, Alive, Stand, cutting, long
from hypothesis import given, settings
from hypothesis import strategies as st

from forgepool.workers.context.edits.state import ContextState, EditProposal, Moment, SummaryQuestion, SummaryReply
from forgepool.workers.context.profiles.registry import names
from forgepool.workers.context.transcript.edit import Edit
from forgepool.workers.context.transcript.entries import (
    ConversationStarted,
    Noted,
    Profiled,
    Rebuilt,
    Summoned,
    TurnSaid,
    now,
)
from forgepool.workers.context.transcript.exchanges import exchanges
from forgepool.workers.context.transcript.loop_detection import stuck
from forgepool.workers.context.transcript.usage import estimate_tokens
from forgepool.workers.context.view.live import Before
from forgepool.workers.llm.messages import Text, ToolCall, ToolResult, Usage, user
from forgepool.workers.llm.provider import ModelRequest
from forgepool.workers.tools.commands.red_phase import CONFIRM
from forgepool.workers.tools.files.text_file import READ_FILE
from forgepool.workers.tools.tool import carry_out

LONG_AGO = time.time() - 400.0


def read(alive: Alive, path: str) -> str:
    """Return what the agent sees of a file."""
    call = ToolCall(id="r", name="read_file", arguments={"path": path})
    return carry_out(call, (READ_FILE,), alive.workplace).text


def test_a_long_conversation_is_rebuilt_and_all_that_was_dropped_can_be_read(tmp_path: Path) -> None:
    """The agent reads it by the path in the transcript. The card stays, and the last result is complete."""
    with Alive(tmp_path) as alive:
        for number in range(30):
            last = alive.call(answer=long(number))
        (first, *_) = alive.rebuilds
        assert first.edit is not None and first.after_tokens < first.before_tokens / 2
        assert first.dropped[0] == 1 and first.archive == str(alive.workplace.outputs / "steps")
        shown = alive.context.request.turns
        assert shown[0].text.startswith(CARD) and shown[-1].results[-1].text == last.result.text
        assert "value_0 " not in alive.shown.decode()
        for step in first.dropped:
            path = Path(first.archive, f"step-{step}.txt")
            assert path.read_text() == long(step - 1)
        seen = read(alive, f"{first.archive}/step-1.txt")
        assert seen.count("value_0 = compute_0(argument_0)") == long(0).count("\n") - 1
        assert f"src/f{first.dropped[-1]}.py" in Path(first.archive, f"step-{first.dropped[-1]}.call.txt").read_text()


def test_each_rebuild_tells_only_of_what_it_drops_itself(tmp_path: Path) -> None:
    """All records together name each step once."""
    with Alive(tmp_path) as alive:
        for number in range(60):
            alive.call(answer=long(number))
        told = [step for entry in alive.rebuilds for step in entry.dropped]
        assert len(alive.rebuilds) > 2 and told == sorted(set(told))


@pytest.mark.parametrize("name", names())
def test_another_process_shows_the_same_byte_for_byte(tmp_path: Path, name: str) -> None:
    """
    This holds for every profile: after each step a process that reads the file from its start sends the same request.
    """
    with Alive(tmp_path, name, window_tokens=30_000) as alive:
        for number in range(24):
            # Every third call is repeated, and every file is read before it is written.
            tool = ("read_file", "write_file", "bash")[number % 3]
            told = {"path": f"src/f{number // 6}.py"} if tool != "bash" else {"command": "pytest -q"}
            more = {"content": "new\n"} if tool == "write_file" else {}
            alive.call(tool, long(number // 3, 3_000), **told, **more)
            alive.context.prepare()
            with Alive(tmp_path, name, window_tokens=30_000, place="there") as other:
                assert other.shown == alive.shown
                other.context.prepare()
                assert other.shown == alive.shown, "nothing new has happened"


def test_who_goes_on_elsewhere_has_the_whole_results_there(tmp_path: Path) -> None:
    """Dropped and shortened results are in its own folder under the same names."""
    capped = long(99, 40_000)
    with Alive(tmp_path) as alive:
        entered = alive.call("grep", capped, pattern="a")
        for number in range(30):
            alive.call(answer=long(number))
        last = alive.call("grep", capped + "more\n", pattern="b")
        assert alive.rebuilds and entered.shortened == last.shortened == "cap"
        assert str(alive.workplace.outputs / "steps/step-32.txt") in last.result.text
        assert (alive.workplace.outputs / "steps/step-32.txt").read_text() == capped + "more\n"
        dropped = alive.rebuilds[-1].dropped[-1]
    with Alive(tmp_path, place="there") as other:
        steps = other.workplace.outputs / "steps"
        assert not steps.exists()
        other.context.restore()
        assert (steps / "step-1.txt").read_text() == capped
        assert (steps / "step-32.txt").read_text() == capped + "more\n"
        assert (steps / f"step-{dropped}.txt").read_text() == long(dropped - 2)


def test_nothing_is_dropped_that_cannot_be_kept(tmp_path: Path) -> None:
    """Something of the agent's is in the folder's place. The view stays, and the transcript gives the reason."""
    with Alive(tmp_path, Stand(cutting)) as alive:
        alive.workplace.outputs.mkdir(parents=True)
        (alive.workplace.outputs / "steps").symlink_to(tmp_path)
        alive.call()
        alive.call()
        before = alive.context.view.shown
        alive.context.prepare()
        assert alive.context.view.shown == before
        assert alive.rebuilds[-1].edit is None and "could not be kept" in alive.rebuilds[-1].why
        assert alive.rebuilds[-1].dropped == () and alive.rebuilds[-1].archive == ""


def test_the_profile_is_not_asked_before_the_model_has_answered(tmp_path: Path) -> None:
    stand = Stand(cutting)
    with Alive(tmp_path, stand) as alive:
        alive.context.prepare()
        assert stand.causes == [] and not alive.context.note_overflow()
        alive.call()
        alive.context.prepare()
        assert stand.causes == ["call"]


def test_a_cold_cache_is_a_cause_and_a_warm_one_is_none(tmp_path: Path) -> None:
    """The time of the model's last answer in the transcript decides, for another process, too."""
    stand = Stand()
    with Alive(tmp_path, stand) as alive:
        alive.call(at=LONG_AGO)
        alive.context.prepare()
        alive.call(at=time.time() - 200.0)
        alive.context.prepare()
        assert stand.causes == ["cold", "cold", "call"]
    other = Stand()
    with Alive(tmp_path, other) as again:
        again.call(at=LONG_AGO)
        again.context.prepare()
    assert other.causes == ["call", "cold"]


def test_a_cold_cache_makes_the_ledger_rebuild_what_it_would_still_leave(tmp_path: Path) -> None:
    """Without a cache, everything has to be paid for in any case."""
    sizes = []
    for name, at in (("warm", None), ("cold", LONG_AGO)):
        with Alive(tmp_path / name) as alive:
            for number in range(5):
                alive.call(answer=long(number), at=None if number < 4 else at)
            alive.context.prepare()
            sizes.append(len(alive.rebuilds))
    assert sizes == [0, 1]


def test_a_model_that_has_had_no_part_has_nothing_in_its_cache(tmp_path: Path) -> None:
    """This ends with its first answer."""
    with Alive(tmp_path, Stand()) as alive:
        alive.call()
    stand = Stand()
    with Alive(tmp_path, stand, unseen=True) as alive:
        alive.context.prepare()
        alive.call()
        alive.context.prepare()
    assert stand.causes == ["cold", "cold", "call"]


def test_what_the_agent_called_last_is_a_cause(tmp_path: Path) -> None:
    """It may be any call of the turn, must have succeeded, and counts once."""
    stand = Stand()
    with Alive(tmp_path, stand, like=WITH_COMPACT) as alive:
        alive.call("compact", "OK", reason="full")
        alive.call(CONFIRM, "no", is_error=True, command="pytest")
        alive.call(CONFIRM, "OK: confirmed", command="pytest")
        alive.call()
        alive.context.prepare()
    assert stand.causes == ["wish", "call", "red", "call"]


def test_a_switch_changes_the_next_view_and_is_in_the_transcript(tmp_path: Path) -> None:
    wished: list[str] = []
    with Alive(tmp_path, "off", wanted=lambda: wished[-1] if wished else None) as alive:
        for number in range(8):
            alive.call(answer=long(number))
        before = alive.shown
        wished.append("ledger")
        alive.context.prepare()
        assert len(alive.shown) < len(before) / 2
        (chosen,) = [entry for entry in alive.transcript.entries if isinstance(entry, Profiled)]
        assert (chosen.profile, chosen.by) == ("ledger", "a person")
        assert [entry.cause for entry in alive.rebuilds] == ["switch"]
        assert alive.call("grep", long(90, 200_000), pattern="a").shortened == "cap", "its birth transforms, too"
        assert alive.call(answer=long(7)).shortened == "identical", "to what was let in before"
    with Alive(tmp_path, "off") as other:
        assert other.shown == alive.shown


def test_a_switch_that_was_answered_is_no_cause_again(tmp_path: Path) -> None:
    """One left open by a dead process is the next one's cause, until the model has answered."""
    with Alive(tmp_path, "off") as alive:
        for number in range(8):
            alive.call(answer=long(number))
        alive.transcript.append(Profiled(at=now(), profile="ledger", by="a person"))
    for number in range(3):
        with Alive(tmp_path, "off") as other:
            other.call(answer=long(number))
            assert [entry.cause for entry in other.rebuilds] == ["switch"]


def test_a_profile_nobody_knows_is_said_once_and_changes_nothing(tmp_path: Path) -> None:
    with Alive(tmp_path, "off", wanted=lambda: "ledgre") as alive:
        for _ in range(3):
            alive.call()
        noted = [entry.text for entry in alive.transcript.entries if isinstance(entry, Noted)]
        assert len(noted) == 1 and "write 'ledger'" in noted[0]
        assert not any(isinstance(entry, Profiled) for entry in alive.transcript.entries)


def test_an_overflow_is_answered_by_one_rebuild_until_the_model_has_answered_in_full(tmp_path: Path) -> None:
    """An answer that itself ran into the end of the window does not count."""
    stand = Stand(lambda state, moment: cutting(state, moment) if moment.cause == "overflow" else None)
    with Alive(tmp_path, stand) as alive:
        for _ in range(3):
            alive.call()
        assert alive.context.note_overflow() and not alive.context.note_overflow()
        alive.call(stop="overflow")
        assert not alive.context.note_overflow()
    with Alive(tmp_path, stand) as other:
        assert not other.context.note_overflow(), "another process knows of it"
        other.call()
        assert other.context.note_overflow()


def test_an_overflow_that_nothing_is_done_about_is_the_old_way(tmp_path: Path) -> None:
    with Alive(tmp_path, "off") as alive:
        for _ in range(5):
            alive.call()
        assert not alive.context.note_overflow()
        assert alive.rebuilds == []


def test_after_a_rebuild_tokens_are_estimated_by_characters(tmp_path: Path) -> None:
    """A count for the longer conversation says nothing about this one, until the next answer."""
    stand = Stand(lambda state, moment: cutting(state, moment) if moment.cause == "overflow" else None)
    counted = Usage(input_tokens=90_000, output_tokens=10)
    with Alive(tmp_path, stand) as alive:
        alive.call()
        alive.call(usage=counted)
        assert estimate_tokens(alive.context.request) > 90_000
        assert alive.context.note_overflow()
        assert estimate_tokens(alive.context.request) < 3_000
        assert estimate_tokens(replace(alive.context.request, rebuilt=False)) > 90_000
        with Alive(tmp_path, stand) as other:
            assert other.context.request.rebuilt
        alive.call(usage=counted)
        assert estimate_tokens(alive.context.request) > 90_000


def test_what_is_asked_once_is_written_down_before_and_never_asked_again(tmp_path: Path) -> None:
    """A process that dies while the model thinks leaves a record that it asked."""

    def asking(state: ContextState, moment: Moment) -> EditProposal | None:
        reply = moment.ask(SummaryQuestion(kind="prose", instruction="Sum up.", once="the summary"))
        return EditProposal(edit=state.edit, why=reply.text or reply.why_not)

    asked: list[str] = []
    secured: list[bool] = []

    def dies(question: SummaryQuestion, request: ModelRequest, before: Before) -> SummaryReply:
        before()
        asked.append(question.once)
        assert secured, "it is where others find it"
        raise KeyboardInterrupt

    with Alive(tmp_path, Stand(asking)) as alive:
        alive.context.ask = dies
        alive.context.secure = lambda: not secured.append(isinstance(alive.transcript.entries[-1], Summoned))
        alive.call()
        with pytest.raises(KeyboardInterrupt):
            alive.context.prepare()
    assert asked == ["the summary"] and secured == [True]
    with Alive(tmp_path, Stand(asking), ask=dies) as other:
        for _ in range(3):
            other.call()
    assert asked == ["the summary"]


def test_what_models_were_asked_is_in_the_transcript_whatever_came_of_it(tmp_path: Path) -> None:
    """The profile may then propose nothing, or something invalid. Without a question nothing is recorded."""
    usage = Usage(input_tokens=100, output_tokens=10, cost_usd=0.5)
    ends: list[EditProposal | None] = [
        None,
        EditProposal(edit=Edit(cut=400), why="nonsense"),
        EditProposal(edit=Edit(), why="as it is"),
    ]

    def asking(state: ContextState, moment: Moment) -> EditProposal | None:
        for _ in range(2):
            moment.ask(SummaryQuestion(kind="prose", instruction="Sum up."))
        return ends[0]

    secured: list[int] = []
    with Alive(tmp_path, Stand(asking)) as alive:
        alive.context.ask = lambda question, request, before: SummaryReply(text="so", usage=usage)
        alive.context.secure = lambda: not secured.append(len(alive.rebuilds))
        alive.call(at=LONG_AGO)
        for _ in range(3):
            alive.call(at=LONG_AGO)
            ends.append(ends.pop(0))
        told = [(entry.edit, entry.calls, entry.usage.cost_usd) for entry in alive.rebuilds]
        assert told == [(None, 2, 1.0)] * 3
        assert "cannot be shown" in alive.rebuilds[1].why
        assert secured == [1, 2, 3], "who goes on does not pay again"
        alive.context.ask = lambda question, request, before: "nobody is there"
        for _ in range(3):
            alive.call(at=LONG_AGO)
            ends.append(ends.pop(0))
        assert [entry.calls for entry in alive.rebuilds] == [2, 2, 2, 0], "but for what cannot be shown"


def test_what_came_to_nothing_is_not_proposed_before_every_call(tmp_path: Path) -> None:
    """It waits until the request has grown by a tenth, except for a request of the agent or a cold cache."""
    stand = Stand(lambda state, moment: EditProposal(edit=Edit(cut=400), why="nonsense"))
    with Alive(tmp_path, stand) as alive:
        alive.call(answer="x" * 20_000)
        for _ in range(10):
            alive.call()
        alive.context.prepare()
        assert len(alive.rebuilds) == len(stand.causes) < 5
        alive.call(at=LONG_AGO)
        before = len(stand.causes)
        alive.context.prepare()
        assert len(stand.causes) == before + 1


def test_the_nudge_names_a_tool_that_is_there(tmp_path: Path) -> None:
    """After a switch during a conversation the agent may lack the tool, and a call would fail."""
    for like in (LIKE, WITH_COMPACT):
        with Alive(tmp_path / str(len(like.tools)), "advisory", like=like, window_tokens=2_000) as alive:
            for _ in range(20):
                alive.call()
            nudges = [
                entry
                for entry in alive.transcript.entries
                if isinstance(entry, TurnSaid) and entry.turn.role == "user" and "call `compact`" in entry.turn.text
            ]
            assert len(nudges) == (like is WITH_COMPACT)


def test_a_result_that_was_there_before_is_told_as_that(tmp_path: Path) -> None:
    """The transcript has all of it. A result that is no longer shown is not referred to."""
    with Alive(tmp_path, "ledger-lossless") as alive:
        first, second = alive.call(answer=long(1), path="a.py"), alive.call(answer=long(1), path="a.py")
        assert (first.whole, first.shortened) == ("", "")
        assert second.shortened == "identical" and second.whole == long(1)
        assert second.result.text == "[identical to the result of step 1 (read_file a.py)]"
        edit = Edit(cut=3, head=(user(Text(text="Gone.")),))
        alive.transcript.append(
            Rebuilt(
                at=now(),
                profile="x",
                cause="call",
                why="",
                edit=edit,
                before_tokens=2,
                after_tokens=1,
                window_tokens=9,
            )
        )
        alive.context.catch_up()
        assert alive.call(answer=long(1), path="a.py").shortened == "", "step 1 is cut away"


def test_who_goes_in_circles_is_seen_though_results_enter_shortened(tmp_path: Path) -> None:
    """Loop detection and the next phase use the tools' full results."""
    with Alive(tmp_path) as alive:
        for number in range(3):
            found = alive.call("grep", long(1), pattern="value")
            assert found.shortened == ("identical" if number else "")
        assert {one.result.text for one in exchanges(alive.transcript.entries)} == {long(1)}
        assert "the same call of grep gave the same answer 3 times" in (stuck(alive.transcript.entries, "plan") or "")


def test_another_conversation_begins_with_nothing_of_the_one_before(tmp_path: Path) -> None:
    """An edit that happens once for a task counts as done in its next conversation as well."""
    fired: list[frozenset[str]] = []

    def noting(state: ContextState, moment: Moment) -> EditProposal:
        fired.append(moment.fired)
        return cutting(state, moment)

    with Alive(tmp_path, Stand(noting)) as alive:
        for _ in range(3):
            alive.call()
        assert alive.context.note_overflow() and alive.context.request.rebuilt
        alive.transcript.append(Summoned(at=now(), once="the summary"))
        alive.transcript.append(ConversationStarted(at=now(), order_id="r.t.1", model="m", system=(), tools=()))
        alive.transcript.append(TurnSaid(at=now(), turn=user(Text(text="Another card"))))
        alive.context.catch_up()
        assert [turn.text for turn in alive.context.request.turns] == ["Another card"]
        assert not alive.context.request.rebuilt and alive.context.view.rebuilds == 0
        alive.call()
        assert set(fired) == {frozenset()}
        alive.context.prepare()
        assert fired[-1] == frozenset({"the summary"})


@given(sizes=st.lists(st.integers(10, 12_000), min_size=1, max_size=40), name=st.sampled_from(names()))
@settings(max_examples=40, deadline=None)
def test_whatever_happens_the_newest_is_shown_and_all_else_can_be_read(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], name: str
) -> None:
    """The card and the last turn are exact, and everything not shown can be read byte for byte."""
    folder = tmp_path_factory.mktemp("alive")
    with Alive(folder, name, window_tokens=12_000) as alive:
        wholes = []
        for number, size in enumerate(sizes):
            wholes.append(long(number % 7, size))
            last = alive.call(answer=wholes[-1], path=f"f{number % 7}.py")
            alive.context.prepare()
        shown = alive.context.request.turns
        assert shown[0].parts[0] == Text(text=CARD)
        assert shown[-1].results[-1] == last.result
        texts = {part.text for turn in shown for part in turn.parts if isinstance(part, ToolResult)}
        for step, whole in enumerate(wholes, start=1):
            archived = alive.workplace.outputs / f"steps/step-{step}.txt"
            kept = archived.read_text() if archived.exists() else ""
            entered = alive.context.view.deeds[step - 1].result.text
            assert whole in texts or kept == whole or (entered in texts and entered.startswith("["))


def test_another_tenth_of_the_window_is_told_once(tmp_path: Path) -> None:
    told: list[tuple[str, int]] = []
    with Alive(tmp_path, "off", window_tokens=4_000, filled=lambda *said: told.append(said)) as alive:
        for _ in range(12):
            alive.call(answer="x" * 800)
    tenths = [10 * tokens // 4_000 for _, tokens in told]
    assert tenths == sorted(set(tenths)) and len(tenths) > 3
    assert {name for name, _ in told} == {"off"}
