"""What the supervisor is asked, and what it answers: checks of a composed tree, and landings."""

from typing import Literal

from pydantic import Field

from supervisor.definitions import CheckDefinition
from workers.messages import Message
from workers.sandbox.confinement import Level

LandingStyle = Literal["merge", "squash"]


class EntryRef(Message):
    """One candidate on its way to the target."""

    task: str
    attempt: int
    commit: str
    ref: str
    """Where the hub keeps it."""
    message: str
    """The whole message of the commit that brings it into the target, trailers included."""


class Certificate(Message):
    """The check, as defined on the target, was green on this tree."""

    key: str
    """`sha256` over check name, definition, environment and tree."""
    check: str
    definition: str
    """Digest of the check's definition."""
    environment: str
    tree: str
    seconds: float
    host: str


class CheckFailure(Message):
    """One check that was not green on the decisive tree."""

    check: str
    how: Literal["exit", "timeout", "idle", "stopped", "not_started", "refused"]
    """`refused`: it ended well, or never began, and is not taken for green; `reason` says why."""
    status: int | None
    log_tail: str
    reason: str = ""
    """Of what is refused: why, to be read after the check's name."""
    setup: bool = False
    """It was the check's set-up that did not end well; the check itself never ran."""
    log: str
    """Where the full log lies on the host that ran it."""


class Train(Message):
    """What both requests say of the entries to be let in: a car of one entry, for now."""

    request_id: str
    token: str
    run: str
    hub: str
    target: str
    base: str
    """The target's tip the entries are composed on."""
    entries: tuple[EntryRef, ...] = Field(min_length=1)
    style: LandingStyle = "merge"
    plan_checks: tuple[CheckDefinition, ...] = ()
    checks_waived: bool = False
    """The plan says `checks: none` in so many words."""
    had_gate_file: bool = False
    """When the run began, the target had a `forgepool.yaml`; without one now, nothing is let in."""
    issued_at: float
    start_by: float


class CheckRequest(Train):
    """Compose these entries on this tip, and run the target's checks on exactly that tree."""


class CheckResult(Message):
    """
    The answer to a check request.

    `green` carries a certificate for every check. `red` is the entry's own doing: the base is green on what the
    entry breaks, and the failure came twice. `base_red` blames nobody. `stale` blames nobody either: the commit that
    the entry was made on is no longer in the target, which it would bring back.
    """

    kind: Literal["check"] = "check"
    request_id: str
    token: str
    verdict: Literal["green", "red", "conflict", "stale", "base_red", "not_configured", "infrastructure"]
    commit: str | None = None
    tree: str | None = None
    certificates: tuple[Certificate, ...] = ()
    failures: tuple[CheckFailure, ...] = ()
    reproduce: str = ""
    """A command that shows a red check or a conflict again, in any clone of the hub."""
    conflict_paths: tuple[str, ...] = ()
    partner: str | None = None
    """Task id of a landed entry with which this one conflicts or is red together, though each alone is green."""
    flaky: tuple[str, ...] = ()
    """Checks that were red, then green, on this same tree."""
    detail: str = ""
    seconds: float = 0.0
    host: str = ""
    sandbox: Level | None = None
    """What held the commands; None where none was run."""


class LandRequest(Train):
    """Move the target to this commit, on the evidence of these certificates."""

    commit: str
    tree: str
    certificates: tuple[Certificate, ...] = ()


class Landing(Message):
    """The answer to a land request."""

    kind: Literal["landing"] = "landing"
    request_id: str
    token: str
    outcome: Literal["landed", "moved", "refused", "infrastructure"]
    commit: str | None = None
    """The target's commit after it: the landed one, or where it moved to meanwhile."""
    detail: str = ""
    host: str = ""
