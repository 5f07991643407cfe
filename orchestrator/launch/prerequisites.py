"""
What is refused before anything is started: each is found out by trying it.

An unusable target, a plan without checks, a hub that does not take our refs, a Redis that does not want us, a home
that cannot be written.
"""

import shutil
import tempfile
from collections.abc import Iterator, Sequence

from forgepool.orchestrator.decisions.plan_index import PlanIndex
from forgepool.orchestrator.launch import embedded
from forgepool.orchestrator.plan.document import Plan
from forgepool.orchestrator.plan.entries import PlanReview
from forgepool.orchestrator.run import run_folder
from forgepool.orchestrator.run.hub import CannotRun, Hub
from forgepool.supervisor.gate.check_entry import GATE_FILE
from forgepool.supervisor.gate_file.document import read_gate_file
from forgepool.workers.agents.families import is_same_model
from forgepool.workers.llm.routing.open import keys_present
from forgepool.workers.llm.routing.router import ModelChoice, RoutingQuestion, choose
from forgepool.workers.llm.routing.table import Table, read_table, unknown
from forgepool.workers.policy.layers import Policy
from forgepool.workers.policy.network import require_hosts, require_hosts_of_all
from forgepool.workers.policy.sources import policy_of
from forgepool.workers.queue.broker import connect, ping
from forgepool.workers.sandbox.layers import NoSandbox, choose_level
from forgepool.workers.sandbox.network.package_access import find_lent_access
from forgepool.workers.schema.confinement import Level
from forgepool.workers.schema.orders import AgentSpec, BuiltinAgent, CliAgent, PhaseName
from forgepool.workers.schema.settings import Settings
from forgepool.workers.tools.config import read_tool_config
from forgepool.worktrees.commits.changes import FileTooLarge, read_file
from forgepool.worktrees.errors import InfrastructureError
from forgepool.worktrees.git.git import CommitId
from forgepool.worktrees.hub.mirror import Mirror
from forgepool.worktrees.hub.push import Pushed, RefUpdate

_PHASES: tuple[PhaseName, ...] = ("plan", "execute")


_WAYS_OUT = (
    "Set another vendor's key, or say in the plan: `review: self-other-model` (another model of the same vendor "
    "reviews), `review: person`, or `review: none`"
)


class CannotReach(InfrastructureError):
    """Infrastructure stands in the way of a run. One sentence with the mend."""


def refuse_unready(plan: Plan, hub: Hub) -> bool:
    """
    Whether the target has a gate file of its own.

    Raises:
        CannotRun: the target is checked out somewhere, or nothing says what must be green.
    """
    folder = hub.facts.checked_out.get(plan.target)
    if folder is not None:
        raise CannotRun(
            f"branch {plan.target} is checked out in {folder}, where landing would pull the rug from under you; "
            f"switch that folder to another branch, or give the plan another `target`"
        )
    tip = hub.tip_for(plan)
    hub.mirror.ensure(tip)
    try:
        text = read_file(hub.mirror.git, tip, GATE_FILE)
    except FileTooLarge as problem:
        raise CannotRun(f"{GATE_FILE} of the target is too large: {problem}") from problem
    if text is not None:
        read_gate_file(text.decode(errors="replace"), GATE_FILE)
    elif plan.checks in (None, ()):
        raise CannotRun(
            f"plan {plan.name} has no checks, and {hub.facts.default_branch or 'the target'} has no {GATE_FILE}; "
            "nothing lands unverified: add `checks:` to either, or say `checks: none` in the plan"
        )
    return text is not None


def prove_transport(settings: Settings) -> None:
    """Before anything is made in the hub or at home: is there a Redis that will have us, or one to start?"""
    if settings.broker_url is not None:
        ping(connect(settings.broker_url), settings.broker_url)
    else:
        embedded.redis_binary(settings)


def prove_agents(plan: Plan, settings: Settings) -> None:
    """
    On one machine, where workers are what this process is: somebody can do each task. Elsewhere workers know best.

    Raises:
        CannotRun: no model can be asked, or a program is not there.
        HostsRefused: a task or a check wants a host that the person does not allow.
        DocumentWrong: the table of models, that of tools, or the policy is written wrongly.
    """
    if settings.broker_url is not None:
        return
    table = read_table(settings.models_file)
    read_tool_config(settings.tools_file)
    _prove_hosts(plan, policy_of(person=settings.policy_file), settings)
    _prove_reviewers(plan, table)
    proven: set[tuple[str | None, ...]] = set()
    for task in plan.tasks:
        match task.agent:
            case BuiltinAgent() as agent:
                for phase in _PHASES:
                    asked = (task.type, phase, agent.models.get(phase) or agent.model)
                    if asked not in proven:
                        _prove_model(table, task.id, RoutingQuestion(task_type=task.type, phase=phase, model=asked[2]))
                        proven.add(asked)
            case CliAgent(program=program) if shutil.which(program) is None:
                raise CannotRun(
                    f"task '{task.id}' is for {program}, which is not on PATH; install it, or choose another agent"
                )
            case _:
                pass


def prove_sandbox(plan: Plan, settings: Settings) -> Level | None:
    """
    What will hold commands, where they run on this machine; None where other hosts do the work.

    Raises:
        CannotReach: nothing holds as the settings want it.
        CannotRun: what holds can let nobody out, and a task needs that.
    """
    if settings.broker_url is not None:
        return None
    try:
        level = choose_level(settings.sandbox)
    except NoSandbox as trouble:
        raise CannotReach(str(trouble)) from trouble
    if level == "landlock":
        for task in plan.tasks:
            if task.network or isinstance(task.agent, CliAgent):
                raise CannotRun(
                    f"task '{task.id}' needs the network, and only bubblewrap can hold commands to a few hosts; "
                    "install bubblewrap (Debian and Ubuntu: apt-get install bubblewrap)"
                )
    return level


def _prove_hosts(plan: Plan, policy: Policy, settings: Settings) -> None:
    lent = find_lent_access(settings)
    checks = plan.checks if isinstance(plan.checks, tuple) else ()
    wanted = {f"check '{check.name}'": check.network for check in checks}
    require_hosts_of_all(policy, wanted, lent.stands_for if lent else ())
    for task in plan.tasks:
        require_hosts(policy, task.network, asked_by="plan", what=f"task '{task.id}'")


def _prove_reviewers(plan: Plan, table: Table) -> None:
    review = plan.review
    for name in review.policy.by if review is not None and review != "none" else ():
        if name not in table.models:
            raise CannotRun(
                f"'by' of 'review' asks for a model that is not known: {unknown('model', name, table.models)}"
            )


def _prove_model(table: Table, task: str, question: RoutingQuestion) -> None:
    choice = choose(table, question, keys=keys_present(table))
    if isinstance(choice, str):
        raise CannotRun(f"task '{task}' asks for a model that is not known: {choice}")
    wanting = {one.wants_key: one.model for one in choice.candidates if one.wants_key is not None}
    if all(one.wants_key is not None for one in choice.candidates):
        keys = " or ".join(f"{key} ({model})" for key, model in wanting.items())
        raise CannotRun(f"task '{task}' needs a model, and there is no key for one; set {keys}")


def prove_home(settings: Settings) -> None:
    """Writes a page and removes it: a journal that cannot be written is no beginning."""
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


def prove_writable(mirror: Mirror, run: str) -> None:
    """Creates and removes a ref: better refused now than when the first candidate is finished."""
    blob = CommitId(mirror.git.text("hash-object", "-w", "--stdin", stdin=b"forgepool\n"))
    probe = f"refs/forgepool/{run}/probe"
    said = mirror.push([RefUpdate(ref=probe, new=blob, expected=None)])
    if not isinstance(said, Pushed):
        raise CannotReach(f"the hub {mirror.hub} takes no refs from us: {said}; get permission to push there")
    mirror.push([RefUpdate(ref=probe, new=None, expected=blob)])


def unreviewable(plan: Plan, settings: Settings) -> str | None:
    """
    One sentence where candidates will want a review, and nobody here can give it to some of them; the run goes on, and
    a person can. Elsewhere than on one machine the hosts know best.

    Authors are known beforehand of the built-in agent alone; of others it is only asked whether there is a reviewer.
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
    reviewers = {one.family for one in askable}
    stuck = [
        task.id
        for task in plan.tasks
        if task.id in course.reviewed and not _has_reviewer(course, askable, _authors(table, task.agent, task.type))
    ]
    if not stuck:
        return _unreviewable_as_a_whole(plan, table, reviewers) if whole else None
    shown = ", ".join(stuck[:5]) + (f" and {len(stuck) - 5} more" if len(stuck) > 5 else "")
    return (
        f"no model of another {'family' if course.independence == 'other_family' else 'name'} than its author's can "
        f"review {shown}: there is no key here for one; what is green will wait for `forgepool approve`. {_WAYS_OUT}"
    )


def _unreviewable_as_a_whole(plan: Plan, table: Table, reviewers: set[str]) -> str | None:
    """Of a family that no task of the plan is of, be it each time another: of these one is wanted."""
    families = {family for task in plan.tasks for family in _families(table, task.agent, task.type)}
    if reviewers - families:
        return None
    of = f"of another family than {', '.join(sorted(families))}" if families else "at all"
    return (
        f"nobody {of} can review what lands as a whole: there is no key here for such a model; the end of the run will "
        "wait for `forgepool approve --wave`. Set another vendor's key, or say `integration_review: never` in the "
        "plan's `gate`"
    )


def only_family(settings: Settings) -> str | None:
    """Return the one family of models that can be asked here; None where there are none, or several."""
    table = read_table(settings.models_file)
    families = {one.family for one in _askable(table, "review", "review", tuple(table.models))}
    return families.pop() if len(families) == 1 else None


def _has_reviewer(course: PlanIndex, askable: Sequence[ModelChoice], authors: Sequence[ModelChoice]) -> bool:
    families, models = {one.family for one in authors}, [one.model for one in authors]
    if course.independence == "other_family":
        return any(one.family not in families for one in askable)
    return any(not is_same_model(one.model, models) for one in askable)


def _families(table: Table, agent: AgentSpec, task_type: str) -> set[str]:
    return {one.family for one in _authors(table, agent, task_type)}


def _authors(table: Table, agent: AgentSpec, task_type: str) -> list[ModelChoice]:
    """The models that an agent may be led by, as far as that is known here."""
    if not isinstance(agent, BuiltinAgent):
        return []
    named = {phase: agent.models.get(phase) or agent.model for phase in _PHASES}
    # The first of each phase will do the work as long as it can be asked.
    first = [next(iter(_askable(table, task_type, phase, (model,))), None) for phase, model in named.items()]
    return [one for one in first if one is not None]


def _askable(table: Table, task_type: str, phase: PhaseName, models: Sequence[str | None]) -> Iterator[ModelChoice]:
    """Those with a key, in the order in which they would be asked."""
    keys = keys_present(table)
    for model in models:
        choice = choose(table, RoutingQuestion(task_type=task_type, phase=phase, model=model), keys=keys)
        if not isinstance(choice, str):
            yield from (one for one in choice.candidates if one.wants_key is None)
