"""From the table to an answer over real HTTP: adapter, key and price are right, and processes share what they learn."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from vendors.server import Answer, Fault, Say, Seen, VendorServer

from forgepool.workers.llm.messages import Text, Turn, user
from forgepool.workers.llm.provider import ModelFailed, ModelRequest
from forgepool.workers.llm.routing.chain import ModelChain, Patience
from forgepool.workers.llm.routing.open import keys_present, open_models
from forgepool.workers.llm.routing.table import Table, read_table
from forgepool.workers.schema.settings import Settings

NO_REDIS = Settings(broker_url=None)
ROOT = Path(__file__).parents[4]
REQUEST = ModelRequest(system=("be brief",), tools=(), turns=(user(Text(text="hello")),))
TABLE = """
accounts:
  spent: {{wire: anthropic, key: SPENT_KEY, base_url: "{url}/spent"}}
  full: {{wire: openai-responses, key: FULL_KEY, base_url: "{url}/full/v1"}}
  lab: {{wire: {lab}, base_url: "{url}/lab/v1", headers: {{x-team: ours}}, silence_s: 0.5}}
models:
  claude-opus-5-5: {{account: spent, also: []}}
  claude-haiku-5-5: {{account: spent, also: []}}
  gpt-6.1-sol: {{account: full, also: []}}
  mine: {{account: lab, id: vendor/mine, family: qwen, window_tokens: 32768, max_output_tokens: 777, effort: low}}
"""

WORKER = """
import json, sys
from forgepool.workers.llm.messages import Text, user
from forgepool.workers.llm.routing.open import open_models
from forgepool.workers.llm.provider import ModelRequest, ProviderTry
from forgepool.workers.llm.routing.table import read_table
from forgepool.workers.schema.settings import Settings
settings, tried = Settings(), []
table = read_table(settings.models_file)
chain = open_models(table, task_type="refactor", phase="execute", settings=settings)
request = ModelRequest(system=("be brief",), tools=(), turns=(user(Text(text="hello")),))
def hear(event):
    if isinstance(event, ProviderTry):
        tried.append((event.account, event.trouble))
turn = chain.ask(request, stop=lambda: False, hear=hear)
print(json.dumps({"model": turn.model, "family": table.family(turn.model), "cost_usd": turn.usage.cost_usd,
                  "text": turn.text, "tried": tried}))
"""


def table_at(url: str, folder: Path, lab: str = "openai-chat") -> Table:
    path = folder / "models.yaml"
    path.write_text(TABLE.format(url=url, lab=lab))
    return read_table(path)


def out_of_quota(seen: Seen) -> Answer:
    return Fault(kind="usage_limit") if "/spent/" in seen.path else Say(text=f"hello from {seen.model}")


def worker(environment: dict[str, str]) -> dict[str, object]:
    """Run a worker process, and return its output."""
    said = subprocess.run(
        [sys.executable, "-c", WORKER], env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert said.returncode == 0, said.stderr
    found = json.loads(said.stdout)
    assert isinstance(found, dict)
    return found


def test_an_account_out_of_quota_is_left_for_another_family_by_every_worker_process(
    tmp_path: Path, redis_url: str
) -> None:
    """The second process does not ask the account, because it knows the limit through Redis."""
    with VendorServer(out_of_quota) as server:
        table_at(server.url, tmp_path)
        environment = os.environ | {
            "FORGEPOOL_BROKER_URL": redis_url,
            "FORGEPOOL_MODELS": str(tmp_path / "models.yaml"),
            "SPENT_KEY": "key-of-the-first",
            "FULL_KEY": "key-of-the-second",
        }
        first, second = worker(environment), worker(environment)
        assert server.invalid == [] and server.lost == []
    assert first["tried"] == [["spent", "usage_limit"]] and second["tried"] == []
    for said in (first, second):
        assert (said["model"], said["family"], said["text"]) == ("gpt-6.1-sol", "gpt", "hello from gpt-6.1-sol")
        assert isinstance(said["cost_usd"], float) and 0 < said["cost_usd"] < 0.01
    assert [(seen.wire, seen.key) for seen in server.seen] == [
        ("anthropic", "key-of-the-first"),
        ("openai-responses", "key-of-the-second"),
        ("openai-responses", "key-of-the-second"),
    ]


@pytest.mark.parametrize("wire", ["openai-chat", "openai-responses", "anthropic"])
def test_a_server_of_ones_own_wants_no_key_and_its_price_is_not_known(tmp_path: Path, wire: str) -> None:
    with VendorServer(lambda seen: Say(text=f"hello from {seen.model}")) as server:
        table = table_at(server.url, tmp_path, wire)
        chain = open_models(table, task_type="code", phase="execute", model="mine", settings=NO_REDIS)
        turn = chain.ask(REQUEST, stop=lambda: False)
        assert server.invalid == []
    assert (turn.text, turn.model, turn.usage.cost_usd) == ("hello from vendor/mine", "mine", None)
    assert turn.usage.input_tokens > 0
    (seen,) = server.seen
    assert (seen.wire, seen.headers["x-team"]) == (wire, "ours")
    sent = json.dumps(seen.body)
    assert "777" in sent and '"low"' in sent


def test_who_is_silent_for_too_long_is_named_as_we_name_it(tmp_path: Path) -> None:
    """The account allows half a second."""
    with VendorServer(lambda seen: Fault(kind="silence", seconds=20.0)) as server:
        chain = open_models(
            table_at(server.url, tmp_path), task_type="code", phase="execute", model="mine", settings=NO_REDIS
        )
        alone = ModelChain(contenders=chain.contenders[:1], breaker=chain.breaker, patience=Patience(attempts=1))
        with pytest.raises(ModelFailed, match=r"model 'mine' gave no answer \(silence\)") as caught:
            alone.ask(REQUEST, stop=lambda: False)
    assert caught.value.trouble == "unavailable" and caught.value.resets_at is not None


def test_a_stronger_model_takes_a_conversation_from_the_one_that_made_no_headway(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That model has turns in the conversation, so it would otherwise continue."""
    monkeypatch.setenv("SPENT_KEY", "x")
    monkeypatch.setenv("FULL_KEY", "y")
    before = Turn(role="assistant", parts=(Text(text="done"),), model="claude-opus-5-5")
    request = replace(REQUEST, turns=(*REQUEST.turns, before, user(Text(text="it is red"))))
    with VendorServer(lambda seen: Say(text="hello")) as server:
        table = table_at(server.url, tmp_path)
        for escalated, answers in ((False, "claude-opus-5-5"), (True, "gpt-6.1-sol")):
            chain = open_models(table, task_type="code", phase="execute", escalated=escalated, settings=NO_REDIS)
            assert chain.ask(request, stop=lambda: False).model == answers
        assert server.invalid == []


def test_where_money_is_limited_nobody_without_a_known_price_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("SPENT_KEY", "FULL_KEY"):
        monkeypatch.delenv(name, raising=False)
    table = table_at("http://127.0.0.1:9", tmp_path)
    chain = open_models(table, task_type="code", phase="execute", model="mine", capped=True, settings=Settings())
    with pytest.raises(ModelFailed) as caught:
        chain.ask(REQUEST, stop=lambda: False)
    assert "mine (lab): its price is not known, and money is limited" in str(caught.value)
    assert "claude-haiku-5-5 (spent): set SPENT_KEY in the worker's environment" in str(caught.value)


def test_an_account_that_is_closed_for_an_order_is_not_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPENT_KEY", "x")
    monkeypatch.setenv("FULL_KEY", "y")
    with VendorServer(lambda seen: Say(text="hello")) as server:
        table = table_at(server.url, tmp_path)
        chain = open_models(table, task_type="code", phase="execute", closed=("spent",), settings=NO_REDIS)
        assert chain.ask(REQUEST, stop=lambda: False).model == "gpt-6.1-sol"
        closed = open_models(
            table, task_type="code", phase="execute", closed=("spent", "full", "lab"), settings=NO_REDIS
        )
        with pytest.raises(ModelFailed, match=r"has a limit in treasury\.yaml, and nothing of it is reserved"):
            closed.ask(REQUEST, stop=lambda: False)


def test_a_model_that_is_none_is_a_sentence_with_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(ModelFailed, match="there is no model 'mime'; did you mean 'mine'") as caught:
        open_models(
            table_at("http://127.0.0.1:9", tmp_path), task_type="code", phase="plan", model="mime", settings=Settings()
        )
    assert caught.value.trouble == "bad_request", "which no waiting mends"


def test_a_key_is_there_when_its_variable_holds_something(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = table_at("http://127.0.0.1:9", tmp_path)
    monkeypatch.setenv("SPENT_KEY", "x")
    monkeypatch.setenv("FULL_KEY", " ")
    assert keys_present(table) & {"SPENT_KEY", "FULL_KEY"} == {"SPENT_KEY"}
