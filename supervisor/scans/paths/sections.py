"""
Files of settings taken apart: what they say, by the names of their sections.

A file that cannot be read as what it is has no sections at all, which is not the same as having none that matter.
"""

import configparser
import json
import re
import tomllib
from collections.abc import Iterator, Mapping

Sections = Mapping[str, object]
# What is not closed runs to the end: no piece is begun anew within another.
_JSON_PIECES = re.compile(
    r'"(?:[^"\\]|\\.)*+(?:"|\Z)|//[^\n]*|/\*(?:[^*]|\*(?!/))*+(?:\*/|\Z)|,(?=\s*[}\]])', re.DOTALL
)


def read_toml(text: str) -> Sections | None:
    """Every table by its dotted name, as deep as two levels below `tool`, and every value by that of its table."""
    try:
        return dict(_flat(tomllib.loads(text), ()))
    except (tomllib.TOMLDecodeError, RecursionError):
        return None


def read_json(text: str) -> Sections | None:
    """Keys by their dotted names, two levels deep; comments and commas at the end are what editors write, and read."""
    try:
        data = json.loads(_JSON_PIECES.sub(lambda found: found[0] if found[0][0] == '"' else "", text))
    except (ValueError, RecursionError):
        return None
    return dict(_flat(data, ())) if isinstance(data, dict) else None


def read_ini(text: str) -> Sections | None:
    """Every value by `section.key`."""
    parser = configparser.RawConfigParser(strict=False, allow_no_value=True)
    try:
        parser.read_string(text)
    except configparser.Error:
        return None
    return {f"{section}.{key}": value for section in parser.sections() for key, value in parser.items(section)}


def find_changed(before: Sections, after: Sections) -> Iterator[tuple[str, object, object]]:
    """Every name that says something else, with what it said and says; None where it says nothing."""
    for name in sorted({*before, *after}):
        if before.get(name) != after.get(name):
            yield name, before.get(name), after.get(name)


def _flat(data: Mapping[str, object], path: tuple[str, ...]) -> Iterator[tuple[str, object]]:
    for key, value in data.items():
        here = (*path, str(key))
        if isinstance(value, dict) and len(here) < 6:
            yield from _flat(value, here)
        else:
            yield ".".join(here), value
