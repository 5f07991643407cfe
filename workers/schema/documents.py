"""
YAML documents that people write, read into a pydantic model or refused with file and line.

A document's model defines its keys. The model's owner checks how values fit together and takes the lines from
`Located.line`. `mistakes` words the errors.
"""

import json
import math
import re
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, TypeVar

import yaml
from pydantic import BaseModel, BeforeValidator, ValidationError
from pydantic_core import PydanticKnownError

from forgepool.workers.schema.mistakes import DocumentWrong, Mistake, Plain, explain_errors

try:
    from yaml import CSafeLoader as _YamlLoader
except ImportError:  # PyYAML was built without libyaml: the same, ten times slower
    from yaml import SafeLoader as _YamlLoader  # type: ignore[assignment]

MAX_VALUES = 1_000_000
MAX_CHARACTERS = 64 * 1024 * 1024
MAX_DEPTH = 64

_TAG = "tag:yaml.org,2002:"
_PLAIN = "unquoted"
"""The tag of an unquoted word, whose meaning `_plain` decides; words in quotes or tagged `!!str` are text."""
_INT = re.compile(r"[-+]?(0|[1-9][0-9]{0,17})")
_FLOAT = re.compile(r"[-+]?((0|[1-9][0-9]*)(\.[0-9]*|(?=[eE]))|\.[0-9]+)([eE][-+]?[0-9]+)?")
_WORDS: dict[str, Plain] = {"": None, "~": None, "null": None, "true": True, "false": False}
_UNUSABLE = re.compile("[\0\ud800-\udfff]")


class DocumentTooLarge(Exception):
    """A document that is nested too deeply or holds too much, including what its aliases stand for."""

    def __init__(self, mistake: Mistake) -> None:
        self.mistake = mistake


class Loader(_YamlLoader):
    """YAML's own loader, which stops at too many values and leaves the meaning of words to `_plain`."""

    _nodes = 0

    def descend_resolver(self, current_node: object, current_index: object) -> None:
        """Count a node; PyYAML calls this once for each."""
        self._nodes += 1
        if self._nodes > 2 * MAX_VALUES:
            raise DocumentTooLarge(Mistake(1, f"holds more than {MAX_VALUES:,} values; split it"))

    def ascend_resolver(self) -> None:
        """Do nothing: `descend_resolver` keeps no path."""

    def resolve(self, kind: type[yaml.Node], value: object, implicit: object) -> str:
        """Return the tag of a node that has none."""
        if kind is yaml.ScalarNode:
            return _PLAIN if isinstance(implicit, tuple) and implicit[0] else _TAG + "str"
        return _TAG + ("seq" if kind is yaml.SequenceNode else "map")


class NodeWalk:
    """A walk over the nodes of a document. An alias counts again at each use."""

    def __init__(self) -> None:
        self.mistakes: list[Mistake] = []
        self._values = 0
        self._characters = 0

    def value(self, node: yaml.Node, depth: int = 0) -> Plain:
        """
        Return the value of a node.

        Raises:
            DocumentTooLarge: the document exceeds a limit.
        """
        self._values += 1
        if self._values > MAX_VALUES or self._characters > MAX_CHARACTERS:
            raise DocumentTooLarge(
                _at(node, f"expands to more than {MAX_VALUES:,} values or {MAX_CHARACTERS:,} characters")
            )
        if depth > MAX_DEPTH:
            raise DocumentTooLarge(_at(node, f"is nested more than {MAX_DEPTH} levels deep"))
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
    """Read an unquoted word as YAML 1.2 does, so that `no`, `on`, `1:30` and `007` stay text."""
    lowered = text.lower()
    if lowered in _WORDS:
        return _WORDS[lowered]
    if _INT.fullmatch(text):
        return int(text)
    if _FLOAT.fullmatch(text) and math.isfinite(float(text)):
        return float(text)
    return text


M = TypeVar("M", bound=BaseModel)


def _require_number(value: object) -> object:
    """Python takes `true` and 1.0 for 1."""
    if type(value) is not int:
        raise PydanticKnownError("literal_error", {"expected": "1"})
    return value


Version = Annotated[Literal[1], BeforeValidator(_require_number)]
"""The `version` of a document; only 1 exists."""

MAX_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Located:
    """The values of a document with their lines."""

    name: str
    data: Plain
    root: yaml.Node
    mistakes: tuple[Mistake, ...] = ()
    """Mistakes found while reading, such as a duplicate key. `validate` refuses a document that has any."""

    def line(self, where: Sequence[str | int]) -> int:
        """Return the line of a value (in a mapping, of its key), or of the nearest value around it."""
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
    Read a document into a model. Validation is strict: text is not converted to numbers, nor numbers to text.

    Raises:
        DocumentWrong: with every mistake found.
    """
    return validate(read(text, name), model)


def read_text(path: Path, name: str) -> str:
    """
    Read a file.

    Raises:
        DocumentWrong: the file is not there, cannot be read, is larger than 16 MB, or is not UTF-8.
    """
    try:
        if stat.S_ISFIFO(path.lstat().st_mode):
            raise DocumentWrong(name, [Mistake(0, "is a named pipe, which is not waited for; give a file")])
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
    Read a document into plain values with their lines. `yes`, `on` and dates stay text, as in YAML 1.2.

    Raises:
        DocumentWrong: the text is empty, too large, or not YAML.
    """
    if len(text) > MAX_BYTES:
        raise DocumentWrong(name, [Mistake(0, "is larger than 16 MB; split it")])
    try:
        root = yaml.compose(text.removeprefix("\ufeff"), Loader=Loader)
    except yaml.MarkedYAMLError as error:
        raise DocumentWrong(name, [_syntax(error, text)]) from error
    except (yaml.reader.ReaderError, UnicodeEncodeError) as error:
        at = error.start if isinstance(error, UnicodeEncodeError) else error.position
        line = text.count("\n", 0, at) + 1
        raise DocumentWrong(name, [Mistake(line, "holds a character that YAML does not allow")]) from error
    except RecursionError as error:
        raise DocumentWrong(name, [Mistake(1, "is nested too deeply")]) from error
    except DocumentTooLarge as error:
        raise DocumentWrong(name, [error.mistake]) from error
    if root is None:
        raise DocumentWrong(name, [Mistake(1, "is empty; write its keys, or remove it")])
    walk = NodeWalk()
    try:
        data = walk.value(root)
    except DocumentTooLarge as error:
        raise DocumentWrong(name, [error.mistake]) from error
    return Located(name=name, data=data, root=root, mistakes=tuple(walk.mistakes))


def validate(document: Located, model: type[M]) -> M:
    """
    Return the document's values as a model.

    Raises:
        DocumentWrong: with every mistake found.
    """
    try:
        found = model.model_validate_json(json.dumps(document.data), strict=True)
    except ValidationError as error:
        wrong = [
            Mistake(document.line(where), sentence) for where, sentence in explain_errors(document.data, model, error)
        ]
        raise DocumentWrong(document.name, [*document.mistakes, *wrong]) from error
    if document.mistakes:
        raise DocumentWrong(document.name, document.mistakes)
    return found


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
    ("exceeded maximum nesting depth", "is nested too deeply"),
    ("but found another document", "holds a second document after '---'; keep one"),
)


def _syntax(error: yaml.MarkedYAMLError, text: str) -> Mistake:
    """Describe a syntax error, in plain words where its usual cause is known."""
    mark = error.problem_mark or error.context_mark
    line = mark.line if mark else 0
    written = text.splitlines()[line : line + 1]
    problem = f"{error.context or ''} {error.problem or ''}"
    if written and "\t" in written[0][: len(written[0]) - len(written[0].lstrip())]:
        return Mistake(line + 1, _SYNTAX[0][1])
    plain = next((words for part, words in _SYNTAX if part in problem), f"is not YAML: {problem.strip()}")
    return Mistake(line + 1, plain)
