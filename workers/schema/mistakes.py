"""Mistakes in documents as one-line sentences with their places, and the types of the words they hold."""

import difflib
import json
import re
import shlex
from collections.abc import Iterable, Sequence
from typing import Annotated, Literal, NamedTuple, get_args

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, ValidationError
from pydantic_core import ErrorDetails

from forgepool.worktrees.errors import UserError, cut_long_words

Plain = None | bool | int | float | str | list["Plain"] | dict[str, "Plain"]
Where = tuple[str | int, ...]
"""The keys and indexes from a document's root to a value."""

MAX_MISTAKES = 20

_WANTED = {
    "string_type": "text",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "int_parsing": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "tuple_type": "a list",
    "list_type": "a list",
    "dict_type": "a mapping of keys to values",
    "model_type": "a mapping of keys to values",
}
_LENGTH = {
    "string_too_short": ("min_length", "characters"),
    "string_too_long": ("max_length", "characters"),
    "too_short": ("min_length", "items"),
    "too_long": ("max_length", "items"),
}
_BOUND = {"greater_than": "gt", "greater_than_equal": "ge", "less_than": "lt", "less_than_equal": "le"}
_BOUND_WORDS = {"gt": "greater than", "ge": "at least", "lt": "less than", "le": "at most"}


class Mistake(NamedTuple):
    """A mistake in a document. Line 0 is for documents without lines."""

    line: int
    sentence: str


class DocumentWrong(UserError):
    """A document that cannot be used. `mistakes` holds the first twenty sentences by line."""

    def __init__(self, name: str, found: Iterable[Mistake]) -> None:
        ordered = sorted(dict.fromkeys(found), key=lambda mistake: mistake.line)
        self.mistakes = tuple(
            _one_line(f"{name}:{line}: {sentence}" if line else f"{name}: {sentence}")
            for line, sentence in ordered[:MAX_MISTAKES]
        )
        self.left_out = len(ordered) - len(self.mistakes)
        more = (f"{name}: {self.left_out} more mistakes are not shown",) if self.left_out else ()
        super().__init__("\n".join(self.mistakes + more))


def explain_errors(
    data: Plain, model: type[BaseModel], wrong: ValidationError, whole: str = "the file"
) -> list[tuple[Where, str]]:
    """Return each validation error as its place and a sentence for a person. `whole` names what is validated."""
    errors = wrong.errors()
    around = {each["loc"][:end] for each in errors for end in range(len(each["loc"]))}
    return [
        (each["loc"], _sentence(data, model, each, whole))
        for each in errors
        # Pydantic counts only the items that are right, and so calls a list too short for one that is wrong.
        if each["type"] != "too_short" or each["loc"] not in around
    ]


def nearest(word: str, known: Iterable[str], count: int = 1) -> list[str]:
    """Return the known words most similar to an unknown one, the nearest first."""
    return difflib.get_close_matches(word, list(known), n=count)


def show_value(value: object) -> str:
    """Return a value as a sentence names it."""
    if value is None:
        return "empty"
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "a mapping"
    return f"'{value[:60]}'" if isinstance(value, str) else json.dumps(value)


_LIBRARY_WORDS = re.compile(r"^(?:Input|Value|String) should")


def _sentence(data: Plain, model: type[BaseModel], error: ErrorDetails, whole: str) -> str:
    kind, written, context = error["type"], error["input"], error.get("ctx", {})
    where = _written(data, error["loc"])
    place = _place(data, where) or whole
    if kind == "extra_forbidden":
        return f"{_place(data, where[:-1]) or whole} has an unknown key '{where[-1]}'; " + _known(model, error["loc"])
    if kind == "missing":
        last = error["loc"][-1]
        return f"{place} lacks " + (f"item {last + 1}" if isinstance(last, int) else f"the key '{last}'")
    if kind == "int_type" and isinstance(written, str) and written.isdecimal():
        return f"{place} is too much: {show_value(written)}"
    if kind in _WANTED:
        quotes = "; put it in quotes" if kind == "string_type" and isinstance(written, bool | int | float) else ""
        return f"{place} must be {_WANTED[kind]}, is {show_value(written)}{quotes}"
    if kind in ("literal_error", "union_tag_invalid"):
        wanted = context.get("expected") or context["expected_tags"].replace("'", "").replace(", ", " or ")
        return f"{place} must be {wanted}, is {show_value(written)}"
    if kind in _BOUND:
        name = _BOUND[kind]
        return f"{place} must be {_BOUND_WORDS[name]} {context[name]}, is {show_value(written)}"
    if kind in ("string_too_short", "too_short") and context["min_length"] == 1:
        return f"{place} must not be empty"
    if kind in _LENGTH:
        bound, noun = _LENGTH[kind]
        size = len(written) if isinstance(written, str | list | tuple | dict) else "more"
        least = "at least" if bound == "min_length" else "at most"
        return f"{place} must have {least} {context[bound]:,} {noun}, has {size}"
    if kind == "value_error":
        return f"{place} {context['error']}"
    return f"{place} {_LIBRARY_WORDS.sub('must', error['msg'])}"


def _written(data: Plain, loc: Sequence[str | int]) -> Where:
    """Return pydantic's path to a value without the names of union members, which are not in the document."""
    found: list[str | int] = []
    for part in loc:
        inside = _inside(data, part)
        if inside is not None:
            data = inside[0]
            found.append(part)
    return tuple(found)


def _inside(data: Plain, part: str | int) -> tuple[Plain] | None:
    if isinstance(data, dict) and part in data:
        return (data[str(part)],)
    if isinstance(data, list) and isinstance(part, int) and part < len(data):
        return (data[part],)
    return None


def _place(data: Plain, where: Where) -> str:
    """Name a place as a person does: `task 'deploy'`, `'wall_s' of 'limits' of task 'deploy'`; empty for the whole."""
    if not where:
        return ""
    value = data
    for part in where:
        (value,) = _inside(value, part) or (None,)
    around, last = where[:-1], where[-1]
    if isinstance(last, int) and isinstance(value, dict) and around and isinstance(around[-1], str):
        label = value.get("id", value.get("name"))
        noun = around[-1].removesuffix("s")
        if isinstance(label, str) and label:
            return f"{noun} '{label}'"
        return f"{noun} {last + 1} of {_place(data, around[:-1])}" if around[:-1] else f"{noun} {last + 1}"
    own = f"item {last + 1}" if isinstance(last, int) else f"'{last}'"
    return f"{own} of {_place(data, around)}" if around else own


def _known(model: type[BaseModel], loc: Sequence[str | int]) -> str:
    """Suggest a key for the unknown one at the end of a path."""
    models = {model}
    for part in loc[:-1]:
        fields = [each.model_fields[part] for each in models if part in each.model_fields]
        models = set().union(*(models_in(field.annotation) for field in fields)) if fields else models
    known = sorted({field.alias or name for each in models for name, field in each.model_fields.items()})
    written = str(loc[-1])
    if written == "workflow" and "agent" in known:
        return "write it under 'agent: {builtin: {workflow: NAME}}'"
    meant = [key for key in known if key == _USUAL.get(written)] or nearest(written, known)
    return f"did you mean '{meant[0]}'?" if meant else f"known keys are: {', '.join(known)}"


_USUAL = {"run": "agent", "command": "agent", "prompt": "description", "depends_on": "needs", "after": "needs"}
"""Keys of other tools, and ours that say the same."""


def models_in(annotation: object) -> set[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return {annotation}
    return set().union(*(models_in(each) for each in get_args(annotation)))


def _one_line(text: str) -> str:
    """Replace line ends and control characters, which a quoted value may hold, and cut long values."""
    text = cut_long_words(text)
    return text if text.isprintable() else "".join(each if each.isprintable() else "?" for each in text)


_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([smhd]?)")
_UNIT_S = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
_MOST_S = 10_000 * 86400.0
"""No wait is longer, and the system's own clocks can count it."""
_SLUG_RULE = "letters, digits, '_', '-' or single '.' within, at most 100, and not end in '.lock'"
_SLUG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}")


def _duration(value: object) -> object:
    """Convert `90`, `"90s"`, `"15m"`, `"1h"` or `"1d"` to seconds."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        seconds = float(value)
    elif isinstance(value, str) and (match := _DURATION.fullmatch(value.strip())):
        seconds = float(match[1]) * _UNIT_S[match[2]]
    else:
        raise ValueError(f"must be a duration such as 90, 90s, 15m or 1h, is {show_value(value)}")
    if seconds > _MOST_S:
        raise ValueError(f"is too much: {show_value(value)}; at most {_MOST_S / _UNIT_S['d']:.0f}d")
    if not seconds > 0:
        raise ValueError(f"must be more than 0 seconds, is {show_value(value)}")
    return seconds


def slug(text: str) -> str:
    """
    Return the text if it can be part of a git ref and of a file name.

    Raises:
        ValueError: with the rest of a sentence whose beginning names the text's place.
    """
    if not _SLUG.fullmatch(text) or ".." in text or text.endswith((".", ".lock")):
        raise ValueError(f"must be {_SLUG_RULE}, is {show_value(text)}")
    return text


def program_line(text: str | None) -> str | None:
    """Return the text. Raises ValueError where it names no program."""
    try:
        words = shlex.split(text) if text is not None else ["-"]
    except ValueError:
        words = []
    if not words:
        raise ValueError("is no command line; write a program and its arguments, as in 'gemini --acp'")
    return text


def _relative(text: str) -> str:
    if not text or text.startswith("/") or ".." in text.split("/") or "\\" in text:
        raise ValueError(f"must be a path inside the repository such as src/app, is {show_value(text)}")
    return text


def _often(value: object) -> object:
    """Convert a duration to seconds, and leave the words."""
    try:
        return value if value in ("turn", "phase", "off") else _duration(value)
    except (TypeError, ValueError):
        raise ValueError(f"must be turn, phase, off or a duration such as 30s, is {show_value(value)}") from None


def _race(written: object) -> object:
    if type(written) is int and written in (0, 2):
        return written
    raise ValueError(f"must be 2 (or left out), is {show_value(written)}")


RaceCount = Annotated[Literal[0, 2], BeforeValidator(_race)]
DurationText = Annotated[str, Field(pattern=f"^ *{_DURATION.pattern} *$")]
Duration = Annotated[float, BeforeValidator(_duration, json_schema_input_type=float | DurationText)]
"""Seconds; written as a number or with a unit: `90`, `"90s"`, `"15m"`, `"1h"`, `"1d"`."""
Progress = Annotated[
    Literal["turn", "phase", "off"] | float,
    BeforeValidator(_often, json_schema_input_type=Literal["turn", "phase", "off"] | float | DurationText),
]
"""How often unfinished work goes to the hub: each turn, at phase ends and at most so often (seconds), at phase ends,
or at an attempt's end only."""
Slug = Annotated[str, AfterValidator(slug)]
"""A short name that fits in a git ref, a path and a message's id."""
RelativePath = Annotated[str, AfterValidator(_relative)]
"""A path inside the repository, with `/` between its parts."""
