"""
PACE: what it drops and what it never drops, an unreliable summariser, and one plan that begins a new conversation.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest
from day23 import Act, Talk, read, run, write
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import JsonValue

from forgepool.workers.context.edits.masks import SURVEY_TITLE
from forgepool.workers.context.edits.state import (
    Cause,
    ContextState,
    EditProposal,
    Moment,
    SummaryQuestion,
    SummaryReply,
    nobody,
)
from forgepool.workers.context.profiles.pace import Pace, fork_history
from forgepool.workers.context.transcript.edit import Edit, show_turns
from forgepool.workers.context.view.view import wrong
from forgepool.workers.llm.messages import Opaque, Text, ToolCall, Usage, user
from forgepool.workers.llm.wires.normal_forms import alternating
from forgepool.workers.shell.purpose.file_access import Write
from forgepool.workers.tools.files.text_file import receipt

CALL = Moment(cause="call")
GONE = "[evicted: pace/auth.py was read here but has since been written — see current version on disk]"
AUTH = "pace/auth.py"
LOOK = Act(tool="glob", arguments={"pattern": "*"}, answer="a.py")


def talk(*turns: Act | tuple[Act, ...], card: str = "Sessions expire.") -> Talk:
    """Return a conversation with one turn of the model for each; it has not seen the last results."""
    found = Talk()
    found.hear(card)
    for acts in turns:
        found.do("", *(acts if isinstance(acts, tuple) else (acts,)))
    return found


def results(found: Talk, pace: Pace | None = None, edit: Edit | None = None) -> dict[int, str]:
    """Return what replaces the result of each step."""
    proposal = (pace or Pace()).propose(found.state(edit), CALL)
    return dict(proposal.edit.results) if proposal else {}


def inputs(found: Talk, pace: Pace | None = None) -> dict[int, Mapping[str, JsonValue]]:
    proposal = (pace or Pace()).propose(found.state(), CALL)
    return dict(proposal.edit.inputs) if proposal else {}


def edited(path: str = AUTH, *, failed: bool = False) -> Act:
    writes = (Write(path=path, how="edit", characters=9),)
    return Act(tool="edit_file", arguments={"path": path, "new": "x" * 900}, answer="OK", writes=writes, failed=failed)


def shell(command: str, *writes: str, answer: str = "") -> Act:
    written = tuple(Write(path=path, how="shell") for path in writes)
    return Act(tool="bash", arguments={"command": command}, answer=answer or f"ran {command}", writes=written)


def test_the_placeholders_are_the_published_ones() -> None:
    found = talk(read(AUTH, 900), run("pytest -v --tb=short", 900, "a"), edited(), shell("pytest -v --tb=short"), LOOK)
    dedup = "[dedup: pytest -v --tb=short — see most recent output later in history]"
    assert results(found) == {1: GONE, 2: dedup}
    assert receipt(1247, "pace/auth.py", 14) == "OK: wrote 1,247 bytes to pace/auth.py (iter 14)"


def test_a_read_after_the_last_write_stays() -> None:
    """Earlier writes do not matter. The published code drops it."""
    found = talk(read(AUTH, 900), edited(), read(AUTH, 800), edited("pace/api.py"), LOOK, LOOK)
    assert results(found) == {1: GONE}
    assert results(found, Pace(order_aware=False, write_bodies=False)) == {1: GONE, 3: GONE}
    assert results(talk(read(AUTH, 900), edited(), read(AUTH, 800), edited(), LOOK)) == {1: GONE, 3: GONE}
    cat = replace(read(AUTH, 900), tool="bash", arguments={"command": "cat pace/auth.py"})
    assert results(talk(cat, edited(), cat, LOOK)) == {1: GONE}


def test_what_the_model_has_not_seen_stays() -> None:
    """A file is read and written in one turn, or a command runs twice in one."""
    both = (read(AUTH, 900), edited(), shell("make", answer="one"), shell("make", answer="two"))
    assert results(talk(LOOK, both)) == {}
    assert sorted(results(talk(LOOK, both, LOOK))) == [2, 4]


def test_a_write_that_failed_wrote_nothing() -> None:
    assert results(talk(read(AUTH, 900), edited(failed=True), LOOK)) == {}


def test_a_read_of_several_files_stays_until_all_were_written() -> None:
    """A part of it is still current."""
    first = read("a.py", 900)
    two = replace(first, reads=(*first.reads, *read("b.py", 9).reads))
    assert results(talk(two, edited("a.py"), LOOK)) == {}
    gone = results(talk(two, edited("a.py"), edited("b.py"), LOOK))
    assert gone == {1: GONE.replace("pace/auth.py", "a.py, b.py")}


def test_what_a_command_wrote_counts_and_so_does_a_folder() -> None:
    """The commands are `sed -i` and a moved folder. A path that only begins with the folder's name is another."""
    assert results(talk(read(AUTH, 900), shell("sed -i s/a/b/ pace/auth.py", AUTH), LOOK)) == {1: GONE}
    both = (read(AUTH, 900), read("pacemaker.py", 900))
    assert results(talk(both, shell("mv pace old", "pace"), LOOK)) == {1: GONE}
    assert sorted(results(talk(both, shell("git checkout .", "."), LOOK))) == [1, 2]


def test_a_command_that_failed_at_a_later_part_may_have_written() -> None:
    """`sed -i ... && pytest` fails in the tests. A tool that failed did nothing."""
    both = replace(shell("sed -i s/a/b/ pace/auth.py && pytest", AUTH), failed=True)
    assert results(talk(read(AUTH, 900), both, LOOK)) == {1: GONE}


def test_what_a_command_printed_beside_a_file_stays() -> None:
    """It is not on the disk."""
    cat = replace(read(AUTH, 900), does=frozenset({"read"}))
    assert results(talk(cat, edited(), LOOK)) == {1: GONE}
    assert results(talk(replace(cat, does=frozenset({"read", "run"})), edited(), LOOK)) == {}


def test_only_the_newest_run_of_the_same_command_stays() -> None:
    """The command must be identical, and failures count as well."""
    found = talk(
        *(run("pytest -q", 300, f"{number}", failed=number == 1) for number in range(3)), shell("pytest  -q"), LOOK
    )
    dedup = "[dedup: pytest -q — see most recent output later in history]"
    assert results(found) == {1: dedup, 2: dedup}


def test_what_runs_on_in_the_background_is_never_the_same() -> None:
    """Each answer names its own job. A failure that the harness confirmed is evidence."""
    for tool in ("bash_background", "confirm_red_phase"):
        act = Act(tool=tool, arguments={"command": "make serve"}, answer="job 1")
        assert results(talk(act, act, shell("make serve"), LOOK)) == {}


def test_a_placeholder_does_not_repeat_a_script() -> None:
    """It would be longer than the result."""
    script = "python - <<'EOF'\n" + "print(1)\n" * 100
    assert results(talk(shell(script, answer="1"), shell(script, answer="1"), LOOK)) == {}
    assert sorted(results(talk(shell(script, answer="1" * 5_000), shell(script, answer="1"), LOOK))) == [1]


def test_what_a_later_result_refers_to_stays_and_comes_back() -> None:
    """A result that arrived as "identical to step 1" shows only what step 1 shows."""
    first, second = run("pytest -q", 900, "a"), run("pytest -q", 900, "a")
    born = replace(second, answer="[identical to the result of step 1 (pytest -q)]", born=first.answer)
    assert results(talk(first, born, LOOK)) == {}
    assert results(talk(first, run("make", 9, "a"), LOOK)) == {}
    other = replace(born, arguments={"command": "pytest -q -x"})
    hid = {1: "[dedup: pytest -q — see most recent output later in history]"}
    assert results(talk(first, second, LOOK)) == hid
    assert Pace().propose(talk(first, second, other, LOOK).state(Edit(results=hid)), CALL) == EditProposal(
        edit=Edit(), why="0 results of earlier reads and runs, and the text of 0 writes, are out of date"
    )
    again = talk(first, second, other, replace(other, answer="x" * 900, born=""), LOOK)
    assert sorted(results(again)) == [1, 3]
    chained = replace(other, answer="[identical to the result of step 2 (pytest -q)]")
    assert results(talk(first, born, chained, second, LOOK)) == {}


def test_a_written_text_gives_way_when_it_is_old_or_written_again() -> None:
    """Four exchanges are left for working with it. The path stays, and the disk has the text."""
    body = write(AUTH, 1_247, 1)
    line = "[elided: 1,247 characters, written to pace/auth.py — see current version on disk]"
    assert inputs(talk(body, LOOK, LOOK, LOOK)) == {}
    assert inputs(talk(body, LOOK, LOOK, LOOK, LOOK)) == {1: {"path": AUTH, "content": line}}
    assert inputs(talk(body, edited(), LOOK)) == {1: {"path": AUTH, "content": line}}
    assert inputs(talk(body, edited("b.py"), LOOK)) == {}
    assert list(inputs(talk(body, write(AUTH, 1_300, 2), LOOK, LOOK, LOOK))) == [1]
    assert inputs(talk(body, edited()), Pace(write_bodies=False)) == {}


def test_what_was_not_written_whole_or_is_short_stays_in_its_call() -> None:
    """An edit's text is nowhere else, and neither is that of a failed write."""
    failed = replace(write(AUTH, 1_247, 1), failed=True)
    assert inputs(talk(edited(), failed, write("a.py", 20, 3), *[LOOK] * 6)) == {}


def test_superseded_reads_give_way_only_where_that_is_wanted() -> None:
    """A later read must have all of their lines."""
    again = talk(read(AUTH, 900), read(AUTH, 900), LOOK)
    assert results(again) == {}
    assert results(again, Pace(superseded_reads=True)) == {
        1: "[dedup: read pace/auth.py — see most recent output later in history]"
    }
    wide, narrow = read(AUTH, 900, first=1, last=50), read(AUTH, 900, first=10, last=20)
    assert results(talk(wide, narrow, LOOK), Pace(superseded_reads=True)) == {}
    assert sorted(results(talk(narrow, wide, LOOK), Pace(superseded_reads=True))) == [1]
    assert results(talk(read(AUTH, 900), narrow, LOOK), Pace(superseded_reads=True)) == {}
    two = replace(wide, reads=(*wide.reads, *read("b.py", 9).reads))
    assert results(talk(two, read(AUTH, 900), LOOK), Pace(superseded_reads=True)) == {}


def test_nothing_is_proposed_where_nothing_changed() -> None:
    """This holds for another process without memory. The edit in force keeps what other profiles set."""
    found, pace = talk(read(AUTH, 900), edited(), LOOK), Pace()
    first = pace.propose(found.state(Edit(results={3: "other"})), CALL)
    assert first is not None and first.edit.results == {1: GONE, 3: "other"}
    assert pace.propose(found.state(first.edit), CALL) is None and Pace().propose(found.state(first.edit), CALL) is None
    assert Pace().propose(talk().state(), CALL) is None


def test_one_profile_may_be_asked_about_several_conversations() -> None:
    """It remembers nothing of one that affects another."""
    pace = Pace()
    one, other = talk(read(AUTH, 900), edited(), LOOK), talk(read(AUTH, 900), edited("b.py"), LOOK, LOOK)
    for _ in range(2):
        assert results(one, pace) == {1: GONE}
        assert results(other, pace) == {}
    assert results(talk(LOOK, LOOK), pace) == {}


@pytest.mark.parametrize("cause", ["cold", "switch", "overflow", "wish"])
def test_a_batch_waits_until_there_is_enough_or_it_is_free(cause: Cause) -> None:
    """Below the limit nothing is rewritten before a call. If the cache is lost anyway, everything possible is."""
    found = talk(read(AUTH, 8_000), edited(), LOOK)
    for limit, acts in ((1_000, True), (3_000, False)):
        assert (Pace(batch_tokens=limit).propose(found.state(), CALL) is not None) is acts
    free = Pace(batch_tokens=3_000).propose(found.state(), Moment(cause=cause))
    assert free is not None and free.edit.results == {1: GONE}


PATHS = st.sampled_from(["a.py", "b.py", "c/d.py"])
ACTS: st.SearchStrategy[Act] = st.one_of(
    st.builds(lambda path: read(path, 300), PATHS),
    st.builds(lambda path, turn: write(path, 300, turn), PATHS, st.integers(1, 9)),
    st.builds(lambda path, failed: edited(path, failed=failed), PATHS, st.booleans()),
    st.builds(lambda command: run(command, 300, command), st.sampled_from(["make", "pytest -q"])),
    st.builds(lambda path: shell(f"touch {path}", path), PATHS),
)
PROFILES: list[Callable[[], Pace]] = [Pace, lambda: Pace(superseded_reads=True, batch_tokens=400)]


@settings(max_examples=60, deadline=None)
@given(turns=st.lists(st.lists(ACTS, min_size=1, max_size=3).map(tuple), min_size=1, max_size=12))
@pytest.mark.parametrize("make", PROFILES)
def test_whatever_happens_live_results_are_shown_to_the_byte(
    make: Callable[[], Pace], turns: list[tuple[Act, ...]]
) -> None:
    """This holds at every call. The proposal does not depend on earlier questions."""
    found, pace, edit = talk(*turns), make(), Edit()
    for count in range(1, len(found.turns) + 1, 2):
        state = found.state(edit, turns=count)
        proposal = pace.propose(state, CALL)
        assert proposal == make().propose(state, CALL)
        edit = proposal.edit if proposal else edit
        assert wrong(state.turns, edit) is None
        assert pace.batch_tokens or pace.propose(found.state(edit, turns=count), CALL) is None
        assert not edit.results.keys() & _live(state, superseded=pace.superseded_reads)


def _live(state: ContextState, *, superseded: bool) -> set[int]:
    """Return steps whose results nothing later replaces, in a second implementation without memory."""
    found = set()
    for deed in state.deeds:
        later = [one for one in state.deeds if one.step > deed.step and not one.failed]
        paths = {one.path for one in deed.reads}
        written = any(one.path in paths for each in later for one in each.writes)
        again = superseded and any(one.path in paths for each in later for one in each.reads)
        reran = any(one.command and one.command == deed.command for one in state.deeds if one.step > deed.step)
        if not (written or again or reran):
            found.add(deed.step)
    return found


GOOD: dict[str, str] = {
    "files_read": "[pace/auth.py, invented.py]",
    "files_written": "[never.py]",
    "plan_committed": "true",
    "key_decisions": "\n- Sessions expire in the store.\n- 'Errors: one class.'",
    "last_test_output": "all green",
    "red_phase_confirmed": "true",
}
RED = Act(
    tool="confirm_red_phase", arguments={"command": "pytest -q"}, answer="OK: confirmed, the test fails\nE  1 != 2"
)
PLANNED = Act(tool="commit_plan", arguments={"plan": "1. Do it."}, answer="OK")


def yaml(**changes: str | None) -> str:
    fields = {name: text for name, text in (GOOD | changes).items() if text is not None}
    return "".join(f"{name}: {text}\n" for name, text in fields.items())


def at_red(card: str = "Sessions expire.") -> Talk:
    return talk(read(AUTH, 9_000), (LOOK, PLANNED), write("tests/test_auth.py", 4_000, 3), (LOOK, RED), card=card)


class Cheap:
    """A model with a fixed answer."""

    def __init__(self, says: str | SummaryReply) -> None:
        self.reply = says if isinstance(says, SummaryReply) else SummaryReply(text=says, usage=Usage(input_tokens=7))
        self.asked: list[SummaryQuestion] = []

    def __call__(self, question: SummaryQuestion) -> SummaryReply:
        self.asked.append(question)
        return self.reply


def red(found: Talk, model: Cheap, pace: Pace | None = None, edit: Edit | None = None) -> EditProposal:
    proposal = (pace or Pace()).propose(found.state(edit), Moment(cause="red", ask=model))
    assert proposal is not None
    return proposal


@pytest.mark.parametrize("text", [yaml(), f"Here it is:\n```yaml\n{yaml()}```\nDone.", yaml(more="1")])
def test_the_history_becomes_the_card_and_a_summary(text: str) -> None:
    """The last exchange stays unchanged, because the model has not seen its answer."""
    found, model = at_red(), Cheap(text)
    proposal = red(found, model)
    view = show_turns(found.turns, proposal.edit)
    assert wrong(found.turns, proposal.edit) is None
    assert [turn.role for turn in view] == ["user", "assistant", "user", "assistant", "user"]
    assert view[0] == found.turns[0] and view[3:] == found.turns[-2:]
    assert proposal.once == "pace-compress" and proposal.replies == (model.reply,) and len(model.asked) == 1


def test_of_the_summary_only_the_decisions_are_the_models() -> None:
    """Files, outputs and facts are the harness's, whatever the model says."""
    text = show_turns(at_red().turns, red(at_red(), Cheap(yaml())).edit)[1].text
    assert "never.py" not in text and "invented.py" not in text and "all green" not in text
    for known in ("- pace/auth.py", "- tests/test_auth.py", "plan_committed: true", "red_phase_confirmed: true"):
        assert known in text
    assert "E  1 != 2" in text and "- Sessions expire in the store." in text and "Errors: one class." in text


def test_what_the_harness_confirmed_is_so_without_a_call_for_it() -> None:
    """It asks at the first red result from any source. A command may have changed files that cannot be named."""
    found = talk(read(AUTH, 9_000), PLANNED, shell("git stash pop && make", "."), shell("sed -i s/a/b/ b.py", "b.py"))
    text = show_turns(found.turns, red(found, Cheap(yaml())).edit)[1].text
    assert "red_phase_confirmed: true" in text and "files_written:\n- b.py\n" in text


BAD: dict[str, str | SummaryReply] = {
    "nothing": "",
    "blank": " \n\t",
    "no model": nobody(SummaryQuestion(kind="yaml", instruction="")),
    "too slow": SummaryReply(why_not="it took longer than 60 s", usage=Usage(input_tokens=9)),
    "prose": "I am sorry, I cannot do that.",
    "no yaml": "files_read: [a\n  - : }{",
    "a list": "- files_read\n- files_written\n",
    "a number": "7",
    "two documents": f"{yaml()}---\n{yaml()}",
    "a bomb": "a: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b]\n" + yaml(),
    "an alias": yaml(files_read="&one [a.py]", files_written="*one"),
    "a tag": yaml(last_test_output="!!python/object/apply:os.getcwd []"),
    "too deep": yaml(last_test_output="[" * 3_000),
    "a key twice": yaml() + "plan_committed: true\n",
    "too long": yaml(last_test_output="x" * 20_000),
    "half a document": yaml()[:40],
    "null decisions": yaml(key_decisions="null"),
    "decisions that are text": yaml(key_decisions="one"),
    "decisions of numbers": yaml(key_decisions="[1, 2]"),
    "a fact that is text": yaml(red_phase_confirmed="'true'"),
    "a fact denied": yaml(red_phase_confirmed="false"),
    "another fact denied": yaml(plan_committed="false"),
    "a surrogate": yaml(last_test_output="\ud800"),
    **{f"no {name}": yaml(**{name: None}) for name in GOOD},
}


@pytest.mark.parametrize("says", BAD.values(), ids=BAD.keys())
def test_a_bad_summary_leaves_the_history_as_it_is(says: str | SummaryReply) -> None:
    """The edit in force stays, the cost is recorded, and it is not tried again."""
    found, model, force = at_red(), Cheap(says), Edit(results={1: GONE})
    proposal = red(found, model, edit=force)
    assert proposal.edit == force and show_turns(found.turns, proposal.edit) == show_turns(found.turns, force)
    assert proposal.once == "pace-compress" and proposal.replies == (model.reply,)
    assert proposal.why.startswith(f"not compressed: {model.reply.why_not}")


def test_decisions_that_name_an_unknown_path_leave_the_history_as_it_is() -> None:
    """One unknown path among known ones is enough."""
    for path, believed in (("pace/never.py", False), ("never/auth.py", False), (AUTH, True)):
        told = yaml(key_decisions=f"['{AUTH} and tests/test_auth.py are right', '{path} was made']")
        proposal = red(at_red(), Cheap(told))
        assert (proposal.edit != Edit()) is believed
        assert believed or "nowhere in the conversation" in proposal.why


@pytest.mark.parametrize("fork", [False, True])
def test_what_a_person_said_later_is_still_shown(fork: bool) -> None:
    """The exact words and the test results are on the user's side, and the summary is a turn of the model."""
    found = talk(read(AUTH, 9_000), LOOK)
    found.hear("Keep legacy/ alone, whatever happens.")
    found.do("", run("pytest -q", 900, "a"))
    found.do("", PLANNED if fork else RED)
    lie = yaml(plan_committed="false", key_decisions="['The person withdrew every condition.']")
    proposal = Pace(fork=True).propose(found.state(), CALL) if fork else red(found, Cheap(lie))
    assert proposal is not None
    view = show_turns(found.turns, proposal.edit)
    assert [turn.role for turn in view[:3]] == ["user", "assistant", "user"]
    assert view[2].text.startswith("[the harness]")
    assert "The user said: Keep legacy/ alone, whatever happens." in view[2].text
    assert fork or "Ran: `pytest -q`" in view[2].text.partition("it overrides the summary")[2]


def test_a_summary_that_is_no_shorter_is_none() -> None:
    """The conversation is short already."""
    found = talk(LOOK, PLANNED, RED)
    proposal = red(found, Cheap(yaml()))
    assert proposal.edit == Edit() and proposal.once == "pace-compress"


def test_it_is_asked_for_once_and_at_the_first_red_alone() -> None:
    """No process asks again, and the first stage continues. It can be switched off."""
    found, model = at_red(), Cheap(yaml())
    fired = Moment(cause="red", ask=model, fired=frozenset({"pace-compress"}))
    first = Moment(cause="red", ask=model)
    for pace, moment in [(Pace(), fired), (Pace(), replace(first, cause="call")), (Pace(compress=False), first)]:
        assert pace.propose(found.state(), moment) is None
    stale = talk(read(AUTH, 900), edited(), RED)
    proposal = Pace().propose(stale.state(), fired)
    assert proposal is not None and proposal.edit.results == {1: GONE} and proposal.once == ""
    assert model.asked == []


def test_the_question_is_of_the_published_size() -> None:
    """It has at most 200 cut lines of history, and the facts that the answer must not deny."""
    long = talk(*(read(f"{number}.py", 3_000) for number in range(150)), (PLANNED, write("a.py", 5_000, 9), RED))
    long.turns[0] = user(Text(text="the card " * 3))
    model = Cheap("")
    red(long, model)
    question = model.asked[0]
    history = question.text.split("## The conversation\n\n")[1].splitlines()
    assert question.kind == "yaml" and question.max_output_tokens == 1024
    assert len(history) == 200 and max(map(len, history)) <= 320
    assert max(len(line) for line in history if line.startswith("call ")) <= 220
    assert "OK: confirmed" in history[-1] and "the card the card" in question.text
    for word in (*GOOD, "red_phase_confirmed: true", "plan_committed: true", "- a.py"):
        assert word in question.instruction


def test_a_kept_answer_keeps_its_signed_thought_in_front() -> None:
    """Vendors accept no text before it, so the summary is a turn of its own."""
    found = at_red()
    thought = Opaque(wire="anthropic", model="m", block={"type": "thinking", "signature": "s"})
    found.turns[-2] = found.turns[-2].model_copy(update={"parts": (thought, *found.turns[-2].parts), "model": "m"})
    sides = alternating(show_turns(found.turns, red(found, Cheap(yaml())).edit), wire="anthropic", model="m")
    assert len(sides) == 5 and isinstance(sides[3][0], Opaque) and isinstance(sides[3][1], ToolCall)


def test_a_fork_is_as_large_as_what_it_carries() -> None:
    """The length of the exploration does not matter. The exact card is first, and the plan last."""
    sizes = []
    for count in (20, 200):
        found = talk(*(read(f"{number % 20}.py", 500) for number in range(count)))
        found.turns[0] = user(Text(text="The card."), Text(text="hints"))
        opening = fork_history(found.state(), "", "1. Do it.")
        assert opening[0] == user(Text(text="The card.")) and opening[2].text.endswith("1. Do it.")
        assert re.search(r"files_read:\n- 0\.py\n(- \d+\.py\n){19}", opening[1].text)
        sizes.append(sum(len(turn.text) for turn in opening))
    assert sizes[0] == sizes[1]
    assert fork_history(Talk().state(), "", "") == ()


def test_a_new_conversation_begins_with_the_survey_and_the_card() -> None:
    found = talk(read("a.py", 500))
    found.turns[0] = user(Text(text=f"{SURVEY_TITLE}\n"), Text(text="The card."), Text(text="hints"))
    assert fork_history(found.state(), "", "1. Do it.")[0] == user(*found.turns[0].parts[:2])


def test_without_a_plan_nothing_forks() -> None:
    """Nothing forks by default, for a refused or old plan, or if there is nothing to leave behind."""
    explored = [read(f"{number}.py", 3_000) for number in range(3)]
    found = talk(*explored, PLANNED)
    assert Pace().propose(found.state(), CALL) is None
    forks = Pace(fork=True).propose(found.state(plan="2. The plan."), CALL)
    assert forks is not None and show_turns(found.turns, forks.edit)[2].text.endswith("2. The plan.")
    for other in (talk(*explored, replace(PLANNED, failed=True)), talk(*explored, PLANNED, LOOK), talk(LOOK, PLANNED)):
        assert Pace(fork=True).propose(other.state(), CALL) is None


def test_the_first_stage_goes_on_behind_a_summary() -> None:
    """Parts that were cut away are not named again."""
    found = at_red()
    edit = red(found, Cheap(yaml())).edit
    found.do("", read(AUTH, 900))
    found.do("", edited("tests/test_auth.py"))
    assert Pace().propose(found.state(edit), CALL) is None
    found.do("", edited())
    proposal = Pace().propose(found.state(edit), CALL)
    assert proposal is not None and proposal.edit == edit.model_copy(update={"results": {7: GONE}})
    assert wrong(found.turns, proposal.edit) is None
