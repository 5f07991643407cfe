"""Which models are asked, in which order: by a task's type, the phase, a person's choice, and the available keys."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forgepool.workers.llm.routing.router import Choice, RoutingQuestion, choose
from forgepool.workers.llm.routing.table import Model, ModelAccount, OtherModel, Route, Table, read_table
from forgepool.workers.schema.orders import PhaseName

SHIPPED = read_table(None)


def model(account: str, family: str, strength: int = 2, also: tuple[OtherModel, ...] = ()) -> Model:
    return Model(account=account, family=family, window_tokens=9, strength=strength, also=also)


def route(primary: str, *then: str, phases: dict[PhaseName, str] | None = None) -> Route:
    return Route(primary=primary, then=then, phases=phases or {}, reason="r", source="s", date="2026-01-01")


TABLE = Table(
    accounts={
        "first": ModelAccount(wire="anthropic", key="FIRST"),
        "second": ModelAccount(wire="openai-chat", key="SECOND"),
        "own": ModelAccount(wire="openai-chat", base_url="http://own"),
    },
    models={
        "a": model("first", "claude", 2, (OtherModel(account="second", id="vendor/a"),)),
        "a-large": model("first", "claude", 3),
        "b": model("second", "gpt", 2),
        "c": model("own", "qwen", 1),
    },
    routes={
        "code": route("a", "b"),
        "docs": route("a", "b", "a-large", phases={"plan": "b"}),
    },
    budget="c",
)
ALL = ("FIRST", "SECOND")


def chosen(question: RoutingQuestion, keys: tuple[str, ...] = ALL) -> Choice:
    found = choose(TABLE, question, keys=keys)
    assert isinstance(found, Choice), found
    return found


def models(question: RoutingQuestion, keys: tuple[str, ...] = ALL) -> list[str]:
    return list(dict.fromkeys(one.model for one in chosen(question, keys).candidates))


def test_the_order_is_the_model_its_other_accounts_another_family_and_the_budget_model() -> None:
    found = chosen(RoutingQuestion(task_type="code"))
    assert [(one.model, one.account, one.id) for one in found.candidates] == [
        ("a", "first", "a"),
        ("a", "second", "vendor/a"),
        ("b", "second", "b"),
        ("c", "own", "c"),
    ]
    assert found.why == "a: code: r (s, 2026-01-01)"


def test_a_candidate_without_its_key_says_what_to_set() -> None:
    wanting = {one.account: one.wanting for one in chosen(RoutingQuestion(), keys=("SECOND",)).candidates}
    assert wanting == {"first": "set FIRST in the worker's environment", "second": "", "own": ""}


def test_a_type_without_a_route_goes_as_code_and_that_is_said() -> None:
    found = chosen(RoutingQuestion(task_type="origami"))
    assert found.candidates == chosen(RoutingQuestion(task_type="code")).candidates
    assert "there is no route for 'origami', so it goes as code" in found.why


def test_a_phase_may_have_a_model_of_its_own() -> None:
    assert models(RoutingQuestion(task_type="docs", phase="execute")) == ["a", "b", "a-large", "c"]
    assert models(RoutingQuestion(task_type="docs", phase="plan")) == ["b", "a-large", "c"]
    assert "in the phase plan" in chosen(RoutingQuestion(task_type="docs", phase="plan")).why


def test_a_person_names_the_first_and_the_route_what_follows() -> None:
    assert models(RoutingQuestion(task_type="docs", phase="plan", model="a-large")) == ["a-large", "b", "c"]
    assert "named by a person" in chosen(RoutingQuestion(model="a-large")).why


def test_a_model_that_is_none_is_answered_with_the_nearest() -> None:
    said = choose(SHIPPED, RoutingQuestion(model="claude-opus-5.5"), keys=())
    assert isinstance(said, str)
    assert said.startswith("there is no model 'claude-opus-5.5'; did you mean 'claude-opus-5-5'")
    assert (
        choose(TABLE, RoutingQuestion(model="zzz"), keys=()) == "there is no model 'zzz'; there are: a, a-large, b, c"
    )


def test_no_headway_brings_the_stronger_one_that_follows_and_keeps_the_rest() -> None:
    found = chosen(RoutingQuestion(task_type="docs", escalated=True))
    assert list(dict.fromkeys(one.model for one in found.candidates)) == ["a-large", "a", "b", "c"]
    assert found.why == "a-large: a made no headway; stronger"


def test_no_headway_brings_another_family_where_nobody_is_stronger() -> None:
    found = chosen(RoutingQuestion(task_type="code", escalated=True))
    assert list(dict.fromkeys(one.model for one in found.candidates)) == ["b", "a", "c"]
    assert "of another family" in found.why


@pytest.mark.parametrize(
    ("question", "keys"),
    [(RoutingQuestion(escalated=True), ("FIRST",)), (RoutingQuestion(model="a-large", escalated=True), ALL)],
)
def test_no_headway_changes_nothing_where_nobody_better_can_be_asked(
    question: RoutingQuestion, keys: tuple[str, ...]
) -> None:
    found = chosen(question, keys)
    assert found.candidates[0].model == (question.model or "a")
    assert "there is no stronger one after it" in found.why


@given(
    st.builds(
        RoutingQuestion,
        task_type=st.sampled_from([*SHIPPED.routes, "other"]),
        phase=st.sampled_from(["plan", "execute"]),
        model=st.none() | st.sampled_from(list(SHIPPED.models)),
        escalated=st.booleans(),
    ),
    st.sets(st.sampled_from(["ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENROUTER_API_KEY", "GEMINI_API_KEY"])),
)
def test_whatever_is_asked_each_way_to_a_model_comes_once_and_the_budget_model_is_among_them(
    question: RoutingQuestion, keys: set[str]
) -> None:
    found = choose(SHIPPED, question, keys=keys)
    assert isinstance(found, Choice)
    ways = [(one.model, one.account) for one in found.candidates]
    assert len(set(ways)) == len(ways)
    assert SHIPPED.budget in {one.model for one in found.candidates}
    assert {one.wants_key for one in found.candidates}.isdisjoint(keys)
    if question.model and not question.escalated:
        assert ways[0][0] == question.model
