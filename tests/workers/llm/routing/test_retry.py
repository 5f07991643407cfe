"""A question is repeated where waiting helps, after the vendor's own delay, and not forever. No test sleeps."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forgepool.workers.llm.messages import Text, Turn, Usage, user
from forgepool.workers.llm.provider import (
    PASSING,
    Hear,
    LlmEvent,
    ModelFailed,
    ModelRequest,
    ProviderTry,
    Trouble,
    deaf,
)
from forgepool.workers.llm.routing.chain import Patience, Retrying, Time, pause_s

REQUEST = ModelRequest(system=(), tools=(), turns=(user(Text(text="hello")),))
TURN = Turn(role="assistant", parts=(Text(text="hi"),))


@dataclass
class Clock:
    """A clock that moves only when code sleeps on it."""

    now: float = 1000.0
    slept: list[float] = field(default_factory=list)

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds

    @property
    def time(self) -> Time:
        return Time(clock=lambda: self.now, sleep=self.sleep, chance=lambda: 1.0)


@dataclass
class Answers:
    """A provider that fails some times and then answers; each question takes a second."""

    clock: Clock
    failures: list[ModelFailed]
    asked: int = 0

    def ask(self, request: ModelRequest, *, stop: Callable[[], bool], hear: Hear = deaf) -> Turn:
        self.asked += 1
        self.clock.now += 1.0
        if self.asked <= len(self.failures):
            raise self.failures[self.asked - 1]
        return TURN


@dataclass
class Scene:
    failures: list[ModelFailed]
    patience: Patience = field(default_factory=Patience)
    worth_it: bool = True
    stop_at: float = 1e9
    clock: Clock = field(default_factory=Clock)
    heard: list[ProviderTry] = field(default_factory=list)
    told: list[Trouble] = field(default_factory=list)

    def hear(self, event: LlmEvent) -> None:
        assert isinstance(event, ProviderTry)
        self.heard.append(event)

    def worth(self, failure: ModelFailed) -> bool:
        self.told.append(failure.trouble)
        return self.worth_it

    def ask(self) -> Turn:
        self.provider = Answers(self.clock, self.failures)
        retrying = Retrying(
            provider=self.provider,
            model="m",
            account="a",
            patience=self.patience,
            time=self.clock.time,
            worth_it=self.worth,
        )
        return retrying.ask(REQUEST, stop=lambda: self.clock.now >= self.stop_at, hear=self.hear)

    def fails(self) -> ModelFailed:
        with pytest.raises(ModelFailed) as caught:
            self.ask()
        return caught.value


def failed(trouble: Trouble, **known: float) -> ModelFailed:
    return ModelFailed(f"{trouble} it was", trouble=trouble, status=500, **known)  # type: ignore[arg-type]  # of floats


@pytest.mark.parametrize("trouble", sorted(PASSING))
def test_what_passes_is_waited_for_and_every_try_is_told(trouble: Trouble) -> None:
    scene = Scene([failed(trouble), failed(trouble)])
    assert scene.ask() == TURN
    assert scene.provider.asked == 3 and scene.told == [trouble, trouble]
    assert [tried.wait_s for tried in scene.heard] == [1.0, 2.0]
    first = scene.heard[0]
    assert (first.model, first.account, first.trouble, first.said) == ("m", "a", trouble, f"{trouble} it was")
    assert (first.status, first.seconds) == (500, 1.0)
    assert sum(scene.clock.slept) == pytest.approx(3.0)


@pytest.mark.parametrize("trouble", sorted(set(get_args(Trouble)) - PASSING - {"stopped"}))
def test_what_does_not_pass_is_not_asked_again(trouble: Trouble) -> None:
    scene = Scene([failed(trouble)])
    assert scene.fails().trouble == trouble
    assert scene.provider.asked == 1 and scene.clock.slept == []
    assert [tried.wait_s for tried in scene.heard] == [None]


def test_an_asker_who_gave_up_is_told_nothing_more() -> None:
    scene = Scene([failed("stopped")])
    assert scene.fails().trouble == "stopped"
    assert scene.heard == [] and scene.told == []


def test_what_the_vendor_wants_waited_for_is_waited_for() -> None:
    scene = Scene([failed("rate_limit", retry_after_s=7.0)])
    assert scene.ask() == TURN
    assert 7.0 <= sum(scene.clock.slept) <= 7.7 + 1e-9


def test_a_vendor_who_wants_no_wait_at_all_is_not_asked_again_at_once() -> None:
    """Some vendors say 0 during the whole failure, and six tries would be over at once."""
    scene = Scene([failed("rate_limit", retry_after_s=0.0)])
    assert scene.ask() == TURN
    assert sum(scene.clock.slept) == pytest.approx(1.1)


def test_what_a_try_cost_is_told() -> None:
    """A broken answer is charged for."""
    spent = Usage(input_tokens=7, output_tokens=3)
    scene = Scene([ModelFailed("broke off", trouble="truncated", usage=spent)])
    scene.ask()
    assert scene.heard[0].usage == spent


def test_a_wait_beyond_the_cap_is_left_to_others_with_its_end() -> None:
    scene = Scene([failed("rate_limit", retry_after_s=200.0)])
    failure = scene.fails()
    assert (failure.trouble, failure.resets_at) == ("rate_limit", 1001.0 + 200.0)
    assert scene.provider.asked == 1 and scene.clock.slept == []


def test_a_reset_that_was_stated_is_kept() -> None:
    scene = Scene([failed("usage_limit", retry_after_s=200.0, resets_at=5000.0)])
    assert scene.fails().resets_at == 5000.0


def test_tries_are_counted() -> None:
    scene = Scene([failed("server")] * 9, Patience(attempts=4))
    assert scene.fails().trouble == "server"
    assert scene.provider.asked == 4
    assert [tried.wait_s for tried in scene.heard] == [1.0, 2.0, 4.0, None]


def test_no_try_begins_after_the_time_is_over() -> None:
    scene = Scene([failed("server")] * 99, Patience(attempts=99, total_s=30.0))
    scene.fails()
    assert scene.clock.now - 1000.0 <= 30.0 + 1.0
    assert scene.provider.asked == 5


def test_nobody_tries_again_what_is_known_to_be_shut_off() -> None:
    scene = Scene([failed("server")], worth_it=False)
    assert scene.fails().trouble == "server"
    assert scene.provider.asked == 1 and scene.clock.slept == [] and scene.heard[0].wait_s is None


def test_a_wait_ends_soon_after_its_asker_gave_up() -> None:
    scene = Scene([failed("rate_limit", retry_after_s=60.0)], stop_at=1003.0)
    assert scene.fails().trouble == "stopped"
    assert 1003.0 <= scene.clock.now < 1003.5 and scene.provider.asked == 1


@given(
    st.sampled_from(sorted(PASSING)),
    st.integers(1, 10_000),
    st.floats(0, 1),
    st.none() | st.floats(0, 1e9),
)
def test_a_pause_is_never_longer_than_the_cap_nor_shorter_than_the_vendor_wants(
    trouble: Trouble, attempt: int, chance: float, retry_after_s: float | None
) -> None:
    patience = Patience()
    pause = pause_s(ModelFailed("x", trouble=trouble, retry_after_s=retry_after_s), attempt, patience, chance)
    if retry_after_s is not None and retry_after_s > patience.longest_wait_s:
        assert pause is None
    elif retry_after_s is not None:
        at_least = max(retry_after_s, patience.first_wait_s)
        assert pause is not None and at_least <= pause <= at_least * 1.1 + 1e-9
    else:
        assert pause is not None and patience.first_wait_s / 2 <= pause <= patience.longest_wait_s
