"""Attempts on what all worktrees of a host share, and on the paths that lead to it."""

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attempt import Check, Stage, attempt

if TYPE_CHECKING:
    from surroundings import World

_KEPT = ("root", "files", "uid")
"""
Layers that protect the mirror: it is mounted read-only, only readable under Landlock, and mapped read-only for another
uid.
"""


def _git(stage: Stage, *argv: str) -> str:
    done = subprocess.run(("git", *argv), cwd=stage.worktree, capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(0, done.stderr.strip())
    return done.stdout


def _contains(*parts: str) -> Check:
    """Return a check that the mirror's file at that place has the attempt's name in it."""

    def check(world: "World", name: str, said: Any) -> bool:
        path = Path(world.mirror, *parts)
        return path.is_file() and name in path.read_text(errors="replace")

    return check


def _ran(world: "World", name: str, said: Any) -> bool:
    """A person runs their own git in the worktree; return whether a program ran and left a trace."""
    subprocess.run(("git", "status"), cwd=world.worktree, capture_output=True, check=False)
    return (world.outside / name).exists()


def _append(path: str, text: str) -> None:
    with open(path, "a") as file:  # noqa: PTH123 - appended to
        file.write(text)


@attempt(*_KEPT, seen=_contains("hooks", "post-index-change"))
def leave_a_hook(stage: Stage) -> None:
    Path(stage.mirror, "hooks").mkdir(exist_ok=True)
    Path(stage.mirror, "hooks", "post-index-change").write_text(f"#!/bin/sh\n# {stage.name}\n")


@attempt(*_KEPT, seen=_contains("config"))
def set_a_file_system_monitor(stage: Stage) -> None:
    _git(stage, "config", "core.fsmonitor", f"touch {stage.outside}/{stage.name}")


@attempt(*_KEPT, seen=_contains("config"))
def set_a_folder_of_hooks(stage: Stage) -> None:
    _git(stage, "config", "core.hooksPath", f"{stage.worktree}/{stage.name}")


@attempt(*_KEPT, seen=_contains("config"))
def set_a_program_for_ssh(stage: Stage) -> None:
    _git(stage, "config", "core.sshCommand", f"{stage.worktree}/{stage.name}")


@attempt(*_KEPT, seen=_contains("config"))
def set_a_filter(stage: Stage) -> None:
    _git(stage, "config", "filter.x.clean", f"{stage.worktree}/{stage.name}")


@attempt(*_KEPT, seen=_contains("config"))
def lead_the_configuration_elsewhere(stage: Stage) -> None:
    _append(f"{stage.mirror}/config", f"[include]\n\tpath = {stage.worktree}/{stage.name}\n")


@attempt(*_KEPT, seen=_contains("info", "attributes"))
def set_attributes(stage: Stage) -> None:
    Path(stage.mirror, "info").mkdir(exist_ok=True)
    _append(f"{stage.mirror}/info/attributes", f"* filter={stage.name}\n")


@attempt(*_KEPT, seen=_contains("objects", "info", "alternates"))
def lend_objects(stage: Stage) -> None:
    """It adds objects from a folder that it may change."""
    _append(f"{stage.mirror}/objects/info/alternates", f"{stage.worktree}/{stage.name}\n")


@attempt(*_KEPT, seen=lambda world, name, said: name in (world.admin / "gitdir").read_text())
def turn_the_way_back(stage: Stage) -> None:
    """The file leads from the repository to the worktree; git reads it when it prunes."""
    _append(f"{stage.admin}/gitdir", f"{stage.worktree}/{stage.name}\n")


@attempt(*_KEPT, seen=lambda world, name, said: (world.admin / "config.worktree").exists())
def configure_the_worktree(stage: Stage) -> None:
    _append(f"{stage.admin}/config.worktree", f"[core]\n\tfsmonitor = {stage.worktree}/{stage.name}\n")


@attempt(*_KEPT, seen=lambda world, name, said: world.ref("refs/heads/other") != world.tip)
def move_the_branch_of_another(stage: Stage) -> None:
    _git(stage, "update-ref", "refs/heads/other", "HEAD~1")


@attempt(*_KEPT, seen=lambda world, name, said: world.ref(f"refs/heads/{name}") is not None)
def make_a_branch(stage: Stage) -> None:
    _git(stage, "branch", stage.name)


@attempt(*_KEPT, seen=_contains("packed-refs"))
def rewrite_all_refs(stage: Stage) -> None:
    tip = Path(stage.admin, "HEAD").read_text().strip()
    _append(f"{stage.mirror}/packed-refs", f"{tip} refs/heads/{stage.name}\n")


@attempt(*_KEPT, seen=lambda world, name, said: (world.mirror / "objects" / "pack" / f"{name}.pack").exists())
def add_a_pack(stage: Stage) -> None:
    Path(stage.mirror, "objects", "pack", f"{stage.name}.pack").write_bytes(b"PACK")


@attempt(*_KEPT, seen=lambda world, name, said: (world.other_admin / "index.lock").exists())
def lock_the_index_of_another(stage: Stage) -> None:
    Path(stage.other_admin, "index.lock").touch()


@attempt(*_KEPT, seen=lambda world, name, said: name in (world.other_admin / "HEAD").read_text())
def turn_the_head_of_another(stage: Stage) -> None:
    _append(f"{stage.other_admin}/HEAD", f"ref: refs/heads/{stage.name}\n")


@attempt(*_KEPT, seen=lambda world, name, said: world.hub_ref(f"refs/heads/{name}") is not None)
def push_to_the_hub(stage: Stage) -> None:
    _git(stage, "push", "-q", stage.hub, f"HEAD:refs/heads/{stage.name}")


@attempt(*_KEPT, seen=lambda world, name, said: name in (world.admin / "commondir").read_text())
def turn_the_way_to_the_repository(stage: Stage) -> None:
    """Git would then read another repository's configuration."""
    Path(stage.admin, "commondir").write_text(f"{stage.worktree}/{stage.name}\n")


def _written_to_the_pointer(world: "World", name: str, said: Any) -> bool:
    """The next attempt may have moved the pointer."""
    places = (world.worktree / ".git", world.worktree / "put_a_repository_in_place_of_the_pointer.pointer")
    return any(name in each.read_text() for each in places if each.is_file())


@attempt("root", seen=_written_to_the_pointer)
def write_to_the_pointer(stage: Stage) -> None:
    _append(f"{stage.worktree}/.git", f"\n# {stage.name}")


@attempt("root", seen=_ran)
def put_a_repository_in_place_of_the_pointer(stage: Stage) -> None:
    """A git command in the worktree then obeys that repository's configuration."""
    Path(stage.worktree, ".git").rename(stage.inside("pointer"))
    _git(stage, "init", "-q", stage.worktree)
    _git(stage, "config", "core.fsmonitor", f"touch {stage.outside}/{stage.name}; false")
