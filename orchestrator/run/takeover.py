"""
Which run `resume` means, and whether this machine may continue it: a run that another machine holds, or held, is
continued from its journal's copy in the hub (`journal.hub_copy`).

Nothing here trusts a clock of another machine: a holder counts as gone when its ref has not moved while this machine
has watched for as long as the lease lasts.
"""

import shutil
import tempfile
import time
import uuid
from collections.abc import Callable
from pathlib import Path

from forgepool.orchestrator.journal.hub_copy import (
    Copied,
    HubCopy,
    LeaseLost,
    OwnLease,
    Seen,
    describe_loss,
    look,
    read_copy,
    read_own_lease,
    write_own_lease,
)
from forgepool.orchestrator.journal.store import Journal, JournalUnreadable
from forgepool.orchestrator.run import run_folder
from forgepool.orchestrator.run.hub import open_hub, reopen_hub
from forgepool.orchestrator.run.run_folder import KeptRun, NoSuchRun, RunOptions, runs_folder, with_options
from forgepool.workers.schema.settings import Settings
from forgepool.workers.workspace.assets import fetch_assets
from forgepool.workers.workspace.refs import journal_ref
from forgepool.worktrees.errors import UserError
from forgepool.worktrees.git.git import without_password
from forgepool.worktrees.hub.mirror import Mirror, MissingCommit

_LOOKS = 20
_LONGEST_PAUSE_S = 5.0
Tell = Callable[[str], None]


class RunHeld(UserError):
    """An orchestrator on another machine is at work on the run. One sentence."""


def find_run(settings: Settings, run: str, repo: str | None, *, take_over: bool, tell: Tell) -> KeptRun:
    """
    Return the run of that name or unique prefix, ready to be continued here: from this host, or from the hub at `repo`.

    `tell` receives sentences about what is waited for and what was taken over. `take_over` skips the waiting.

    Raises:
        NoSuchRun: there is none, or there are several.
        RunHeld: its orchestrator is alive elsewhere.
        LeaseLost: it has ended elsewhere.
        JournalBusy: an orchestrator of this host is at work on it.
        HubAway, HubUnusable, GitFailed, JournalUnreadable: the hub cannot be asked, or the copy cannot be read.
    """
    try:
        kept = run_folder.find(settings, run)
    except NoSuchRun as unknown:
        if repo is None:
            raise NoSuchRun(f"{unknown}; for a run of another machine say where its hub is: --repo URL") from unknown
        mirror = open_hub(repo, settings).mirror
        return _continue(settings, mirror, _name_in(mirror, run), None, take_over=take_over, tell=tell)
    if kept.options.gate or kept.state().finished:
        return kept
    mirror = (reopen_hub(kept.options.hub, settings) if repo is None else open_hub(repo, settings)).mirror
    return _continue(settings, mirror, kept.options.run, kept, take_over=take_over, tell=tell)


def _continue(
    settings: Settings, mirror: Mirror, run: str, kept: KeptRun | None, *, take_over: bool, tell: Tell
) -> KeptRun:
    """The run as this host has it, where it holds the lease; else as the hub has it, and the lease with it."""
    seen, mine = _look(mirror, run), None if kept is None else read_own_lease(kept.folder)
    if seen is None:
        if kept is None or (mine is not None and mine.copied):
            raise describe_loss(mirror, run, None)
        return _at(kept, mirror.hub)
    ours = mine is not None and mine.holder == seen.lease.holder
    if ours and kept is not None and kept.state().number >= seen.lease.upto:
        return _at(kept, mirror.hub)
    if seen.lease.held and not (ours or take_over):
        seen = _await_silence(mirror, run, seen, tell)
    for _ in range(_LOOKS if take_over else 1):
        try:
            return _take(settings, mirror, run, seen, kept, tell)
        except LeaseLost:
            # The ref has moved meanwhile: most likely the holder has copied more.
            seen = _look(mirror, run)
            if seen is None:
                raise
    raise RunHeld(_describe_holder(run, seen))


def _at(kept: KeptRun, url: str) -> KeptRun:
    """The same run, whose hub is reached at this address from now on."""
    same = kept.options.hub == url
    return kept if same else with_options(kept, kept.options.model_copy(update={"hub": url}))


def _name_in(mirror: Mirror, run: str) -> str:
    """Return the one run whose copy the hub has under that name or prefix. Raises NoSuchRun, GitFailed."""
    parts = (ref.split("/") for ref in mirror.hub_refs(journal_ref("*")))
    names = sorted(one[2] for one in parts if len(one) == 4)
    found = [run] if run in names else [name for name in names if name.startswith(run)]
    if len(found) == 1:
        return found[0]
    what = "no run" if not found else "several runs"
    there = f"; there are: {', '.join((found or names)[:5])}" if names else ""
    raise NoSuchRun(f"{without_password(mirror.hub)} has the journal of {what} '{run}' that could be continued{there}")


def _look(mirror: Mirror, run: str) -> Seen | None:
    for _ in range(_LOOKS):
        try:
            return look(mirror, run)
        except MissingCommit:
            continue  # It moved between the two questions.
    raise RunHeld(f"run {run} is at work: its journal in the hub changes all the time; stop it there first")


def _await_silence(mirror: Mirror, run: str, seen: Seen, tell: Tell) -> Seen:
    """Watch the ref for as long as the holder's lease lasts. Raises RunHeld, LeaseLost, GitFailed."""
    host, lease_s = seen.lease.host, seen.lease.lease_s
    tell(
        f"{host} holds run {run}; it is taken over if {host} does not renew its lease within {lease_s:g} s "
        f"(at once: --take-over)"
    )
    until = time.monotonic() + lease_s
    while time.monotonic() < until:
        time.sleep(min(_LONGEST_PAUSE_S, lease_s / _LOOKS))
        now = _look(mirror, run)
        if now is None:
            raise describe_loss(mirror, run, None)
        if now.at != seen.at and now.lease.held:
            raise RunHeld(_describe_holder(run, now))
        if now.at != seen.at:
            return now
    return seen


def _describe_holder(run: str, seen: Seen) -> str:
    return (
        f"run {run} is being run by {seen.lease.host}, which has just renewed its lease; stop it there, "
        "or take the run from it: add --take-over"
    )


def _take(settings: Settings, mirror: Mirror, run: str, seen: Seen, kept: KeptRun | None, tell: Tell) -> KeptRun:
    """Make the run's folder from the copy, and the lease this machine's. Raises LeaseLost, JournalBusy and others."""
    if kept is not None:
        Journal(kept.folder).close()
    settings.home.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=f"{run}.", dir=settings.home))
    try:
        held = _write(draft, read_copy(mirror, run, seen.at), mirror)
        fetch_assets(draft / "assets", mirror, run)
        mine = {"holder": held.holder, "process": uuid.uuid4().hex, "host": settings.host}
        lease = seen.lease.model_copy(update={**mine, "number": seen.lease.number + 1})
        copy = HubCopy(mirror=mirror, run=run, folder=draft, lease=lease, head=seen.at)
        copy.push(held=False)
        folder = runs_folder(settings) / run
        if folder.exists():
            aside = settings.home / "replaced" / f"{run}-{lease.number}"
            aside.parent.mkdir(exist_ok=True)
            folder.rename(aside)
            if (aside / "inbox").exists():
                # Requests of people that no orchestrator has read yet.
                (aside / "inbox").rename(draft / "inbox")
            tell(f"the former folder of run {run} is kept as {aside}")
        folder.parent.mkdir(exist_ok=True)
        draft.rename(folder)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    tell(f"run {run} was taken over from {seen.lease.host}, as of its event {seen.lease.upto}")
    return run_folder.open_run(settings, run)


def _write(draft: Path, copied: Copied, mirror: Mirror) -> OwnLease:
    """Write the run's files and journal. Raises JournalUnreadable."""
    for name, text in copied.files.items():
        if name != Path(name).name or not name.endswith(".json"):
            raise JournalUnreadable(
                f"the copy in {without_password(mirror.hub)} has a file '{name[:100]}', as no run has"
            )
        (draft / name).write_text(text)
    try:
        options = RunOptions.model_validate_json(copied.files.get("options.json", ""))
    except ValueError as wrong:
        raise JournalUnreadable(
            f"the copy in {without_password(mirror.hub)} has no options that this version can read; "
            "continue with the version that wrote it"
        ) from wrong
    (draft / "options.json").write_text(options.model_copy(update={"hub": mirror.hub}).encode())
    (draft / "logs").mkdir()
    journal = Journal(draft)
    journal.adopt(copied.rows)
    journal.close()
    held = OwnLease(holder=uuid.uuid4().hex)
    write_own_lease(draft, held)
    return held
