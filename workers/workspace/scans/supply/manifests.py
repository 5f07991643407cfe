"""
The dependencies that a manifest declares, the indexes it takes them from, and the code that runs for them.

Python's `pyproject.toml`, `setup.cfg`, `setup.py`, `Pipfile` and requirements, `package.json`, and `Cargo.toml` are
read. Other files are searched line by line, in `supplying`.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from forgepool.workers.workspace.scans.gate_settings import Sections, read_ini, read_json, read_toml
from forgepool.workers.workspace.scans.supply.lookalikes import Ecosystem, normal_name


class Dependency(NamedTuple):
    """A package that is asked for."""

    ecosystem: Ecosystem
    name: str
    source: str = ""
    """The address it comes from, without a revision; empty for the registry and for folders."""


class Oddness(NamedTuple):
    """A setting that says where packages come from, or what runs for them."""

    text: str
    why: str


Declared = Dependency | Oddness

INDEX = "packages come from another index; take them from the usual one"
RUNS = "this runs code when the package is installed or built; do it in a step that people start"
_REQUIREMENTS = re.compile(
    r"(?:.*/)?(?:(?:[^/]*[-_.])?(?:requirements|constraints)(?:[-_.][^/]*)?|requirements/[^/]+)\.(?:txt|in)"
)
_REQUIREMENT = re.compile(r"\s*([A-Za-z0-9][\w.-]*)\s*(?:\[[^\]]*\])?\s*(@\s*\S+|)")
_FAR = re.compile(r"(?:git|hg|svn|bzr)\+|git@|(?:https?|git|ssh)://")
_SHORT = re.compile(r"(?:github|gitlab|bitbucket|gist):.*|[\w.-]+/[\w.-]+(?:#.*)?")
"""Repositories as npm abbreviates them."""
_REVISION = re.compile(r"#.*$|@[^/@]*$")
_OPTION = re.compile(r"\s*(-i|--index-url|--extra-index-url|-f|--find-links|--trusted-host)[\s=]+(\S+)")
_USUAL = re.compile(
    r"https?://(?:(?:\w+\.)?pypi\.org|pypi\.python\.org|files\.pythonhosted\.org|registry\.npmjs\.org|registry\.yarnpkg\.com)"
    r"(?:/|$)"
)
_LISTS = re.compile(
    r"project\.dependencies|project\.optional-dependencies\..+|dependency-groups\..+|build-system\.requires"
    r"|tool\.(?:uv|pdm)\.dev-dependencies(?:\..+)?|tool\.hatch\.envs\..+\.(?:extra-)?dependencies"
    r"|options\.(?:install|setup|tests)_requires?|options\.extras_require\..+"
)
_TABLES = re.compile(
    r"(?:tool\.poetry\.(?:group\.[^.]+\.|dev-)?dependencies|tool\.uv\.sources|packages|dev-packages)\."
    r"(?P<name>[^.]+)(?:\.(?P<key>\w+))?"
)
_INDEXES = re.compile(
    r"tool\.uv\.(?:pip\.)?(?:index|index-url|extra-index-url|find-links|default-index)|tool\.(?:poetry|pdm)\.source|source"
)
_BUILDS = re.compile(
    r"build-system\.backend-path|tool\.setuptools\.cmdclass\..+|tool\.hatch\.(?:.+\.)?hooks\.custom(?:\..+)?"
    r"|tool\.poetry\.build(?:\.script)?|tool\.pdm\.build\.(?:run-setuptools|custom-hook)|options\.cmdclass"
)
_CRATES = re.compile(
    r"(?:target\..+\.)?(?:workspace\.)?(?:dev-|build-)?dependencies\.(?P<name>[^.]+)(?:\.(?P<key>[\w-]+))?"
)
_PATCHED = re.compile(r"(?:patch\.[^.]+|replace)\.(?P<name>[^.]+).*")
_MODULES = re.compile(r"(?:(?:dev|peer|optional)D|d)ependencies\.(?P<name>.+)")
_FORCED = re.compile(r"(?:overrides|resolutions|pnpm\.overrides)\..+")
_SCRIPTS = re.compile(r"scripts\.(?:pre|post)?(?:install|prepare)|scripts\.prepublish")
_AWAY = ("git", "url", "hg", "svn", "registry", "index", "source")


def read_manifest(path: str, text: str) -> frozenset[Declared]:
    """Return what a manifest declares; nothing for files of other kinds, and for manifests that cannot be read."""
    return frozenset(_declared(path, text))


def is_manifest(path: str) -> bool:
    name = path.rpartition("/")[2]
    return name in _READERS or _REQUIREMENTS.fullmatch(path) is not None


def _declared(path: str, text: str) -> Iterator[Declared]:
    name = path.rpartition("/")[2]
    if _REQUIREMENTS.fullmatch(path):
        for line in text.splitlines():
            yield from _of_line(line)
    elif name in _READERS:
        read, declared = _READERS[name]
        yield from declared(read(text) or {})


def _of_line(line: str) -> Iterator[Declared]:
    line = line.partition(" #")[0].strip()
    if (option := _OPTION.match(line)) is not None:
        if not _USUAL.match(option[2]):
            yield Oddness(line, INDEX)
    elif line and not line.startswith(("#", "-r", "-c", "--")):
        yield from _of_requirement(line.removeprefix("-e").strip())


def _of_requirement(text: str) -> Iterator[Dependency]:
    """Yield the package of `name[extra]>=1 ; marker`, of `name @ url`, or of a bare address."""
    found = _REQUIREMENT.match(text)
    if _FAR.match(text):
        yield Dependency("python", "", _far(text))
    elif found is not None:
        yield Dependency("python", normal_name(found[1]), _far(found[2].removeprefix("@").strip()))


def _far(address: str) -> str:
    return _REVISION.sub("", address) if _FAR.search(address) or _SHORT.fullmatch(address) else ""


def _of_python(sections: Sections) -> Iterator[Declared]:
    for name, value in sections.items():
        if _LISTS.fullmatch(name):
            for entry in _entries(value):
                yield from _of_requirement(entry)
        elif (table := _TABLES.fullmatch(name)) is not None:
            yield from _of_table("python", table, value)
        elif _INDEXES.fullmatch(name):
            yield from _of_index(name, value)
        elif _BUILDS.fullmatch(name):
            yield Oddness(f"{name}: {value}", RUNS)


def _entries(value: object) -> Iterator[str]:
    entries = value.splitlines() if isinstance(value, str) else value if isinstance(value, list) else []
    yield from (entry for entry in entries if isinstance(entry, str) and entry.strip())


def _of_table(ecosystem: Ecosystem, found: re.Match[str], value: object) -> Iterator[Dependency]:
    """Yield the package of one row of a table: its name alone, or with the key that says where it is from."""
    name, key = normal_name(found["name"]), found["key"]
    if name == "python":
        return
    yield Dependency(ecosystem, name)
    away = [option for option in _AWAY if option == key or (isinstance(value, list) and f"'{option}':" in str(value))]
    if away and value != "pypi":
        yield Dependency(ecosystem, name, f"{away[0]} {value}")
    elif key == "package" and isinstance(value, str):
        yield Dependency(ecosystem, normal_name(value))


def _of_index(name: str, value: object) -> Iterator[Oddness]:
    entries = value if isinstance(value, list) else [value]
    for entry in entries:
        url = str(entry.get("url", "") if isinstance(entry, dict) else entry)
        if url and not _USUAL.match(url):
            yield Oddness(f"{name}: {url}", INDEX)


def _of_crates(sections: Sections) -> Iterator[Declared]:
    for name, value in sections.items():
        if (table := _CRATES.fullmatch(name)) is not None:
            yield from _of_table("rust", table, value)
        elif (patched := _PATCHED.fullmatch(name)) is not None:
            yield Dependency("rust", normal_name(patched["name"]), f"{name} {value}")
        elif name == "package.build" and value not in (False, "build.rs"):
            yield Oddness(f"{name}: {value}", RUNS)


def _of_modules(sections: Sections) -> Iterator[Declared]:
    for name, value in sections.items():
        text = str(value)
        if (module := _MODULES.fullmatch(name)) is not None:
            yield Dependency("javascript", module["name"].lower(), _far(text))
            if (alias := re.fullmatch(r"npm:(.+?)(?:@[^@/]*)?", text)) is not None:
                yield Dependency("javascript", alias[1].lower())
        elif _FORCED.fullmatch(name) and _far(text):
            yield Dependency("javascript", name.rpartition(".")[2].lower(), _far(text))
        elif _SCRIPTS.fullmatch(name):
            yield Oddness(f"{name}: {text}", RUNS)


_SETUP = re.compile(r"\b\w*require(?:s|ments?)?\w*\s*=\s*[\[(](.*?)[\])]", re.DOTALL)
_TEXT = re.compile(r"[\"']([^\"'\n]+)[\"']")


def _read_setup(text: str) -> Sections:
    """Return the lists of requirements that a `setup.py` spells out."""
    return {"options.install_requires": [each for found in _SETUP.findall(text) for each in _TEXT.findall(found)]}


_READERS = {
    "setup.py": (_read_setup, _of_python),
    "pyproject.toml": (read_toml, _of_python),
    "Pipfile": (read_toml, _of_python),
    "setup.cfg": (read_ini, _of_python),
    "package.json": (read_json, _of_modules),
    "Cargo.toml": (read_toml, _of_crates),
}
