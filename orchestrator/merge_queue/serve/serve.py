"""Starts and serves queues: refuses unusable targets, opens their journals, and provides Redis and workers."""

import hashlib
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field

from forgepool.orchestrator.decisions.orders.treasury import TreasurySource
from forgepool.orchestrator.decisions.plan_index import PeoplesReview, gate_course, gate_plan
from forgepool.orchestrator.decisions.queue.submissions import earlier_name
from forgepool.orchestrator.journal.events import GateRuled, RunResumed, RunStarted
from forgepool.orchestrator.journal.queue_rules import GateRules
from forgepool.orchestrator.journal.store import Journal
from forgepool.orchestrator.launch.embedded import ChildProcesses, Embedded, mirror_aside
from forgepool.orchestrator.launch.prerequisites import check_home, check_hub_writable, check_sandbox, check_transport
from forgepool.orchestrator.launch.session import Listener, begin, transport
from forgepool.orchestrator.merge_queue.serve.hub_refs import Notices
from forgepool.orchestrator.merge_queue.serve.loop import GateLoop
from forgepool.orchestrator.merge_queue.serve.multi import Leave, SharedSlots, keep_together, make_shared
from forgepool.orchestrator.run import run_folder
from forgepool.orchestrator.run.hub import CannotRun, Hub, open_hub
from forgepool.orchestrator.run.loop import WAIT_S
from forgepool.orchestrator.run.neighbours.treasury import hold_treasury, open_desk
from forgepool.orchestrator.run.run_folder import KeptRun, RunOptions
from forgepool.orchestrator.run.sending import Wishes
from forgepool.orchestrator.run.transport import Link
from forgepool.orchestrator.state.run import RunState
from forgepool.workers.policy.gate_file.document import GATE_FILE
from forgepool.workers.policy.gate_file.reading import read_gate_file
from forgepool.workers.queue.broker import connect
from forgepool.workers.sandbox.own_processes import Seed
from forgepool.workers.schema.confinement import Level
from forgepool.workers.schema.mistakes import DocumentWrong
from forgepool.workers.schema.settings import Settings
from forgepool.worktrees.commits.changes import find_at, read_file
from forgepool.worktrees.hub.mirror import Mirror

Beside = Callable[[KeptRun, Mirror], AbstractContextManager[None]]
"""A service beside the queue's loop (API, bot), in its own threads, with this mirror, while the queue is served."""


Shut = Callable[[str, Exception], None]
"""Called for a target that is left out, with the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePost:
    """One branch to serve, and how."""

    hub: Hub
    target: str
    trials: int = 1
    """Batches of entries checked at once on this machine."""
    people: PeoplesReview = "none"
    rules: GateRules = field(default_factory=GateRules)


def gate_name(hub: str, target: str) -> str:
    """Return the name of this home's queue for a branch of a hub."""
    return f"gate-{earlier_name(target)[:60]}-{hashlib.sha256(f'{hub} {target}'.encode()).hexdigest()[:6]}"


def take_post(where: str, target: str, settings: Settings) -> QueuePost:
    """
    Open the hub and check that the target can be served.

    Raises:
        CannotRun: there is no such branch, it is checked out, or it defines no checks.
        DocumentWrong: its gate file is invalid.
        HubUnusable, GitFailed: the hub cannot be used.
    """
    return _post(open_hub(where, settings), target)


def _post(hub: Hub, target: str) -> QueuePost:
    if target not in hub.heads:
        branches = ", ".join(sorted(hub.heads)[:8])
        raise CannotRun(f"{hub.facts.url} has no branch '{target}'; name one with --target: {branches}")
    folder = hub.facts.checked_out.get(target)
    if folder is not None:
        raise CannotRun(
            f"branch {target} is checked out in {folder}, whose files would go stale when changes land; "
            "serve a bare repository, or switch that folder to another branch"
        )
    _check_gate_file(hub, target)
    return QueuePost(hub=hub, target=target)


def _check_gate_file(hub: Hub, target: str) -> None:
    """Refuse a target without checks now rather than at the first entry; later changes are the queue's to report."""
    tip = hub.heads[target]
    hub.mirror.ensure(tip)
    text = read_file(hub.mirror.git, tip, GATE_FILE)
    name = f"{target}:{GATE_FILE}"
    if text is None or not read_gate_file(text.decode(errors="replace"), name).checks:
        what = "does not exist" if text is None else "has no checks"
        raise CannotRun(f"{name} {what}, but nothing may land unchecked; `forgepool init` proposes one")


def posts(where: str, targets: Sequence[str], settings: Settings, shut: Shut) -> list[QueuePost]:
    """
    Return a post for each target. Raises as `take_post`.

    A target that was served from this home before and cannot be served now is reported to `shut` and left out, provided
    that others remain.
    """
    twice = next((target for target in targets if targets.count(target) > 1), None)
    if twice is not None:
        raise CannotRun(f"--target {twice} is given twice; give each branch once")
    earlier = set(run_folder.run_names(settings))
    found, troubles = list[QueuePost](), dict[str, CannotRun | DocumentWrong]()
    for one in targets:
        hub = open_hub(where, settings)
        try:
            found.append(_post(hub, one))
        except (CannotRun, DocumentWrong) as trouble:
            if gate_name(hub.facts.url, one) not in earlier:
                raise
            troubles[one] = trouble
    if not found:
        raise next(iter(troubles.values()))
    for one, why in troubles.items():
        shut(one, why)
    return found


def serve(
    stands: Sequence[QueuePost],
    settings: Settings,
    *,
    wishes: Wishes,
    listener: Listener,
    left: Leave,
    beside: Sequence[Beside] = (),
    seed: Seed | None = None,
) -> list[KeptRun]:
    """
    Serve the queues, all of one hub, until a person stops them. The services `beside` belong to the first. `seed` is of
    `prepare_host`.

    Nothing starts unless all can be served. An unforeseen exception ends only its own queue, is passed to `left`, and
    is raised when the others have ended. Raises JournalBusy where this home serves one of them already.
    """
    names = [gate_name(one.hub.facts.url, one.target) for one in stands]
    level = check_sandbox(gate_plan(names[0], stands[0].target), settings)
    check_transport(settings)
    check_home(settings)
    for post, name in zip(stands, names, strict=True):
        check_hub_writable(post.hub.mirror, name)
        post.hub.mirror.ensure(post.hub.heads[post.target])
    with ExitStack() as held:
        limits = held.enter_context(hold_treasury(settings, alone=settings.broker_url is None))
        journals = [_journal(held, settings, name) for name in names]
        kept = [_keep_folder(settings, name, post) for name, post in zip(names, stands, strict=True)]
        begun = [_begin_queue(*one, level, listener) for one in zip(kept, stands, journals, strict=True)]
        logs = kept[0].folder / "logs"
        slots = {"workers": 0, "reviews": 1, "trials": stands[0].trials}
        broker, parts = held.enter_context(transport(settings, logs, seed=seed, **slots))
        loops = _loops(begun, broker, parts, settings, wishes, listener, limits)
        mirror = mirror_aside(stands[0].hub.mirror, parts.aside if parts is not None else ChildProcesses())
        for serves in beside:
            held.enter_context(serves(kept[0], mirror))
        for one, loop in zip(begun, loops, strict=True):
            loop.begin(resumed=one.is_resumed)
        if troubles := keep_together(loops, left):
            raise troubles[0]
    return kept


@dataclass(frozen=True, slots=True, kw_only=True)
class _Begun:
    kept: KeptRun
    post: QueuePost
    journal: Journal
    state: RunState
    is_resumed: bool


def _loops(
    begun: Sequence[_Begun],
    broker: str,
    parts: Embedded | None,
    settings: Settings,
    wishes: Wishes,
    listener: Listener,
    limits: TreasurySource | None,
) -> list[GateLoop]:
    places = SharedSlots(states={queue.state.run: queue.state for queue in begun}) if len(begun) > 1 else None
    return [
        GateLoop(
            course=gate_course(one.kept.plan, one.state, one.post.people),
            state=one.state,
            journal=one.journal,
            folder=one.kept.folder,
            mirror=one.post.hub.mirror,
            link=Link(connect(broker), one.state.run, settings.lease_ttl_s),
            parts=part,
            wishes=wishes,
            listener=listener,
            treasury=open_desk(
                settings, limits, one.kept.options, connect(broker), alone=parts is not None and not places
            ),
            wait_s=WAIT_S / len(begun),
            places=places,
            notices=Notices(host=settings.host, trials=one.post.trials),
        )
        for one, part in zip(begun, make_shared(parts, len(begun)), strict=True)
    ]


def _journal(held: ExitStack, settings: Settings, name: str) -> Journal:
    journal = Journal(run_folder.runs_folder(settings) / name)
    held.callback(journal.close)
    return journal


def _begin_queue(kept: KeptRun, post: QueuePost, journal: Journal, level: Level | None, listener: Listener) -> _Begun:
    state, earlier = kept.replay()
    tip = post.hub.heads[post.target]
    fresh = RunStarted(
        run=kept.options.run,
        plan_digest="",
        hub=post.hub.facts.url,
        target=post.target,
        tip=tip,
        gate_file=find_at(post.hub.mirror.git, tip, GATE_FILE).get(GATE_FILE) is not None,
        sandbox=level,
    )
    begin(state, journal, RunResumed(tip=tip, sandbox=level) if earlier else fresh, listener=listener)
    if post.rules != state.rules:
        begin(state, journal, GateRuled(rules=post.rules), listener=listener)
    return _Begun(kept=kept, post=post, journal=journal, state=state, is_resumed=bool(earlier))


def _keep_folder(settings: Settings, name: str, post: QueuePost) -> KeptRun:
    options = RunOptions(
        run=name,
        hub=post.hub.facts.url,
        target=post.target,
        workers=0,
        trials=post.trials,
        person=settings.person,
        plan_file="",
        plan_file_digest="",
        gate=True,
    )
    if name in set(run_folder.run_names(settings)):
        return run_folder.with_options(run_folder.open_run(settings, name, with_course=False), options)
    return run_folder.keep(settings, options, gate_plan(name, post.target))
