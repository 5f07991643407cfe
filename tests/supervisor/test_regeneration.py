"""
Files that a command makes from others: two entries that both change one can land together, and what was tested lands.

By default `gen.lock` is the concatenation of all files in `in/`.
"""

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from gates import Gate, never
from repositories import Hub, git

from forgepool.supervisor.checks.running import CheckPlace
from forgepool.supervisor.gate.check_entry import entries_in
from forgepool.supervisor.gate.requirements import read_regenerated
from forgepool.supervisor.gate.scan_only import screen
from forgepool.supervisor.messages.answers import CheckResult
from forgepool.supervisor.messages.requests import EntryRef, LandingStyle
from forgepool.supervisor.regeneration.kept import KeptFiles, counts, is_made, key_of, own_patch_id
from forgepool.supervisor.regeneration.regenerate import network_trouble, remaking
from forgepool.workers.policy.gate_file.document import RegenerateDefinition
from forgepool.workers.workspace.refs import overlay_ref
from forgepool.worktrees.commits.candidate import files_of, tree_with
from forgepool.worktrees.commits.compose import Composed, Conflict, compose, tree_of
from forgepool.worktrees.git.git import CommitId

CAT = "cat in/* > gen.lock"
RANDOM = "{ cat in/*; date +%N; cat /proc/sys/kernel/random/uuid; } > gen.lock"


class World(Gate):
    """One host, and the entries that exist from the beginning."""

    made: Mapping[str, EntryRef]

    def entry(self, task: str, files: Mapping[str, str | None], *, attempt: int = 2, **said: Any) -> EntryRef:
        return super().entry(task, files, attempt=attempt, **said)


def gate_file(run: str = CAT, *, check: str = "cat in/* | cmp - gen.lock", more: str = "", of: str = "[in/]") -> str:
    return (
        f"version: 1\nchecks:\n  - {{name: test, run: '{check}', waive: [no_tests, cannot_fail]}}\n"
        f"regenerate:\n  - paths: [gen.lock]\n    from: {of}\n    run: '{run}'\n{more}"
    )


@pytest.fixture(scope="module")
def prepared(pristine: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Mapping[str, EntryRef]]:
    """Return a hub with that gate file, and two entries made on it."""
    place = tmp_path_factory.mktemp("prepared")
    shutil.copytree(pristine, place, dirs_exist_ok=True)
    gate = Gate(Hub(path=place / "hub.git", work=place / "person"), place)
    gate.hub.commit({"forgepool.yaml": gate_file(), "in/m": "m\n", "gen.lock": "m\n"})
    made = {name: gate.entry(name, {f"in/{name}": f"{name}\n", "gen.lock": f"{name}\nm\n"}) for name in "ab"}
    return place, made


@pytest.fixture
def world(prepared: tuple[Path, Mapping[str, EntryRef]], tmp_path: Path) -> World:
    """Return a host that runs commands without a sandbox, which is faster."""
    place, made = prepared
    shutil.copytree(place, tmp_path, dirs_exist_ok=True)
    world = World(Hub(path=tmp_path / "hub.git", work=tmp_path / "person"), tmp_path)
    # Only messages name the hub, so the commits are the same in both hubs.
    world.made = made
    world.unconfined()
    return world


def begun(gate: World, file: str, files: Mapping[str, str] | None = None) -> None:
    """Put another gate file and more files on the target, after the two entries were made."""
    gate.hub.commit({"forgepool.yaml": file, **(files or {})})


def entry(gate: World, name: str, *, lock: str | None = "", scanned: bool = False) -> EntryRef:
    """Make an entry that adds `in/<name>` and its version of `gen.lock`; for 'a' and 'b' by default the right one."""
    if lock == "" and name in gate.made:
        return gate.made[name].model_copy(update={"waive": ()} if scanned else {})
    own = {} if lock is None else {"gen.lock": lock or f"m\n{name}\n"}
    return gate.entry(name, {f"in/{name}": f"{name}\n"} | own, on=gate.made["a"].commit + "~1", scanned=scanned)


def ground(world: World) -> None:
    """Land `in/a` and the file made from it, as another person would."""
    world.hub.commit({"in/a": "a\n", "gen.lock": "a\nm\n"}, message="a\n\nForgepool-Task: a")


def put_together(world: World, *entries: EntryRef, style: LandingStyle = "merge") -> Composed | Conflict:
    """Compose as the gate does, without scans and checks."""
    request = world.request(entries[0], entries=entries)
    here = entries_in(world.mirror, request)
    place = CheckPlace(mirror=world.mirror, settings=world.settings, logs=world.folder / "logs", stop=never)
    made = remaking(world.mirror, request, read_regenerated(world.mirror, request), place)
    return compose(world.mirror.git, CommitId(request.base), here, style, made)


def made_of(world: World, *entries: EntryRef, path: str = "gen.lock", style: LandingStyle = "merge") -> str:
    found = put_together(world, *entries, style=style)
    assert isinstance(found, Composed), found
    return git(world.mirror.path, "show", f"{found.commit}:{path}")


def conflict_of(world: World, *entries: EntryRef) -> tuple[str, ...]:
    found = put_together(world, *entries)
    assert isinstance(found, Conflict), found
    return found.paths


def lock(world: World, at: str = "main") -> str:
    return git(world.hub.path, "show", f"{at}:gen.lock")


def let_in(world: World, one: EntryRef, **said: Any) -> CheckResult:
    request = world.request(one, **said)
    found = world.examine(request)
    assert found.verdict == "green", found
    landed = world.land(world.landing(request, found))
    assert (landed.outcome, landed.commit) == ("landed", found.commit), landed
    return found


def kept_refs(world: World) -> list[str]:
    return git(world.hub.path, "for-each-ref", "--format=%(refname)", overlay_ref("r", "")).split()


def elsewhere(world: World, folder: Path) -> Gate:
    """Return another host."""
    return Gate(world.hub, folder)


STYLES: tuple[LandingStyle, ...] = ("squash", "rebase")


def test_two_entries_that_both_change_what_is_made_both_land(world: World) -> None:
    """The first lands unchanged and needs no run of the command."""
    one, two = entry(world, "a"), entry(world, "b")
    let_in(world, one)
    assert (lock(world), kept_refs(world)) == ("a\nm", [])
    let_in(world, two)
    assert (lock(world), len(kept_refs(world))) == ("a\nb\nm", 1)


@pytest.mark.parametrize("style", STYLES)
def test_however_entries_land_it_is_made_once_of_all_they_bring(world: World, style: LandingStyle) -> None:
    one, two = entry(world, "a"), entry(world, "b")
    longer = world.entry("c", {"in/c": "c\n", "gen.lock": "b\nc\nm\n"}, on="work-b-1").model_copy(
        update={"branch": True}
    )
    assert made_of(world, one, two, style=style) == "a\nb\nm"
    assert made_of(world, one, longer, style=style) == "a\nb\nc\nm"
    assert len(kept_refs(world)) == 2


def test_without_a_declaration_they_conflict(world: World) -> None:
    begun(world, gate_file().partition("regenerate:")[0])
    assert conflict_of(world, entry(world, "a"), entry(world, "b")) == ("gen.lock",)


def test_a_conflict_elsewhere_is_one_still(world: World) -> None:
    other = world.entry("b", {"in/a": "other\n", "gen.lock": "other\nm\n"})
    assert conflict_of(world, entry(world, "a"), other) == ("gen.lock", "in/a")


def test_what_merges_line_by_line_is_made_anew_all_the_same(world: World) -> None:
    """Two lock files that merge cleanly are still the lock file of neither."""
    begun(world, gate_file("cat in/* | wc -l | tr -d \\  > gen.lock"))
    assert made_of(world, entry(world, "a", lock="2\n"), entry(world, "b", lock="2\n")) == "3"


def test_an_entry_that_did_not_touch_it_has_it_made(world: World) -> None:
    assert made_of(world, entry(world, "a"), entry(world, "b", lock=None)) == "a\nb\nm"


def test_what_counts_for_no_command_runs_none(world: World) -> None:
    begun(world, gate_file("exit 1"))
    assert made_of(world, world.entry("one", {"a": "2\n"}), entry(world, "two")) == "m\ntwo"


def test_without_from_all_the_rest_of_the_tree_counts(world: World) -> None:
    begun(world, gate_file("ls > gen.lock", of="[]"))
    one, two = world.entry("one", {"x": "1\n"}), world.entry("two", {"y": "1\n"})
    assert {"x", "y"} <= {*made_of(world, one, two).split()}


def test_an_entry_that_changed_the_made_file_alone_conflicts(world: World) -> None:
    """No command could make what it wrote there."""
    assert conflict_of(world, entry(world, "a"), world.entry("b", {"gen.lock": "by hand\n"})) == ("gen.lock",)
    assert kept_refs(world) == []


def test_an_entry_of_which_nothing_would_be_left_conflicts(world: World) -> None:
    """It adds a file that the target has, and another version of what is made from it."""
    again = world.entry("b", {"in/a": "a\n", "gen.lock": "by hand\n"})
    assert conflict_of(world, entry(world, "a"), again) == ("gen.lock",)


def test_of_two_commands_the_second_finds_what_the_first_has_made(world: World) -> None:
    second = "  - {paths: [sum], from: [gen.lock], run: wc -l < gen.lock > sum}\n"
    begun(world, gate_file(more=second))
    assert made_of(world, entry(world, "a"), entry(world, "b"), path="sum") == "3"
    assert len(kept_refs(world)) == 2


def test_what_differs_each_time_lands_byte_for_byte_as_it_was_tested(world: World, tmp_path: Path) -> None:
    """A second host reuses what the first one kept. A third lands it together with an entry behind it."""
    begun(world, gate_file(RANDOM, check="test -s gen.lock"))
    two, three = entry(world, "b"), entry(world, "c")
    ground(world)
    request = world.request(two)
    found = world.examine(request)
    there = elsewhere(world, tmp_path / "there")
    assert there.examine(request).commit == world.examine(request).commit == found.commit
    joint = world.request(three, ahead=(two,))
    behind = there.examine(joint)
    assert (behind.verdict, behind.commits[0]) == ("green", found.commit)
    both = world.landing(joint, behind, ahead=(), entries=(two, three))
    third = elsewhere(world, tmp_path / "third")
    landed = third.land(both)
    assert (landed.outcome, landed.commit) == ("landed", behind.commit), landed
    assert git(world.hub.path, "rev-parse", "main^{tree}") == behind.tree
    assert len(kept_refs(world)) == 2


def test_pipelined_behind_what_lands_it_is_the_same_commit(world: World) -> None:
    begun(world, gate_file(RANDOM, check="test -s gen.lock"))
    two, three = entry(world, "b"), entry(world, "c")
    ground(world)
    behind = world.examine(world.request(three, ahead=(two,)))
    let_in(world, two)
    request = world.request(three)
    landed = world.land(world.landing(request, behind))
    assert (landed.outcome, landed.commit) == ("landed", behind.commit), landed


def test_who_loses_the_race_takes_what_the_winner_kept(world: World, tmp_path: Path) -> None:
    there = elsewhere(world, tmp_path / "there")
    trees = [tree_with(one.mirror.git, {"gen.lock": blob(one, text)}) for one, text in ((world, "x\n"), (there, "y\n"))]
    ours, theirs = (KeptFiles(mirror=one.mirror, run="r") for one in (world, there))
    assert ours.find("k") is theirs.find("k") is None
    first = ours.keep("k", trees[0], "gen.lock")
    assert theirs.keep("k", trees[1], "gen.lock") == theirs.find("k") == first
    assert tree_of(there.mirror.git, first) == trees[0]


def blob(world: World, text: str) -> str:
    return f"100644 {world.mirror.git.text('hash-object', '-w', '--stdin', stdin=text.encode())}"


def test_a_lander_that_finds_nothing_kept_runs_nothing_and_lets_nothing_in(world: World) -> None:
    ground(world)
    request = world.request(entry(world, "b"))
    found = world.examine(request)
    (ref,) = kept_refs(world)
    git(world.hub.path, "update-ref", "-d", ref)
    before, landed = world.hub.tip(), world.land(world.landing(request, found))
    assert (landed.outcome, world.hub.tip(), kept_refs(world)) == ("untested", before, [])
    assert "is not kept any more; it is made and tested again" in landed.detail
    again = world.examine(request)
    assert world.land(world.landing(request, again)).outcome == "landed"


def test_what_somebody_else_has_made_since_is_not_landed_untested(world: World) -> None:
    begun(world, gate_file(RANDOM, check="test -s gen.lock"))
    ground(world)
    request = world.request(entry(world, "b"))
    found = world.examine(request)
    (ref,) = kept_refs(world)
    git(world.hub.path, "update-ref", "-d", ref)
    assert world.examine(request).commit != found.commit
    landed = world.land(world.landing(request, found))
    assert (landed.outcome, world.hub.tip() == found.commit) == ("untested", False)


def test_what_is_made_of_the_targets_definition_never_of_the_entrys(world: World) -> None:
    ground(world)
    theirs = gate_file("echo mine > gen.lock")
    one = world.entry("b", {"in/b": "b\n", "forgepool.yaml": theirs}, on=f"{world.made['a'].commit}~1")
    found = world.examine(world.request(one))
    assert found.verdict == "green", found
    assert git(world.mirror.path, "show", f"{found.commit}:gen.lock") == "a\nb\nm"


def test_only_what_is_declared_is_taken_of_what_a_command_leaves(world: World) -> None:
    begun(world, gate_file(f"{CAT}; echo x > a; echo x > more"))
    found = put_together(world, entry(world, "a"), entry(world, "b"))
    assert isinstance(found, Composed)
    assert git(world.mirror.path, "show", f"{found.commit}:a") == "1"
    assert "more" not in git(world.mirror.path, "ls-tree", "--name-only", found.commit).split()


def test_files_come_and_go_as_the_command_makes_them(world: World) -> None:
    file = gate_file("rm -rf gen; mkdir gen; cp in/* gen/").replace("[gen.lock]", "[gen/]")
    begun(world, file, {"gen/m": "m\n", "in/n": "n\n", "gen/n": "n\n"})
    one = world.entry("one", {"in/a": "a\n", "gen/a": "other\n"})
    two = world.entry("two", {"in/n": None, "in/b": "b\n", "gen/n": "more\n"})
    found = put_together(world, one, two)
    assert isinstance(found, Composed)
    assert git(world.mirror.path, "ls-tree", "--name-only", found.commit, "gen/").split() == ["gen/a", "gen/b", "gen/m"]


FAILS = "cat in/*; ! grep -q bad in/* || exit 7; " + CAT


def failing(world: World, run: str = FAILS, more: str = "") -> CheckResult:
    begun(world, gate_file(run, check="true", more=more))
    two = world.entry("b", {"in/b": "bad\n"})
    ground(world)
    return world.examine(world.request(two))


def test_a_command_that_fails_is_told_the_entry_with_its_words_and_how_to_see_it(world: World, tmp_path: Path) -> None:
    found = failing(world)
    assert (found.verdict, found.about, found.partner) == ("conflict", "b", "a")
    assert (
        found.detail
        == "'b' conflicts with 'a' in gen.lock, in/a: the command that makes gen.lock exited with 7 on both"
    )
    assert found.conflict_paths == ("gen.lock", "in/a")
    assert "bad" in found.failures[0].log_tail
    assert Path(found.failures[0].log).is_file()
    assert kept_refs(world) == []
    assert _shown(world, found, tmp_path) == 7


def _shown(world: World, found: CheckResult, folder: Path) -> int:
    """Run the printed command in a person's clone, and return its status."""
    clone = folder / "clone"
    git(folder, "clone", "-q", str(world.hub.path), str(clone))
    git(clone, "config", "user.name", "A")
    git(clone, "config", "user.email", "a@localhost")
    return subprocess.run(found.reproduce, shell=True, cwd=clone, check=False, capture_output=True).returncode


def test_a_red_check_behind_what_was_made_can_be_seen_again(world: World, tmp_path: Path) -> None:
    begun(world, gate_file(check="test $(wc -l < gen.lock) -lt 3 || exit 5"))
    two = entry(world, "b")
    ground(world)
    found = world.examine(world.request(two))
    assert (found.verdict, found.partner) == ("red", "a")
    assert _shown(world, found, tmp_path) == 5


def test_behind_others_one_failure_is_told_and_decides_about_nobody(world: World) -> None:
    begun(world, gate_file(f"echo ran >> {world.folder}/ran; {FAILS}", check="true"))
    one, two = entry(world, "a"), world.entry("b", {"in/b": "bad\n"})
    found = world.examine(world.request(two, ahead=(one,), decisive=False))
    assert (found.verdict, found.about) == ("conflict", "b")
    assert (world.folder / "ran").read_text() == "ran\n"


def test_a_command_that_fails_once_is_run_again(world: World) -> None:
    begun(world, gate_file(f"mkdir {world.folder}/was-here 2>/dev/null && exit 1; {CAT}", check="true"))
    two = entry(world, "b")
    ground(world)
    let_in(world, two)


def test_a_command_that_does_not_work_on_the_target_blames_nobody(world: World) -> None:
    found = failing(world, "exit 9")
    assert found.verdict == "not_configured"
    assert found.detail == "the command that makes gen.lock exited with 9 on the target itself; mend it"


def test_a_command_that_leaves_nothing_has_not_made_it(world: World) -> None:
    found = failing(world, "grep -q bad in/* && rm gen.lock || " + CAT)
    assert (found.verdict, found.failures[0].how) == ("conflict", "refused")
    assert "the command that makes gen.lock left nothing at gen.lock" in found.detail


def test_a_command_that_does_not_end_in_its_time_says_so(world: World) -> None:
    found = failing(world, "grep -q bad in/* && exec sleep 60; " + CAT, more="    timeout_s: 0.2\n")
    assert (found.verdict, found.failures[0].how) == ("conflict", "timeout")
    assert "the command that makes gen.lock did not end in its time on both" in found.detail


def test_the_network_is_nobodys_fault() -> None:
    said = "npm ERR! code ENOTFOUND registry.example"
    assert network_trouble(f"a\n{said}\nb\n") == said
    assert network_trouble("exit 1: no such package\n") is None


def test_the_same_is_kept_under_one_key_and_another_under_another(world: World) -> None:
    """Any file counts, because a command may read files that are not declared."""
    one = RegenerateDefinition.model_validate({"paths": ["gen.lock"], "from": ["in/"], "run": CAT})
    mirror = world.mirror
    mirror.ensure(world.hub.tip(), refs=("refs/heads/main",))
    tree = tree_of(mirror.git, world.hub.tip())
    files = files_of(mirror.git, tree)
    key = key_of(one, tree)
    assert key == key_of(one, tree_with(mirror.git, files))
    for path in ("in/m", "gen.lock", "in/new", "elsewhere"):
        assert key != key_of(one, tree_with(mirror.git, {**files, path: files["a"]}))
    assert key != key_of(one.model_copy(update={"run": "another"}), tree)


SCRIPT = {"make.sh": f"{CAT}\n"}
_OPTION = "cat in/* > gen.lock; if [ -f lib/opt ]; then cat lib/opt >> gen.lock; fi"
HOSTS = "version: 1\nrules:\n  - {match: {network: registry.npmjs.org}, decision: allow}\n"


def test_what_an_entry_changes_of_the_command_is_not_run_before_a_person_has_let_it(world: World) -> None:
    """It runs neither to make nor to compare the file. With a person's grant it runs."""
    begun(world, gate_file("sh make.sh", check="true"), SCRIPT)
    ran = f"touch {world.folder}/ran; echo EVIL > gen.lock\n"
    evil = world.entry("x", {"in/b": "b\n", "make.sh": ran, "gen.lock": "EVIL\n"}, scanned=True)
    assert world.examine(world.request(evil)).verdict == "findings"
    ground(world)
    found = world.examine(world.request(evil))
    assert (found.verdict, found.about) == ("conflict", "x")
    assert (
        "in make.sh: the command that makes gen.lock runs these, so they change only with a person's leave"
        in found.detail
    )
    assert not (world.folder / "ran").exists()
    assert kept_refs(world) == []
    let_in(world, evil.model_copy(update={"grants": ("make.sh", "gen.lock")}))
    assert lock(world) == "EVIL"


def test_what_was_made_for_one_that_did_not_land_is_no_others(world: World) -> None:
    """Its command had read an undeclared file of that entry."""
    begun(world, gate_file(_OPTION, check="true"))
    gone = world.entry("x", {"in/b": "b\n", "lib/opt": "OF ANOTHER\n"})
    good = world.entry("g", {"in/b": "b\n"})
    ground(world)
    assert world.examine(world.request(gone)).verdict == "green"
    let_in(world, good)
    assert lock(world) == "a\nb\nm"


def test_a_command_that_fails_once_as_it_looks_at_an_entrys_own_files_gives_nobody_back(world: World) -> None:
    begun(world, gate_file(f"mkdir {world.folder}/was-here 2>/dev/null && exit 1; {CAT}", check="true"))
    let_in(world, world.entry("b", {"in/b": "b\n", "gen.lock": "b\nm\n"}, scanned=True))


def test_words_of_the_network_are_the_entrys_where_the_target_has_no_trouble(world: World) -> None:
    hosts = world.folder / "hosts.yaml"
    hosts.write_text(HOSTS)
    world.settings = world.settings.model_copy(update={"policy": hosts})
    run = f"if grep -q bad in/*; then echo ENOTFOUND git.example.com; exit 1; fi; {CAT}"
    found = failing(world, run, more="    network: [registry.npmjs.org]\n")
    assert (found.verdict, found.about) == ("conflict", "b")


def test_a_command_that_is_slow_on_the_target_as_well_is_nobodys_fault(world: World) -> None:
    found = failing(world, "exec sleep 60", more="    timeout_s: 0.2\n")
    assert found.verdict == "infrastructure"
    assert found.detail == "the command that makes gen.lock did not end in its time on the target itself"


def test_what_is_made_takes_nobodys_place(world: World) -> None:
    file = gate_file("rm -rf lib; mkdir lib; cp in/* lib/", check="true").replace("[gen.lock]", "[lib/*]")
    begun(world, file)
    base = world.hub.tip()
    two = world.entry("b", {"in/b": "b\n", "lib": "a file\n"}, on=base)
    ground(world)
    assert conflict_of(world, two) == ("lib",)


def test_paths_count_by_what_the_definition_says() -> None:
    one = RegenerateDefinition.model_validate({"paths": ["gen.lock"], "run": CAT})
    assert (is_made(one, "gen.lock"), is_made(one, "in/gen.lock")) == (True, False)
    assert counts(one, "anything")
    narrow = one.model_copy(update={"of": ("in/",)})
    assert (counts(narrow, "in/a"), counts(narrow, "gen.lock"), counts(narrow, "b")) == (True, True, False)


def test_what_the_command_made_is_not_held_against_the_entry(world: World) -> None:
    """A `.lock` file whose manifest did not change is protected, and the task declares only its own file."""
    one = entry(world, "a")
    two = entry(world, "b", scanned=True).model_copy(update={"holds": ("in/b",)})
    let_in(world, one)
    let_in(world, two)
    assert lock(world) == "a\nb\nm"


def test_what_the_command_would_have_made_is_not_held_against_who_stands_alone(world: World) -> None:
    one = entry(world, "a", scanned=True).model_copy(update={"holds": ("in/a",)})
    let_in(world, one)
    assert (lock(world), len(kept_refs(world))) == ("a\nm", 1)


@pytest.mark.parametrize("run", [CAT, f"test -e in/none && {CAT}; exit 3"], ids=["made otherwise", "not made"])
def test_what_somebody_wrote_by_hand_is_held_against_them(world: World, run: str) -> None:
    begun(world, gate_file(run, check="true"))
    found = world.examine(world.request(entry(world, "a", lock="m\nby hand\n", scanned=True)))
    assert (found.verdict, [one.path for one in found.findings if one.weight == "blocks"]) == ("findings", ["gen.lock"])


def test_what_a_person_grants_needs_no_run(world: World) -> None:
    begun(world, gate_file("exit 3", check="true"))
    one = entry(world, "a", lock="m\nby hand\n", scanned=True).model_copy(update={"grants": ("gen.lock",)})
    let_in(world, one)


def test_lines_that_were_put_into_it_by_hand_do_not_come_out_as_made(world: World) -> None:
    """The command keeps lines that are there, so it begins with the target's file."""
    begun(world, gate_file("cat in/* >> gen.lock; sort -u -o gen.lock gen.lock", check="true"))
    two = entry(world, "b", lock="b\nevil\nm\n")
    ground(world)
    let_in(world, two)
    assert lock(world) == "a\nb\nm"


def test_who_asks_for_no_landing_writes_nothing_to_the_hub(world: World) -> None:
    two = entry(world, "b")
    ground(world)
    before = git(world.hub.path, "for-each-ref")
    request = world.request(two, private=True, run="gate-check")
    found = world.examine(request)
    assert (found.verdict, world.examine(request).commit) == ("green", found.commit)
    assert git(world.hub.path, "for-each-ref") == before


def test_scans_alone_run_no_command(world: World) -> None:
    begun(world, gate_file("exit 3", check="true"))
    two = entry(world, "b")
    ground(world)
    assert screen(world.request(two), world.settings).verdict == "green"


def test_what_was_made_and_not_kept_is_nobodys_fault_and_made_again(world: World) -> None:
    two = entry(world, "b")
    ground(world)
    hook = world.hub.path / "hooks" / "update"
    hook.write_text("#!/bin/sh\ncase $1 in */made/*) echo no room >&2; exit 1 ;; esac\n")
    hook.chmod(0o755)
    found = world.examine(world.request(two))
    assert (found.verdict, "cannot be kept in the hub" in found.detail) == ("infrastructure", True), found
    hook.unlink()
    let_in(world, two)


def test_the_command_is_held_as_checks_are(world: World) -> None:
    begun(world, gate_file(f"{CAT}; echo x > {world.folder}/escaped; true", check="true"))
    ground(world)
    world.settings = world.settings.model_copy(update={"sandbox": "auto"})
    assert made_of(world, entry(world, "b")) == "a\nb\nm"
    assert not (world.folder / "escaped").exists()


def test_what_was_made_is_no_part_of_the_diff_that_is_approved(world: World) -> None:
    """It differs with the entry's place in the queue. The approval covers the files it is made from."""
    begun(world, gate_file(RANDOM))
    two, patches = entry(world, "b"), set[str]()
    for name in ("x", "y"):
        tip = world.hub.commit({f"in/{name}": f"{name}\n"})
        found = put_together(world, two)
        assert isinstance(found, Composed) and found.steps[0].made is not None
        patches.add(own_patch_id(world.mirror.git, tip, found.steps[0]))
    assert len(patches) == 1


def test_what_the_command_runs_is_protected_as_what_checks_run(world: World) -> None:
    begun(world, gate_file("sh tools/gen.sh", check="true"), {"tools/gen.sh": f"{CAT}\n"})
    mine = {"tools/gen.sh": "echo mine > gen.lock\n", "in/b": "b\n"}
    one = world.entry("b", mine, scanned=True)
    found = world.examine(world.request(one))
    assert (found.verdict, [each.path for each in found.findings]) == ("findings", ["tools/gen.sh"])
    assert screen(world.request(one), world.settings).verdict == "findings"
