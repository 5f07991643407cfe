"""The text of a shell command tells what it reads and writes, and its purpose."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forgepool.workers.shell.purpose.commands import CommandActions, read_command
from forgepool.workers.shell.purpose.file_access import Action, Read, Write, touches


@pytest.mark.parametrize(
    ("command", "action"),
    [
        ("pytest -q", "test"),
        ("cd x && python -m pytest tests", "test"),
        ("uv run pytest -q tests/a.py 2>&1 | tail -20", "test"),
        ("./tests/runtests.py migrations", "test"),
        ("python manage.py test shop", "test"),
        ("make test", "test"),
        ("go test ./...", "test"),
        ("make", "build"),
        ("cargo build --release", "build"),
        ("npm run build", "build"),
        ("npx tsc --noEmit", "build"),
        ("python setup.py build_ext --inplace", "build"),
        ("sphinx-build -b html . out", "build"),
        ("python -m mypy src", "build"),
        ("grep -rn foo src | head", "search"),
        ("git grep foo", "search"),
        ("cat f.py | grep foo", "search"),
        ("ls -la", "search"),
        ("find . -name '*.py'", "search"),
        ("cat f.py", "read"),
        ("git diff HEAD~1", "read"),
        ("git show HEAD:a.py", "read"),
        ("wc -l f.py", "read"),
        ("python repro.py | head -20", "run"),
        ("python repro.py 2>&1 | grep Error", "run"),
        ("pip install pytest", "run"),
        ("git checkout -b new", "run"),
        ("cd src", "run"),
        ("submit", "end"),
        ("sed -i s/a/b/ f.py && pytest", "write"),
        ("mkdir -p a/b", "write"),
        ("black --check src", "run"),
        ("", "run"),
    ],
)
def test_a_command_has_its_action(command: str, action: Action) -> None:
    assert read_command(command).action == action


def test_words_in_quotes_are_neither_programs_nor_files() -> None:
    assert read_command('echo "x > y.txt; pytest"').action == "run"
    assert read_command("grep -n 'a|pytest b' f.py").action == "search"
    assert read_command('sed -i \'s/a/open("b.txt", "w")/\' f.py').writes == (Write(path="f.py", how="shell"),)


def test_tests_whose_output_is_kept_stay_tests() -> None:
    """The file is reported as written."""
    for command in ("pytest -q > out.log 2>&1; tail -5 out.log", "pytest 2>&1 | tee out.log"):
        found = read_command(command)
        assert found.action == "test"
        assert [write.path for write in found.writes] == ["out.log"]


def test_what_else_a_command_does_is_kept() -> None:
    assert read_command("sed -i s/a/b/ f.py && pytest -q").does == {"write", "test"}


def test_a_command_that_the_task_calls_a_test_is_a_test() -> None:
    assert read_command("./verify-all --fast", tests=("./verify-all",)).action == "test"
    assert read_command("./verify-all --fast", tests=("",)).action == "run"


@pytest.mark.parametrize(
    ("command", "reads"),
    [
        ("cat f.py", [("f.py", None, None)]),
        ("sed -n '10,40p' f.py", [("f.py", 10, 40)]),
        ("nl -ba f.py | sed -n '950,970p'", [("f.py", 950, 970)]),
        ("cat -n f.py | sed -n '1,5p;20,30p'", [("f.py", 1, 5), ("f.py", 20, 30)]),
        ("sed -n -e '1,5p' -e '9p' f.py", [("f.py", 1, 5), ("f.py", 9, 9)]),
        ("sed -n '10,+5p' f.py", [("f.py", 10, 15)]),
        ("sed -n '10,$p' f.py", [("f.py", 10, None)]),
        ("sed '20,30!d' f.py; sed 10q g.py", [("f.py", 20, 30), ("g.py", 1, 10)]),
        ("head -n 20 f.py", [("f.py", 1, 20)]),
        ("head -20 f.py", [("f.py", 1, 20)]),
        ("head f.py", [("f.py", 1, 10)]),
        ("tail -n +10 f.py | head -20", [("f.py", 10, 29)]),
        ("head -230 f.py | tail -n 10", [("f.py", 221, 230)]),
        ("awk 'NR>=10 && NR<=20 {print NR\": \"$0}' f.py", [("f.py", 10, 20)]),
        ("cat a.py b.py", [("a.py", None, None), ("b.py", None, None)]),
        ("cat < f.py", [("f.py", None, None)]),
        ('for f in a.py b.py; do cat "$f"; done', [("a.py", None, None), ("b.py", None, None)]),
        ("D=src; sed -n 1,10p $D/x.py", [("src/x.py", 1, 10)]),
        ("timeout 5 bash -c 'cat f.py'", [("f.py", None, None)]),
        ("(cd sub && cat f.py); cat f.py", [("sub/f.py", None, None), ("f.py", None, None)]),
    ],
)
def test_lines_that_were_read_are_found(command: str, reads: list[tuple[str, int | None, int | None]]) -> None:
    found = read_command(command).reads
    assert [(read.path, read.first, read.last) for read in found] == reads
    assert not any(read.part for read in found)


@pytest.mark.parametrize(
    "command",
    [
        "tail -20 f.py",
        "sed -n '/class A/,/def/p' f.py",
        "sed s/a/b/ f.py",
        "head -c 100 f.py",
        "cat f.py g.py | head -5",
    ],
)
def test_part_of_a_file_is_not_taken_for_all_of_it(command: str) -> None:
    """A read of unknown lines is not a read of the whole file."""
    reads = read_command(command).reads
    assert reads
    assert all(read.part and not read.whole for read in reads)


@pytest.mark.parametrize(
    "command",
    [
        "cat f.py | grep x",
        "cat f.py > g.py",
        "cat f.py > /dev/null",
        'x=$(cat f.py); echo "$x"',
        "cat f.py | wc -l",
        "git show HEAD:f.py",
        "echo $(cat f.py) | head",
        "diff <(cat a.py) <(cat b.py)",
        'cat "$UNKNOWN"',
    ],
)
def test_a_file_whose_text_was_not_shown_is_not_read(command: str) -> None:
    assert read_command(command).reads == ()


@pytest.mark.parametrize(
    ("command", "writes"),
    [
        ("cat <<'EOF' > a/f.py\nx = 1\nEOF", [("a/f.py", "create", 6)]),
        ("tee f.py <<EOF\nab\nEOF", [("f.py", "create", 3)]),
        ("echo hi >> f.txt", [("f.txt", "shell", None)]),
        ("sed -i 's/a/b/' f.py", [("f.py", "shell", None)]),
        ("for f in a b; do sed -i s/x/y/ $f.py; done", [("a.py", "shell", None), ("b.py", "shell", None)]),
        ("mv a.py b.py", [("a.py", "move", None), ("b.py", "move", None)]),
        ("mv a.py lib/", [("a.py", "move", None), ("lib/a.py", "move", None)]),
        ("cp a.py b.py", [("b.py", "create", None)]),
        ("rm -rf build a.py", [("build", "delete", None), ("a.py", "delete", None)]),
        ("git checkout -- a.py", [("a.py", "shell", None)]),
        ("git checkout lib/a.py", [("lib/a.py", "shell", None)]),
        ("git -C sub restore a.py", [("sub/a.py", "shell", None)]),
        ("git rm a.py", [("a.py", "delete", None)]),
        ("git stash", [(".", "shell", None)]),
        ("git checkout main", [(".", "shell", None)]),
        ("git apply <<'EOF'\n--- a/x.py\n+++ b/x.py\nEOF", [("x.py", "shell", None)]),
        ("patch -p1 < fix.diff", [(".", "shell", None)]),
        ("grep -rl foo src | xargs sed -i 's/foo/bar/'", [(".", "shell", None)]),
        ("black src", [("src", "shell", None)]),
        ("python -c \"open('x.txt','w').write('a')\"", [("x.txt", "shell", None)]),
        ("python - <<'EOF'\nfrom pathlib import Path\np = Path('src') / 'm.py'\np.write_text('')\nEOF",
         [("src/m.py", "shell", None)]),
        ("ed f.py <<EOF\n1d\nw\nEOF", [("f.py", "shell", None)]),
        ("{ cat a; cat b; } > c", [("c", "create", None)]),
        ("bash -c 'cat x > y'", [("y", "create", None)]),
    ],
)  # fmt: skip
def test_files_that_were_written_are_found(command: str, writes: list[tuple[str, str, int | None]]) -> None:
    found = read_command(command)
    assert found.action == "write"
    assert [(write.path, write.how, write.characters) for write in found.writes] == writes


@pytest.mark.parametrize("command", ["git stash list", "git apply --check x.diff", "ruff check src", "cat > /dev/null"])
def test_what_only_looks_is_no_write(command: str) -> None:
    found = read_command(command)
    assert found.writes == ()
    assert found.action != "write"


def test_writes_of_a_script_that_was_just_written_are_found() -> None:
    """The writes of a Python script are known if the same command contains its text."""
    found = read_command("cat <<'EOF' > fix.py\np = 'src/m.py'\nopen(p, 'w').write('')\nEOF\npython3 fix.py")
    assert [write.path for write in found.writes] == ["fix.py", "src/m.py"]


@pytest.mark.parametrize(
    ("command", "path"),
    [
        ("cat a/b.py", "a/b.py"),
        ("cat /testbed/a/b.py", "a/b.py"),
        ("cd /testbed && cat a/b.py", "a/b.py"),
        ("cd a && cat ./b.py", "a/b.py"),
        ("cd /testbed/a; cat ../a//b.py", "a/b.py"),
        ("cd /tmp && cat b.py", "/tmp/b.py"),
    ],
)
def test_one_file_has_one_name(command: str, path: str) -> None:
    assert [read.path for read in read_command(command, root="/testbed").reads] == [path]


def test_a_root_is_not_guessed() -> None:
    """Without a known root, a path is as the command has it, after any `cd`."""
    assert read_command("cd /testbed && cat a/b.py").reads == read_command("cat /testbed/a/b.py").reads
    assert read_command("cat a/b.py").reads == (Read(path="a/b.py"),)
    assert read_command("cat b.py", folder="/testbed/a", root="/testbed").reads == (Read(path="a/b.py"),)


def test_a_bare_command_holds_no_heredoc() -> None:
    assert read_command("cd x && cat > f.py <<'EOF'\na\nEOF\npytest").bare == "cd x && cat > f.py <<'EOF'\npytest"
    assert read_command("cat > f.py <<'EOF'\na\nEOF\necho 'open").bare == "cat > f.py <<'EOF'\necho 'open"


def test_nothing_found_is_told_from_a_failure() -> None:
    asking = ["grep x f.py", "cd a && rg x", "cat f | grep x", "diff a b", "git grep x", "git diff --exit-code"]
    assert all(read_command(command).asks for command in asking)
    others = [
        "grep x f.py && pytest",
        "pytest | grep x",
        "cat f",
        "grep x f | head",
        "git diff",
        "sed -i s/a/b/ f; grep x f",
    ]
    assert not any(read_command(command).asks for command in others)


def test_a_folder_or_a_pattern_covers_what_is_in_it() -> None:
    assert touches(Write(path="src", how="delete"), "src/a.py")
    assert touches(Write(path=".", how="shell"), "src/a.py")
    assert touches(Write(path="src/*.py", how="shell"), "src/a.py")
    assert touches(Write(path="app/[id].tsx", how="edit"), "app/[id].tsx")
    assert not touches(Write(path="src", how="delete"), "srcs/a.py")


_BROKEN = ["echo 'it", 'echo "it', "if true; then", "foo() {", "(", "echo )", "case x in", "echo $((", "done"]


@pytest.mark.parametrize("junk", _BROKEN)
@pytest.mark.parametrize(
    "write", ["cat a.py > out.txt", "echo x >> out.txt", "sed -i s/a/b/ out.txt", "cat <<X > out.txt\na\nX"]
)
def test_a_write_is_found_where_the_grammar_refuses_the_rest(write: str, junk: str) -> None:
    for command in (f"{write}\n{junk}", f"true && {write} ; {junk}" if "<<" not in write else f"{write}\n{junk}"):
        found = read_command(command)
        assert found.action == "write"
        assert "out.txt" in [each.path for each in found.writes]


def test_what_a_heredoc_holds_is_not_run_where_the_grammar_refuses_the_rest() -> None:
    found = read_command("cat <<'E' > f.py\nrm x > y\nE\necho 'it")
    assert found.writes == (Write(path="f.py", how="create", characters=9),)


@given(before=st.text(max_size=30), after=st.text(max_size=30))
@settings(max_examples=150, deadline=None)
def test_no_text_raises_an_exception(before: str, after: str) -> None:
    """The same text always gives the same answer."""
    assert isinstance(read_command(before), CommandActions)
    assert read_command(f"{before} > x {after}") == read_command(f"{before} > x {after}")


_PIECES = ["cat f.py", "ls", "grep x f.py", "pytest", "echo 'a;b'", "cd sub", "sed -n 1,2p g.py", "true", "X=1 make"]


@given(
    before=st.lists(st.sampled_from(_PIECES), max_size=3),
    after=st.lists(st.sampled_from(_PIECES + _BROKEN), max_size=3),
    between=st.sampled_from([" && ", "; ", "\n", " || "]),
)
@settings(max_examples=150, deadline=None)
def test_a_redirection_to_a_file_is_never_missed(before: list[str], after: list[str], between: str) -> None:
    found = read_command(between.join([*before, "echo x > /o/f.txt", *after]))
    assert found.action == "write"
    assert "/o/f.txt" in [write.path for write in found.writes]


_RECORDED: list[tuple[str, Action, list[str], list[str]]] = [
    ("ls -F django/db/models/sql/", "search", [], []),
    ('grep -r "__init__.py" src/_pytest | grep -v ".pyc"', "search", [], []),
    ("sed -n '165,190p' src/_pytest/reports.py", "read", ["src/_pytest/reports.py"], []),
    ("nl -ba sphinx/domains/python.py | sed -n '1292,1350p'", "read", ["sphinx/domains/python.py"], []),
    ("tail -n 20 django/forms/forms.py", "read", ["django/forms/forms.py"], []),
    ("sed -i '3i from x import y' django/forms/boundfield.py", "write", [], ["django/forms/boundfield.py"]),
    ("mkdir r\ncd r\ncat <<'EOF' > conf.py\nimport os\nEOF", "write", [], ["r/conf.py"]),
    (
        "git checkout a/base.py && \\\nsed -i '/import pytz/a x' a/base.py && \\\npython3 fix.py",
        "write",
        [],
        ["a/base.py"],
    ),
    ("rm -rf reproduction/_build\nsphinx-build -b text a b", "write", [], ["reproduction/_build"]),
    ("cd tests\npython3 runtests.py migrations.test_autodetector", "test", [], []),
    ("/usr/bin/python3 -m pytest tests/test_domain_python.py", "test", [], []),
    ("echo DONE && git add -A && git diff --cached", "read", [], []),
    ("python3 reproduce_issue.py", "run", [], []),
]
"""Commands that agents ran in recorded attempts at public issues, shortened."""


@pytest.mark.parametrize(("command", "action", "reads", "writes"), _RECORDED)
def test_recorded_commands_are_judged_rightly(
    command: str, action: Action, reads: list[str], writes: list[str]
) -> None:
    found = read_command(command)
    assert found.action == action
    assert [read.path for read in found.reads] == reads
    assert [write.path for write in found.writes] == writes
