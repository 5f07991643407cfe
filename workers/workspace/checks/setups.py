"""
Set-up commands of checks, and the folders they fill, which are kept and reused (`dependencies`).

The set-up runs on the tip's files, before the commit under test is laid out in the same folder. Only folders of that
run are kept, so no candidate can put anything into the folders of the next. A commit whose own inputs differ from the
tip's gets a set-up run of its own, and nothing of it is kept; nor is anything a check writes. Kept folders save time
only while all is green: once a check is red, the deciding runs have run their set-ups.

Files that a check leaves stay for the checks behind it, and so do mounted folders. A set-up that has to run finds
copies.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from forgepool.workers.policy.gate_file.document import CheckDefinition
from forgepool.workers.policy.sources import hosts_for_check
from forgepool.workers.sandbox.network.package_access import PackageAccess, find_lent_access, unlent
from forgepool.workers.sandbox.run.process import Command, Ended, run, shell
from forgepool.workers.sandbox.sandbox_profile import Private, Shelter, let_out, private
from forgepool.workers.schema.orders import Setup
from forgepool.workers.schema.settings import Settings
from forgepool.workers.workspace.checks.dependencies import (
    Mount,
    Mounting,
    bring_in,
    copy_in,
    keep,
    lacking_keys,
    store_of,
)
from forgepool.worktrees.checkouts import slots
from forgepool.worktrees.checkouts.checkout import Checkout, lease_checkout
from forgepool.worktrees.checkouts.trees import InTheWay
from forgepool.worktrees.git.git import CommitId
from forgepool.worktrees.hub.mirror import Mirror


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckSite:
    """The place where checks run: the host's mirror, its settings, the folder for logs."""

    mirror: Mirror
    settings: Settings
    logs: Path
    stop: Callable[[], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class SetupBench:
    """The place of a set-up, and its means."""

    checkout: Checkout
    own: Private
    policy: Path | None
    """The file in which the person whose host it is says what may be reached."""
    kept: Path
    """The folder of kept folders on this host."""
    lent: PackageAccess | None = None
    """How set-ups reach packages, where this host lends them that."""
    unlent: str = ""
    """A clause about what this host does not lend them."""
    logs: Path
    label: str
    stop: Callable[[], bool]
    base: CommitId | None
    """The target's tip, whose folders may be kept and taken; None: none are, and every set-up is run."""
    mounted: list[Mount] = field(default_factory=list)
    """Folders that commands see beside the files of the checkout."""

    @property
    def shown(self) -> Private:
        """Return the private folders of commands, mounted ones included."""
        places = tuple(each.at(self.checkout.path) for each in self.mounted)
        return replace(self.own, confined=replace(self.own.confined, mounted=places))

    def log(self, setup: Setup) -> Path:
        return self.logs / f"{self.label}-{setup.name}.setup.log"

    def run(self, check: CheckDefinition, own: Private) -> Ended:
        """Run a check's command, behind its set-up, in private folders like the bench's own."""
        command = Command(
            argv=shell(check.run),
            cwd=self.checkout.path,
            env=own.env,
            confined=own.confined,
            log=self.logs / f"{self.label}-{check.name}.log",
            timeout_s=check.timeout_s,
        )
        return run(command, stop=self.stop)


@dataclass(frozen=True, slots=True, kw_only=True)
class SetupFailure:
    """How a set-up did not end well."""

    how: Literal["exit", "timeout", "idle", "stopped", "not_started", "refused"]
    """`refused`: it was not run; `reason` says why."""
    status: int | None = None
    excerpt: str
    reason: str = ""
    log: str


@contextmanager
def prepare_bench(commit: CommitId, site: CheckSite, label: str, base: CommitId | None) -> Iterator[SetupBench]:
    """A clean checkout of the commit, and what commands in it have for themselves."""
    cache = site.settings.cache
    with lease_checkout(site.mirror, commit, cache / "checkouts") as checkout:
        shelter = Shelter(
            settings=site.settings,
            writable=(checkout.path,),
            protected=(checkout.pointer,),
            readable=(site.mirror.path,),
        )
        with private({}, shelter) as own:
            yield SetupBench(
                checkout=checkout,
                own=own,
                policy=site.settings.policy_file,
                lent=find_lent_access(site.settings),
                unlent=unlent(site.settings),
                kept=cache / "setups",
                logs=site.logs,
                label=label,
                stop=site.stop,
                base=base,
            )


def keep_folders(checks: Sequence[CheckDefinition], bench: SetupBench) -> None:
    """
    Run on the tip the set-ups whose folders are allowed in the checkout and not kept yet.

    The checkout holds its own commit again afterwards. A set-up that fails here is not reported: it runs again on the
    commit itself, and that answer counts.
    """
    setups = [check.needs for check in checks if check.needs is not None]
    lacking = [(setup, store) for setup in setups if (store := _store(setup, bench)) and not store.is_dir()]
    if bench.base is None or not lacking:
        return
    for setup, store in lacking:
        slots.prepare(bench.checkout.slot, bench.base)
        if _run(setup, replace(bench, label=f"{bench.label}-kept")).succeeded:
            keep(setup.cache, bench.checkout.path, store)
    slots.prepare(bench.checkout.slot, bench.checkout.commit)


def set_up(check: CheckDefinition, bench: SetupBench) -> SetupFailure | None:
    """None when the checkout is set up for the check; else how the set-up did not end well."""
    setup = check.needs
    if setup is None:
        return None
    if lacking := lacking_keys(setup, bench.checkout):
        reason = f"keeps folders by {', '.join(lacking)}, no regular file of the commit; name a lock file that is"
        return SetupFailure(how="refused", excerpt=reason, reason=reason, log=str(bench.log(setup)))
    store = _store(setup, bench)
    if store is not None and store.is_dir() and _taken(setup, store, bench):
        return None
    _settle(bench)
    ended = _run(setup, bench)
    if ended.succeeded:
        return None
    return SetupFailure(
        how=ended.how,
        status=ended.status,
        excerpt=ended.excerpt,
        reason=bench.unlent if setup.network else "",
        log=str(ended.log),
    )


def _run(setup: Setup, bench: SetupBench) -> Ended:
    hosts = hosts_for_check(setup.name, setup.network, bench.policy, bench.lent, setup=True)
    with let_out(bench.own, hosts, bench.lent) as own:
        command = Command(
            argv=shell(setup.run),
            cwd=bench.checkout.path,
            env=own.env,
            confined=own.confined,
            log=bench.log(setup),
            timeout_s=setup.timeout_s,
        )
        return run(command, stop=bench.stop)


def _store(setup: Setup, bench: SetupBench) -> Path | None:
    return None if bench.base is None else store_of(setup, bench.checkout, bench.base, bench.kept)


def _taken(setup: Setup, store: Path, bench: SetupBench) -> bool:
    """Tell whether the kept folders were brought in; if something of the commit's is in the way, none is."""
    if any(each.overlaps(Path(cached.folder)) for each in bench.mounted for cached in setup.cache if cached.writable):
        _settle(bench)
    mounting: Mounting = "anywhere" if bench.own.confined.level == "bubblewrap" else "nowhere"
    try:
        mounts = bring_in(setup.cache, store, bench.checkout.path, mounting)
    except InTheWay:
        slots.prepare(bench.checkout.slot, bench.checkout.commit)
        return False
    places = {each.folder for each in mounts}
    bench.mounted[:] = [*(each for each in bench.mounted if each.folder not in places), *mounts]
    return True


def _settle(bench: SetupBench) -> None:
    """Mounted folders become copies, which set-ups may change."""
    while bench.mounted:
        with suppress(InTheWay):  # what a check has put there instead is what the set-up finds
            copy_in(bench.mounted.pop(0), bench.checkout.path)
