"""The first look at a hub leaves nothing behind."""

from pathlib import Path

from repositories import git

from forgepool.orchestrator.launch.prerequisites import check_hub_writable
from forgepool.worktrees.hub.mirror import open_mirror


def test_our_probe_goes_also_where_that_of_another_run_cannot_be_removed(tmp_path: Path) -> None:
    """A merge queue runs for weeks, and looks once."""
    hub, other = tmp_path / "hub.git", "refs/forgepool/other/probe"
    git(tmp_path, "init", "-q", "--bare", str(hub))
    hook = hub / "hooks" / "update"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f'#!/bin/sh\ntest "$1" != {other}\n')
    mirror = open_mirror(str(hub), tmp_path / "cache")
    git(hub, "update-ref", other, git(hub, "hash-object", "-w", str(hook)))
    hook.chmod(0o755)
    check_hub_writable(mirror, "ours")
    assert git(hub, "for-each-ref", "--format=%(refname)") == other
