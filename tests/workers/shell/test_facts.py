"""Facts other than argv: folders, redirections, assignments, functions and script files."""

from pathlib import Path

import pytest

from forgepool.workers.shell.language.script import (
    Definition,
    Execution,
    Fact,
    ReadFile,
    Redirect,
    ShellScript,
    ShellWord,
    Unparseable,
    VariableAssignment,
)
from forgepool.workers.shell.read_script import read_script

FOLDER = Path("/srv/tree")


def _facts(text: str, read_file: ReadFile | None = None) -> tuple[Fact, ...]:
    found = read_script(text, folder=FOLDER, read_file=read_file)
    assert isinstance(found, ShellScript), found
    return found.facts


def _runs(text: str, read_file: ReadFile | None = None) -> dict[str, Execution]:
    """Return executions by their first word, the last one for each name."""
    return {fact.argv[0].text: fact for fact in _facts(text, read_file) if isinstance(fact, Execution)}


def _files(**texts: str) -> ReadFile:
    """Return a reader of texts by file name, all in the folder; `x_sh` stands for `x.sh`."""
    by_path = {FOLDER / name.replace("_", "."): text for name, text in texts.items()}
    return by_path.get


@pytest.mark.parametrize(
    ("text", "cwd"),
    [
        ("p", FOLDER),
        ("cd sub && p", FOLDER / "sub"),
        ("cd /etc && p", Path("/etc")),
        ("cd sub && cd deep && p", FOLDER / "sub/deep"),
        ("cd .. && p", FOLDER / ".."),
        ("cd sub || exit 1; p", FOLDER / "sub"),
        ("set -e; cd sub; p", FOLDER / "sub"),
        ("command cd sub && p", FOLDER / "sub"),
        ("(cd sub && q); p", FOLDER),
        ("cd sub | q; p", FOLDER),
        ("cd sub & p", FOLDER),
        ("x=$(cd sub && pwd); p", FOLDER),
        ("bash -c 'cd sub && q'; p", FOLDER),
        ("bash -c 'cd sub && p'", FOLDER / "sub"),
        ("env -C sub p", FOLDER / "sub"),
        ("eval 'cd sub' && p", None),
        ("cd sub; p", None),
        ("cd sub\np", None),
        ("cd sub && q; p", None),
        ("cd sub || q; p", None),
        ("cd sub || p", FOLDER),
        ('cd "$x" && p', None),
        ("cd && p", None),
        ("cd - && p", None),
        ("pushd sub && p", None),
        ("if a; then cd sub; fi; p", None),
        ("for i in 1 2; do p; cd sub; done", None),
        ("f() { cd sub; }; f; p", None),
        ("f() { p; }; cd sub && f", None),
        ("trap p EXIT; cd sub", None),
        ("find . -execdir p \\;", None),
        ("sudo -D sub p", None),
        (". ./absent; p", None),
    ],
)
def test_the_folder_is_followed_or_given_up(text: str, cwd: Path | None) -> None:
    """A command's folder is known if every path to it agrees, and unknown otherwise."""
    assert _runs(text)["p"].cwd == cwd


def test_redirections_name_the_files_the_shell_opens() -> None:
    """They read, write or both. Copies of descriptors and here-documents name no file."""
    facts = _facts("cd s && a < r > w 2>> w2 &> w3 >| w4 3>&1 2>&-\nb >&w6 >$x")
    found = [(fact.mode, fact.path.text, fact.path.static, fact.cwd) for fact in facts if isinstance(fact, Redirect)]
    there = FOLDER / "s"
    assert found == [
        ("read", "r", True, there),
        *(("write", name, True, there) for name in ("w", "w2", "w3", "w4")),
        ("write", "w6", True, None),
        ("write", "", False, None),
    ]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("PATH=/x:$PATH ls", ["PATH"]),
        ("A=1 B=2", ["A", "B"]),
        ("export LD_PRELOAD=x", ["LD_PRELOAD"]),
        ("env GIT_SSH_COMMAND=x git status", ["GIT_SSH_COMMAND"]),
        ("sudo A=1 ls", ["A"]),
        ("read -r a b", ["a", "b"]),
        ("read", ["REPLY"]),
        ("printf -v a x", ["a"]),
        ("for a in x; do b; done", ["a"]),
        ("unset a", ["a"]),
        ("echo ${a:=x}", ["a"]),
        ("f() { local a=1; }", ["a"]),
        ("a=(1 2); a+=(3); a[1]=2", ["a", "a", "a"]),
        ("BASH_ENV=x ENV=y bash -c 'IFS=z'", ["BASH_ENV", "ENV", "IFS"]),
    ],
)
def test_every_way_to_set_a_variable_is_a_fact(text: str, names: list[str]) -> None:
    """The name is reported, whatever sets it."""
    assert [fact.name for fact in _facts(text) if isinstance(fact, VariableAssignment)] == names


def test_a_word_that_is_not_known_has_its_literal_prefix() -> None:
    """The prefix ends where only bash knows the value. The fact also says whether the word may become several."""
    argv = _runs('p a$x "b $y" c*.py -o"$z" ~/d {e,f} \'g*\' "$@" h[1')["p"].argv[1:]
    assert [(word.text, word.static, word.several) for word in argv] == [
        ("a", False, True),
        ("b ", False, False),
        ("c", False, True),
        ("-o", False, False),
        ("", False, False),
        ("", False, True),
        ("g*", True, False),
        ("", False, True),
        ("h[1", True, False),
    ]


def test_a_word_says_what_is_shown_of_it() -> None:
    """A known word is shown as the program gets it, and another as it is written."""
    assert _runs("p 'a b' \"$x\"")["p"].shown == ("p", "a b", '"$x"')
    assert ShellWord(text="a", static=True) == ShellWord(text="a", static=True, written="'a'")


def test_functions_are_defined_and_their_calls_only_run_their_bodies() -> None:
    """The body's commands are facts. So is the call, because its name may not be that function's."""
    facts = _facts("f() { git push; }; f x")
    assert [fact.name for fact in facts if isinstance(fact, Definition)] == ["f"]
    runs = _runs("f() { git push; }; f x")
    assert runs["f"].wrapper and not runs["git"].wrapper


# -- script files


def test_a_script_cannot_hide_what_it_runs() -> None:
    """It is run by its path, by a shell, by `source` or through wrappers. Its commands are facts, with its name."""
    read_file = _files(x_sh="#!/bin/bash\ngit push\n")
    for text in (
        "./x.sh",
        "bash x.sh",
        "sh ./x.sh a",
        ". ./x.sh",
        "source x.sh",
        "sudo timeout 5 ./x.sh",
        "cat x.sh | sh",
    ):
        found = _runs(text, read_file)["git"]
        assert found.shown == ("git", "push") and found.script == str(FOLDER / "x.sh")
    assert not _runs("./x.sh", read_file)["./x.sh"].opaque


def test_a_script_that_cannot_be_read_stands_alone() -> None:
    """It is missing, in another language, or in an unknown folder. Nothing is claimed about what it does."""
    read_file = _files(x_py="#!/usr/bin/env python3\nimport os\n", y_sh="git push\n")
    assert _runs("./absent.sh", read_file)["./absent.sh"].opaque
    assert _runs("./x.py", read_file)["./x.py"].opaque
    assert _runs('cd "$d"; ./y.sh', read_file)["./y.sh"].opaque
    assert _runs("./y.sh")["./y.sh"].opaque


def test_a_script_without_a_first_line_is_read_by_bash() -> None:
    """The shell itself runs such a file."""
    assert "git" in _runs("./y.sh", _files(y_sh="git push\n"))


@pytest.mark.parametrize(
    "text",
    [
        "cp evil x.sh && ./x.sh",
        "sed -i s/a/b/ x.sh; ./x.sh",
        "for i in 1 2; do ./x.sh; cp evil x.sh; done",
        "f() { ./x.sh; }; cp evil x.sh; f",
    ],
)
def test_a_script_that_may_be_written_before_it_runs_is_opaque(text: str) -> None:
    """The script that runs may differ from the one that was read."""
    runs = {fact.argv[0].text: fact for fact in _facts(text, _files(x_sh="ls\n")) if isinstance(fact, Execution)}
    assert any(run.opaque for run in runs.values())
    assert "ls" in runs


_RUNS = ["./x.sh", "bash x.sh", ". x.sh", "cat x.sh | sh", "bash < x.sh", "cd ..; bash tree/x.sh"]
_WRITES = ["echo 'rm y' > x.sh", "cat > ./x.sh <<'E'\nrm y\nE", "echo : > x.sh; echo rm y >> x.sh"]


@pytest.mark.parametrize("run", _RUNS)
@pytest.mark.parametrize("text", _WRITES)
def test_a_text_that_the_script_itself_writes_is_read(text: str, run: str) -> None:
    """The old one is not, which no longer runs."""
    runs = _runs(f"{text}\n{run}", _files(x_sh="ls\n"))
    assert "rm" in runs and "ls" not in runs


@pytest.mark.parametrize(
    "text",
    ["a && echo rm y > x.sh; ./x.sh", "if a; then echo rm y > x.sh; fi; . x.sh", "echo rm y > x.sh & sh x.sh"],
)
def test_where_the_writing_is_not_sure_both_texts_are_read(text: str) -> None:
    assert {"rm", "ls"} <= set(_runs(text, _files(x_sh="ls\n")))


def test_a_script_that_cannot_be_parsed_is_opaque_and_its_plain_commands_are_found() -> None:
    """`./gradlew` contains backticks. The commands that can be found in it are still judged."""
    text = '#!/bin/sh\n# rm x\na=`uname -s`\nif b; then A=1 git push origin "$c"; fi\nbash -c "hub sync"\n'
    runs = _runs("./x.sh", _files(x_sh=text))
    assert runs["./x.sh"].opaque
    assert {"uname", "b", "git", "hub"} <= set(runs)
    assert "rm" not in runs
    assert [word.text for word in runs["git"].argv] == ["git", "push", "origin"]


def test_scripts_that_run_each_other_come_to_an_end() -> None:
    """The cycle is cut, and the commands of both are found."""
    read_file = _files(a_sh="./b.sh\nrm x\n", b_sh="./a.sh\ngit push\n")
    assert {"rm", "git"} <= set(_runs("./a.sh", read_file))


def test_a_long_chain_of_scripts_ends_in_an_opaque_one() -> None:
    """Scripts are followed to a limited depth."""
    read_file = {FOLDER / str(number): f"./{number + 1}\n" for number in range(50)}.get
    assert any(run.opaque for run in _runs("./0", read_file).values())


def test_a_plain_shell_is_not_given_what_only_bash_reads_so() -> None:
    """`a &>f b` is two commands to sh, so a script for sh that contains it is opaque."""
    runs = _runs("./x.sh", _files(x_sh="#!/bin/sh\na &>f b\n"))
    assert runs["./x.sh"].opaque and "b" in runs
    assert "b" not in _runs("./x.sh", _files(x_sh="#!/bin/bash\na &>f b\n"))


def test_an_activated_environment_is_read() -> None:
    """The script is the one that Python's venv writes."""
    text = (Path(__file__).parent / "activate").read_text()
    found = _facts("source activate && pytest -q", {FOLDER / "activate": text}.get)
    assert [fact.shown for fact in found if isinstance(fact, Execution)][-1] == ("pytest", "-q")


# -- caps


@pytest.mark.parametrize(
    "text",
    [
        "a" * (32 * 1024 + 1),
        "é" * (16 * 1024 + 1),
        ";".join(["a"] * 401),
        "$(a) " * 401,
        "f() { a; }; " * 401,
        "( " * 41 + "a" + " )" * 41,
        "echo " + "$(" * 41 + "a" + ")" * 41,
        "if a; then " * 41 + "b" + "; fi" * 41,
        "env " * 50 + "a",
        "eval " * 50 + "a",
    ],
    ids=lambda text: f"{text[:10]} of {len(text)}",
)
def test_what_is_too_much_is_refused(text: str) -> None:
    """Length, number and depth are limited."""
    assert isinstance(read_script(text, folder=FOLDER), Unparseable)


def test_what_is_not_too_much_is_read() -> None:
    """Scripts at exactly the limits are read."""
    assert isinstance(read_script(";".join(["a"] * 400), folder=FOLDER), ShellScript)
    assert isinstance(read_script("a " + "b" * (32 * 1024 - 2), folder=FOLDER), ShellScript)


def test_a_mistake_of_ours_is_no_permission() -> None:
    """An exception while reading, here from the file reader, makes the script unparseable."""

    def broken(path: Path) -> str | None:
        raise ZeroDivisionError(path)

    assert isinstance(read_script("./x.sh", folder=FOLDER, read_file=broken), Unparseable)


def test_nothing_is_no_fact() -> None:
    """Comments and blanks give no facts, which callers must not take as permission."""
    assert _facts(" # a\n\n") == ()
