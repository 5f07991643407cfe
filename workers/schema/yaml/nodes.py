"""
YAML's nodes as plain values: what an unquoted word means, and how much a document may hold.

`yes`, `on`, dates and `007` stay text, as in YAML 1.2; no tag makes an object. Files and lines are `documents`'.
"""

import math
import re

import yaml

from forgepool.workers.schema.yaml.mistakes import Mistake, Plain

try:
    from yaml import CSafeLoader as _YamlLoader
except ImportError:  # PyYAML was built without libyaml: the same, ten times slower
    from yaml import SafeLoader as _YamlLoader  # type: ignore[assignment]

MAX_VALUES = 1_000_000
MAX_CHARACTERS = 64 * 1024 * 1024
MAX_DEPTH = 64

_TAG = "tag:yaml.org,2002:"
_PLAIN = "unquoted"
"""The tag of a word whose meaning `_plain` tells; what is in quotes or tagged `!!str` is text."""
_INT = re.compile(r"[-+]?(0|[1-9][0-9]{0,17})")
_FLOAT = re.compile(r"[-+]?((0|[1-9][0-9]*)(\.[0-9]*|(?=[eE]))|\.[0-9]+)([eE][-+]?[0-9]+)?")
_WORDS: dict[str, Plain] = {"": None, "~": None, "null": None, "true": True, "false": False}
_UNUSABLE = re.compile("[\0\ud800-\udfff]")


class DocumentTooLarge(Exception):
    """The document is nested too deeply, or it or its aliases hold too much."""

    def __init__(self, mistake: Mistake) -> None:
        self.mistake = mistake


class Loader(_YamlLoader):
    """YAML's own loader, which stops at too many values and leaves the meaning of words to `_plain`."""

    _nodes = 0

    def descend_resolver(self, current_node: object, current_index: object) -> None:
        """Called once for every node."""
        self._nodes += 1
        if self._nodes > 2 * MAX_VALUES:
            raise DocumentTooLarge(Mistake(1, f"holds more than {MAX_VALUES:,} values; split it"))

    def ascend_resolver(self) -> None:
        """There is nothing to go back from."""

    def resolve(self, kind: type[yaml.Node], value: object, implicit: object) -> str:
        """The tag of a node that was written without one."""
        if kind is yaml.ScalarNode:
            return _PLAIN if isinstance(implicit, tuple) and implicit[0] else _TAG + "str"
        return _TAG + ("seq" if kind is yaml.SequenceNode else "map")


class NodeWalk:
    """One walk over the nodes of a document; what an alias stands for counts each time it is used."""

    def __init__(self) -> None:
        self.mistakes: list[Mistake] = []
        self._values = 0
        self._characters = 0

    def value(self, node: yaml.Node, depth: int = 0) -> Plain:
        """What a node stands for. Raises TooMuch."""
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
    """An unquoted word as YAML 1.2 means it, so that `no`, `on`, `1:30` and `007` stay text."""
    lowered = text.lower()
    if lowered in _WORDS:
        return _WORDS[lowered]
    if _INT.fullmatch(text):
        return int(text)
    if _FLOAT.fullmatch(text) and math.isfinite(float(text)):
        return float(text)
    return text
