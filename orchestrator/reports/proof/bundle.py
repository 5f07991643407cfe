"""The parts of a proof bundle, and its text: JSON with a digest of its own and, where keys are given, signatures."""

import hashlib
import json
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError

from forgepool.supervisor.messages.answers import Certificate, SynthesisReview
from forgepool.workers.policy.gate_file.document import CheckDefinition
from forgepool.workers.schema.orders import Message
from forgepool.worktrees.errors import UserError

PAGE = "report.html"
"""The file in a run's folder that shows its bundle."""
KIND = "forgepool.report"
VERSION = 1
"""The version of the form. A bundle of another one is refused, not misread."""
_MOST_BYTES = 64_000_000
_WRITES = "`forgepool report RUN --json > FILE` writes one"


class BadBundle(UserError):
    """A file is no proof bundle that this release reads. One sentence."""


class ReviewProof(Message):
    """The review by which an entry landed."""

    outcome: str
    patch_id: str
    """Digest of the diff that was reviewed."""
    models: tuple[str, ...] = ()
    families: tuple[str, ...] = ()
    same_family: bool = False
    changed: tuple[str, ...] = ()
    """Paths of that diff."""
    read: tuple[str, ...] = ()
    """The paths among these that the reviewer has read, by the tools' account."""
    held: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    """Findings that did not count against the entry."""
    summary: str = ""


class LandedEntry(Message):
    """One task's commit on the target."""

    task: str
    title: str
    attempt: int
    commit: str
    candidate: str
    """The worker's commit that it brings in."""
    agent: str
    models: tuple[str, ...] = ()
    families: tuple[str, ...] = ()
    review: ReviewProof | None = None
    approved_by: str = ""
    """The person who approved it; empty where none did."""
    grants: tuple[str, ...] = ()
    waive: tuple[str, ...] = ()
    findings: tuple[str, ...] = ()
    """Findings of the scans that let it pass."""
    flaky: tuple[str, ...] = ()


class LandingProof(Message):
    """Entries that landed together, and the checks that were green on the tree of the last."""

    base: str
    """The target's commit before it."""
    commit: str
    tree: str
    at: float
    """Unix seconds."""
    host: str
    entries: tuple[LandedEntry, ...]
    certificates: tuple[Certificate, ...]
    commands: dict[str, str] = Field(default_factory=dict)
    """The commands of these checks, by name, as far as they could be read."""


class QueueLanding(Message):
    """A task that a merge queue landed; the queue's own report has the proof."""

    task: str
    title: str
    commit: str
    queue: str
    entry: str
    said: tuple[str, ...] = ()
    """The queue's words on checks and reviews."""


class ForeignSpan(Message):
    """Commits of others that came to the target between two landings."""

    after: str
    upto: str


class WholeCheck(Message):
    """All checks, run on the target itself."""

    commit: str
    verdict: str
    certificates: tuple[Certificate, ...] = ()


Work = Literal["attempt", "review", "integration review"]


class BillItem(Message):
    """The use of models by one attempt or one review."""

    task: str
    """Empty for an integration review."""
    work: Work
    number: int
    landed: bool = False
    """True for the attempt that made what landed."""
    models: tuple[str, ...] = ()
    turns: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    """The part of the input that came from the providers' caches."""
    output_tokens: int = 0
    cost_usd: float | None = 0.0
    """None where it is unknown."""


class RunCost(Message):
    """The bill of a run, with its sums. A cost that is unknown is in no sum."""

    items: tuple[BillItem, ...]
    total_usd: float
    waste_usd: float
    """The part by attempts that did not land, and by their reviews."""
    review_usd: float
    unknown: int
    """Items without a known cost."""
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    budget: tuple[str, ...] = ()


class TaskOutcome(Message):
    """One task of the plan, as the run left it."""

    id: str
    title: str
    phase: str
    attempts: int
    commit: str = ""
    detail: str = ""
    missing_survey: bool = Field(default=False, exclude_if=lambda missing: not missing)
    """It is a survey that ended without a report, and does not count as a task."""
    seconds: float | None = None
    """Seconds from its first start to its end."""
    expected_s: float | None = None
    """Seconds that the plan's author expected; None where the plan has none."""
    reasons: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    """The first errors in the log of its last failure."""
    reproduce: str = ""
    """A command that shows its last failure again."""


class WantedWord(Message):
    """Something that waits for a person, and the one command that ends it."""

    about: str
    why: str
    command: str


class Signature(Message):
    """A signature of the bundle's digest."""

    kind: Literal["fleet", "ssh"]
    value: str


class ProofBundle(Message):
    """Everything about a run that its report shows."""

    kind: Literal["forgepool.report"] = "forgepool.report"
    version: Literal[1] = 1
    forgepool: str
    """The release that wrote it."""
    run: str
    plan: str
    plan_digest: str
    hub: str
    target: str
    base: str
    """The target's commit when the run began."""
    tip: str
    """The last commit that the run landed; `base` where it landed none."""
    began: float
    ended: float
    """Unix seconds of its first and its last event."""
    outcome: str
    verdict: str
    synthesis: tuple[str, ...] = Field(default=(), exclude_if=lambda lines: not lines)
    """The lines of the lead's synthesis, proven by the journal. Left out without, so that older digests stay."""
    synthesis_review: SynthesisReview | None = Field(default=None, exclude_if=lambda review: review is None)
    forecast: tuple[str, ...] = Field(default=(), exclude_if=lambda lines: not lines)
    """The forecast as it began, beside the time and money that it took."""
    wanted: tuple[WantedWord, ...] = ()
    plan_checks: tuple[CheckDefinition, ...] = ()
    checks_waived: bool = False
    """The plan says `checks: none`."""
    reviewed: tuple[str, ...] = ()
    """Tasks that the plan lets land only with an approval."""
    landings: tuple[LandingProof, ...] = ()
    by_queue: tuple[QueueLanding, ...] = ()
    others: tuple[ForeignSpan, ...] = ()
    whole: tuple[WholeCheck, ...] = ()
    is_queue: bool = False
    """It is a merge queue's: what its entries cost stands in the reports of the runs that made them."""
    tasks: tuple[TaskOutcome, ...]
    cost: RunCost
    hosts: tuple[str, ...] = ()
    losses: tuple[str, ...] = ()
    flakes: tuple[str, ...] = ()
    denials: tuple[str, ...] = ()
    digest: str = ""
    signatures: tuple[Signature, ...] = ()

    @property
    def entries(self) -> tuple[LandedEntry, ...]:
        return tuple(entry for landing in self.landings for entry in landing.entries)

    @property
    def landed(self) -> tuple[tuple[str, str], ...]:
        """Task and commit of all that landed, also by a merge queue."""
        own = tuple((entry.task, entry.commit) for entry in self.entries)
        return own + tuple((one.task, one.commit) for one in self.by_queue)

    def compute_digest(self) -> str:
        """Return the SHA-256 of all but the digest and the signatures."""
        content = self.model_dump(mode="json", exclude={"digest", "signatures"})
        return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def read_bundle(path: Path) -> ProofBundle:
    """
    Read a bundle from a file.

    Raises:
        BadBundle: there is no such file, or it is none.
    """
    try:
        with path.open("rb") as file:
            text = file.read(_MOST_BYTES + 1)
    except OSError as trouble:
        raise BadBundle(f"{path}: {trouble.strerror}; {_WRITES}") from trouble
    if len(text) > _MOST_BYTES:
        raise BadBundle(f"{path} is larger than the {_MOST_BYTES // 1_000_000} MB of the largest bundle")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as wrong:
        raise BadBundle(f"{path} is not JSON; {_WRITES}") from wrong
    if not isinstance(found, dict) or found.get("kind") != KIND:
        raise BadBundle(f"{path} is JSON and no proof bundle; {_WRITES}")
    if found.get("version") != VERSION:
        said = str(found.get("version"))[:20]
        raise BadBundle(f"{path} is a bundle of version {said}, and this Forgepool reads version {VERSION}")
    try:
        return ProofBundle.model_validate(found)
    except (ValidationError, RecursionError) as wrong:
        raise BadBundle(f"{path} is a damaged bundle: {_first_mistake(wrong)}") from wrong


def _first_mistake(wrong: ValidationError | RecursionError) -> str:
    if isinstance(wrong, RecursionError):
        return "it is nested too deeply"
    first = wrong.errors(include_url=False, include_input=False)[0]
    place = ".".join(str(part)[:40] for part in first["loc"])
    return f"'{place}': {first['msg'].lower()}"
