"""
Who is asked, in which order, for a kind of work: pure. The table in; candidates and a sentence of why out.

The order is: the model that the route or a person names, through each of its accounts; the models that the route has
after it, usually of another family; the budget model; and then no more. Whether a candidate can be reached just now is
not known here, only whether there is a key for it.
"""

from collections.abc import Collection
from dataclasses import dataclass

from forgepool.workers.llm.routing.table import DEFAULT_TYPE, Table, unknown
from forgepool.workers.schema.orders import PhaseName


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelChoice:
    """A model through one of its accounts."""

    model: str
    """Our name for it."""
    account: str
    id: str
    """The account's name for it."""
    family: str
    wants_key: str | None = None
    """The variable that must hold a key, and does not; None where nothing is wanting."""

    @property
    def wanting(self) -> str:
        """What would make a candidate without a key one that can be asked."""
        return f"set {self.wants_key} in the worker's environment" if self.wants_key else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    candidates: tuple[ModelChoice, ...]
    """To be asked in this order; those whose key is wanting are among them."""
    why: str
    """One sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutingQuestion:
    """What a model is wanted for."""

    task_type: str = DEFAULT_TYPE
    phase: PhaseName = "execute"
    model: str | None = None
    """Named by a person; takes the place of the route's first."""
    escalated: bool = False
    """The first model made no headway: one that is stronger, or else thinks otherwise, goes before it."""


def choose(table: Table, question: RoutingQuestion, *, keys: Collection[str]) -> Choice | str:
    """
    The candidates; a sentence where the model that a person named is none. `keys` are the names of the variables that
    hold a key.
    """
    if question.model is not None and question.model not in table.models:
        return unknown("model", question.model, table.models)
    models, why = _routed(table, question)
    if question.escalated:
        models, why = _escalated(table, models, keys)
    found = tuple(one for model in models for one in candidates(table, model, keys=keys))
    return Choice(candidates=found, why=why)


def candidates(table: Table, model: str, *, keys: Collection[str]) -> tuple[ModelChoice, ...]:
    """One model through each of its accounts."""
    found = []
    for place in table.places(model):
        key = table.accounts[place.account].key
        found.append(
            ModelChoice(
                model=model,
                account=place.account,
                id=place.id,
                family=table.models[model].family,
                wants_key=key if key is not None and key not in keys else None,
            )
        )
    return tuple(found)


def _routed(table: Table, question: RoutingQuestion) -> tuple[list[str], str]:
    """Models without repetition, the first of them first, and why that one."""
    kind = question.task_type if question.task_type in table.routes else DEFAULT_TYPE
    route = table.routes[kind]
    why = f"{kind}: {route.reason} ({route.source}, {route.date})"
    if kind != question.task_type:
        why = f"there is no route for '{question.task_type}', so it goes as {why}"
    first = route.primary
    if question.phase in route.phases:
        first = route.phases[question.phase]
        why = f"{why}; another in the phase {question.phase}"
    if question.model is not None:
        first, why = question.model, "named by a person"
    return list(dict.fromkeys((first, *route.then, table.budget))), f"{first}: {why}"


def _escalated(table: Table, models: list[str], keys: Collection[str]) -> tuple[list[str], str]:
    """The same, with the first that may do better before all others; unchanged where there is none."""
    first = table.models[models[0]]
    others = [name for name in models[1:] if any(one.wants_key is None for one in candidates(table, name, keys=keys))]
    stronger = [name for name in others if table.models[name].strength > first.strength]
    unlike = [
        name
        for name in others
        if table.models[name].strength == first.strength and table.models[name].family != first.family
    ]
    better = next(iter(stronger + unlike), None)
    if better is None:
        return models, f"{models[0]}: made no headway, but there is no stronger one after it, nor one as strong"
    kind = "stronger" if stronger else "as strong, and of another family"
    return [better, *(name for name in models if name != better)], f"{better}: {models[0]} made no headway; {kind}"
