"""
If the first model cannot answer, the next one does and keeps the conversation. What only a person can mend is reported
at once.
"""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import pytest
from servers import RedisServer

from forgepool.workers.llm.messages import Text, Turn, Usage, user
from forgepool.workers.llm.provider import Hear, LlmEvent, ModelFailed, ModelRequest, ProviderTry, Trouble, deaf
from forgepool.workers.llm.routing.breaker import Breaker, Pair, Probe, Shut, Verdict
from forgepool.workers.llm.routing.chain import Contender, ModelChain, Time
from forgepool.workers.llm.routing.router import ModelChoice, Tariff
from forgepool.workers.llm.routing.table import Price
from forgepool.workers.queue.broker import Redis, connect

OPUS = ("anthropic", "opus")
NOW = 1_800_000_000.0
MILLION = Usage(input_tokens=1_000_000, output_tokens=1_000_000)

Answer = Turn | ModelFailed


def failed(trouble: Trouble, resets_at: float | None = None, said: str = "") -> ModelFailed:
    return ModelFailed(said or f"{trouble} it was", trouble=trouble, resets_at=resets_at)


@dataclass
class Vendor:
    """A provider with prepared `answers`; after them it always answers."""

    id: str
    answers: list[Answer] = field(default_factory=list)
    asked: int = 0
    opened: int = 0

    def ask(self, request: ModelRequest, *, stop: Callable[[], bool], hear: Hear = deaf) -> Turn:
        self.asked += 1
        answer = self.answers.pop(0) if self.answers else Turn(role="assistant", parts=(Text(text=self.id),))
        if isinstance(answer, ModelFailed):
            raise answer
        return answer.model_copy(update={"model": f"{self.id}-on-the-wire", "usage": MILLION})

    def open(self) -> "Vendor":
        self.opened += 1
        return self


@dataclass
class Scene:
    """Three candidates of two families, the first model through two accounts, and one conversation."""

    redis: Redis | None = None
    now: float = NOW
    heard: list[LlmEvent] = field(default_factory=list)
    turns: tuple[Turn, ...] = (user(Text(text="hello")),)

    def __post_init__(self) -> None:
        self.first, self.other, self.gpt = Vendor("opus"), Vendor("or/opus"), Vendor("gpt")
        self.chain = self.another_worker()

    def another_worker(self, *, loyal: bool = True, wanting: str = "", priced: bool = True) -> ModelChain:
        ways = ((self.first, "opus", "anthropic", "claude"), (self.other, "opus", "openrouter", "claude"))
        ways += ((self.gpt, "gpt", "openai", "gpt"),)
        return ModelChain(
            contenders=tuple(
                Contender(
                    candidate=ModelChoice(model=model, account=account, id=vendor.id, family=family),
                    tariff=Tariff(own=_price(model, priced), lists=(), id=vendor.id),
                    open=vendor.open,
                    wanting=wanting if vendor is self.first else "",
                )
                for vendor, model, account, family in ways
            ),
            breaker=Breaker(client=self.redis, clock=lambda: self.now),
            loyal=loyal,
            time=Time(clock=lambda: self.now, sleep=self.sleep, chance=lambda: 1.0),
        )

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def ask(self, chain: ModelChain | None = None) -> Turn:
        request = ModelRequest(system=(), tools=(), turns=self.turns)
        turn = (chain or self.chain).ask(request, stop=lambda: False, hear=self.heard.append)
        self.turns += (turn, user(Text(text="go on")))
        return turn

    def fails(self) -> ModelFailed:
        with pytest.raises(ModelFailed) as caught:
            self.ask()
        return caught.value

    def asked(self) -> tuple[int, int, int]:
        return self.first.asked, self.other.asked, self.gpt.asked


@dataclass(slots=True, kw_only=True)
class SeesAProbe(Breaker):
    """A breaker that looked a moment before another worker made its claim."""

    looked: int = 0

    def look(self, wanted: Iterable[Pair]) -> dict[Pair, Verdict]:
        self.looked += 1
        found = Breaker.look(self, wanted)
        return found | {OPUS: Probe()} if self.looked == 2 else found


def _price(model: str, priced: bool) -> Price | None:
    if model == "opus":
        return Price(input=4, output=20)
    return Price(input=2, output=10) if priced else None


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_the_first_answers_by_our_name_and_with_its_price(scene: Scene) -> None:
    turn = scene.ask()
    assert (turn.model, turn.text, turn.usage.cost_usd) == ("opus", "opus", 24.0)
    assert scene.asked() == (1, 0, 0) and scene.gpt.opened == 0
    scene.ask()
    assert scene.first.opened == 1


@pytest.mark.parametrize(
    "trouble", ["authentication", "bad_request", "usage_limit", "server", "truncated", "rate_limit"]
)
def test_the_next_account_answers_and_then_the_next_family(scene: Scene, trouble: Trouble) -> None:
    scene.first.answers = [failed(trouble)] * 9
    scene.other.answers = [failed(trouble)] * 9
    turn = scene.ask()
    assert (turn.model, turn.usage.cost_usd) == ("gpt", 12.0)
    told = {(one.model, one.account) for one in scene.heard if isinstance(one, ProviderTry)}
    assert told == {("opus", "anthropic"), ("opus", "openrouter")}


@pytest.mark.parametrize("trouble", ["overflow", "stopped", "no_turn"])
def test_what_no_other_model_mends_is_raised_as_it_is(scene: Scene, trouble: Trouble) -> None:
    scene.first.answers = [failed(trouble)]
    failure = scene.fails()
    assert (failure.trouble, str(failure)) == (trouble, f"{trouble} it was")
    assert scene.asked() == (1, 0, 0)


def test_a_refusal_is_a_turn_and_nobody_else_is_asked(scene: Scene) -> None:
    scene.first.answers = [Turn(role="assistant", parts=(), stop="refusal")]
    assert scene.ask().stop == "refusal"
    assert scene.asked() == (1, 0, 0)


def test_a_conversation_stays_where_it_fell_to(scene: Scene) -> None:
    scene.first.answers = [failed("truncated")] * 5
    assert scene.ask().text == "or/opus"
    scene.now += 31
    assert scene.ask().text == "or/opus"
    assert scene.asked() == (5, 2, 0), "the first would answer again, and is not asked"


def test_a_conversation_that_another_worker_began_goes_on_with_the_same_model(scene: Scene) -> None:
    scene.turns += (Turn(role="assistant", parts=(), model="gpt"), user(Text(text="go on")))
    assert scene.ask().model == "gpt"
    scene.turns = scene.turns[:3]
    assert scene.ask(scene.another_worker(loyal=False)).model == "opus", "but for a chain that is to bring another"


def test_who_fails_later_is_followed_by_the_first_again(scene: Scene) -> None:
    scene.first.answers = [failed("truncated")] * 5
    scene.ask()
    scene.now += 31
    scene.other.answers = [failed("truncated")] * 5
    assert scene.ask().text == "opus"


def test_a_key_that_is_wrong_is_not_tried_again(scene: Scene) -> None:
    scene.first.answers = [failed("authentication")]
    scene.ask()
    scene.other.answers = [failed("truncated")] * 6
    assert scene.ask().model == "gpt"
    assert scene.first.asked == 1


def test_a_limit_that_one_worker_met_keeps_the_others_from_asking(redis: Redis) -> None:
    scene = Scene(redis)
    scene.first.answers = [failed("usage_limit", NOW + 3600)]
    assert scene.ask().text == "or/opus"
    scene.turns = scene.turns[:1]
    assert scene.ask(scene.another_worker()).text == "or/opus"
    assert scene.first.asked == 1
    scene.now += 3601
    scene.turns = scene.turns[:1]
    assert scene.ask(scene.another_worker()).text == "opus"


def test_who_fails_in_a_row_is_left_after_five_tries_and_probed_by_one(redis: Redis) -> None:
    scene = Scene(redis)
    scene.first.answers = [failed("server")] * 6
    assert scene.ask().text == "or/opus"
    assert scene.first.asked == 5
    late, later = scene.another_worker(), scene.another_worker()
    scene.turns = scene.turns[:1]
    assert scene.ask(late).text == "or/opus" and scene.first.asked == 5
    scene.now += 31
    scene.turns = scene.turns[:1]
    assert scene.ask(later).text == "or/opus", "it tried once more, and no more than that"
    assert scene.first.asked == 6
    scene.now += 61
    scene.turns = scene.turns[:1]
    assert scene.ask(scene.another_worker()).text == "opus"
    scene.turns = scene.turns[:1]
    assert scene.ask(scene.another_worker()).text == "opus"


def test_who_is_just_being_tried_by_another_worker_is_passed_over(redis: Redis) -> None:
    """Both workers saw that the pause is over, and one of them was faster."""
    scene = Scene(redis)
    scene.first.answers = [failed("server")] * 5
    scene.ask()
    scene.now += 31
    faster, slower = Breaker(client=redis, clock=lambda: scene.now), SeesAProbe(client=redis, clock=lambda: scene.now)
    assert slower.look([OPUS])[OPUS] == Probe() == faster.look([OPUS])[OPUS]
    assert faster.claim(OPUS)
    scene.turns = scene.turns[:1]
    late = ModelChain(contenders=scene.chain.contenders, breaker=slower, time=scene.chain.time)
    assert scene.ask(late).text == "or/opus" and scene.first.asked == 5


def test_where_limits_alone_stand_in_the_way_the_earliest_reset_is_told(scene: Scene) -> None:
    scene.first.answers = [failed("usage_limit", NOW + 7200)]
    scene.other.answers = [failed("usage_limit", NOW + 3600)]
    scene.gpt.answers = [failed("authentication")]
    for _ in range(2):
        failure = scene.fails()
        assert (failure.trouble, failure.resets_at) == ("usage_limit", NOW + 3600)
    assert scene.asked() == (1, 1, 1)


def test_where_something_else_does_each_candidate_has_its_reason(scene: Scene) -> None:
    scene.first.answers = [failed("usage_limit", NOW + 7200)]
    scene.other.answers = [failed("bad_request", said="it is\nwrong")]
    scene.gpt.answers = [failed("truncated", said="it broke off")] * 6
    failure = scene.fails()
    assert (failure.trouble, failure.resets_at) == ("unavailable", scene.now + 30)
    assert str(failure) == (
        "no model can be asked: opus (anthropic): usage_limit it was (not before 2027-01-15 10:00:00 UTC); "
        "opus (openrouter): it is wrong; gpt (openai): it broke off (not before 2027-01-15 08:00:45 UTC)"
    )


@pytest.mark.parametrize(
    ("first", "rest", "told"),
    [
        ("authentication", "bad_request", "authentication"),
        ("bad_request", "bad_request", "bad_request"),
    ],
)
def test_where_waiting_is_no_use_no_time_is_told(scene: Scene, first: Trouble, rest: Trouble, told: Trouble) -> None:
    scene.first.answers = [failed(first)]
    scene.other.answers, scene.gpt.answers = [failed(rest)], [failed(rest)]
    for _ in range(2):
        failure = scene.fails()
        assert (failure.trouble, failure.resets_at) == (told, None)
    assert scene.asked() == (1, 1, 1)


def test_a_model_that_is_down_is_told_with_when_it_may_be_tried(scene: Scene) -> None:
    scene.chain = ModelChain(contenders=scene.chain.contenders[:1], breaker=scene.chain.breaker, time=scene.chain.time)
    scene.first.answers = [failed("connection")] * 9
    failure = scene.fails()
    assert failure.trouble == "unavailable" and failure.resets_at == pytest.approx(scene.now + 30)
    scene.now += 1
    assert scene.fails().resets_at == failure.resets_at and scene.first.asked == 5


def test_who_cannot_be_asked_says_what_would_change_that(scene: Scene) -> None:
    chain = scene.another_worker(wanting="set KEY in the worker's environment")
    assert chain.model == "opus" and scene.ask(chain).text == "or/opus"
    assert scene.first.opened == 0
    alone = ModelChain(contenders=chain.contenders[:1], breaker=chain.breaker)
    scene.chain = alone
    assert alone.model == "" and alone.price(1, 1) is None
    failure = scene.fails()
    assert failure.trouble == "unavailable" and failure.resets_at is None
    assert str(failure) == "no model can be asked: opus (anthropic): set KEY in the worker's environment"


def test_the_price_of_a_question_is_that_of_the_dearest_who_may_answer(scene: Scene) -> None:
    assert scene.chain.price(1_000_000, 0) == 4.0
    scene.first.answers, scene.other.answers = [failed("bad_request")], [failed("bad_request")]
    scene.ask()
    assert scene.chain.price(1_000_000, 0) == 2.0 and scene.chain.model == "gpt"


def test_where_one_who_may_answer_has_no_known_price_none_is_given(scene: Scene) -> None:
    chain = scene.another_worker(priced=False)
    assert chain.price(1_000_000, 0) is None
    scene.first.answers, scene.other.answers = [failed("bad_request")], [failed("bad_request")]
    assert scene.ask(chain).usage.cost_usd is None


def test_a_redis_that_goes_away_stops_no_conversation(start_redis: Callable[..., RedisServer]) -> None:
    server = start_redis()
    client = connect(server.url)
    scene = Scene(client)
    scene.ask()
    server.kill()
    scene.first.answers = [failed("usage_limit")]
    assert scene.ask().text == "or/opus"
    client.close()


def test_no_secret_is_in_what_redis_keeps(redis: Redis) -> None:
    scene = Scene(redis)
    scene.first.answers = [failed("usage_limit")]
    scene.ask()
    (key,) = redis.scan_iter("*")
    assert key == "forgepool:breaker:account:anthropic"
    assert set(json.loads(str(redis.get(key)))) == {"until", "why", "trouble"}


def test_what_broke_off_has_its_price(scene: Scene) -> None:
    """It is charged for. An answer that never began is not."""
    broke = ModelFailed("it broke off", trouble="truncated", usage=Usage(input_tokens=1_000_000, cost_usd=None))
    scene.first.answers = [broke, failed("server")]
    assert scene.ask().model == "opus"
    assert [one.usage.cost_usd for one in scene.heard if isinstance(one, ProviderTry)] == [4.0, 0.0]
    scene.first.answers = [ModelFailed("stopped", trouble="stopped", usage=MILLION)]
    assert scene.fails().usage.cost_usd == 24.0


@pytest.mark.parametrize("trouble", ["stopped", "truncated"])
def test_a_probe_that_ends_without_an_answer_keeps_nobody_waiting(redis: Redis, trouble: Trouble) -> None:
    """A stopped try says nothing about the model. A broken one is one more failure."""
    scene = Scene(redis)
    scene.first.answers = [failed("server")] * 5
    scene.ask()
    scene.now += 31
    scene.turns = scene.turns[:1]
    late = scene.another_worker()
    scene.first.answers = [failed(trouble)]
    if trouble == "stopped":
        with pytest.raises(ModelFailed):
            scene.ask(late)
        assert late.breaker.look([OPUS])[OPUS] == Probe()
    else:
        assert scene.ask(late).text == "or/opus"
        found = late.breaker.look([OPUS])[OPUS]
        assert isinstance(found, Shut) and found.until == pytest.approx(scene.now + 60)
