"""
A plan file while it is read: its form, the tasks that its entries fan out to, their names, and its review and gate.

A mistake is noted at its line, and reading goes on, so that a person learns all of them at once.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Discriminator, Field, Tag

from forgepool.orchestrator.plan.budget import Budget
from forgepool.orchestrator.plan.fan_out import (
    CannotFanOut,
    LimitsEntry,
    TaskEntry,
    TaskFields,
    WrittenSurvey,
    for_each,
    merge_defaults,
)
from forgepool.supervisor.messages.requests import Independence, ReviewPolicy, ReviewTerms
from forgepool.workers.policy.gate_file.document import ReviewWord, WrittenChecksOrNone
from forgepool.workers.sandbox.network.hosts import BadHost, read_rule
from forgepool.workers.schema.documents import Located, Version, read_text
from forgepool.workers.schema.globs import BadGlob
from forgepool.workers.schema.mistakes import DocumentWrong, Mistake, Progress, Slug, Where, nearest, slug
from forgepool.workers.schema.orders import Limits, Message
from forgepool.workers.schema.policy_rules import RuleEntry

_MOST_TASKS = 100_000
SURVEY = "survey"
"""The id of the task that the plan's `survey` stands for."""


class Wave(Message):
    """The post-merge check: all checks run on the target itself, always also at the end of the run."""

    every: int | None = Field(default=None, ge=1)
    """Landings between two post-merge checks; None checks at the end alone."""


class GateOptions(Message):
    """The order of a candidate's checks and review, and the checks of the target as a whole."""

    order: Literal["cheap_first", "side_by_side", "review_first"] = "cheap_first"
    wave: Wave | None = None
    """None does not check the target again as a whole."""
    integration_review: Literal["never", "end", "each"] = "never"
    """The review of all that has landed, after its checks: at the end of the run, or with each post-merge check."""


class ReviewEntry(ReviewTerms):
    """The plan's `review` as it is written."""

    by: tuple[Annotated[str, Field(min_length=1)], ...] = ()
    scripted: Annotated[str, Field(min_length=1)] | None = None
    """The file with a scripted reviewer's turns."""
    lenses: tuple[Annotated[str, Field(min_length=1)], ...] = ()
    """Skills that say what to look for, such as `review-security`."""
    fix: Literal["must", "easy"] = "easy"
    limits: LimitsEntry = LimitsEntry()
    commands: bool = False
    """True when the candidates of commands are reviewed too."""


def _review_form(value: object) -> str:
    return "a mapping" if isinstance(value, dict | ReviewEntry) else "a word"


WrittenReview = Annotated[
    Annotated[ReviewEntry, Tag("a mapping")] | Annotated[ReviewWord, Tag("a word")], Discriminator(_review_form)
]


class PlanPolicy(Message):
    """The keys of a whole plan that are the same in the file and in the `Plan`."""

    version: Literal[1] = 1
    name: Slug
    """The plan's name, which begins the names of its runs."""
    base: Annotated[str, Field(min_length=1)] | None = None
    """A branch, tag or commit; None is the hub's default branch."""
    undeclared: Literal["optimistic", "exclusive"] = "optimistic"
    """Tasks without `files`: `optimistic` runs them beside all others, `exclusive` beside none."""
    scope: Literal["extend", "strict"] = "extend"
    """`extend`: a task may ask for paths outside its `files`. `strict`: it may not."""
    reads: Literal["block", "ignore"] = "block"
    """`block`: a task waits while another may write what it `reads`. `ignore`: it does not."""
    landing: Literal["merge", "squash", "rebase"] = "merge"
    """The form in which a candidate's commits land."""
    budget: Budget = Budget()
    """The cap on the usage of the whole run."""
    progress: Progress = 30.0
    """How often a model's unfinished work is pushed: `turn`, a duration, `phase` or `off`."""
    gate: GateOptions = GateOptions()
    """The order of checks and review, and the post-merge checks."""


class PlanSource(PlanPolicy):
    """The plan file as it is written."""

    version: Version
    target: str | None = None
    """The branch on which tasks land; null is `forgepool/NAME`."""
    checks: WrittenChecksOrNone | None = None
    """The checks of every candidate; null leaves them to the target's `forgepool.yaml`."""
    review: WrittenReview | None = None
    """The reviewers of candidates, or one word; null leaves it to the reviewing host."""
    assets: tuple[Annotated[str, Field(min_length=1)], ...] = ()
    """Files and folders beside the plan that its tasks can read."""
    survey: WrittenSurvey = None
    """One survey of the repository, which is made first and given to all tasks that models do."""
    defaults: TaskFields = TaskFields()
    """Keys for all tasks that do not write their own."""
    tasks: tuple[TaskEntry, ...]
    """The tasks, in any order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenTask:
    """A task, and the place in `tasks` of the entry that it comes from."""

    entry: TaskEntry
    index: int
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanReading:
    """A plan file while it is read: its lines, and the mistakes found so far."""

    document: Located
    source: PlanSource
    wrong: list[Mistake]

    def refuse(self, index: int, where: Sequence[str | int], sentence: str) -> None:
        """Note a mistake at the line of the task's own key, or of the defaults from which it inherits the key."""
        self.wrong.append(Mistake(self.line(index, where), sentence))

    def line(self, index: int, where: Sequence[str | int]) -> int:
        """Return the line of a task's own key, or of the defaults from which it inherits the key."""
        if self.source.survey is not None and self.source.tasks[index].id == SURVEY:
            return self.document.line(("survey", *where))
        own = not where or where[0] in self.source.tasks[index].model_fields_set
        inherited = not own and where[0] in self.source.defaults.model_fields_set
        return self.document.line(("defaults", *where) if inherited else ("tasks", index, *where))


def fan_out_entries(reading: PlanReading, files: Callable[[], Sequence[str]]) -> list[WrittenTask]:
    """Return every task, with each `for_each` expanded."""
    tasks: list[WrittenTask] = []
    tree: Sequence[str] | None = None
    for index, plain in enumerate(reading.source.tasks):
        entry = merge_defaults(reading.source.defaults, plain)
        line = reading.document.line(("tasks", index))
        if entry.for_each is None:
            if entry.group is not None:
                reading.refuse(index, ("group",), f"task '{entry.id}' has a 'group' without a 'for_each'; remove it")
            tasks.append(WrittenTask(entry=entry, index=index, line=line))
            continue
        tree = files() if tree is None else tree
        tasks.extend(WrittenTask(entry=each, index=index, line=line) for each in _repeated(reading, entry, index, tree))
        if len(tasks) > _MOST_TASKS:
            reading.refuse(index, ("for_each",), f"the plan has more than {_MOST_TASKS:,} tasks; split it")
            break
    return tasks


def _repeated(reading: PlanReading, entry: TaskEntry, index: int, tree: Sequence[str]) -> list[TaskEntry]:
    try:
        return for_each(entry, tree)
    except CannotFanOut as error:
        reading.refuse(index, error.where, f"task '{entry.id}' {error.sentence}")
    except BadGlob as error:
        reading.refuse(index, ("for_each", "files"), f"'for_each' of task '{entry.id}' has the {error}")
    return []


def check_ids(reading: PlanReading, written: Iterable[WrittenTask], standing: Iterable[str] = ()) -> None:
    """Check that ids differ, even without case: they become parts of refs and file names."""
    first: dict[str, WrittenTask] = {}
    taken = {one.lower(): one for one in standing}
    for each in written:
        _check_slug(reading, each.index, "id", each.entry.id)
        if (there := taken.get(each.entry.id.lower())) is not None:
            like = "" if there == each.entry.id else f" (as '{there}'; case does not tell ids apart)"
            sentence = f"the run has a task '{each.entry.id}' already{like}; give this one another id"
            reading.refuse(each.index, ("id",), sentence)
        before = first.setdefault(each.entry.id.lower(), each)
        if before is not each:
            same = before.entry.id == each.entry.id
            like = "" if same else f" as '{before.entry.id}'; case does not tell ids apart"
            sentence = f"the id '{each.entry.id}' is given twice (first on line {before.line}{like}); change one"
            if reading.source.survey is not None and each.entry.id == SURVEY:
                sentence = f"'survey' adds a task '{SURVEY}', and line {before.line} has one; give that another id"
            reading.refuse(each.index, ("id",), sentence)


def check_policies(reading: PlanReading) -> None:
    """Check the policy rules, where they are written, with their own examples."""
    source = reading.source
    written: list[tuple[tuple[RuleEntry, ...], Where]] = [(source.defaults.policy, ("defaults", "policy"))]
    written += [(entry.policy, ("tasks", index, "policy")) for index, entry in enumerate(source.tasks)]
    if any(rules for rules, _ in written):
        # It reads shell commands, and so needs much that plans without rules do not.
        from forgepool.workers.policy.document import mistakes_in

        for rules, where in written:
            reading.wrong.extend(mistakes_in(reading.document, rules, where))


def check_hosts(reading: PlanReading, written: Iterable[WrittenTask]) -> None:
    for each in written:
        for at, host in enumerate(each.entry.network):
            try:
                read_rule(host)
            except BadHost as bad:
                reading.refuse(each.index, ("network", at), f"'network' of task '{each.entry.id}' has the {bad}")


def check_groups(reading: PlanReading, written: Iterable[WrittenTask]) -> None:
    lines = {each.entry.id: each.line for each in written}
    for index, entry in enumerate(reading.source.tasks):
        if (group := entry.group_name) is None:
            continue
        _check_slug(reading, index, "group" if entry.group else "id", group)
        if group in lines:
            sentence = f"the group '{group}' has the name of a task or group on line {lines[group]}; give it another"
            reading.refuse(index, ("group",), sentence)
        lines.setdefault(group, reading.document.line(("tasks", index)))


def check_answers(reading: PlanReading, written: Iterable[WrittenTask]) -> None:
    """Check that tasks which answer or lead promise no change, and have agents that can report; one may lead."""
    leads: list[str] = []
    for each in written:
        entry, agent = each.entry, each.entry.agent
        if not (entry.answers or entry.leads):
            continue
        what = "leads" if entry.leads else "answers"
        for key in ("files", "acceptance"):
            if getattr(entry, key):
                sentence = f"task '{entry.id}' {what} and changes nothing; remove its '{key}', or '{what}'"
                reading.refuse(each.index, (key,), sentence)
        if agent is not None and agent.builtin is None and agent.scripted is None:
            sentence = f"task '{entry.id}' {what}, which only a 'builtin' or a 'scripted' agent can; give it one"
            reading.refuse(each.index, ("agent",), sentence)
        leads += [entry.id] if entry.leads else []
        if entry.leads and len(leads) > 1:
            sentence = f"tasks '{leads[0]}' and '{entry.id}' both lead; one task leads a run: remove one 'leads'"
            reading.refuse(each.index, ("leads",), sentence)


def context_of(
    reading: PlanReading,
    written: Sequence[WrittenTask],
    needs: dict[str, dict[str, bool]],
    files: Callable[[], Sequence[str]],
    standing: Iterable[str],
) -> dict[str, tuple[str, ...]]:
    """Return the files that each task's `context` names; a task named there is passed on whole, as by `id:full`."""
    ids, context = {*standing, *(each.entry.id for each in written)}, dict[str, tuple[str, ...]]()
    tree: frozenset[str] | None = None
    for each in written:
        entry, own, paths = each.entry, needs.get(each.entry.id, {}), []
        for at, text in enumerate(entry.context):
            name, _, depth = text.partition(":")
            if name in ids and depth in ("", "full"):
                wrong = None if name in own else f"'{name}', which it does not need; add it to 'needs'"
                own |= {name: own[name] or depth == "full"} if name in own else {}
            else:
                from forgepool.workers.agents.briefing.references import split_reference  # Late: it loads git.

                tree = frozenset(files()) if tree is None else tree
                # What a task before it may still make is looked for when it starts.
                there = entry.needs or split_reference(text).path in tree
                wrong = None if there else f"'{text}', which is no file of the repository; name one that is"
                paths.append(text)
            if wrong is not None:
                reading.refuse(each.index, ("context", at), f"'context' of task '{entry.id}' has {wrong}")
        context[entry.id] = tuple(paths)
    return context


def _check_slug(reading: PlanReading, index: int, key: str, text: str) -> None:
    try:
        slug(text)
    except ValueError as error:
        reading.refuse(index, (key,), f"the {key} of task '{text}' {error}")


class PlanReview(Message):
    """The reviewers of the plan's candidates, and the candidates that are reviewed."""

    policy: ReviewPolicy = ReviewPolicy()
    commands: bool = False
    """True when the candidates of commands are reviewed too, which no model has made."""
    independence: Independence = "other_family"
    person: bool = False
    """True when a person's approval, and no model's, lets a candidate land."""


def review_by(word: ReviewWord) -> PlanReview | Literal["none"]:
    """Return the review that one word stands for."""
    match word:
        case "none":
            return "none"
        case "person":
            return PlanReview(person=True)
        case "self-other-model":
            return PlanReview(independence="other_model")


def review_of(reading: PlanReading, folder: Path) -> PlanReview | Literal["none"] | None:
    """Read the plan's `review`, with the text of the script that it names."""
    written, script = reading.source.review, None
    if not isinstance(written, ReviewEntry):
        return None if written is None else review_by(written)
    if written.scripted is not None:
        match script_in(folder, written.scripted):
            case DocumentWrong() as wrong:
                _refuse(reading, "scripted", f"'review' has a script that cannot be used: {wrong}")
            case text:
                script = text
    if written.scripted is not None and written.by:
        _refuse(reading, "by", "'review' has both 'by' and 'scripted'; a script takes the place of models: keep one")
    if (contradiction := written.find_contradiction(scripted=written.scripted is not None)) is not None:
        _refuse(reading, *contradiction)
    return PlanReview(policy=_policy(written, script), commands=written.commands)


def gate_of(reading: PlanReading) -> GateOptions:
    """Read the plan's `gate`. With both a wave and a review, the whole is reviewed at the end by default."""
    gate, review = reading.source.gate, reading.source.review
    if "integration_review" not in gate.model_fields_set:
        both = gate.wave is not None and isinstance(review, ReviewEntry)
        return gate.model_copy(update={"integration_review": "end" if both else "never"})
    if gate.integration_review != "never" and gate.wave is None:
        line = reading.document.line(("gate", "integration_review"))
        sentence = (
            f"'integration_review' of 'gate' is '{gate.integration_review}', and there is no 'wave' that it follows; "
            "write 'wave: {}' beside it"
        )
        reading.wrong.append(Mistake(line, sentence))
    return gate


def script_in(folder: Path, name: str) -> str | DocumentWrong:
    """Return a script's text, or why it cannot be used."""
    try:
        text = read_text(folder / name, name)
    except DocumentWrong as wrong:
        return wrong
    return text if text.strip() else DocumentWrong(name, [Mistake(1, "is empty")])


def check_silences(reading: PlanReading) -> None:
    """Check, where they are written, that the names in `waive` are rules."""
    source = reading.source
    places = [(("defaults",), source.defaults), *((("tasks", at), entry) for at, entry in enumerate(source.tasks))]
    if not any(fields.waive for _, fields in places):
        return
    # Imported late: the rules load grammars, which takes time.
    from forgepool.workers.policy.gate_file.document import RULES

    for where, fields in places:
        for at, name in enumerate(fields.waive):
            if name not in RULES:
                line = reading.document.line((*where, "waive", at))
                reading.wrong.append(Mistake(line, f"'waive' names '{name}', which is no rule; {_meant(name, RULES)}"))


def _meant(name: str, known: Iterable[str]) -> str:
    rules = sorted(known)
    like = nearest(name, rules)
    return f"did you mean '{like[0]}'?" if like else f"rules are: {', '.join(rules)}"


def _policy(written: ReviewEntry, script: str | None) -> ReviewPolicy:
    """Return the policy of a review. Its limits default to a reviewer's, not to an attempt's."""
    limits = ReviewPolicy().limits.model_copy(
        update={name: getattr(written.limits, name) for name in written.limits.model_fields_set}
    )
    same = {name: getattr(written, name) for name in ("by", "lenses", *ReviewTerms.model_fields)}
    return ReviewPolicy(
        **same,
        script=script,
        threshold="fix" if written.fix == "must" else "fix_if_easy",
        limits=Limits.model_validate(limits.model_dump()),
    )


def _refuse(reading: PlanReading, key: str, sentence: str) -> None:
    reading.wrong.append(Mistake(reading.document.line(("review", key)), sentence))
