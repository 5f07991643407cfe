"""The ledger has a line for each event, from facts only. A condensed one keeps every path, decision and requirement."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from led import Did, Led, code, edited, ran, read, wrote

from forgepool.workers.context.edits.ledger import condense_lines, decisions, failure, lines

RED = "tests/test_a.py F\nE   assert 1 == 2\nFAILED tests/test_a.py::test_load - assert 1 == 2\n1 failed, 3 passed"
GREEN = "4 passed, 0 failed, 0 errors"


def told(led: Led, first: int = 1, last: int | None = None) -> list[str]:
    last = len(led.view.turns) if last is None else last
    return list(lines(led.view.turns, [deed for deed in led.view.deeds if first <= deed.turn < last], first, last))


def after(*done: Did, said: str = "") -> list[str]:
    led = Led()
    led.model(*done, said=said)
    return told(led)


def short(led: Led) -> list[str]:
    return list(condense_lines(led.view.turns, led.view.deeds, len(led.view.turns)))


def test_a_read_is_told_with_its_lines_and_what_they_define() -> None:
    text = "def load(): ...\nclass Session: ...\n"
    assert after(read("src/a.py", text)) == ["1 read src/a.py (load, Session)"]
    assert after(read("src/a.py", "x = 1", start=10, end=40)) == ["1 read src/a.py:10-40"]
    assert after(read("src/a.py", "x = 1", start=10)) == ["1 read src/a.py:10-"]
    assert after(ran("tail -5 src/a.py", "x = 1")) == ["1 read part of src/a.py"]
    assert after(ran("sed -n '3,9p' src/a.py", "x = 1")) == ["1 read src/a.py:3-9"]


def test_of_many_definitions_a_few_are_told() -> None:
    assert after(read("a.py", code("f"))) == ["1 read a.py (f_1, f_2, f_3, f_4, f_5, f_6)"]


def test_all_paths_of_one_command_are_told() -> None:
    paths = [f"src/f{number}.py" for number in range(9)]
    assert after(ran(f"cat {' '.join(paths)}", "x")) == [f"1 read {', '.join(paths)}"]
    (line,) = after(ran(f"rm {' '.join(paths)}"))
    assert line == f"1 {'; '.join(f'deleted {path}' for path in paths)}"


def test_a_write_is_told_with_its_kind_and_size() -> None:
    assert after(wrote("a.py", "x" * 1_200)) == ["1 created a.py (1,200 characters)"]
    assert after(edited("a.py", new="four")) == ["1 edited a.py (4 characters)"]
    assert after(ran("mv a.py b.py")) == ["1 moved a.py; moved b.py"]
    assert after(ran("sed -i s/x/y/ a.py")) == ["1 changed by a command a.py"]


def test_a_command_is_told_with_its_outcome() -> None:
    assert after(ran("pytest -q", GREEN)) == ["1 tested: pytest -q -> ok"]
    assert after(ran("ruff check .", "All checks passed!")) == ["1 built: ruff check . -> ok"]
    assert after(ran("python go.py", "done")) == ["1 ran: python go.py"]
    assert after(ran("python go.py", "no\nValueError: bad", 3)) == ["1 ran: python go.py -> exit 3: ValueError: bad"]
    assert after(ran("grep -rn load src", "src/a.py:1:load\nsrc/b.py:2:load")) == [
        "1 searched: grep -rn load src -> 2 lines"
    ]


def test_a_command_that_writes_and_tests_is_told_with_both() -> None:
    (line,) = after(ran("sed -i s/x/y/ a.py && pytest -q", RED, 1))
    assert line.startswith("1 changed by a command a.py; tested: sed -i s/x/y/ a.py && pytest -q -> exit 1: ")
    assert "FAILED tests/test_a.py::test_load" in line


def test_a_failure_is_one_by_its_exit_status_alone() -> None:
    """The words do not matter: '0 failed', or 'error' in a file that was read."""
    assert after(ran("pytest -q", "ERROR: none\n0 failed, 0 errors")) == ["1 tested: pytest -q -> ok"]
    assert after(read("log.txt", "FAILED tests/test_a.py\nError: no")) == ["1 read log.txt"]
    (line,) = after(ran("pytest -q", "all is well, 4 passed", 1))
    assert line == "1 tested: pytest -q -> exit 1: all is well, 4 passed"


def test_a_failure_is_told_by_the_lines_that_say_what_failed() -> None:
    (line,) = after(ran("pytest -q", RED, 1))
    assert line == (
        "1 tested: pytest -q -> exit 1: E   assert 1 == 2; FAILED tests/test_a.py::test_load - assert 1 == 2"
    )
    assert failure("[exit status 1, 0.1 s]\nfirst\nlast\n") == "last"
    assert failure("") == ""


def test_what_a_tool_refused_is_a_failure() -> None:
    refused = Did(tool="read_file", arguments={"path": "gone.py"}, answer="gone.py: is no file", is_error=True)
    assert after(refused) == ["1 read gone.py -> failed: gone.py: is no file"]


def test_decisions_are_told_as_they_were_said() -> None:
    said = "I looked around. I decided to keep the clock in `Session`, since it is plain.\nNext I read the API."
    assert after(ran("ls", "x"), said=said) == [
        "  decided: I decided to keep the clock in `Session`, since it is plain.",
        "1 searched: ls -> 1 line",
    ]
    assert decisions("Nothing of note here. Let me look.") == []
    assert decisions("- It turns out that the cache is global.") == ["It turns out that the cache is global."]
    assert decisions("3 seconds must be the limit from now on.") == ["3 seconds must be the limit from now on."]


def test_all_decisions_of_a_turn_are_told() -> None:
    said = "The cause is a missing lock in save(). We must not hold it while writing. Going with a queue then."
    assert len(decisions(said)) == 3


def test_what_a_person_says_meanwhile_is_told_word_for_word() -> None:
    """The harness's own messages are left out. No line of the person's text can look like one of the ledger's."""
    words = "Use UTC everywhere.\n\n  - also in the tests\n" + "and so on " * 500
    led = Led()
    led.hear("Said before anything happened; it stays where it is.")
    led.model(ran("ls", "x"))
    led.hear(words)
    led.hear("[the harness] You are going in circles: stop.")
    found = told(led)
    folded = words.strip().replace("\n", "\n    | ")
    assert found[1:] == [f"  the person said: {folded}"]
    assert short(led)[0] == f"  the person said: {folded}"


def test_a_persons_whole_log_is_cut() -> None:
    led = Led()
    led.model(ran("ls", "x"))
    led.hear("y" * 90_000)
    assert len(told(led)[-1]) < 21_000


def test_lines_are_those_of_the_turns_asked_for() -> None:
    """The ledger of all turns equals that of the first part followed by that of the rest."""
    led = Led()
    for number in range(6):
        led.model(read(f"f{number}.py", "x"), ran("ls", "y"), said=f"I decided on number {number} just now.")
        led.hear(f"Wish {number}.")
    whole = told(led)
    for place in range(1, len(led.view.turns) + 1):
        assert told(led, 1, place) + told(led, place) == whole


def test_a_condensed_ledger_tells_how_often_and_when_last() -> None:
    led = Led()
    led.model(read("a.py", "x"), read("a.py", "x", start=3, end=4), read("b.py", "x"))
    led.model(edited("a.py"), ran("ls src", "x"), ran("grep -n x a.py", "x"))
    assert short(led)[:2] == ["  b.py: read 1x, last at step 3", "  a.py: read 2x, edited 1x, last at step 4"]
    assert "  searches and other commands: 2, the last at step 6" in short(led)


def test_a_condensed_ledger_has_how_each_test_ended_last() -> None:
    led = Led()
    led.model(ran("pytest -q", RED, 1))
    led.model(ran("ruff check .", "x.py:1 bad", 1))
    led.model(ran("sed -i s/x/y/ a.py && pytest -q tests/b", "FAILED tests/b.py::test_b - no", 1))
    led.model(ran("pytest -q", GREEN))
    found = short(led)
    assert "4 tested: pytest -q -> ok" in found
    assert "2 built: ruff check . -> exit 1: x.py:1 bad" in found
    assert any("tests/b.py::test_b" in line for line in found)
    assert not any("test_load" in line for line in found)


def test_a_condensed_ledger_has_the_last_failures() -> None:
    """These are failures other than tests and builds."""
    led = Led()
    for number in range(20):
        led.model(ran(f"python go{number}.py", f"KeyError: {number}", 1))
    found = [line for line in short(led) if "KeyError" in line]
    assert len(found) == 8
    assert found[-1] == "20 ran: python go19.py -> exit 1: KeyError: 19"


def test_a_condensed_ledger_grows_with_what_it_must_keep_only() -> None:
    """A thousand different commands become one line."""
    led = Led()
    for number in range(1_000):
        led.model(ran(f"echo {number} {'x' * 60}", "y"))
    assert len("\n".join(told(led))) > 60_000
    assert len("\n".join(short(led))) < 300


_PATH = st.sampled_from([f"src/p{number}.py" for number in range(6)])
_DID = st.one_of(
    st.builds(read, _PATH, st.just("x")),
    st.builds(wrote, _PATH, st.just("x")),
    st.builds(edited, _PATH),
    st.builds(lambda path, status: ran(f"cat {path} && pytest -q", "FAILED no", status), _PATH, st.integers(0, 1)),
)


@given(st.lists(st.tuples(st.lists(_DID, max_size=3), st.booleans(), st.booleans()), max_size=10))
@settings(max_examples=40)
def test_no_path_decision_or_requirement_is_lost_by_condensing(rounds: list[tuple[list[Did], bool, bool]]) -> None:
    led = Led()
    for number, (done, decides, speaks) in enumerate(rounds):
        led.model(*done, said=f"I decided on plan number {number}." if decides else "")
        if speaks:
            led.hear(f"Wish number {number}.")
    found = short(led)
    whole = told(led)
    said = [line for line in whole if line.startswith(("  decided: ", "  the person said: "))]
    assert [line for line in found if line.startswith(("  decided: ", "  the person said: "))] == said
    assert len(said) == sum(decides + speaks for _, decides, speaks in rounds)
    paths = {read.path for deed in led.view.deeds for read in deed.reads}
    paths |= {write.path for deed in led.view.deeds for write in deed.writes}
    assert all(any(line.startswith(f"  {path}: ") for line in found) for path in paths)


def test_a_condensed_ledger_keeps_to_its_room() -> None:
    """The oldest entries go first: decisions before paths, and a person's words last."""
    led = Led()
    for number in range(400):
        led.model(read(f"src/module_{number}.py", "x"), said=f"I decided on plan number {number}, {'because ' * 20}.")
        if number % 40 == 0:
            led.hear(f"Wish number {number}. " + "please " * 50)
    for room in (2_000, 8_000, 30_000):
        found = list(condense_lines(led.view.turns, led.view.deeds, len(led.view.turns), room=room))
        assert room / 2 < sum(len(line) + 1 for line in found) < room + 200
        assert any("earlier decisions and wishes are left out" in line for line in found)
        assert any("Wish number 360." in line for line in found) and any("module_399" in line for line in found)
    assert sum("the person said" in line for line in found) == 10


@pytest.mark.parametrize("count", [1, 40])
def test_condensing_says_the_same_of_the_same(count: int) -> None:
    led = Led()
    for number in range(count):
        led.model(ran(f"pytest -q t{number}", RED, number % 2))
    led.model(ran("pytest -q t0", GREEN))
    assert f"{count + 1} tested: pytest -q t0 -> ok" in short(led)
    assert short(led) == short(led)
    assert len(short(led)) <= 31
