"""
The nine guarantees of a merge queue, compared with what the hub and the journal show.

I1: the target moves only to a commit that was found green. I2: an entry lands with exactly its own changes. I3: it
lands on the base it was tested on.

I4: it lands at most once. I5: the submitted commit lands. I6: its needs land first.

I7: no entry is returned for another's fault. I8: no more checks run than there are slots. I9: an outcome stays.

Each is checked with plain git, or with what the test itself has pushed, and never with the queue's own state alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from kept_here import RUN, Hands
from tiny_hub import Move, Step, TinyHub

from forgepool.orchestrator.journal import events as e
from forgepool.orchestrator.journal.store import Recorded
from forgepool.orchestrator.state.run import RunState
from forgepool.orchestrator.state.task import IN_TRAIN, MOST_TROUBLES, TERMINAL, Phase
from forgepool.workers.workspace.refs import candidate_ref, submission_ref


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """An entry as it was when its landing was intended."""

    name: str
    revision: int
    commit: str
    needs: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    base: str
    tree: str
    entries: tuple[Standing, ...]


@dataclass(slots=True, kw_only=True)
class Promises:
    hub: TinyHub
    hands: Hands
    pushed: dict[str, list[str]] = field(default_factory=dict)
    """Commits submitted under a name, the latest last."""
    foreign: set[Move] = field(default_factory=set)
    """Moves of the target by others."""
    intents: dict[str, Intent] = field(default_factory=dict)
    """Intended landings, by the commit that was to land."""
    chain: list[tuple[str, str]] = field(default_factory=list)
    """The target's first-parent history: commits and the entry of each, empty for a commit pushed by others."""
    landed: dict[str, str] = field(default_factory=dict)
    """The commit with which the queue landed an entry."""
    phases: dict[str, Phase] = field(default_factory=dict)
    trials: dict[str, e.CheckSent] = field(default_factory=dict)
    slow: set[tuple[str, str]] = field(default_factory=set)
    """Entries with the commits of their revisions that ran out of time alone."""
    heard: set[tuple[str, str]] = field(default_factory=set)
    """Submissions that the journal contains."""
    seen: int = 0
    """Number of moves of the target that were checked."""

    def begin(self) -> None:
        self.seen = len(self.hub.moves())
        self.chain = [(self.hub.tip, "")]

    def hear(self, state: RunState, recorded: Sequence[Recorded]) -> None:
        """Check new journal events against the state they lead to."""
        for one in recorded:
            self._heard_of(state, one.event)
        self._ends_stay(state, recorded)

    def _heard_of(self, state: RunState, event: e.Event) -> None:
        match event:
            case e.EntrySubmitted(task=name, commit=commit):
                self.heard.add((name, commit))
                assert commit in self.pushed[name], f"I5: nobody has submitted {commit} as {name}"
            case e.EntryRefused(name=name, commit=commit):
                self.heard.add((name, commit))
            case e.CheckSent():
                self._slots_hold(state, event)
            case e.CheckAnswered(result=result):
                self._times_out(state, event)
                assert result.request_id in self.trials
            case e.LandingIntended():
                standing = tuple(self._standing(state, one) for one in event.entries)
                self.intents[event.commit] = Intent(base=event.base, tree=event.tree, entries=standing)
            case e.TaskFailed(task=name):
                self._is_to_blame(state, name)
            case e.TaskBlocked(task=name, by=by):
                assert by in state.submitted[name].needs, f"I6: {name} is withdrawn for {by}, which it does not need"
                assert state.tasks[by].phase in TERMINAL and state.tasks[by].phase != "landed", f"I6: {by} may land"
            case e.TaskParked(task=name):
                assert state.tasks[name].troubles >= MOST_TROUBLES, f"I7: {name} was given up after some trouble"
            case _:
                pass

    def _standing(self, state: RunState, name: str) -> Standing:
        task, entry = state.tasks[name], state.submitted[name]
        assert task.candidate == entry.commit and task.attempt == entry.revision, f"I5: {name} is of two revisions"
        return Standing(name=name, revision=task.attempt, commit=task.candidate, needs=entry.needs)

    def _slots_hold(self, state: RunState, sent: e.CheckSent) -> None:
        running = [one for one in state.train.line.trials.values() if one.state == "running"]
        assert len(running) <= self.hands.slots, f"I8: {len(running)} checks are out, of {self.hands.slots}"
        where = [(state.train.out[one.id].base, one.spec) for one in running]
        assert len(where) == len(set(where)), f"I8: {sent.car} is tried twice at once"
        self.trials[sent.message_id] = sent

    def _times_out(self, state: RunState, answered: e.CheckAnswered) -> None:
        result = answered.result
        if result.verdict == "red" and all(one.how == "timeout" for one in result.failures):
            self.slow |= {(one, state.tasks[one].candidate) for one in answered.car}

    def _is_to_blame(self, state: RunState, name: str) -> None:
        """A returned entry must fail by itself on the green target that the queue knew; git is asked, not the queue."""
        commit = state.submitted[name].commit
        if (name, commit) in self.slow:
            return
        tree = self.hub.merged(state.tip, commit)
        assert tree is None or self.hub.is_red(tree), f"I7: {name} was returned, and is green on {state.tip[:12]}"
        assert tree is None or not self.hub.is_red(state.tip), f"I7: {name} was returned for a target that is red"

    def _ends_stay(self, state: RunState, recorded: Sequence[Recorded]) -> None:
        anew = {one.event.task for one in recorded if isinstance(one.event, e.EntrySubmitted)}
        for name, was in self.phases.items():
            now = state.tasks[name].phase
            if was in TERMINAL and now != was:
                assert name in anew and was != "landed", f"I9: {name} was {was}, and is {now}"
        self.phases = {task.id: task.phase for task in state.tasks.values()}

    def hold(self, state: RunState) -> None:
        """Check all that can be seen between two steps."""
        moves = self.hub.moves()
        for before, move in zip(moves[self.seen - 1 :], moves[self.seen :], strict=False):
            assert move.old == before.new, "the hub's record has a gap"
            if move in self.foreign:
                self._is_moved_by_others(move)
            else:
                self._is_moved_by_the_gate(move)
        self.seen = len(moves)
        self._says_landed_what_has(state)
        self._loses_nobody(state)

    def _is_moved_by_others(self, move: Move) -> None:
        known = [commit for commit, _ in self.chain]
        if move.new in known:
            del self.chain[known.index(move.new) + 1 :]
        else:
            self.chain.append((move.new, ""))

    def _is_moved_by_the_gate(self, move: Move) -> None:
        intent = self.intents.get(move.new)
        assert intent is not None, f"I1: the target is at {move.new[:12]}, which nobody has intended"
        assert self.hands.green.get(move.new) == intent.tree, f"I1: {move.new[:12]} was not found green"
        assert not self.hub.is_red(move.new), f"I1: {move.new[:12]} is red"
        assert move.old == intent.base, f"I3: {move.new[:12]} landed on {move.old[:12]}, not on {intent.base[:12]}"
        steps = self.hub.steps(move)
        told = [(one.name, one.attempt) for one in steps]
        assert told == [(one.name, one.revision) for one in intent.entries], f"I2: landed were {told}"
        for step, entry in zip(steps, intent.entries, strict=True):
            self._lands_once(move, entry)
            self._lands_after_its_needs(move, entry)
            self._brings_its_own(step, entry)
            self.chain.append((step.commit, step.name))
            self.landed[step.name] = step.commit

    def _lands_once(self, move: Move, entry: Standing) -> None:
        assert entry.name not in [name for _, name in self.chain], f"I4: {entry.name} has landed twice"
        assert not self.hub.has(move.old, entry.commit), f"I4: {entry.name} landed, and the target had it"

    def _lands_after_its_needs(self, move: Move, entry: Standing) -> None:
        """I6: a need has landed even if a push past the queue takes it out of the target again."""
        moves = self.hub.moves()
        tips = [one.new for one in moves[: moves.index(move)]]
        for need in entry.needs:
            brought = any(self.hub.has(tip, one) for tip in tips for one in self.pushed[need])
            there = need in self.landed or brought
            assert there, f"I6: {entry.name} landed before {need}, which it needs"

    def _brings_its_own(self, step: Step, entry: Standing) -> None:
        """
        I2: it lands exactly the entry's own changes on top of what was there. I5: they are of the submitted commit.
        """
        expected = dict(self.hub.files(step.before))
        for path, content in self.hub.own(entry.commit, self.hub.fork(step.before, entry.commit)).items():
            expected.pop(path, None)
            expected |= {} if content is None else {path: content}
        assert self.hub.files(step.commit) == expected, f"I2: {entry.name} landed with other changes than its own"
        assert step.parents[0] == step.before, f"I3: {entry.name} does not stand on what was there"
        assert step.parents[1:] in ((), (entry.commit,)), f"I5: {entry.name} landed as another commit"

    def _says_landed_what_has(self, state: RunState) -> None:
        for task in state.in_phase("landed"):
            at = self.landed.get(task.id)
            assert at == task.commit or self._brought_by_others(task.commit, task.candidate), f"I4: {task.id} is not in"

    def _brought_by_others(self, tip: str, commit: str) -> bool:
        """Return whether others brought the commit into the target, even if it was removed since."""
        return tip in [move.new for move in self.hub.moves()] and self.hub.has(tip, commit)

    def _loses_nobody(self, state: RunState) -> None:
        """Each submission is still in the hub or in the journal, and its commit is kept."""
        for name, commits in self.pushed.items():
            lies = self.hub.ref(submission_ref("main", name))
            standing = state.tasks[name].candidate if name in state.tasks else ""
            told = (name, commits[-1]) in self.heard or standing == commits[-1]
            assert told or lies, f"the submission {name} is lost"
        for task in state.in_phase(*IN_TRAIN):
            pin = self.hub.ref(candidate_ref(RUN, task.id, task.attempt))
            assert pin == task.candidate, f"I5: {task.id} is kept at {pin[:12]}, not at {task.candidate[:12]}"
