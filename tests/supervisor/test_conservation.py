"""What would land is what the entries changed: their own paths, and no others."""

import pytest
from gates import Gate, check

from supervisor.conservation import unowned
from supervisor.verdicts import composable
from worktrees.compose import tree_of
from worktrees.git import CommitId


def test_a_tree_with_somebody_elses_change_in_it_is_not_the_entrys_own(gate: Gate) -> None:
    """Must fail: the tree of a branch on which another commit lies as well."""
    mine = gate.entry("mine", {"b": "2\n"})
    both = gate.entry("both", {"a": "2\n"}, on=mine.commit)
    mirror = gate.mirror
    for entry in (mine, both):
        mirror.ensure(CommitId(entry.commit), refs=(entry.ref,))
    tip = gate.hub.tip()
    tree = tree_of(mirror.git, CommitId(both.commit))
    assert unowned(mirror.git, tip, tree, [composable(mine)]) == ("a",)
    assert unowned(mirror.git, tip, tree, [composable(mine), composable(both)]) == ()


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
