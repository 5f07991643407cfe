"""
Each check has its own checkout with the output of the checks it uses, and one that changes the commit is not green.
"""

import subprocess
from pathlib import Path

import pytest
from gates import Gate, check
from repositories import git

BUILD = check("mkdir -p out && cp a out/a", "build")
TEST = check("test -f out/a && ! grep -q bad out/a", "test", uses=("build",))


def test_a_check_may_use_what_another_one_has_built(gate: Gate) -> None:
    assert gate.examine(gate.request(gate.entry("one", {"a": "good\n"}), BUILD, TEST)).verdict == "green"


def test_who_breaks_a_check_that_needs_another_ones_output_is_red_and_the_base_is_not(gate: Gate) -> None:
    """The failed check alone would fail on any commit, because the first check's output is missing."""
    found = gate.examine(gate.request(gate.entry("one", {"a": "bad\n"}), BUILD, TEST))
    assert (found.verdict, found.failures[0].check) == ("red", "test")


def test_of_such_a_check_too_the_partner_is_found_and_the_command_shows_it(gate: Gate, tmp_path: Path) -> None:
    build = check("mkdir -p out && touch left right && cat left right > out/both", "build")
    test = check("test -f out/both && test $(wc -l < out/both) -lt 2", "test", uses=("build",))
    start = gate.hub.tip()
    younger = gate.entry("younger", {"left": "x\n"}, on=start)
    for task, path in (("before", "p"), ("partner", "right"), ("behind", "q")):
        gate.let_in(gate.entry(task, {path: "x\n"}, on=start), build, test)
    found = gate.examine(gate.request(younger, build, test))
    assert (found.verdict, found.partner) == ("red", "partner")
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", str(gate.hub.path), str(clone))
    shown = subprocess.run(["/bin/sh", "-c", found.reproduce], cwd=clone, capture_output=True)
    assert shown.returncode == 1 and (clone / "out/both").read_text() == "x\nx\n"


@pytest.mark.parametrize(
    ("changing", "paths"),
    [
        ("sed -i s/bad/good/ a", "a"),
        ("rm a", "a"),
        ("chmod +x a b", "a, b"),
        ("rm a && ln -s b a", "a"),
        ("git update-index --assume-unchanged a; echo good > a", "a"),
        ("git add -A; echo good > a && git -c user.name=x -c user.email=x commit -qam x || true", "a"),
    ],
)
@pytest.mark.parametrize("sandbox", ["auto", "off"])
def test_a_check_that_changes_tracked_files_proves_nothing(gate: Gate, changing: str, paths: str, sandbox: str) -> None:
    """The next check would be green on bytes that do not land. Without a sandbox, git's own state can be falsified."""
    if sandbox == "off":
        gate.unconfined()
    entry = gate.entry("one", {"a": "bad\n", "marker": "x\n"})
    formatting = check(f"test ! -e marker || {{ {changing}; }}", "fmt", waive=("cannot_fail",))
    found = gate.examine(gate.request(entry, formatting, check("! grep -q bad a", uses=("fmt",))))
    assert (found.verdict, found.certificates) == ("red", ())
    assert (found.failures[0].check, found.failures[0].how) == ("fmt", "refused")
    said = f"it changed tracked files: {paths}; a check must leave the tree as it found it"
    assert found.detail == f"check 'fmt' is not taken for green when merged into main: {said}"
    assert said in found.failures[0].log_tail


def test_a_check_that_changes_tracked_files_everywhere_is_nobodys_failure(gate: Gate) -> None:
    found = gate.examine(gate.request(gate.entry("one", {"b": "2\n"}), check("cat b >> a", "fmt")))
    assert found.verdict == "base_red"
    assert "main itself" in found.detail and "it changed tracked files: a;" in found.detail


def test_a_check_that_removes_its_checkout_is_not_green(gate: Gate) -> None:
    entry = gate.entry("one", {"marker": "x\n"})
    found = gate.examine(gate.request(entry, check('test ! -e marker || rm -rf "$PWD"')))
    assert (found.verdict, found.certificates) == ("red", ())


def test_a_file_that_was_only_touched_or_written_with_the_same_bytes_is_not_changed(gate: Gate) -> None:
    same = check("touch a && cp b c && mv c b && echo ignored > new")
    assert gate.examine(gate.request(gate.entry("one", {"a": "2\n"}), same)).verdict == "green"


LEFT = ("left.toml", "$HOME/bin/grep", "${TMPDIR:-/tmp}/left")
DISARMING = (
    "for each in left.toml $HOME/bin/grep ${TMPDIR:-/tmp}/left; do mkdir -p $(dirname $each); echo x > $each; done"
)


@pytest.mark.parametrize("place", LEFT)
def test_what_a_check_leaves_cannot_disarm_another_one(gate: Gate, place: str) -> None:
    """The places are the checkout, the home and temporary files. A candidate's tests may write all of them."""
    gate.hub.commit({"a": "exit 0\n"})
    entry = gate.entry("one", {"a": f"# bad\n{DISARMING}\n"})
    lint = check(f'test -e "{place}" || ! grep -q bad a', "lint")
    found = gate.examine(gate.request(entry, check("sh a"), lint))
    assert (found.verdict, found.failures[0].check) == ("red", "lint")


@pytest.mark.parametrize("place", LEFT)
def test_what_a_check_leaves_is_there_for_what_uses_it(gate: Gate, place: str) -> None:
    made = check(f"{DISARMING} && test -e a", "made")
    used = check(f'test -e "{place}"', "used", uses=("made",))
    assert gate.examine(gate.request(gate.entry("one", {"b": "2\n"}), made, used)).verdict == "green"
    alone = check(f'test -e "{place}"', "alone")
    assert gate.examine(gate.request(gate.entry("two", {"b": "3\n"}), made, alone)).verdict == "base_red"


def test_of_two_that_use_the_same_check_neither_disarms_the_other(gate: Gate) -> None:
    gate.hub.commit({"a": "exit 0\n"})
    entry = gate.entry("one", {"a": "# bad\necho x > left.toml\n"})
    test = check("test -e out/a && sh a", "test", uses=("build",))
    lint = check("test -e left.toml || ! grep -q bad out/a", "lint", uses=("build",))
    found = gate.examine(gate.request(entry, BUILD, test, lint))
    assert (found.verdict, found.failures[0].check) == ("red", "lint")


def test_only_what_the_failing_check_uses_is_run_again_with_it(gate: Gate) -> None:
    entry = gate.entry("one", {"a": "bad\n"})
    request = gate.request(entry, check("test -e b", "other", cost_s=1.0), BUILD, TEST)
    assert gate.examine(request).verdict == "red"
    logs = gate.settings.home / "runs" / "r" / "logs" / "checks" / request.request_id
    again = sorted(path.name for path in logs.glob("again-*.log"))
    assert again == ["again-for-test-build.log", "again-for-test-test.log"]


def test_a_check_behind_a_red_one_it_uses_is_not_run(gate: Gate) -> None:
    entry = gate.entry("one", {"a": "bad\n"})
    build = check("! grep -q bad a && mkdir -p out && cp a out/a", "build")
    found = gate.examine(gate.request(entry, build, TEST))
    assert (found.verdict, found.failures[0].check) == ("red", "build")
    assert "&& sh" not in found.reproduce and found.reproduce.endswith(build.run)


def test_a_used_check_that_is_flaky_does_not_keep_its_user_from_being_run(gate: Gate) -> None:
    gate.unconfined()
    counter = gate.folder / "counter"
    shaky = f"test ! -e f || {{ echo x >> {counter}; test $(wc -l < {counter}) -ne 1; }}"
    build = check(f"mkdir -p out && cp a out/a && {{ {shaky}; }}", "build")
    found = gate.examine(gate.request(gate.entry("one", {"f": "x\n"}), build, TEST))
    assert (found.verdict, [one.check for one in found.flaky]) == ("green", ["build"])
    assert {one.check for one in found.certificates} == {"build", "test"}
    assert gate.examine(gate.request(gate.entry("two", {"a": "bad\n"}), build, TEST)).verdict == "red"


def test_a_program_that_is_missing_on_the_target_too_is_nobodys_failure(gate: Gate) -> None:
    found = gate.examine(gate.request(gate.entry("one", {"b": "2\n"}), check("no-such-linter --all", "lint")))
    assert (found.verdict, found.certificates) == ("not_configured", ())
    said = "check 'lint' runs 'no-such-linter', which is not there on the target itself"
    assert found.detail == f"{said}; install it, or mend the command"


def test_a_program_that_may_not_be_run_is_nobodys_failure(gate: Gate) -> None:
    gate.hub.commit({"plain": "exit 0\n"})
    found = gate.examine(gate.request(gate.entry("one", {"b": "2\n"}), check("./plain", "lint")))
    assert found.verdict == "not_configured" and "./plain', which cannot be run" in found.detail


LINTER = check(
    "mkdir -p bin && { test ! -e linter || { cp linter bin/linter && chmod +x bin/linter; }; }; bin/linter", "lint"
)


def test_a_program_that_the_entry_takes_away_is_its_failure(gate: Gate) -> None:
    gate.hub.commit({"linter": "#!/bin/sh\nexit 0\n"})
    assert gate.examine(gate.request(gate.entry("fine", {"b": "2\n"}), LINTER)).verdict == "green"
    found = gate.examine(gate.request(gate.entry("gone", {"linter": None}), LINTER))
    assert (found.verdict, found.failures[0].status) == ("red", 127)


def test_who_brings_the_program_that_is_missing_is_let_in(gate: Gate) -> None:
    assert gate.examine(gate.request(gate.entry("none", {"b": "2\n"}), LINTER)).verdict == "not_configured"
    entry = gate.entry("one", {"linter": "#!/bin/sh\nexit 0\n"})
    assert gate.examine(gate.request(entry, LINTER)).verdict == "green"
