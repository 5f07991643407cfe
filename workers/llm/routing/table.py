"""
The table of models: which exist, where they are reached, and which is asked for what kind of work. Read from YAML.

`models.yaml` beside this module is the shipped table; the user's own file is laid over it, key by key. A repository has
no say in it, because it could send keys to another server. Nothing here reads a key, asks a model or knows a price;
`router` orders the models.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from forgepool.workers.schema.documents import Located, read, read_text, validate
from forgepool.workers.schema.mistakes import DocumentWrong, Duration, Mistake, Plain, Slug, nearest, show_value
from forgepool.workers.schema.orders import Message, PhaseName

SHIPPED = Path(__file__).with_name("models.yaml")
DEFAULT_TYPE = "code"
"""The kind of work whose route serves kinds without one."""

Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]


# These errors end a sentence that begins with the place of the text. A variable's text may be a key: it is not shown.


def _date(text: str) -> str:
    try:
        return date.fromisoformat(text).isoformat()
    except ValueError:
        raise ValueError(f"must be a date such as 2026-11-21, is {show_value(text)}") from None


def _variable(text: str) -> str:
    if not re.fullmatch(r"[A-Z][A-Z0-9_]*", text):
        raise ValueError(
            "must be the name of a variable such as ANTHROPIC_API_KEY, in capitals, and never the key itself"
        )
    return text


def _address(text: str) -> str:
    if not re.match(r"https?://[^/]", text):
        raise ValueError(f"must begin with https:// or http://, is {show_value(text)}")
    return text


class ModelAccount(Message):
    """A way to reach models: which wire, where, and with which key."""

    wire: Literal["anthropic", "openai-responses", "openai-chat"]
    key: Annotated[str, AfterValidator(_variable)] | None = None
    """The name of the variable that holds the key, never the key; None for a server that needs none."""
    base_url: Annotated[str, AfterValidator(_address)] | None = None
    """The address; None is the vendor's own."""
    headers: dict[str, str] = Field(default_factory=dict)
    silence_s: Duration = 120.0
    """Seconds without a byte after which a try has failed."""
    cached_input_counts: bool = True
    """Input that is read from a cache counts against the account's rate limits."""
    batch: float | None = Field(default=None, gt=0, le=1)
    """The part of the live price that its batch lane costs; None where it has none."""


class Price(Message):
    """Prices in USD for a million tokens."""

    input: float = Field(ge=0)
    output: float = Field(ge=0)
    cached: float | None = Field(default=None, ge=0)
    """Input read from a cache; None is the price of any input, here and for `written`."""
    written: float | None = Field(default=None, ge=0)


class OtherModel(Message):
    """Another account that offers a model."""

    account: str
    id: str = Field(min_length=1)


class Model(Message):
    """A model. Our name for it is the key in the table, and stands in turns and reports."""

    account: str
    id: str = ""
    """The account's name for it; empty is our name."""
    family: str = Field(min_length=1)
    """The maker's family: work is reviewed by another family than its author's."""
    also: tuple[OtherModel, ...] = ()
    """The same model through other accounts, asked in turn after the first has failed."""
    window_tokens: int = Field(gt=0)
    max_output_tokens: int = Field(default=32_000, gt=0)
    effort: Effort | None = None
    strength: int = Field(default=2, ge=1, le=3)
    """1 for little work, 2 for easy work, 3 for any."""
    price: Price | None = None
    """The price; None is the published one."""


class Route(Message):
    """The models for one kind of work, and the reason."""

    primary: str
    then: tuple[str, ...] = ()
    phases: dict[PhaseName, str] = Field(default_factory=dict)
    """Models that replace `primary` in one phase."""
    reason: str = Field(min_length=1)
    source: str = Field(min_length=1)
    date: Annotated[str, AfterValidator(_date)]
    """The date when the choice was last confirmed."""


class Table(Message):
    accounts: dict[Slug, ModelAccount]
    models: dict[str, Model]
    routes: dict[str, Route]
    budget: str
    """The model that is asked when no other is left."""

    def places(self, model: str) -> tuple[OtherModel, ...]:
        """Return every account that offers a model, in the order they are tried."""
        found = self.models[model]
        return (OtherModel(account=found.account, id=found.id or model), *found.also)

    def family(self, model: str) -> str | None:
        """Return the family of a model that answered; None for one that is not in this table."""
        found = self.models.get(model)
        return found.family if found else None


def read_table(own: Path | None) -> Table:
    """
    Read the shipped table with the user's file laid over it, key by key; a list replaces the shipped one.

    Raises:
        DocumentWrong: the files are wrong; it names every mistake.
    """
    table = _document(SHIPPED, SHIPPED.name)
    if own is not None:
        theirs = _document(own, str(own))
        table = replace(theirs, data=_laid_over(table.data, theirs.data))
    read_as = validate(table, Table)
    wrong = [Mistake(table.line(where), sentence) for where, sentence in _loose_ends(read_as)]
    if wrong:
        raise DocumentWrong(table.name, wrong)
    return read_as


def unknown(noun: str, name: str, known: Sequence[str] | Mapping[str, object]) -> str:
    """Return a sentence for an unknown name, with the names it may have been meant for."""
    near = nearest(name, known, 3)
    hint = f"did you mean {' or '.join(map(repr, near))}?" if near else f"there are: {', '.join(known)}"
    return f"there is no {noun} '{name}'; {hint}"


def _document(path: Path, name: str) -> Located:
    return read(read_text(path, name), name)


def _laid_over(below: Plain, above: Plain) -> Plain:
    if not isinstance(below, dict) or not isinstance(above, dict):
        return above
    return below | {key: _laid_over(below[key], value) if key in below else value for key, value in above.items()}


def _loose_ends(table: Table) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Yield the contradictions in a table, each with its place and a sentence."""
    for name, door in table.accounts.items():
        if door.key is None and door.base_url is None:
            yield ("accounts", name), f"account '{name}' has neither a key nor a base_url; give it what it needs"
    for name, model in table.models.items():
        for key, account in (("account", model.account), *(("also", place.account) for place in model.also)):
            if account not in table.accounts:
                yield ("models", name, key), f"model '{name}': {unknown('account', account, table.accounts)}"
    for where, model_name in _named_models(table):
        if model_name not in table.models:
            yield where, f"{_spoken(where)}: {unknown('model', model_name, table.models)}"
    if DEFAULT_TYPE not in table.routes:
        yield ("routes",), f"there is no route '{DEFAULT_TYPE}', by which work of any other kind goes; add one"


def _named_models(table: Table) -> Iterator[tuple[tuple[str | int, ...], str]]:
    yield ("budget",), table.budget
    for kind, route in table.routes.items():
        yield ("routes", kind, "primary"), route.primary
        for number, model in enumerate(route.then):
            yield ("routes", kind, "then", number), model
        for phase, model in route.phases.items():
            yield ("routes", kind, "phases", phase), model


def _spoken(where: Sequence[str | int]) -> str:
    return f"route '{where[1]}'" if where[0] == "routes" else f"'{where[0]}'"
