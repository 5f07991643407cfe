"""
`forgepool demo`: a real overnight batch on a small real repository, a worker killed in the middle of it.

Nothing is staged but the repository and the plan (both in `examples/`): the run is `forgepool run`'s own, on real
Redis, Celery and git. One task is wrong on purpose, and the demo fails if the gate lets it in.
"""

import os
import shutil
import signal
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer

import orchestrator
from orchestrator.cli.live import Display, display
from orchestrator.cli.outcome import tell_outcome
from orchestrator.cli.running import heard, listen_to_ctrl_c
from orchestrator.cli.say import complain, say
from orchestrator.course import Course
from orchestrator.hub import CannotRun, Hub, open_hub, read_plan
from orchestrator.journal import Recorded
from orchestrator.session import start_run
from orchestrator.state import State
from supervisor.checks.running import Place, run_checks
from supervisor.definitions import read_gate_file
from supervisor.gate import GATE_FILE
from workers.settings import Settings, programs_folder, put_first_on_path
from worktrees.git import CommitId, Git

_VICTIM = "hash-seed-audit"
_WRONG = "simplify-rounding"
_REVIEWED = "weight-text"
_KILL_AFTER_S = 1.5


def register(app: typer.Typer) -> None:
    app.command()(demo)


def demo(
    folder: Annotated[Path | None, typer.Option(help="Where to make the repository; default: a new folder.")] = None,
    workers: Annotated[int, typer.Option(min=1, max=16, help="Orders at once.")] = 2,
) -> int:
    """Run a real refactoring batch on a small repository, kill a worker in the middle, and show what landed."""
    put_first_on_path(programs_folder())
    _require_programs()
    settings = Settings()
    place = folder or Path(tempfile.mkdtemp(prefix="forgepool-demo-"))
    plan_file = _lay_out(place)
    repository = place / "inventory"
    say(f"a repository with a passing test suite: {repository}")
    say(f"a plan of twelve tasks, no model needed:  {plan_file}")
    say(f"in its middle, the worker at '{_VICTIM}' is killed with SIGKILL\n")
    hub = open_hub(str(repository), settings)
    plan = read_plan(plan_file, hub)
    wishes = listen_to_ctrl_c()
    with display(Course(plan, {}), as_json=False) as shown:
        killer = _Killer(shown, settings.host)
        kept, ending = start_run(
            plan,
            plan_file,
            hub,
            settings,
            workers=workers,
            wishes=wishes,
            listener=heard(killer.listen, wishes, settings),
            programs=programs_folder(),
        )
    state = kept.state()
    say("")
    tell_outcome(kept, state, ending, as_json=False)
    if ending != "ended":
        return 130
    say(f"look:        git -C {repository} log --graph --oneline {plan.target}\n")
    return _verdict(state, killer, _still_green(hub, settings, state, kept.folder))


@dataclass(slots=True)
class _Killer:
    """Listens to the run, and kills the process that works on the victim once, in the middle of its work."""

    shown: Display
    host: str
    at: float | None = None
    killed: bool = False
    taken_up_again: bool = False
    _pid: int = field(default=0)

    def listen(self, state: State, recorded: Sequence[Recorded]) -> None:
        self.shown.listen(state, recorded)
        victim = state.tasks[_VICTIM]
        if self.killed:
            self.taken_up_again = self.taken_up_again or victim.attempt > 1
            return
        host, _, pid = victim.holder.rpartition("/")
        if victim.phase != "running" or host != self.host:
            return
        self.at = self.at or time.monotonic() + _KILL_AFTER_S
        if time.monotonic() >= self.at:
            os.kill(int(pid), signal.SIGKILL)
            self.killed = True
            self.shown.console.print(f"         >>> kill -9 {pid}: the worker in the middle of '{_VICTIM}' is dead")


def _require_programs() -> None:
    missing = [name for name in ("ruff", "pytest") if shutil.which(name) is None]
    if missing:
        raise CannotRun(
            f"the demo's tasks use {' and '.join(missing)}; pip install {' '.join(missing)} beside forgepool"
        )


def _lay_out(place: Path) -> Path:
    """Copies repository and plan there, and commits the former."""
    place.mkdir(parents=True, exist_ok=True)
    if any(place.iterdir()):
        raise CannotRun(f"{place} is not empty; give --folder a new one")
    left_out = shutil.ignore_patterns("__pycache__", ".*_cache", "*.pyc", "__init__.py.orig")
    shutil.copytree(_examples(), place, dirs_exist_ok=True, ignore=left_out)
    git = Git(git_dir=place / "inventory" / ".git", work_tree=place / "inventory")
    git.run("init", "--quiet", "--initial-branch=main", str(place / "inventory"))
    git.run("add", "--all")
    git.run(
        *("-c", "user.name=Demo", "-c", "user.email=demo@forgepool.invalid"),
        *("commit", "--quiet", "--message", "The inventory package, before the clean-up"),
    )
    return place / "inventory-plan.yaml"


def _examples() -> Path:
    """In an installed package they lie inside `orchestrator`; in a checkout beside it."""
    inside = Path(orchestrator.__file__).parent / "examples"
    return inside if inside.is_dir() else Path(orchestrator.__file__).parents[1] / "examples"


def _still_green(hub: Hub, settings: Settings, state: State, folder: Path) -> bool:
    """Runs the target's own checks once more, on a clean checkout of its tip."""
    tip = CommitId(state.tip)
    hub.mirror.ensure(tip)
    place = Place(mirror=hub.mirror, settings=settings, logs=folder / "logs", stop=lambda: False)
    text = hub.mirror.git.text("show", f"{tip}:{GATE_FILE}")
    outcome = run_checks(read_gate_file(text).checks, tip, place, label="once-more")
    for certificate in outcome.certificates:
        log = (folder / "logs" / f"once-more-{certificate.check}.log").read_text(errors="replace").strip()
        say(f"{certificate.check} once more on {tip[:12]}: {log.splitlines()[-1] if log else 'green'}")
    if outcome.failure is not None:
        complain(f"check {outcome.failure.check} is red on the target: {outcome.failure.log_tail[-500:]}", 1)
    return outcome.failure is None


def _verdict(state: State, killer: _Killer, green: bool) -> int:
    """0 when everything the demo is there to show was seen."""
    not_landed = [task.id for task in state.tasks.values() if task.phase != "landed"]
    unseen = [
        sentence
        for seen, sentence in (
            (green, "the target is not green"),
            (
                not_landed == [_WRONG],
                f"not landed: {', '.join(not_landed) or 'nothing'}; expected {_WRONG} alone",
            ),
            (killer.killed and killer.taken_up_again, "no worker was killed and its task taken up again"),
            (_came_back(state), f"'{_REVIEWED}' was not returned by its reviewer and let in when it was mended"),
        )
        if not seen
    ]
    for sentence in unseen:
        complain(sentence, 1)
    if not unseen:
        say("the target is green; the wrong refactoring is out; the killed worker's task was done again;")
        say(f"'{_REVIEWED}' came back from its reviewer, was mended, and landed (forgepool report says what was read)")
    return 1 if unseen else 0


def _came_back(state: State) -> bool:
    task = state.tasks[_REVIEWED]
    return any(reason.kind == "review_failed" for reason in task.reasons) and task.phase == "landed"
