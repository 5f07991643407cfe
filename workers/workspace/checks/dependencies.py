"""
Dependency folders of a worktree, such as `node_modules`, so that commands and tests run in it at once.

The set-up commands of the target's checks fill the folders, once for each state of their lock files on this host. An
order's set-ups run on the base alone, before its agent starts, in private folders and with the hosts their check is
granted. A set-up that fails is logged, and the work goes on without its folders.

Kept folders are mounted at the top of the checkout; writable ones, and those where a mount is not safe, are copied.
"""

import hashlib
import os
import platform
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import structlog
from pydantic import BaseModel, ConfigDict

from forgepool.workers.policy.network import HostsRefused
from forgepool.workers.policy.sources import REPOSITORY_FILE, hosts_for_check
from forgepool.workers.sandbox.layers import NoSandbox
from forgepool.workers.sandbox.network.package_access import find_lent_access
from forgepool.workers.sandbox.run.process import Command, Ended, run, shell
from forgepool.workers.sandbox.sandbox_profile import Private, Shelter, let_out, private
from forgepool.workers.schema.documents import load
from forgepool.workers.schema.mistakes import DocumentWrong, Duration
from forgepool.workers.schema.orders import CachedFolder, Setup
from forgepool.worktrees.checkouts import slots
from forgepool.worktrees.checkouts.checkout import Checkout
from forgepool.worktrees.checkouts.trees import InTheWay, copy_folder, remove_tree
from forgepool.worktrees.commits.changes import FileTooLarge, Found, find_at, read_file
from forgepool.worktrees.git.beneath import LISTED, Beneath
from forgepool.worktrees.git.git import CommitId

_WORD = re.compile(r"[\w./+@-]+")

Mounting = Literal["anywhere", "at the top", "nowhere"]
"""The places where mounts are safe. They are not below a folder that a running command may rename."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """A kept folder to be mounted at its place in the checkout."""

    store: Path
    folder: Path
    """Relative, the same in both."""

    def at(self, checkout: Path) -> tuple[Path, Path]:
        return self.store / self.folder, checkout / self.folder

    def overlaps(self, folder: Path) -> bool:
        return self.folder.is_relative_to(folder) or folder.is_relative_to(self.folder)


def environment_fingerprint() -> str:
    """Return the properties of this host that may change a command's result: system, machine, Python."""
    return f"{platform.system()}-{platform.machine()}-python{platform.python_version()}"


def lacking_keys(setup: Setup, checkout: Checkout) -> list[str]:
    """Return the lock files that are no regular files of the commit; folders cannot be kept by these."""
    keys = sorted({cached.key for cached in setup.cache})
    at = find_at(checkout.mirror.git, checkout.commit, *keys)
    return [key for key in keys if key not in at or at[key].kind != "file"]


def store_of(setup: Setup, checkout: Checkout, base: CommitId, kept: Path) -> Path | None:
    """
    Return the place of the set-up's kept folders, which may not exist yet.

    None when the checkout changes the set-up's inputs, compared with `base`, the target's tip: it must make its own.
    """
    if not setup.cache:
        return None
    inputs = _inputs(setup, checkout, checkout.commit)
    if inputs != _inputs(setup, checkout, base):
        return None
    cache = [(cached.folder, cached.key) for cached in setup.cache]
    named = (checkout.mirror.hub, str(checkout.path), environment_fingerprint(), setup.name, setup.run, cache, inputs)
    return kept / hashlib.sha256(repr(named).encode()).hexdigest()[:32]


def keep(cache: Sequence[CachedFolder], checkout: Path, store: Path) -> None:
    """Copy all folders into the store, or none. The slot's lease is the lock."""
    building = store.with_suffix(".building")
    remove_tree(building)
    building.mkdir(parents=True)
    try:
        _copy(_folders(cache), checkout, building)
    except InTheWay:  # then each checkout runs its own set-up
        remove_tree(building)
        return
    building.rename(store)


def bring_in(cache: Sequence[CachedFolder], store: Path, checkout: Path, mounting: Mounting) -> tuple[Mount, ...]:
    """
    Copy the folders that cannot be mounted into the checkout, and return the mounts for the others.

    Raises:
        InTheWay: the commit has something else in a folder's place; some folders may have been copied.
    """
    written = {Path(os.path.normpath(cached.folder)) for cached in cache if cached.writable}
    mounts, copies = [], []
    for folder in _folders(cache):
        if not (store / folder).is_dir():
            continue
        within = mounting == "anywhere" or (mounting == "at the top" and len(folder.parts) == 1)
        if within and folder not in written and _is_free(folder, checkout):
            mounts.append(Mount(store=store, folder=folder))
        else:
            copies.append(folder)
    _copy(copies, store, checkout)
    return tuple(mounts)


def copy_in(mount: Mount, checkout: Path) -> None:
    """
    Copy a folder instead of mounting it.

    Raises:
        InTheWay: something else has its place.
    """
    _copy([mount.folder], mount.store, checkout)


def _inputs(setup: Setup, checkout: Checkout, commit: CommitId) -> tuple[tuple[str, Found], ...]:
    """
    Return the commit's entries at the lock files' paths, and at the paths that the set-up command names.

    A folder that is named together with something in it counts by that alone.
    """
    words = [os.path.normpath(word) for word in _WORD.findall(setup.run) if not word.startswith(("/", "-"))]
    paths = sorted({*words, *(cached.key for cached in setup.cache)} - {".", ".."})
    inside = [
        path for path in paths if not path.startswith("../") and not any(each.startswith(f"{path}/") for each in paths)
    ]
    return tuple(find_at(checkout.mirror.git, commit, *inside).items())


def _folders(cache: Sequence[CachedFolder]) -> Iterator[Path]:
    yield from dict.fromkeys(Path(os.path.normpath(cached.folder)) for cached in cache)


def _is_free(folder: Path, checkout: Path) -> bool:
    """Return whether a mount would hide nothing."""
    with Beneath(checkout) as held:
        try:
            if held.state(folder) is None:
                return True
            with held.folder(folder, flags=LISTED) as opened, os.scandir(opened) as entries:
                return next(entries, None) is None
        except OSError:
            return False


def _copy(folders: Sequence[Path] | Iterator[Path], source: Path, destination: Path) -> None:
    with Beneath(source) as old, Beneath(destination) as new:
        for folder in folders:
            copy_folder(folder, old, new)


log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class SetupSite:
    """The checkout in which an order's set-ups run, and their surroundings."""

    checkout: Checkout
    shelter: Shelter
    """The sandbox of the order's own commands; its network hosts are not the set-ups'."""
    kept: Path
    """The folder of all kept folders on this host."""
    logs: Path
    stop: Callable[[], bool]


def provide(own: Private, site: SetupSite, of_plan: Sequence[Setup]) -> Private:
    """
    Return the surroundings of an order's commands with the folders of all set-ups added.

    The checkout is at its base. Afterwards it holds nothing more than folders that git ignores.
    """
    stores = [(setup, store) for setup in _setups(site.checkout, of_plan) if (store := _store(setup, site)) is not None]
    for setup, store in stores:
        if not store.is_dir() and not site.stop():
            _fill(setup, store, site)
    places = [place for setup, store in stores if store.is_dir() for place in _brought_in(setup, store, own, site)]
    return replace(own, confined=replace(own.confined, mounted=tuple(places)))


class _Part(BaseModel):
    """A part of the gate file. Its other keys are read by the supervisor."""

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
                fields = {"cache": check.cache, "network": check.network, "timeout_s": check.timeout_s}
                yield Setup(name=name, run=check.setup, **fields)


def _setups(checkout: Checkout, of_plan: Sequence[Setup]) -> list[Setup]:
    """Return the set-ups that fill folders, each folder once; the repository's own come first."""
    setups: list[Setup] = []
    for setup in (*_of_repository(checkout), *of_plan):
        filled = {cached.folder for each in setups for cached in each.cache}
        if setup.cache and filled.isdisjoint(cached.folder for cached in setup.cache):
            setups.append(setup)
    return setups


def _of_repository(checkout: Checkout) -> Sequence[Setup]:
    """Read the set-ups in the base's gate file; none where it has mistakes, which the gate reports."""
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
    """Mount folders at the top of the worktree, and copy the others, which an agent's command could move."""
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
    """Remove a copy that git does not ignore, since it would become part of the candidate."""
    git, place = checkout.slot.pristine, str(folder)
    if git.run("ls-files", "-z", "--others", "--exclude-standard", "--directory", "--", place).fields:
        log.warning("setup.not_ignored", folder=place, instead="add it to .gitignore; it is left out of the worktree")
        git.run("clean", "-ffd", "-q", "--", place)
