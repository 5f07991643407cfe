"""What the gate said of a change: lines for people, and for tools that read `path:line: rule: sentence`; or JSON."""

from collections.abc import Iterator, Sequence

from orchestrator.cli.say import say
from orchestrator.gating import Answer, Ready
from supervisor.findings import ReviewFinding, ScanFinding, Threshold, blocking
from supervisor.messages import Certificate, CheckFailure, CheckResult, Review

_TAIL_LINES = 40
_MOST_TESTS = 20
_MEANT = {"blocks": "", "attention": " (somebody must look at it)", "note": " (a note)"}
_WEIGHTS = tuple(_MEANT)


def tell_beginning(ready: Ready) -> None:
    base, head = ready.named
    found = ready.change
    count = "one commit" if found.commits == 1 else f"{found.commits} commits"
    say(f"gate: {count} of {head} ({found.head[:12]}), as one change on {base} ({found.base[:12]})")


def tell_result(result: CheckResult, *, scans_only: bool) -> None:
    """What scans and checks said. Where they were not asked, nothing of them."""
    scanned = result.verdict not in ("conflict", "stale", "infrastructure", "not_configured")
    if scanned or result.findings:
        say(f"scans: {_counted(result.findings)}")
        for finding in sorted(result.findings, key=lambda one: _WEIGHTS.index(one.weight)):
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


def tell_answer(answer: Answer, threshold: Threshold) -> None:
    """The review, and the last line: what it comes to."""
    if answer.review is not None:
        for line in _reviewed(answer.review, threshold):
            say(line)
    elif answer.result is not None and answer.result.verdict == "green" and answer.verdict == "passes":
        say(f"review: none, {answer.unreviewed}")
    match answer.verdict:
        case "passes":
            say("passes")
        case "nothing":
            say("passes: it changes nothing, so there is nothing to check")
        case "refused":
            say(f"does not pass: {answer.why}")
        case "trouble":
            say(f"nothing is known: {answer.why}")


def as_json(ready: Ready, answer: Answer, *, interrupted: bool) -> dict[str, object]:
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
    if one.known_failures:
        told.append(f"{len(one.known_failures)} of them red on the base already")
    return f"'{one.check}' is green ({', '.join(told)})"


def _advised(result: CheckResult) -> Iterator[str]:
    for one in result.advice:
        took = "" if one.green is None else f" ({one.seconds:.1f} s)"
        yield f"checks: {one.words}{took}"
        if not one.green:
            yield from (f"  | {line}" for line in one.log_tail.splitlines()[-_TAIL_LINES:])


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
    if one.tests:
        yield f"failing: {_some(one.tests)}"
    yield from (f"  | {line}" for line in one.log_tail.splitlines()[-_TAIL_LINES:])
    if one.log:
        yield f"its whole log: {one.log}"


def _reviewed(review: Review, threshold: Threshold) -> Iterator[str]:
    who = ", ".join(review.models) or "nobody"
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
        yield f"review: {dropped} more held against nobody; --json has all"


def _fixes(held: Sequence[ReviewFinding]) -> Iterator[str]:
    for one in held:
        if one.fix:
            yield f"  it would be right to: {one.fix}"


def _counted(findings: Sequence[ScanFinding]) -> str:
    if not findings:
        return "nothing found"
    return "one finding" if len(findings) == 1 else f"{len(findings)} findings"


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_TESTS} more" if len(names) > _MOST_TESTS else ""
    return ", ".join(names[:_MOST_TESTS]) + more
