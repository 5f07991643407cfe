"""
`forgepool demo`: a clean-up batch on a small Python project, with a worker killed in the middle, told as a story.

Every line after a `$` is a command that a person could type, and it is really run. Only Python and git are needed: the
project uses unittest and a linter of its own. Only the repository and the plan are prepared (both in `examples/`). One
task is wrong on purpose, and the demo fails if it lands.
"""

import os
import shlex
import shutil
import signal
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer

from forgepool import orchestrator
from forgepool.orchestrator.cli.demo.fleet import tell_fleet
from forgepool.orchestrator.cli.output.progress import Display, display, exit_status, tell_outcome
from forgepool.orchestrator.cli.output.say import complain, say
from forgepool.orchestrator.cli.run.pages_beside import Serve, serve_pages, wait_for_ctrl_c
from forgepool.orchestrator.cli.run.run import listen_to_ctrl_c, listen_to_run
from forgepool.orchestrator.decisions.plan_index import PlanIndex
from forgepool.orchestrator.journal.store import Recorded
from forgepool.orchestrator.launch.embedded import prepare_host
from forgepool.orchestrator.launch.session import start_run
from forgepool.orchestrator.reports.proof.files import write_report
from forgepool.orchestrator.run.hub import CannotRun, open_hub, read_plan
from forgepool.orchestrator.state.run import RunState
from forgepool.workers.sandbox.own_processes import Seed
from forgepool.workers.sandbox.run.process import Command, run, shell
from forgepool.workers.schema.confinement import OPEN
from forgepool.workers.schema.settings import Settings, programs_folder, put_first_on_path, whole_environment
from forgepool.worktrees.git.git import Git

_PLAN = "inventory-plan.yaml"
_VICTIM = "hash-seed-audit"
_WRONG = "simplify-rounding"
_REVIEWED = "weight-text"
_KILL_AFTER_S = 0.4
_COMMAND_S = 120.0
_TESTS = "PYTHONPATH=src python -m unittest discover --start-directory tests"


def register(app: typer.Typer) -> None:
    app.command()(demo)


def demo(
    folder: Annotated[
        Path | None,
        typer.Option(
            help="An empty folder for the repository, which is kept. Default: a temporary one, removed at the end."
        ),
    ] = None,
    workers: Annotated[int, typer.Option(min=1, max=16, help="Tasks worked on at once; not with --fleet.")] = 2,
    fleet: Annotated[
        bool,
        typer.Option(
            "--fleet", help="Another demo: five unequal hosts. One lacks a tool, one has another version, one dies."
        ),
    ] = False,
    serve: Serve = False,
) -> int:
    """
    Run a clean-up batch on a sample project, kill a worker in the middle, and prove what landed. With --fleet, run
    short tasks on unequal hosts: one lacks a tool, one has another version, and one is killed.
    """
    put_first_on_path(programs_folder())
    place = (folder or Path(tempfile.mkdtemp(prefix="forgepool-demo-"))).absolute()
    _empty(place)
    settings = Settings()
    if folder is None:
        settings = settings.model_copy(update={"home": place / "home", "cache": place / "cache"})
    story = _Story(place, settings, temporary=folder is None)
    try:
        status = _show(story, settings, workers, fleet=fleet, serve=serve)
    except KeyboardInterrupt:  # before the run began: nothing is worth keeping
        if folder is None:
            shutil.rmtree(place, ignore_errors=True)
        raise
    if folder is None and status == 0:
        shutil.rmtree(place, ignore_errors=True)
        again = "forgepool demo --fleet" if fleet else "forgepool demo"
        say(f"\n{place} was removed; `{again} --folder PATH` keeps the repository for you to look at.")
    else:
        story.say_where()
    return status


def _show(story: "_Story", settings: Settings, workers: int, *, fleet: bool, serve: bool) -> int:
    with serve_pages(settings, wanted=serve, tell=say) as pages:
        if fleet:
            status = tell_fleet(story.place, settings)
        else:
            status = _tell(story, _lay_out(story.place), settings, workers, seed=prepare_host(settings))
        if pages is not None and pages.running() and status in (0, 1):
            say("\nThe pages stay open until Ctrl-C.")
            wait_for_ctrl_c(pages)
    return status


def _tell(story: "_Story", plan_file: Path, settings: Settings, workers: int, *, seed: Seed | None) -> int:
    repository = story.place / "inventory"
    say("Twelve tasks on a small Python project. No model, key or network is used: codemods and replayed scripts")
    say("stand in for agents, and a script stands in for the reviewing model.")
    story.chapter("A project whose tests pass")
    story.type(f"cd inventory && {_TESTS} --quiet")
    story.chapter("A plan: which tasks wait for which, and what each may write")
    story.type(f"forgepool check ../{_PLAN}", cwd=repository)
    story.chapter(f"The run; soon after '{_VICTIM}' starts, its worker is killed with SIGKILL")
    say(f"   $ forgepool run ../{_PLAN}")
    hub = open_hub(str(repository), settings)
    plan = read_plan(plan_file, hub)
    wishes = listen_to_ctrl_c()
    with display(PlanIndex(plan, {}), as_json=False) as shown:
        killer = _Killer(shown, settings.host)
        kept, ending = start_run(
            plan,
            plan_file,
            hub,
            settings,
            workers=workers,
            wishes=wishes,
            listener=listen_to_run(killer.listen, wishes, settings),
            programs=programs_folder(),
            seed=seed,
        )
    state = kept.state()
    if not story.temporary:
        write_report(kept, settings)
    # A finished demo removes the folder, so commands are shown without it.
    before = story.variables if story.temporary and ending != "ended" else ""
    tell_outcome(kept, state, ending, as_json=False, before=before, settings=settings)
    if ending != "ended":
        return exit_status(kept.course, state, ending)
    story.chapter(f"Why '{_WRONG}' did not land: round() rounds half a cent to the even neighbour")
    story.type(f"forgepool logs {state.run} {_WRONG} --check test | head -n 12", cwd=repository)
    story.chapter("Prove what landed: a fresh clone of the branch, its tests and its linter")
    story.type(f"git clone --quiet --branch {plan.target} inventory proof")
    story.type("git log --oneline --first-parent origin/main..", cwd=story.place / "proof")
    green = story.type(f"{_TESTS} && python tools/lint.py src tests", cwd=story.place / "proof")
    return _verdict(state, killer, green)


@dataclass(slots=True)
class _Story:
    """Prints numbered chapters, and runs the commands shown in them."""

    place: Path
    settings: Settings
    temporary: bool
    """True if the run is in a temporary folder, where no other command looks."""
    _chapters: int = 0

    def chapter(self, title: str) -> None:
        self._chapters += 1
        say(f"\n{self._chapters}. {title}\n")

    def type(self, command: str, cwd: Path | None = None) -> bool:
        """Show a command, run it, show its output; True if it exited with 0."""
        say(f"   $ {command}")
        ended = run(
            Command(
                argv=shell(command),
                cwd=cwd or self.place,
                env=whole_environment() | self._own_folders() | {"COLUMNS": "120"},
                log=self.place / "typed.log",
                timeout_s=_COMMAND_S,
                confined=OPEN,
            )
        )
        for line in (ended.head + ended.tail).strip().splitlines():
            say(f"   {line}".rstrip())
        return ended.succeeded

    @property
    def variables(self) -> str:
        """Return the settings to write before a command, so that it finds the run."""
        return "".join(f"{name}={shlex.quote(value)} " for name, value in self._own_folders().items())

    def say_where(self) -> None:
        before = self.variables if self.temporary else ""
        say(f"\nEverything is kept in {self.place}; to look at the run: {before}forgepool status")

    def _own_folders(self) -> dict[str, str]:
        return {"FORGEPOOL_HOME": str(self.settings.home), "FORGEPOOL_CACHE": str(self.settings.cache)}


@dataclass(slots=True)
class _Killer:
    """Follows the run, and kills the worker of one task once, in the middle of its work."""

    shown: Display
    host: str
    at: float | None = None
    killed: bool = False
    taken_up_again: bool = False
    _pid: int = field(default=0)

    def listen(self, state: RunState, recorded: Sequence[Recorded]) -> None:
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
            self.shown.console.print(f"         >>> kill -9 {pid}: the demo kills the worker of '{_VICTIM}'")


def _empty(place: Path) -> None:
    """Make sure that the folder is there and empty."""
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError as trouble:
        raise CannotRun(f"{place} cannot be created: {trouble.strerror}; give --folder another path") from trouble
    if any(place.iterdir()):
        raise CannotRun(f"{place} is not empty; give --folder a new or empty one")


def _lay_out(place: Path) -> Path:
    """Copy the project and the plan to the folder, commit the project, and return the plan's path."""
    left_out = shutil.ignore_patterns("__pycache__", ".*_cache", "*.pyc", "__init__.py.orig")
    shutil.copytree(_examples(), place, dirs_exist_ok=True, ignore=left_out)
    git = Git(git_dir=place / "inventory" / ".git", work_tree=place / "inventory")
    git.run("init", "--quiet", "--initial-branch=main", str(place / "inventory"))
    git.run("add", "--all")
    git.run(
        *("-c", "user.name=Demo", "-c", "user.email=demo@forgepool.invalid"),
        *("commit", "--quiet", "--message", "The inventory package, before the clean-up"),
    )
    return place / _PLAN


def _examples() -> Path:
    """Return the folder of the examples: inside `orchestrator` when installed, beside it in a checkout."""
    inside = Path(orchestrator.__file__).parent / "examples"
    return inside if inside.is_dir() else Path(orchestrator.__file__).parents[1] / "examples"


def _verdict(state: RunState, killer: _Killer, green: bool) -> int:
    """Return 0 if everything the demo is there to show was seen."""
    not_landed = [task.id for task in state.tasks.values() if task.phase != "landed"]
    unseen = [
        sentence
        for seen, sentence in (
            (green, "the target is not green"),
            (
                not_landed == [_WRONG],
                f"not landed: {', '.join(not_landed) or 'nothing'}; expected {_WRONG} alone",
            ),
            (killer.killed and killer.taken_up_again, "no worker was killed and its task repeated"),
            (_came_back(state), f"'{_REVIEWED}' was not sent back by its reviewer and landed after a fix"),
        )
        if not seen
    ]
    for sentence in unseen:
        complain(sentence, 1)
    if not unseen:
        say(
            f"\nThe branch is green, '{_WRONG}' is not on it, the killed worker's task landed with another attempt (the"
        )
        say(f"lost one is not counted), and '{_REVIEWED}' landed after its reviewer had sent it back once.")
    return 1 if unseen else 0


def _came_back(state: RunState) -> bool:
    task = state.tasks[_REVIEWED]
    return any(reason.kind == "review_failed" for reason in task.reasons) and task.phase == "landed"
