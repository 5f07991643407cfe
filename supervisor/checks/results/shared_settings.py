"""
Files in which settings of test runners and linters stand beside others: the first as the target has them, the others as
the entry does. Pure.

So a dependency that an entry adds to `pyproject.toml` is there when the target's own settings are tested with it. The
text is cut at its headings; where what comes out would be read otherwise than that, the target's file is taken whole.
"""

import json
import re
import tomllib
from collections.abc import Callable, Iterator
from configparser import ConfigParser
from configparser import Error as IniWrong
from typing import Any

_PACKAGING = (
    r"tool\.(?:poetry|setuptools|setuptools_scm|flit|uv|maturin|cibuildwheel|towncrier|scikit-build|meson-python"
    r"|hatch\.(?:build|version|metadata)|pdm\.(?:build|version|dev-dependencies|resolution))(?:\..*)?"
)
_OF_RUNNERS: dict[str, Callable[[str], bool]] = {
    "pyproject.toml": lambda name: name.startswith("tool.") and re.fullmatch(_PACKAGING, name) is None,
    "setup.cfg": lambda name: re.match(r"metadata$|options|egg_info|bdist|sdist|build|install|aliases", name) is None,
    "Cargo.toml": lambda name: re.match(r"(?:workspace\.)?lints|profile|test$|bench$", name) is not None,
}
_LIBRARY_TESTS = ("lib.test", "lib.doctest", "lib.harness")
"""The sections of a crate with runners' settings, in a file that is otherwise the entry's."""
_SCRIPT_KEYS = frozenset(
    {"scripts", "jest", "mocha", "ava", "nyc", "c8", "vitest", "tap", "eslintConfig", "eslintIgnore", "prettier"}
    | {"stylelint", "babel", "lint-staged", "husky", "xo", "standard", "wireit", "nx", "simple-git-hooks", "jasmine"}
)
_HEADING = re.compile(r"^[ \t]*\[+[ \t]*([^\[\]\n]+?)[ \t]*\]+[ \t]*(?:#.*)?$", re.MULTILINE)
_MOST_CHARACTERS = 1_000_000


def put_back(name: str, old: str | None, new: str | None) -> str | None:
    """
    The text of a `shared` file (`workers.policy.gate_file.test_paths`) of this name; None where there is to be no such
    file.

    `old` is the target's, `new` the entry's; None is a file that is not there, which has no settings of any kind.
    """
    if max(len(old or ""), len(new or "")) > _MOST_CHARACTERS:
        return old
    if name == "package.json":
        return _package(old, new)
    is_runners = _OF_RUNNERS[name]
    text = "".join(_mixed(old or "", new or "", is_runners))
    read = _ini if name == "setup.cfg" else _toml
    found, of_target, of_entry = (_split(read(each), is_runners, name) for each in (text, old or "", new or ""))
    if of_target is None or of_entry is None:
        return old
    if of_target[0] == of_entry[0]:
        return new
    if of_target[1] == of_entry[1]:
        return old
    if found != (of_target[0], of_entry[1]):
        return old
    return text if text.strip() else None


def _mixed(old: str, new: str, is_runners: Callable[[str], bool]) -> Iterator[str]:
    yield from (text for heading, text in _sections(new) if not is_runners(heading))
    yield "\n"
    yield from (text for heading, text in _sections(old) if is_runners(heading))


def _sections(text: str) -> Iterator[tuple[str, str]]:
    """Headings, without quotes and blanks, and what stands below them, themselves included."""
    headings = list(_HEADING.finditer(text))
    starts = [heading.start() for heading in headings]
    yield "", text[: starts[0] if starts else len(text)]
    for heading, end in zip(headings, [*starts[1:], len(text)], strict=False):
        yield re.sub(r"[\"' \t]", "", heading[1]), _ended(text[heading.start() : end])


def _ended(text: str) -> str:
    return text if text.endswith("\n") else f"{text}\n"


Tables = dict[str, Any]


def _toml(text: str) -> Tables | None:
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError):
        return None


def _ini(text: str) -> Tables | None:
    parser = ConfigParser(interpolation=None, strict=False)
    try:
        parser.read_string(text)
    except IniWrong:
        return None
    return {name: dict(parser.items(name)) for name in parser.sections()}


def _split(tables: Tables | None, is_runners: Callable[[str], bool], name: str) -> tuple[Tables, Tables] | None:
    """All that is said, by its dotted name: what is the runners', and the rest."""
    if tables is None:
        return None
    flat = dict(_flat(tables, 1 if name == "setup.cfg" else 3))
    mine = {heading: value for heading, value in flat.items() if is_runners(heading) or heading in _LIBRARY_TESTS}
    return mine, {heading: value for heading, value in flat.items() if heading not in mine}


def _flat(tables: Tables, deep: int, above: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in tables.items():
        if isinstance(value, dict) and deep > 1 and value:
            yield from _flat(value, deep - 1, f"{above}{name}.")
        else:
            yield f"{above}{name}", value


def _package(old: str | None, new: str | None) -> str | None:
    try:
        before, after = (json.loads(text) if text is not None else {} for text in (old, new))
    except (ValueError, RecursionError):
        return old
    if not isinstance(before, dict) or not isinstance(after, dict):
        return old
    mixed = {key: value for key, value in after.items() if key not in _SCRIPT_KEYS}
    mixed |= {key: value for key, value in before.items() if key in _SCRIPT_KEYS}
    if mixed == after:
        return new
    return f"{json.dumps(mixed, indent=2, ensure_ascii=False)}\n" if mixed else None
