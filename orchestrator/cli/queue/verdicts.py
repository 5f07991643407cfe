"""What the gate said of a change: lines for people, and for tools that read `path:line: rule: sentence`; or JSON."""

from collections.abc import Iterator, Sequence

from forgepool.orchestrator.cli.output.say import say
from forgepool.orchestrator.decisions.reasons import count_of
from forgepool.orchestrator.launch.gate_check import GateCheckAnswer, Ready
from forgepool.supervisor.checks.running import CheckProgress
from forgepool.supervisor.findings import ReviewFinding, ScanFinding, Threshold, blocking
from forgepool.supervisor.messages import Advice, Certificate, CheckFailure, CheckResult, Review
from forgepool.workers.schema.error_lines import error_lines, without_escapes

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
        say(f"scans: {_counted(counting)}")
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


def _counted(findings: Sequence[ScanFinding]) -> str:
    if not findings:
        return "nothing found"
    return "one finding" if len(findings) == 1 else f"{len(findings)} findings"


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_TESTS} more" if len(names) > _MOST_TESTS else ""
    return ", ".join(names[:_MOST_TESTS]) + more
