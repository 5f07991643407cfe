"""A composed change touches only the paths that its entries changed."""

import pytest
from gates import Gate, check

from forgepool.supervisor.gate.diff_ownership import find_unowned
from forgepool.supervisor.gate.verdicts import composable
from forgepool.worktrees.commits.candidate import write_commit
from forgepool.worktrees.commits.compose import Composed, compose, tree_of
from forgepool.worktrees.git.git import CommitId, TreeId


def test_a_tree_with_somebody_elses_change_in_it_is_not_the_entrys_own(gate: Gate) -> None:
    """The tree belongs to a branch on which another commit lies as well."""
    mine = gate.entry("mine", {"b": "2\n"})
    both = gate.entry("both", {"a": "2\n"}, on=mine.commit)
    mirror = gate.mirror
    for entry in (mine, both):
        mirror.ensure(CommitId(entry.commit), refs=(entry.ref,))
    tip = gate.hub.tip()
    tree = tree_of(mirror.git, CommitId(both.commit))
    assert find_unowned(mirror.git, tip, tree, [composable(mine)]) == ("a",)
    assert find_unowned(mirror.git, tip, tree, [composable(mine), composable(both)]) == ()


@pytest.mark.parametrize("told", ["truly", "older", "newer"])
def test_a_merge_from_a_wrong_fork_brings_back_or_takes_out_what_the_entry_never_touched(gate: Gate, told: str) -> None:
    """Git is given a false fork point: a commit of the same files that lies elsewhere in the history."""
    oldest = gate.hub.tip()
    fork = gate.hub.commit({"gone-since": "1\n"})
    entry = gate.entry("one", {"b": "2\n"}, on=fork)
    gate.hub.commit({"gone-since": None})
    newest = gate.hub.commit({"new-since": "1\n"})
    gate.mirror.fetch("+refs/heads/*:refs/hub/heads/*")
    git = gate.mirror.git
    parent = {"truly": fork, "older": oldest, "newer": newest}[told]
    moved = write_commit(git, tree=tree_of(git, CommitId(entry.commit)), parents=(parent,), message="same", at=1)
    tree = TreeId(git.text("merge-tree", "--write-tree", newest, moved))
    strange = {"truly": (), "older": ("gone-since",), "newer": ("gone-since", "new-since")}[told]
    assert find_unowned(git, newest, tree, [composable(entry)]) == strange


@pytest.mark.parametrize("renamed_by", ["the target", "the entry"])
def test_what_is_changed_under_another_name_than_before_is_still_the_entrys(gate: Gate, renamed_by: str) -> None:
    long = "".join(f"line {number}\n" for number in range(40))
    gate.hub.commit({"long": long})
    start = gate.hub.tip()
    rename = {"long": None, "elsewhere": long}
    changed = {"long": long + "more\n"}
    ours, theirs = (changed, rename) if renamed_by == "the target" else (rename, changed)
    entry = gate.entry("one", ours, on=start)
    gate.hub.commit(theirs)
    request = gate.request(entry, check("test -e elsewhere && tail -1 elsewhere | grep -q more"))
    found = gate.examine(request)
    assert found.verdict == "green", found
    assert gate.land(gate.landing(request, found)).outcome == "landed"


def test_the_entrys_file_is_known_however_many_others_were_renamed(gate: Gate) -> None:
    """Git gives up finding renames, without saying so, where more than a thousand files were renamed and edited."""
    texts = {f"{number}": "".join(f"{number} {line}\n" for line in range(9)) for number in range(1100)}
    gate.hub.commit({f"old/{name}": text for name, text in texts.items()})
    entry = gate.entry("one", {"old/7": texts["7"].replace("7 8", "seven eight")})
    edited = {f"new/x{name}": text.replace(" 0\n", " none\n") for name, text in texts.items()}
    tip = gate.hub.commit({**{f"old/{name}": None for name in texts}, **edited})
    gate.mirror.ensure(CommitId(entry.commit), refs=(entry.ref,))
    gate.mirror.ensure(tip, refs=("refs/heads/main",))
    mine, git = composable(entry), gate.mirror.git
    composed = compose(git, tip, [mine], "merge")
    assert isinstance(composed, Composed)
    assert find_unowned(git, tip, composed.tree, [mine]) == ()
    strange = gate.entry("strange", {"new/x8": edited["new/x8"] + "more\n"}, on=tip)
    gate.mirror.ensure(CommitId(strange.commit), refs=(strange.ref,))
    assert find_unowned(git, tip, tree_of(git, CommitId(strange.commit)), [mine]) == ("new/x8",)
