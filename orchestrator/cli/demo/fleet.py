"""
`forgepool demo --fleet`: a run on five hosts of different kinds, all on this machine.

Each host is a `forgepool worker` with a home and a cache of its own; they share a Redis and a hub. One lacks a tool,
one has another version, and one is killed in the middle. The other version is this one with another protocol number.
"""

import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from forgepool.orchestrator.cli.output.progress import Display, display, exit_status, tell_outcome
from forgepool.orchestrator.cli.output.say import complain, say
from forgepool.orchestrator.cli.run.run import listen_to_ctrl_c, listen_to_run
from forgepool.orchestrator.decisions.plan_index import PlanIndex
from forgepool.orchestrator.journal import events as e
from forgepool.orchestrator.journal.store import Recorded, read
from forgepool.orchestrator.launch.embedded import redis_binary
from forgepool.orchestrator.launch.session import start_run
from forgepool.orchestrator.run.hub import CannotRun, open_hub, read_plan
from forgepool.orchestrator.state.run import RunState
from forgepool.workers.queue import leases
from forgepool.workers.queue.broker import BrokerAway, Redis, connect
from forgepool.workers.sandbox import tree
from forgepool.workers.sandbox.own_processes import Service, start_service
from forgepool.workers.sandbox.scratch import make_scratch
from forgepool.workers.schema.settings import Settings, whole_environment
from forgepool.worktrees.git.git import Git

_TASKS = 16
_LABEL = "press"
_PLAIN = (1, 4, 7, 10)
"""The tasks that need no tool."""
_VICTIM = "dies"
_HOSTS = {
    "first": ("--label", _LABEL),
    "second": ("--label", _LABEL),
    "bare": (),
    "newer": ("--label", _LABEL),
    _VICTIM: ("--label", _LABEL),
}
"""The options of each host's worker."""
_START_S = 60.0
_NEWER = "import forgepool.workers.queue.broker as broker\nbroker.PROTOCOL += 1\n"
_CHECK = "for page in pages/*; do head -n 1 $page | grep -q '^# ' || exit 1; done"


def tell_fleet(place: Path, settings: Settings) -> int:
    """Run the demo in an empty folder; return 0 if everything it is there to show was seen."""
    say(f"{_TASKS} tasks, and five hosts that share a Redis and a hub. All are on this machine, each with a home and a")
    say("cache of its own. No model, key or network is used.")
    hub, plan_file = _lay_out(place)
    with make_scratch() as folder:
        fleet = _Fleet(place=place, socket=folder / "redis.sock", settings=settings)
        try:
            return _tell(fleet, hub, plan_file)
        finally:
            fleet.stop()


def _tell(fleet: "_Fleet", hub_folder: Path, plan_file: Path) -> int:
    fleet.start()
    settings = fleet.settings.model_copy(update={"broker_url": fleet.url})
    hub = open_hub(hub_folder.as_uri(), settings)
    plan = read_plan(plan_file, hub)
    say(f"\n2. The run; as soon as '{_VICTIM}' works on a task, everything on it is killed with SIGKILL\n")
    say(f"   $ forgepool run {plan_file.name} --repo {hub_folder.as_uri()} --broker {fleet.url}")
    wishes = listen_to_ctrl_c()
    with display(PlanIndex(plan, {}), as_json=False) as shown:
        listener = listen_to_run(_Killer(shown, fleet).listen, wishes, settings)
        kept, ending = start_run(plan, plan_file, hub, settings, workers=1, wishes=wishes, listener=listener)
    state = kept.state()
    tell_outcome(kept, state, ending, as_json=False, settings=settings)
    if ending != "ended":
        return exit_status(kept.course, state, ending)
    fleet.stop()
    git = Git(git_dir=hub_folder)
    log = git.run("log", "--first-parent", "--format=%(trailers:key=Forgepool-Task,valueonly)", f"main..{plan.target}")
    landed = Counter(log.text.split())
    return _verdict(fleet, list(read(kept.folder)), landed)


@dataclass(slots=True, kw_only=True)
class _Fleet:
    """The shared Redis and the hosts' workers."""

    place: Path
    socket: Path
    settings: Settings
    redis: Service | None = None
    hosts: dict[str, Service] = field(default_factory=dict)
    killed: bool = False

    @property
    def url(self) -> str:
        return f"unix://{self.socket}"

    def start(self) -> None:
        log = self.place / "logs"
        log.mkdir()
        words = ("--port", "0", "--unixsocket", str(self.socket), "--save", "", "--appendonly", "no")
        argv = [redis_binary(self.settings), *words, "--dir", str(self.socket.parent)]
        self.redis = start_service("redis", argv, env=whole_environment(), log=log / "redis.log")
        _wait(self.socket.exists, "Redis did not start")
        say("\n1. The hosts\n")
        for name, options in _HOSTS.items():
            say(f"   $ forgepool worker --broker {self.url} {' '.join(options)}".rstrip() + f"   # on '{name}'")
            self.hosts[name] = self._start_host(name, options)
        client = connect(self.url)
        _wait(lambda: _present(client) >= set(_HOSTS), f"some worker did not start; see {log}")
        client.close()

    def _start_host(self, name: str, options: Sequence[str]) -> Service:
        home = self.place / name
        home.mkdir()
        own = {"FORGEPOOL_HOST": name, "FORGEPOOL_HOME": str(home / "home"), "FORGEPOOL_CACHE": str(home / "cache")}
        if name == "newer":
            (home / "sitecustomize.py").write_text(_NEWER)
            own["PYTHONPATH"] = os.pathsep.join(filter(None, (str(home), whole_environment().get("PYTHONPATH"))))
        argv = [sys.executable, "-m", "forgepool.orchestrator.cli", "worker", "--concurrency", "1", "--quiet", *options]
        env = {**whole_environment(), **own, "FORGEPOOL_BROKER_URL": self.url}
        return start_service(name, argv, env=env, log=self.place / "logs" / f"{name}.log")

    def kill(self, name: str) -> None:
        """End everything on a host at once, as a loss of power does."""
        pid = self.hosts[name].pid
        tree.kill_tree([*tree.descendants(pid), pid])
        self.hosts[name].process.wait()
        self.killed = True

    def stop(self) -> None:
        for service in self.hosts.values():
            service.signal(15)
        for service in [*self.hosts.values(), *([self.redis] if self.redis is not None else [])]:
            service.stop(within_s=20.0)


def _present(client: Redis) -> set[str]:
    try:
        return {one.host for one in leases.present(client)}
    except BrokerAway:
        return set()


def _wait(seen: Callable[[], bool], otherwise: str) -> None:
    until = time.monotonic() + _START_S
    while not seen():
        if time.monotonic() > until:
            raise CannotRun(f"{otherwise}; start the demo again")
        time.sleep(0.05)


@dataclass(slots=True)
class _Killer:
    """Follows the run, and kills one host once, in the middle of its work."""

    shown: Display
    fleet: _Fleet

    def listen(self, state: RunState, recorded: Sequence[Recorded]) -> None:
        self.shown.listen(state, recorded)
        held = [task.id for task in state.in_phase("running") if task.holder.rpartition("/")[0] == _VICTIM]
        if held and not self.fleet.killed:
            self.fleet.kill(_VICTIM)
            self.shown.console.print(f"         >>> the demo kills everything on '{_VICTIM}', which works on {held[0]}")


def _lay_out(place: Path) -> tuple[Path, Path]:
    """Make a hub with one commit and a plan of short tasks; return both."""
    work, hub, plan = place / "pages", place / "hub.git", place / "fleet-plan.yaml"
    git = Git(git_dir=work / ".git", work_tree=work)
    (work / "pages").mkdir(parents=True)
    git.run("init", "--quiet", "--initial-branch=main", str(work))
    (work / "pages" / "00.md").write_text("# Cover\n")
    git.run("add", "--all")
    git.run(
        *("-c", "user.name=Demo", "-c", "user.email=demo@forgepool.invalid"),
        *("commit", "--quiet", "--message", "The cover"),
    )
    hub.mkdir()
    Git(git_dir=hub).run("clone", "--quiet", "--bare", str(work), str(hub))
    lines = [_task(number) for number in range(1, _TASKS + 1)]
    head = ["version: 1", "name: fleet", "target: forgepool/fleet", f'checks: {{headings: "{_CHECK}"}}', "tasks:"]
    plan.write_text("\n".join([*head, *lines]) + "\n")
    return hub, plan


def _task(number: int) -> str:
    page = f"pages/{number:02}.md"
    tool = "" if number in _PLAIN else f", runs_on: [{_LABEL}]"
    script = f"sleep 1; echo '# Page {number}' > {page}"
    return f'  - {{id: page-{number}, files: [{page}], agent: {{command: "{script}"}}{tool}}}'


def _verdict(fleet: _Fleet, recorded: Sequence[Recorded], landed: Counter[str]) -> int:
    """Say what each host did, by the journal and the branch; return 0 if all of it was as it must be."""
    events = [one.event for one in recorded]
    done = Counter(one.result.host for one in events if isinstance(one, e.OrderAnswered))
    bare = {one.task for one in events if isinstance(one, e.OrderAnswered) and one.result.host == "bare"}
    lost = [one.message_id.split(".")[1] for one in events if isinstance(one, e.MessageLost)]
    taken = Counter(one.host for one in events if isinstance(one, e.MessageTaken))
    mismatched = [one.protocol for one in events if isinstance(one, e.HostMismatched)]
    say("\n3. What each host did, by the journal and by git\n")
    for name in ("first", "second"):
        say(f"   '{name}' did {done[name]} tasks.")
    say(f"   'bare' has no '{_LABEL}': it did {done['bare']} of the {len(_PLAIN)} tasks that need none, and no other.")
    told = f"was known by its protocol {mismatched[0]}" if mismatched else "was not known"
    say(f"   'newer' reads other messages: it {told}, and took {taken['newer'] or 'no'} message.")
    say(f"   '{_VICTIM}' did {done[_VICTIM]} tasks before it was killed; another host did {', '.join(lost)} again.")
    wrong = [
        sentence
        for seen, sentence in (
            (landed == {f"page-{number}": 1 for number in range(1, _TASKS + 1)}, "not every task landed exactly once"),
            (bare <= {f"page-{number}" for number in _PLAIN}, "'bare' was sent a task it cannot do"),
            (bool(mismatched) and not taken["newer"], "'newer' was not told apart, or was sent something"),
            (fleet.killed and bool(lost), f"'{_VICTIM}' was not killed in the middle of a task"),
            (not any(isinstance(one, e.TaskReturned) for one in events), "an attempt was charged"),
        )
        if not seen
    ]
    for sentence in wrong:
        complain(sentence, 1)
    if not wrong:
        say(f"\nEach of the {_TASKS} tasks is on forgepool/fleet once, and no attempt was charged to any task.")
    return 1 if wrong else 0
