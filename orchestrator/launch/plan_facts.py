"""
Gathers the facts that a plan is validated with, from the commit that it starts from.

They are the tree, the names in it, what its gate protects, and how the acceptance commands end there. Each command has
a clean checkout of its own in the sandbox, with the folders of the target's set-ups. It runs as for a worker.
"""

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from forgepool.orchestrator.plan.document import Plan, Task
from forgepool.orchestrator.plan.overlap import Globs
from forgepool.orchestrator.plan.validation.case import is_by_model
from forgepool.orchestrator.plan.validation.facts import BaseResult, Estimate, PlanFacts
from forgepool.orchestrator.plan.validation.wording import find_quoted_names
from forgepool.orchestrator.run.hub import Hub
from forgepool.supervisor.checks.cannot_fail import why_unfailing
from forgepool.workers.agents.briefing.prediction.predict import predict_files
from forgepool.workers.agents.briefing.system_prompt import builtin_skills, find_skill, repository_skills
from forgepool.workers.agents.builtin.workflow import Workflow, find_workflow, why_unfit
from forgepool.workers.llm.routing.table import read_table
from forgepool.workers.policy.gate_file.document import GATE_FILE, GateFile, effective_checks
from forgepool.workers.policy.gate_file.reading import read_gate_file
from forgepool.workers.policy.network import HostsRefused, require_hosts
from forgepool.workers.policy.sources import policy_of
from forgepool.workers.sandbox.layers import NoSandbox
from forgepool.workers.sandbox.run.process import Command, Ended, run, shell
from forgepool.workers.sandbox.sandbox_profile import Shelter, private
from forgepool.workers.sandbox.scratch import make_scratch
from forgepool.workers.schema.mistakes import DocumentWrong
from forgepool.workers.schema.orders import BuiltinAgent
from forgepool.workers.schema.settings import Settings
from forgepool.workers.workspace.assets import VARIABLE
from forgepool.workers.workspace.checks.dependencies import SetupSite, provide
from forgepool.workers.workspace.scans.protection import is_protected, run_by
from forgepool.worktrees.checkouts.checkout import lease_checkout
from forgepool.worktrees.commits.changes import FileTooLarge, read_file, tree_paths
from forgepool.worktrees.git.git import CommitId, Git, GitFailed
from forgepool.worktrees.hub.mirror import Mirror

LONGEST_S = 300.0
"""Seconds that one acceptance command may take on the base."""
ALL_S = 900.0
"""Seconds that all of them may take together."""
_MOST_NAMES = 300
_NO_MODULE = re.compile(r"No module named '?(\w+)")
_NOT_FOUND = (126, 127)
"""Statuses of a shell that finds no such program, or may not run it."""
Stop = Callable[[], bool]


def gather_facts(
    plan: Plan, hub: Hub, settings: Settings, *, folder: Path, stop: Stop, estimate: Estimate | None = None
) -> PlanFacts:
    """
    Return the facts about the commit that a plan starts from. `folder` is that of its file, for its assets.

    Raises:
        DocumentWrong: the target's gate file or the models file is invalid.
        GitFailed, OSError, Unusable: the repository cannot be read.
    """
    tip = hub.tip_for(plan)
    hub.mirror.ensure(tip)
    git = hub.mirror.git
    paths = tuple(tree_paths(git, tip))
    gate = _gate_of(git, tip)
    checks = effective_checks(gate.checks, plan.checks if isinstance(plan.checks, tuple) else ())
    base = BaseCheckout(plan=plan, mirror=hub.mirror, tip=tip, settings=settings, folder=folder.resolve(), stop=stop)
    covered, run_files = Globs.of(gate.scans.protect), run_by(git, tip, frozenset(paths), checks)
    flows = {task.id: _workflow(task, git, tip) for task in plan.tasks}
    return PlanFacts(
        paths=paths,
        names=find_names(plan, git, tip),
        has_checks=any(check.voting for check in checks),
        protected=frozenset(path for path in paths if is_protected(path) or path in run_files or covered.covers(path)),
        results=dict(base.run_all()),
        likely=predict_likely(plan, git, tip, settings.cache),
        estimate=estimate,
        skills=frozenset((*builtin_skills(), *repository_skills(git, tip))),
        models=frozenset(read_table(settings.models_file).models) if settings.broker_url is None else None,
        workflows={task: why for task, why in flows.items() if isinstance(why, str)},
        phases={task: flow.phases for task, flow in flows.items() if isinstance(flow, Workflow)},
        wrong_skills=_find_wrong_skills(git, tip),
    )


def _find_wrong_skills(git: Git, tip: CommitId) -> dict[str, str]:
    wrong = {}
    for name in repository_skills(git, tip):
        try:
            find_skill(name, git, tip)
        except DocumentWrong as mistaken:
            wrong[name] = "; ".join(mistaken.mistakes)
    return wrong


def _workflow(task: Task, git: Git, tip: CommitId) -> Workflow | str | None:
    """Return the workflow that a task names, or why it cannot have it; None if it names none."""
    if not isinstance(task.agent, BuiltinAgent) or task.agent.workflow is None:
        return None
    try:
        workflow = find_workflow(task.agent.workflow, git, tip)
    except DocumentWrong as wrong:
        return "; ".join(wrong.mistakes)
    return why_unfit(workflow, answers=task.answers, leads=task.leads is not None) or workflow


def predict_likely(plan: Plan, git: Git, tip: CommitId, cache: Path) -> dict[str, list[tuple[str, float]]]:
    """Return the files that each task that declares some changes, too; none where the past is too short to tell."""
    paths = tuple(tree_paths(git, tip))
    likely = {}
    for task in plan.tasks:
        declared = Globs.of(task.files or ())
        given = [path for path in paths if declared.covers(path)]
        if given and is_by_model(task):
            text = "\n".join([task.title, task.description, *task.acceptance])
            found = predict_files(git, tip, text, given, cache=cache / "predictions")
            likely[task.id] = [(one.path, one.probability) for one in found if one.calibrated]
    return likely


def _gate_of(git: Git, tip: CommitId) -> GateFile:
    try:
        text = read_file(git, tip, GATE_FILE)
    except FileTooLarge:
        text = None
    return GateFile(checks=()) if text is None else read_gate_file(text.decode(errors="replace"), GATE_FILE)


def find_names(plan: Plan, git: Git, tip: CommitId) -> frozenset[str]:
    """Return the names in the plan's backticks that occur in the commit; of very many, the rest counts as there."""
    ordered = sorted(find_quoted_names(f"{task.title}\n{task.description}" for task in plan.tasks))
    here = {name for name in ordered[:_MOST_NAMES] if _occurs(name, git, tip)}
    return frozenset(here.union(ordered[_MOST_NAMES:]))


def _occurs(name: str, git: Git, tip: CommitId) -> bool:
    return git.run("grep", "-q", "-I", "-w", "-F", "-e", name, tip, ok=(0, 1)).status == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseCheckout:
    """The commit that a plan starts from, and the means to run commands on it."""

    plan: Plan
    mirror: Mirror
    tip: CommitId
    settings: Settings
    folder: Path
    """The folder of the plan's file, with its assets."""
    stop: Stop

    def run_all(self) -> Iterator[tuple[tuple[str, str], BaseResult]]:
        """
        Yield the result of each acceptance command by task and command. Equal ones run once.

        Left out are commands that cannot fail, and those of tasks that may find their work done, except for guards.
        """
        until = time.monotonic() + ALL_S
        known: dict[tuple[object, ...], BaseResult] = {}
        for task in self.plan.tasks:
            for command in task.acceptance if task.unchanged == "fail" else task.guards:
                if why_unfailing(command):
                    continue
                key = (command, task.network, *sorted(task.env.items()))
                if key not in known:
                    known[key] = self._result(task, command, min(LONGEST_S, until - time.monotonic()))
                yield (task.id, command), known[key]

    def _result(self, task: Task, command: str, left_s: float) -> BaseResult:
        if left_s <= 0:
            return BaseResult(outcome="unknown", why=f"the commands before it took {ALL_S / 60:.0f} minutes")
        try:
            with make_scratch() as logs:
                return self._judge(self._run(task, command, logs, left_s))
        except (NoSandbox, HostsRefused, GitFailed, OSError) as trouble:
            return BaseResult(outcome="unknown", why=str(trouble))

    def _run(self, task: Task, command: str, logs: Path, left_s: float) -> Ended:
        with lease_checkout(self.mirror, self.tip, self.settings.cache / "checkouts") as checkout:
            shelter = Shelter(
                settings=self.settings,
                writable=(checkout.path,),
                protected=(checkout.pointer,),
                readable=(self.mirror.path, *([self.folder] if self.plan.assets else [])),
                network=self._hosts(task),
            )
            site = SetupSite(
                checkout=checkout, shelter=shelter, kept=self.settings.cache / "setups", logs=logs, stop=self.stop
            )
            checks = self.plan.checks if isinstance(self.plan.checks, tuple) else ()
            # The time of the trial also bounds its set-ups, since a model may have written them.
            needs = (check.needs for check in checks if check.needs is not None)
            setups = tuple(
                need.model_copy(update={"timeout_s": max(1.0, min(need.timeout_s, left_s))}) for need in needs
            )
            with private(task.env, shelter) as alone:
                own = provide(alone, site, setups)
                asked = Command(
                    argv=shell(command),
                    cwd=checkout.path,
                    env={**own.env, **({VARIABLE: str(self.folder)} if self.plan.assets else {})},
                    confined=own.confined,
                    log=logs / "acceptance.log",
                    timeout_s=left_s,
                )
                return run(asked, stop=self.stop)

    def _hosts(self, task: Task) -> tuple[str, ...]:
        if not task.network:
            return ()
        person = self.settings.policy_file
        policy = policy_of(person=person, plan=task.policy)
        return require_hosts(policy, task.network, asked_by="plan", what=f"task '{task.id}'", person=person)

    def _judge(self, ended: Ended) -> BaseResult:
        """Tell red from trouble: what the work cannot mend says nothing about the work."""
        if ended.succeeded:
            return BaseResult(outcome="green")
        if ended.how != "exit":
            why = ended.tail if ended.how == "not_started" else f"it {ended.words}"
            return BaseResult(outcome="unknown", why=why)
        if ended.status in _NOT_FOUND:
            return BaseResult(outcome="unknown", why=f"it {ended.words}: a program is missing in the sandbox")
        for module in _NO_MODULE.findall(ended.excerpt):
            if not self._is_ours(module):
                return BaseResult(outcome="unknown", why=f"Python has no module '{module}' in the sandbox")
        return BaseResult(outcome="red")

    def _is_ours(self, module: str) -> bool:
        """Tell whether the repository holds a module, or a task may make it."""
        globs = [glob for task in self.plan.tasks for glob in task.files or ("**",)]
        paths = [*tree_paths(self.mirror.git, self.tip), *globs]
        return any("**" in path or re.search(rf"(^|/){module}(\.\w+$|/)", path) for path in paths)
