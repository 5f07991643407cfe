"""The limits on all runs together: no cap is passed by a cent, and nothing is reserved for ever."""

import os
import random
import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from plans import course, result, review, task

from forgepool.orchestrator.decisions.orders.treasury import (
    MICRO,
    AskedAccounts,
    LimitStanding,
    Totals,
    TreasuryLimit,
    list_counted,
    sum_counted,
)
from forgepool.orchestrator.decisions.plan_index import PlanIndex
from forgepool.orchestrator.journal import events as e
from forgepool.orchestrator.journal.store import Journal
from forgepool.orchestrator.launch.doctor import examine
from forgepool.orchestrator.reports.attention import Liveness, attention
from forgepool.orchestrator.run import run_folder
from forgepool.orchestrator.run.hub import CannotRun
from forgepool.orchestrator.run.neighbours.treasury import TreasuryDesk, hold_treasury, open_desk, read_treasury
from forgepool.orchestrator.run.run_folder import RunOptions
from forgepool.orchestrator.state.fold import apply
from forgepool.orchestrator.state.run import RunState
from forgepool.workers.llm.batch import BatchCall
from forgepool.workers.queue.broker import Redis
from forgepool.workers.schema.mistakes import DocumentWrong
from forgepool.workers.schema.orders import BuiltinAgent, Spent
from forgepool.workers.schema.settings import Settings

DAY_S = 24 * 3600.0
TASKS = [f"t{number}" for number in range(8)]
PLAN = course(*(task(name, agent=BuiltinAgent()) for name in TASKS)).plan
LIMITS = """
version: 1
kept_for_reviews: 0.2
limits:
  - {per: day, usd: 2.0, tokens: 2000}
  - {per: month, usd: 9.0}
  - {project: /one, per: day, usd: 1.2}
  - {person: ada, per: day, usd: 1.0}
  - {account: anthropic, per: day, usd: 1.1, tokens: 1500}
"""
OFFERED = {"claude": ("anthropic",), "gpt": ("openai",), "both": ("anthropic", "openai"), "own": ("local",)}
MODELS = {"anthropic": ("claude", "both", "own"), "openai": ("gpt", "both", "own")}
"""By account that an order reserves with, the models that may answer it: `own` is asked when that account is away."""


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    made = Settings(home=tmp_path / "home", cache=tmp_path / "cache", person="ada")
    made.home.mkdir()
    (made.home / "treasury.yaml").write_text(LIMITS)
    return made


@pytest.fixture(autouse=True)
def _processes() -> Iterator[None]:
    """End the processes of a test's runs, also of one that fails."""
    yield
    for player in PLAYERS:
        player.die()
    PLAYERS.clear()


@dataclass
class Player:
    """A run: its journal, and as long as a process runs it, its state and its side of the treasury."""

    settings: Settings
    redis: Redis
    options: RunOptions
    now: float
    journal: Journal = field(init=False)
    state: RunState = field(init=False)
    desk: TreasuryDesk = field(init=False)
    sums: dict[tuple[str, int], Totals] = field(default_factory=dict)

    def __post_init__(self) -> None:
        kept = run_folder.keep(self.settings, self.options, PLAN)
        PLAYERS.append(self)
        self.wake()
        self.take(e.RunStarted(run=kept.options.run, plan_digest="d", hub=kept.options.hub, target="t", tip="c0"))

    @property
    def run(self) -> str:
        return self.options.run

    def wake(self) -> None:
        folder = run_folder.runs_folder(self.settings) / self.run
        self.journal = Journal(folder)
        self.state = run_folder.open_run(self.settings, self.run).state()
        desk = open_desk(self.settings, read_treasury(self.settings), self.options, self.redis, alone=True)
        assert desk is not None
        self.desk = desk
        self.desk.asked = AskedAccounts(offered=OFFERED)

    def die(self) -> None:
        """End as by `kill -9`: nothing is said to Redis."""
        self.journal.close()

    def take(self, *events: e.Event) -> None:
        self.journal.append(events, at=self.now)
        for event in events:
            apply(self.state, event, number=self.state.number + 1, at=self.now)

    def total(self, standing: LimitStanding) -> Totals:
        key = (standing.cell, self.state.number)
        if key not in self.sums:
            self.sums = {one: amounts for one, amounts in self.sums.items() if one[1] == self.state.number}
            self.sums[key] = sum_counted(list_counted(self.state, OFFERED), standing.limit, standing.period)
        return self.sums[key]

    def reserve(self, event: e.Event, now: float) -> Sequence[e.Event]:
        return self.desk.reserve(self.state, [event], now)[0]

    def order(self, name: str, usd: float, tokens: int, now: float, accounts: tuple[str, ...] = ()) -> e.OrderSent:
        attempt = self.state.tasks[name].attempt + 1
        message = f"{self.run}.{name}.{attempt}"
        money = {"reserved_usd": usd, "reserved_tokens": tokens, "accounts": accounts}
        return e.OrderSent(task=name, attempt=attempt, message_id=message, token="t", base="c0", issued_at=now, **money)

    def review(self, usd: float, now: float, accounts: tuple[str, ...] = ()) -> e.WaveReviewSent:
        number = self.state.wave_review.review.sent + 1
        said = {"tasks": (), "issued_at": now, "reserved_usd": usd, "reserved_tokens": 10, "accounts": accounts}
        return e.WaveReviewSent(
            number=number, message_id=f"{self.run}.w-{number}", token="t", base="c0", tip="c0", **said
        )


@dataclass
class Fleet:
    """Ten runs that do anything at any time."""

    settings: Settings
    redis: Redis
    chance: random.Random
    now: float
    live: list[Player] = field(default_factory=list)
    dead: list[Player] = field(default_factory=list)
    gone: list[Player] = field(default_factory=list)
    """Runs that are never resumed."""
    limits: tuple[TreasuryLimit, ...] = ()
    made: int = 0
    reserved: int = 0
    refused: int = 0

    def begin(self) -> Player:
        self.made += 1
        hub = self.chance.choice(("/one", "/two"))
        person = self.chance.choice(("ada", "bob"))
        fields = {"target": "t", "workers": 1, "plan_file": "", "plan_file_digest": "", "person": person}
        options = RunOptions(run=f"p-{self.made}", hub=hub, **fields)
        player = Player(self.settings, self.redis, options, self.now)
        self.live.append(player)
        return player

    def act(self) -> None:
        if len(self.live) + len(self.dead) < 10:
            self.begin()
        chosen = self.chance.random()
        if chosen < 0.06 and self.live:
            self._kill(self.chance.choice(self.live))
        elif chosen < 0.12 and self.dead:
            player = self.dead.pop(self.chance.randrange(len(self.dead)))
            if self.chance.random() < 0.3:
                self.gone.append(player)
            else:
                player.wake()
                self.live.append(player)
        elif chosen < 0.13:
            self.redis.flushall()
        elif chosen < 0.16:
            self.now += self.chance.choice((60.0, 3600.0, 8 * 3600.0))
        elif self.live:
            self._work(self.chance.choice(self.live))

    def _kill(self, player: Player) -> None:
        player.die()
        self.live.remove(player)
        self.dead.append(player)

    def _work(self, player: Player) -> None:
        player.now = self.now
        state, chosen = player.state, self.chance.random()
        running, pending = state.in_phase("running"), state.in_phase("pending")
        wave = state.wave_review.review
        if chosen < 0.3:
            player.desk.look(state, self.now)
        elif chosen < 0.6 and pending:
            usd = self.chance.choice((0.01, 0.113, 0.25, 0.44, 1.0))
            tokens, accounts = self.chance.randint(1, 500), self._some_accounts()
            self._send(player, player.order(pending[0].id, usd, tokens, self.now, accounts))
        elif chosen < 0.7 and wave.message is None:
            self._send(player, player.review(self.chance.choice((0.05, 0.2)), self.now, self._some_accounts()))
        elif chosen < 0.75 and wave.message is not None:
            spent = self._some(wave.uses[wave.sent].reserved_usd or 0.0)
            told = {"spent": spent, "models": self._some_models(wave.uses[wave.sent].accounts)}
            answer = review("", "void").model_copy(update={"request_id": wave.message.message_id, **told})
            player.take(e.WaveReviewAnswered(result=answer))
        elif chosen < 0.85 and running:
            self._ask(player, running[0].id)
        elif running:
            self._answer(player, running[0].id)
        elif not pending:
            player.desk.leave()
            player.die()
            self.live.remove(player)
            self.gone.append(player)

    def _some_accounts(self) -> tuple[str, ...]:
        return self.chance.choice((("anthropic",), ("openai",), ("anthropic", "openai")))

    def _some_models(self, accounts: tuple[str, ...]) -> tuple[str, ...]:
        able = [model for account in accounts for model in MODELS[account]]
        return tuple(self.chance.sample(able, self.chance.randint(0, 2)))

    def _some(self, usd: float, tokens: int = 10) -> Spent:
        share = self.chance.choice((0.0, 0.37, 1.0))
        return Spent(turns=1, cost_usd=share * usd, output_tokens=int(share * tokens))

    def _ask(self, player: Player, name: str) -> None:
        held = player.state.tasks[name]
        use = held.uses[held.attempt]
        if held.money is None:
            player.take(e.MoneyAsked(task=name, attempt=held.attempt, kinds=("usd",)))
        more = (use.reserved_usd or 0.0) + self.chance.choice((0.05, 0.3))
        granted = e.MoneyGranted(
            task=name, attempt=held.attempt, reserved_usd=more, reserved_tokens=use.reserved_tokens
        )
        self._send(player, granted)

    def _answer(self, player: Player, name: str) -> None:
        held = player.state.tasks[name]
        use = held.uses[held.attempt]
        spent = self._some(use.reserved_usd or 0.0, use.reserved_tokens or 0)
        answer = result(name, held.attempt, "no_change", spent=spent, models=self._some_models(use.accounts))
        answer = answer.model_copy(update={"order_id": f"{player.run}.{name}.{held.attempt}"})
        player.take(e.OrderAnswered(task=name, result=answer))

    def _send(self, player: Player, event: e.Event) -> None:
        taken = player.reserve(event, self.now)
        self.reserved += len(taken)
        self.refused += not taken
        if taken and self.chance.random() < 0.1:
            self._kill(player)  # Between Redis and the journal.
        else:
            player.take(*taken)

    def total(self, standing: LimitStanding) -> Totals:
        """Add up by the journals what all runs that the limit holds for have in its period."""
        found = Totals()
        for player in (*self.live, *self.dead, *self.gone):
            limit, options = standing.limit, player.options
            if limit.project in ("", options.hub) and limit.person in ("", options.person):
                found = found.add(player.total(standing))
        return found

    def forget(self) -> None:
        """Remove runs that ended before this month, as `forgepool clean` would."""
        old = [player for player in self.gone if player.now < self.now - 40 * DAY_S]
        for player in old:
            shutil.rmtree(run_folder.runs_folder(self.settings) / player.run)
        self.gone = [player for player in self.gone if player not in old]

    def check(self) -> None:
        for limit in self.limits:
            standing = LimitStanding(limit=limit, at=self.now, kept=0.2)
            used = self.total(standing)
            if limit.usd is not None:
                cap = round(limit.usd * MICRO)
                assert used.orders_usd + used.reviews_usd <= cap, f"{standing.cell}: {used} of {cap}"
                assert used.orders_usd <= cap - standing.parts()[0], f"{standing.cell}: the reviews' part is used"
            if limit.tokens is not None:
                assert used.orders_tokens + used.reviews_tokens <= limit.tokens, f"{standing.cell}: {used}"


@pytest.mark.slow
@pytest.mark.parametrize("rounds", [250, pytest.param(1000, marks=pytest.mark.soak)])
def test_no_cap_is_passed_under_random_interleavings_and_kills_of_ten_runs(
    settings: Settings, redis: Redis, rounds: int
) -> None:
    """A step is anything that a run, its death, a loss of Redis or the clock can do; a day passes every few steps."""
    source = read_treasury(settings)
    assert source is not None
    fleet = Fleet(settings, redis, random.Random(19), now=time.time() - 1000 * DAY_S, limits=source.limits)
    for _ in range(rounds):
        for _ in range(3):
            fleet.act()
            fleet.check()
        fleet.now += DAY_S if fleet.chance.random() < 0.1 else 0.0
        fleet.forget()
    assert fleet.reserved > rounds / 10 and fleet.refused > rounds / 10 and fleet.made > rounds / 50, fleet
    _nothing_stays_reserved(fleet)


def _nothing_stays_reserved(fleet: Fleet) -> None:
    """Assert that killed runs, which are not resumed, hold nothing of the next month."""
    for player in [*fleet.live]:
        fleet._kill(player)
    fleet.now += 32 * DAY_S
    last = fleet.begin()
    _wait_until_open(last, fleet.now)
    whole = last.order("t0", 0.79, 0, fleet.now, ("anthropic",))
    assert last.reserve(whole, fleet.now) == [whole]


PLAYERS: list[Player] = []


def _wait_until_open(player: Player, now: float) -> None:
    until = time.monotonic() + 5.0
    while not player.desk.look(player.state, now).open:
        assert time.monotonic() < until
        time.sleep(0.05)


def one_run(settings: Settings, redis: Redis, name: str = "p-1", **said: str) -> Player:
    fields = {"hub": "/two", "target": "t", "plan_file": "", "plan_file_digest": "", "person": "bob"} | said
    player = Player(settings, redis, RunOptions(run=name, workers=1, **fields), time.time())
    player.desk.look(player.state, player.now)
    return player


def test_a_reservation_that_is_made_again_takes_nothing_more(settings: Settings, redis: Redis) -> None:
    player = one_run(settings, redis)
    order = player.order("t0", 1.5, 0, player.now)
    assert player.reserve(order, player.now) == [order] == player.reserve(order, player.now)
    player.take(order)
    assert not player.reserve(player.order("t1", 0.2, 0, player.now), player.now), "1.60 are for orders"
    assert player.reserve(player.order("t1", 0.1, 0, player.now), player.now)


def test_a_review_in_a_batch_counts_once_when_its_first_request_was_sent(settings: Settings, redis: Redis) -> None:
    player = one_run(settings, redis)
    batch = BatchCall(key="b", since=player.now, until=player.now + 3600.0)
    first = player.review(1.5, player.now).model_copy(update={"batch": batch})
    player.take(*player.reserve(first, player.now), e.MessageLost(message_id=first.message_id, why="gone"))
    again = player.review(1.5, player.now + DAY_S).model_copy(update={"batch": batch})
    assert player.reserve(again, player.now + DAY_S) == [again]
    player.take(again)
    counted = [one for one in list_counted(player.state) if one.usd]
    assert [(one.at, one.review, one.usd) for one in counted] == [(player.now, True, 1.5)]


def test_an_account_holds_back_only_what_reserves_with_it_until_another_one_has_answered(
    settings: Settings, redis: Redis
) -> None:
    first, second = one_run(settings, redis), one_run(settings, redis, "p-2")
    first.take(*first.reserve(first.order("t0", 0.8, 0, first.now, ("anthropic",)), first.now))
    first.desk.look(first.state, first.now)
    refused = second.order("t0", 0.2, 0, second.now, ("anthropic",))
    assert not second.reserve(refused, second.now), "0.88 are for orders"
    assert second.reserve(second.order("t0", 0.2, 0, second.now, ("openai",)), second.now)
    spent = result("t0", outcome="no_change", spent=Spent(cost_usd=0.8), models=("own",))
    first.take(e.OrderAnswered(task="t0", result=spent.model_copy(update={"order_id": "p-1.t0.1"})))
    first.desk.look(first.state, first.now)
    assert second.reserve(refused, second.now) == [refused]
    lower = TreasuryLimit(account="anthropic", per="day", usd=0.01)
    third = one_run(settings, redis, "p-3")
    second.take(refused)
    second.desk.look(second.state, second.now)
    third.desk.source = third.desk.source.model_copy(update={"limits": (lower,)})
    other = third.order("t0", 0.2, 0, third.now, ("openai",))
    assert third.reserve(other, third.now) == [other], "an account that is over its limit holds back no other"


def test_a_journal_that_cannot_be_read_is_told_in_the_run_as_its_amounts_count_in_no_limit(
    settings: Settings, redis: Redis
) -> None:
    first = one_run(settings, redis)
    first.die()
    (run_folder.runs_folder(settings) / first.run / "journal.db").write_bytes(b"no journal at all" * 100)
    second = one_run(settings, redis, "p-2")
    facts = second.desk.look(second.state, second.now)
    (told,) = facts.warn(second.state)
    assert "may be passed by what another run has used, which is unknown: " in told.words and first.run in told.words
    second.take(told)
    assert not [*facts.warn(second.state)], "it is told once"
    (row,) = attention(PlanIndex(PLAN, {}), second.state, Liveness(live=True, now=second.now))
    assert (row.cause, row.sentence) == ("budget", told.words)


def test_what_an_order_leaves_goes_to_another_run_at_its_next_look(settings: Settings, redis: Redis) -> None:
    first, second = one_run(settings, redis), one_run(settings, redis, "p-2")
    first.take(*first.reserve(first.order("t0", 1.5, 0, first.now), first.now))
    wanted = second.order("t0", 1.0, 0, second.now)
    first.desk.look(first.state, first.now)
    second.desk.look(second.state, second.now)
    assert not second.reserve(wanted, second.now)
    spent = result("t0", outcome="no_change", spent=Spent(cost_usd=0.4))
    first.take(e.OrderAnswered(task="t0", result=spent.model_copy(update={"order_id": "p-1.t0.1"})))
    first.desk.look(first.state, first.now)
    assert second.reserve(wanted, second.now) == [wanted]


def test_nothing_is_reserved_after_a_loss_of_redis_until_all_runs_have_told_what_they_have(
    settings: Settings, redis: Redis
) -> None:
    first, second = one_run(settings, redis), one_run(settings, redis, "p-2")
    first.take(*first.reserve(first.order("t0", 1.5, 0, first.now), first.now))
    second.desk.look(second.state, second.now)
    redis.flushall()
    wanted = second.order("t0", 0.5, 0, second.now)
    assert not second.desk.look(second.state, second.now).open and not second.reserve(wanted, second.now)
    first.desk.look(first.state, first.now)
    facts = second.desk.look(second.state, second.now)
    assert facts.open and facts.current[0].others.orders_usd == 1_500_000
    assert not second.reserve(wanted, second.now), "1.60 are for orders"


def test_what_a_killed_run_had_counts_by_its_journal_where_redis_has_lost_it(settings: Settings, redis: Redis) -> None:
    first = one_run(settings, redis)
    first.take(*first.reserve(first.order("t0", 1.5, 0, first.now), first.now))
    first.die()
    redis.flushall()
    second = one_run(settings, redis, "p-2")
    facts = second.desk.look(second.state, second.now)
    assert facts.open and facts.current[0].others.orders_usd == 1_500_000
    tomorrow = second.desk.look(second.state, second.now + DAY_S)
    assert tomorrow.current[0].others == Totals(), "it holds nothing of the next day"


def test_another_programs_value_under_a_key_stops_no_run(settings: Settings, redis: Redis) -> None:
    player = one_run(settings, redis)
    redis.set("forgepool:treasury:epoch", "theirs")
    player.desk.look(player.state, player.now)
    assert player.desk.look(player.state, player.now).open


def test_without_a_file_no_key_is_written(tmp_path: Path, redis: Redis) -> None:
    settings = Settings(home=tmp_path, cache=tmp_path / "cache")
    with hold_treasury(settings, alone=True) as source:
        assert source is None
        options = RunOptions(run="p-1", hub="/h", target="t", workers=1, plan_file="", plan_file_digest="")
        assert open_desk(settings, source, options, redis, alone=True) is None
    assert redis.keys() == [] and not (tmp_path / "treasury.lock").exists()


def test_runs_of_one_redis_stand_beside_each_other_and_one_of_its_own_does_not(settings: Settings) -> None:
    refused = pytest.raises(CannotRun, match="give all runs and queues one Redis with --broker")
    shared = (hold_treasury(settings, alone=False), hold_treasury(settings, alone=False))
    with shared[0], shared[1], refused, hold_treasury(settings, alone=True):
        pass
    (settings.home / "treasury.yaml").write_text("version: 1\nlimits: [{per: day, usd: 1, at_limit: warn}]")
    with hold_treasury(settings, alone=True), hold_treasury(settings, alone=True) as source:
        assert source is not None


def test_a_changed_file_is_taken_in_and_a_wrong_one_is_not(settings: Settings, redis: Redis) -> None:
    player = one_run(settings, redis)
    assert [one.limit.usd for one in player.desk.look(player.state, player.now).current] == [2.0, 9.0, 1.1]
    for at, (text, usd) in enumerate((("version: 1\nlimits: [{per: day, usd: 3}]", 3.0), ("version: 2", 3.0)), 1):
        (settings.home / "treasury.yaml").write_text(text)
        os.utime(settings.home / "treasury.yaml", (at, at))
        assert [one.limit.usd for one in player.desk.look(player.state, player.now).current] == [usd]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("version: 1\nlimits: []", "2: "),
        ("version: 1\nlimits:\n  - {per: week, usd: 1}", "3: 'per' of limit 1 must be 'day' or 'month', is 'week'"),
        ("version: 1\nlimits:\n  - {per: day}", "3: a limit has neither 'usd' nor 'tokens'; give it an amount"),
        (
            "version: 1\nlimits:\n  - {per: day, usd: 1}\n  - {per: day, usd: 1, project: /h, person: ada}",
            "4: a limit holds for an account, for a project or for a person; make a limit for each of them",
        ),
        (
            "version: 1\nlimits:\n  - {per: day, usd: 1, account: 'cli:codex'}\n"
            "  - {per: day, usd: 1, account: antropic}",
            "4: there is no account 'antropic'; did you mean 'anthropic'",
        ),
        (
            "version: 1\nlimits:\n  - {per: day, usd: 1, account: ''}",
            "3: 'account' of a limit is empty; name one, or leave 'account' out for all",
        ),
        (
            "version: 1\nlimits:\n  - {per: day, usd: 1, account: 'cli:cloude'}",
            "3: there is no account 'cli:cloude'; did you mean 'cli:claude'",
        ),
        (
            "version: 1\nlimits:\n  - {per: day, usd: 1, account: claude}",
            "3: there is no account 'claude'; did you mean 'cli:claude'",
        ),
        (
            "version: 1\nlimits:\n  - {per: day, usd: 1, project: foo}",
            "3: no project can be called 'foo'; give the URL or the absolute path of its repository",
        ),
        ("version: 1\nlimits:\n  - {per: day, usd: -1}", "3: "),
        ("version: 1\nlimits:\n  - {per: day, usd: 1, then: ask}", "3: limit 1 has an unknown key 'then'"),
        ("version: 1\nkept_for_reviews: 1\nlimits:\n  - {per: day, usd: 1}", "2: "),
    ],
)
def test_a_mistake_in_the_file_is_one_sentence_with_its_line(settings: Settings, text: str, sentence: str) -> None:
    path = settings.home / "treasury.yaml"
    path.write_text(text)
    with pytest.raises(DocumentWrong) as wrong:
        read_treasury(settings)
    assert wrong.value.mistakes[0].startswith(f"{path}:{sentence}") and len(wrong.value.mistakes) == 1
    (found,) = [one for one in examine(settings, None) if one.what == "treasury"] if "then" in text else [None]
    assert found is None or (found.verdict == "bad" and sentence in found.found)
