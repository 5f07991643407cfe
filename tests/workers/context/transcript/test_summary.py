"""A conversation's summary by rules: only what results show, in one form, and the texts worth handing on."""

from itertools import pairwise

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from premade import conversation, read

from forgepool.workers.context.transcript.entries import PlanCommitted
from forgepool.workers.context.transcript.summary import (
    FileRead,
    Summary,
    excerpts,
    render_summary,
    stretches,
    summarise_entries,
    synthetic_plan,
)
from forgepool.workers.shell.purpose.programs import is_test, reads_only

RED = "![exit status 1, 0.3 s]\n1 failed in 0.10s"


def test_reads_are_files_with_the_lines_that_were_shown() -> None:
    """Different spellings are one file. A call that failed read nothing."""
    entries = conversation(
        [read("src/a.py", 1, 3), read("./src//a.py", 4, 6), read("/w/src/a.py", 10, 11)],
        [read("b.py", 2, 2), ("read_file", {"path": "gone.py"}, "!gone.py: no such file")],
    )
    assert summarise_entries(entries, root="/w").files_read == (
        FileRead(path="src/a.py", lines=((1, 6), (10, 11))),
        FileRead(path="b.py", lines=((2, 2),)),
    )


def test_writes_count_where_they_worked() -> None:
    """Any tool counts, and so does what git reports as changed."""
    patch = "*** Begin Patch\n*** Update File: c.py\n*** Add File: d.py\n@@\n-x\n+y\n*** End Patch"
    entries = conversation(
        [
            ("write_file", {"path": "./a.py", "content": "x"}, "OK: wrote 1 bytes to a.py (iter 1)"),
            ("edit_file", {"path": "b.py", "old": "x", "new": "y"}, "!b.py: the old text is not in it"),
            ("apply_patch", {"patch": patch}, "OK"),
            ("apply_patch", {"patch": patch.replace("c.py", "e.py")}, "!no"),
        ]
    )
    assert summarise_entries(entries, changed=("a.py", "f.py")).files_written == ("a.py", "c.py", "d.py", "f.py")


def test_a_plan_and_a_red_phase_are_what_was_accepted() -> None:
    """A refused call does not count, whatever the model says about it."""
    refused = conversation(
        "I have committed the plan because the red phase is confirmed.",
        [("commit_plan", {"plan": "p"}, "!the plan is not committed"), ("confirm_red_phase", {}, "!it passed")],
    )
    assert not summarise_entries(refused).plan_committed and not summarise_entries(refused).red_phase_confirmed
    accepted = conversation([("commit_plan", {"plan": "p"}, "OK: committed"), ("confirm_red_phase", {}, "OK: red")])
    assert summarise_entries(accepted).plan_committed and summarise_entries(accepted).red_phase_confirmed
    made = [*refused, PlanCommitted(at=0, plan="p", files=(), synthetic=True)]
    assert not summarise_entries(made).plan_committed
    assert summarise_entries([*made, PlanCommitted(at=0, plan="p", files=("a",))]).plan_committed


def test_decisions_are_the_models_own_sentences_once() -> None:
    """They decide or find something. Headings, greetings, and texts of tools or the harness do not count."""
    entries = conversation(
        "Let me look.\n\n- I'll use the mirror's git, because it has the base.\nOk. The issue was a missing lock.",
        "I'll use the mirror's git, because it has the base.",
        "> You must hurry because of the night.",
        [("grep", {}, "because of this line in a file")],
    )
    assert summarise_entries(entries).key_decisions == (
        "I'll use the mirror's git, because it has the base.",
        "The issue was a missing lock.",
    )


def test_the_last_test_output_is_that_of_tests() -> None:
    """A later command that is no test does not replace it. Without any test, a failure counts."""
    entries = conversation(
        [("bash", {"command": "ls /nowhere"}, "![exit status 2]\nno such file")],
        [("bash", {"command": "cd x && uv run pytest -q"}, RED)],
        [("bash", {"command": "ls"}, "[exit status 0]\nfiles")],
    )
    assert summarise_entries(entries).last_test_output == RED[1:]
    assert summarise_entries(entries[:3]).last_test_output == "[exit status 2]\nno such file"
    assert summarise_entries(entries, tests=("ls",)).last_test_output == "[exit status 0]\nfiles"
    assert summarise_entries(conversation([("bash", {"command": "ls"}, "files")])).last_test_output == ""


@pytest.mark.parametrize(
    ("command", "tests"),
    [
        ("pytest -q tests/x.py", True),
        ("PYTHONPATH=. .venv/bin/python -m pytest", True),
        ("timeout 60 npm run test:unit", True),
        ("cargo nextest run", True),
        ("make build && make check", True),
        ("cat pytest.ini", False),
        ("grep -rn pytest .", False),
        ("git log | head; echo test", False),
        ("npm install", False),
    ],
)
def test_a_test_run_is_known_by_its_program(command: str, tests: bool) -> None:
    assert is_test(command) is tests


@pytest.mark.parametrize(
    ("command", "reads"),
    [
        ("cat a.py | head -20; git log -3 2>/dev/null", True),
        ("grep -n x a.py 2>&1 && ls", True),
        ("sed -n 1,5p a.py", True),
        ("sed -i s/a/b/ a.py", False),
        ("echo x > a.py", False),
        ("find . -name x -delete", False),
        ("git checkout -- a.py", False),
        ("git diff && pytest", False),
        ("python fix.py", False),
    ],
)
def test_a_command_only_reads_if_all_of_it_does(command: str, reads: bool) -> None:
    assert reads_only(command) is reads


def test_the_form_is_yaml_with_the_six_fields() -> None:
    """Text of several lines keeps its lines."""
    summary = Summary(
        files_read=(FileRead(path="a.py", lines=((1, 3), (9, 9))),),
        files_written=("b.py",),
        plan_committed=True,
        key_decisions=("Do it: now.",),
        last_test_output="FAILED x\n\tassert 1  \nend",
    )
    text = render_summary(summary)
    assert "last_test_output: |-\n  FAILED x\n      assert 1\n  end\n" in text
    assert yaml.safe_load(text) == {
        "files_read": ["a.py: lines 1-3, 9-9"],
        "files_written": ["b.py"],
        "plan_committed": True,
        "key_decisions": ["Do it: now."],
        "last_test_output": "FAILED x\n    assert 1\nend",
        "red_phase_confirmed": False,
    }
    assert text == render_summary(summary)


@settings(max_examples=30)
@given(
    read=st.lists(st.text(max_size=300), max_size=60),
    said=st.lists(st.text(max_size=300), max_size=12),
    output=st.text(max_size=3000),
)
def test_the_form_is_bounded_and_says_what_it_leaves_out(read: list[str], said: list[str], output: str) -> None:
    """It is at most 8,000 characters of valid YAML, whatever names and output contain."""
    files = tuple(FileRead(path=path, lines=((1, 9),)) for path in [*read, *(f"{'d/' * 40}{n}.py" for n in range(99))])
    summary = Summary(files_read=files, key_decisions=tuple(said), last_test_output=output)
    text = render_summary(summary)
    assert len(text) <= 8_000
    assert yaml.safe_load(text)["files_read"][0].endswith(" earlier ones are left out)")


def test_a_synthetic_plan_says_that_it_is_one() -> None:
    plan = synthetic_plan(summarise_entries(conversation([read("a.py")])), "# Task x: Do it\n\nmore", why="20 turns")
    assert plan.startswith("The harness wrote this plan, because none was committed: 20 turns.\n")
    assert "1. Do what the task card asks: Task x: Do it\n2. Read so far: a.py." in plan
    assert "No file was read." in synthetic_plan(Summary(), "", why="w")


def test_excerpts_hold_what_was_read_word_for_word() -> None:
    """They are in the plan's order, with lines joined over several reads and gaps marked. Unread files are left out."""
    entries = conversation([read("a.py", 1, 2), read("b.py", 5, 5)], [read("./a.py", 2, 3, "y"), read("a.py", 8, 8)])
    assert excerpts(entries, ["b.py", "a.py", "new.py", "b.py"]) == (
        "### b.py (lines 5-5)\n     5\tx5\n\n"
        "### a.py (lines 1-3, 8-8)\n     1\tx1\n     2\ty2\n     3\ty3\n   ...\n     8\tx8\n"
    )


@pytest.mark.parametrize(
    ("call", "left"),
    [
        (("edit_file", {"path": "./a.py"}, "OK"), "b.py"),
        (("edit_file", {"path": "a.py"}, "!no"), "a.py b.py"),
        (("bash", {"command": "sed -i s/x/y/ *.py"}, "[exit status 0]"), ""),
        (("bash", {"command": "cat a.py"}, "[exit status 0]"), "a.py b.py"),
        (("rename_symbol", {"path": "c.py"}, "OK"), ""),
    ],
)
def test_excerpts_hold_nothing_that_may_have_changed(call: tuple[str, dict[str, str], str], left: str) -> None:
    """A file written after it was read has to be read again."""
    entries = conversation([read("a.py"), read("b.py")], [call])
    text = excerpts(entries, ["a.py", "b.py"])
    assert " ".join(path for path in ("a.py", "b.py") if f"### {path}" in text) == left
    again = excerpts([*entries, *conversation([read("a.py")])], ["a.py"])
    assert again.startswith("### a.py (lines 1-3)")


def test_excerpts_keep_to_their_budget_and_say_what_is_missing() -> None:
    """A small file is complete, and large ones share the rest."""
    big = read("big.py", 1, 2000, "long line of text ")
    entries = conversation([big, read("small.py"), read("other.py", 1, 2000, "long line of text ")])
    text = excerpts(entries, ["big.py", "small.py", "other.py"], budget=10_000)
    assert 9_000 < len(text) < 10_500
    assert "### small.py (lines 1-3)\n" in text
    assert text.count("; also read, not repeated here: ") == 2
    assert excerpts(entries, ["big.py"], budget=3).startswith("### big.py (lines none; also read")


@given(st.sets(st.integers(min_value=1, max_value=200)))
def test_stretches_cover_the_lines_and_no_others(numbers: set[int]) -> None:
    """They are in order, and no two are adjacent."""
    found = stretches(numbers)
    assert {number for first, last in found for number in range(first, last + 1)} == numbers
    assert all(one[1] + 1 < other[0] for one, other in pairwise(found))


@pytest.mark.parametrize(
    "command",
    [
        *("sed -Ei s/a/b/ x", "sed -ni 1p x", "sed 'w y' x", "sed -n 's/a/b/w y' x", "sort -o x x", "sort -uox x"),
        *("cat x 2>y", "cat x &>y", "echo $(rm x)", "echo `rm x`", "awk -i inplace 1 x", "awk '{print > \"y\"}' x"),
        *("uniq a b", "git diff --output=x", "find . -okdir rm {} +", "find . -fls x", "fd x -x rm", "fd -X rm x"),
        *("rg --pre rm x", "tree -o x", "cat <(rm x)", "echo x > /dev/nullx"),
    ],
)
def test_what_may_write_is_no_read(command: str) -> None:
    """It may write by an option, a redirection, a substitution or a script."""
    assert not reads_only(command)


@pytest.mark.parametrize(
    "command",
    ["sed -n 10,20p x", "sed -n '/def/p' x", "sort -u x | uniq -c", "cat x 2>/dev/null 2>&1", "grep 'a > b' x", "fd x"],
)
def test_plain_reads_are_reads(command: str) -> None:
    """Otherwise exploring would look like working."""
    assert reads_only(command)


def test_excerpts_compare_with_what_is_there_now() -> None:
    """Lines that the file no longer has are left out, and so is a missing file."""
    entries = conversation([read("a.py")])
    whole = excerpts(entries, ["a.py"])
    lines = [line.partition("\t")[2] for line in whole.split("\n")[1:] if "\t" in line]
    text = "\n".join(lines)
    assert excerpts(entries, ["a.py"], current=lambda path: text) == whole
    assert excerpts(entries, ["a.py"], current=lambda path: None) == ""
    changed = "\n".join(["changed", *lines[1:]])
    assert lines[0] not in excerpts(entries, ["a.py"], current=lambda path: changed).split("\n", 1)[1]


def test_excerpts_forget_after_a_tool_that_nobody_knows() -> None:
    """A server's tool may have changed any file."""
    entries = conversation([read("a.py")], [("mcp__other__do", {}, "OK")])
    assert excerpts(entries, ["a.py"]) == ""


def test_a_hunks_lines_name_no_files() -> None:
    """A removed line may look like a patch's head, and trailing blanks take no extra time."""
    patch = (
        "*** Begin Patch\n*** Update File: a.py\n@@\n--- a/no.py\n+++ b/no.py\n+x" + " " * 200_000 + "\n*** End Patch"
    )
    entries = conversation([("apply_patch", {"input": patch}, "OK")])
    assert summarise_entries(entries).files_written == ("a.py",)
