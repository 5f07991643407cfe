"""
Prints what the orchestrator itself costs: milliseconds of its CPU for each landed task, by eighths of the run.

    python benchmarks/fleet/loop.py [--workers 8] [--trials 2] [--outside] [--profile] [TASKS ...]

The loop, its journal with fsync, its state, its listener and Redis are those of a real run, and so are the messages.
The answering side is a stand-in: one process takes each message from its queue and answers at once, with commits that
exist nowhere. So these numbers are about the orchestrator, and say nothing of workers, git or checks.

With `--outside` each candidate has also touched a file that its task did not declare. `--profile` prints the functions
that took longest.
"""

import argparse
import base64
import cProfile
import hashlib
import json
import os
import pstats
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from forgepool.orchestrator.decisions.plan_index import PlanIndex
from forgepool.orchestrator.journal.events import LandingAnswered, RunStarted
from forgepool.orchestrator.journal.store import Journal, Recorded
from forgepool.orchestrator.launch.embedded import Embedded
from forgepool.orchestrator.launch.session import begin
from forgepool.orchestrator.plan.document import Plan, Task
from forgepool.orchestrator.run.loop import Loop, Wishes
from forgepool.orchestrator.run.transport import Link
from forgepool.orchestrator.state.run import RunState
from forgepool.supervisor.messages.answers import Certificate, CheckResult, Landing
from forgepool.supervisor.messages.requests import CheckRequest, LandRequest
from forgepool.workers.queue import replies
from forgepool.workers.queue.broker import CHECKS, LANDINGS, ORDERS, PROTOCOL, Redis, connect, use_broker
from forgepool.workers.queue.leases import Present, announce
from forgepool.workers.queue.replies import MessageStarted
from forgepool.workers.sandbox.scratch import scratch
from forgepool.workers.schema.orders import CommandAgent, Message, WorkOrder, WorkResult
from forgepool.workers.schema.settings import Settings
from forgepool.worktrees.git.git import Git
from forgepool.worktrees.hub.mirror import Mirror

RUN = "loop-bench"
PARTS = 8
_ANNOUNCE_S = 5.0


def answer_all(url: str, workers: int, trials: int, *, outside: bool) -> None:
    """Take messages from all queues and answer each at once, until the process is ended."""
    client, announced = connect(url), 0.0
    while True:
        if time.monotonic() > announced + _ANNOUNCE_S:
            announced = time.monotonic()
            for queues, places in (((ORDERS,), workers), ((CHECKS, LANDINGS), trials + 1)):
                announce(
                    client,
                    Present(host="bench", pid=1, queues=queues, concurrency=places, since=0.0, protocol=PROTOCOL),
                )
        found = client.blpop([ORDERS, CHECKS, LANDINGS], timeout=1)
        if found is not None:
            queue, message = found
            body = json.loads(base64.b64decode(json.loads(message)["body"]))
            answer(client, queue, body[0][0], outside=outside)


def answer(client: Redis, queue: str, text: str, *, outside: bool) -> None:
    message_id, token, result = {ORDERS: work, CHECKS: check, LANDINGS: land}[queue](text, outside)
    replies.tell(client, RUN, MessageStarted(message_id=message_id, token=token, host="bench", pid=1))
    replies.answer(client, RUN, message_id, result)


Answered = tuple[str, str, Message]


def work(text: str, outside: bool) -> Answered:
    order = WorkOrder.model_validate_json(text)
    made = WorkResult(
        order_id=order.order_id,
        token=order.token,
        outcome="candidate",
        commit=digest(order.order_id),
        paths=(*order.files, *((f"more/{order.task}.txt",) if outside else ())),
        host="bench",
    )
    return order.order_id, order.token, made


def check(text: str, _: bool) -> Answered:
    request = CheckRequest.model_validate_json(text)
    commits = composed(request.base, [one.commit for one in request.spec])
    tree = digest("tree", commits[-1])
    proof = Certificate(key="k", check="all", definition="", environment="", tree=tree, seconds=0.0, host="bench")
    made = CheckResult(
        request_id=request.request_id,
        token=request.token,
        verdict="green",
        commit=commits[-1],
        tree=tree,
        commits=tuple(commits),
        patch_ids=tuple(commits),
        certificates=(proof,),
        host="bench",
    )
    return request.request_id, request.token, made


def land(text: str, _: bool) -> Answered:
    request = LandRequest.model_validate_json(text)
    made = Landing(
        request_id=request.request_id, token=request.token, outcome="landed", commit=request.commit, host="bench"
    )
    return request.request_id, request.token, made


def composed(base: str, candidates: Sequence[str]) -> list[str]:
    commits: list[str] = []
    for one in candidates:
        commits.append(digest("merge", commits[-1] if commits else base, one))
    return commits


def digest(*parts: str) -> str:
    return hashlib.sha1("/".join(parts).encode(), usedforsecurity=False).hexdigest()


@contextmanager
def answering(url: str, workers: int, trials: int, *, outside: bool) -> Iterator[None]:
    pid = os.fork()
    if pid == 0:
        try:
            answer_all(url, workers, trials, outside=outside)
        finally:
            os._exit(1)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


@dataclass
class Meter:
    """CPU seconds of this process at each landing."""

    at: list[float] = field(default_factory=list)

    def listen(self, state: RunState, recorded: Sequence[Recorded]) -> None:
        for one in recorded:
            if isinstance(one.event, LandingAnswered) and one.event.result.outcome == "landed":
                self.at += [time.process_time()] * len(one.event.entries or (one.event.task,))


@dataclass(frozen=True, kw_only=True)
class Row:
    tasks: int
    cpu_ms: float
    parts: list[float]
    events: int
    seconds: float

    def __str__(self) -> str:
        parts = " ".join(f"{one:5.2f}" for one in self.parts)
        flat = self.parts[-1] / self.parts[0]
        return f"{self.tasks:6,} {self.cpu_ms:8.2f}  {parts}  {flat:10.2f} {self.events:8,} {self.seconds:7.1f}"


def measure(tasks: int, workers: int, trials: int, *, outside: bool) -> Row:
    with tempfile.TemporaryDirectory() as at, private_redis(Path(at)) as url:
        folder = Path(at)
        git = Git(git_dir=folder / "hub.git")
        git.run("init", "--quiet", "--bare", str(git.git_dir))
        plan = plan_of(tasks)
        state, journal, meter = RunState.blank(one.id for one in plan.tasks), Journal(folder / "run"), Meter()
        tip = digest("first")
        began = RunStarted(run=RUN, plan_digest="", hub=str(git.git_dir), target="main", tip=tip)
        begin(state, journal, began, listener=meter.listen)
        use_broker(url)
        link = Link(connect(url), RUN, 60.0)
        link.begin()
        loop = Loop(
            course=PlanIndex(plan, {}),
            state=state,
            journal=journal,
            folder=folder / "run",
            mirror=Mirror(path=git.git_dir, hub=str(git.git_dir)),
            link=link,
            parts=None,
            wishes=Wishes(),
            listener=meter.listen,
        )
        with answering(url, workers, trials, outside=outside):
            while not link.workers():
                time.sleep(0.01)
                link._presence_asked = 0.0
            wall, start = time.monotonic(), time.process_time()
            ending = loop.run(resumed=False)
            seconds = time.monotonic() - wall
        journal.close()
        if ending != "ended" or len(meter.at) != tasks:
            raise SystemExit(f"the run ended as '{ending}', with {len(meter.at)} of {tasks} tasks landed")
        return row(tasks, start, meter.at, state.number, seconds)


def row(tasks: int, start: float, at: list[float], events: int, seconds: float) -> Row:
    marks = [start, *(at[tasks * part // PARTS - 1] for part in range(1, PARTS + 1))]
    parts = [(end - begin) * 1000 * PARTS / tasks for begin, end in pairwise(marks)]
    return Row(tasks=tasks, cpu_ms=(at[-1] - start) * 1000 / tasks, parts=parts, events=events, seconds=seconds)


def plan_of(tasks: int) -> Plan:
    """Tasks without needs, each of a file of its own."""
    some = (Task(id=f"t{at}", files=(f"src/{at}.txt",), agent=CommandAgent(run="true")) for at in range(tasks))
    return Plan(version=1, name="loop", target="main", checks="none", tasks=tuple(some))


@contextmanager
def private_redis(folder: Path) -> Iterator[str]:
    """Start the Redis of a one-machine run, without its workers."""
    settings = Settings(home=folder / "home", cache=folder / "cache")
    logs = folder / "logs"
    logs.mkdir()
    parts = Embedded(settings=settings, logs=logs, workers=0, place=scratch())
    parts.redis = parts._start_redis()
    try:
        yield parts.url
    finally:
        parts.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").strip().partition("\n")[0])
    parser.add_argument("tasks", nargs="*", type=int, default=[300, 1000, 5000])
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--trials", type=int, default=2)
    parser.add_argument("--outside", action="store_true")
    parser.add_argument("--profile", action="store_true")
    said = parser.parse_args()
    print(
        f"{'tasks':>6} {'ms/task':>8}  {'by eighths':<47}  {'last/first':>10} {'events':>8} {'wall s':>7}", flush=True
    )
    for tasks in said.tasks:
        # A process has one broker.
        if (pid := os.fork()) == 0:
            profile = cProfile.Profile()
            if said.profile:
                profile.enable()
            print(measure(tasks, said.workers, said.trials, outside=said.outside), flush=True)
            if said.profile:
                profile.disable()
                pstats.Stats(profile, stream=sys.stdout).sort_stats("tottime").print_stats(45)
            sys.exit()
        if os.waitpid(pid, 0)[1]:
            sys.exit(1)


if __name__ == "__main__":
    main()
