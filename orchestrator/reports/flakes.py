"""Which tests were red and green on one tree in a run, and how often: from its journal. Pure."""

from collections.abc import Iterator, Sequence

from forgepool.orchestrator.journal import events as e
from forgepool.orchestrator.journal.store import Recorded
from forgepool.supervisor.checks.results.flakes import Score, Sighting, scores
from forgepool.supervisor.messages import CheckResult


def flake_scores(recorded: Sequence[Recorded]) -> tuple[Score, ...]:
    """
    Of every test that was a flake in this run, the worst first.

    Which tests ran is not journaled: one counts as seen whenever its check was run anew.
    """
    results = [one.event.result for one in recorded if isinstance(one.event, e.CheckAnswered | e.WaveAnswered)]
    flaked = {(flake.check, test) for result in results for flake in result.flaky for test in flake.tests or ("",)}
    return scores(
        Sighting(check=check, test=test, flaked=_flaked(result, check, test))
        for check, test in sorted(flaked)
        for result in results
        if check in _run(result)
    )


def flake_lines(recorded: Sequence[Recorded]) -> Iterator[str]:
    found = flake_scores(recorded)
    if found:
        yield from ("", "## Red, then green, on the same tree", "")
    for one in found:
        test = f" {one.test}" if one.test else ""
        yield f"- {one.check}{test}: {one.flakes} of {one.runs} runs ({one.share:.0%})"


def _run(result: CheckResult) -> set[str]:
    """Checks that were run for this answer, and not taken from an earlier one."""
    green = {one.check for one in result.certificates if not one.reused}
    return green | {one.check for one in result.failures} | {one.check for one in result.flaky}


def _flaked(result: CheckResult, check: str, test: str) -> bool:
    return any(flake.check == check and test in (flake.tests or ("",)) for flake in result.flaky)
