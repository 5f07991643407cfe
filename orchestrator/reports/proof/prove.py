"""
Proves a bundle against a repository and nothing else: each sentence it yields is a thing that does not hold.

The history is read once, along first parents. The bundle's landings must be exactly the commits there that name the
run in their trailers, in this order. Facts about each landing are computed again from its objects.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from forgepool.orchestrator.reports.proof.bundle import ForeignSpan, LandedEntry, LandingProof, ProofBundle
from forgepool.orchestrator.reports.proof.evidence import (
    check_approval,
    check_certificates,
    check_commands,
    is_of_landed_diff,
)
from forgepool.worktrees.git.git import CommitId, Git, GitFailed

_TRAILERS = ("Forgepool-Run", "Forgepool-Task", "Forgepool-Attempt")
_FIELDS = 3 + len(_TRAILERS)
_LINES = "valueonly,unfold,separator=%x0A"
_FORM = "%H%x00%P%x00%T" + "".join(f"%x00%(trailers:key={key},{_LINES})" for key in _TRAILERS)
"""Fields end with a zero byte, which no commit message has; values of one key with a newline, which no value has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpineCommit:
    """A commit on the target's first-parent history, with its last trailers of each key."""

    id: str
    parents: tuple[str, ...]
    tree: str
    run: str
    task: str
    attempt: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Spine:
    """The target's first-parent history, oldest first."""

    target: str
    commits: Sequence[SpineCommit]
    places: Mapping[str, int]

    def find(self, commit: str) -> SpineCommit | None:
        at = self.places.get(commit)
        return None if at is None else self.commits[at]

    def between(self, after: str, upto: str) -> Sequence[SpineCommit] | None:
        """Return the commits after one and up to another; None where they do not stand in this order."""
        first, last = self.places.get(after), self.places.get(upto)
        return None if first is None or last is None or first > last else self.commits[first + 1 : last + 1]


def read_spine(git: Git, target: str, head: CommitId) -> Spine:
    """Read the history that ends with `head`. Raises GitFailed, also where what git says is no chain of commits."""
    argv = ("log", "-z", "--first-parent", "--reverse", "--no-show-signature", f"--format={_FORM}", head)
    commits = read_chain(git.run(*argv).fields)
    return Spine(target=target, commits=commits, places={one.id: at for at, one in enumerate(commits)})


def read_chain(fields: Sequence[str]) -> list[SpineCommit]:
    """Return commits from their fields, oldest first. Raises GitFailed where one does not stand on the one before."""
    if len(fields) % _FIELDS:
        raise GitFailed(("log",), 0, f"{len(fields)} fields are not {_FIELDS} for each commit")
    commits: list[SpineCommit] = []
    for at in range(0, len(fields), _FIELDS):
        one, parents, tree, *trailers = fields[at : at + _FIELDS]
        before = commits[-1].id if commits else ""
        if parents.partition(" ")[0] != before:
            raise GitFailed(("log",), 0, f"commit {one[:12]} does not stand on {before[:12] or 'nothing'}")
        run, task, attempt = (value.rpartition("\n")[2].strip() for value in trailers)
        commits.append(
            SpineCommit(id=one, parents=tuple(parents.split()), tree=tree, run=run, task=task, attempt=attempt)
        )
    return commits


def prove(bundle: ProofBundle, git: Git, spine: Spine) -> Iterator[str]:
    """Yield a sentence for each thing that the repository contradicts. Raises GitFailed."""
    yield from _check_span(bundle, spine)
    yield from _check_presence(bundle, spine)
    yield from _check_order(bundle, spine)
    for landing in bundle.landings:
        yield from _check_landing(bundle, git, spine, landing)
    for one in bundle.by_queue:
        found = spine.find(one.commit)
        if found is not None and (found.run, found.task) != (one.queue, one.entry):
            yield f"{_of(one.task, one.commit)} is not the landing of entry '{one.entry}' by {one.queue}"
    for whole in bundle.whole:
        if spine.between(bundle.base, whole.commit) is None:
            yield f"all checks are said to have run on {whole.commit[:12]}, which is not in the run's history"
        elif whole.verdict == "green":
            yield from check_certificates(bundle, git, whole.commit, whole.commit, whole.certificates)


def compare_reviews(bundle: ProofBundle, git: Git, spine: Spine) -> Iterator[tuple[str, bool]]:
    """Yield the tasks with a reviewer's review, and whether it passed the very diff that landed. Raises GitFailed."""
    for landing in bundle.landings:
        before = landing.base
        for entry in landing.entries:
            step = spine.find(entry.commit)
            if step is not None and entry.review is not None and not entry.approved_by:
                yield entry.task, is_of_landed_diff(entry.review, git, before, step.tree)
            before = entry.commit


def _check_span(bundle: ProofBundle, spine: Spine) -> Iterator[str]:
    """Yield where base and tip are not in the target, or are not those of the landings."""
    if bundle.base not in spine.places:
        yield f"the run's base {bundle.base[:12]} is not in the first-parent history of {spine.target}"
    if bundle.tip not in spine.places:
        yield f"{spine.target} does not contain the run's last commit {bundle.tip[:12]}"
    last = [commit for _, commit in bundle.landed] or [bundle.base]
    if bundle.tip not in last or (not bundle.by_queue and bundle.tip != last[-1]):
        yield f"the run's tip is said to be {bundle.tip[:12]}, and its last landing is {last[-1][:12]}"


def _check_presence(bundle: ProofBundle, spine: Spine) -> Iterator[str]:
    """Yield landings that the target lacks, and commits of the run that the bundle lacks."""
    named = {commit: task for task, commit in bundle.landed}
    for commit, task in named.items():
        if commit not in spine.places:
            yield f"{_of(task, commit)} is not in the first-parent history of {spine.target}"
    for one in spine.commits:
        if one.run == bundle.run and one.id not in named:
            yield f"{one.id[:12]} on {spine.target} is this run's landing of '{one.task}', and the bundle lacks it"


def _check_order(bundle: ProofBundle, spine: Spine) -> Iterator[str]:
    """Yield landings in another order than the history's, and commits in between that the bundle does not tell of."""
    before, inside = bundle.base, {ForeignSpan(after=one.after, upto=one.upto) for one in bundle.others}
    for landing in bundle.landings:
        if landing.base != before:
            span = ForeignSpan(after=before, upto=landing.base)
            if span not in inside:
                yield f"landing {landing.commit[:12]} stands on {landing.base[:12]}, and not on {before[:12]} before it"
            inside.discard(span)
            if spine.between(before, landing.base) is None:
                yield f"landing {landing.commit[:12]} does not come after {before[:12]} on {spine.target}"
        steps = spine.between(landing.base, landing.commit)
        if steps is not None and not _is_made_of(bundle, steps, landing):
            yield f"landing {landing.commit[:12]} is not exactly the commits {_ids(landing)} on {landing.base[:12]}"
        elif steps is None and landing.commit in spine.places:
            yield f"landing {landing.commit[:12]} does not stand on {landing.base[:12]}"
        before = landing.commit
    for span in inside:
        yield f"commits of others are told between {span.after[:12]} and {span.upto[:12]}, where no landing needs them"


def _check_landing(bundle: ProofBundle, git: Git, spine: Spine, landing: LandingProof) -> Iterator[str]:
    found, commits = spine.find(landing.commit), [entry.commit for entry in landing.entries]
    for name, commit in (("", landing.commit), ("its base ", landing.base)):
        if commit not in spine.places:
            where = f"in the first-parent history of {spine.target}"
            yield f"landing {landing.commit[:12]} is not proven: {name}{commit[:12]} is not {where}"
    if commits[-1:] != [landing.commit]:
        yield f"landing {landing.commit[:12]} does not end with the commit of its last task: {_ids(landing) or 'none'}"
    if found is None or landing.base not in spine.places:
        return
    if found.tree != landing.tree:
        yield f"landing {landing.commit[:12]} has tree {found.tree[:12]}, and the bundle says {landing.tree[:12]}"
    yield from check_certificates(bundle, git, landing.base, landing.commit, landing.certificates)
    yield from check_commands(bundle, git, landing.base, landing.commands)
    before = landing.base
    for entry in landing.entries:
        step = spine.find(entry.commit)
        if step is not None and before in spine.places:
            if not bundle.is_queue and step.parents[:1] != (before,):
                yield f"{_of(entry.task, entry.commit)} does not have {before[:12]} as its first parent"
            yield from _check_entry(bundle, entry, step)
            yield from check_approval(bundle, git, landing.base, entry, before, step.tree)
        before = entry.commit


def _is_made_of(bundle: ProofBundle, steps: Sequence[SpineCommit], landing: LandingProof) -> bool:
    """Tell whether commits are a landing's. A queue may rebase a branch of several; the last counts."""
    commits = [entry.commit for entry in landing.entries]
    if not bundle.is_queue:
        return [one.id for one in steps] == commits
    return [one.id for one in steps if one.id in commits] == commits


def _check_entry(bundle: ProofBundle, entry: LandedEntry, step: SpineCommit) -> Iterator[str]:
    """Yield where a commit names another run, task or attempt, or brings in another candidate."""
    names = {"run": bundle.run, "task": entry.task, "attempt": str(entry.attempt)}
    for name, of_bundle in names.items():
        of_git = getattr(step, name)
        if of_git != of_bundle:
            said = f"'{of_git}'" if of_git else "none"
            yield f"{_of(entry.task, entry.commit)} names {said} as its {name}, and the bundle '{of_bundle}'"
    if len(step.parents) > 1 and step.parents[1] != entry.candidate:
        brought = f"brings in {step.parents[1][:12]}, and the bundle says {entry.candidate[:12]}"
        yield f"{_of(entry.task, entry.commit)} {brought}"


def _of(task: str, commit: str) -> str:
    return f"the commit of '{task}', {commit[:12]},"


def _ids(landing: LandingProof) -> str:
    return ", ".join(entry.commit[:12] for entry in landing.entries)
