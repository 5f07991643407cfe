"""
`forgepool check`: validates a plan and previews it without starting anything. Also prints how a target fares in its
checks.
"""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from types import FrameType
from typing import Annotated, TypedDict

import typer

from forgepool.orchestrator.cli import raise_missed_interrupt
from forgepool.orchestrator.cli.output.say import complain, printable, say, say_json, tell_slow
from forgepool.orchestrator.cli.output.terminal import print_table
from forgepool.orchestrator.decisions.plan_index import PlanIndex
from forgepool.orchestrator.decisions.reasons import count_of
from forgepool.orchestrator.decisions.reviews.post_merge import where_to_look
from forgepool.orchestrator.launch.preflight import (
    check_tip,
    lacking,
    refuse_unready,
    warn_uncapped,
    warn_unread_survey,
    warn_unused_verify,
)
from forgepool.orchestrator.plan.document import Plan
from forgepool.orchestrator.plan.overlap import NOTHING, find_shared_files
from forgepool.orchestrator.plan.readiness import preview
from forgepool.orchestrator.plan.validation.facts import Fault
from forgepool.orchestrator.run.hub import CannotRun, Hub, open_hub, read_plan
from forgepool.orchestrator.state.post_merge import fit_to_build_on
from forgepool.supervisor.checks.results.failures import describe_red_base
from forgepool.supervisor.messages.answers import CheckResult
from forgepool.workers.schema.settings import Settings
from forgepool.worktrees.commits.changes import tree_paths

INTERRUPTED = 130

_MOST_SHOWN = 20


class PlanConflict(TypedDict):
    """Two tasks that never run together, because they may write the same paths."""

    tasks: list[str]
    globs: list[str]
    files: list[str]
    """Paths of today's tree that both may write."""


class PlanPreview(TypedDict):
    """The answer of `forgepool check --json`."""

    plan: str
    target: str
    tip: str
    tasks: int
    order: list[str]
    critical_path: list[str]
    critical_path_s: float
    width: int
    width_is_exact: bool
    waves: list[list[str]]
    races: dict[str, str]
    """By task that is to race, why it does not; empty where it does."""
    conflicts: list[PlanConflict]
    problems: list[str]


def tell_base(result: CheckResult, target: str) -> int:
    """Print the checks' result; return 0 where work on the target can land, 1 where it cannot, 3 where none ran."""
    for certificate in result.certificates:
        tests = "" if certificate.tests is None else f", {certificate.tests} tests"
        took = "seen earlier" if certificate.reused else f"{certificate.seconds:.1f} s"
        say(f"check '{certificate.check}' is green ({took}{tests}{certificate.traced_words})")
    for flake in result.flaky:
        say(f"check '{flake.check}' was red, then green, on the same tree")
    if result.verdict == "green":
        say(f"{target} is green: work on it can land")
        return 0
    red = result.failures if result.verdict == "base_red" else ()
    for line in describe_red_base(red, f" on {target}") or [result.detail]:
        say(line)
    for line in where_to_look(result):
        say(f"    {printable(line)}")
    if result.verdict == "base_red" and fit_to_build_on(result):
        say(f"these tests already fail on {target}; a change is only blamed for what else it breaks")
        return 0
    return exit_status_of_base(result)


def exit_status_of_base(result: CheckResult) -> int:
    """Return 0 where work on the target can land, 1 where it cannot, 3 where that is unknown."""
    if result.verdict == "infrastructure":
        return 3
    return 0 if fit_to_build_on(result) else 1


@contextmanager
def interruptible() -> Iterator[Callable[[], bool]]:
    """Yield a function that tells whether Ctrl-C or SIGTERM came; a second one interrupts at once."""
    asked: list[int] = []

    def note_interrupt(number: int, frame: FrameType | None) -> None:
        if asked:
            raise KeyboardInterrupt
        asked.append(number)

    before = [(number, signal.signal(number, note_interrupt)) for number in (signal.SIGINT, signal.SIGTERM)]
    try:
        raise_missed_interrupt()
        yield lambda: bool(asked)
    finally:
        for number, former in before:
            signal.signal(number, former)


def say_interrupted() -> int:
    return complain("interrupted before the checks ended", INTERRUPTED)


def register(app: typer.Typer) -> None:
    app.command()(check)


def check(
    plan: Annotated[Path, typer.Argument(help="The plan file (YAML).")],
    repo: Annotated[str, typer.Option(help="Path or URL of the repository the target lives in.")] = ".",
    with_checks: Annotated[
        bool, typer.Option("--with-checks", help="Also run the checks on the current target.")
    ] = False,
    thorough: Annotated[
        bool,
        typer.Option(
            "--thorough",
            help="Also compare the plan with the repository, and run its acceptance commands on the base.",
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> int:
    """Check a plan and preview it: the order, what runs together, what waits and why."""
    settings = Settings()
    with tell_slow("reading the repository; the first copy of a large one takes a while"):
        hub = open_hub(repo, settings)
        read = read_plan(plan, hub)
    problems = find_problems(read, hub, settings, plan.parent)
    for sentence in filter(None, (warn_uncapped(read, settings), warn_unread_survey(read), warn_unused_verify(read))):
        complain(sentence, 0)
    if any(need.full for task in read.tasks for need in task.needs):
        # Imported late: it brings all that asks models.
        from forgepool.orchestrator.launch.prerequisites import find_tight_windows

        for warning in find_tight_windows(read, settings):
            complain(warning, 0)
    faults = None
    if thorough and not problems:
        # Imported late: it brings the sandbox, the scans and the simulation.
        from forgepool.orchestrator.cli.planning.faults import find_faults

        with interruptible() as stop, tell_slow("running the acceptance commands on the base"):
            faults = find_faults(read, plan, hub, settings, stop=stop)
            if stop():
                return say_interrupted()
    if not with_checks or problems:
        status = preview_plan(read, hub, as_json=as_json, problems=problems, faults=faults)
        if problems and (with_checks or thorough):
            complain("no command was run; solve these problems first", 0)
        return status
    with interruptible() as stop, tell_slow("running the target's checks"):
        base = _check_target(read, hub, settings, stop)
        if stop():
            return say_interrupted()
    return preview_plan(read, hub, as_json=as_json, base=base, faults=faults)


def find_problems(plan: Plan, hub: Hub, settings: Settings, folder: Path) -> list[str]:
    """Return a sentence for each thing that keeps a valid plan from running here; `folder` is that of its file."""
    try:
        refuse_unready(plan, hub)
        return lacking(plan, hub, settings, folder)
    except CannotRun as problem:
        return [str(problem)]


def _check_target(plan: Plan, hub: Hub, settings: Settings, stop: Callable[[], bool]) -> CheckResult:
    return check_tip(
        hub,
        hub.tip_for(plan),
        plan.target if plan.target in hub.heads else plan.base or hub.facts.default_branch or plan.target,
        settings,
        plan_checks=plan.checks if isinstance(plan.checks, tuple) else (),
        waived=plan.checks == "none",
        stop=stop,
    )


def preview_plan(
    plan: Plan,
    hub: Hub,
    *,
    as_json: bool,
    problems: list[str] | None = None,
    base: CheckResult | None = None,
    faults: list[Fault] | None = None,
) -> int:
    """
    Print the preview, the faults if they were looked for, and the checks' result if they ran.

    Return 2 if there are problems, or faults that are errors; else 0, and with checks, their exit status.
    """
    answer = describe_plan(plan, hub, problems or [])
    wrong = bool(problems) or any(fault.level == "error" for fault in faults or ())
    if as_json:
        more = {} if faults is None else {"faults": [asdict(fault) for fault in faults]}
        say_json({**answer, **more, **({"base": base.model_dump(mode="json")} if base is not None else {})})
    else:
        _tell(plan, PlanIndex(plan, {}), answer)
        _tell_faults(faults)
    if base is None or wrong:
        return 2 if wrong else 0
    if not as_json:
        say("")
        tell_base(base, plan.target if plan.target in hub.heads else "the base")
    return exit_status_of_base(base)


def _tell_faults(faults: list[Fault] | None) -> None:
    if faults is not None:
        say("\nfaults:" if faults else "\nno faults were found")
    for fault in faults or ():
        place = f"line {fault.line}: " if fault.line else ""
        say(f"  {place}{fault.level}: {printable(fault.sentence)} [{fault.rule}]")


def describe_plan(plan: Plan, hub: Hub, problems: list[str]) -> PlanPreview:
    """Return the preview of a plan: the order, what runs together, and what cannot. Raises GitFailed."""
    course = PlanIndex(plan, {})
    shown = preview(course.graph)
    tip = hub.tip_for(plan)
    hub.mirror.ensure(tip)
    files = tree_paths(hub.mirror.git, tip)
    conflicts: list[PlanConflict] = [
        {
            "tasks": [a, b],
            "globs": [glob_a, glob_b],
            "files": list(find_shared_files(course.declared[a] or NOTHING, course.declared[b] or NOTHING, files)),
        }
        for a, b, glob_a, glob_b in shown.conflicts
    ]
    return {
        "plan": plan.name,
        "target": plan.target,
        "tip": tip,
        "tasks": len(plan.tasks),
        "order": list(shown.order),
        "critical_path": list(shown.critical_path),
        "critical_path_s": shown.critical_path_s,
        "width": shown.width,
        "width_is_exact": shown.width_is == "exact",
        "waves": [list(wave) for wave in shown.waves],
        "races": _explain_races(course),
        "conflicts": conflicts,
        "problems": problems,
    }


def _explain_races(course: PlanIndex) -> dict[str, str]:
    if not any(task.race for task in course.plan.tasks):
        return {}
    # Imported late: it reads what earlier runs took.
    from forgepool.orchestrator.run.run_folder import list_races

    return dict(list_races(course, Settings()))


def _tell(plan: Plan, course: PlanIndex, answer: PlanPreview) -> None:
    exact = "" if answer["width_is_exact"] else "at least "
    path = answer["critical_path"]
    seconds = answer["critical_path_s"]
    long = f"{count_of(int(seconds), 'task')} long"
    if any(task.duration_s is not None for task in plan.tasks):
        long = f"{_show_duration(seconds)} by the plan's durations"
        if untold := [task for task in path if course.tasks[task].duration_s is None]:
            usual = _show_duration(course.graph.duration_s[untold[0]])
            long += f", assumed {usual} for {', '.join(_short(untold))}"
    say(f"plan {plan.name}: {count_of(len(plan.tasks), 'task')} for {plan.target}, which is at {answer['tip'][:12]}")
    say(f"longest path: {' -> '.join(_short(path))} ({long})")
    say(f"most at once: {exact}{answer['width']}")
    say("")
    wave_of = {task: number for number, wave in enumerate(answer["waves"], start=1) for task in wave}
    rows = [
        (
            str(place),
            task,
            str(wave_of.get(task, "")),
            ", ".join(need.id for need in course.tasks[task].needs),
            "(undeclared)" if (globs := course.tasks[task].files) is None else ", ".join(globs) or "nothing",
        )
        for place, task in enumerate(course.graph.order[:200], start=1)
    ]
    print_table(("start", "task", "wave", "needs", "may write"), rows)
    if len(course.graph.order) > len(rows):
        say(f"... and {len(course.graph.order) - len(rows)} more; --json has them all")
    if conflicts := answer["conflicts"]:
        say("\nnever run together, because they may write the same paths:")
    for conflict in conflicts[:_MOST_SHOWN]:
        (a, b), (glob_a, glob_b), files = conflict["tasks"], conflict["globs"], conflict["files"]
        there = f"; today: {', '.join(files)}" if files else "; no such file today"
        say(f"  {a} and {b}: {glob_a} meets {glob_b}{there}")
    if len(conflicts) > _MOST_SHOWN:
        say(f"  ... and {len(conflicts) - _MOST_SHOWN} more pairs; --json has them all")
    if answer["races"]:
        say("")
    for name, why in answer["races"].items():
        say(f"{name} {f'does not race: {why}' if why else 'races: its first two models begin together'}")
    for problem in answer["problems"]:
        say(f"\nproblem: {problem}")


def _show_duration(seconds: float) -> str:
    """Return a duration as plans have it: `90s`, `30m`, `2h`."""
    unit, each = next(
        (unit, each) for unit, each in (("h", 3600), ("m", 60), ("s", 1)) if each == 1 or seconds % each == 0
    )
    return f"{seconds / each:g}{unit}"


def _short(ids: list[str]) -> list[str]:
    return ids if len(ids) <= 12 else [*ids[:6], f"({len(ids) - 12} more)", *ids[-6:]]
