"""For files used lately the newest text is kept, and never a text that was overwritten since."""

from collections.abc import Callable, Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from led import Did, Led, code, edited, ran, read, wrote

from forgepool.workers.context.edits.state import unknown
from forgepool.workers.context.profiles.ledger import Carrier, hot
from forgepool.workers.shell.purpose.file_access import touches


def found(
    *done: Did,
    dropped: int | None = None,
    since: int = 1,
    also: Iterable[str] = (),
    room: int = 100_000,
    current: Callable[[str], str | None] = unknown,
) -> list[Carrier]:
    """Make each call in its own turn, drop all by default, and return the kept texts."""
    led = Led()
    for each in done:
        led.model(each)
    dropped = len(done) if dropped is None else dropped
    return hot(led.view.deeds, dropped=dropped, touched_since=since, also=also, room=room, current=current)


def texts(carriers: Iterable[Carrier]) -> list[tuple[str, str]]:
    return [(each.label, each.text) for each in carriers]


def test_what_was_read_stays_as_it_was_read() -> None:
    ranged = read("b.py", "x = 1", start=3, end=4)
    assert texts(found(read("a.py", "one"), ranged, ran("tail -3 c.py", "end"))) == [
        ("a.py", "one"),
        ("b.py, lines 3 to 4", "x = 1"),
        ("part of c.py", "[exit status 0, 0.1 s]\nend"),
    ]


def test_what_was_written_whole_stays_as_it_was_written() -> None:
    heredoc = "cat > b.py <<'EOF'\ntwo\nEOF"
    assert texts(found(wrote("a.py", "one"), ran(heredoc))) == [("a.py", "one"), ("b.py", heredoc)]


@pytest.mark.parametrize(
    "command", ["python make.py > a.py", "cp b.py a.py", "cat > a.py <<'E'\nx\nE\nsed -i s/x/y/ a.py"]
)
def test_a_command_is_not_the_text_that_it_made(command: str) -> None:
    assert found(ran(command)) == []


@pytest.mark.parametrize(
    "done",
    [
        edited("a.py"),
        wrote("a.py", "new"),
        ran("sed -i s/x/y/ a.py"),
        ran("git checkout ."),
        ran("sed -i s/x/y/ a.py && pytest -q", "FAILED", 1),
    ],
)
def test_what_a_later_call_may_have_written_over_is_left_out(done: Did) -> None:
    """This includes a failed command, whose partial effect is unknown."""
    assert "old" not in [each.text for each in found(read("a.py", "old"), done)]


def test_a_failed_edit_has_written_nothing() -> None:
    refused = Did(tool="edit_file", arguments={"path": "a.py", "old": "x", "new": "y"}, answer="no x", is_error=True)
    assert texts(found(read("a.py", "old"), refused)) == [("a.py", "old")]


def test_of_a_file_that_was_written_over_the_text_of_now_stays() -> None:
    files = {"a.py": "as it is"}
    assert texts(found(read("a.py", "old"), edited("a.py"), current=files.get)) == [("a.py, as it is now", "as it is")]


def test_a_file_of_which_a_later_read_is_shown_is_not_looked_at() -> None:
    """That read is among the latest turns and is not dropped."""
    looked: list[str] = []

    def current(path: str) -> str:
        looked.append(path)
        return "now"

    done = (read("a.py", "old"), edited("a.py"), read("a.py", "new"))
    assert found(*done, dropped=2, current=current) == []
    assert looked == []
    assert texts(found(*done, dropped=3, current=current)) == [("a.py", "new")]


def test_a_file_that_is_to_be_written_is_there_before_it_is() -> None:
    """Planned files that were not touched lately come before the hot ones are left out."""
    files = {"plan.py": "planned"}
    assert texts(found(read("a.py", "one"), also=["plan.py", "gone.py"], current=files.get)) == [
        ("plan.py, as it is now", "planned"),
        ("a.py", "one"),
    ]
    assert texts(found(read("plan.py", "seen"), ran("ls"), since=3, also=["plan.py"], current=files.get)) == [
        ("plan.py", "seen")
    ]


def test_only_files_touched_lately_are_hot() -> None:
    """Any call counts, and a late touch keeps an early read."""
    done = (read("a.py", "one"), read("b.py", "two"), ran("grep -n x c.py"), read("b.py", "part", start=1, end=2))
    assert [each.text for each in found(*done, since=5)] == ["two", "part"]
    assert [each.text for each in found(*done, since=1)] == ["one", "two", "part"]


def test_lines_that_a_later_carrier_shows_are_not_shown_twice() -> None:
    whole, early = read("a.py", "whole"), read("a.py", "early", start=1, end=9)
    inner, outer = read("a.py", "inner", start=3, end=5), read("a.py", "outer", start=2, end=8)
    rest = read("a.py", "rest", start=3)
    assert [each.text for each in found(early, whole)] == ["whole"]
    assert [each.text for each in found(whole, early)] == ["whole", "early"]
    assert [each.text for each in found(inner, outer)] == ["outer"]
    assert [each.text for each in found(outer, inner)] == ["outer", "inner"]
    assert [each.text for each in found(inner, rest)] == ["rest"]
    assert [each.text for each in found(rest, inner)] == ["rest", "inner"]
    tail = "[exit status 0, 0.1 s]\nend"
    assert [each.text for each in found(early, ran("tail -3 a.py", "end"))] == ["early", tail]
    assert [each.text for each in found(ran("tail -3 a.py", "end"), rest)] == [tail, "rest"]
    assert [each.text for each in found(ran("tail -3 a.py", "end"), read("a.py", "all", start=1))] == [tail, "all"]
    assert [each.text for each in found(ran("tail -3 a.py", "end"), early)] == ["[exit status 0, 0.1 s]\nend", "early"]


def test_the_newest_have_the_room_and_a_smaller_one_fills_it() -> None:
    done = (read("a.py", "a" * 30), read("b.py", "b" * 80), read("c.py", "c" * 60))
    assert [each.path for each in found(*done, room=100)] == ["a.py", "c.py"]
    assert [each.path for each in found(*done, room=140)] == ["b.py", "c.py"]
    assert found(*done, room=20) == []


def test_what_failed_shows_no_file() -> None:
    gone = Did(tool="read_file", arguments={"path": "a.py"}, answer="no such file", is_error=True)
    tried = ran("cat > c.py <<'E'\nx\nE\npytest -q", "FAILED", 1)
    assert found(gone, ran("cat b.py", "no such file", 1), tried) == []


def test_a_result_of_several_files_is_no_files_text() -> None:
    """The files are read from the disk instead."""
    files = {"a.py": "one"}
    assert texts(found(ran("cat a.py b.py", "mixed"), current=files.get)) == [("a.py, as it is now", "one")]


_PATH = st.sampled_from(["a.py", "b.py", "src/c.py"])
_DID = st.one_of(
    st.builds(read, _PATH, st.sampled_from([code("f", 5), "x" * 200, ""])),
    st.builds(
        lambda path, start, more: read(path, "lines", start=start, end=start + more),
        _PATH,
        st.integers(1, 9),
        st.integers(0, 9),
    ),
    st.builds(edited, _PATH),
    st.builds(wrote, _PATH, st.sampled_from(["y" * 90, "z"])),
    st.builds(
        ran,
        st.sampled_from(["rm a.py", "sed -i s/x/y/ src/*.py; pytest -q", "git stash", "ls"]),
        st.just(""),
        st.integers(0, 1),
    ),
)


@given(st.lists(_DID, max_size=12), st.data())
@settings(max_examples=120)
def test_a_read_made_after_the_last_write_of_its_path_is_kept(done: list[Did], data: st.DataObject) -> None:
    """
    If there is room, the text of a file used lately stays, or a later text has its lines. A text that may be
    overwritten never stays.
    """
    led = Led()
    for each in done:
        led.model(each)
    deeds, dropped = led.view.deeds, data.draw(st.integers(0, len(done)))
    since = data.draw(st.integers(1, 2 * len(done) + 1))
    kept = hot(deeds, dropped=dropped, touched_since=since, room=10_000, current=unknown)
    for each in kept:
        later = [write for deed in deeds[each.step :] for write in deed.writes]
        assert each.step <= dropped and not any(touches(write, each.path) for write in later)
    lately = {one.path for deed in deeds if deed.turn >= since for one in (*deed.reads, *deed.writes)}
    for deed in deeds[:dropped]:
        if deed.action != "read" or deed.failed or deed.reads[0].path not in lately:
            continue
        path = deed.reads[0].path
        after = deeds[deed.step :]
        if any(touches(write, path) for other in after for write in other.writes):
            continue
        again = [other.step for other in after if other.action == "read" and path == other.reads[0].path]
        assert again or any(each.step == deed.step and each.text == deed.whole for each in kept)
    assert sum(len(each.text) for each in kept) <= 10_000
