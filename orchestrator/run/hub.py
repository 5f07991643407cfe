"""
The hub as a run finds it at its beginning: what it has, and the plan as it reads over the hub's tree.
"""

import math
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from forgepool.orchestrator.decisions.plan_index import PlanIndex
from forgepool.orchestrator.plan.document import Plan, load_plan
from forgepool.orchestrator.plan.entries import review_by
from forgepool.orchestrator.state.run import RunState
from forgepool.workers.policy.gate_file.document import GATE_FILE
from forgepool.workers.policy.gate_file.reading import read_gate_file
from forgepool.workers.schema.documents import read
from forgepool.workers.schema.mistakes import DocumentWrong
from forgepool.workers.schema.orders import CommandAgent
from forgepool.workers.schema.settings import Settings
from forgepool.workers.workspace.refs import candidate_ref, marker_ref, progress_ref, result_ref, work_ref
from forgepool.worktrees.commits.changes import FileTooLarge, read_file, tree_paths
from forgepool.worktrees.errors import InfrastructureError, UserError
from forgepool.worktrees.git.git import CommitId, GitFailed, without_password
from forgepool.worktrees.hub.hub import HubFacts, HubUnusable, inspect_hub
from forgepool.worktrees.hub.mirror import Mirror, MissingCommit, open_mirror


def wants_reviews(mirror: Mirror, tip: CommitId) -> bool:
    """
    Tell whether the target's gate file demands reviews whatever a plan says. A wrong file is left for the gate to
    report.
    """
    try:
        mirror.ensure(tip)
        text = read_file(mirror.git, tip, GATE_FILE)
        return text is not None and read_gate_file(text.decode(errors="replace"), GATE_FILE).review == "required"
    except (DocumentWrong, FileTooLarge, MissingCommit):
        return False


class CannotRun(UserError):
    """A run that cannot begin as asked: wrong plan or repository. One sentence with the mend."""


@dataclass(frozen=True, slots=True)
class Hub:
    """The hub as a run sees it at its beginning."""

    facts: HubFacts
    mirror: Mirror
    heads: dict[str, CommitId]

    def tip_for(self, plan: Plan) -> CommitId:
        """Return the tip of the plan's target, or the commit at which it would be created."""
        return self.heads.get(plan.target) or self.base_of(plan.base)

    def base_of(self, base: str | None) -> CommitId:
        """
        The commit a base names: a branch, a tag, or a commit id; the default branch when there is no name.

        Raises:
            CannotRun: the hub has no such thing.
        """
        name = self.facts.default_branch if base in (None, "HEAD") else base
        if name is None:
            raise CannotRun(f"{self.facts.url} has no default branch; name a `base` in the plan")
        if name in self.heads:
            return self.heads[name]
        tag = self.mirror.hub_refs(f"refs/tags/{name}", f"refs/tags/{name}^{{}}")
        found = tag.get(f"refs/tags/{name}^{{}}") or tag.get(f"refs/tags/{name}")
        if found is not None:
            self.mirror.ensure(found, refs=(f"refs/tags/{name}",))
            return found
        self.mirror.fetch()
        try:
            return CommitId(self.mirror.git.text("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}"))
        except GitFailed as unknown:
            branches = ", ".join(sorted(self.heads)[:8])
            raise CannotRun(
                f"base '{name}' is no branch, tag or commit of {self.facts.url}; branches are: {branches}"
            ) from unknown


def open_hub(where: str, settings: Settings) -> Hub:
    """The hub at a path or URL, mirrored here. Raises HubUnusable, GitFailed."""
    facts = inspect_hub(where, credential_helper=settings.git_credential_helper)
    mirror = open_mirror(facts.url, settings.cache, credential_helper=settings.git_credential_helper)
    heads = {ref.removeprefix("refs/heads/"): at for ref, at in mirror.hub_refs("refs/heads/*").items()}
    return Hub(facts, mirror, heads)


class HubAway(InfrastructureError):
    """The hub of a run under way is not there. One sentence."""


def reopen_hub(where: str, settings: Settings) -> Hub:
    """Open the hub of a run that has begun. Raises HubAway, GitFailed."""
    try:
        return open_hub(where, settings)
    except HubUnusable as away:
        hub = without_password(where)
        raise HubAway(f"the hub {hub} is not there as it was ({away}); when it is back, resume again") from away


def read_plan(path: Path, hub: Hub, *, name: str = "") -> Plan:
    """
    Return the plan, expanded over the tree its tasks will start from. `name` is the file's in mistakes; default: the
    path.

    Raises:
        DocumentWrong, CannotRun: the plan is wrong, or its base is unknown.
    """

    def files() -> Sequence[str]:
        target, base = _target_and_base(path)
        tip = hub.heads.get(target) or hub.base_of(base)
        hub.mirror.ensure(tip)
        return tree_paths(hub.mirror.git, tip)

    return _with_targets_review(load_plan(path, files=files, name=name), hub)


def _with_targets_review(plan: Plan, hub: Hub) -> Plan:
    """The plan; where it says nothing of reviews, with what its target has to say of them."""
    if plan.review is not None:
        return plan
    tip = hub.tip_for(plan)
    hub.mirror.ensure(tip)
    try:
        text = read_file(hub.mirror.git, tip, GATE_FILE)
        word = None if text is None else read_gate_file(text.decode(errors="replace"), GATE_FILE).review
    except (DocumentWrong, FileTooLarge):
        return plan  # Whoever asks the target for its checks tells what is wrong with the file.
    if word is None or word == "required":
        return plan
    return plan.model_copy(update={"review": review_by(word)})


def _target_and_base(path: Path) -> tuple[str, str | None]:
    """Read target and base before the whole plan: a fan-out needs the tree they name."""
    said = read(path.read_text(encoding="utf-8"), str(path)).data
    if not isinstance(said, dict):
        return "", None
    base = said.get("base")
    target = said.get("target") or f"forgepool/{said.get('name')}"
    return str(target), None if base is None else str(base)


def carry_assets(plan: Plan, source: Path | None, hub: Hub, folder: Path, run: str) -> str:
    """
    Return the commit of the plan's assets, kept in the run's folder and in the hub; empty if it has none.

    They are copied from `source`; without one the copies in the run's folder are used.

    Raises:
        CannotRun: a file has changed since the plan was read, or the hub does not keep them.
    """
    from forgepool.workers.workspace.assets import AssetsChanged, copy_assets, publish_assets

    kept = folder / "assets"
    try:
        if source is not None:
            copy_assets(plan.assets, source, kept)
        return publish_assets(plan.assets, kept, hub.mirror, run)
    except AssetsChanged as changed:
        raise CannotRun(str(changed)) from changed


_MOST_DONE, _TOGETHER = 30, 10
_OF_ATTEMPTS = (candidate_ref, result_ref, work_ref)


def find_done_refs(course: PlanIndex, state: RunState, mirror: Mirror, folder: Path) -> list[str]:
    """
    List the refs of the tasks that landed last, for the next landing to remove, but for those of attempts that lost a
    race. A merge queue removes its own.

    Left out are tasks that a check under way may still compose, and transcripts that the run's folder lacks; ten of
    them are brought here at once.
    """
    if state.submitted:
        return []
    sent = [each.issued_at for each in state.outstanding().values() if each.kind in ("check", "review")]
    landed = [task for task in state.in_phase("landed") if task.ended < min(sent, default=math.inf)]
    landed = sorted(landed, key=lambda task: task.ended)[-_MOST_DONE:]
    led = [task for task in landed if not isinstance(course.tasks[task.id].agent, CommandAgent)]
    away = {task.id for task in led if not _transcript(folder, task.id, task.attempt).exists()}
    if len(away) >= _TOGETHER:
        with suppress(GitFailed):
            bring_home(mirror, state.run, folder, tasks=away)
    names: list[str] = []
    for task in landed:
        attempts = [number for number in range(1, task.last_attempt + 1) if number not in task.withdrawn]
        names += [ref(state.run, task.id, attempt) for attempt in attempts for ref in _OF_ATTEMPTS]
        here = (attempt for attempt in attempts if _transcript(folder, task.id, attempt).exists())
        names += [marker_ref(state.run, task.id), *(progress_ref(state.run, task.id, attempt) for attempt in here)]
    return names


def _transcript(folder: Path, task: str, attempt: int) -> Path:
    from forgepool.workers.workspace.workspace import TRANSCRIPT, attempt_logs

    return attempt_logs(folder, task, attempt) / TRANSCRIPT


def bring_home(mirror: Mirror, run: str, folder: Path, *, tasks: Collection[str] | None = None) -> None:
    """
    Write the transcripts of the tasks, or all, that the hub keeps and the run's folder lacks.

    One that is here is whole.

    Raises:
        GitFailed: the hub could not be asked.
    """
    from forgepool.workers.workspace.checkpoints import transcripts

    for task, attempt, text in transcripts(mirror, run):
        place = _transcript(folder, task, attempt)
        if not place.exists() and (tasks is None or task in tasks):
            place.parent.mkdir(parents=True, exist_ok=True)
            draft = place.with_name(f".{place.name}")
            draft.write_bytes(text)
            draft.replace(place)
