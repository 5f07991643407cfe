"""The audit of an ended chaos session, from outside: plain git, the checks by hand, and what the kernel knows."""

import json
import os
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from chaos_world import Branch, Desk, World, is_held
from kit import Repository, events_of
from processes import processes

from forgepool.orchestrator.journal import events as e
from forgepool.workers.queue.broker import connect
from forgepool.worktrees.hub.push import STALE_S

_NEVER = -1
"""Redis' answer about a key that does not run out."""


def audit(world: World) -> list[str]:
    """Return a sentence for each promise that was not kept."""
    return [*_branches(world), *_desks(world), *_leftovers(world)]


def _branches(world: World) -> Iterator[str]:
    broken = subprocess.run(
        ["git", "fsck", "--connectivity-only"], cwd=world.hub.path, capture_output=True, text=True, check=False
    )
    if broken.returncode:
        yield f"the hub is broken: {broken.stderr[-300:]}"
    for branch in world.branches:
        yield from _branch(world, branch)


def _branch(world: World, branch: Branch) -> Iterator[str]:
    hub = world.hub
    if not hub.refs(f"refs/heads/{branch.name}"):
        yield f"{branch.name} does not exist"
        return
    commits = hub.git("rev-list", "--first-parent", "--reverse", f"{branch.base}..{branch.name}").split()
    landed = Counter[str]()
    for commit in commits:
        task = hub.trailer(commit, "Forgepool-Task")
        landed[task or "-"] += 1
        yield from _commit(world, branch, commit, task)
    landed.pop("-", None)
    yield from (f"{name} landed {times} times on {branch.name}" for name, times in landed.items() if times > 1)
    yield from (f"{name} landed and must not" for name in landed if _fate(branch, name) == "never")
    for name, deed in branch.deeds.items():
        if deed.fate == "lands" and not landed[name]:
            yield f"{name} has not landed on {branch.name}"
        elif landed[name] and deed.content is not None and hub.file(branch.name, deed.paths[0]) != deed.content.strip():
            yield f"{name} landed with a content that its command did not make"
    pair = [name for name, deed in branch.deeds.items() if deed.fate == "one-of-pair"]
    if pair and sum(landed[name] for name in pair) != 1:
        yield f"of the pair {pair}, {sum(landed[name] for name in pair)} landed on {branch.name}"
    for pushed in branch.pushed:
        if _git_status(hub, "merge-base", "--is-ancestor", pushed, branch.name):
            yield f"a person's push {pushed[:12]} is not in {branch.name} any more"


def _fate(branch: Branch, name: str) -> str:
    return branch.deeds[name].fate if name in branch.deeds else "never"


def _commit(world: World, branch: Branch, commit: str, task: str) -> Iterator[str]:
    """Check one commit of the target: what it changes, and whether every check is green on it."""
    changed = world.hub.git("diff", "--name-only", f"{commit}^1", commit).split()
    if task and task not in branch.deeds:
        yield f"{commit[:12]} says it is of {task}, which is no task of {branch.name}"
    elif task and not {*changed} <= {*branch.deeds[task].paths}:
        yield f"{commit[:12]} of {task} changes {changed}"
    elif not task and commit not in branch.pushed:
        yield f"{commit[:12]} on {branch.name} is of no task and of no person"
    folder = world.ground / f"proof-{commit[:12]}"
    folder.mkdir(exist_ok=True)
    subprocess.run(
        ["sh", "-c", f"git archive {commit} | tar -x -C {folder}"], cwd=world.hub.path, check=True, capture_output=True
    )
    env = os.environ | {"PATH": f"{world.ground}/bin{os.pathsep}{os.environ['PATH']}"}
    for check in branch.checks:
        if subprocess.run(["sh", "-c", check], cwd=folder, env=env, check=False, capture_output=True).returncode:
            yield f"{commit[:12]} on {branch.name} is red: {check}"


def _git_status(hub: Repository, *argv: str) -> int:
    return subprocess.run(["git", *argv], cwd=hub.path, capture_output=True, check=False).returncode


def _desks(world: World) -> Iterator[str]:
    for desk in world.desks:
        yield from (f"{desk.machine.name}: {said}" for said in desk.complaints)
        for run in desk.machine.runs():
            yield from _said(world, desk, run)


def _said(world: World, desk: Desk, run: str) -> Iterator[str]:
    """Compare what a run says has landed or is finished with the hub."""
    hub, branch = world.hub, desk.branch
    recorded = desk.machine.journal(run)
    if desk.gate is None and recorded:
        yield from _told(world, desk, run)
    for answer in events_of(recorded, e.LandingAnswered):
        commit = answer.result.commit if answer.result.outcome == "landed" else None
        if commit is not None and _git_status(hub, "merge-base", "--is-ancestor", commit, branch.name):
            yield f"{run} says {answer.task} landed as {commit[:12]}, which is not in {branch.name}"
    for order in events_of(recorded, e.OrderAnswered):
        made = order.result.commit
        if made is not None and _git_status(hub, "cat-file", "-e", f"{made}^{{commit}}"):
            yield f"{run} says {order.result.order_id} is finished as {made[:12]}, which is lost"


def _told(world: World, desk: Desk, run: str) -> Iterator[str]:
    ended = desk.machine.start("status", run, "--json").ended(within_s=60)
    if ended.status not in (0, 1):
        yield f"status of {run} ends with {ended.status}: {ended.err[-300:]}"
        return
    branch = desk.branch
    there = Counter(
        world.hub.trailer(commit, "Forgepool-Task")
        for commit in world.hub.git("rev-list", "--first-parent", f"{branch.base}..{branch.name}").split()
    )
    for task in json.loads(ended.out)["tasks"]:
        if (task["phase"] == "landed") != bool(there[task["task"]]) and task["phase"] != "already_there":
            yield f"status of {run} says {task['task']} is {task['phase']}; commits of it: {there[task['task']]}"


def _leftovers(world: World) -> Iterator[str]:
    left = processes(world.ground)
    yield from (f"left running: {one.role} {' '.join(one.argv)[:120]}" for one in left)
    vanished = {one.machine.name for one in world.hosts if one.vanished}
    # A rival that was killed is not started again, nor is what dies at the very end. A next start would clean up.
    vanished |= {one.machine.name for one in world.desks if one.rival or one.waits_for_start}
    for machine in world.machines:
        for lock in machine.cache.rglob("slot-*.lock"):
            if is_held(lock):
                yield f"held: {lock}"
        if machine.name not in vanished and machine.tmp.is_dir():
            yield from (f"left in {machine.name}'s tmp: {one.name}" for one in machine.tmp.iterdir())
        for started in machine.started:
            for said in (started.out, started.err):
                if "Traceback (most recent" in (text := said.read_text(errors="replace")):
                    yield f"traceback of {machine.name}: {text.strip().splitlines()[-1][:300]}"
    if world.broker is not None:
        client = connect(world.broker.url)
        found = [key for key in client.scan_iter(match="forgepool:*") if ":lease:" in key or ":worker:" in key]
        # What a killed process held runs out by itself.
        found = [key for key in found if client.pttl(key) == _NEVER]
        yield from (f"left in Redis: {key}" for key in found if "junk" not in key)
        client.close()
    locks = [lock for lock in world.hub.path.rglob("*.lock") if not _is_young(world, lock)]
    yield from (f"left in the hub: {lock.relative_to(world.hub.path)}" for lock in locks)


def _is_young(world: World, lock: Path) -> bool:
    """Tell whether a lock below a run's refs was too young at the run's end to be known as left behind."""
    ends = [
        desk.machine.journal(run)[-1].at for desk in world.desks for run in desk.machine.runs() if run in lock.parts
    ]
    return any(lock.stat().st_mtime > end - STALE_S for end in ends)
