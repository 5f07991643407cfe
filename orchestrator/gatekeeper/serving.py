"""A gate from its outside: what is refused before anything is started, its journal, and what it works with."""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace

from orchestrator import embedded, runs
from orchestrator.aside import Aside, mirror_aside
from orchestrator.embedded import Embedded
from orchestrator.events import RunResumed, RunStarted
from orchestrator.gatekeeper.course import PeoplesReview, gate_course, gate_plan
from orchestrator.gatekeeper.keeping import GateLoop
from orchestrator.gatekeeper.submissions import entry_name
from orchestrator.hub import CannotRun, Hub, open_hub
from orchestrator.journal import Journal
from orchestrator.link import Link
from orchestrator.loop import Ending, Wishes
from orchestrator.refusals import prove_home, prove_sandbox, prove_transport, prove_writable
from orchestrator.runs import KeptRun, Options
from orchestrator.session import Listener, begin
from orchestrator.through.publishing import Notices
from supervisor.definitions import read_gate_file
from supervisor.demands import GATE_FILE
from workers.settings import Settings
from workers.wire import connect, ping, use_broker
from worktrees.changes import read_file
from worktrees.mirror import Mirror
from worktrees.paths import found_at

Beside = Callable[[KeptRun, Mirror], AbstractContextManager[None]]
"""What serves beside a gate's loop, in threads of its own and by this mirror alone, for as long as the gate is kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Post:
    """Where a gate stands, and with what."""

    hub: Hub
    target: str
    trials: int = 1
    """Cars that are checked at once on this machine."""
    people: PeoplesReview = "none"


def gate_name(hub: str, target: str) -> str:
    """Of the one gate that this home has in front of a branch of a hub."""
    return f"gate-{entry_name(target)[:60]}-{hashlib.sha256(f'{hub} {target}'.encode()).hexdigest()[:6]}"


def posted(where: str, target: str, settings: Settings) -> Post:
    """
    Raises:
        CannotRun: there is no such branch, somebody has it checked out, or it says of no check.
        DocumentWrong: its gate file cannot be read as one.
        HubUnusable, GitFailed: the hub cannot be worked with.
    """
    hub = open_hub(where, settings)
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
    return Post(hub=hub, target=target)


def _prove_gate_file(hub: Hub, target: str) -> None:
    """Better told now than with the first entry; later changes of it are the gate's to tell."""
    tip = hub.heads[target]
    hub.mirror.ensure(tip)
    text = read_file(hub.mirror.git, tip, GATE_FILE)
    name = f"{target}:{GATE_FILE}"
    if text is None or not read_gate_file(text.decode(errors="replace"), name).checks:
        what = "does not exist" if text is None else "has no checks"
        raise CannotRun(f"{name} {what}, and nothing lands unchecked; forgepool init proposes one")


def serve(
    post: Post, settings: Settings, *, wishes: Wishes, listener: Listener, beside: Sequence[Beside] = ()
) -> tuple[KeptRun, Ending]:
    """Keeps the gate until a person stops it. Raises JournalBusy where this home keeps it already."""
    name = gate_name(post.hub.facts.url, post.target)
    plan = gate_plan(name, post.target)
    level = prove_sandbox(plan, settings)
    prove_transport(settings)
    prove_home(settings)
    prove_writable(post.hub.mirror, name)
    tip = post.hub.heads[post.target]
    post.hub.mirror.ensure(tip)
    kept = _kept(settings, name, post)
    journal = Journal(kept.folder)
    try:
        state, earlier = kept.replay()
        has_file = found_at(post.hub.mirror.git, tip, GATE_FILE).get(GATE_FILE) is not None
        url = post.hub.facts.url
        fresh = RunStarted(
            run=name, plan_digest="", hub=url, target=post.target, tip=tip, gate_file=has_file, sandbox=level
        )
        begin(state, journal, RunResumed(tip=tip, sandbox=level) if earlier else fresh, listener)
        with _transport(post, settings, kept) as (broker, parts), ExitStack() as others:
            use_broker(broker)
            loop = GateLoop(
                course=gate_course(plan, state, post.people),
                state=state,
                journal=journal,
                folder=kept.folder,
                mirror=post.hub.mirror,
                link=Link(connect(broker), name, settings.lease_ttl_s),
                parts=parts,
                wishes=wishes,
                listener=listener,
                notices=Notices(host=settings.host),
            )
            mirror = mirror_aside(post.hub.mirror, parts.aside if parts is not None else Aside())
            for one in beside:
                others.enter_context(one(kept, mirror))
            return kept, loop.run(resumed=bool(earlier))
    finally:
        journal.close()


def _kept(settings: Settings, name: str, post: Post) -> KeptRun:
    options = Options(
        run=name,
        hub=post.hub.facts.url,
        target=post.target,
        workers=0,
        trials=post.trials,
        plan_file="",
        plan_file_digest="",
        gate=True,
    )
    if name in set(runs.run_names(settings)):
        return runs.with_options(runs.open_run(settings, name, with_course=False), options)
    return runs.keep(settings, options, gate_plan(name, post.target))


@contextmanager
def _transport(post: Post, settings: Settings, kept: KeptRun) -> Iterator[tuple[str, Embedded | None]]:
    if settings.broker_url is not None:
        ping(connect(settings.broker_url), settings.broker_url)
        yield settings.broker_url, None
        return
    parts = embedded.start(settings, logs=kept.folder / "logs", workers=0, reviews=1, trials=post.trials)
    try:
        yield parts.url, parts
    finally:
        parts.stop()


def with_people(post: Post, people: PeoplesReview, trials: int) -> Post:
    return replace(post, people=people, trials=trials)
