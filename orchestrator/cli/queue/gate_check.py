"""`forgepool gate check`: the gate on any two commits of a repository, as a CI step or a hook asks it."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from forgepool.orchestrator.cli.commands import CommandGroup
from forgepool.orchestrator.cli.output.say import complain, say_json
from forgepool.orchestrator.cli.queue import serve
from forgepool.orchestrator.cli.queue.protecting import protect
from forgepool.orchestrator.cli.queue.verdicts import (
    as_json,
    tell_answer,
    tell_beginning,
    tell_notes,
    tell_progress,
    tell_result,
)
from forgepool.orchestrator.cli.run.running import Sandbox, settings_with
from forgepool.orchestrator.cli.run.target_check import interruptible
from forgepool.orchestrator.launch.gate_check import NOBODY, UNKNOWN, GateCheckQuestion, Reviewing, ask, prepare
from forgepool.supervisor.gate_file.document import CheckDefinition
from forgepool.supervisor.gate_file.reading import read_gate_file
from forgepool.supervisor.messages import CheckResult, ReviewPolicy
from forgepool.workers.agents.families import family_said
from forgepool.workers.llm.routing.table import read_table, unknown
from forgepool.workers.schema.globs import parse
from forgepool.workers.schema.segments import BadGlob
from forgepool.workers.schema.settings import Settings
from forgepool.workers.schema.yaml.documents import read_text

_STATUS = {"passes": 0, "nothing": 0, "refused": 1, "trouble": 3}
_INTERRUPTED = 130

Globs = list[str] | None


class BadWish(typer.BadParameter):
    """What cannot be asked of the gate."""


def register(app: typer.Typer) -> None:
    gate = typer.Typer(
        cls=CommandGroup, help="The gate: what a change must pass before it lands.", no_args_is_help=True
    )
    gate.callback()(_gate)
    gate.command()(check)
    # The names of one release ago.
    serve.register(gate, hidden=True)
    gate.command(hidden=True)(protect)
    app.add_typer(gate, name="gate")
    queue = typer.Typer(
        cls=CommandGroup,
        help="The merge queue: each branch that is submitted (an entry) is tested, and lands or is returned.",
        no_args_is_help=True,
    )
    serve.register(queue)
    queue.command()(protect)
    app.add_typer(queue, name="queue")


def _gate() -> None:
    """The gate: what a change must pass before it lands."""


def check(
    base: Annotated[str, typer.Option(help="What it would land on: a branch, a tag or a commit.")],
    head: Annotated[str, typer.Option(help="The change: all that this commit has and the base lacks.")],
    repo: Annotated[str, typer.Option(help="Path or URL of the repository.")] = ".",
    plan_checks: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="More checks than those of the base's forgepool.yaml, in a file of the same form."
        ),
    ] = None,
    grant: Annotated[
        Globs, typer.Option(metavar="GLOB", help="Protected paths and tests that may be changed; may be given again.")
    ] = None,
    waive: Annotated[
        Globs, typer.Option(metavar="RULE", help="A rule of the scans that is not applied; may be given again.")
    ] = None,
    files: Annotated[
        Globs, typer.Option(metavar="GLOB", help="What may be changed at all; may be given again. Default: anything.")
    ] = None,
    author_family: Annotated[
        str,
        typer.Option(metavar="NAME", help=f"Family of the models that wrote it; '{NOBODY}' for a person's."),
    ] = UNKNOWN,
    review: Annotated[
        Reviewing,
        typer.Option(help="auto: review where a model of another family is there. required: fail without one."),
    ] = "auto",
    reviewer: Annotated[str | None, typer.Option(metavar="MODEL", help="Who reviews; default: by the route.")] = None,
    scripted: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A scripted reviewer, which takes the place of models.")
    ] = None,
    scans_only: Annotated[bool, typer.Option("--scans-only", help="Run no check, ask no reviewer.")] = False,
    sandbox: Sandbox = None,
    as_json_: Annotated[bool, typer.Option("--json", help="Answer with one JSON object.")] = False,
) -> int:
    """
    Ask the gate whether a change may land: scans, then the base's own checks on the composed tree, then a review.

    Nothing lands, and the repository is not written to. Exit status: 0 it may, 1 it may not, 2 wrong usage,
    3 infrastructure, 130 interrupted.
    """
    settings = settings_with(None, sandbox)
    question = GateCheckQuestion(
        where=repo,
        base=base,
        head=head,
        plan_checks=_checks(plan_checks),
        grants=_globs("--grant", grant),
        waive=_rules(waive),
        files=None if files is None else _globs("--files", files),
        family=_family(author_family, settings),
        reviewing=review,
        policy=_policy(reviewer, scripted, settings),
        scans_only=scans_only,
    )
    ready = prepare(question, settings)
    if not as_json_:
        tell_beginning(ready)

    def show_progress(result: CheckResult) -> None:
        if not as_json_:
            tell_result(result, scans_only=scans_only, person=question.family == NOBODY)

    with interruptible() as stop:
        told = (lambda progress: None) if as_json_ else partial(tell_progress, base=ready.named[0])
        answer = ask(ready, settings, stop=stop, heard=show_progress, hear=told)
        interrupted = stop()
    if as_json_:
        say_json(as_json(ready, answer, interrupted=interrupted))
    elif not interrupted:
        tell_answer(answer, question.policy.threshold)
        if answer.result is not None and question.family == NOBODY:
            tell_notes(answer.result)
    if interrupted:
        return complain("interrupted before there was a verdict", _INTERRUPTED)
    return _STATUS[answer.verdict]


def _checks(file: Path | None) -> tuple[CheckDefinition, ...]:
    return () if file is None else read_gate_file(read_text(file, str(file)), str(file)).checks


def _globs(option: str, written: Globs) -> tuple[str, ...]:
    for glob in written or ():
        if glob.startswith("/"):
            raise BadWish(
                f"{option} has the glob '{glob}', which begins at the root of the disk; give one of the tree's"
            )
        try:
            parse(glob)
        except BadGlob as bad:
            raise BadWish(f"{option} has the {bad}") from bad
    return tuple(written or ())


def _rules(written: Globs) -> tuple[str, ...]:
    if not written:
        return ()
    from forgepool.supervisor.gate_file.document import RULES

    for rule in written:
        if rule not in RULES:
            raise BadWish(f"--waive: {unknown('rule', rule, tuple(RULES))}")
    return tuple(written)


def _family(word: str, settings: Settings) -> str:
    if word in (UNKNOWN, NOBODY):
        return word
    table = read_table(settings.models_file)
    family = family_said(word, table)
    if family is None:
        known = sorted({model.family for model in table.models.values()})
        raise BadWish(f"--author-family: {unknown('family', word, known)}, or give the model's own name")
    return family


def _policy(reviewer: str | None, scripted: Path | None, settings: Settings) -> ReviewPolicy:
    if scripted is not None:
        if reviewer is not None:
            raise BadWish("--reviewer and --scripted name two reviewers; give one of them")
        return ReviewPolicy(script=read_text(scripted, str(scripted)))
    if reviewer is None:
        return ReviewPolicy()
    known = read_table(settings.models_file).models
    if reviewer not in known:
        raise BadWish(f"--reviewer: {unknown('model', reviewer, known)}")
    return ReviewPolicy(by=(reviewer,))
