"""
Files that a command makes of others: two entries that both change one go together, and what is made is what lands.

`gen.lock` is all files of `in/`, one behind the other, unless a test says otherwise.
"""

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from gates import Gate, never
from repositories import git

from supervisor.checks.running import Place
from supervisor.definitions import RegenerateDefinition
from supervisor.demands import regenerated
from supervisor.gate import entries_in
from supervisor.messages import CheckResult, EntryRef, LandingStyle
from supervisor.regeneration.kept import Kept
from supervisor.regeneration.keys import counts, is_made, key_of
from supervisor.regeneration.network import network_trouble
from supervisor.regeneration.remaking import remaking
from supervisor.screening import screen
from workers.refs import made_ref
from worktrees.compose import Composed, Conflict, compose, tree_of
from worktrees.git import CommitId
from worktrees.overlay import files_of, tree_with

CAT = "cat in/* > gen.lock"
RANDOM = "{ cat in/*; date +%N; cat /proc/sys/kernel/random/uuid; } > gen.lock"


def gate_file(run: str = CAT, *, check: str = "cat in/* | cmp - gen.lock", more: str = "", of: str = "[in/]") -> str:
    return (
        f"version: 1\nchecks:\n  - {{name: test, run: '{check}', waive: [no_tests, cannot_fail]}}\n"
        f"regenerate:\n  - paths: [gen.lock]\n    from: {of}\n    run: '{run}'\n{more}"
    )


@pytest.fixture
def world(gate: Gate) -> Gate:
    return begun(gate)


def begun(gate: Gate, file: str = "", files: Mapping[str, str] | None = None) -> Gate:
    """Nothing holds its commands, since most are run to no other end than to be cheap; see the last test."""
    gate.unconfined()
    gate.hub.commit({"forgepool.yaml": file or gate_file(), "in/m": "m\n", "gen.lock": "m\n", **(files or {})})
    return gate


def ground(gate: Gate) -> None:
    """Somebody has landed `in/a` meanwhile, and what is made of it."""
    gate.hub.commit({"in/a": "a\n", "gen.lock": "a\nm\n"}, message="a\n\nForgepool-Task: a")


def entry(gate: Gate, name: str, *, lock: str | None = "as made", on: str = "main", **said: Any) -> EntryRef:
    """Brings `in/<name>`, and its own version of what is made of it."""
    made = "".join(sorted(f"{one}\n" for one in (name, "m"))) if lock == "as made" else lock
    files = {f"in/{name}": f"{name}\n"} | ({} if made is None else {"gen.lock": made})
    return gate.entry(name, files, on=on, **said)


def put_together(gate: Gate, *entries: EntryRef, style: LandingStyle = "merge") -> Composed | Conflict:
    """As the gate does it, and no more: nothing is scanned or checked."""
    request = gate.request(entries[0], entries=entries)
    here = entries_in(gate.mirror, request)
    place = Place(mirror=gate.mirror, settings=gate.settings, logs=gate.folder / "logs", stop=never)
    made = remaking(gate.mirror, request, regenerated(gate.mirror, request), place)
    return compose(gate.mirror.git, CommitId(request.base), here, style, made)


def made_of(gate: Gate, *entries: EntryRef, path: str = "gen.lock", style: LandingStyle = "merge") -> str:
    found = put_together(gate, *entries, style=style)
    assert isinstance(found, Composed), found
    return git(gate.mirror.path, "show", f"{found.commit}:{path}")


def conflict_of(gate: Gate, *entries: EntryRef) -> tuple[str, ...]:
    found = put_together(gate, *entries)
    assert isinstance(found, Conflict), found
    return found.paths


def lock(gate: Gate, at: str = "main") -> str:
    return git(gate.hub.path, "show", f"{at}:gen.lock")


def let_in(gate: Gate, one: EntryRef, **said: Any) -> CheckResult:
    request = gate.request(one, **said)
    found = gate.examine(request)
    assert found.verdict == "green", found
    landed = gate.land(gate.landing(request, found))
    assert (landed.outcome, landed.commit) == ("landed", found.commit), landed
    return found


def kept_refs(gate: Gate) -> list[str]:
    return git(gate.hub.path, "for-each-ref", "--format=%(refname)", made_ref("r", "")).split()


def elsewhere(gate: Gate, folder: Path) -> Gate:
    """Another host."""
    return Gate(gate.hub, folder)


STYLES: tuple[LandingStyle, ...] = ("merge", "squash", "rebase")


def test_two_entries_that_both_change_what_is_made_both_land(world: Gate) -> None:
    """The first alone on what it was made on is as it was submitted, and costs no run."""
    one, two = entry(world, "a"), entry(world, "b")
    let_in(world, one)
    assert (lock(world), kept_refs(world)) == ("a\nm", [])
    let_in(world, two)
    assert (lock(world), len(kept_refs(world))) == ("a\nb\nm", 1)


@pytest.mark.parametrize("style", STYLES)
def test_however_entries_land_it_is_made_once_of_all_they_bring(world: Gate, style: LandingStyle) -> None:
    one, two = entry(world, "a"), entry(world, "b")
    longer = world.entry("c", {"in/c": "c\n", "gen.lock": "b\nc\nm\n"}, on="work-b-1").model_copy(
        update={"branch": True}
    )
    assert made_of(world, one, two, style=style) == "a\nb\nm"
    assert made_of(world, one, longer, style=style) == "a\nb\nc\nm"
    assert len(kept_refs(world)) == 2


def test_without_a_declaration_they_conflict(gate: Gate) -> None:
    begun(gate, gate_file().partition("regenerate:")[0])
    assert conflict_of(gate, entry(gate, "a"), entry(gate, "b")) == ("gen.lock",)


def test_a_conflict_elsewhere_is_one_still(world: Gate) -> None:
    other = world.entry("b", {"in/a": "other\n", "gen.lock": "other\nm\n"})
    assert conflict_of(world, entry(world, "a"), other) == ("gen.lock", "in/a")


def test_what_merges_line_by_line_is_made_anew_all_the_same(gate: Gate) -> None:
    """Two lock files that merge are the lock file of neither."""
    begun(gate, gate_file("cat in/* | wc -l | tr -d \\  > gen.lock"))
    assert made_of(gate, entry(gate, "a", lock="2\n"), entry(gate, "b", lock="2\n")) == "3"


def test_an_entry_that_did_not_touch_it_has_it_made(world: Gate) -> None:
    assert made_of(world, entry(world, "a"), entry(world, "b", lock=None)) == "a\nb\nm"


def test_what_counts_for_no_command_runs_none(gate: Gate) -> None:
    begun(gate, gate_file("exit 1"))
    assert made_of(gate, gate.entry("one", {"a": "2\n"}), entry(gate, "two")) == "m\ntwo"


def test_without_from_all_the_rest_of_the_tree_counts(gate: Gate) -> None:
    begun(gate, gate_file("ls > gen.lock", of="[]"))
    one, two = gate.entry("one", {"x": "1\n"}), gate.entry("two", {"y": "1\n"})
    assert {"x", "y"} <= {*made_of(gate, one, two).split()}


def test_an_entry_that_changed_the_made_file_alone_conflicts(world: Gate) -> None:
    """What it says there, no command would find out."""
    assert conflict_of(world, entry(world, "a"), world.entry("b", {"gen.lock": "by hand\n"})) == ("gen.lock",)
    assert kept_refs(world) == []


def test_an_entry_of_which_nothing_would_be_left_conflicts(world: Gate) -> None:
    """It brings what is there already, and another version of what is made of that."""
    again = world.entry("b", {"in/a": "a\n", "gen.lock": "by hand\n"})
    assert conflict_of(world, entry(world, "a"), again) == ("gen.lock",)


def test_of_two_commands_the_second_finds_what_the_first_has_made(gate: Gate) -> None:
    second = "  - {paths: [sum], from: [gen.lock], run: wc -l < gen.lock > sum}\n"
    begun(gate, gate_file(more=second))
    assert made_of(gate, entry(gate, "a"), entry(gate, "b"), path="sum") == "3"
    assert len(kept_refs(gate)) == 2


def test_what_differs_each_time_lands_byte_for_byte_as_it_was_tested(gate: Gate, tmp_path: Path) -> None:
    """By another host, which takes what the first has kept; and again, and joined with one ahead."""
    begun(gate, gate_file(RANDOM, check="test -s gen.lock"))
    two, three = entry(gate, "b"), entry(gate, "c")
    ground(gate)
    request = gate.request(two)
    found = gate.examine(request)
    there = elsewhere(gate, tmp_path / "there")
    assert there.examine(request).commit == gate.examine(request).commit == found.commit
    joint = gate.request(three, ahead=(two,))
    behind = there.examine(joint)
    assert (behind.verdict, behind.commits[0]) == ("green", found.commit)
    both = gate.landing(joint, behind, ahead=(), entries=(two, three))
    third = elsewhere(gate, tmp_path / "third")
    landed = third.land(both)
    assert (landed.outcome, landed.commit) == ("landed", behind.commit), landed
    assert git(gate.hub.path, "rev-parse", "main^{tree}") == behind.tree
    assert len(kept_refs(gate)) == 2


def test_pipelined_behind_what_lands_it_is_the_same_commit(gate: Gate) -> None:
    begun(gate, gate_file(RANDOM, check="test -s gen.lock"))
    two, three = entry(gate, "b"), entry(gate, "c")
    ground(gate)
    behind = gate.examine(gate.request(three, ahead=(two,)))
    let_in(gate, two)
    request = gate.request(three)
    landed = gate.land(gate.landing(request, behind))
    assert (landed.outcome, landed.commit) == ("landed", behind.commit), landed


def test_who_loses_the_race_takes_what_the_winner_kept(gate: Gate, tmp_path: Path) -> None:
    begun(gate)
    there = elsewhere(gate, tmp_path / "there")
    trees = [tree_with(one.mirror.git, {"gen.lock": blob(one, text)}) for one, text in ((gate, "x\n"), (there, "y\n"))]
    ours, theirs = (Kept(mirror=one.mirror, run="r") for one in (gate, there))
    assert ours.find("k") is theirs.find("k") is None
    first = ours.keep("k", trees[0], "gen.lock")
    assert theirs.keep("k", trees[1], "gen.lock") == theirs.find("k") == first
    assert tree_of(there.mirror.git, first) == trees[0]


def blob(gate: Gate, text: str) -> str:
    return f"100644 {gate.mirror.git.text('hash-object', '-w', '--stdin', stdin=text.encode())}"


def test_a_lander_that_finds_nothing_kept_runs_nothing_and_lets_nothing_in(world: Gate) -> None:
    ground(world)
    request = world.request(entry(world, "b", on="main~1"))
    found = world.examine(request)
    (ref,) = kept_refs(world)
    git(world.hub.path, "update-ref", "-d", ref)
    before, landed = world.hub.tip(), world.land(world.landing(request, found))
    assert (landed.outcome, world.hub.tip(), kept_refs(world)) == ("untested", before, [])
    assert "is not kept any more; it is made and tested again" in landed.detail
    again = world.examine(request)
    assert world.land(world.landing(request, again)).outcome == "landed"


def test_what_somebody_else_has_made_since_is_not_landed_untested(gate: Gate) -> None:
    begun(gate, gate_file(RANDOM, check="test -s gen.lock"))
    ground(gate)
    request = gate.request(entry(gate, "b", on="main~1"))
    found = gate.examine(request)
    (ref,) = kept_refs(gate)
    git(gate.hub.path, "update-ref", "-d", ref)
    assert gate.examine(request).commit != found.commit
    landed = gate.land(gate.landing(request, found))
    assert (landed.outcome, gate.hub.tip() == found.commit) == ("untested", False)


def test_what_is_made_of_the_targets_definition_never_of_the_entrys(world: Gate) -> None:
    ground(world)
    theirs = gate_file("echo mine > gen.lock")
    one = world.entry("b", {"in/b": "b\n", "forgepool.yaml": theirs}, on="main~1")
    found = world.examine(world.request(one))
    assert found.verdict == "green", found
    assert git(world.mirror.path, "show", f"{found.commit}:gen.lock") == "a\nb\nm"


def test_only_what_is_declared_is_taken_of_what_a_command_leaves(gate: Gate) -> None:
    begun(gate, gate_file(f"{CAT}; echo x > a; echo x > more"))
    found = put_together(gate, entry(gate, "a"), entry(gate, "b"))
    assert isinstance(found, Composed)
    assert git(gate.mirror.path, "show", f"{found.commit}:a") == "1"
    assert "more" not in git(gate.mirror.path, "ls-tree", "--name-only", found.commit).split()


def test_files_come_and_go_as_the_command_makes_them(gate: Gate) -> None:
    file = gate_file("rm -rf gen; mkdir gen; cp in/* gen/").replace("[gen.lock]", "[gen/]")
    begun(gate, file, {"gen/m": "m\n", "in/n": "n\n", "gen/n": "n\n"})
    one = gate.entry("one", {"in/a": "a\n", "gen/a": "other\n"})
    two = gate.entry("two", {"in/n": None, "in/b": "b\n", "gen/n": "more\n"})
    found = put_together(gate, one, two)
    assert isinstance(found, Composed)
    assert git(gate.mirror.path, "ls-tree", "--name-only", found.commit, "gen/").split() == ["gen/a", "gen/b", "gen/m"]


FAILS = "cat in/*; ! grep -q bad in/* || exit 7; " + CAT


def failing(gate: Gate, run: str = FAILS, more: str = "") -> CheckResult:
    begun(gate, gate_file(run, check="true", more=more))
    two = gate.entry("b", {"in/b": "bad\n"})
    ground(gate)
    return gate.examine(gate.request(two))


def test_a_command_that_fails_is_told_the_entry_with_its_words_and_how_to_see_it(gate: Gate, tmp_path: Path) -> None:
    found = failing(gate)
    assert (found.verdict, found.about, found.partner) == ("conflict", "b", "a")
    assert (
        found.detail
        == "'b' conflicts with 'a' in gen.lock, in/a: the command that makes gen.lock exited with 7 on both"
    )
    assert found.conflict_paths == ("gen.lock", "in/a")
    assert "bad" in found.failures[0].log_tail
    assert Path(found.failures[0].log).is_file()
    assert kept_refs(gate) == []
    assert _shown(gate, found, tmp_path) == 7


def _shown(gate: Gate, found: CheckResult, folder: Path) -> int:
    """The status of what shows it again, typed by a person in a clone."""
    clone = folder / "clone"
    git(folder, "clone", "-q", str(gate.hub.path), str(clone))
    git(clone, "config", "user.name", "A")
    git(clone, "config", "user.email", "a@localhost")
    return subprocess.run(found.reproduce, shell=True, cwd=clone, check=False, capture_output=True).returncode


def test_a_red_check_behind_what_was_made_can_be_seen_again(gate: Gate, tmp_path: Path) -> None:
    begun(gate, gate_file(check="test $(wc -l < gen.lock) -lt 3 || exit 5"))
    two = entry(gate, "b")
    ground(gate)
    found = gate.examine(gate.request(two))
    assert (found.verdict, found.partner) == ("red", "a")
    assert _shown(gate, found, tmp_path) == 5


def test_behind_others_one_failure_is_told_and_decides_about_nobody(gate: Gate) -> None:
    begun(gate, gate_file(f"echo ran >> {gate.folder}/ran; {FAILS}", check="true"))
    one, two = entry(gate, "a"), gate.entry("b", {"in/b": "bad\n"})
    found = gate.examine(gate.request(two, ahead=(one,), decisive=False))
    assert (found.verdict, found.about) == ("conflict", "b")
    assert (gate.folder / "ran").read_text() == "ran\n"


def test_a_command_that_fails_once_is_run_again(gate: Gate) -> None:
    begun(gate, gate_file(f"mkdir {gate.folder}/was-here 2>/dev/null && exit 1; {CAT}", check="true"))
    two = entry(gate, "b")
    ground(gate)
    let_in(gate, two)


def test_a_command_that_does_not_work_on_the_target_blames_nobody(gate: Gate) -> None:
    found = failing(gate, "exit 9")
    assert found.verdict == "not_configured"
    assert found.detail == "the command that makes gen.lock exited with 9 on the target itself; mend it"


def test_a_command_that_leaves_nothing_has_not_made_it(gate: Gate) -> None:
    found = failing(gate, "grep -q bad in/* && rm gen.lock || " + CAT)
    assert (found.verdict, found.failures[0].how) == ("conflict", "refused")
    assert "the command that makes gen.lock left nothing at gen.lock" in found.detail


def test_a_command_that_does_not_end_in_its_time_says_so(gate: Gate) -> None:
    found = failing(gate, "grep -q bad in/* && exec sleep 60; " + CAT, more="    timeout_s: 0.2\n")
    assert (found.verdict, found.failures[0].how) == ("conflict", "timeout")
    assert "the command that makes gen.lock did not end in its time on both" in found.detail


def test_the_network_is_nobodys_fault() -> None:
    said = "npm ERR! code ENOTFOUND registry.example"
    assert network_trouble(f"a\n{said}\nb\n") == said
    assert network_trouble("exit 1: no such package\n") is None


def test_the_same_is_kept_under_one_key_and_another_under_another(world: Gate) -> None:
    one = RegenerateDefinition.model_validate({"paths": ["gen.lock"], "from": ["in/"], "run": CAT})
    mirror = world.mirror
    mirror.ensure(world.hub.tip(), refs=("refs/heads/main",))
    tree = tree_of(mirror.git, world.hub.tip())
    files = files_of(mirror.git, tree)
    key = key_of(one, mirror.git, tree)
    assert key == key_of(one, mirror.git, tree_with(mirror.git, {**files, "elsewhere": files["a"]}))
    for path in ("in/m", "gen.lock", "in/new"):
        assert key != key_of(one, mirror.git, tree_with(mirror.git, {**files, path: files["a"]}))
    assert key != key_of(one.model_copy(update={"run": "another"}), mirror.git, tree)


def test_paths_count_by_what_the_definition_says() -> None:
    one = RegenerateDefinition.model_validate({"paths": ["gen.lock"], "run": CAT})
    assert (is_made(one, "gen.lock"), is_made(one, "in/gen.lock")) == (True, False)
    assert counts(one, "anything")
    narrow = one.model_copy(update={"of": ("in/",)})
    assert (counts(narrow, "in/a"), counts(narrow, "gen.lock"), counts(narrow, "b")) == (True, True, False)


SCANNED = {"scanned": True}


def test_what_the_command_made_is_not_held_against_the_entry(world: Gate) -> None:
    """A `.lock` whose manifest nobody changed is protected; and its task holds no more than its own file."""
    one = entry(world, "a")
    two = entry(world, "b", **SCANNED).model_copy(update={"holds": ("in/b",)})
    let_in(world, one)
    let_in(world, two)
    assert lock(world) == "a\nb\nm"


def test_what_the_command_would_have_made_is_not_held_against_who_stands_alone(world: Gate) -> None:
    one = entry(world, "a", **SCANNED).model_copy(update={"holds": ("in/a",)})
    let_in(world, one)
    assert (lock(world), len(kept_refs(world))) == ("a\nm", 1)


@pytest.mark.parametrize("run", [CAT, f"test -e in/none && {CAT}; exit 3"], ids=["made otherwise", "not made"])
def test_what_somebody_wrote_by_hand_is_held_against_them(gate: Gate, run: str) -> None:
    begun(gate, gate_file(run, check="true"))
    found = gate.examine(gate.request(entry(gate, "a", lock="m\nby hand\n", **SCANNED)))
    assert (found.verdict, [one.path for one in found.findings if one.weight == "blocks"]) == ("findings", ["gen.lock"])


def test_what_a_person_grants_needs_no_run(gate: Gate) -> None:
    begun(gate, gate_file("exit 3", check="true"))
    one = entry(gate, "a", lock="m\nby hand\n", **SCANNED).model_copy(update={"grants": ("gen.lock",)})
    let_in(gate, one)


def test_lines_that_were_put_into_it_by_hand_do_not_come_out_as_made(gate: Gate) -> None:
    """The command leaves as it is what is there; so it begins with what the target has."""
    begun(gate, gate_file("cat in/* >> gen.lock; sort -u -o gen.lock gen.lock", check="true"))
    two = entry(gate, "b", lock="b\nevil\nm\n")
    ground(gate)
    let_in(gate, two)
    assert lock(gate) == "a\nb\nm"


def test_who_asks_for_no_landing_writes_nothing_to_the_hub(world: Gate) -> None:
    two = entry(world, "b")
    ground(world)
    before = git(world.hub.path, "for-each-ref")
    request = world.request(two, private=True, run="gate-check")
    found = world.examine(request)
    assert (found.verdict, world.examine(request).commit) == ("green", found.commit)
    assert git(world.hub.path, "for-each-ref") == before


def test_scans_alone_run_no_command(gate: Gate) -> None:
    begun(gate, gate_file("exit 3", check="true"))
    two = entry(gate, "b")
    ground(gate)
    assert screen(gate.request(two), gate.settings).verdict == "green"


def test_a_hub_that_takes_no_refs_is_nobodys_fault(world: Gate) -> None:
    two = entry(world, "b")
    ground(world)
    hook = world.hub.path / "hooks" / "update"
    hook.write_text("#!/bin/sh\ncase $1 in */made/*) echo no room >&2; exit 1 ;; esac\n")
    hook.chmod(0o755)
    found = world.examine(world.request(two))
    assert (found.verdict, "cannot be kept in the hub" in found.detail) == ("infrastructure", True), found
