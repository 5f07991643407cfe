"""`forgepool gate check`: the gate on any two commits of a repository, as a CI step or a hook asks it."""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from forgepool.orchestrator.cli.app import CommandGroup
from forgepool.orchestrator.cli.output.say import complain, say, say_json
from forgepool.orchestrator.cli.queue import serve
from forgepool.orchestrator.cli.queue.protecting import protect
from forgepool.orchestrator.cli.run.check import interruptible
from forgepool.orchestrator.cli.run.run import Sandbox, settings_with
from forgepool.orchestrator.decisions.reasons import count_of
from forgepool.orchestrator.launch.gate_check import (
    NOBODY,
    UNKNOWN,
    GateCheckAnswer,
    GateCheckQuestion,
    Ready,
    Reviewing,
    ask,
    prepare,
)
from forgepool.supervisor.checks.running import CheckProgress
from forgepool.supervisor.findings import ReviewFinding, ScanFinding, Threshold, blocking
from forgepool.supervisor.gate_file.document import CheckDefinition, read_gate_file
from forgepool.supervisor.messages import Advice, Certificate, CheckFailure, CheckResult, Review, ReviewPolicy
from forgepool.workers.agents.families import family_said
from forgepool.workers.llm.routing.table import read_table, unknown
from forgepool.workers.schema.error_lines import error_lines, without_escapes
from forgepool.workers.schema.globs import parse
from forgepool.workers.schema.segments import BadGlob
from forgepool.workers.schema.settings import Settings
from forgepool.workers.schema.yaml.documents import read_text

_TAIL_LINES = 40
_MOST_TESTS = 20
_MEANT = {"blocks": "", "attention": " (needs a review)", "note": " (a note)"}
_WEIGHTS = tuple(_MEANT)


def tell_beginning(ready: Ready) -> None:
    base, head = ready.named
    found = ready.change
    count = "one commit" if found.commits == 1 else f"{found.commits} commits"
    say(f"gate: {count} of {head} ({found.head[:12]}), as one change on {base} ({found.base[:12]})")


def tell_result(result: CheckResult, *, scans_only: bool, person: bool = False) -> None:
    """What scans and checks said. Of a person's change, notes come below the result (`tell_notes`)."""
    scanned = result.verdict not in ("conflict", "stale", "infrastructure", "not_configured")
    counting = [one for one in result.findings if one.weight != "note" or not person]
    if (scanned and not (person and result.findings)) or counting:
        say(f"scans: {count_of(len(counting), 'finding') if counting else 'nothing found'}")
        for finding in sorted(counting, key=lambda one: _WEIGHTS.index(one.weight)):
            say(_found(finding))
    if scans_only:
        return
    if result.certificates:
        say(f"checks: {', '.join(_green(one) for one in result.certificates)}")
    for line in (*_advised(result), *_excused(result)):
        say(line)
    for failure in result.failures:
        for line in _failed(failure):
            say(line)
    if result.reproduce and result.verdict != "findings":
        say(f"see it again: {result.reproduce}")


def tell_answer(answer: GateCheckAnswer, threshold: Threshold) -> None:
    """The review, and the last line: what it comes to."""
    if answer.review is not None:
        for line in _reviewed(answer.review, threshold):
            say(line)
    elif answer.result is not None and answer.result.verdict == "green" and answer.verdict == "passes":
        say(f"review: none, {answer.unreviewed}")
    match answer.verdict:
        case "passes":
            say("passes", style="green")
        case "nothing":
            say("passes: it changes nothing, so there is nothing to check", style="green")
        case "refused":
            say(f"does not pass: {answer.why}", style="red")
        case "trouble":
            say(f"no verdict: {answer.why}", style="yellow")


def tell_progress(progress: CheckProgress, base: str) -> None:
    """One line whenever a check begins or ends, for a person who waits."""
    where = _where(progress.label.partition("-for-")[0].split("-"), base)
    match progress.what:
        case "scanned":
            say("scans are done")
        case "begun":
            say(f"check '{progress.check}' runs {where}")
        case _:
            say(f"check '{progress.check}' is {progress.what} {where} ({progress.seconds:.1f} s)")


def _where(label: Sequence[str], base: str) -> str:
    again = ", again" if "again" in label or "anew" in label else ""
    if "base" in label:
        return f"on {base} itself{again}"
    if "protected" in label:
        return f"on the change with the tests of {base}{again}"
    return f"on the change{again}"


def tell_notes(result: CheckResult) -> None:
    """What scans only report of a person's change, in one block."""
    notes = [one for one in result.findings if one.weight == "note"]
    if notes:
        say("scans report, and hold nothing up:")
    for one in notes:
        say(f"  {_place(one.path, one.line)}: {one.rule}: {one.said}")


def as_json(ready: Ready, answer: GateCheckAnswer, *, interrupted: bool) -> dict[str, object]:
    result, review = answer.result, answer.review
    return {
        "verdict": "interrupted" if interrupted else answer.verdict,
        "why": answer.why,
        "base": answer.change.base,
        "head": answer.change.head,
        "commits": answer.change.commits,
        "gate": result.verdict if result else None,
        "tree": result.tree if result else None,
        "patch_id": result.patch_id if result else "",
        "findings": [one.model_dump(mode="json") for one in result.findings] if result else [],
        "checks": [one.model_dump(mode="json") for one in result.certificates] if result else [],
        "advice": [one.model_dump(mode="json") for one in result.advice] if result else [],
        "failures": [one.model_dump(mode="json") for one in result.failures] if result else [],
        "flakes": [one.model_dump(mode="json") for one in result.flaky] if result else [],
        "red_base": list(result.red_base) if result else [],
        "conflict_paths": list(result.conflict_paths) if result else [],
        "reproduce": result.reproduce if result else "",
        "review": review.model_dump(mode="json", exclude={"kind", "token", "request_id"}) if review else None,
        "unreviewed": answer.unreviewed,
        "seconds": round((result.seconds if result else 0.0) + (review.seconds if review else 0.0), 3),
    }


def _found(one: ScanFinding) -> str:
    return f"{_place(one.path, one.line)}: {one.rule}: {one.said}{_MEANT[one.weight]}"


def _place(path: str, line: int) -> str:
    if path in ("", "."):
        return "the whole change"
    return f"{path}:{line}" if line else path


def _green(one: Certificate) -> str:
    told = ["seen earlier on the same inputs" if one.reused else f"{one.seconds:.1f} s"]
    if one.tests is not None:
        told.append("one test" if one.tests == 1 else f"{one.tests} tests")
    if one.findings:
        told.append(f"{count_of(one.findings, 'finding')}, and the base has them all")
    elif one.known_failures:
        told.append(f"{len(one.known_failures)} of them red on the base already")
    return f"'{one.check}' {'adds nothing' if one.findings else 'is green'} ({', '.join(told)})"


def _advised(result: CheckResult) -> Iterator[str]:
    for one in result.advice:
        took = "" if one.green is None else f" ({one.seconds:.1f} s)"
        yield f"checks: {one.words}{took}"
        if not one.green:
            yield from _log(one)


def _excused(result: CheckResult) -> Iterator[str]:
    for flake in result.flaky:
        tests = f": {_some(flake.tests)}" if flake.tests else ""
        yield f"checks: '{flake.check}' was red, then green, on the same tree{tests}"
    if result.red_base:
        yield f"checks: red on the base already, and not counted: {_some(result.red_base)}"


def _failed(one: CheckFailure) -> Iterator[str]:
    what = f"the set-up of '{one.check}'" if one.setup else f"'{one.check}'"
    told = {"exit": f"exited with {one.status}", "timeout": "did not end in its time", "idle": "fell silent"}
    how = told.get(one.how) or one.reason or one.how.replace("_", " ")
    version = ", with the base's own version of the tests and settings" if one.protected else ""
    yield f"checks: {what} is red, {how}{version}"
    if one.problems:
        yield "findings that the base does not have:"
        yield from (f"  {problem}" for problem in one.problems[:_TAIL_LINES])
    elif one.tests:
        yield f"failing: {_some(one.tests)}"
    if not one.problems:
        yield from _log(one)


def _log(one: CheckFailure | Advice) -> Iterator[str]:
    """The first errors of a log, then its end."""
    end = without_escapes(one.log_tail).splitlines()
    yield from (f"  | {line}" for line in error_lines(one.log_tail))
    if one.log:
        yield f"the end of its log, {one.log}:"
    yield from (f"  | {line}" for line in end[-_TAIL_LINES:])


def _reviewed(review: Review, threshold: Threshold) -> Iterator[str]:
    who = ", ".join(review.models) or "no model"
    cost = review.spent.cost_usd
    paid = "at a cost that is not known" if cost is None else f"for {cost:.2f} USD"
    if review.outcome in ("passed", "failed"):
        read = f"read {len(review.read)} of {len(review.changed)} changed files"
        yield f"review: {review.outcome}, by {who}, which {read}, {paid}"
    else:
        yield f"review: {review.outcome}, {review.detail}"
    held = blocking(review.findings, threshold)
    yield from (f"{_place(one.file, one.line)}: {one.severity} {one.category}: {one.claim}" for one in held)
    yield from _fixes(held)
    if dropped := len(review.findings) - len(held):
        yield f"review: {dropped} more findings, which do not block; --json has all"


def _fixes(held: Sequence[ReviewFinding]) -> Iterator[str]:
    for one in held:
        if one.fix:
            yield f"  fix: {one.fix}"


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_TESTS} more" if len(names) > _MOST_TESTS else ""
    return ", ".join(names[:_MOST_TESTS]) + more


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
    from forgepool.supervisor.gate_file.rules import RULES

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
