"""The family of a model, by its name, by the table, and by the output of a program."""

from typing import Any

import pytest

from forgepool.workers.agents.families import (
    UNKNOWN,
    are_apart,
    families_of,
    family_said,
    find_family,
    is_apart,
    program_families,
)
from forgepool.workers.llm.routing.router import ModelChoice
from forgepool.workers.llm.routing.table import Model, OtherModel, Table, read_table
from forgepool.workers.schema.orders import CliProgram

TABLE = read_table(None)


def table(**models: dict[str, Any]) -> Table:
    usual: dict[str, Any] = {"account": "openai", "window_tokens": 1000}
    made = {name.replace("_", "-"): Model.model_validate(usual | said) for name, said in models.items()}
    return TABLE.model_copy(update={"models": made})


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("claude-opus-5-5", "claude"),
        ("anthropic/claude-opus-5.5", "claude"),
        ("us.anthropic.claude-sonnet-4-20250514-v1:0", "claude"),
        ("vertex_ai/claude-3-5-sonnet@20240620", "claude"),
        ("sonnet", "claude"),
        ("gpt-6.1-sol", "gpt"),
        ("openrouter/openai/gpt-6-astra", "gpt"),
        ("GPT-4o", "gpt"),
        ("gpt4", "gpt"),
        ("chatgpt-4o-latest", "gpt"),
        ("codex-mini", "gpt"),
        ("o3", "gpt"),
        ("openai/o4-mini-2025-04-16", "gpt"),
        ("gemini-3.8-flash", "gemini"),
        ("models/gemma-3", "gemini"),
        ("mistralai/mixtral-8x22b", "mistral"),
        ("qwen2.5-coder:32b", "qwen"),
        ("ollama/llama3", "llama"),
        ("deepseek/deepseek-chat", "deepseek"),
        ("x-ai/grok-4", "grok"),
        ("moonshotai/kimi-k2", "kimi"),
        ("scripted", "scripted"),
        ("model-1", UNKNOWN),
        ("openai/my-own", UNKNOWN),
        ("anthropic/my-own", UNKNOWN),
        ("o200k", UNKNOWN),
        ("philosopher", UNKNOWN),
        ("ollama", UNKNOWN),
        ("opencode", UNKNOWN),
        ("claude/gpt-6", UNKNOWN),
        ("", UNKNOWN),
    ],
)
def test_a_family_is_known_by_a_models_own_name_or_not_at_all(name: str, family: str) -> None:
    """A vendor's name in front says nothing, because many servers speak a vendor's format."""
    assert find_family(name) == family


def test_every_model_that_ships_is_of_the_family_its_name_tells() -> None:
    for name, model in TABLE.models.items():
        assert families_of([name], TABLE) == (model.family,)
        for place in TABLE.places(name):
            assert families_of([place.id], TABLE) == (model.family,), "by its id at an account"


def test_a_table_speaks_for_names_that_tell_nothing() -> None:
    own = table(mine={"family": "qwen", "id": "lab/m-7"})
    assert families_of(["mine", "lab/m-7", "yours"], own) == ("qwen", UNKNOWN)


def test_where_table_and_name_say_two_things_both_count() -> None:
    own = table(claude_x={"family": "gpt"}, claude_y={"family": "Anthropic"})
    assert families_of(["claude-x"], own) == ("gpt", "claude")
    assert families_of(["claude-y"], own) == ("Anthropic",), "two words for one family"


def test_an_id_that_two_models_share_tells_nothing() -> None:
    own = table(one={"family": "a", "id": "m"}, two={"family": "b", "also": (OtherModel(account="openai", id="m"),)})
    assert families_of(["m"], own) == (UNKNOWN,)


@pytest.mark.parametrize(
    ("program", "given", "told", "families"),
    [
        ("claude", None, (), ("claude",)),
        ("claude", "opus", ("claude-opus-5-5",), ("claude",)),
        ("claude", None, ("kimi-k2",), ("claude", "kimi")),
        ("codex", None, ("codex",), ("gpt",)),
        ("codex", "my-own", ("my-own",), ("gpt",)),
        ("opencode", None, ("opencode",), (UNKNOWN,)),
        ("opencode", "anthropic/claude-opus-5-5", (), ("claude",)),
        ("opencode", "openai/my-own", ("openai/my-own",), (UNKNOWN,)),
        ("aider", "sonnet", ("sonnet", "gpt-6-luna"), ("claude", "gpt")),
        ("aider", None, (), (UNKNOWN,)),
    ],
)
def test_a_programs_families_are_its_vendors_and_those_it_tells_of(
    program: CliProgram, given: str | None, told: tuple[str, ...], families: tuple[str, ...]
) -> None:
    assert program_families(program, given, told) == families


def candidate(model: str, family: str, name: str = "") -> ModelChoice:
    return ModelChoice(model=model, account="a", id=name or model, family=family)


@pytest.mark.parametrize(
    ("who", "apart"),
    [
        (candidate("gpt-x", "gpt"), True),
        (candidate("mine", "qwen"), True),
        (candidate("claude-x", "claude"), False),
        (candidate("mine", "claude"), False),
        (candidate("mine", "Anthropic"), False),
        (candidate("claude-x", "other"), False),
        (candidate("mine", "other", "anthropic/claude-y"), False),
        (candidate("gpt-x", UNKNOWN), False),
    ],
)
def test_a_candidate_is_apart_by_every_word_for_it(who: ModelChoice, apart: bool) -> None:
    assert is_apart(who, ["claude"]) is apart
    assert is_apart(who, ["anthropic"]) is apart


def test_nobody_is_apart_from_the_unknown() -> None:
    assert not is_apart(candidate("gpt-x", "gpt"), ["claude", UNKNOWN])
    assert not are_apart("gpt", [UNKNOWN]) and not are_apart(UNKNOWN, [])
    assert is_apart(candidate("gpt-x", "gpt"), []) and are_apart("critic", ["scripted"])


@pytest.mark.parametrize(
    ("word", "family"),
    [
        *(("claude", "claude"), ("Anthropic", "claude"), ("sonnet", "claude"), ("claude-opus-4", "claude")),
        *(("codex", "gpt"), ("o3", "gpt"), ("openai", "gpt"), ("scripted-author", "scripted-author")),
        *(("clade", None), ("", None), ("the usual one", None)),
    ],
)
def test_what_a_person_calls_a_family_is_one_or_is_refused(word: str, family: str | None) -> None:
    """An unknown word would differ from every reviewer's family, even from the author's own."""
    assert family_said(word, TABLE) == family
