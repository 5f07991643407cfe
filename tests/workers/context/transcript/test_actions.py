"""An agent's actions, exchange by exchange."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import JsonValue

from forgepool.workers.context.transcript.actions import Deed, Deeds, deeds
from forgepool.workers.context.transcript.edit import Edit, show_turns
from forgepool.workers.llm.messages import Text, ToolCall, ToolResult, Turn, user
from forgepool.workers.shell.purpose.file_access import Action, Read, Write


def _asked(*calls: ToolCall) -> Turn:
    return Turn(role="assistant", parts=calls, stop="calls")


def _did(name: str, text: str, arguments: dict[str, JsonValue], *, is_error: bool = False) -> Deed:
    turns = [
        user(Text(text="task")),
        _asked(ToolCall(id="1", name=name, arguments=arguments)),
        user(ToolResult(call_id="1", text=text, is_error=is_error)),
    ]
    (deed,) = deeds(turns, root="/w")
    return deed


def _ran(command: str, text: str = "", *, is_error: bool = False) -> Deed:
    return _did("bash", text, {"command": command}, is_error=is_error)


@pytest.mark.parametrize(
    ("name", "arguments", "read"),
    [
        ("read_file", {"path": "a.py"}, Read(path="a.py")),
        ("read_file", {"path": "/w/a.py", "start": 10, "lines": 5}, Read(path="a.py", first=10, last=14)),
        ("read_file", {"path": "a.py", "lines": 5}, Read(path="a.py", first=1, last=5)),
        ("Read", {"file_path": "/w/b/a.py"}, Read(path="b/a.py")),
        ("Read", {"file_path": "/w/a.py", "offset": 100, "limit": 50}, Read(path="a.py", first=100, last=149)),
        ("Read", {"file_path": "/w/a.py", "offset": 100}, Read(path="a.py", first=100)),
        ("str_replace_editor", {"command": "view", "path": "/w/a.py"}, Read(path="a.py")),
        (
            "str_replace_based_edit_tool",
            {"command": "view", "path": "/w/a.py", "view_range": [5, 9]},
            Read(path="a.py", first=5, last=9),
        ),
        (
            "str_replace_editor",
            {"command": "view", "path": "/w/a.py", "view_range": [5, -1]},
            Read(path="a.py", first=5),
        ),
        ("readFile", {"filePath": "./a.py"}, Read(path="a.py")),
    ],
)
def test_a_reading_tool_of_some_agent_is_not_known(name: str, arguments: dict[str, JsonValue], read: Read) -> None:
    deed = _did(name, "text", arguments)
    assert (deed.action, deed.reads, deed.writes) == ("read", (read,), ())


_PATCH = "*** Begin Patch\n*** Add File: a.py\n+x\n*** Update File: b.py\n*** Move to: c.py\n*** Delete File: d.py\n"


@pytest.mark.parametrize(
    ("name", "arguments", "writes"),
    [
        ("write_file", {"path": "a.py", "content": "abc"}, [Write(path="a.py", how="create", characters=3)]),
        ("edit_file", {"path": "/w/a.py", "old": "a", "new": "bcd"}, [Write(path="a.py", how="edit", characters=3)]),
        ("Write", {"file_path": "/w/a.py", "content": ""}, [Write(path="a.py", how="create", characters=0)]),
        (
            "Edit",
            {"file_path": "/w/a.py", "old_string": "a", "new_string": "bc"},
            [Write(path="a.py", how="edit", characters=2)],
        ),
        ("MultiEdit", {"file_path": "/w/a.py", "edits": []}, [Write(path="a.py", how="edit")]),
        ("NotebookEdit", {"notebook_path": "/w/a.ipynb", "new_source": "x"},
         [Write(path="a.ipynb", how="edit", characters=1)]),
        ("str_replace_editor", {"command": "create", "path": "/w/a.py", "file_text": "ab"},
         [Write(path="a.py", how="create", characters=2)]),
        ("str_replace_editor", {"command": "str_replace", "path": "/w/a.py", "old_str": "a", "new_str": "b"},
         [Write(path="a.py", how="edit", characters=1)]),
        ("str_replace_editor", {"command": "undo_edit", "path": "/w/a.py"}, [Write(path="a.py", how="edit")]),
        ("rename_symbol", {"path": "a.py", "line": 1, "symbol": "x", "new_name": "y"},
         [Write(path="a.py", how="edit")]),
        ("apply_patch", {"input": _PATCH}, [
            Write(path="a.py", how="create"), Write(path="b.py", how="edit"),
            Write(path="c.py", how="move"), Write(path="d.py", how="delete"),
        ]),
    ],
)  # fmt: skip
def test_a_writing_tool_of_some_agent_is_not_known(
    name: str, arguments: dict[str, JsonValue], writes: list[Write]
) -> None:
    deed = _did(name, "OK", arguments)
    assert (deed.action, deed.reads, list(deed.writes)) == ("write", (), writes)


@pytest.mark.parametrize(
    ("name", "action"),
    [
        *((name, "search") for name in ("grep", "glob", "Grep", "Glob", "LS", "find_symbol", "find_references")),
        *((name, "end") for name in ("commit_plan", "finish", "ask", "compact", "TodoWrite", "submit")),
        ("confirm_red_phase", "test"),
        ("diagnostics", "build"),
        ("Task", "run"),
        ("WebFetch", "search"),
        ("something_else", "run"),
    ],
)
def test_a_tool_is_taken_for_something_else(name: str, action: Action) -> None:
    deed = _did(name, "x", {"path": "a.py"})
    assert (deed.action, deed.reads, deed.writes) == (action, (), ())


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("bash", {"command": "cat > a.py <<'E'\nx\nE"}),
        ("Bash", {"command": "cat > a.py <<'E'\nx\nE"}),
        ("shell", {"command": ["bash", "-lc", "cat > a.py <<'E'\nx\nE"]}),
        ("exec_command", {"cmd": "cat > a.py <<'E'\nx\nE"}),
        ("execute_bash", {"command": "cat > a.py <<'E'\nx\nE"}),
    ],
)
def test_a_shell_of_some_agent_is_not_known(name: str, arguments: dict[str, JsonValue]) -> None:
    deed = _did(name, "", arguments)
    assert deed.command == "cat > a.py <<'E'"
    assert deed.writes == (Write(path="a.py", how="create", characters=2),)


def test_a_command_given_as_words_is_not_known() -> None:
    assert _did("shell", "", {"command": ["cat", "a b.py"], "workdir": "/w/sub"}).reads == (Read(path="sub/a b.py"),)


@pytest.mark.parametrize(
    ("text", "is_error", "status"),
    [
        ("[exit status 2, 0.3 s]\nboom", True, 2),
        ("[exit status 0, 0.3 s]\n3 failed", False, 0),
        ("[ended by signal 9, 0.3 s]", True, -9),
        ("<returncode>1</returncode>\n<output>\n</output>", False, 1),
        ("Exit code 1\nTraceback", True, 1),
        ("Exit code: 101\nWall time: 0.1 seconds\nOutput:\nx", False, 101),
        ("Chunk ID: a1\nWall time: 0.1 seconds\nProcess exited with code 3\nOutput:\n", False, 3),
        ("x\n[Command finished with exit code 4]", False, 4),
        ("x\n[The command completed with exit code 5.]\n[Current working directory: /w]", False, 5),
        ('{"output":"x","metadata":{"exit_code":6,"duration_seconds":0.1}}', False, 6),
    ],
)
def test_an_exit_status_is_not_found(text: str, is_error: bool, status: int) -> None:
    deed = _ran("./run", text, is_error=is_error)
    assert (deed.status, deed.failed) == (status, status != 0)


@pytest.mark.parametrize(
    "text",
    [
        "error: 3 failed",
        "Traceback (most recent call last)",
        "Exit code 1\nis what it prints",
        "said: Exit code: 1\n",
        "[Command finished with exit code 1]\n" + "x" * 1000,
    ],
)
def test_what_a_program_prints_is_taken_for_its_status(text: str) -> None:
    deed = _ran("./run", text)
    assert (deed.status, deed.failed) == (None, False)


def test_a_file_that_speaks_of_a_status_has_one() -> None:
    deed = _did("read_file", "[exit status 1, 0.3 s]", {"path": "a.log"})
    assert (deed.status, deed.failed, deed.reads) == (None, False, (Read(path="a.log"),))


def test_nothing_found_is_a_failure() -> None:
    """Programs like grep exit with 1 for no match and with 2 for an error; no match is no failure."""
    none = "[exit status 1, 0.0 s]\n[no output]"
    assert not _ran("grep x a.py", none, is_error=True).failed
    assert _ran("grep x a.py", none, is_error=True).status == 1
    assert _ran("grep x a.py", "[exit status 2, 0.0 s]\n", is_error=True).failed
    assert _ran("pytest", none, is_error=True).failed


def test_what_failed_is_said_to_have_read_or_written() -> None:
    assert _did("edit_file", "no", {"path": "a.py", "old": "a", "new": "b"}, is_error=True).writes == ()
    assert _did("read_file", "no", {"path": "a.py"}, is_error=True).reads == ()
    assert _ran("cat a.py", "[exit status 1, 0.0 s]\n", is_error=True).reads == ()
    assert _ran("sed -i s/a/b/ a.py", "[exit status 2, 0.0 s]\n", is_error=True).writes == ()


def test_a_write_is_forgotten_because_a_later_part_failed() -> None:
    """Tests that fail after an edit do not undo it."""
    deed = _ran("sed -i s/a/b/ a.py && pytest", "[exit status 1, 0.0 s]\n", is_error=True)
    assert deed.failed
    assert deed.writes == (Write(path="a.py", how="shell"),)


def test_a_folder_that_is_viewed_is_a_file() -> None:
    text = "Here's the files and directories up to 2 levels deep in /w, excluding hidden items:\n/w\n"
    deed = _did("str_replace_editor", text, {"command": "view", "path": "/w"})
    assert (deed.action, deed.reads) == ("search", ())


def _talk(*steps: tuple[str, str]) -> list[Turn]:
    turns = [user(Text(text="task"))]
    for number, (command, text) in enumerate(steps):
        turns.append(_asked(ToolCall(id=f"c{number}", name="bash", arguments={"command": command})))
        turns.append(user(ToolResult(call_id=f"c{number}", text=text)))
    return turns


def test_a_script_written_earlier_is_run_unseen() -> None:
    """The text of a file that the agent wrote is known when it runs the file."""
    script = "cat > fix.py <<'E'\nopen('src/m.py', 'w').write('')\nE"
    patch = "cat > fix.diff <<'E'\n--- a/x.py\n+++ b/x.py\nE"
    _, ran, _, applied, other = deeds(
        _talk((script, ""), ("python3 fix.py", ""), (patch, ""), ("git apply fix.diff", ""), ("python3 else.py", ""))
    )
    assert (ran.action, ran.writes) == ("write", (Write(path="src/m.py", how="shell"),))
    assert applied.writes == (Write(path="x.py", how="shell"),)
    assert (other.action, other.writes) == ("run", ())


def test_an_edit_of_the_open_file_is_of_no_file() -> None:
    """Some tools edit and scroll the file opened last."""
    opened, edited, scrolled = deeds(
        _talk(("open src/a.py 10", ""), ("edit 3:4\nx > y\nend_of_edit", ""), ("scroll_down", ""))
    )
    assert opened.reads == (Read(path="src/a.py", part=True),)
    assert (edited.action, edited.writes) == ("write", (Write(path="src/a.py", how="edit"),))
    assert scrolled.reads == (Read(path="src/a.py", part=True),)


def test_a_result_nobody_asked_for_is_a_deed() -> None:
    fold = Deeds()
    fold.take_calls(1, _asked(ToolCall(id="a", name="bash", arguments={"command": "ls"})))
    assert fold.take_result(ToolResult(call_id="b", text="")) is None
    assert fold.take_result(ToolResult(call_id="a", text="")) is not None
    assert fold.take_result(ToolResult(call_id="a", text="")) is None
    assert len(fold.all) == 1


def test_the_text_before_the_birth_transforms_is_lost() -> None:
    """A failure is found in the full text, and both texts are kept."""
    fold = Deeds()
    fold.take_calls(1, _asked(ToolCall(id="a", name="bash", arguments={"command": "./run"})))
    deed = fold.take_result(ToolResult(call_id="a", text="(as step 1)"), "<returncode>7</returncode>\n")
    assert deed is not None
    assert (deed.status, deed.whole, deed.result.text) == (7, "<returncode>7</returncode>\n", "(as step 1)")
    fold.take_calls(3, _asked(ToolCall(id="a", name="bash", arguments={"command": "./run"})))
    again = fold.take_result(ToolResult(call_id="a", text="x"))
    assert again is not None
    assert (again.whole, again.turn, again.step) == ("x", 3, 2)


@given(
    sizes=st.lists(st.integers(min_value=1, max_value=4), min_size=1, max_size=6),
    random=st.randoms(use_true_random=False),
    same_ids=st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_steps_differ_from_those_an_edit_names(sizes: list[int], random: object, same_ids: bool) -> None:
    """Calls of a turn may be answered in any order: `all[n].step == n + 1`, and an edit's step is the same call's."""
    turns = [user(Text(text="task"))]
    for place, size in enumerate(sizes):
        ids = [f"{0 if same_ids else place}.{number}" for number in range(size)]
        turns.append(_asked(*(ToolCall(id=each, name="bash", arguments={"command": "ls"}) for each in ids)))
        random.shuffle(ids)  # type: ignore[attr-defined]
        turns.append(user(*(ToolResult(call_id=each, text=f"{place}.{each}") for each in ids)))
    found = deeds(turns)
    assert [deed.step for deed in found] == list(range(1, sum(sizes) + 1))
    for deed in found:
        seen = show_turns(turns, Edit(results={deed.step: "gone"}))
        changed = [old for old, new in zip(_results(turns), _results(seen), strict=True) if old != new]
        assert changed == [deed.result]
        assert turns[deed.turn].calls.count(deed.call) == 1


def _results(turns: list[Turn]) -> list[ToolResult]:
    return [result for turn in turns for result in turn.results]


def test_a_call_that_was_never_answered_shifts_an_edits_steps() -> None:
    """It is no deed but counts as a step, as it does for an edit."""
    fold = Deeds()
    fold.take_calls(1, _asked(ToolCall(id="a", name="bash", arguments={}), ToolCall(id="b", name="bash", arguments={})))
    fold.take_result(ToolResult(call_id="a", text=""))
    fold.take_calls(3, _asked(ToolCall(id="c", name="bash", arguments={})))
    fold.take_result(ToolResult(call_id="b", text="late"))
    fold.take_result(ToolResult(call_id="c", text=""))
    assert [(deed.step, deed.call.id) for deed in fold.all] == [(1, "a"), (3, "c")]
