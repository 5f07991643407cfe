"""
Set-up commands, and the folders they fill, which are kept and copied in.

A kept folder is made of the target's own tip and of nothing else: the set-up is run on the tip's files, before the
commit that is to be checked is laid out in the same folder. So no candidate can put anything into what the next one
is checked with. A commit whose lock files, or files named by a word of the set-up command, are not byte for byte the
tip's gets its set-up run for itself, and nothing of that is kept; nor is a check's own writing ever. What else the
command reads must be said, as the key of a further `cache` entry for the folder. And kept folders only save time
where all is green: once a check is red, whatever decides whose failure it is has run its set-ups.

Kept folders belong to one folder of the pool: what set-ups make (a Python environment, say) often holds its own path.
"""

import hashlib
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from supervisor.certificates import environment_fingerprint
from supervisor.definitions import CheckDefinition
from supervisor.messages import CheckFailure
from supervisor.paths import Found, found_at
from workers.sandbox.private import Private
from workers.sandbox.process import Command, Ended, run, shell
from worktrees import slots
from worktrees.beneath import Beneath
from worktrees.checkout import Checkout
from worktrees.copies import InTheWay, copy_folder
from worktrees.git import CommitId
from worktrees.trees import remove_tree

_WORD = re.compile(r"[\w./+@-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """What a set-up works in and with."""

    checkout: Checkout
    own: Private
    kept: Path
    """Where cached folders are kept on this host."""
    logs: Path
    label: str
    stop: Callable[[], bool]
    base: CommitId | None
    """The target's tip, of which folders may be kept and taken; None: none are, every set-up is run."""

    def log(self, check: CheckDefinition) -> Path:
        return self.logs / f"{self.label}-{check.name}.setup.log"


def keep_folders(checks: Sequence[CheckDefinition], bench: Bench) -> None:
    """
    Runs on the tip those set-ups whose folders the checkout may have and nobody has kept yet.

    The checkout holds its own commit again afterwards. A set-up that does not end well is not told: it is run again
    on the commit itself, and then its answer counts.
    """
    lacking = [(check, store) for check in checks if (store := _store(check, bench)) and not store.is_dir()]
    if bench.base is None or not lacking:
        return
    for check, store in lacking:
        slots.prepare(bench.checkout.slot, bench.base)
        if _run(check, replace(bench, label=f"{bench.label}-kept")).succeeded:
            _keep(check, bench.checkout.path, store)
    slots.prepare(bench.checkout.slot, bench.checkout.commit)


def set_up(check: CheckDefinition, bench: Bench) -> CheckFailure | None:
    """None when the checkout is set up for the check; else how the set-up did not end well."""
    if check.setup is None:
        return None
    if lacking := _lacking(check, bench.checkout):
        reason = f"keeps folders by {', '.join(lacking)}, no regular file of the commit; name a lock file that is"
        return _refused(check, reason, bench)
    store = _store(check, bench)
    if store is not None and store.is_dir() and _taken(check, store, bench):
        return None
    ended = _run(check, bench)
    if ended.succeeded:
        return None
    how, status = ended.how, ended.status
    return CheckFailure(check=check.name, how=how, status=status, log_tail=ended.tail, log=str(ended.log), setup=True)


def _refused(check: CheckDefinition, reason: str, bench: Bench) -> CheckFailure:
    log = str(bench.log(check))
    return CheckFailure(
        check=check.name, how="refused", status=None, log_tail=reason, reason=reason, log=log, setup=True
    )


def _run(check: CheckDefinition, bench: Bench) -> Ended:
    command = Command(
        argv=shell(check.setup or "true"),
        cwd=bench.checkout.path,
        env=bench.own.env,
        confined=bench.own.confined,
        log=bench.log(check),
        timeout_s=check.timeout_s,
    )
    return run(command, stop=bench.stop)


def _lacking(check: CheckDefinition, checkout: Checkout) -> list[str]:
    keys = sorted({cached.key for cached in check.cache})
    found = found_at(checkout.mirror.git, checkout.commit, *keys)
    return [key for key in keys if key not in found or found[key].kind != "file"]


def _inputs(check: CheckDefinition, checkout: Checkout, commit: CommitId) -> tuple[tuple[str, Found], ...]:
    """What a commit, not the folder, has at the lock files' paths and at those the set-up command names."""
    words = [os.path.normpath(word) for word in _WORD.findall(check.setup or "") if not word.startswith(("/", "-"))]
    paths = sorted({*words, *(cached.key for cached in check.cache)} - {".", ".."})
    inside = [path for path in paths if not path.startswith("../")]
    return tuple(found_at(checkout.mirror.git, commit, *inside).items())


def _store(check: CheckDefinition, bench: Bench) -> Path | None:
    """Where the check's folders are kept; None where the checkout may have none but those it makes for itself."""
    if bench.base is None or check.setup is None or not check.cache:
        return None
    inputs = _inputs(check, bench.checkout, bench.checkout.commit)
    if inputs != _inputs(check, bench.checkout, bench.base):
        return None
    mirror, folder = bench.checkout.mirror, bench.checkout.path
    named = (mirror.hub, str(folder), environment_fingerprint(), check.name, check.setup, check.cache, inputs)
    return bench.kept / hashlib.sha256(repr(named).encode()).hexdigest()[:32]


def _keep(check: CheckDefinition, checkout: Path, store: Path) -> None:
    """All folders or none: they are copied beside the store and renamed into place. The slot's lease is the lock."""
    building = store.with_suffix(".building")
    remove_tree(building)
    building.mkdir(parents=True)
    try:
        _copy_folders(check, checkout, building)
    except InTheWay:  # each checkout has its set-up run then
        remove_tree(building)
        return
    building.rename(store)


def _taken(check: CheckDefinition, store: Path, bench: Bench) -> bool:
    """Whether the kept folders could be copied in; where something of the commit's stands in the way, none is."""
    try:
        _copy_folders(check, store, bench.checkout.path)
    except InTheWay:
        slots.prepare(bench.checkout.slot, bench.checkout.commit)
        return False
    return True


def _copy_folders(check: CheckDefinition, source: Path, destination: Path) -> None:
    with Beneath(source) as old, Beneath(destination) as new:
        for cached in check.cache:
            folder = Path(os.path.normpath(cached.folder))
            if old.state(folder) is not None:
                copy_folder(folder, old, new)
