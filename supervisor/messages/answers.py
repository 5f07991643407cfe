"""The supervisor's answers: verdicts of checks, reviews, and landings, with the evidence that a landing needs."""

import re
from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field, field_validator

from forgepool.supervisor.findings import ReviewFinding
from forgepool.workers.llm.batch import BatchTicket
from forgepool.workers.schema.confinement import Level
from forgepool.workers.schema.orders import Message, Spent
from forgepool.workers.workspace.scans.findings import ScanFinding

_COMMIT = re.compile(r"[0-9a-f]{12}")


class Certificate(Message):
    """The check, as defined on the target, was green on this tree."""

    key: str
    """`sha256` over check name, definition, environment and inputs."""
    check: str
    definition: str
    """Digest of the check's definition, and of those it uses."""
    environment: str
    tree: str
    """Digest of the check's inputs: the tree itself, or of the part of it that its `paths` cover."""
    seconds: float
    host: str
    tests: int | None = None
    """How many tests ran, where that is known."""
    known_failures: tuple[str, ...] = ()
    """
    Tests that fail here, and failed on the target's tip before: not green, and no worse. Of findings of linters and
    type checkers the first ones.
    """
    findings: int = 0
    """The number of findings of a linter or type checker, each also on the target's tip."""
    against: tuple[str, ...] = ()
    """Digests of the check's inputs on the commits it was compared with: with known failures it holds there alone."""
    reused: bool = False
    """It was earned earlier, on the same inputs."""
    traced: str = Field(default="", exclude_if=lambda clause: not clause)
    """A clause about a traced check: how much of it was not run, or how far it is proven."""

    @property
    def traced_words(self) -> str:
        """Return `traced` as the continuation of a list; empty where there is nothing to say."""
        return f", {self.traced}" if self.traced else ""


def describe_checks(certificates: Sequence[Certificate]) -> str:
    """Name the checks that were green, with how much of them was not run."""
    return ", ".join(one.check + one.traced_words for one in certificates) or "no checks requested"


class CheckFailure(Message):
    """One check that was not green on the decisive tree."""

    check: str
    how: Literal["exit", "timeout", "idle", "stopped", "not_started", "refused", "no_evidence"]
    """
    `refused`: it ended well, or never began, and is not taken for green; `reason` says why. `no_evidence`: it ended
    well, and nothing shows that it did what it is there for.
    """
    status: int | None
    log_tail: str
    reason: str = ""
    """For a refused check the reason, to be read after the check's name."""
    command: str = ""
    """The check's own command, where it was run on the target itself."""
    setup: bool = False
    """It was the check's set-up that did not end well; the check itself never ran."""
    log: str
    """The path of the full log, on the host that ran it."""
    tests: tuple[str, ...] = ()
    """Ids of the tests that failed and did not fail on the tip, where the runner tells them."""
    problems: tuple[str, ...] = ()
    """The same of a linter's or type checker's findings: file, lines, rule and message of each."""
    protected: bool = False
    """It failed with the target's own version of the tests and settings that the entry changes."""


class Flake(Message):
    """Red, then green, on the same tree."""

    check: str
    tests: tuple[str, ...] = ()
    """Which, where the runner tells them."""


class Advice(Message):
    """The words of a check without a vote about a tree."""

    check: str
    green: bool | None
    """None where it could not be run."""
    said: str
    """To be read after the check's name."""
    log_tail: str = ""
    log: str = ""
    seconds: float = 0.0
    reused: bool = False

    @property
    def words(self) -> str:
        return f"'{self.check}', which has no vote, {self.said}"


class Doubt(Message):
    """Said of a decisive check that goes on: its first run was red, and it is run again before that is its answer."""

    kind: Literal["doubt"] = "doubt"
    request_id: str
    token: str


class CheckResult(Message):
    """
    The answer to a check request.

    `green` carries a certificate for every check. `findings`: a scan found what keeps the entry out. `red`, if it was
    to be decisive, is the entry's own doing: the base is green on what the entry breaks, and the failure came twice.
    `base_red` counts against no entry. Neither does `stale`: the commit that the entry was made on is no longer in the
    target, which it would bring back. `apart`: what stands ahead changes the gate itself, and has to land first.
    """

    kind: Literal["check"] = "check"
    request_id: str
    token: str
    verdict: Literal[
        "green", "findings", "red", "conflict", "stale", "apart", "base_red", "not_configured", "infrastructure"
    ]
    about: str = ""
    """The task that a conflict is with, or that is stale or apart."""
    commit: str | None = None
    tree: str | None = None
    commits: tuple[str, ...] = ()
    """The commits to which the entries of the spec are composed, those ahead included; the last is `commit`."""
    patch_ids: tuple[str, ...] = ()
    """The patch ids of each entry's change, where it stands."""
    reviewed: bool = False
    """It may not land without an approval: the request, or the target itself, wants one."""
    patch_id: str = ""
    """The patch id of the composed diff: equal diffs have equal ones, whatever else moved on the target."""
    certificates: tuple[Certificate, ...] = ()
    findings: tuple[ScanFinding, ...] = ()
    """All that the scans found, also where none of it keeps the entry out."""
    failures: tuple[CheckFailure, ...] = ()
    suspects: tuple[str, ...] = ()
    """
    Tasks of the spec with a failed test in a file that no other task changes. Other tests may have failed, too.

    Empty if no runner names tests.
    """
    reproduce: str = ""
    """A command that shows a red check or a conflict again, in any clone of the hub."""
    conflict_paths: tuple[str, ...] = ()
    partner: str | None = None
    """Task id of a landed entry with which this one conflicts or is red together, though each alone is green."""
    flaky: tuple[Flake, ...] = ()
    """Tests that were red, then green, on this same tree."""
    advice: tuple[Advice, ...] = ()
    """The words of checks without a vote, where all others are green."""
    red_base: tuple[str, ...] = ()
    """
    Tests that fail on the tip itself, and the numbers of findings that linters have there; the entry was judged by what
    it breaks beyond them.
    """
    diff_tail: str = ""
    """The last 100 lines of the composed diff, of an entry that is not let in."""
    detail: str = ""
    seconds: float = 0.0
    host: str = ""
    sandbox: Level | None = None
    """The sandbox of the commands; None where none was run."""


def name_partner(partner: str) -> str:
    """A landed branch by its name; a commit that did not land through a gate as a commit."""
    return f"commit {partner}" if _COMMIT.fullmatch(partner) else f"'{partner}'"


class Objection(Message):
    """A reviewer's objection to a lead's synthesis."""

    quote: str
    """A sentence of the synthesis, word for word."""
    why: str
    """The reason why the results do not bear it."""


class SynthesisReview(Message):
    """The word of another model on a lead's synthesis."""

    outcome: Literal["agrees", "objects", "none", "waits"]
    """`none`: it is not reviewed, and `why` says why; `waits`: not yet."""
    models: tuple[str, ...] = ()
    families: tuple[str, ...] = ()
    same_family: bool = False
    """The model is another one of the lead's own family, which the plan permits."""
    objections: tuple[Objection, ...] = ()
    dropped: int = 0
    """Objections that quote no sentence of the synthesis."""
    why: str = ""


class Review(Message):
    """
    The answer to a review request.

    `passed` and `failed` are verdicts: the reviewer has read what it must, and said what it found by the tool for that.
    `void`: twice it gave no verdict that counts. `unreachable`: no model of another family can be asked.
    `not_configured`: one could be, but for a mistake in a file, or a refused key. With `not_before`, `infrastructure`
    waits for a limit of the models'.
    """

    kind: Literal["review"] = "review"
    request_id: str
    token: str
    outcome: Literal[
        "passed", "failed", "void", "unreachable", "not_configured", "limits", "conflict", "stale", "infrastructure"
    ]
    tree: str | None = None
    """That of the composed commit, which is what was reviewed."""
    patch_id: str = ""
    changed: tuple[str, ...] = ()
    """Paths of the composed diff."""
    read: tuple[str, ...] = ()
    """The files among these that the reviewer has read, by the tools' own account."""
    models: tuple[str, ...] = ()
    families: tuple[str, ...] = ()
    same_family: bool = False
    """A reviewer is of the author's own family, and another model of it."""
    findings: tuple[ReviewFinding, ...] = ()
    """All findings, also those that do not count against the candidate."""
    objections: tuple[Objection, ...] | None = Field(default=None, exclude_if=lambda objections: objections is None)
    """The objections to a synthesis, which pass it where there are none; None of any other review."""
    confidence: float | None = None
    summary: str = ""
    """The reviewer's closing words; a claim."""
    voids: tuple[str, ...] = ()
    """Why verdicts did not count, a sentence each."""
    spent: Spent = Spent()
    not_before: float | None = None
    waited_s: float = Field(default=0.0, exclude_if=lambda seconds: not seconds)
    """Seconds of waiting for accounts' rate limits, which count against no limit."""
    batch: BatchTicket | None = Field(default=None, exclude_if=lambda ticket: ticket is None)
    """With `infrastructure`, the batch that it waits for until `not_before`, or why it is to be made live."""
    detail: str = ""
    log: str = ""
    """The path of the conversation, on the host that led it."""
    seconds: float = 0.0
    host: str = ""


class ReviewApproval(Message):
    """A reviewer has passed this diff: of another family than the author's, unless it says otherwise."""

    kind: Literal["review"] = "review"
    patch_id: str
    families: tuple[str, ...]
    models: tuple[str, ...] = ()
    same_family: bool = False
    """A reviewer is another model of the author's own family."""


class PersonApproval(Message):
    """A person has looked at this candidate, and lets it land."""

    kind: Literal["person"] = "person"
    commit: str
    """The candidate's."""
    by: str = Field(min_length=1)


Approval = Annotated[ReviewApproval | PersonApproval, Field(discriminator="kind")]


ANYBODY = "*"
"""In place of a task's name: of the one task that there is."""


class Landing(Message):
    """The answer to a land request."""

    kind: Literal["landing"] = "landing"
    request_id: str
    token: str
    outcome: Literal["landed", "moved", "untested", "refused", "infrastructure"]
    """`untested`: what is to land can no longer be composed as it was; it has to be tested again."""
    unapproved: str = ""
    """For a refused request, the task that lacks an approval; this says nothing of other entries."""
    by_hub: bool = False
    """For a refused request: the evidence held, and the hub itself did not take it, perhaps by a hook of its own."""

    @field_validator("unapproved", mode="before")
    @classmethod
    def _of_one_task(cls, said: object) -> object:
        """Journals know answers that said no more than whether it is so, of landings of one task."""
        return (ANYBODY if said else "") if isinstance(said, bool) else said

    commit: str | None = None
    """The target's commit after it: the landed one, or where it moved to meanwhile."""
    detail: str = ""
    host: str = ""
