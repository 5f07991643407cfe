"""
Refuses runs that cannot work, before anything is started, by trying what they need.

Examples are a target that is checked out, a plan without checks, an unwritable hub, Redis or home.
"""

import math
import shutil
import tempfile
from collections.abc import Iterator, Sequence

from forgepool.orchestrator.decisions.plan_index import PlanIndex
from forgepool.orchestrator.decisions.reasons import count_of
from forgepool.orchestrator.launch import embedded
from forgepool.orchestrator.plan.addition import list_rungs
from forgepool.orchestrator.plan.document import Plan, Task
from forgepool.orchestrator.plan.entries import PlanReview
from forgepool.orchestrator.plan.requirements import wants_model_server
from forgepool.orchestrator.run import run_folder
from forgepool.orchestrator.run.dispatch import FULL_CHARACTERS
from forgepool.orchestrator.run.hub import CannotRun
from forgepool.workers.agents.families import is_same_model
from forgepool.workers.llm.routing.open import keys_present
from forgepool.workers.llm.routing.router import ModelChoice, RoutingQuestion, candidates, choose
from forgepool.workers.llm.routing.table import Table, read_table, unknown
from forgepool.workers.policy.network import require_hosts
from forgepool.workers.policy.sources import policy_of, require_check_hosts
from forgepool.workers.queue.broker import connect, ping
from forgepool.workers.sandbox.layers import NoSandbox, choose_level
from forgepool.workers.schema.capabilities import missing_extra
from forgepool.workers.schema.confinement import Level
from forgepool.workers.schema.orders import AcpAgent, AgentSpec, BuiltinAgent, CliAgent, PhaseName
from forgepool.workers.schema.settings import Settings
from forgepool.workers.tools.config import read_tool_config
from forgepool.worktrees.errors import InfrastructureError
from forgepool.worktrees.git.git import CommitId
from forgepool.worktrees.hub.mirror import Mirror
from forgepool.worktrees.hub.push import Pushed, RefUpdate

_PHASES: tuple[PhaseName, ...] = ("plan", "execute")


_WAYS_OUT = (
    "Set another vendor's key, or write in the plan: `review: self-other-model` (another model of the same vendor "
    "reviews), `review: person`, or `review: none`"
)


class CannotReach(InfrastructureError):
    """Infrastructure stands in the way of a run; one sentence says what to do."""


def check_transport(settings: Settings) -> None:
    """Check that a Redis accepts us, or that there is one to start."""
    if settings.broker_url is not None:
        ping(connect(settings.broker_url), settings.broker_url)
    else:
        embedded.redis_binary(settings)


def check_agents(plan: Plan, settings: Settings) -> None:
    """
    Check that this machine has a model or a program for each task. With a shared Redis, other hosts do the work, so
    nothing is checked.

    Raises:
        CannotRun: no model can be asked, or a program is missing.
        HostsRefused: a task or a check wants a network host that the person does not allow.
        DocumentWrong: the models file, the tools file or the policy is invalid.
    """
    if settings.broker_url is not None:
        return
    table = read_table(settings.models_file)
    read_tool_config(settings.tools_file)
    _check_hosts(plan, settings)
    _check_reviewers(plan, table)
    proven: set[tuple[str | None, ...]] = set()
    rungs = (rung for each in plan.tasks for rung in list_rungs(each))
    for task, own in ((each, own) for each in rungs for own in (each.agent, each.leads)):
        match own:
            case BuiltinAgent() as agent:
                for phase in _PHASES:
                    asked = (task.type, phase, agent.models.get(phase) or agent.model)
                    if asked not in proven:
                        _check_model(table, task, RoutingQuestion(task_type=task.type, phase=phase, model=asked[2]))
                        proven.add(asked)
            case CliAgent(program=program) | AcpAgent(program=program) if shutil.which(program) is None:
                raise CannotRun(
                    f"task '{task.id}' needs {program}, which is not on PATH; install it, or choose another agent"
                )
            case AcpAgent() if missing := missing_extra("acp"):
                raise CannotRun(f"task '{task.id}' has an agent that speaks the Agent Client Protocol: {missing}")
            case _:
                pass


def check_sandbox(plan: Plan, settings: Settings) -> Level | None:
    """
    Return the confinement that commands will have on this machine; None where other hosts do the work.

    Raises:
        CannotReach: no confinement that the settings ask for is available.
        CannotRun: the available one cannot open the network, and a task needs it.
    """
    if settings.broker_url is not None:
        return None
    try:
        level = choose_level(settings.sandbox)
    except NoSandbox as trouble:
        raise CannotReach(str(trouble)) from trouble
    if level == "landlock":
        for task in plan.tasks:
            if task.network or wants_model_server(task):
                raise CannotRun(
                    f"task '{task.id}' needs the network, and only bubblewrap can limit commands to a few hosts; "
                    "install bubblewrap (Debian and Ubuntu: apt-get install bubblewrap)"
                )
    return level


def _check_hosts(plan: Plan, settings: Settings) -> None:
    policy = policy_of(person=(person := settings.policy_file))
    checks = plan.checks if isinstance(plan.checks, tuple) else ()
    require_check_hosts({check.name: check.network for check in checks}, settings)
    for task in plan.tasks:
        require_hosts(policy, task.network, asked_by="plan", what=f"task '{task.id}'", person=person)


def _check_reviewers(plan: Plan, table: Table) -> None:
    review = plan.review
    for name in review.policy.by if review is not None and review != "none" else ():
        if name not in table.models:
            raise CannotRun(f"`by` of `review` names an unknown model: {unknown('model', name, table.models)}")


def _check_model(table: Table, task: Task, question: RoutingQuestion) -> None:
    choice = choose(table, question, keys=keys_present(table))
    if isinstance(choice, str):
        raise CannotRun(f"task '{task.id}' asks for an unknown model: {choice}")
    if all(one.wants_key is not None for one in choice.candidates):
        ladder = [each for name in task.ladder if name in table.models for each in candidates(table, name, keys=())]
        wanting: dict[str, str] = {}
        for candidate in (*ladder, *choice.candidates):
            if candidate.wants_key is not None:
                wanting.setdefault(candidate.wants_key, candidate.model)
        keys = " or ".join(f"{key} ({model})" for key, model in wanting.items())
        raise CannotRun(f"task '{task.id}' needs a model, but no key is set; set {keys}")


def check_home(settings: Settings) -> None:
    """Write a page and remove it: without a writable journal a run must not start."""
    folder = run_folder.runs_folder(settings)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as page:
            page.write(bytes(64 * 1024))
            page.flush()
    except OSError as trouble:
        raise CannotReach(
            f"{folder} cannot be written: {trouble.strerror}; make room there, or set FORGEPOOL_HOME to another folder"
        ) from trouble


def check_hub_writable(mirror: Mirror, run: str) -> None:
    """
    Create and remove a ref, so that a missing permission shows now and not at the first candidate.

    Those of runs that were killed in between are removed as well.
    """
    blob = CommitId(mirror.git.text("hash-object", "-w", "--stdin", stdin=b"forgepool\n"))
    probe = f"refs/forgepool/{run}/probe"
    said = mirror.push([RefUpdate(ref=probe, new=blob, expected=None)])
    if not isinstance(said, Pushed):
        raise CannotReach(f"the hub {mirror.hub} rejects our pushes: {said}; get permission to push there")
    there = {probe: blob, **mirror.hub_refs("refs/forgepool/*/probe")}
    if not isinstance(mirror.push([RefUpdate(ref=ref, new=None, expected=at) for ref, at in there.items()]), Pushed):
        # Another run has just removed one of them.
        mirror.push([RefUpdate(ref=probe, new=None, expected=blob)])


def unreviewable(plan: Plan, settings: Settings) -> str | None:
    """
    Return a warning for candidates that no model here can review; None where all can be, or where other hosts review.

    Only the built-in agent's models are known beforehand. For other agents, any reviewer will do.
    """
    course = PlanIndex(plan, {})
    policy, whole = course.review_policy, course.integration_review != "never"
    if settings.broker_url is not None or policy.script is not None or not (course.reviewed or whole):
        return None
    if isinstance(plan.review, PlanReview) and plan.review.person:
        return None
    table = read_table(settings.models_file)
    askable = list(_askable(table, "review", "review", policy.by or (None,)))
    if course.independence == "other_model" and not policy.by:
        askable += _askable(table, "review", "review", tuple(table.models))
    reviewers = {choice.family for choice in askable}
    stuck = [
        task.id
        for task in plan.tasks
        if task.id in course.reviewed
        and not task.answers
        and not all(_has_reviewer(course, askable, _authors(table, one.agent, one.type)) for one in list_rungs(task))
    ]
    if not stuck:
        return _unreviewable_as_a_whole(plan, table, reviewers) if whole else None
    shown = ", ".join(stuck[:5]) + (f" and {len(stuck) - 5} more" if len(stuck) > 5 else "")
    return (
        f"no model here can review {shown}: reviewers must be of another "
        f"{'vendor family' if course.independence == 'other_family' else 'model'} than the author, and no key for one "
        f"is set. Candidates that pass their checks will wait for `forgepool approve`. {_WAYS_OUT}"
    )


def _unreviewable_as_a_whole(plan: Plan, table: Table, reviewers: set[str]) -> str | None:
    """Return a warning where every reviewer here is of a family that also writes for the plan."""
    rungs = [rung for task in plan.tasks for rung in list_rungs(task)]
    families = {family for task in rungs for family in _families(table, task.agent, task.type)}
    if reviewers - families:
        return None
    of = f" of another family than {', '.join(sorted(families))}" if families else ""
    return (
        f"no model{of} has a key here, so the integration review at the end of the run will wait for "
        "`forgepool approve --wave`. Set another vendor's key, or write `integration_review: never` in the plan's "
        "`gate`"
    )


def find_tight_windows(plan: Plan, settings: Settings) -> Iterator[str]:
    """
    Yield a warning for each task whose `:full` needs may not fit its model's window, as far as this host's table knows.
    """
    # Cards are made of much that a run's own process need not import.
    from forgepool.workers.agents.briefing.card_sections import AIM
    from forgepool.workers.agents.briefing.task_card import DIFF_BYTES
    from forgepool.workers.context.transcript.usage import USUAL

    if not any(need.full for task in plan.tasks for need in task.needs):
        return
    table, commands = read_table(settings.models_file), {one.id for one in plan.tasks if one.agent.kind == "command"}
    for task in plan.tasks:
        # A command says nothing of its work, and what it changed is a diff alone.
        full = [DIFF_BYTES + (0 if need.id in commands else FULL_CHARACTERS) for need in task.needs if need.full]
        if not full or not isinstance(task.agent, BuiltinAgent):
            continue
        named = task.agent.models.get("plan") or task.agent.model
        chosen = next(_askable(table, task.type, "plan", (named,)), None)
        window = table.models[chosen.model].window_tokens if chosen is not None else math.inf
        if chosen is not None and (tokens := sum(full) / USUAL) > AIM * window:
            yield (
                f"task '{task.id}' needs the whole result of {count_of(len(full), 'task')}, up to about {tokens:,.0f} "
                f"tokens, and model '{chosen.model}' has a window of {window:,}; what does not fit in {AIM:.0%} of it "
                "is told in short, with the path of the whole: write ID for ID:full, or name a larger model"
            )


def only_family(settings: Settings) -> str | None:
    """Return the one family of models that can be asked here; None where there are none, or several."""
    table = read_table(settings.models_file)
    families = {one.family for one in _askable(table, "review", "review", tuple(table.models))}
    return families.pop() if len(families) == 1 else None


def _has_reviewer(course: PlanIndex, askable: Sequence[ModelChoice], authors: Sequence[ModelChoice]) -> bool:
    families, models = {author.family for author in authors}, [one.model for one in authors]
    if course.independence == "other_family":
        return any(one.family not in families for one in askable)
    return any(not is_same_model(choice.model, models) for choice in askable)


def _families(table: Table, agent: AgentSpec, task_type: str) -> set[str]:
    return {one.family for one in _authors(table, agent, task_type)}


def _authors(table: Table, agent: AgentSpec, task_type: str) -> list[ModelChoice]:
    """Return the models that will lead an agent, as far as they are known here."""
    if not isinstance(agent, BuiltinAgent):
        return []
    named = {phase: agent.models.get(phase) or agent.model for phase in _PHASES}
    # The first of each phase will do the work as long as it can be asked.
    first = [next(iter(_askable(table, task_type, phase, (model,))), None) for phase, model in named.items()]
    return [one for one in first if one is not None]


def _askable(table: Table, task_type: str, phase: PhaseName, models: Sequence[str | None]) -> Iterator[ModelChoice]:
    """Yield the models that have a key, in the order in which they would be asked."""
    keys = keys_present(table)
    for model in models:
        choice = choose(table, RoutingQuestion(task_type=task_type, phase=phase, model=model), keys=keys)
        if not isinstance(choice, str):
            yield from (candidate for candidate in choice.candidates if candidate.wants_key is None)
