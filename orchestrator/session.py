"""
A run from its outside: checks that it can begin, gathers what it works with, lets the loop go, and cleans up.

Everything that can be refused is refused before anything is started: an unusable hub, a target that is checked out
somewhere, a plan without checks, a hub that does not take our refs, a Redis that does not want us.
"""

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from orchestrator import embedded, inbox, runs
from orchestrator.decisions import Course
from orchestrator.durations import learned_durations
from orchestrator.embedded import Embedded
from orchestrator.events import RunResumed, RunStarted
from orchestrator.journal import Journal, Recorded
from orchestrator.link import Link
from orchestrator.loop import Ending, Loop, Wishes
from orchestrator.plan import Plan, load_plan, plan_digest
from orchestrator.runs import KeptRun, Options
from orchestrator.state import State
from supervisor.definitions import read_gate_file
from supervisor.gate import GATE_FILE
from workers.documents import read
from workers.refs import marker_ref
from workers.settings import Settings, put_first_on_path
from workers.wire import connect, ping, use_broker
from worktrees.changes import FileTooLarge, read_file, tree_paths
from worktrees.git import CommitId, GitFailed
from worktrees.hub import HubFacts, inspect_hub
from worktrees.mirror import Mirror, open_mirror
from worktrees.prune import prune_run
from worktrees.push import Pushed, RefUpdate
from worktrees.target import create_target

Listener = Callable[[State, Sequence[Recorded]], None]


class CannotRun(Exception):
    """A run that cannot begin as asked: wrong plan or repository. One sentence with the mend."""


class CannotReach(Exception):
    """Infrastructure stands in the way of a run. One sentence with the mend."""


@dataclass(frozen=True, slots=True)
class Hub:
    """The hub as a run sees it at its beginning."""

    facts: HubFacts
    mirror: Mirror
    heads: dict[str, CommitId]

    def tip_for(self, plan: Plan) -> CommitId:
        """Where the plan's target is, or would be created."""
        return self.heads.get(plan.target) or self.base_of(plan.base)

    def base_of(self, base: str | None) -> CommitId:
        """
        The commit a base names: a branch, a tag, or a commit id; the default branch when there is no name.

        Raises:
            CannotRun: the hub has no such thing.
        """
        name = self.facts.default_branch if base in (None, "HEAD") else base
        if name is None:
            raise CannotRun(f"{self.facts.url} has no default branch; name a `base` in the plan")
        if name in self.heads:
            return self.heads[name]
        tag = self.mirror.hub_refs(f"refs/tags/{name}", f"refs/tags/{name}^{{}}")
        found = tag.get(f"refs/tags/{name}^{{}}") or tag.get(f"refs/tags/{name}")
        if found is not None:
            self.mirror.ensure(found, refs=(f"refs/tags/{name}",))
            return found
        self.mirror.fetch()
        try:
            return CommitId(self.mirror.git.text("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}"))
        except GitFailed as unknown:
            branches = ", ".join(sorted(self.heads)[:8])
            raise CannotRun(
                f"base '{name}' is no branch, tag or commit of {self.facts.url}; branches are: {branches}"
            ) from unknown


def open_hub(where: str, settings: Settings) -> Hub:
    """The hub at a path or URL, mirrored here. Raises HubUnusable, GitFailed."""
    facts = inspect_hub(where, credential_helper=settings.git_credential_helper)
    mirror = open_mirror(facts.url, settings.cache, credential_helper=settings.git_credential_helper)
    heads = {ref.removeprefix("refs/heads/"): at for ref, at in mirror.hub_refs("refs/heads/*").items()}
    return Hub(facts, mirror, heads)


def read_plan(path: Path, hub: Hub) -> Plan:
    """The plan, fanned out over the tree its tasks will start from. Raises DocumentWrong, CannotRun."""

    def files() -> Sequence[str]:
        target, base = _target_and_base(path)
        tip = hub.heads.get(target) or hub.base_of(base)
        hub.mirror.ensure(tip)
        return tree_paths(hub.mirror.git, tip)

    return load_plan(path, files=files)


def _target_and_base(path: Path) -> tuple[str, str | None]:
    """What a plan says of them, before it can be read as a whole: a fan-out needs the tree they name."""
    said = read(path.read_text(encoding="utf-8"), str(path)).data
    if not isinstance(said, dict):
        return "", None
    base = said.get("base")
    target = said.get("target") or f"forgepool/{said.get('name')}"
    return str(target), None if base is None else str(base)


def refuse_unready(plan: Plan, hub: Hub) -> bool:
    """
    Whether the target has a gate file of its own.

    Raises:
        CannotRun: the target is checked out somewhere, or nothing says what must be green.
    """
    folder = hub.facts.checked_out.get(plan.target)
    if folder is not None:
        raise CannotRun(
            f"branch {plan.target} is checked out in {folder}, where landing would pull the rug from under you; "
            f"switch that folder to another branch, or give the plan another `target`"
        )
    tip = hub.tip_for(plan)
    hub.mirror.ensure(tip)
    try:
        text = read_file(hub.mirror.git, tip, GATE_FILE)
    except FileTooLarge as problem:
        raise CannotRun(f"{GATE_FILE} of the target is too large: {problem}") from problem
    if text is not None:
        read_gate_file(text.decode(errors="replace"), GATE_FILE)
    elif plan.checks in (None, ()):
        raise CannotRun(
            f"plan {plan.name} has no checks, and {hub.facts.default_branch or 'the target'} has no {GATE_FILE}; "
            "nothing lands unverified: add `checks:` to either, or say `checks: none` in the plan"
        )
    return text is not None


def start_run(
    plan: Plan,
    plan_file: Path,
    hub: Hub,
    settings: Settings,
    *,
    workers: int,
    wishes: Wishes,
    listener: Listener,
    programs: str = "",
) -> tuple[KeptRun, Ending]:
    """Runs a plan from its beginning."""
    has_gate_file = refuse_unready(plan, hub)
    _prove_transport(settings)
    _prove_home(settings)
    run = runs.new_run_id(plan.name)
    _prove_writable(hub.mirror, run)
    tip = create_target(hub.mirror, plan.target, hub.tip_for(plan))
    options = Options(
        run=run,
        hub=hub.facts.url,
        target=plan.target,
        workers=workers,
        plan_file=str(plan_file.absolute()),
        plan_file_digest=runs.file_digest(plan_file),
        programs=programs,
    )
    kept = runs.keep(settings, options, plan)
    beginning = RunStarted(
        run=run,
        plan_digest=plan_digest(plan),
        hub=hub.facts.url,
        target=plan.target,
        tip=tip,
        gate_file=has_gate_file,
    )
    return kept, _go(kept, hub.mirror, settings, beginning, wishes, listener)


def resume_run(kept: KeptRun, settings: Settings, *, workers: int | None, wishes: Wishes, listener: Listener) -> Ending:
    """Goes on with a run where its journal ends."""
    if not kept.state().run:
        raise CannotRun(f"run {kept.options.run} never began; start it again: forgepool run {kept.options.plan_file}")
    hub = open_hub(kept.options.hub, settings)
    folder = hub.facts.checked_out.get(kept.options.target)
    if folder is not None:
        raise CannotRun(f"branch {kept.options.target} is checked out in {folder}; switch that folder, then resume")
    tip = hub.heads.get(kept.options.target)
    if tip is None:
        raise CannotRun(f"branch {kept.options.target} is gone from {hub.facts.url}; create it again, then resume")
    if kept.options.programs:
        put_first_on_path(kept.options.programs)
    if workers is not None:
        kept = runs.with_workers(kept, workers)
    return _go(kept, hub.mirror, settings, RunResumed(tip=tip), wishes, listener)


def _prove_transport(settings: Settings) -> None:
    """Before anything is made in the hub or at home: is there a Redis that will have us, or one to start?"""
    if settings.broker_url is not None:
        ping(connect(settings.broker_url), settings.broker_url)
    else:
        embedded.redis_binary(settings)


def _prove_home(settings: Settings) -> None:
    """Writes a page and removes it: a journal that cannot be written is no beginning."""
    folder = runs.runs_folder(settings)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as page:
            page.write(bytes(64 * 1024))
            page.flush()
    except OSError as trouble:
        raise CannotReach(
            f"{folder} cannot be written: {trouble.strerror}; make room there, or set FORGEPOOL_HOME to another folder"
        ) from trouble


def _prove_writable(mirror: Mirror, run: str) -> None:
    """Creates and removes a ref: better refused now than when the first candidate is finished."""
    blob = CommitId(mirror.git.text("hash-object", "-w", "--stdin", stdin=b"forgepool\n"))
    probe = f"refs/forgepool/{run}/probe"
    said = mirror.push([RefUpdate(ref=probe, new=blob, expected=None)])
    if not isinstance(said, Pushed):
        raise CannotReach(f"the hub {mirror.hub} takes no refs from us: {said}; get permission to push there")
    mirror.push([RefUpdate(ref=probe, new=None, expected=blob)])


def _go(
    kept: KeptRun,
    mirror: Mirror,
    settings: Settings,
    beginning: RunStarted | RunResumed,
    wishes: Wishes,
    listener: Listener,
) -> Ending:
    journal = Journal(kept.folder)
    try:
        state, earlier = kept.replay()
        # Before anything is started that could fail: a run whose journal is empty could not be resumed.
        _begin(state, journal, beginning, listener)
        with _transport(settings, kept) as (url, parts):
            use_broker(url)
            link = Link(connect(url), kept.options.run, settings.lease_ttl_s)
            loop = Loop(
                course=Course(kept.plan, learned_durations(settings, kept.plan)),
                state=state,
                journal=journal,
                folder=kept.folder,
                mirror=mirror,
                link=link,
                parts=parts,
                wishes=wishes,
                listener=listener,
            )
            ending = loop.run(resumed=bool(earlier))
        if ending == "ended":
            _tidy(mirror, state)
            inbox.discard(kept.folder)
        return ending
    finally:
        journal.close()


def _begin(state: State, journal: Journal, beginning: RunStarted | RunResumed, listener: Listener) -> None:
    now = time.time()
    state.apply(beginning, number=state.number + 1, at=now)
    listener(state, journal.append([beginning], at=now))


@contextmanager
def _transport(settings: Settings, kept: KeptRun) -> Iterator[tuple[str, Embedded | None]]:
    """The shared Redis of the settings, or a private one with workers of our own."""
    if settings.broker_url is not None:
        client = connect(settings.broker_url)
        ping(client, settings.broker_url)
        yield settings.broker_url, None
        return
    parts = embedded.start(settings, logs=kept.folder / "logs", workers=kept.options.workers)
    try:
        yield parts.url, parts
    finally:
        parts.stop()


def _tidy(mirror: Mirror, state: State) -> None:
    """
    Removes the run's refs from the hub, but for the candidates of what did not land: they are work not to be lost.

    A hub that is away keeps the rest too.
    """
    unlanded = [task.id for task in state.tasks.values() if task.phase != "landed"]
    # What has tried to land may have: its marker is what keeps it from landing twice, should it be tried again.
    tried = [task.id for task in state.tasks.values() if task.landings and task.phase != "landed"]
    markers = [marker_ref(state.run, task) for task in tried]
    until = time.monotonic() + 5
    while time.monotonic() < until:
        try:
            prune_run(mirror, state.run, keep_orders_of=unlanded, keep=markers)
            return
        except GitFailed:
            time.sleep(0.5)
