"""
The door to YAML documents written by people: text becomes a pydantic model, or sentences with file and line.

Which keys a document has is said by its model; what its values mean together is checked by the model's owner,
with `Located.line` for the lines. Nothing here writes YAML or looks at git.
"""

import difflib
import json
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, NamedTuple, TypeVar, get_args

import yaml
from pydantic import AfterValidator, BaseModel, BeforeValidator, ValidationError
from pydantic_core import ErrorDetails

try:
    from yaml import CSafeLoader as _YamlLoader
except ImportError:  # PyYAML was built without libyaml: the same, ten times slower
    from yaml import SafeLoader as _YamlLoader  # type: ignore[assignment]

M = TypeVar("M", bound=BaseModel)
Plain = None | bool | int | float | str | list["Plain"] | dict[str, "Plain"]
Where = tuple[str | int, ...]
"""Keys and indexes from the root of a document to a value in it."""

MAX_BYTES = 16 * 1024 * 1024
MAX_VALUES = 1_000_000
MAX_CHARACTERS = 64 * 1024 * 1024
MAX_DEPTH = 64
MAX_MISTAKES = 20

_TAG = "tag:yaml.org,2002:"
_PLAIN = "unquoted"
"""The tag of a word whose meaning `_plain` tells; what is in quotes or tagged `!!str` is text."""
_INT = re.compile(r"[-+]?(0|[1-9][0-9]{0,17})")
_FLOAT = re.compile(r"[-+]?((0|[1-9][0-9]*)(\.[0-9]*|(?=[eE]))|\.[0-9]+)([eE][-+]?[0-9]+)?")
_WORDS: dict[str, Plain] = {"": None, "~": None, "null": None, "true": True, "false": False}
_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([smhd]?)")
_UNIT_S = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
_UNUSABLE = re.compile("[\0\ud800-\udfff]")
_SLUG_RULE = "letters, digits, '_', '-' or single '.' within, at most 100, and not end in '.lock'"
_SLUG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}")


class Mistake(NamedTuple):
    """What is wrong in a document, without its name; line 0 is for a document that has no lines."""

    line: int
    sentence: str


class DocumentWrong(Exception):
    """A document that cannot be used; `mistakes` has one sentence each, by line, the first twenty."""

    def __init__(self, name: str, found: Iterable[Mistake]) -> None:
        ordered = sorted(dict.fromkeys(found), key=lambda mistake: mistake.line)
        self.mistakes = tuple(
            _one_line(f"{name}:{line}: {sentence}" if line else f"{name}: {sentence}")
            for line, sentence in ordered[:MAX_MISTAKES]
        )
        self.left_out = len(ordered) - len(self.mistakes)
        more = (f"{name}: {self.left_out} more mistakes are not shown",) if self.left_out else ()
        super().__init__("\n".join(self.mistakes + more))


def _one_line(text: str) -> str:
    """What was written may hold line ends and a terminal's control characters; a sentence holds neither."""
    return text if text.isprintable() else "".join(each if each.isprintable() else "?" for each in text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Located:
    """A document's values, and the line each was written on."""

    name: str
    data: Plain
    root: yaml.Node
    mistakes: tuple[Mistake, ...] = ()
    """Found while reading, such as a key written twice. `validate` refuses a document that has any."""

    def line(self, where: Sequence[str | int]) -> int:
        """The line of a value (in a mapping: of its key), else of the nearest thing around it."""
        node, line = self.root, self.root.start_mark.line
        for part in where:
            if isinstance(node, yaml.MappingNode):
                found = next(((key, value) for key, value in node.value if key.value == part), None)
                if found:
                    line, node = found[0].start_mark.line, found[1]
            elif isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
                node = node.value[part]
                line = node.start_mark.line
        return int(line) + 1


def load(text: str, name: str, model: type[M]) -> M:
    """
    The document as a model. Validation is strict: no text is taken for a number, no number for text.

    Raises:
        DocumentWrong: with every mistake found.
    """
    return validate(read(text, name), model)


def read_text(path: Path, name: str) -> str:
    """
    The text of a file.

    Raises:
        DocumentWrong: the file is not there, cannot be read, is larger than 16 MB, or is not UTF-8.
    """
    try:
        with path.open("rb") as stream:
            raw = stream.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise DocumentWrong(name, [Mistake(0, "there is no such file")]) from None
    except OSError as error:
        raise DocumentWrong(name, [Mistake(0, f"cannot be read: {error.strerror}")]) from error
    if len(raw) > MAX_BYTES:
        raise DocumentWrong(name, [Mistake(0, "is larger than 16 MB; split it")])
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise DocumentWrong(name, [Mistake(line, "is not UTF-8 text; save the file as UTF-8")]) from error


def read(text: str, name: str) -> Located:
    """
    The document as plain values, each with its line. `yes`, `on` and dates stay text, as in YAML 1.2.

    Raises:
        DocumentWrong: the text is empty, too large, or not YAML.
    """
    if len(text) > MAX_BYTES:
        raise DocumentWrong(name, [Mistake(0, "is larger than 16 MB; split it")])
    try:
        root = yaml.compose(text.removeprefix("\ufeff"), Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        raise DocumentWrong(name, [_syntax(error, text)]) from error
    except (yaml.reader.ReaderError, UnicodeEncodeError) as error:
        at = error.start if isinstance(error, UnicodeEncodeError) else error.position
        line = text.count("\n", 0, at) + 1
        raise DocumentWrong(name, [Mistake(line, "holds a character that YAML does not allow")]) from error
    except RecursionError as error:
        raise DocumentWrong(name, [Mistake(1, "is nested too deeply")]) from error
    except _TooMuch as error:
        raise DocumentWrong(name, [error.mistake]) from error
    if root is None:
        raise DocumentWrong(name, [Mistake(1, "is empty")])
    reading = _Reading()
    try:
        data = reading.value(root, 0)
    except _TooMuch as error:
        raise DocumentWrong(name, [error.mistake]) from error
    return Located(name=name, data=data, root=root, mistakes=tuple(reading.mistakes))


def validate(document: Located, model: type[M]) -> M:
    """
    The document's values as a model.

    Raises:
        DocumentWrong: with every mistake found.
    """
    try:
        found = model.model_validate_json(json.dumps(document.data), strict=True)
    except ValidationError as error:
        wrong = [Mistake(document.line(each["loc"]), _explained(document, model, each)) for each in error.errors()]
        raise DocumentWrong(document.name, [*document.mistakes, *wrong]) from error
    if document.mistakes:
        raise DocumentWrong(document.name, document.mistakes)
    return found


def nearest(word: str, known: Iterable[str], count: int = 1) -> list[str]:
    """The known words most like one that is not known, the nearest first; those unlike it are left out."""
    return difflib.get_close_matches(word, list(known), n=count)


class _TooMuch(Exception):
    """The document is nested too deeply, or it or its aliases hold too much."""

    def __init__(self, mistake: Mistake) -> None:
        self.mistake = mistake


class _Loader(_YamlLoader):
    """YAML's own loader, which stops at too many values and leaves the meaning of words to `_plain`."""

    _nodes = 0

    def descend_resolver(self, current_node: object, current_index: object) -> None:
        """Called once for every node."""
        self._nodes += 1
        if self._nodes > 2 * MAX_VALUES:
            raise _TooMuch(Mistake(1, f"holds more than {MAX_VALUES:,} values; split it"))

    def ascend_resolver(self) -> None:
        """There is nothing to go back from."""

    def resolve(self, kind: type[yaml.Node], value: object, implicit: object) -> str:
        """The tag of a node that was written without one."""
        if kind is yaml.ScalarNode:
            return _PLAIN if isinstance(implicit, tuple) and implicit[0] else _TAG + "str"
        return _TAG + ("seq" if kind is yaml.SequenceNode else "map")


class _Reading:
    """One walk over the nodes of a document; what an alias stands for counts each time it is used."""

    def __init__(self) -> None:
        self.mistakes: list[Mistake] = []
        self._values = 0
        self._characters = 0

    def value(self, node: yaml.Node, depth: int) -> Plain:
        self._values += 1
        if self._values > MAX_VALUES or self._characters > MAX_CHARACTERS:
            raise _TooMuch(_at(node, f"expands to more than {MAX_VALUES:,} values or {MAX_CHARACTERS:,} characters"))
        if depth > MAX_DEPTH:
            raise _TooMuch(_at(node, f"is nested more than {MAX_DEPTH} levels deep"))
        if isinstance(node, yaml.MappingNode):
            self._know_tag(node, _TAG + "map")
            return self._mapping(node, depth)
        if isinstance(node, yaml.SequenceNode):
            self._know_tag(node, _TAG + "seq")
            return [self.value(item, depth + 1) for item in node.value]
        assert isinstance(node, yaml.ScalarNode)
        return self._scalar(node)

    def _mapping(self, node: yaml.MappingNode, depth: int) -> dict[str, Plain]:
        found: dict[str, Plain] = {}
        lines: dict[str, int] = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                self.mistakes.append(_at(key, "a key must be one word, not a list or a mapping"))
                continue
            if key.tag == _PLAIN and key.value == "<<":
                self.mistakes.append(_at(key, "merging with '<<' is not possible here; write the keys out"))
                continue
            name = key.value
            if name in found:
                self.mistakes.append(
                    _at(key, f"the key '{name}' is written twice (first on line {lines[name]}); keep one")
                )
                continue
            lines[name] = key.start_mark.line + 1
            found[name] = self.value(value, depth + 1)
        return found

    def _scalar(self, node: yaml.ScalarNode) -> Plain:
        text: str = node.value
        self._characters += len(text)
        if node.tag != _PLAIN:
            self._know_tag(node, _TAG + "str")
        if _UNUSABLE.search(text):
            self.mistakes.append(_at(node, "holds a character that no file or command can have"))
            return ""
        return _plain(text) if node.tag == _PLAIN else text

    def _know_tag(self, node: yaml.Node, expected: str) -> None:
        if node.tag != expected:
            self.mistakes.append(_at(node, f"the tag '{node.tag.replace(_TAG, '!!')}' has no meaning here; remove it"))


def _at(node: yaml.Node, sentence: str) -> Mistake:
    return Mistake(node.start_mark.line + 1, sentence)


def _plain(text: str) -> Plain:
    """An unquoted word as YAML 1.2 means it, so that `no`, `on`, `1:30` and `007` stay text."""
    lowered = text.lower()
    if lowered in _WORDS:
        return _WORDS[lowered]
    if _INT.fullmatch(text):
        return int(text)
    if _FLOAT.fullmatch(text) and math.isfinite(float(text)):
        return float(text)
    return text


_SYNTAX = (
    ("character '\\t'", "a tab is used to indent; indent with spaces"),
    (
        "cannot start any token",
        "a word begins with a character that YAML keeps for itself; put the text in quotes",
    ),
    (
        "mapping values are not allowed",
        "a ':' stands where no key can be; check the indentation, or put the text in quotes",
    ),
    ("could not find expected ':'", "a key has no ':' after it"),
    ("did not find expected key", "the indentation does not fit the lines above, or a ':' is missing"),
    ("did not find expected '-'", "the indentation does not fit the list above, or a '-' is missing"),
    ("did not find expected ',' or", "a list or mapping in brackets is not closed, or lacks a ','"),
    ("but got '<stream end>'", "a list or mapping in brackets is not closed, or lacks a ','"),
    ("unexpected end of stream", "a quote is not closed"),
    ("undefined alias", "an alias (*name) is used that no anchor (&name) defines"),
    ("expected a single document", "holds a second document after '---'; keep one"),
    ("but found another document", "holds a second document after '---'; keep one"),
)


def _syntax(error: yaml.MarkedYAMLError, text: str) -> Mistake:
    """A mistake of YAML itself, in plain words where its usual causes are known."""
    mark = error.problem_mark or error.context_mark
    line = mark.line if mark else 0
    written = text.splitlines()[line : line + 1]
    problem = f"{error.context or ''} {error.problem or ''}"
    if written and "\t" in written[0][: len(written[0]) - len(written[0].lstrip())]:
        return Mistake(line + 1, _SYNTAX[0][1])
    plain = next((words for part, words in _SYNTAX if part in problem), f"is not YAML: {problem.strip()}")
    return Mistake(line + 1, plain)


_WANTED = {
    "string_type": "text",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "tuple_type": "a list",
    "list_type": "a list",
    "dict_type": "a mapping of keys to values",
    "model_type": "a mapping of keys to values",
}
_BOUND = {"greater_than": "gt", "greater_than_equal": "ge", "less_than": "lt", "less_than_equal": "le"}
_BOUND_WORDS = {"gt": "greater than", "ge": "at least", "lt": "less than", "le": "at most"}


def _explained(document: Located, model: type[BaseModel], error: ErrorDetails) -> str:
    """One of pydantic's errors as a sentence about what was written."""
    kind, written, context = error["type"], error["input"], error.get("ctx", {})
    where = _written(document.data, error["loc"])
    place = _place(document.data, where)
    if kind == "extra_forbidden":
        return f"{_place(document.data, where[:-1])} has an unknown key '{where[-1]}'; " + _known(model, error["loc"])
    if kind == "missing":
        return f"{place} lacks the key '{error['loc'][-1]}'"
    if kind in _WANTED:
        quotes = "; put it in quotes" if kind == "string_type" and isinstance(written, bool | int | float) else ""
        return f"{place} must be {_WANTED[kind]}, is {_shown(written)}{quotes}"
    if kind in ("literal_error", "union_tag_invalid"):
        wanted = context.get("expected") or context["expected_tags"].replace("'", "").replace(", ", " or ")
        return f"{place} must be {wanted}, is {_shown(written)}"
    if kind in _BOUND:
        name = _BOUND[kind]
        return f"{place} must be {_BOUND_WORDS[name]} {context[name]}, is {_shown(written)}"
    if kind in ("string_too_short", "too_short"):
        return f"{place} must not be empty"
    if kind == "value_error":
        return f"{place} {context['error']}"
    return f"{place} {error['msg'].replace('Input should', 'must').replace('Value should', 'must')}"


def _written(data: Plain, loc: Sequence[str | int]) -> Where:
    """The part of pydantic's path that is in the document: without the names of its union members."""
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
    """What a person would call a place: `task 'deploy'`, `'wall_s' of 'limits' of task 'deploy'`."""
    if not where:
        return "the file"
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


def _shown(value: object) -> str:
    if value is None:
        return "empty"
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "a mapping"
    return f"'{value[:60]}'" if isinstance(value, str) else json.dumps(value)


def _known(model: type[BaseModel], loc: Sequence[str | int]) -> str:
    """What a person may have meant by the unknown key at the end of a path."""
    models = {model}
    for part in loc[:-1]:
        fields = [each.model_fields[part] for each in models if part in each.model_fields]
        models = set().union(*(_models_in(field.annotation) for field in fields)) if fields else models
    known = sorted({name for each in models for name in each.model_fields})
    meant = nearest(str(loc[-1]), known)
    return f"did you mean '{meant[0]}'?" if meant else f"known keys are: {', '.join(known)}"


def _models_in(annotation: object) -> set[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return {annotation}
    return set().union(*(_models_in(each) for each in get_args(annotation)))


def _duration(value: object) -> object:
    """Seconds from `90`, `"90s"`, `"15m"`, `"1h"`, `"1d"`."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        seconds = float(value)
    elif isinstance(value, str) and (match := _DURATION.fullmatch(value.strip())):
        seconds = float(match[1]) * _UNIT_S[match[2]]
    else:
        raise ValueError(f"must be a duration such as 90, 90s, 15m or 1h, is {_shown(value)}")
    if not 0 < seconds < math.inf:
        raise ValueError(f"must be more than 0 seconds, is {_shown(value)}")
    return seconds


def slug(text: str) -> str:
    """
    The text, if it can be part of a git ref and of a file's name.

    Raises:
        ValueError: with the rest of a sentence whose beginning names the text's place.
    """
    if not _SLUG.fullmatch(text) or ".." in text or text.endswith((".", ".lock")):
        raise ValueError(f"must be {_SLUG_RULE}, is {_shown(text)}")
    return text


def _relative(text: str) -> str:
    if not text or text.startswith("/") or ".." in text.split("/") or "\\" in text:
        raise ValueError(f"must be a path inside the repository such as src/app, is {_shown(text)}")
    return text


Duration = Annotated[float, BeforeValidator(_duration)]
"""Seconds; written as a number or with a unit: `90`, `"90s"`, `"15m"`, `"1h"`, `"1d"`."""
Slug = Annotated[str, AfterValidator(slug)]
"""A short name that can be part of a git ref, of a path and of a message's id."""
RelativePath = Annotated[str, AfterValidator(_relative)]
"""A path inside the repository, with `/` between its parts."""
