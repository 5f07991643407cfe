"""The supervisor's requests: checks of a composed tree, reviews of its diff, and landings."""

from typing import Literal, Self

from pydantic import Field, model_validator

from forgepool.supervisor.findings import Threshold
from forgepool.supervisor.messages.answers import Approval, Certificate, Review
from forgepool.workers.llm.batch import BatchCall
from forgepool.workers.policy.gate_file.document import CheckDefinition
from forgepool.workers.schema.mistakes import Duration
from forgepool.workers.schema.orders import Limits, Message
from forgepool.workers.schema.reports import EarlierWork
from forgepool.workers.workspace.scans.findings import ScanFinding, ScannedChange

LandingStyle = Literal["merge", "squash", "rebase"]
PERSON = "person"
"""The agent of a change that a person made."""
MODELLESS = ("command", PERSON)
"""Agents behind which there is no model."""


Independence = Literal["other_family", "other_model"]
"""The independence of a reviewer: another model family than the author's, or only another model."""


class Author(Message):
    """The author of a candidate."""

    agent: str = ""
    """`person`, `command`, `scripted`, `builtin`, or the name of a CLI agent."""
    models: tuple[str, ...] = ()
    families: tuple[str, ...] = ()
    """The families of all models that worked on it; none for a command, `unknown` for a family that no table names."""

    @property
    def is_person(self) -> bool:
        return self.agent == PERSON and not self.models and not self.families


class EntryRef(ScannedChange):
    """One candidate on its way to the target."""

    task: str
    attempt: int
    commit: str
    ref: str
    """The ref that keeps it in the hub."""
    message: str
    """The whole message of the commit that brings it into the target, trailers included."""
    author: Author = Author()
    reviewed: bool = False
    """It does not land without an approval of its own."""
    style: LandingStyle | None = None
    """How it comes into the target; None: as its request says."""
    branch: bool = False
    """It may be several commits, of whichever age: only the last was submitted."""
    returned: EarlierWork | None = Field(default=None, exclude_if=lambda work: work is None)
    """The task's last candidate before this one, which was returned: the tests that it wrote are run on this one."""

    @property
    def by_person(self) -> bool:
        return self.author.is_person


class TrainRequest(Message):
    """The fields about the entries that all requests have."""

    request_id: str
    token: str
    run: str
    hub: str
    target: str
    base: str
    """The target's tip the entries are composed on."""
    anchor: str = ""
    """The same ref as a `WorkOrder` names."""
    ahead: tuple[EntryRef, ...] = ()
    """Entries that are assumed to land before these, and are composed first; nothing is asked about them."""
    entries: tuple[EntryRef, ...]
    whole: bool = False
    """Nothing that was found earlier is reused. Without entries, the tip itself is what is asked about."""
    remembered: bool = False
    """With `whole`, what this host remembers as green counts all the same."""
    style: LandingStyle = "merge"
    plan_checks: tuple[CheckDefinition, ...] = ()
    checks_waived: bool = False
    """The plan says `checks: none` in so many words."""
    had_gate_file: bool = False
    """When the run began, the target had a `forgepool.yaml`; without one now, nothing is let in."""
    reviewed: bool = False
    """
    True if these entries land only with an approval. A landing request has it where any of its entries does; a single
    entry, whenever its request does.
    """
    independence: Independence = "other_family"
    """The independence that the plan asks of reviewers; the target may ask for more."""
    private: bool = False
    """It lets nothing in: the hub is read, and nothing is written to it."""
    issued_at: float
    start_by: float

    @property
    def spec(self) -> tuple[EntryRef, ...]:
        """All that is composed, in order."""
        return (*self.ahead, *self.entries)

    @model_validator(mode="after")
    def _speaks_of_something(self) -> Self:
        if not self.entries and not self.whole:
            raise ValueError("names no entry; only a request for the whole set of checks may do without")
        return self


class CheckRequest(TrainRequest):
    """
    Compose these entries on this tip, and run the target's checks on exactly that tree.

    `whole` and no entries: run all of them on the tip itself, for the verdict `green` or `base_red`.
    """

    decisive: bool = True
    """Confirm a failure before blaming the entry: rerun it, recheck the tip, look for a conflicting landing."""
    diagnose: bool = True
    """Look for that landing among all; without it, only where the failure points to one. Others wait for the slot."""


MOST_REVIEWERS = 5
ReviewContext = Literal["autonomous", "injected"]
"""
How a reviewer learns of the change. `autonomous`: it reads with tools. `injected`: it is shown the changed files, and
answers in one call.
"""
ReviewLane = Literal["live", "batch"]
REVIEW_DEADLINE_S = 3600.0
"""Vendors end most batches within an hour, and their tasks hold locks until they land."""


class ReviewTerms(Message):
    """The calls that a review takes, and the lane by which they go."""

    reviewers: int = Field(default=1, ge=1, le=MOST_REVIEWERS)
    """More than one review independently, then debate; each of another family."""
    rounds: int = Field(default=1, ge=1, le=5)
    """Rounds of the debate, the first included."""
    context_mode: ReviewContext = Field(default="autonomous", exclude_if=lambda mode: mode == "autonomous")
    lane: ReviewLane = Field(default="live", exclude_if=lambda lane: lane == "live")
    when: Literal["always", "night"] = Field(default="always", exclude_if=lambda when: when == "always")
    """The hours in which the lane is taken; in the others, reviews are made live."""
    deadline: Duration = Field(default=REVIEW_DEADLINE_S, gt=0, exclude_if=lambda it: it == REVIEW_DEADLINE_S)
    """Seconds after which a review in a batch is made live."""

    def find_contradiction(self, *, scripted: bool) -> tuple[str, str] | None:
        """Return a key that contradicts the others, and the sentence about it; None where there is none."""
        if self.context_mode == "injected" and self.rounds > 1:
            return "rounds", "'rounds' ask a reviewer again, and one that is 'injected' is asked once; leave them out"
        if self.lane == "live":
            lost = next((key for key in ("when", "deadline") if key in self.model_fields_set), None)
            return None if lost is None else (lost, f"'{lost}' is about batches; write 'lane: batch' beside it")
        if scripted:
            return "lane", "'lane: batch' is for models, and a script answers at once; leave it out"
        if self.context_mode == "autonomous":
            one_call = "write 'context_mode: injected', by which a review is one call"
            return (
                "lane",
                f"'lane: batch' would wait for a batch at each of the calls of a reviewer with tools; {one_call}",
            )
        if self.reviewers > 1:
            return "lane", f"'lane: batch' takes one reviewer, and there are {self.reviewers}; leave 'reviewers' out"
        return None


class ReviewPolicy(ReviewTerms):
    """The reviewers and the form of a review, as the plan has them."""

    by: tuple[str, ...] = ()
    """Models of the reviewing host's table, in this order; none of them: its route `review`."""
    script: str | None = None
    """The YAML text of a scripted reviewer, which takes the place of models; of several, one after `---`."""
    lenses: tuple[str, ...] = Field(default=(), exclude_if=lambda lenses: not lenses)
    """Skills that say what to look for, dealt out among the reviewers in turn."""
    threshold: Threshold = "fix_if_easy"
    limits: Limits = Limits(wall_s=1800.0, idle_s=600.0, turns=60)
    """The limits of one reviewer's conversation."""


class Sibling(Message):
    """Another task under way: what it changes is missing from this diff on purpose."""

    task: str
    title: str = ""
    files: tuple[str, ...] = ()


class LandedTask(Message):
    """A task that has landed, as it was set to its author."""

    task: str
    title: str = ""
    description: str = ""
    acceptance: tuple[str, ...] = ()
    commit: str
    """With which it is in the target."""


class WaveOf(Message):
    """The subject of an integration review: all that lies between the request's `base` and its tip."""

    number: int
    """The number of the review, over all integration reviews of the run."""
    tip: str
    tasks: tuple[LandedTask, ...]
    more: tuple[str, ...] = ()
    """Further landed tasks, by name only for want of room."""
    authors: tuple[Author, ...]
    """The authors of all of them, each once."""
    grants: tuple[str, ...] = ()
    """Globs of what a person let any of them change or take away."""
    waive: tuple[str, ...] = ()
    """Rules of scans that a person waived for any of them."""


class ToldResult(Message):
    """A task's result, as the reviewer of a synthesis is told it."""

    task: str
    header: str
    text: str = ""
    """The report, or the summary with what failed; empty for want of room."""


class SynthesisOf(Message):
    """The subject of a synthesis's review: a lead's text, and the results that must bear it."""

    number: int
    """The number of the review, over all that the run has asked for."""
    goal: str
    frame: str = ""
    """The questions and expectations with which the lead began."""
    text: str
    """The synthesis without the sentences that the journal does not confirm."""
    struck: tuple[str, ...] = ()
    """These sentences, each with the reason."""
    results: tuple[ToldResult, ...]
    author: Author


class ReviewRequest(TrainRequest):
    """
    Compose these entries on this tip, and have the diff reviewed by another family than the author's.

    With a `wave`, and no entries: what has landed is reviewed as a whole. With a `synthesis`: a lead's text is.
    """

    policy: ReviewPolicy
    wave: WaveOf | None = None
    synthesis: SynthesisOf | None = Field(default=None, exclude_if=lambda subject: subject is None)
    known: "Review | None" = None
    """A verdict that failed this wave; it holds as long as the diff is the one that it was given on."""
    title: str = ""
    description: str = ""
    acceptance: tuple[str, ...] = ()
    criteria: tuple[str, ...] = ()
    """Sentences that every reviewer answers one by one, with evidence."""
    siblings: tuple[Sibling, ...] = ()
    checked: tuple[str, ...] = ()
    """The checks' results, a sentence each; none where they have not run yet."""
    findings: tuple[ScanFinding, ...] = ()
    """The scans' findings for the reviewer to look at."""
    cost_usd: float | None = None
    """The most that it may cost in all; None is no limit."""
    tokens: int | None = None
    closed_accounts: tuple[str, ...] = Field(default=(), exclude_if=lambda accounts: not accounts)
    """Accounts that it may not ask, as for an order."""
    batch: BatchCall | None = Field(default=None, exclude_if=lambda call: call is None)
    """Its call in a vendor's batch lane; None for a live review."""

    @property
    def authors(self) -> tuple[Author, ...]:
        """Return the authors of all that is under review."""
        if self.synthesis is not None:
            return (self.synthesis.author,)
        return tuple(entry.author for entry in self.entries) if self.wave is None else self.wave.authors

    @property
    def attempt(self) -> int:
        """By which a scripted reviewer tells one time from another: of the task, or the number of the review."""
        if self.synthesis is not None:
            return self.synthesis.number
        return self.entries[-1].attempt if self.wave is None else self.wave.number


class LandRequest(TrainRequest):
    """Move the target to this commit, on the evidence of these certificates."""

    entries: tuple[EntryRef, ...] = Field(min_length=1)
    commit: str
    tree: str
    certificates: tuple[Certificate, ...] = ()
    approvals: tuple[Approval | None, ...] = ()
    """One for each entry, in order; without one, nothing lands of what is `reviewed`."""
    done: tuple[str, ...] = ()
    """Refs of tasks that have landed before. The same push removes those that the hub still has."""
