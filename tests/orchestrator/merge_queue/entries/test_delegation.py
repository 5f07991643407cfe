"""A run and a queue that share only a hub: whichever dies, and whenever, both know the same in the end."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest
from gate_world import after, decided, green

from forgepool.orchestrator.decisions.decide import decide
from forgepool.orchestrator.decisions.plan_index import PlanIndex, gate_course, gate_plan
from forgepool.orchestrator.decisions.queue.delegation import why_held_up, why_not_through
from forgepool.orchestrator.decisions.queue.intake import apply_request, take_in
from forgepool.orchestrator.decisions.queue.submissions import (
    CardUnreadable,
    Submission,
    in_order,
    read_card,
    read_submissions,
    tag_text,
    write_card_lines,
)
from forgepool.orchestrator.decisions.requests import grant_request
from forgepool.orchestrator.journal.events import (
    CheckAnswered,
    CheckSent,
    EntryGiven,
    EntryRefused,
    EntrySubmitted,
    EntryTold,
    Event,
    GateNoticed,
    LandingAnswered,
    LandingIntended,
    OrderAnswered,
    OrderSent,
    RunResumed,
    RunStarted,
    TaskParked,
)
from forgepool.orchestrator.journal.inbox import PersonRequest
from forgepool.orchestrator.journal.queue_events import Asks, Card, GateAnswer
from forgepool.orchestrator.merge_queue.serve.hub_refs import Notices
from forgepool.orchestrator.plan.document import Plan, Task, TaskNeed
from forgepool.orchestrator.reports.queue_board import BEAT_S
from forgepool.orchestrator.run.delegation import DOUBT_S, PATIENCE_S, SILENT_S, HubExchange, standing_gate, take_away
from forgepool.orchestrator.run.dispatch import check_request
from forgepool.orchestrator.run.hub import CannotRun
from forgepool.orchestrator.state.run import RunState
from forgepool.orchestrator.state.task import TERMINAL
from forgepool.supervisor.messages.answers import CheckResult, Landing
from forgepool.supervisor.messages.requests import PERSON, Author
from forgepool.workers.schema.orders import CommandAgent, WorkResult
from forgepool.workers.workspace.refs import candidate_ref, reply_ref, sign_ref, submissions_of
from forgepool.worktrees.git.git import CommitId, Git
from forgepool.worktrees.hub.mirror import Mirror, open_mirror
from forgepool.worktrees.hub.push import RefUpdate

RUN, GATE = "p-1", "gate-main-test"
ME = {name: "t" for name in ("GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL")}


@dataclass
class Run:
    """A run's journal, and the memory of its process."""

    course: PlanIndex
    mirror: Mirror
    journal: list[Event]
    state: RunState = field(init=False)
    exchange: HubExchange = field(init=False)

    def __post_init__(self) -> None:
        self.reborn()

    def reborn(self) -> None:
        """Start again with only what a new process finds."""
        self.state = after(RunState.blank(self.course.tasks), *self.journal)
        self.exchange = HubExchange(self.mirror, heard=0.0)

    def record(self, *events: Event) -> None:
        after(self.state, *events)
        self.journal += events

    def works(self) -> None:
        """Apply all decisions, with workers that answer at once. Each attempt of a task is another commit."""
        while events := decide(self.course, self.state, now=100.0, order_slots=9, draining=False):
            self.record(*events)
            for one in events:
                if isinstance(one, OrderSent):
                    self.record(OrderAnswered(task=one.task, result=self._worked(one)))

    def _worked(self, sent: OrderSent) -> WorkResult:
        commit = made(self.mirror.git, sent.base, f"{sent.task} {sent.attempt}")
        ref = candidate_ref(RUN, sent.task, sent.attempt)
        self.mirror.push([RefUpdate(ref=ref, new=commit, expected=None)])
        return WorkResult(order_id=sent.message_id, token=sent.token, outcome="candidate", commit=commit)

    def looks(self, now: float = 1.0) -> None:
        for event in self.exchange.read(self.state, now):
            self.record(event)
        self.works()

    def given(self) -> list[tuple[str, int]]:
        return [(one.task, one.number) for one in self.journal if isinstance(one, EntryGiven)]


@dataclass
class Gate:
    """A queue's journal, and its view of the hub."""

    mirror: Mirror
    journal: list[Event]
    state: RunState = field(init=False)

    def __post_init__(self) -> None:
        self.reborn()

    def reborn(self) -> None:
        self.state = after(RunState.blank(()), *self.journal)

    def record(self, *events: Event) -> None:
        after(self.state, *events)
        self.journal += events

    def takes_in(self, *, drops: bool = True) -> None:
        """Take in submissions as the daemon does. If it dies before it deletes a submission, it finds it again."""
        there = self.mirror.hub_refs(submissions_of("main"))
        for one in in_order(read_submissions(self.mirror, "main", there)):
            self.record(*take_in(self.state, one, contained=False))
            if drops:
                self.mirror.push([RefUpdate(ref=one.ref, new=None, expected=one.at)])

    def answers(self, *, journaled: bool = True) -> None:
        done = Notices(host="h").answer(self.mirror, self.state)
        self.record(*(done if journaled else ()))

    def judges(self, chance: Random) -> None:
        """Land or return each queued entry."""
        while events := self._decided():
            for one in events:
                if isinstance(one, CheckSent):
                    self.record(one, self._checked(one, red=chance.random() < 0.4))
                elif isinstance(one, LandingIntended):
                    self.record(one, self._landed(one))
                else:
                    self.record(one)

    def _decided(self) -> list[Event]:
        course = gate_course(gate_plan(GATE, "main"), self.state)
        return decide(course, self.state, now=100.0, order_slots=0, check_slots=1, draining=False)[:1]

    def _checked(self, sent: CheckSent, *, red: bool) -> CheckAnswered:
        if red:
            result = CheckResult(request_id=sent.message_id, token=sent.token, verdict="red", detail="it is red")
            return CheckAnswered(task=sent.task, result=result, ahead=sent.ahead, car=sent.car)
        steps = [CommitId(self.state.tip)]
        for name in (*sent.ahead, *sent.car):
            steps.append(made(self.mirror.git, steps[-1], f"lands {name}\n\n{ours(name)}"))
        told = green(sent)
        composed = {"commit": steps[-1], "commits": tuple(steps[1:])}
        return told.model_copy(update={"result": told.result.model_copy(update=composed)})

    def _landed(self, sent: LandingIntended) -> LandingAnswered:
        tip, commit = CommitId(self.state.tip), CommitId(sent.commit)
        self.mirror.push([RefUpdate(ref="refs/heads/main", new=commit, expected=tip)])
        result = Landing(request_id=sent.message_id, token=sent.token, outcome="landed", commit=commit)
        return LandingAnswered(task=sent.task, result=result, entries=sent.entries)

    def landed(self) -> list[str]:
        landings = [one for one in self.journal if isinstance(one, LandingAnswered)]
        return [name for one in landings for name in one.entries or (one.task,)]


def made(git: Git, base: str, word: str) -> CommitId:
    return CommitId(git.text("commit-tree", f"{base}^{{tree}}", "-p", base, "-m", word, env=ME))


def ours(entry: str) -> str:
    return f"Forgepool-Run: {GATE}\nForgepool-Task: {entry}\n"


@dataclass
class Pair:
    hub: Git
    run: Run
    gate: Gate

    def refs(self) -> list[str]:
        return self.hub.text("for-each-ref", "--format=%(refname)", "refs/forgepool").split()


def plan(*tasks: Task) -> Plan:
    return Plan(name="p", target="main", review="none", tasks=tasks)


def task(name: str, *needs: str, **said: object) -> Task:
    given = {"agent": CommandAgent(run="true"), "files": (name,), "attempts": 2, **said}
    return Task.model_validate({"id": name, "needs": tuple(TaskNeed(id=one) for one in needs), **given})


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    hub = Git(git_dir=tmp_path / "hub.git")
    hub.run("init", "--quiet", "--bare", str(hub.git_dir))
    tip = CommitId(hub.text("commit-tree", "-m", "one", hub.text("mktree", stdin=b""), env=ME))
    hub.run("update-ref", "refs/heads/main", tip)
    mirrors = [open_mirror(str(hub.git_dir), tmp_path / name) for name in ("run", "gate")]
    for one in mirrors:
        one.ensure(tip)
    began = {"plan_digest": "", "hub": "/hub", "target": "main", "tip": tip}
    course = PlanIndex(plan(task("a"), task("b", "a"), task("c")), {})
    run = Run(course, mirrors[0], [RunStarted.model_validate({**began, "run": RUN, "gate": GATE})])
    return Pair(hub, run, Gate(mirrors[1], [RunStarted.model_validate({**began, "run": GATE})]))


def _steps(pair: Pair, chance: Random) -> Iterator[None]:
    """Run random next steps. A death loses what was not journaled and the memory of the process."""
    run, gate = pair.run, pair.gate
    may = [
        run.works,
        lambda: run.looks(),
        lambda: run.exchange.put(run.course, run.state),
        run.reborn,
        lambda: gate.takes_in(drops=chance.random() < 0.7),
        lambda: gate.judges(chance),
        lambda: gate.answers(journaled=chance.random() < 0.7),
        gate.reborn,
    ]
    while not run.state.finished:
        yield chance.choice(may)()


@pytest.mark.parametrize("seed", range(3))
def test_nothing_is_given_twice_or_lands_twice_whoever_dies_and_whenever(pair: Pair, seed: int) -> None:
    """At the end each knows the truth about the other's tasks, and neither has left a ref in the hub."""
    run, gate, chance = pair.run, pair.gate, Random(seed)
    for count, _ in enumerate(_steps(pair, chance)):
        assert count < 600, "it does not come to an end"
        if count == 25 and seed % 3 == 2:
            run.record(*grant_request(run.course, run.state, PersonRequest(do="cancel", task="c")))
    assert len(gate.landed()) == len({*gate.landed()})
    assert {f"{RUN}--{one.id}" for one in run.state.in_phase("landed")} == {*gate.landed()}
    assert len(run.given()) == len({*run.given()})
    taken = [one.card.asks.number for one in gate.journal if isinstance(one, EntrySubmitted) and one.card]
    assert len(taken) <= len(run.given())
    gate.takes_in()
    gate.answers()
    take_away(run.mirror, run.state)
    assert [one for one in pair.refs() if "/for/" in one] == []
    assert all(one.phase in TERMINAL for one in gate.state.tasks.values())


def _said(pair: Pair, name: str = "a", **said: object) -> str:
    """Put a reply into the hub, as any person with access could, and return its ref."""
    told = GateAnswer.model_validate({"gate": GATE, "entry": f"{RUN}--{name}", "number": 1, "word": "landed", **said})
    blob, ref = pair.hub.text("hash-object", "-w", "--stdin", stdin=told.encode().encode()), reply_ref(RUN, name, 1)
    pair.hub.run("update-ref", ref, blob)
    return ref


def _pushed_on(pair: Pair, word: str, *parents: str) -> CommitId:
    """Put a person's commit on the target."""
    tip = pair.hub.text("rev-parse", "refs/heads/main")
    words = [each for one in (tip, *parents) for each in ("-p", one)]
    commit = CommitId(pair.hub.text("commit-tree", f"{tip}^{{tree}}", *words, "-m", word, env=ME))
    pair.hub.run("update-ref", "refs/heads/main", commit)
    return commit


def _carded(pair: Pair, card: Card, commit: str) -> None:
    """Push a tag with a card, as any person with access could."""
    entry = f"{RUN}--{card.asks.task}"
    tag = pair.hub.text("mktag", stdin=tag_text(commit, entry, write_card_lines(card), by="x", at=1).encode())
    pair.hub.run("update-ref", f"refs/forgepool/for/main/{entry}", tag)


def _at_gate(pair: Pair, name: str = "a") -> str:
    """Submit the task's candidate to the queue, and return the entry."""
    pair.run.works()
    pair.run.looks()
    pair.run.exchange.put(pair.run.course, pair.run.state)
    pair.gate.takes_in()
    return f"{RUN}--{name}"


def test_what_is_pushed_again_before_its_end_was_told_is_not_taken_in_again(pair: Pair) -> None:
    """The run died and does not know that the entry was returned. The same number means the same submission."""
    entry, run, gate = _at_gate(pair), pair.run, pair.gate
    gate.record(*(apply_request(gate.state, PersonRequest(do="cancel", task=entry)) or []))
    run.reborn()
    run.looks()
    run.exchange.put(run.course, run.state)
    assert any(entry in one for one in pair.refs() if "/for/" in one), "it lies there again"
    gate.takes_in()
    assert gate.state.tasks[entry].phase == "cancelled"
    assert len([one for one in gate.journal if isinstance(one, EntrySubmitted) and one.task == entry]) == 1


def test_who_is_told_of_a_landing_looks_for_it_in_the_target(pair: Pair) -> None:
    """Any person with access could claim it. A landing is not reported twice."""
    entry, run, gate = _at_gate(pair), pair.run, pair.gate
    gate.judges(Random(1))
    assert gate.landed(), "with this seed one lands"
    before = pair.hub.text("rev-parse", "refs/heads/main")
    gate.answers()
    pair.hub.run("update-ref", "refs/heads/main", pair.hub.text("rev-parse", f"{run.state.tip}"))
    run.looks()
    assert not run.state.in_phase("landed"), "it is not in the target"
    pair.hub.run("update-ref", "refs/heads/main", before)
    run.looks()
    assert {f"{RUN}--{one.id}" for one in run.state.in_phase("landed")} == {*gate.landed()}
    assert entry in gate.state.answered


@pytest.mark.parametrize("which", ["as old as the run", "somebody else's", "another entry's", "before it was given"])
def test_a_commit_of_the_target_that_is_not_the_tasks_is_no_landing(pair: Pair, which: str) -> None:
    """Any person with access can name a commit, and a landed entry is removed from the hub."""
    run = pair.run
    before = _pushed_on(pair, f"x\n\n{ours(f'{RUN}--a')}") if which == "before it was given" else run.state.tip
    run.mirror.ensure(CommitId(before))
    run.state.tip = before
    _at_gate(pair)
    match which:
        case "somebody else's":
            before = _pushed_on(pair, "mine")
        case "another entry's":
            before = _pushed_on(pair, f"lands c\n\n{ours(f'{RUN}--c')}")
    _said(pair, commit=before)
    run.looks()
    assert run.state.tasks["a"].phase == "given"


@pytest.mark.parametrize("how", ["by the gate", "by somebody"])
def test_a_commit_that_has_come_with_the_task_is_its_landing(pair: Pair, how: str) -> None:
    """The queue's own commit names its entry, and a person's merge contains the candidate."""
    _at_gate(pair)
    task = pair.run.state.tasks["a"]
    by_gate = how == "by the gate"
    commit = _pushed_on(pair, f"a\n\n{ours(f'{RUN}--a')}") if by_gate else _pushed_on(pair, "a", task.candidate)
    _said(pair, commit=commit)
    pair.run.looks()
    assert (task.phase, task.commit) == ("landed", commit)


def test_an_answer_that_was_not_recorded_is_read_again(pair: Pair) -> None:
    """It is the only copy, and it stays in the hub."""
    _at_gate(pair)
    run = pair.run
    _said(pair, word="returned", why="red")
    lost = next(iter(run.exchange.read(run.state, 1.0)))
    assert isinstance(lost, EntryTold) and lost.task == "a"
    run.looks(2.0)
    assert run.state.tasks["a"].given == 2


@pytest.mark.parametrize("strange", ["blob", "commit"])
def test_a_sign_that_nobody_can_read_is_no_beat_and_stops_no_answer(pair: Pair, strange: str) -> None:
    """It neither ends a live run nor lets one start as if no queue served the branch."""
    _at_gate(pair)
    junk = pair.hub.text("hash-object", "-w", "--stdin", stdin=b"{}") if strange == "blob" else pair.run.state.tip
    pair.hub.run("update-ref", sign_ref("main"), junk)
    with pytest.raises(CannotRun, match="is no queue's sign that this version can read"):
        standing_gate(pair.run.mirror, "main")
    _said(pair, word="returned", why="red")
    for now in range(0, int(SILENT_S) + 20, 10):
        pair.run.looks(float(now))
    assert pair.run.state.gate_away, "it is no beat"
    assert pair.run.state.tasks["a"].given == 2


def test_an_answer_that_nobody_can_read_keeps_no_other_from_being_read(pair: Pair) -> None:
    _at_gate(pair)
    pair.hub.run("update-ref", reply_ref(RUN, "a", 1), pair.run.state.tip)
    _said(pair, "c", word="returned", why="red")
    pair.run.looks()
    assert [pair.run.state.tasks[one].given for one in ("a", "c")] == [1, 2]


def test_answers_that_the_hub_does_not_take_keep_no_others_back(pair: Pair) -> None:
    """They are tried again after all others have been sent, as often as needed."""
    _at_gate(pair)
    gate = pair.gate
    for name in ("a", "c"):
        gate.record(*(apply_request(gate.state, PersonRequest(do="cancel", task=f"{RUN}--{name}")) or []))
    hook = Path(pair.hub.git_dir) / "hooks" / "update"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text('#!/bin/sh\ncase "$1" in */told/a/*) exit 1 ;; esac\n')
    hook.chmod(0o755)
    notices = Notices(host="h", most=1)
    for _ in range(2):
        gate.record(*notices.answer(gate.mirror, gate.state))
    assert [*gate.state.answered] == [f"{RUN}--c"]
    hook.unlink()
    gate.record(*notices.answer(gate.mirror, gate.state))
    assert {*gate.state.answered} == {f"{RUN}--a", f"{RUN}--c"}


def test_what_was_lost_before_the_gate_saw_it_is_put_again(pair: Pair) -> None:
    """
    A hub restored from a copy has neither the submission nor a reply. A queue that has it already knows it by its
    number.
    """
    run, ref = pair.run, f"refs/forgepool/for/main/{RUN}--a"
    run.works()

    def lies(now: float) -> bool:
        run.looks(now)
        run.exchange.put(run.course, run.state)
        return ref in pair.refs()

    assert lies(0.0)
    pair.hub.run("update-ref", "-d", ref)
    assert not lies(DOUBT_S - 1)
    assert lies(DOUBT_S)
    pair.gate.takes_in()
    assert not lies(DOUBT_S + 61), "it is doubted after twice the time only"
    assert lies(DOUBT_S * 3)
    pair.gate.takes_in()
    assert len([one for one in pair.gate.journal if isinstance(one, EntrySubmitted) and one.task == f"{RUN}--a"]) == 1


@pytest.mark.parametrize("where", ["files", "planned"])
def test_a_card_whose_files_nobody_can_make_out_is_refused(pair: Pair, where: str) -> None:
    """Otherwise it would be tried forever, as if the machine were at fault."""
    entry, gate = f"{RUN}--a", pair.gate
    card = Card.model_validate({"asks": {"run": RUN, "task": "a", "number": 1}, "attempt": 1, where: ("src/{a",)})
    pair.run.works()
    _carded(pair, card, pair.run.state.tasks["a"].candidate)
    gate.takes_in()
    assert entry not in gate.state.submitted
    assert "cannot be kept to: glob 'src/{a': '{' is not closed" in gate.state.out_of_turn[entry, 1].why
    gate.answers()
    pair.run.looks()
    assert "is not closed" in pair.run.state.tasks["a"].reasons[-1].summary


@pytest.mark.parametrize("first", [True, False], ids=["before", "after"])
def test_a_number_that_does_not_follow_keeps_no_giving_from_its_answer(pair: Pair, first: bool) -> None:
    """Any person with access can write any number on a card, under the name of another's run."""
    entry, gate, run = f"{RUN}--a", pair.gate, pair.run
    huge = Card(asks=Asks(run=RUN, task="a", number=999_999), attempt=1)
    if not first:
        _at_gate(pair)
    _carded(pair, huge, made(pair.hub, run.state.tip, "theirs"))
    gate.takes_in()
    if first:
        _at_gate(pair)
        gate.answers()
        run.looks()
        assert "a later giving of it was taken in: number 999999" in run.state.tasks["a"].reasons[-1].summary
        return
    gate.answers()
    assert not gate.state.out_of_turn and reply_ref(RUN, "a", 999_999) in pair.refs()
    mine = gate.state.submitted[entry].card
    assert mine is not None and mine.asks.number == 1, "the run's own stands in line still"
    gate.record(*(apply_request(gate.state, PersonRequest(do="cancel", task=entry)) or []))
    gate.answers()
    run.looks()
    assert run.state.tasks["a"].phase == "failed"


def test_what_the_gate_does_not_have_any_more_is_answered_as_withdrawn(pair: Pair) -> None:
    """Its number is finished; a run that recalls it would wait forever."""
    run, gate = pair.run, pair.gate
    _at_gate(pair)
    _carded(pair, Card(asks=Asks(run=RUN, task="a", number=2), attempt=1), run.state.tasks["a"].candidate)
    gate.takes_in()
    run.record(*grant_request(run.course, run.state, PersonRequest(do="cancel", task="a")))
    run.looks()
    run.exchange.put(run.course, run.state)
    gate.takes_in()
    gate.answers()
    run.looks()
    assert run.state.tasks["a"].phase == "cancelled"
    assert gate.state.tasks[f"{RUN}--a"].phase == "queued", "the later one is not what was wanted back"


def test_who_mends_a_runs_candidate_in_its_place_has_the_run_told(pair: Pair) -> None:
    """A person pushes another commit under the entry's name. That commit lands, and the task counts as landed."""
    entry, run, gate = _at_gate(pair), pair.run, pair.gate
    theirs = made(pair.hub, run.state.tip, "theirs")
    pair.hub.run("update-ref", f"refs/forgepool/for/main/{entry}", theirs)
    gate.takes_in()
    assert gate.state.submitted[entry].commit == theirs and gate.state.submitted[entry].author.agent == "person"
    gate.record(*(apply_request(gate.state, PersonRequest(do="cancel", task=entry)) or []))
    gate.answers()
    run.looks()
    failed = run.state.tasks["a"]
    assert (failed.phase, failed.reasons[-1].kind) == ("failed", "rejected")
    assert failed.attempt == 1, "a person has withdrawn it, and does not want to see it again"


def test_a_card_under_another_name_is_refused(pair: Pair) -> None:
    """Its replies would be written to another run's place."""
    entry, gate = _at_gate(pair), pair.gate
    ref = f"refs/forgepool/for/main/{entry}"
    pair.run.reborn()
    pair.run.looks()
    pair.run.exchange.put(pair.run.course, pair.run.state)
    at = pair.hub.text("rev-parse", ref)
    pair.hub.run("update-ref", "refs/forgepool/for/main/other", at)
    gate.takes_in()
    (refused,) = [one for one in gate.journal if isinstance(one, EntryRefused)]
    assert refused.name == "other" and "which gives nothing under this name" in refused.why and refused.asks is None
    assert len([one for one in gate.journal if isinstance(one, EntrySubmitted) and one.task == entry]) == 1


def test_a_card_of_a_later_version_is_refused_and_its_run_told(pair: Pair) -> None:
    """Its demands are unknown. Treated as a person's entry, a model's work would land without review."""
    entry, run, gate = f"{RUN}--a", pair.run, pair.gate
    run.works()
    run.looks()
    run.exchange.put(run.course, run.state)
    ref = f"refs/forgepool/for/main/{entry}"
    text = pair.hub.text("cat-file", "tag", ref)
    strange = "\n".join("Card: bm90IGEgY2FyZA==" if one.startswith("Card: ") else one for one in text.splitlines())
    pair.hub.run("update-ref", ref, pair.hub.text("mktag", stdin=f"{strange}\n".encode()))
    gate.takes_in()
    assert entry not in gate.state.submitted
    gate.answers()
    run.looks()
    assert "cannot be read here" in run.state.tasks["a"].reasons[-1].summary


def test_what_is_wanted_back_before_anybody_has_seen_it_never_stands_in_line(pair: Pair) -> None:
    run, gate = pair.run, pair.gate
    run.works()
    run.record(*grant_request(run.course, run.state, PersonRequest(do="cancel")))
    run.looks()
    run.exchange.put(run.course, run.state)
    gate.takes_in()
    gate.answers()
    run.looks()
    assert not gate.state.tasks and run.state.finished
    assert {one.phase for one in run.state.tasks.values()} == {"cancelled"}


def test_what_waits_for_a_person_at_the_gate_can_be_taken_back_still(pair: Pair) -> None:
    """The run has stopped for the person, who asks it to drop the task. It can no longer be approved."""
    entry, run, gate = _at_gate(pair), pair.run, pair.gate
    gate.record(TaskParked(task=entry, question="somebody must look at it", why="review"))
    gate.record(*(apply_request(gate.state, PersonRequest(do="cancel", task=f"{RUN}--c")) or []))
    gate.answers()
    run.looks()
    assert run.state.tasks["a"].phase == "given"
    assert why_held_up(run.state, patient=True) == f"'a': a person is wanted at {GATE}: somebody must look at it"
    run.record(*grant_request(run.course, run.state, PersonRequest(do="cancel", task="a")))
    assert why_held_up(run.state, patient=True) == "", "the gate's answer is waited for"
    run.looks()
    run.exchange.put(run.course, run.state)
    gate.takes_in()
    gate.answers()
    run.looks()
    assert (gate.state.tasks[entry].phase, run.state.tasks["a"].phase) == ("cancelled", "cancelled")


def test_a_card_says_nothing_that_a_history_is_read_by(pair: Pair) -> None:
    """The author's text reaches the reviewer. The message of the landed commit comes only from the queue."""
    entry = _at_gate(pair)
    mine = pair.gate.state.submitted[entry]
    assert mine.card is not None
    lines = "x\n\nForgepool-Task: another"
    forged = mine.card.model_copy(update={"description": lines, "author": Author(agent=f"cli {lines}")})
    one = Submission(
        ref="r", at=CommitId(mine.commit), name=entry, commit=CommitId(mine.commit), title="t", said={}, card=forged
    )
    (taken,) = take_in(after(RunState.blank(()), pair.gate.journal[0]), one, contained=False)
    assert isinstance(taken, EntrySubmitted)
    assert taken.author.families == ("unknown",), "of which nobody says it may be anybody's"
    state = after(RunState.blank(()), pair.gate.journal[0], taken)
    (sent,) = [e for e in decided(state) if isinstance(e, CheckSent)]
    after(state, sent)
    course = gate_course(gate_plan(GATE, "main"), state)
    request = check_request(course, state, state.outstanding()[sent.message_id], now=100.0)
    assert request.entries[0].message.count("\nForgepool-Task: ") == 1 and request.entries[0].reviewed


def test_a_card_makes_no_person_of_its_author(pair: Pair) -> None:
    entry = _at_gate(pair)
    mine = pair.gate.state.submitted[entry]
    assert mine.card is not None
    said = mine.card.model_copy(update={"author": Author(agent=PERSON)})
    one = Submission(
        ref="r", at=CommitId(mine.commit), name=entry, commit=CommitId(mine.commit), title="t", said={}, card=said
    )
    (taken,) = take_in(after(RunState.blank(()), pair.gate.journal[0]), one, contained=False)
    assert isinstance(taken, EntrySubmitted) and not taken.author.is_person


def test_a_card_names_work_by_a_digest_and_by_nothing_else(pair: Pair) -> None:
    entry = _at_gate(pair)
    mine = pair.gate.state.submitted[entry]
    assert mine.card is not None and len(mine.card.work) == 32
    text = mine.card.model_copy(update={"work": "x\nForgepool-Run: another"})
    with pytest.raises(CardUnreadable):
        read_card("\n".join(f"{key}: {value}" for key, value in write_card_lines(text)))


def test_a_command_of_a_run_is_reviewed_at_the_gate_where_the_run_would_have_it(pair: Pair) -> None:
    """
    A card may demand more and grants nothing. A model's work is reviewed whatever the plan says. A submitter's word for
    a command's work is as good as that for a person's.
    """
    entry = _at_gate(pair)
    mine = pair.gate.state.submitted[entry]
    assert mine.card is not None
    by = {
        "command": mine,
        "demanding": mine.model_copy(update={"card": mine.card.model_copy(update={"reviewed": True})}),
        "model": mine.model_copy(update={"author": mine.author.model_copy(update={"agent": "builtin"})}),
        "unsaid": mine.model_copy(update={"card": None}),
    }
    for one, entry_event in by.items():
        state = after(RunState.blank(()), pair.gate.journal[0], entry_event)
        course = gate_course(gate_plan(GATE, "main"), state)
        assert (entry in course.reviewed) == (one in ("demanding", "model")), one
    planned = gate_course(gate_plan(GATE, "main"), pair.gate.state).tasks[entry]
    assert (planned.files, planned.grants, planned.waive) == (("a",), (), ())


def test_a_gate_that_gives_no_sign_is_told_of_and_no_longer_waited_for(pair: Pair) -> None:
    """Its last heartbeat stays in the hub. There are few different heartbeat objects."""
    run, gate, notices = pair.run, pair.gate, Notices(host="h")
    run.works()
    notices.stand(gate.mirror, gate.state)
    assert standing_gate(run.mirror, "main") == GATE
    now = 0.0
    while now <= SILENT_S + 10:
        run.looks(now)
        now += 10.0
    (noticed,) = [one for one in run.journal if isinstance(one, GateNoticed)]
    assert f"nothing is heard of {GATE}" in noticed.away and "forgepool queue serve --repo /hub" in noticed.away
    assert not why_held_up(run.state, patient=run.exchange.patient(now))
    assert noticed.away in why_held_up(run.state, patient=run.exchange.patient(now + PATIENCE_S))
    Notices(host="h", clock=lambda: time.time() + BEAT_S).stand(gate.mirror, gate.state)
    run.looks(now)
    assert run.state.gate_away == ""
    notices.leave(gate.mirror, gate.state)
    assert standing_gate(run.mirror, "main") == ""


@pytest.mark.parametrize(
    ("said", "word"),
    [
        ({"checks": ({"name": "own", "run": "true"},)}, "has checks of its own"),
        ({"tasks": (task("a", grants=("forgepool.yaml",)),)}, "task 'a' has `grants`"),
        ({"tasks": (task("a", waive=("secret",)),)}, "task 'a' has `waive`"),
        ({"gate": {"wave": {}}}, "has a `wave`"),
        ({"review": {"policy": {"reviewers": 2}}}, "names its reviewers, but a queue"),
        ({"review": {"policy": {"lenses": ("review-tests",)}}}, "names its reviewers, but a queue"),
        ({"review": {"commands": True}}, None),
        ({}, None),
        ({"checks": "none"}, None),
    ],
)
def test_a_plan_that_demands_or_grants_what_a_gate_does_not_know_is_refused(
    said: dict[str, object], word: str | None
) -> None:
    why = why_not_through(Plan.model_validate({"name": "p", "target": "main", "tasks": (task("a"),), **said}), GATE)
    assert (why is None) if word is None else (why is not None and word in why and "--own-train" in why)


def test_what_stands_in_a_runs_own_line_goes_to_a_gate_that_was_opened_meanwhile(pair: Pair) -> None:
    """On resume this includes entries that are being tested. A run with `--own-train` submits nothing."""
    run = pair.run
    own = run.journal[0].model_copy(update={"gate": ""})
    run.journal[:] = [own]
    run.reborn()
    run.works()
    assert {one.phase for one in run.state.tasks.values()} == {"testing", "pending"} and not run.given()
    run.record(RunResumed(tip=run.state.tip, gate=GATE))
    run.works()
    assert {one for one, _ in run.given()} == {"a", "c"} and not run.state.train.line.entries
