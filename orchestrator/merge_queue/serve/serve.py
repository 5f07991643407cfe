"""Gates from their outside: what is refused before anything is started, their journals, and what they work with."""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field

from forgepool.orchestrator.decisions.plan_index import PeoplesReview, gate_course, gate_plan
from forgepool.orchestrator.decisions.queue.submissions import earlier_name
from forgepool.orchestrator.journal.events import GateRuled, RunResumed, RunStarted
from forgepool.orchestrator.journal.queue_rules import GateRules
from forgepool.orchestrator.journal.store import Journal
from forgepool.orchestrator.launch import embedded
from forgepool.orchestrator.launch.embedded import ChildProcesses, Embedded, mirror_aside
from forgepool.orchestrator.launch.prerequisites import prove_home, prove_sandbox, prove_transport, prove_writable
from forgepool.orchestrator.launch.session import Listener, begin
from forgepool.orchestrator.merge_queue.serve.hub_refs import Notices
from forgepool.orchestrator.merge_queue.serve.loop import GateLoop
from forgepool.orchestrator.merge_queue.serve.multi import Leave, SharedSlots, keep_together, make_shared
from forgepool.orchestrator.run import run_folder
from forgepool.orchestrator.run.hub import CannotRun, Hub, open_hub
from forgepool.orchestrator.run.loop import WAIT_S, Wishes
from forgepool.orchestrator.run.run_folder import KeptRun, RunOptions
from forgepool.orchestrator.run.transport import Link
from forgepool.orchestrator.state.run import RunState
from forgepool.supervisor.gate.requirements import GATE_FILE
from forgepool.supervisor.gate_file.document import read_gate_file
from forgepool.workers.queue.broker import connect, ping, use_broker
from forgepool.workers.schema.confinement import Level
from forgepool.workers.schema.settings import Settings
from forgepool.workers.schema.yaml.mistakes import DocumentWrong
from forgepool.worktrees.commits.changes import find_at, read_file
from forgepool.worktrees.hub.mirror import Mirror

Beside = Callable[[KeptRun, Mirror], AbstractContextManager[None]]
"""What serves beside a gate's loop, in threads of its own and by this mirror alone, for as long as the gate is kept."""


Shut = Callable[[str, Exception], None]
"""Told of a target that is left out, and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePost:
    """Where a gate stands, and with what."""

    hub: Hub
    target: str
    trials: int = 1
    """Cars that are checked at once on this machine."""
    people: PeoplesReview = "none"
    rules: GateRules = field(default_factory=GateRules)


def gate_name(hub: str, target: str) -> str:
    """Of the one gate that this home has in front of a branch of a hub."""
    return f"gate-{earlier_name(target)[:60]}-{hashlib.sha256(f'{hub} {target}'.encode()).hexdigest()[:6]}"


def take_post(where: str, target: str, settings: Settings) -> QueuePost:
    """
    Raises:
        CannotRun: there is no such branch, somebody has it checked out, or it says of no check.
        DocumentWrong: its gate file cannot be read as one.
        HubUnusable, GitFailed: the hub cannot be worked with.
    """
    return _post(open_hub(where, settings), target)


def _post(hub: Hub, target: str) -> QueuePost:
    if target not in hub.heads:
        branches = ", ".join(sorted(hub.heads)[:8])
        raise CannotRun(f"{hub.facts.url} has no branch '{target}'; name one with --target: {branches}")
    folder = hub.facts.checked_out.get(target)
    if folder is not None:
        raise CannotRun(
            f"branch {target} is checked out in {folder}, whose files would not follow it; gate a bare repository, "
            "or switch that folder to another branch"
        )
    _prove_gate_file(hub, target)
    return QueuePost(hub=hub, target=target)


def _prove_gate_file(hub: Hub, target: str) -> None:
    """Better told now than with the first entry; later changes of it are the gate's to tell."""
    tip = hub.heads[target]
    hub.mirror.ensure(tip)
    text = read_file(hub.mirror.git, tip, GATE_FILE)
    name = f"{target}:{GATE_FILE}"
    if text is None or not read_gate_file(text.decode(errors="replace"), name).checks:
        what = "does not exist" if text is None else "has no checks"
        raise CannotRun(f"{name} {what}, and nothing lands unchecked; forgepool init proposes one")


def posts(where: str, targets: Sequence[str], settings: Settings, shut: Shut) -> list[QueuePost]:
    """
    A post for each target. One that this home has kept before, and whose branch is no more to be gated as it is now, is
    told to `shut` and left out for the others' sake, where there are any. Raises as `take_post`.
    """
    twice = next((one for one in targets if targets.count(one) > 1), None)
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
) -> list[KeptRun]:
    """
    Keeps the gates, all of one hub, until a person stops them. What serves `beside` is given the first of them.

    Nothing is begun where one of them cannot be. What nobody foresaw ends the gate that it happens to, of which `left`
    is told, and is raised once the others have ended, too. Raises JournalBusy where this home keeps one already.
    """
    names = [gate_name(one.hub.facts.url, one.target) for one in stands]
    level = prove_sandbox(gate_plan(names[0], stands[0].target), settings)
    prove_transport(settings)
    prove_home(settings)
    for post, name in zip(stands, names, strict=True):
        prove_writable(post.hub.mirror, name)
        post.hub.mirror.ensure(post.hub.heads[post.target])
    with ExitStack() as held:
        journals = [_journal(held, settings, name) for name in names]
        kept = [_kept(settings, name, post) for name, post in zip(names, stands, strict=True)]
        begun = [_begun(*one, level, listener) for one in zip(kept, stands, journals, strict=True)]
        broker, parts = held.enter_context(_transport(stands[0], settings, kept[0]))
        use_broker(broker)
        loops = _loops(begun, broker, parts, settings, wishes, listener)
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
) -> list[GateLoop]:
    places = SharedSlots(states={one.state.run: one.state for one in begun}) if len(begun) > 1 else None
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


def _begun(kept: KeptRun, post: QueuePost, journal: Journal, level: Level | None, listener: Listener) -> _Begun:
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


def _kept(settings: Settings, name: str, post: QueuePost) -> KeptRun:
    options = RunOptions(
        run=name,
        hub=post.hub.facts.url,
        target=post.target,
        workers=0,
        trials=post.trials,
        plan_file="",
        plan_file_digest="",
        gate=True,
    )
    if name in set(run_folder.run_names(settings)):
        return run_folder.with_options(run_folder.open_run(settings, name, with_course=False), options)
    return run_folder.keep(settings, options, gate_plan(name, post.target))


@contextmanager
def _transport(post: QueuePost, settings: Settings, kept: KeptRun) -> Iterator[tuple[str, Embedded | None]]:
    if settings.broker_url is not None:
        ping(connect(settings.broker_url), settings.broker_url)
        yield settings.broker_url, None
        return
    parts = embedded.start(settings, logs=kept.folder / "logs", workers=0, reviews=1, trials=post.trials)
    try:
        yield parts.url, parts
    finally:
        parts.stop()
