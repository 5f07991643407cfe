"""Checks share one checkout: what they add stays for the next, what they change makes them not green."""

import subprocess
from pathlib import Path

import pytest
from gates import Gate, check
from repositories import git

BUILD = check("mkdir -p out && cp a out/a", "build")
TEST = check("test -f out/a && ! grep -q bad out/a", "test")


def test_a_check_may_use_what_those_before_it_have_built(gate: Gate) -> None:
    assert gate.examine(gate.request(gate.entry("one", {"a": "good\n"}), BUILD, TEST)).verdict == "green"


def test_who_breaks_a_check_that_needs_another_ones_output_is_red_and_the_base_is_not(gate: Gate) -> None:
    """The failed check alone would be red on any commit, for want of what the first one makes."""
    found = gate.examine(gate.request(gate.entry("one", {"a": "bad\n"}), BUILD, TEST))
    assert (found.verdict, found.failures[0].check) == ("red", "test")


def test_of_such_a_check_too_the_partner_is_found_and_the_command_shows_it(gate: Gate, tmp_path: Path) -> None:
    build = check("mkdir -p out && cat left right > out/both 2>/dev/null || true", "build")
    test = check("test -f out/both && test $(wc -l < out/both) -lt 2", "test")
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
    """The one behind it would be green on bytes that do not land. Git's own account can be cooked without a sandbox."""
    if sandbox == "off":
        gate.unconfined()
    entry = gate.entry("one", {"a": "bad\n", "marker": "x\n"})
    formatting = check(f"test ! -e marker || {{ {changing}; }}", "fmt")
    found = gate.examine(gate.request(entry, formatting, check("! grep -q bad a")))
    assert (found.verdict, found.certificates) == ("red", ())
    assert (found.failures[0].check, found.failures[0].how) == ("fmt", "refused")
    said = f"it changed tracked files: {paths}; a check must leave the tree as it found it"
    assert found.detail == f"check 'fmt' is not taken for green on the composed tree: {said}"
    assert said in found.failures[0].log_tail


def test_a_check_that_changes_tracked_files_everywhere_is_nobodys_failure(gate: Gate) -> None:
    found = gate.examine(gate.request(gate.entry("one", {"b": "2\n"}), check("echo more >> a", "fmt")))
    assert found.verdict == "base_red"
    assert "main itself" in found.detail and "it changed tracked files: a;" in found.detail


def test_a_check_that_removes_its_checkout_is_not_green(gate: Gate) -> None:
    entry = gate.entry("one", {"marker": "x\n"})
    found = gate.examine(gate.request(entry, check('test ! -e marker || rm -rf "$PWD"')))
    assert (found.verdict, found.certificates) == ("red", ())


def test_a_file_that_was_only_touched_or_written_with_the_same_bytes_is_not_changed(gate: Gate) -> None:
    same = check("touch a && cp b c && mv c b && echo ignored > new")
    assert gate.examine(gate.request(gate.entry("one", {"a": "2\n"}), same)).verdict == "green"
