"""Workers on one account stay within its limits together, wait in turn, and wait for no Redis."""

import json
import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from servers import RedisServer
from vendors.answers import Say
from vendors.limits import Buckets, limited
from vendors.server import VendorServer

from forgepool.workers.llm.messages import Text, Turn, Usage, user
from forgepool.workers.llm.provider import (
    Allowance,
    Delta,
    Hear,
    LlmEvent,
    ModelFailed,
    ModelRequest,
    RateLimits,
    Waited,
    deaf,
)
from forgepool.workers.llm.routing.breaker import Breaker
from forgepool.workers.llm.routing.open import open_models
from forgepool.workers.llm.routing.pace import AccountPace, Paced, PacedCall, find_pauses
from forgepool.workers.llm.routing.table import read_table
from forgepool.workers.queue.broker import Redis, connect
from forgepool.workers.schema.settings import Settings

ACCOUNT, KEY = "vendor", "forgepool:pace:vendor"
FREE = (0.0, 0.0)
REQUEST = ModelRequest(system=("be brief",), tools=(), turns=(user(Text(text="hello")),))


def call(tokens: int = 10, output: int = 10, model: str = "m") -> PacedCall:
    return PacedCall(model=model, input_tokens=tokens, most_output=output, counts_cached=True)


def limits(**units: tuple[float, float]) -> RateLimits:
    """Make limits by unit, with what is left of each."""
    told = {unit: Allowance(limit=limit, remaining=left) for unit, (limit, left) in units.items()}
    return RateLimits(allowances=told)  # type: ignore[arg-type]  # the names are those of units


class Account:
    """Workers of several runs on one account in a real Redis, whose time is moved by moving the account's back."""

    def __init__(self, redis: Redis) -> None:
        self.redis = redis
        self.runs: dict[str, AccountPace] = {}

    def run(self, name: str = "one") -> AccountPace:
        return self.runs.setdefault(name, AccountPace(breaker=Breaker(client=self.redis), run=name))

    def ask(self, wanted: PacedCall, run: str = "one") -> tuple[float, float]:
        told = self.run(run).ask(ACCOUNT, wanted)
        assert told is not None
        return told

    def begin(self, wanted: PacedCall, run: str = "one", told: RateLimits | None = None) -> None:
        assert self.ask(wanted, run) == FREE
        self.run(run).hear(ACCOUNT, wanted, told)

    def end(self, wanted: PacedCall, run: str = "one", used: Usage | None = None) -> None:
        self.run(run).finish(ACCOUNT, wanted, "answered", used or Usage(input_tokens=wanted.input_tokens), None)

    def refuse(self, wanted: PacedCall, retry_after_s: float | None = None, run: str = "one") -> None:
        failure = ModelFailed("too many", trouble="rate_limit", retry_after_s=retry_after_s)
        self.run(run).finish(ACCOUNT, wanted, "refused", Usage(), failure)

    @property
    def state(self) -> dict[str, object]:
        found = json.loads(str(self.redis.get(KEY)))
        assert isinstance(found, dict)
        return found

    def number(self, name: str) -> float:
        value = self.state[name]
        assert isinstance(value, int | float)
        return float(value)

    def pass_time(self, seconds: float) -> None:
        def earlier(value: object, name: str = "") -> object:
            if isinstance(value, dict):
                return {key: earlier(each, key) for key, each in value.items()}
            times = ("at", "cool", "grown", "halved", "expires", "asked")
            return value - seconds * 1000 if name in times and isinstance(value, int | float) else value

        self.redis.set(KEY, json.dumps(earlier(self.state)))


@pytest.fixture
def account(redis: Redis) -> Account:
    return Account(redis)


def opened(account: Account, **units: tuple[float, float]) -> None:
    """Let one call tell the limits."""
    first = call(0, 0)
    account.begin(first, told=limits(**units))
    account.end(first)


def test_a_call_waits_until_the_bucket_is_full_enough_and_no_longer(account: Account) -> None:
    opened(account, input=(1000, 1000))
    account.begin(call(900))
    waiting = call(300)
    wait_s, pause_s = account.ask(waiting)
    # 100 of 1,000 are left, and 50 of them are left alone: 250 more take a quarter of a minute.
    assert 14.0 < wait_s <= 15.1 and pause_s == 0
    account.pass_time(wait_s - 1.0)
    assert 0 < account.ask(waiting)[0] <= 1.0
    account.pass_time(1.0)
    assert account.ask(waiting) == FREE


def test_an_estimate_is_corrected_by_the_usage_of_the_answer(account: Account) -> None:
    opened(account, input=(1000, 1000), output=(1000, 1000))
    one, other = call(900), call(900)
    account.begin(one)
    assert account.ask(other)[0] > 0
    account.end(one, used=Usage(input_tokens=20, output_tokens=1))
    assert account.ask(other) == FREE


def test_a_call_of_more_than_the_limit_goes_when_the_bucket_is_full(account: Account) -> None:
    """The vendor may take it or refuse it; waiting longer would help neither."""
    opened(account, input=(1000, 1000))
    account.begin(call(5000))
    assert account.ask(call(10))[0] > 200, "what it took beyond the limit is owed"


@pytest.mark.parametrize("seed", range(8))
def test_in_any_order_of_events_nothing_beyond_the_bucket_is_taken(account: Account, seed: int) -> None:
    """A bucket of its own, which gets each call at its estimate, never falls below nothing."""
    chance, limit = random.Random(seed), 1000.0
    opened(account, input=(limit, limit), requests=(40, 40))
    level, requests, flying, waiting = limit, 40.0, list[PacedCall](), list[PacedCall]()
    for _ in range(150):
        match chance.choice(("ask", "ask", "again", "end", "refuse", "time")):
            case "ask" | "again" as move:
                wanted = call(chance.randint(1, 400)) if move == "ask" or not waiting else chance.choice(waiting)
                if account.ask(wanted, chance.choice("abc")) == FREE:
                    waiting = [one for one in waiting if one.id != wanted.id]
                    flying.append(wanted)
                    level, requests = level - wanted.input_tokens, requests - 1
                    # The seconds that the test itself takes fill the bucket a little.
                    assert level >= -limit * 0.05 and requests >= -2
                elif move == "ask":
                    waiting.append(wanted)
            case "end" if flying:
                wanted = flying.pop(chance.randrange(len(flying)))
                used = chance.randint(0, wanted.input_tokens)
                level = min(limit, level + wanted.input_tokens - used)
                account.end(wanted, used=Usage(input_tokens=used))
            case "refuse" if flying and chance.random() < 0.1:
                wanted = flying.pop()
                level = min(limit, level + wanted.input_tokens)
                account.refuse(wanted, chance.uniform(0, 5))
            case "time":
                seconds = chance.uniform(0, 8)
                account.pass_time(seconds)
                level, requests = min(limit, level + limit * seconds / 60), min(40, requests + 40 * seconds / 60)
            case _:
                pass


@pytest.mark.parametrize("seed", range(4))
def test_a_pause_is_never_made_shorter(account: Account, seed: int) -> None:
    chance, last = random.Random(seed), 0.0
    calls = [call() for _ in range(12)]
    for number, wanted in enumerate(calls):
        account.ask(wanted, chance.choice("abc"))
        match chance.choice(("refuse", "end", "leave")):
            case "refuse":
                account.refuse(wanted, chance.choice((None, 0.0, 1.0, 300.0, 20.0)))
            case "end":
                account.end(wanted)
            case _:
                account.run().leave(ACCOUNT, wanted)
        assert account.number("cool") >= last, number
        last = account.number("cool")


def test_a_refusal_stops_all_for_as_long_as_the_vendor_asks_and_then_one_goes_first(account: Account) -> None:
    opened(account, requests=(1000, 1000))
    flying = [call() for _ in range(9)]
    for wanted in flying:
        account.begin(wanted)
    account.refuse(flying[0], 30.0)
    for wanted in flying[1:]:
        account.end(wanted)
    crowd = [call() for _ in range(8)]
    assert all(29 < account.ask(one, f"run {number}")[1] <= 30 for number, one in enumerate(crowd))
    assert 29 < find_pauses(account.redis, [ACCOUNT, "other"])[ACCOUNT] <= 30
    account.pass_time(30.0)
    assert find_pauses(account.redis, [ACCOUNT]) == {}
    went = [one for number, one in enumerate(crowd) if account.ask(one, f"run {number}") == FREE]
    assert len(went) == 1
    account.end(went[0])
    more = [one for number, one in enumerate(crowd) if one not in went and account.ask(one, f"run {number}") == FREE]
    assert len(more) == 2, "each answer lets one more go"


def test_calls_in_flight_are_halved_once_for_calls_refused_together_and_grow_by_the_minute(account: Account) -> None:
    opened(account, requests=(1000, 1000))
    flying = [call() for _ in range(16)]
    for wanted in flying:
        account.begin(wanted)
    for wanted in flying[:6]:
        account.refuse(wanted, 1.0)
    assert account.number("width") == 8
    account.pass_time(59.0)
    account.run().leave(ACCOUNT, call())
    assert account.number("width") == 8
    account.pass_time(62.0)
    account.run().leave(ACCOUNT, call())
    assert account.number("width") == 10
    # Of the 16, 10 are still in flight.
    late = call()
    assert account.ask(late)[0] > 0
    account.end(flying[-1])
    account.begin(late)
    account.refuse(late, 1.0)
    assert account.number("width") == 5


def test_runs_are_served_in_turn_however_many_calls_each_has_waiting(account: Account) -> None:
    opened(account, input=(1000, 0))
    sizes, served = {"big": 20, "middle": 5, "small": 1}, Counter[str]()
    waiting = [(run, call(60)) for run, size in sizes.items() for _ in range(size)]
    for _ in range(150):
        account.pass_time(2.0)
        for at, (run, wanted) in enumerate(waiting):
            if account.ask(wanted, run) == FREE:
                served[run] += 1
                account.end(wanted, run)
                waiting[at] = (run, call(60))
    shares = list(served.values())
    assert sum(shares) > 60, "most of what the bucket gave was used"
    assert sum(shares) ** 2 / (len(shares) * sum(share**2 for share in shares)) > 0.99


def test_a_run_that_comes_later_gets_its_share_and_no_more(account: Account) -> None:
    opened(account, input=(1000, 0))
    served = Counter[str]()
    waiting = {"first": call(30)}
    for turn in range(120):
        if turn == 60:
            waiting["late"] = call(30)
            served.clear()
        account.pass_time(1.5)
        for run, wanted in list(waiting.items()):
            if account.ask(wanted, run) == FREE:
                served[run] += 1
                account.end(wanted, run)
                waiting[run] = call(30)
    assert abs(served["first"] - served["late"]) <= 1


def test_one_that_has_given_up_or_died_holds_up_nobody(account: Account) -> None:
    opened(account, input=(1000, 60))
    dead, leaving, next_one = call(500), call(500), call(100)
    account.ask(dead)
    account.ask(leaving)
    assert account.ask(next_one)[0] > 60
    account.run().leave(ACCOUNT, leaving)
    assert account.ask(next_one)[0] < 40
    account.pass_time(32.0)
    assert account.ask(next_one) == FREE


def test_a_models_empty_bucket_holds_up_no_other_model(account: Account) -> None:
    opened(account, input=(1000, 0))
    assert account.ask(call(500))[0] > 0
    assert account.ask(call(500, model="other")) == FREE


def test_a_model_of_which_nothing_is_known_is_tried_by_few(account: Account) -> None:
    crowd = [call() for _ in range(6)]
    assert [account.ask(one) == FREE for one in crowd].count(True) == 2
    account.run().hear(ACCOUNT, crowd[0], None)
    assert all(account.ask(one) == FREE for one in crowd[2:]), "an answer without limits opens it for all"


def test_a_limit_that_is_full_again_sooner_than_in_a_minute_is_learnt_of_two_answers(account: Account) -> None:
    for left, reset_s in ((700.0, 1.5), (400.0, 3.0)):
        first = call(0, 0)
        account.begin(
            first, told=RateLimits(allowances={"input": Allowance(limit=1000, remaining=left, reset_s=reset_s)})
        )
        account.end(first)
    account.begin(call(300))
    assert account.ask(call(250))[0] == pytest.approx(1.0, abs=0.1), "200 at 200 a second"


def test_a_limit_that_is_restored_at_one_moment_is_taken_for_one_of_a_minute(account: Account) -> None:
    """Its headers would otherwise promise a faster and faster refill until it is used up."""
    for second in range(6, 60, 6):
        first = call(0, 0)
        left = 1000.0 * (1 - second / 60)
        told = {"input": Allowance(limit=1000, remaining=left, reset_s=60.0 - second)}
        account.begin(first, told=RateLimits(allowances=told))
        account.end(first)
    models = account.state["models"]
    assert isinstance(models, dict)
    assert models["m"]["buckets"]["input"]["window"] == 60_000


@pytest.mark.parametrize("value", ["junk", '{"version": 2}', '{"version": 1}', '{"version": 1, "models": 7}', "[]"])
def test_what_is_no_state_of_ours_stops_nobody(account: Account, value: str) -> None:
    account.redis.set(KEY, value)
    assert account.ask(call()) == FREE
    assert account.ask(call()) == FREE


def test_a_key_of_another_kind_stops_nobody(account: Account) -> None:
    account.redis.lpush(KEY, "x")
    assert account.ask(call()) == FREE


def test_what_is_kept_in_redis_goes_by_itself(account: Account) -> None:
    account.begin(call())
    account.refuse(call(), 7200.0)
    assert [*account.redis.scan_iter("*")] == [KEY]
    assert 7200 < account.redis.ttl(KEY) < 7300


class Scripted:
    """A provider that does what it is told, and says which limits there are."""

    def __init__(self, *answers: Turn | ModelFailed, told: RateLimits | None = None) -> None:
        self.answers, self.told = list(answers), told

    def ask(self, request: ModelRequest, *, stop: Callable[[], bool], hear: Hear = deaf) -> Turn:
        if self.told is not None:
            hear(self.told)
        hear(Delta(kind="text", text="x"))
        answer = self.answers.pop(0)
        if isinstance(answer, ModelFailed):
            raise answer
        return answer


def answer(**usage: int) -> Turn:
    return Turn(role="assistant", parts=(Text(text="x"),), usage=Usage(**usage))


def paced(provider: Scripted, client: Redis | None, slept: list[float] | None = None, **own: bool) -> Paced:
    pace = AccountPace(breaker=Breaker(client=client), run="one", sleep=(slept if slept is not None else []).append)
    return Paced(provider=provider, pace=pace, account=ACCOUNT, model="m", **own)


def test_a_long_pause_is_left_to_another_model_at_once(account: Account) -> None:
    first = call()
    account.begin(first)
    account.refuse(first, 300.0)
    with pytest.raises(ModelFailed, match="account 'vendor' is at its rate limit; wait for 300 s") as gave_up:
        paced(Scripted(answer()), account.redis).ask(REQUEST, stop=lambda: False)
    assert gave_up.value.trouble == "unavailable"
    assert gave_up.value.resets_at == pytest.approx(time.time() + 300, abs=5)
    assert account.state["waiting"] in ({}, [])


def test_a_wait_is_told_before_anybody_looks_whether_to_stop(account: Account) -> None:
    """So that a limit of time can leave it out."""
    opened(account, input=(1000, 0))
    heard: list[LlmEvent] = []

    def stop() -> bool:
        assert heard, "told first"
        return len(heard) > 3

    with pytest.raises(ModelFailed) as stopped:
        paced(Scripted(answer()), account.redis).ask(REQUEST, stop=stop, hear=heard.append)
    assert stopped.value.trouble == "stopped"
    assert all(isinstance(event, Waited) and event.seconds > 0 for event in heard)
    assert account.state["waiting"] in ({}, []), "it has given up its place"


@pytest.mark.parametrize(("counts_cached", "expected"), [(True, 1010), (False, 110)])
def test_input_that_the_cache_serves_counts_as_the_account_says(
    account: Account, counts_cached: bool, expected: int
) -> None:
    """The estimate of the next call, too, leaves out what will be read from the cache."""
    told = limits(input=(100_000, 100_000))
    own = paced(
        Scripted(answer(input_tokens=1010, cached_tokens=900), answer(), told=told),
        account.redis,
        counts_cached=counts_cached,
    )
    own.ask(REQUEST, stop=lambda: False)
    models = account.state["models"]
    assert isinstance(models, dict)
    assert models["m"]["buckets"]["input"]["level"] == pytest.approx(100_000 - expected, abs=50)
    assert own._estimate(own._last[0] if own._last else 0) == (1011 if counts_cached else 111)


def test_without_redis_a_worker_goes_by_what_it_saw_itself(start_redis: Callable[..., RedisServer]) -> None:
    server = start_redis()
    client = connect(server.url)
    server.kill()
    slept: list[float] = []
    refused = ModelFailed("too many", trouble="rate_limit", retry_after_s=0.3)
    own = paced(Scripted(answer(), refused, answer()), client, slept)
    own.ask(REQUEST, stop=lambda: False)
    assert slept == [], "it waits for no Redis"
    with pytest.raises(ModelFailed):
        own.ask(REQUEST, stop=lambda: False)
    began = time.monotonic()
    own.ask(REQUEST, stop=lambda: False)
    assert time.monotonic() - began > 0.2 and slept
    client.close()


TABLE = """
accounts:
  lab: {{wire: anthropic, base_url: "{url}"}}
models:
  mine: {{account: lab, family: qwen, window_tokens: 32768}}
routes:
  code: {{primary: mine, reason: a test, source: here, date: '2026-11-01'}}
budget: mine
"""


def test_calls_of_several_runs_over_http_are_spread_and_none_is_refused(tmp_path: Path, redis_url: str) -> None:
    """Eight workers want 24 calls at once, where the vendor takes 8 and then four a second."""
    buckets = Buckets(requests=8, window_s=2.0)
    done: list[Turn] = []
    with VendorServer(limited(lambda seen: Say(text="hello", usage=None), buckets)) as server:
        (tmp_path / "models.yaml").write_text(TABLE.format(url=server.url))
        table = read_table(tmp_path / "models.yaml")

        def work(run: str) -> None:
            settings = Settings(broker_url=redis_url)
            chain = open_models(table, task_type="code", phase="execute", model="mine", run=run, settings=settings)
            done.extend(chain.ask(REQUEST, stop=lambda: False) for _ in range(3))

        workers = [threading.Thread(target=work, args=(f"run-{number % 3}",)) for number in range(8)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    assert len(done) == 24 and buckets.admitted == 24 and buckets.refused == 0
