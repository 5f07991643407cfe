"""
Dependency folders for an order's worktree: filled by the set-up commands of the target's checks, as the order's base
has them, once for each state of their lock files; so that acceptance commands and an agent's own tests run at once.

A set-up is run on the base alone, before there is an agent, in private folders of its own and with the hosts its check
is granted. It serves: one that fails is logged, and the work goes on without its folders. What a check needs to be
green is the gate's business.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import structlog
from pydantic import BaseModel, ConfigDict

from forgepool.workers.policy.network import HostsRefused
from forgepool.workers.policy.sources import REPOSITORY_FILE, hosts_for_check
from forgepool.workers.sandbox.network.package_access import find_lent_access
from forgepool.workers.sandbox.order.layers import NoSandbox
from forgepool.workers.sandbox.order.private_dirs import Private, let_out, private
from forgepool.workers.sandbox.order.sandbox_profile import Shelter
from forgepool.workers.sandbox.run.process import Command, Ended, run, shell
from forgepool.workers.schema.documents import load
from forgepool.workers.schema.mistakes import DocumentWrong, Duration
from forgepool.workers.schema.orders import CachedFolder, Setup
from forgepool.workers.workspace.dependency_cache import bring_in, keep, lacking_keys, store_of
from forgepool.worktrees.checkouts import slots
from forgepool.worktrees.checkouts.checkout import Checkout
from forgepool.worktrees.checkouts.copies import InTheWay
from forgepool.worktrees.commits.changes import FileTooLarge, read_file

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class SetupSite:
    """Where set-ups are run, and what for."""

    checkout: Checkout
    shelter: Shelter
    """What the order's own commands have; its hosts are not the set-ups'."""
    kept: Path
    """Where kept folders are on this host."""
    logs: Path
    stop: Callable[[], bool]


def provide(own: Private, site: SetupSite, of_plan: Sequence[Setup]) -> Private:
    """
    What an order's commands run with, the folders of all set-ups included. The checkout is at its base, and holds
    nothing else afterwards but folders that git ignores.
    """
    stores = [(setup, store) for setup in _setups(site.checkout, of_plan) if (store := _store(setup, site)) is not None]
    for setup, store in stores:
        if not store.is_dir() and not site.stop():
            _fill(setup, store, site)
    places = [place for setup, store in stores if store.is_dir() for place in _brought_in(setup, store, own, site)]
    return replace(own, confined=replace(own.confined, mounted=tuple(places)))


class _Part(BaseModel):
    """What is read here of something; its other keys are read elsewhere."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class _Check(_Part):
    name: str = ""
    setup: str | None = None
    cache: tuple[CachedFolder, ...] = ()
    network: tuple[str, ...] = ()
    timeout_s: Duration = 900.0


class _Repository(_Part):
    checks: tuple[_Check, ...] | dict[str, str | _Check] = ()

    @property
    def setups(self) -> Iterator[Setup]:
        named = (
            [(check.name, check) for check in self.checks] if isinstance(self.checks, tuple) else self.checks.items()
        )
        for name, check in named:
            if isinstance(check, _Check) and check.setup:
                said = {"cache": check.cache, "network": check.network, "timeout_s": check.timeout_s}
                yield Setup(name=name, run=check.setup, **said)


def _setups(checkout: Checkout, of_plan: Sequence[Setup]) -> list[Setup]:
    """Those that fill folders, each folder once; the repository's own come first."""
    found: list[Setup] = []
    for setup in (*_of_repository(checkout), *of_plan):
        had = {cached.folder for each in found for cached in each.cache}
        if setup.cache and had.isdisjoint(cached.folder for cached in setup.cache):
            found.append(setup)
    return found


def _of_repository(checkout: Checkout) -> Sequence[Setup]:
    """Of its file as the base has it. What is written wrongly in it is told by the gate, which reads all of it."""
    try:
        text = read_file(checkout.mirror.git, checkout.commit, REPOSITORY_FILE)
        return () if text is None else tuple(load(text.decode(errors="replace"), REPOSITORY_FILE, _Repository).setups)
    except (FileTooLarge, DocumentWrong):
        return ()


def _store(setup: Setup, site: SetupSite) -> Path | None:
    if lacking := lacking_keys(setup, site.checkout):
        log.warning("setup.without_key", check=setup.name, lacking=lacking)
        return None
    return store_of(setup, site.checkout, site.checkout.commit, site.kept)


def _fill(setup: Setup, store: Path, site: SetupSite) -> None:
    try:
        ended = _run(setup, site)
    except (NoSandbox, HostsRefused, DocumentWrong) as trouble:
        log.warning("setup.not_run", check=setup.name, why=str(trouble))
        return
    if ended.succeeded:
        keep(setup.cache, site.checkout.path, store)
    else:
        log.warning("setup.failed", check=setup.name, how=ended.how, status=ended.status, log=str(ended.log))
    slots.prepare(site.checkout.slot, site.checkout.commit)


def _run(setup: Setup, site: SetupSite) -> Ended:
    settings = site.shelter.settings
    lent = find_lent_access(settings)
    hosts = hosts_for_check(setup.name, setup.network, settings.policy_file, lent, setup=True)
    with private({}, replace(site.shelter, network=())) as bare, let_out(bare, hosts, lent) as alone:
        command = Command(
            argv=shell(setup.run),
            cwd=site.checkout.path,
            env=alone.env,
            confined=alone.confined,
            log=site.logs / f"{setup.name}.setup.log",
            timeout_s=setup.timeout_s,
        )
        return run(command, stop=site.stop)


def _brought_in(setup: Setup, store: Path, own: Private, site: SetupSite) -> list[tuple[Path, Path]]:
    """Only at the top of the worktree are folders mounted: others an agent's command could move meanwhile."""
    path = site.checkout.path
    try:
        mounts = bring_in(setup.cache, store, path, "at the top" if own.confined.level == "bubblewrap" else "nowhere")
    except InTheWay as trouble:
        log.warning("setup.in_the_way", check=setup.name, why=str(trouble))
        slots.prepare(site.checkout.slot, site.checkout.commit)
        return []
    mounted = {each.folder for each in mounts}
    for folder in {Path(cached.folder) for cached in setup.cache} - mounted:
        _leave_out_if_kept_by_git(folder, site.checkout)
    return [each.at(path) for each in mounts]


def _leave_out_if_kept_by_git(folder: Path, checkout: Checkout) -> None:
    """A copy that git does not ignore would be part of the candidate."""
    git, place = checkout.slot.pristine, str(folder)
    if git.run("ls-files", "-z", "--others", "--exclude-standard", "--directory", "--", place).fields:
        log.warning("setup.not_ignored", folder=place, instead="add it to .gitignore; it is left out of the worktree")
        git.run("clean", "-ffd", "-q", "--", place)
