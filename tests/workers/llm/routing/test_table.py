"""The table of models: the shipped one is valid, a user's file overrides it, and mistakes are reported with lines."""

from pathlib import Path

import pytest

from forgepool.workers.llm.routing.table import SHIPPED, read_table
from forgepool.workers.schema.mistakes import DocumentWrong
from forgepool.workers.schema.settings import Settings


def own(folder: Path, text: str) -> Path:
    path = folder / "models.yaml"
    path.write_text(text)
    return path


def mistakes(folder: Path, text: str) -> list[str]:
    path = own(folder, text)
    with pytest.raises(DocumentWrong) as caught:
        read_table(path)
    said = list(caught.value.mistakes)
    assert all(one.startswith(f"{path}:") for one in said), said
    return [one.removeprefix(f"{path}:") for one in said]


def test_every_route_that_is_shipped_falls_to_another_family_and_says_where_it_comes_from() -> None:
    table = read_table(None)
    assert {"code", "plan", "refactor", "docs", "devops", "concurrency", "review", "security"} <= set(table.routes)
    for kind, route in table.routes.items():
        families = {table.family(model) for model in (route.primary, *route.then)}
        assert len(families) > 1, kind
        assert route.reason and route.source and route.date, kind


def test_every_model_that_is_shipped_has_a_published_price_and_no_larger_window_than_is_published() -> None:
    from genai_prices.data_snapshot import get_snapshot

    for name, model in read_table(None).models.items():
        _, published = get_snapshot().find_provider_model(name, None, None, None)
        assert published.prices, name
        assert model.window_tokens <= (published.context_window or 0), name


def test_what_the_user_says_is_laid_over_what_is_shipped_key_by_key(tmp_path: Path) -> None:
    text = (
        "accounts:\n  anthropic: {base_url: 'https://gateway.example'}\n  lab: {wire: openai-chat, base_url: 'http://lab'}\n"
        "models:\n  mine: {account: lab, family: qwen, window_tokens: 32768, price: {input: 0, output: 0}}\n"
        "  claude-opus-5-5: {effort: low, also: []}\n"
        "routes:\n  docs: {primary: mine, then: []}\n"
    )
    shipped, table = read_table(None), read_table(own(tmp_path, text))
    assert table.accounts["anthropic"].base_url == "https://gateway.example"
    assert table.accounts["anthropic"].key == "ANTHROPIC_API_KEY"
    assert table.models["claude-opus-5-5"] == shipped.models["claude-opus-5-5"].model_copy(
        update={"effort": "low", "also": ()}
    )
    assert (table.routes["docs"].primary, table.routes["docs"].then) == ("mine", ())
    assert table.routes["docs"].reason == shipped.routes["docs"].reason
    assert table.routes["code"] == shipped.routes["code"]
    assert [place.id for place in table.places("mine")] == ["mine"]
    assert [place.id for place in shipped.places("gpt-6-luna")] == ["gpt-6-luna", "openai/gpt-6-luna"]


def test_the_family_of_a_model_that_nobody_knows_is_not_known() -> None:
    table = read_table(None)
    assert (table.family("claude-opus-5-5"), table.family("gpt-6.1-sol"), table.family("scripted")) == (
        "claude",
        "gpt",
        None,
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("accounts:\n  lab: {base_url: 'http://x'}\n", "2: 'lab' of 'accounts' lacks the key 'wire'"),
        ("accounts:\n  lab: {wire: openai-chat}\n", "2: account 'lab' has neither a key nor a base_url"),
        ("accounts:\n  lab: {wire: grpc, key: K}\n", "2: 'wire' of 'lab' of 'accounts' must be 'anthropic'"),
        (
            "models:\n  mine:\n    family: x\n    window_tokens: 9\n    account: antropic\n",
            "5: model 'mine': there is no",
        ),
        ("models:\n  gpt-6-luna:\n    window: 9\n", "3: 'gpt-6-luna' of 'models' has an unknown key 'window'"),
        (
            "budget: claude-haku-5-5\n",
            "1: 'budget': there is no model 'claude-haku-5-5'; did you mean 'claude-haiku-5-5'",
        ),
        (
            "routes:\n  docs:\n    then: [gpt-6-lunar]\n",
            "3: route 'docs': there is no model 'gpt-6-lunar'; did you mean",
        ),
        ("routes:\n  docs:\n    phases: {plan: nobody}\n", "3: route 'docs': there is no model 'nobody'; there are: "),
        (
            "routes:\n  docs:\n    phases: {verify: gpt-6-luna}\n",
            "3: 'verify' of 'phases' of 'docs' of 'routes' must be",
        ),
        ("routes:\n  docs:\n    date: soon\n", "3: 'date' of 'docs' of 'routes' must be a date such as 2026-11-21"),
        ("routes:\n  docs: {primary: gpt-6-luna\n", "3: a list or mapping in brackets is not closed"),
        ("accounts:\n  anthropic: {batch: 2}\n", "2: 'batch' of 'anthropic' of 'accounts' must be"),
        (
            "accounts:\n  lab: {wire: openai-chat, base_url: lab}\n",
            "2: 'base_url' of 'lab' of 'accounts' must begin with",
        ),
    ],
)
def test_a_mistake_is_one_sentence_with_its_line(tmp_path: Path, text: str, said: str) -> None:
    found = mistakes(tmp_path, text)
    assert len(found) == 1 and found[0].startswith(said), found


def test_a_key_written_in_place_of_its_variable_is_refused_and_not_repeated(tmp_path: Path) -> None:
    for key in ("sk-ant-abcdef", "AIzaSyabcdef"):
        (found,) = mistakes(tmp_path, f"accounts:\n  openai: {{key: {key}}}\n")
        assert "must be the name of a variable" in found and key not in found


def test_the_file_is_the_one_named_or_the_users_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FORGEPOOL_MODELS", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert Settings().models_file is None
    (tmp_path / "forgepool").mkdir()
    users = own(tmp_path / "forgepool", "budget: gpt-6-luna\n")
    assert Settings().models_file == users
    assert read_table(Settings().models_file).budget == "gpt-6-luna"
    monkeypatch.setenv("FORGEPOOL_MODELS", str(SHIPPED))
    assert Settings().models_file == SHIPPED


def test_a_file_that_is_named_and_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DocumentWrong, match="there is no such file"):
        read_table(tmp_path / "none.yaml")


def test_the_example_in_the_documentation_is_a_table(tmp_path: Path) -> None:
    text = (Path(__file__).parents[4] / "docs" / "how-to" / "models.md").read_text()
    lines = text.partition("A table of your own")[2].partition("\n|")[0].splitlines()
    table = read_table(own(tmp_path, "\n".join(line[4:] for line in lines if line.startswith("    "))))
    assert table.budget == "coder" and table.models["coder"].price is not None
    assert table.routes["code"].phases == {"plan": "claude-fable-5-2"}
