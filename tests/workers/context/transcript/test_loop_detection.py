"""Loop detection: a conversation that repeats itself is found, and one that makes progress is not."""

import time

import pytest
from premade import Call, conversation, read

from forgepool.workers.context.transcript.entries import ConversationStarted
from forgepool.workers.context.transcript.loop_detection import find_exploration_end, stuck, warning, was_warned

GREP: Call = ("grep", {"pattern": "x"}, "a.py:1: x")
WRITE: Call = ("write_file", {"path": "a.py", "content": "x"}, "OK: wrote 1 bytes to a.py (iter 1)")


def run_of_tests(left: int, seconds: str) -> Call:
    return "bash", {"command": "pytest -q"}, f"![exit status 1, {seconds} s]\n{left} failed in {seconds}s"


def failing(path: str, line: int) -> Call:
    said = f"!{path}: the old text is not in it; the nearest line is {line}: 'y'"
    return "edit_file", {"path": path, "old": f"{line}"}, said


def test_the_same_call_with_the_same_answer_three_times_is_a_circle() -> None:
    """Other calls may be in between, and the time of a command does not matter."""
    assert stuck(conversation([GREP], [GREP]), "plan") is None
    assert stuck(conversation([GREP], [read("b.py")], [GREP], [GREP]), "plan") == (
        'the same call of grep gave the same answer 3 times: {"pattern": "x"}'
    )
    assert (
        stuck(conversation([run_of_tests(2, "0.12")], [run_of_tests(2, "0.31")], [run_of_tests(2, "1.25")]), "execute")
        is not None
    )


@pytest.mark.parametrize(
    "turns",
    [
        [[GREP], [GREP], [WRITE], [GREP]],
        [[run_of_tests(3, "0.1")], [run_of_tests(2, "0.1")], [run_of_tests(1, "0.1")]],
        [[("check_background", {"id": "1"}, "still running")]] * 9,
        [[read("a.py", 1, 3)], [read("a.py", 4, 6)], [read("a.py", 7, 9)]],
    ],
)
def test_headway_is_no_circle(turns: list[list[Call]]) -> None:
    """A file was written in between, the answer changed, or the call waits for something."""
    assert stuck(conversation(*turns), "execute") is None


def test_what_is_long_ago_is_no_circle() -> None:
    """The same look after many others is no circle."""
    others = [[read(f"{n}.py")] for n in range(150)]
    assert stuck(conversation([GREP], [GREP], *others[:50], [GREP]), "plan") is not None
    assert stuck(conversation([GREP], [GREP], *others, [GREP]), "plan") is None


def test_five_failures_of_one_kind_in_a_row_are_a_circle() -> None:
    """They are of one tool, for any file and line. A success or another kind starts the count again."""
    same = [[failing(f"{name}.py", line)] for line, name in enumerate("abcde")]
    reason = stuck(conversation(*same), "execute")
    assert reason == "edit_file failed 5 times in a row in the same way: e.py: the old text is not in it"
    between = [*same[:3], [GREP], *same[3:]]
    assert stuck(conversation(*between), "execute") == reason
    assert stuck(conversation(*same[:4]), "execute") is None
    worked: Call = ("edit_file", {"path": "a.py"}, "OK: replaced 1 place in a.py")
    assert stuck(conversation(*same[:4], [worked], *same[:3]), "execute") is None
    other: Call = ("edit_file", {"path": "a.py"}, "!a.py: no such file")
    assert stuck(conversation(*same[:3], [other], *same[3:]), "execute") is None


def test_fewer_failing_tests_are_headway() -> None:
    runs = [[run_of_tests(left, "0.1"), (*WRITE[:2], WRITE[2])] for left in (6, 5, 4, 3, 2, 1)]
    assert stuck(conversation(*runs), "execute") is None
    level = [[WRITE, run_of_tests(2, f"0.{n}")] for n in range(5)]
    assert stuck(conversation(*level), "execute") is not None


def test_an_execution_that_only_reads_is_a_circle() -> None:
    """
    The limit is fifteen turns with any tools, and does not apply to PLAN. One write, run or answer without a call
    starts the count again.
    """
    reading = [[read(f"{n}.py")] if n % 2 else [("bash", {"command": f"cat {n}.py"}, f"{n}")] for n in range(15)]
    assert stuck(conversation(*reading), "execute") == "15 turns in a row only read, and nothing was written"
    assert stuck(conversation(*reading), "plan") is None
    assert stuck(conversation(*reading[:14]), "execute") is None
    for done in (WRITE, ("bash", {"command": "python fix.py"}, "ok")):
        assert stuck(conversation(*reading[:7], [done], *reading[7:]), "execute") is None


def test_it_is_said_once_and_what_was_before_does_not_count_again() -> None:
    """The next circle after the warning is a new one, and then the attempt ends."""
    circle = [[GREP], [GREP], [GREP]]
    first = conversation(*circle)
    assert not was_warned(first)
    told = conversation(*circle, f"> {warning(stuck(first, 'plan') or '')}", [GREP], [GREP])
    assert was_warned(told)
    assert stuck(told, "plan") is None
    again = conversation(*circle, f"> {warning('x')}", *circle)
    assert stuck(again, "plan") is not None and was_warned(again)


def test_another_conversation_is_another_matter() -> None:
    """Circles of PLAN do not count in EXECUTE."""
    fresh = ConversationStarted(at=0, order_id="o", model="m", system=(), tools=())
    entries = conversation([GREP], [GREP], [GREP], f"> {warning('x')}", [GREP], [GREP], [GREP])
    assert stuck([*entries, fresh], "execute") is None
    assert not was_warned([*entries, fresh])
    assert find_exploration_end([*conversation(*[[read(f"{n}.py")] for n in range(20)]), fresh]) is None


def test_a_long_exploration_is_enough() -> None:
    """The limit is twenty turns, whatever they found."""
    turns = [[read(f"{n}.py")] for n in range(20)]
    assert find_exploration_end(conversation(*turns[:19])) is None
    said = "exploration took 20 turns without a plan; 20 are allowed"
    assert find_exploration_end(conversation(*turns)) == said
    assert find_exploration_end(conversation(*turns), made="report") == said.replace("a plan", "a report")
    assert find_exploration_end(conversation(*turns[:3]), most=3) is not None


def test_an_exploration_that_finds_nothing_new_is_enough() -> None:
    """There is no new file in five turns, and at least half of the calls are repeated."""
    files = [[read(f"{n}.py")] for n in range(4)]
    again = [[read("0.py")], [GREP], [read("./0.py")], [GREP], [read("1.py")]]
    assert find_exploration_end(conversation(*files, *again)) == (
        "5 turns in a row read no new file and repeated 4 of 5 calls"
    )
    assert find_exploration_end(conversation(*again)) is None
    assert find_exploration_end(conversation(*[[GREP]] * 4)) is None
    assert find_exploration_end(conversation(*[[GREP]] * 5)) is not None
    assert find_exploration_end(conversation(*files, *again[:4], [read("new.py")])) is None
    searching: list[list[Call]] = [[("grep", {"pattern": str(n)}, "none")] for n in range(5)]
    assert find_exploration_end(conversation(*files, *searching)) is None


def test_a_long_failure_is_known_by_its_beginning() -> None:
    """Five failures of a megabyte each are compared at once."""
    sentence = "!no: " + "a." * 500_000
    began = time.process_time()
    assert stuck(conversation(*[[("edit_file", {"path": f"{number}"}, sentence)] for number in range(5)]), "plan")
    assert time.process_time() - began < 4
