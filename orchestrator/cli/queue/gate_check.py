"""
`forgepool gate check`: runs the gate on two commits of a repository, for a CI step or a hook. Registers `gate` and
`queue`.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from forgepool.orchestrator.cli.app import add_group
from forgepool.orchestrator.cli.output.say import complain, say, say_json, tell_slow
from forgepool.orchestrator.cli.queue import code_scanning, push_hook, serve
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
from forgepool.supervisor.findings import ReviewFinding, Threshold, blocking
from forgepool.supervisor.messages.answers import Advice, Certificate, CheckFailure, CheckResult, Review
from forgepool.supervisor.messages.requests import ReviewPolicy
from forgepool.workers.agents.families import family_said
from forgepool.workers.llm.routing.table import read_table, unknown
from forgepool.workers.policy.gate_file.document import CheckDefinition
from forgepool.workers.policy.gate_file.reading import read_gate_file
from forgepool.workers.schema.documents import read_text
from forgepool.workers.schema.error_lines import error_lines, without_escapes
from forgepool.workers.schema.globs import BadGlob, parse
from forgepool.workers.schema.settings import Settings
from forgepool.workers.workspace.scans.findings import ScanFinding
from forgepool.worktrees.errors import UserError

_TAIL_LINES = 40
_MOST_TESTS = 20
_MEANT = {"blocks": "", "attention": " (needs a review)", "note": " (a note)"}
_WEIGHTS = tuple(_MEANT)

_STATUS = {"passes": 0, "nothing": 0, "refused": 1, "trouble": 3}
_INFRASTRUCTURE, _INTERRUPTED = 3, 130


def tell_beginning(ready: Ready) -> None:
    base, head = ready.named
    found = ready.change
    count = "one commit" if found.commits == 1 else f"{found.commits} commits"
    say(f"gate: {count} of {head} ({found.head[:12]}), as one change on {base} ({found.base[:12]})")


def tell_result(result: CheckResult, *, scans_only: bool, person: bool = False) -> None:
    """Print the results of scans and checks; scan notes on a person's change follow later (`tell_notes`)."""
    scanned = result.verdict not in ("conflict", "stale", "infrastructure", "not_configured")
    counting = [one for one in result.findings if one.weight != "note" or not person]
    if (scanned and not (person and result.findings)) or counting:
        say(f"scans: {count_of(len(counting), 'finding') if counting else 'nothing found'}")
        for finding in sorted(counting, key=lambda one: _WEIGHTS.index(one.weight)):
            say(_finding_line(finding))
    if scans_only:
        return
    if result.certificates:
        say(f"checks: {', '.join(_green(certificate) for certificate in result.certificates)}")
    for line in (*_advice_lines(result), *_flake_lines(result)):
        say(line)
    for failure in result.failures:
        for line in _failure_lines(failure):
            say(line)
    if result.reproduce and result.verdict != "findings":
        say(f"see it again: {result.reproduce}")


def tell_answer(answer: GateCheckAnswer, threshold: Threshold) -> None:
    """Print the review, and the verdict as the last line."""
    if answer.review is not None:
        for line in _review_lines(answer.review, threshold):
            say(line)
    elif answer.result is not None and answer.result.verdict == "green" and answer.verdict == "passes":
        say(f"review: none, {answer.unreviewed}")
    match answer.verdict:
        case "passes":
            say("passes", style="green")
        case "nothing":
            say("passes: nothing changes, so there is nothing to check", style="green")
        case "refused":
            say(f"does not pass: {answer.why}", style="red")
        case "trouble":
            say(f"no verdict: {answer.why}", style="yellow")


def tell_progress(progress: CheckProgress, base: str) -> None:
    """Print one line when a check begins or ends."""
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
    """Print the scan notes on a person's change, in one block."""
    notes = [finding for finding in result.findings if finding.weight == "note"]
    if notes:
        say("scan notes, which do not block:")
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
        "findings": [finding.model_dump(mode="json") for finding in result.findings] if result else [],
        "checks": [certificate.model_dump(mode="json") for certificate in result.certificates] if result else [],
        "advice": [advice.model_dump(mode="json") for advice in result.advice] if result else [],
        "failures": [failure.model_dump(mode="json") for failure in result.failures] if result else [],
        "flakes": [flake.model_dump(mode="json") for flake in result.flaky] if result else [],
        "red_base": list(result.red_base) if result else [],
        "conflict_paths": list(result.conflict_paths) if result else [],
        "reproduce": result.reproduce if result else "",
        "review": review.model_dump(mode="json", exclude={"kind", "token", "request_id"}) if review else None,
        "unreviewed": answer.unreviewed,
        "seconds": round((result.seconds if result else 0.0) + (review.seconds if review else 0.0), 3),
    }


def _finding_line(one: ScanFinding) -> str:
    return f"{_place(one.path, one.line)}: {one.rule}: {one.said}{_MEANT[one.weight]}"


def _place(path: str, line: int) -> str:
    if path in ("", "."):
        return "the whole change"
    return f"{path}:{line}" if line else path


def _green(one: Certificate) -> str:
    told = ["cached from the same inputs" if one.reused else f"{one.seconds:.1f} s", *filter(None, [one.traced])]
    if one.tests is not None:
        told.append("one test" if one.tests == 1 else f"{one.tests} tests")
    if one.findings:
        told.append(f"{count_of(one.findings, 'finding')}, all of them on the base too")
    elif one.known_failures:
        told.append(f"{len(one.known_failures)} of them already fail on the base")
    return f"'{one.check}' {'adds nothing' if one.findings else 'is green'} ({', '.join(told)})"


def _advice_lines(result: CheckResult) -> Iterator[str]:
    for advice in result.advice:
        took = "" if advice.green is None else f" ({advice.seconds:.1f} s)"
        yield f"checks: {advice.words}{took}"
        if not advice.green:
            yield from _log(advice)


def _flake_lines(result: CheckResult) -> Iterator[str]:
    for flake in result.flaky:
        tests = f": {_some(flake.tests)}" if flake.tests else ""
        yield f"checks: '{flake.check}' failed, then passed, on the same tree{tests}"
    if result.red_base:
        yield f"checks: already failing on the base, not counted: {_some(result.red_base)}"


def _failure_lines(one: CheckFailure) -> Iterator[str]:
    what = f"the set-up of '{one.check}'" if one.setup else f"'{one.check}'"
    told = {"exit": f"exited with {one.status}", "timeout": "took too long", "idle": "printed nothing for too long"}
    how = told.get(one.how) or one.reason or one.how.replace("_", " ")
    version = "; the tests and settings were the base's" if one.protected else ""
    yield f"checks: {what} is red, {how}{version}"
    if one.problems:
        yield "new findings:"
        yield from (f"  {problem}" for problem in one.problems[:_TAIL_LINES])
    elif one.tests:
        yield f"failing: {_some(one.tests)}"
    if not one.problems:
        yield from _log(one)


def _log(one: CheckFailure | Advice) -> Iterator[str]:
    """Yield the first errors of a log, then its end."""
    end = without_escapes(one.log_tail).splitlines()
    yield from (f"  | {line}" for line in error_lines(one.log_tail))
    if one.log:
        yield f"the end of its log, {one.log}:"
    yield from (f"  | {line}" for line in end[-_TAIL_LINES:])


def _review_lines(review: Review, threshold: Threshold) -> Iterator[str]:
    who = ", ".join(review.models) or "no model"
    cost = review.spent.cost_usd
    paid = "at unknown cost" if cost is None else f"for {cost:.2f} USD"
    if review.outcome in ("passed", "failed"):
        read = f"read {len(review.read)} of {len(review.changed)} changed files"
        yield f"review: {review.outcome}, by {who}, which {read}, {paid}"
    else:
        yield f"review: {review.outcome}, {review.detail}"
    held = blocking(review.findings, threshold)
    yield from (
        f"{_place(finding.file, finding.line)}: {finding.severity} {finding.category}: {finding.claim}"
        for finding in held
    )
    yield from _fix_lines(held)
    if dropped := len(review.findings) - len(held):
        yield f"review: {dropped} more findings, which do not block; --json lists all"


def _fix_lines(held: Sequence[ReviewFinding]) -> Iterator[str]:
    for finding in held:
        if finding.fix:
            yield f"  fix: {finding.fix}"


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_TESTS} more" if len(names) > _MOST_TESTS else ""
    return ", ".join(names[:_MOST_TESTS]) + more


Globs = list[str] | None


def register(app: typer.Typer) -> None:
    gate = add_group(app, "gate", "The gate: what a change must pass before it lands.")
    gate.command()(check)
    push_hook.register(gate)
    serve.register(gate, hidden=True)  # the names of one release ago
    about = "The merge queue: each submitted branch (an entry) is tested, and lands or is returned."
    serve.register(add_group(app, "queue", about))


def check(
    base: Annotated[str, typer.Option(help="Where it would land: a branch, a tag or a commit.")],
    head: Annotated[str, typer.Option(help="The change: everything in this commit that the base lacks.")],
    repo: Annotated[str, typer.Option(help="Path or URL of the repository.")] = ".",
    plan_checks: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Further checks, in a file like the base's forgepool.yaml."),
    ] = None,
    grant: Annotated[
        Globs, typer.Option(metavar="GLOB", help="Protected paths that it may change; repeatable.")
    ] = None,
    waive: Annotated[Globs, typer.Option(metavar="RULE", help="A scan rule to skip; repeatable.")] = None,
    files: Annotated[
        Globs, typer.Option(metavar="GLOB", help="Paths that it may change; repeatable. Default: all.")
    ] = None,
    author_family: Annotated[
        str,
        typer.Option(metavar="NAME", help=f"Family of the models that wrote it; '{NOBODY}' for a person."),
    ] = UNKNOWN,
    review: Annotated[
        Reviewing,
        typer.Option(help="auto: a change by models of a named family needs one. required: every change does."),
    ] = "auto",
    reviewer: Annotated[
        str | None, typer.Option(metavar="MODEL", help="Model that reviews; default: by the route.")
    ] = None,
    scripted: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A scripted reviewer, in place of models.")
    ] = None,
    scans_only: Annotated[bool, typer.Option("--scans-only", help="Run no checks and ask no reviewer.")] = False,
    sandbox: Sandbox = None,
    sarif: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the findings to this file, as SARIF 2.1.0.")
    ] = None,
    annotate: Annotated[
        bool, typer.Option("--annotate", envvar="GITHUB_ACTIONS", help="Print findings as annotations of GitHub.")
    ] = False,
    summary: Annotated[
        Path | None,
        typer.Option(metavar="FILE", envvar="GITHUB_STEP_SUMMARY", help="Add a summary in markdown to this file."),
    ] = None,
    as_json_: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> int:
    """
    Check whether a change may land: scans, then the base's own checks on the merged tree, then a review.

    Nothing lands, and the repository is not modified. Exit status: 0 it may land, 1 it may not, 2 wrong usage, 3
    infrastructure, 130 interrupted.
    """
    if sarif is not None and not sarif.parent.is_dir():
        raise UserError(
            f"--sarif is {sarif}, and there is no folder {sarif.parent}; name a file in a folder that exists"
        )
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
    with tell_slow("reading the repository"):
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
        return complain("interrupted before a verdict", _INTERRUPTED)
    try:
        code_scanning.publish(answer, question.policy.threshold, sarif=sarif, summary=summary, annotate=annotate)
    except OSError as trouble:
        return complain(f"{trouble.filename} cannot be written: {trouble.strerror}; name another file", _INFRASTRUCTURE)
    return _STATUS[answer.verdict]


def _checks(file: Path | None) -> tuple[CheckDefinition, ...]:
    return () if file is None else read_gate_file(read_text(file, str(file)), str(file)).checks


def _globs(option: str, written: Globs) -> tuple[str, ...]:
    for glob in written or ():
        if glob.startswith("/"):
            raise UserError(f"{option} has the absolute glob '{glob}'; give one relative to the repository")
        try:
            parse(glob)
        except BadGlob as bad:
            raise UserError(f"{option} has the {bad}") from bad
    return tuple(written or ())


def _rules(written: Globs) -> tuple[str, ...]:
    if not written:
        return ()
    from forgepool.workers.policy.gate_file.document import RULES

    for rule in written:
        if rule not in RULES:
            raise UserError(f"--waive: {unknown('rule', rule, tuple(RULES))}")
    return tuple(written)


def _family(word: str, settings: Settings) -> str:
    if word in (UNKNOWN, NOBODY):
        return word
    table = read_table(settings.models_file)
    family = family_said(word, table)
    if family is None:
        known = sorted({model.family for model in table.models.values()})
        raise UserError(f"--author-family takes a family or a model's own name: {unknown('family', word, known)}")
    return family


def _policy(reviewer: str | None, scripted: Path | None, settings: Settings) -> ReviewPolicy:
    if scripted is not None:
        if reviewer is not None:
            raise UserError("--reviewer and --scripted exclude each other; give one of them")
        return ReviewPolicy(script=read_text(scripted, str(scripted)))
    if reviewer is None:
        return ReviewPolicy()
    known = read_table(settings.models_file).models
    if reviewer not in known:
        raise UserError(f"--reviewer: {unknown('model', reviewer, known)}")
    return ReviewPolicy(by=(reviewer,))
