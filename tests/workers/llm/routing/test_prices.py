"""Every token is charged once and by its kind, an unknown price is not zero, and no network is used."""

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forgepool.workers.llm.messages import Usage
from forgepool.workers.llm.routing.router import Tariff, candidates, tariff
from forgepool.workers.llm.routing.table import Model, ModelAccount, OtherModel, Price, Table, read_table

SHIPPED = read_table(None)
MILLION = 1_000_000


def shipped(model: str) -> Tariff:
    return tariff(SHIPPED, candidates(SHIPPED, model, keys=())[0])


def charged(account: ModelAccount, name: str, price: Price | None = None) -> Tariff:
    """Return how a model of this name is charged through an account."""
    model = Model(account="x", family="f", window_tokens=9, price=price, also=(OtherModel(account="x", id="other"),))
    table = SHIPPED.model_copy(update={"accounts": {"x": account}, "models": {name: model}})
    return tariff(Table.model_validate(table), candidates(table, name, keys=())[0])


@pytest.mark.parametrize("model", ["claude-opus-5-5", "gpt-6.1-sol"])
def test_the_batch_lanes_of_the_shipped_accounts_cost_half_and_others_have_none(model: str) -> None:
    at_vendor, at_gateway = (candidates(SHIPPED, model, keys=())[place] for place in (0, 1))
    usage = Usage(input_tokens=3000, output_tokens=1000)
    full, half = (tariff(SHIPPED, at_vendor, batch=batch).cost_usd(usage) for batch in (False, True))
    assert full is not None and half == full / 2
    assert tariff(SHIPPED, at_vendor, batch=True).worst_case_usd(3000, 1000) == (
        (tariff(SHIPPED, at_vendor).worst_case_usd(3000, 1000) or 0) / 2
    )
    assert SHIPPED.accounts[at_gateway.account].batch is None


@pytest.mark.parametrize(
    ("model", "usage", "cost_usd"),
    [
        ("claude-opus-5-5", Usage(input_tokens=MILLION), 4.0),
        ("claude-opus-5-5", Usage(output_tokens=MILLION), 20.0),
        ("claude-opus-5-5", Usage(output_tokens=MILLION, reasoning_tokens=MILLION), 20.0),
        ("claude-opus-5-5", Usage(input_tokens=MILLION, cached_tokens=MILLION), 0.2),
        ("claude-opus-5-5", Usage(input_tokens=MILLION, written_tokens=MILLION), 5.0),
        ("claude-opus-5-5", Usage(input_tokens=MILLION, written_tokens=MILLION, written_1h_tokens=MILLION), 8.0),
        (
            "claude-opus-5-5",
            Usage(
                input_tokens=4000, cached_tokens=1000, written_tokens=2000, written_1h_tokens=1000, output_tokens=100
            ),
            (1000 * 4 + 1000 * 0.2 + 1000 * 5 + 1000 * 8 + 100 * 20) / MILLION,
        ),
        ("gpt-6.1-sol", Usage(input_tokens=10_000, cached_tokens=10_000), 0.001),
        ("gpt-6.1-sol", Usage(input_tokens=10_000, written_tokens=10_000), 0.025),
        ("gpt-6.1-sol", Usage(input_tokens=MILLION), 4.0),  # twice as much where the input is long
    ],
)
def test_published_prices_by_kind_of_token(model: str, usage: Usage, cost_usd: float) -> None:
    assert shipped(model).cost_usd(usage) == pytest.approx(cost_usd)


def test_the_tables_own_price_counts_for_more_than_the_published_one() -> None:
    price = Price(input=1, output=2, cached=0.5, written=3)
    own = charged(ModelAccount(wire="anthropic", key="K"), "claude-opus-5-5", price)
    usage = Usage(input_tokens=3000, cached_tokens=1000, written_tokens=1000, output_tokens=1000)
    assert own.cost_usd(usage) == pytest.approx((1 + 0.5 + 3 + 2) / 1000)
    plain = charged(ModelAccount(wire="anthropic", key="K"), "claude-opus-5-5", Price(input=1, output=2))
    assert plain.cost_usd(usage) == pytest.approx((1 + 1 + 1 + 2) / 1000)
    free = charged(ModelAccount(wire="openai-chat", base_url="http://own"), "mine", Price(input=0, output=0))
    assert free.cost_usd(usage) == 0.0


def test_what_nobody_published_is_not_known_and_not_nothing() -> None:
    unknown = charged(ModelAccount(wire="openai-chat", key="K", base_url="http://gateway"), "house-blend")
    assert unknown.cost_usd(Usage(input_tokens=1)) is None
    assert unknown.worst_case_usd(1, 1) is None and unknown.per_million_usd() is None


def test_a_gateway_charges_what_the_maker_does_and_ones_own_server_nothing_that_is_known() -> None:
    gateway = charged(ModelAccount(wire="openai-chat", key="K", base_url="http://gateway"), "claude-opus-5-5")
    assert gateway.per_million_usd() == (4.0, 20.0)
    own = charged(ModelAccount(wire="openai-chat", base_url="http://127.0.0.1:8000"), "claude-opus-5-5")
    assert own.per_million_usd() is None
    router = charged(
        ModelAccount(wire="openai-chat", key="K", base_url="https://openrouter.ai/api/v1"), "qwen/qwen3-coder"
    )
    assert router.per_million_usd() is not None


def test_counts_that_contradict_one_another_have_no_price() -> None:
    wrong = Usage(input_tokens=10, cached_tokens=20)
    assert shipped("claude-opus-5-5").cost_usd(wrong) is None
    assert charged(ModelAccount(wire="anthropic", key="K"), "m", Price(input=1, output=1)).cost_usd(wrong) is None


def test_the_worst_case_is_all_of_the_input_written_for_an_hour() -> None:
    assert shipped("claude-opus-5-5").worst_case_usd(MILLION, MILLION) == pytest.approx(28.0)
    assert shipped("gpt-6.1-sol").worst_case_usd(100_000, 0) == pytest.approx(0.25)


@given(
    st.sampled_from(["claude-opus-5-5", "claude-haiku-5-5", "gpt-6.1-sol", "gemini-3.8-flash"]),
    st.tuples(*[st.integers(0, 200_000)] * 4),
    st.integers(0, 64_000),
)
def test_no_call_costs_more_than_its_worst_case(model: str, parts: tuple[int, int, int, int], output: int) -> None:
    _, cached, written, written_1h = parts
    usage = Usage(
        input_tokens=sum(parts),
        cached_tokens=cached,
        written_tokens=written + written_1h,
        written_1h_tokens=written_1h,
        output_tokens=output,
    )
    cost, worst = shipped(model).cost_usd(usage), shipped(model).worst_case_usd(sum(parts), output)
    assert cost is not None and worst is not None and 0 <= cost <= worst * (1 + 1e-9)


OFFLINE = """
import socket, sys, threading
def refused(*args, **kwargs):
    raise AssertionError("the network was asked")
socket.socket.connect = socket.create_connection = socket.getaddrinfo = refused
from forgepool.workers.llm.messages import Usage
from forgepool.workers.llm.routing.router import tariff
from forgepool.workers.llm.routing.router import candidates
from forgepool.workers.llm.routing.table import read_table
table = read_table(None)
assert "genai_prices" not in sys.modules, "imported before it is needed"
for model in table.models:
    assert tariff(table, candidates(table, model, keys=())[0]).cost_usd(Usage(input_tokens=5)), model
assert threading.active_count() == 1
"""


def test_prices_are_known_without_a_network_and_loaded_when_first_wanted() -> None:
    """The test runs in a process where opening any connection is an error."""
    said = subprocess.run([sys.executable, "-c", OFFLINE], capture_output=True, text=True, timeout=60, check=False)
    assert said.returncode == 0, said.stderr
