"""The working state: the slots that events fill by rules, and its written form."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from spoken import Act, Spoken, bash, create, edit, grep, other, read, refused

from forgepool.workers.context.edits.masks import HARNESS
from forgepool.workers.context.edits.prose import count_lines, ends, error_lines, outline
from forgepool.workers.context.profiles.soulforge import extract_state, take_deed, take_turn
from forgepool.workers.context.profiles.working_state import FILES, Remarks, WorkingState, remarks, serialise_state


def after(*acts: Act, said: str = "", plan: str = "") -> WorkingState:
    """Return the state after one turn with these calls."""
    spoken = Spoken()
    spoken.do(said, *acts)
    return extract_state(spoken.turns, spoken.deeds, plan=plan)


def section(text: str, title: str) -> str:
    return text.partition(f"## {title}\n")[2].partition("\n\n## ")[0]


@pytest.mark.parametrize(
    "answer", ["5 passed, 0 failed", "0 errors", "errors.py: ok", "caught exception as expected", "panic() is defined"]
)
def test_a_command_that_succeeded_is_no_failure_whatever_words_it_prints(answer: str) -> None:
    assert not after(bash("pytest -q", answer, action="test")).failures


def test_a_command_that_failed_is_a_failure_whatever_words_it_prints() -> None:
    """It has the exit status and the most telling line, or the last line if none names an error."""
    state = after(bash("make", "all is well\nbye", status=2, action="build"))
    assert section(serialise_state(state), "Errors & Failures") == "- ran: make: exit status 2; bye"


def test_of_a_red_run_the_failing_tests_are_named() -> None:
    """A line that only contains the word "error" does not count."""
    said = (
        "collected 9 items\nERROR log: x\nFAILED tests/a.py::test_one - assert 1\nFAILED tests/a.py::test_two\n2 failed"
    )
    assert error_lines(said) == "FAILED tests/a.py::test_one - assert 1 | FAILED tests/a.py::test_two"
    assert error_lines("FAIL: test_a (m.T)\nx\n--- FAIL: TestB (0.1s)\nFAILED (failures=1)") == (
        "FAIL: test_a (m.T) | --- FAIL: TestB (0.1s)"
    )
    assert error_lines("hello\nTypeError: no\nmore") == "TypeError: no"
    assert len(error_lines("E" * 1000 + " error")) == 300


def test_what_failed_and_works_now_is_told_so() -> None:
    state = after(
        bash("pytest -q", "FAILED tests/a.py::test_one", status=1, action="test"),
        bash("pytest -q", "FAILED tests/a.py::test_one", status=1, action="test"),
        bash("pytest -q", "1 passed", action="test"),
    )
    told = section(serialise_state(state), "Errors & Failures")
    assert told == "- ran: pytest -q (x2): exit status 1; FAILED tests/a.py::test_one (it has worked since)"
    later = after(bash("make", "no", status=1), bash("make", "ok"), bash("make", "no", status=1))
    assert "worked since" not in serialise_state(later)


def test_what_was_done_to_a_file_is_collapsed() -> None:
    """A read file has its outline, and a written one its new text."""
    state = after(*[read("a.py")] * 4, edit("b.py", "x = 1", "x = 2"), create("c.py", "1\n2\n3\n"))
    assert section(serialise_state(state), "Files Touched").splitlines() == [
        "- `a.py`: read (x4); 2 lines — exports: load",
        '- `b.py`: edited "x = 1" → "x = 2"',
        "- `c.py`: full write (3 lines)",
    ]


def test_a_call_that_failed_touched_no_file() -> None:
    state = after(refused("read_file", "gone.py", "gone.py: no such file"))
    assert not state.files
    assert "- read_file: gone.py: gone.py: no such file" in serialise_state(state)


def test_a_command_that_failed_may_have_changed_what_it_names() -> None:
    """It is noted as possible, because failed tests after a change do not undo it."""
    state = after(bash("sed -i s/a/b/ m.py && pytest", "1 failed", status=1, action="write", writes=("m.py",)))
    assert "`m.py`: perhaps changed by a command that failed" in serialise_state(state)


def test_files_and_their_actions_are_bounded() -> None:
    """The last ten edits keep their texts, and the others are counted. Files that were only read go first."""
    edited = after(*[edit("a.py", f"old {n}", f"new {n}") for n in range(50)])
    line = section(serialise_state(edited), "Files Touched")
    assert "edited (x40)" in line and '"old 49"' in line and '"old 39"' not in line
    many = after(edit("first.py", "a", "b"), *[read(f"{n}.py") for n in range(2 * FILES)])
    assert len(many.files) == FILES and "first.py" in many.files and "0.py" not in many.files
    huge = after(*[edit(f"{n}.py", "o" * 900, "n" * 900) for n in range(90)])
    told = section(serialise_state(huge), "Files Touched")
    assert len(told) < 16_000 and "- `0.py`: edited\n" in told and "o" * 299 + '…" → "' in told


def test_lists_keep_the_newest_twenty_five_and_tool_results_thirty() -> None:
    spoken = Spoken()
    for n in range(40):
        spoken.do(f"I decided to use option number {n} for it.", bash(f"run {n}", f"did {n}", status=n % 2))
        spoken.hear(f"Please mind rule {n}.")
    state = extract_state(spoken.turns, spoken.deeds)
    assert (len(state.decisions), len(state.requirements), len(state.tool_results)) == (25, 25, 30)
    assert len(state.failures) == 20
    assert "number 39" in state.decisions[-1] and "number 15" in state.decisions[0]
    fewer = extract_state(spoken.turns, spoken.deeds, most_tool_results=3)
    assert [line.rpartition(" ")[2] for line in fewer.tool_results] == ["37", "38", "39"]


def test_a_result_is_told_beside_its_own_call() -> None:
    """Two similar calls of one tool in one turn are not mixed up."""
    state = after(bash("echo a", "printed a"), bash("echo b", "printed b"))
    assert state.tool_results == [
        "**bash** (step 1) ran: echo a → printed a",
        "**bash** (step 2) ran: echo b → printed b",
    ]


def test_results_have_the_published_lengths() -> None:
    """
    A shell result has 800 characters, or 1,500 mostly from the end if it failed. A search has ten lines within 600.
    """
    long = "begin" + "x" * 5_000 + "the end"
    fine, red = after(bash("a", long)).tool_results[0], after(bash("a", long, status=1)).tool_results[0]
    assert len(fine.partition(" → ")[2]) == 800 and len(red.partition(" → ")[2]) == 1_500
    assert fine.endswith("the end") and " → begin" in fine
    found = after(grep("p", "\n".join(f"f.py:{n}: p" for n in range(40)))).tool_results[0]
    assert "40 lines: f.py:0: p" in found and "f.py:9: p" in found and "f.py:10: p" not in found
    assert len(count_lines("y" * 900)) == 600
    assert ends("short", 800) == "short"


def test_reads_and_writes_by_tools_are_told_with_their_files_alone() -> None:
    assert not after(read("a.py"), edit("a.py", "x", "y"), create("b.py", "z")).tool_results


def test_decisions_and_discoveries_are_told_by_their_phrases() -> None:
    found = remarks(
        "I'm going to keep the cache in memory. The lock goes, because two workers would wait for one another. "
        "It turns out that the parser drops the last line.\n```\nI'll rewrite everything here too\n```\n"
        "Let me look at that file. The module is small."
    )
    assert found.decisions == (
        "I'm going to keep the cache in memory.",
        "The lock goes, because two workers would wait for one another.",
    )
    assert remarks("I'll now run the whole of the tests again.").decisions == ()
    assert remarks("So let's check the imports of it again.") == Remarks() != remarks("Let's drop the imports of it.")
    assert found.discoveries == ("It turns out that the parser drops the last line.",)
    assert "module is small" in found.note and "rewrite" not in str(found)


def test_decisions_are_cut_where_the_published_phrases_end() -> None:
    """They keep 120 characters after the phrase, and discoveries 150. Fewer than ten are dropped."""
    assert len(remarks("We should " + "a" * 500).decisions[0]) == len("We should") + 120
    assert len(remarks("I found that " + "b" * 500).discoveries[0]) == len("found that") + 150
    assert remarks("using this").decisions == ()


def test_a_decision_said_twice_is_one() -> None:
    spoken = Spoken()
    for _ in range(3):
        spoken.do("We should keep the old format for now.", bash("x", "y"))
    assert extract_state(spoken.turns, spoken.deeds).decisions == ["We should keep the old format for now."]


def test_filler_is_no_note() -> None:
    assert remarks("Let me see.").note == "" and remarks("Okay").note == "" and remarks("Hm.").note == ""
    long = "Looking at it now. " + "The table has a row for every user of it. " * 20
    assert remarks(long).note.startswith("The table has") and len(remarks(long).note) <= 500


def test_what_persons_say_is_required_and_what_the_harness_says_is_not() -> None:
    """Each has at most 300 characters, and fewer than five are dropped."""
    spoken = Spoken()
    spoken.do("", bash("a", "b"))
    spoken.hear("Do not touch the public API.")
    spoken.do("", bash("a", "b"))
    spoken.hear(f"{HARNESS} You called no tool.")
    spoken.do("", bash("a", "b"))
    spoken.hear("ok")
    spoken.do("", bash("a", "b"))
    spoken.hear("r" * 400)
    state = extract_state(spoken.turns, spoken.deeds)
    assert state.requirements == ["Do not touch the public API.", "r" * 299 + "…"]


def test_the_card_is_no_requirement_and_not_repeated() -> None:
    state = after(bash("a", "b"))
    assert not state.requirements and "Acceptance" not in serialise_state(state)


def test_the_plan_counts_and_the_list_of_things_to_do_is_the_newest() -> None:
    """The published code forgets the plan when it counts."""
    plan = other("update_plan", {"plan": [{"step": "one", "status": "pending"}]})
    todo = other(
        "TodoWrite",
        {
            "todos": [
                {"content": "look", "status": "completed"},
                {"content": "mend", "status": "in_progress"},
                {"content": "drop", "status": "cancelled"},
                {"content": "test", "status": "pending"},
            ]
        },
    )
    state = after(plan, todo, plan="1. look\n2. mend")
    assert section(serialise_state(state), "Plan") == "1. look\n2. mend\n✓ look\n▸ mend\n⊘ drop\n○ test"
    assert state.slots == 1 + 1 + 4
    assert "1. look" not in serialise_state(state, plan_above=True)


def test_slots_are_the_sum_of_all() -> None:
    state = after(
        read("a.py"),
        bash("pip install x", "Successfully installed x-1.0"),
        bash("pytest", "FAILED t::x", status=1, action="test"),
        said="We should keep it simple here. I found that the file is empty. The rest is rather plain.",
    )
    # Task, a file, two results, a failure, the environment, a decision, a discovery, a note.
    assert state.slots == 1 + 1 + 2 + 1 + 1 + 1 + 1 + 1
    assert WorkingState().slots == 1


def test_sections_come_in_soulforges_order() -> None:
    spoken = Spoken()
    spoken.do(
        "We should keep it simple here. I found that the file is empty. The rest is rather plain.",
        read("a.py"),
        bash("python --version", "Python 3.11.7"),
        bash("pytest", "FAILED t::x", status=1, action="test"),
    )
    spoken.hear("Mind the docs.")
    text = serialise_state(extract_state(spoken.turns, spoken.deeds, plan="1. do it"))
    titles = [line.removeprefix("## ") for line in text.splitlines() if line.startswith("## ")]
    assert titles == [
        "Task",
        "User Requirements",
        "Plan",
        "Environment",
        "Files Touched",
        "Key Decisions",
        "Assistant Notes",
        "Tool Results",
        "Errors & Failures",
        "Discoveries",
    ]
    assert "python --version → Python 3.11.7" in section(text, "Environment")


def test_the_state_fits_into_the_room_it_is_given_and_keeps_requirements_and_the_newest() -> None:
    spoken = Spoken()
    for n in range(60):
        spoken.do(f"We should take way number {n} here.", bash(f"run {n}", "out " * 300), read(f"dir/{n}.py"))
        spoken.hear(f"Requirement number {n}.")
    state = extract_state(spoken.turns, spoken.deeds)
    whole, tight = serialise_state(state), serialise_state(state, room=6_000)
    assert len(whole) > 25_000 and len(tight) <= 6_000
    assert tight.count("Requirement number") == 25 and "number 59 here" in tight and "dir/59.py" in tight


def test_an_outline_names_what_is_defined_at_the_outermost_level() -> None:
    assert outline("     1\timport os\n     2\tclass A:\n     3\t    def no(self): ...\n     4\tasync def f():") == (
        "4 lines — exports: A, f"
    )
    assert outline("export const a = 1\nexport default function b() {}\nfunction c() {}\nconst d = 2\n") == (
        "4 lines — exports: a, b, c"
    )
    assert outline("\n".join(f"def f{n}(): ..." for n in range(11))).endswith("f7… +3 more")
    assert outline("plain\ntext") == "2 lines"


ACTS = st.sampled_from(
    [
        read("a.py"),
        edit("a.py", "x", "y"),
        create("b/c.py", "1\n"),
        bash("pytest", "FAILED t::x", status=1, action="test"),
        bash("pytest", "fine", action="test"),
        grep("p", "a.py:1: p"),
        refused("read_file", "n.py", "no such file"),
    ]
)
SAID = st.sampled_from(["", "We should keep it as it is now.", "I found that nothing is there.", "Plain remark here."])


@settings(max_examples=60)
@given(st.lists(st.tuples(SAID, st.lists(ACTS, min_size=1, max_size=3)), min_size=1, max_size=12), st.integers(0, 12))
def test_the_state_is_a_fold(rounds: list[tuple[str, list[Act]]], at: int) -> None:
    """Built in steps, it equals the state built at once."""
    spoken = Spoken()
    for said, acts in rounds:
        spoken.do(said, *acts)
    state = extract_state(spoken.turns[: 1 + 2 * at], [deed for deed in spoken.deeds if deed.turn < 1 + 2 * at])
    for turn in spoken.turns[1 + 2 * at :]:
        take_turn(state, turn)
    for deed in spoken.deeds:
        if deed.turn >= 1 + 2 * at:
            take_deed(state, deed)
    assert state == extract_state(spoken.turns, spoken.deeds)
