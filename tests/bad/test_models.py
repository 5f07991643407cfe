"""`forgepool models` lists the models without printing a key, and names the line of a mistake in a file."""

from pathlib import Path

import pytest
from premises import Premises

KEYS = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENROUTER_API_KEY", "GEMINI_API_KEY")


@pytest.fixture
def bare(premises: Premises, monkeypatch: pytest.MonkeyPatch) -> Premises:
    """Return premises without keys and without a user's file."""
    for name in KEYS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(premises.folder / "config"))
    return premises


def users_file(premises: Premises, text: str) -> Path:
    path = premises.folder / "config" / "forgepool" / "models.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    return path


def test_models_routes_prices_and_keys_are_told(bare: Premises) -> None:
    said = bare.forgepool("models", env={"OPENAI_API_KEY": "sk-secret"})
    assert (said.status, said.err) == (0, "")
    assert "sk-secret" not in said.out
    lines = said.out.splitlines()
    assert any("OPENAI_API_KEY is set" in line for line in lines)
    assert any("ANTHROPIC_API_KEY is not set" in line for line in lines)
    assert any(line.split()[:2] == ["gpt-6.1-sol", "gpt"] and line.split()[-2:] == ["2", "10"] for line in lines)
    assert any(line.startswith("security") for line in lines)


def test_the_same_as_json(bare: Premises) -> None:
    said = bare.forgepool("models", "--json", env={"OPENAI_API_KEY": "sk-secret"})
    assert said.status == 0 and "sk-secret" not in said.out
    answer = said.answer
    by_way = {(row["model"], row["account"]): row for row in answer["models"]}
    sol, opus = by_way["gpt-6.1-sol", "openai"], by_way["claude-opus-5-5", "openrouter"]
    assert sol["key_present"] and not opus["key_present"]
    assert (sol["input_usd_per_million"], opus["id"], opus["family"]) == (2.0, "anthropic/claude-opus-5.5", "claude")
    assert set(answer["routes"]["review"]) >= {"primary", "then", "reason", "source", "date"}
    assert answer["file"] is None and answer["budget"] in {row["model"] for row in answer["models"]}


def test_a_file_of_ones_own_is_laid_over_it(bare: Premises) -> None:
    text = "accounts: {lab: {wire: openai-chat, base_url: 'http://lab:8000/v1', headers: {X-Team: secret}}}\n"
    text += "models: {mine: {account: lab, family: qwen, window_tokens: 32768}}\n"
    path = users_file(bare, text)
    said = bare.forgepool("models")
    assert said.status == 0 and str(path) in said.out and "secret" not in said.out
    (line,) = (line for line in said.out.splitlines() if line.startswith("mine"))
    assert line.split() == ["mine", "qwen", "lab", "32,768", "not", "known", "not", "known"]


def test_a_wrong_file_is_refused_with_its_line(bare: Premises) -> None:
    path = users_file(bare, "# mine\nbudget: claude-haiku\n")
    bare.forgepool("models").is_refusal(2, f"{path}:2:", "there is no model 'claude-haiku'", "claude-haiku-5-5")


def test_a_repository_has_no_say_in_where_keys_are_sent(bare: Premises) -> None:
    """Files in the current folder and in the repository's folder are both ignored."""
    for folder in (bare.folder, bare.repo):
        for name in ("models.yaml", "forgepool.yaml", ".forgepool/models.yaml"):
            path = folder / name
            path.parent.mkdir(exist_ok=True)
            path.write_text("accounts: {anthropic: {base_url: 'http://evil.example'}}\nbudget: gpt-6-luna\n")
    answer = bare.forgepool("models", "--json").answer
    assert answer["file"] is None and answer["budget"] == "claude-haiku-5-5"


def test_a_plan_that_nobody_here_can_do_is_refused_before_it_begins(bare: Premises) -> None:
    """There is no key, no such model, or no such program. Each sentence says what would be right."""

    def refused(agent: dict[str, object], *words: str) -> None:
        plan = bare.plan({"one": {"agent": agent, "files": ["one.txt"]}})
        bare.run(plan).is_refusal(2, "task 'one'", *words)
        assert not (bare.home / "runs").exists() or not list((bare.home / "runs").iterdir())

    refused({"builtin": {}}, "needs a model, but no key is set", "set ANTHROPIC_API_KEY")
    refused({"builtin": {"model": "claude-opus"}}, "there is no model 'claude-opus'", "claude-opus-5-5")
    laddered = {
        "agent": {"builtin": {}},
        "files": ["one.txt"],
        "attempts": {"ladder": ["claude-opus-5-5", "gpt-6-luna"]},
    }
    keys = ("ANTHROPIC_API_KEY (claude-opus-5-5)", "OPENAI_API_KEY (gpt-6-luna)")
    bare.run(bare.plan({"one": laddered})).is_refusal(2, "task 'one'", *keys)
    refused({"cli": "aider"}, "aider, which is not on PATH")


def test_a_wrong_table_of_tools_is_refused_before_a_run_begins(bare: Premises) -> None:
    """The sentence names the line, and nothing is started."""
    path = bare.folder / "config" / "forgepool" / "tools.yaml"
    path.parent.mkdir(parents=True)
    path.write_text("mcp_servers: [{name: t}]\n")
    said = bare.run(bare.plan({"one": "echo 1 > one.txt"}))
    said.is_refusal(2, "tools.yaml:1")
