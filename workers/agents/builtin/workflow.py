"""
Workflows: the phases of the built-in agent as data, from YAML files.

They are built in (`workflows/`) or the repository's own in `.forgepool/workflows/`. A workflow of the repository
replaces a built-in one of the same name. `phases.py` leads an agent through them.
"""

from collections.abc import Iterator, Sequence
from functools import cache
from importlib import resources
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from forgepool.workers.agents.briefing.own_files import own_names, own_text, unknown_name
from forgepool.workers.agents.briefing.system_prompt import check_tools
from forgepool.workers.schema.documents import read, validate
from forgepool.workers.schema.mistakes import DocumentWrong, Mistake, Slug, Where, show_value
from forgepool.workers.schema.orders import Message, PhaseName
from forgepool.worktrees.git.git import CommitId, Git

Artifact = Literal["plan", "report", "failing-test", "change"]
_MOST_PHASES = 8
_Name = Annotated[str, Field(min_length=1)]


class WorkflowPhase(Message):
    """One phase: the artifact that it must produce, and what it may use for that."""

    name: Slug
    artifact: Artifact
    skill: _Name | None = None
    model: _Name | None = None
    """A model of the worker's model table. A model that the task names takes precedence."""
    tools: Annotated[tuple[str, ...], AfterValidator(check_tools)] | None = None
    """The only tools it has, of those that its artifact permits; None leaves it all of these."""
    turns: int | None = Field(default=None, ge=1)
    """The most turns of the model, in all conversations of the phase together."""
    instructions: str = ""
    """A text that is added to the phase's prompt."""
    on_failure: Literal["mend", "stop", "undo"] | None = None
    """For a plan that is not committed, or a change that is red; None is `mend`."""

    @property
    def kind(self) -> PhaseName:
        """Return the phase whose tools, models and policy it has."""
        return "plan" if self.artifact in ("plan", "report") else "execute"


class Workflow(Message):
    """The phases of an attempt, in their order."""

    name: Slug
    description: _Name
    phases: tuple[WorkflowPhase, ...] = Field(min_length=1)

    @property
    def answers(self) -> bool:
        """True for a workflow that ends with a report, and changes nothing."""
        return self.phases[-1].artifact == "report"


def why_unfit(workflow: Workflow, *, answers: bool, leads: bool) -> str | None:
    """Return why a task cannot have this workflow; None if it can."""
    if leads:
        return "it leads, which no workflow does; remove 'workflow', or 'leads'"
    if workflow.answers and not answers:
        return f"the workflow '{workflow.name}' ends with a report; write 'answers: true', or choose another workflow"
    if answers and not workflow.answers:
        return f"it answers, and the workflow '{workflow.name}' ends with a change; choose one that ends with a report"
    return None


FOLDER = ".forgepool/workflows"


def find_workflow(name: str, git: Git, base: CommitId) -> Workflow:
    """
    Return the repository's workflow of that name at `base`, else the built-in one.

    Raises:
        DocumentWrong: the workflow does not exist, or its file is wrong.
        GitFailed: the repository cannot be read.
    """
    own = own_names(git, base, FOLDER, ".yaml")
    if name in own:
        file = f"{FOLDER}/{name}.yaml"
        return parse_workflow(own_text(git, base, file), file, name)
    if name in builtin_workflows():
        return builtin_workflow(name)
    if name in own_names(git, base, FOLDER, ".yml"):
        raise DocumentWrong(f"{FOLDER}/{name}.yml", [Mistake(0, f"it must be called {name}.yaml; rename it")])
    raise unknown_name("workflow", name, FOLDER, (*own, *builtin_workflows()))


@cache
def builtin_workflows() -> tuple[str, ...]:
    """Return the sorted names of the built-in workflows."""
    files = resources.files("forgepool.workers.agents.builtin").joinpath("workflows").iterdir()
    return tuple(sorted(file.name.removesuffix(".yaml") for file in files if file.name.endswith(".yaml")))


@cache
def builtin_workflow(name: str) -> Workflow:
    file = resources.files("forgepool.workers.agents.builtin").joinpath("workflows", f"{name}.yaml")
    return parse_workflow(file.read_text(encoding="utf-8"), file.name, name)


def parse_workflow(text: str, file: str, name: str) -> Workflow:
    """
    Parse the text of a workflow file called `<name>.yaml`.

    Raises:
        DocumentWrong: with every mistake's file and line.
    """
    document = read(text, file)
    workflow = validate(document, Workflow)
    wrong = [Mistake(document.line(where), sentence) for where, sentence in _mistakes(workflow, name)]
    if wrong:
        raise DocumentWrong(file, wrong)
    return workflow


def _mistakes(workflow: Workflow, name: str) -> Iterator[tuple[Where, str]]:
    """Yield the place and the sentence of everything that does not fit together."""
    phases = workflow.phases
    if workflow.name != name:
        yield ("name",), f"'name' must be {show_value(name)}, as the file is called, is {show_value(workflow.name)}"
    if len(phases) > _MOST_PHASES:
        yield ("phases",), f"has {len(phases)} phases; {_MOST_PHASES} are allowed"
    names = [phase.name for phase in phases]
    for at, phase in enumerate(phases):
        here = f"phase '{phase.name}'"
        if phase.name in names[:at]:
            yield ("phases", at, "name"), f"a second phase is called '{phase.name}'; give it another name"
        if phase.on_failure and phase.artifact not in ("plan", "change"):
            yield (
                ("phases", at, "on_failure"),
                f"{here} has an 'on_failure', which only plans and changes have; "
                f"without its {phase.artifact} the attempt ends: remove it",
            )
        elif phase.on_failure == "undo" and (why := _why_lasting(phases[:at], phase)):
            yield ("phases", at, "on_failure"), f"{here} {why}; write mend or stop"
        if phase.kind == "execute" and workflow.answers:
            yield (
                ("phases", at, "artifact"),
                f"{here} writes files, and a workflow that ends with a report changes nothing; "
                "end it with a change, or remove the phase",
            )
    if phases[-1].artifact not in ("change", "report"):
        yield (
            ("phases", len(phases) - 1, "artifact"),
            f"the last phase must end with a change or a report, and '{phases[-1].name}' ends with a "
            f"{phases[-1].artifact}; add a phase after it",
        )


def _why_lasting(before: Sequence[WorkflowPhase], phase: WorkflowPhase) -> str | None:
    """Return why a phase cannot be undone; None if the last work before it was verified, so that undo returns to it."""
    if phase.artifact == "plan":
        return "is a plan, which changes no file that could be undone"
    work = [one.artifact for one in before if one.kind == "execute"]
    if "change" not in work:
        return "would be undone, with no verified change before it to return to"
    if work[-1] != "change":
        return "would be undone to a failing test, which no change makes pass"
    return None
