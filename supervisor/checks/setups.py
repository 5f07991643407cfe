"""
Set-up commands of checks, and the folders they fill, which are kept and brought in
(`workers.workspace.dependency_cache`).

The set-up is run on the tip's files, before the commit that is to be checked is laid out in the same folder, and of
that run alone folders are kept. So no candidate can put anything into what the next one is checked with. A commit whose
own inputs differ from the tip's gets its set-up run for itself, and nothing of that is kept; nor is a check's own
writing ever. And kept folders only save time where all is green: once a check is red, whatever decides whose failure it
is has run its set-ups.

What a check leaves stays for those behind it, and so do mounted folders. A set-up that has to be run finds copies.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from forgepool.supervisor.gate_file.document import CheckDefinition
from forgepool.supervisor.messages import CheckFailure
from forgepool.workers.policy.sources import hosts_for_check
from forgepool.workers.sandbox.network.package_access import PackageAccess
from forgepool.workers.sandbox.run.process import Command, Ended, run, shell
from forgepool.workers.sandbox.sandbox_profile import Private, let_out
from forgepool.workers.schema.orders import Setup
from forgepool.workers.workspace.dependencies import (
    Mount,
    Mounting,
    bring_in,
    copy_in,
    keep,
    lacking_keys,
    store_of,
)
from forgepool.worktrees.checkouts import slots
from forgepool.worktrees.checkouts.checkout import Checkout
from forgepool.worktrees.checkouts.trees import InTheWay
from forgepool.worktrees.git.git import CommitId


@dataclass(frozen=True, slots=True, kw_only=True)
class SetupBench:
    """What a set-up works in and with."""

    checkout: Checkout
    own: Private
    policy: Path | None
    """The file in which the person whose host it is says what may be reached."""
    kept: Path
    """Where cached folders are kept on this host."""
    lent: PackageAccess | None = None
    """How set-ups reach packages, where this host lends them that."""
    unlent: str = ""
    """A clause about what this host does not lend them."""
    logs: Path
    label: str
    stop: Callable[[], bool]
    base: CommitId | None
    """The target's tip, of which folders may be kept and taken; None: none are, every set-up is run."""
    mounted: list[Mount] = field(default_factory=list)
    """What commands see beside what lies in the checkout."""

    @property
    def shown(self) -> Private:
        """What commands run with, mounted folders included."""
        places = tuple(each.at(self.checkout.path) for each in self.mounted)
        return replace(self.own, confined=replace(self.own.confined, mounted=places))

    def log(self, setup: Setup) -> Path:
        return self.logs / f"{self.label}-{setup.name}.setup.log"


def keep_folders(checks: Sequence[CheckDefinition], bench: SetupBench) -> None:
    """
    Runs on the tip those set-ups whose folders the checkout may have and nobody has kept yet.

    The checkout holds its own commit again afterwards. A set-up that does not end well is not told: it is run again
    on the commit itself, and then its answer counts.
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


def set_up(check: CheckDefinition, bench: SetupBench) -> CheckFailure | None:
    """None when the checkout is set up for the check; else how the set-up did not end well."""
    setup = check.needs
    if setup is None:
        return None
    if lacking := lacking_keys(setup, bench.checkout):
        reason = f"keeps folders by {', '.join(lacking)}, no regular file of the commit; name a lock file that is"
        return _refused(setup, reason, bench)
    store = _store(setup, bench)
    if store is not None and store.is_dir() and _taken(setup, store, bench):
        return None
    _settle(bench)
    ended = _run(setup, bench)
    if ended.succeeded:
        return None
    how, status = ended.how, ended.status
    reason = bench.unlent if setup.network else ""
    return CheckFailure(
        check=check.name,
        how=how,
        status=status,
        log_tail=ended.excerpt,
        log=str(ended.log),
        setup=True,
        reason=reason,
    )


def _refused(setup: Setup, reason: str, bench: SetupBench) -> CheckFailure:
    log = str(bench.log(setup))
    return CheckFailure(
        check=setup.name, how="refused", status=None, log_tail=reason, reason=reason, log=log, setup=True
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
    """Whether the kept folders could be brought in; where something of the commit's stands in the way, none is."""
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
