"""
`gate-settings`: changes of settings that decide how tests and linters run.

Whole files count by name. TOML, INI and JSON files that also hold other things are compared section by section.
`conftest.py` is compared hook by hook and fixture by fixture, and build files of Java and Vite line by line.
Anyone may add test labels and further linter rules.
"""

import configparser
import json
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping

from forgepool.workers.workspace.scans.findings import ScanFinding, Weight
from forgepool.workers.workspace.scans.languages.suite import SuiteCase
from forgepool.workers.workspace.scans.languages.syntax import parse, text_of, walk
from forgepool.workers.workspace.scans.protection import EDITOR_SETTINGS
from forgepool.workers.workspace.scans.subject import LEAVE, Subject, finding, is_granted
from forgepool.workers.workspace.scans.tests.reading import SuiteTooLarge, read_suite
from forgepool.worktrees.commits.diff import FileDiff, contents

Sections = Mapping[str, object]
# An unclosed piece runs to the end, so that no piece starts again within another.
_JSON_PIECES = re.compile(
    r'"(?:[^"\\]|\\.)*+(?:"|\Z)|//[^\n]*|/\*(?:[^*]|\*(?!/))*+(?:\*/|\Z)|,(?=\s*[}\]])', re.DOTALL
)


def read_toml(text: str) -> Sections | None:
    """Return every value by its dotted name."""
    try:
        return dict(_flat(tomllib.loads(text), ()))
    except (tomllib.TOMLDecodeError, RecursionError):
        return None


def read_json(text: str) -> Sections | None:
    """Return every value by its dotted name. Comments and trailing commas are accepted, as editors write them."""
    try:
        data = json.loads(_JSON_PIECES.sub(lambda found: found[0] if found[0][0] == '"' else "", text))
    except (ValueError, RecursionError):
        return None
    return dict(_flat(data, ())) if isinstance(data, dict) else None


def read_ini(text: str) -> Sections | None:
    """Return every value by `section.key`."""
    parser = configparser.RawConfigParser(strict=False, allow_no_value=True)
    try:
        parser.read_string(text)
    except configparser.Error:
        return None
    return {f"{section}.{key}": value for section in parser.sections() for key, value in parser.items(section)}


def find_changed(before: Sections, after: Sections) -> Iterator[tuple[str, object, object]]:
    """Yield every name whose value changed, with the old and the new value. None stands for a missing one."""
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


_RULE = "gate-settings"
_WHOLE = re.compile(
    r"""\.?pytest\.(ini|toml) | \.?ruff\.toml | \.?mypy\.ini | \.flake8 | \.?pylintrc(\.toml)? | \.coveragerc
    | \.?bandit(\.ya?ml)? | (based)?pyrightconfig\.json | \.importlinter | \.isort\.cfg | \.pycodestyle | \.pydocstyle
    | \.eslintrc(\..*)? | eslint\.config\..* | \.eslintignore | \.?oxlintrc\.json | biome\.jsonc? | \.stylelintrc.*
    | \.prettierignore | tslint\.json | (jest|vitest|karma|playwright|cypress|ava|wtr|web-test-runner)\.config\..*
    | karma\.conf\..*
    | vitest\.(workspace|setup)\..* | \.mocharc.* | \.nycrc.* | \.c8rc.* | \.npmrc | \.yarnrc(\.yml)? | \.taprc
    | \.golangci\..* | \.?clippy\.toml | \.?rustfmt\.toml | nextest\.toml
    | phpunit\.xml.* | phpstan\.neon.* | psalm\.xml
    | \.rspec | \.rubocop\.yml | \.rubocop_todo\.yml | \.swiftlint\.yml | \.?codecov\.ya?ml | sonar-project\.properties
    | checkstyle.*\.xml | pmd.*\.xml | spotbugs.*\.xml | \.shellcheckrc | \.yamllint.* | \.hadolint\.ya?ml
    | \.semgrepignore | \.gitleaks\.toml | \.gitleaksignore | \.?typos\.toml | lcovrc | \.bazelrc | deny\.toml""",
    re.VERBOSE | re.IGNORECASE,
)
_TOOLS = (
    "pytest|ruff|mypy|coverage|pylint|black|isort|flake8|bandit|pyright|basedpyright|tox|nox|hatch|poe|taskipy|pdm.scripts"
    "|importlinter|vulture|pydocstyle|interrogate|deptry|ty|pyrefly|pytype|tach|codespell|docformatter|autopep8|yapf"
)
_TOML = re.compile(rf"tool\.({_TOOLS})(\.|$)|project\.entry-points\.pytest11(\.|$)")
_CARGO = re.compile(
    r"(workspace\.)?lints\.|test(\.|$)|lib\.(test|doctest|harness)$|package\.(autotests|autobins)$|bench"
)
_INI = re.compile(
    r"(tool:pytest|pytest|flake8|mypy(-.*)?|coverage:.*|pylint.*|pycodestyle|pydocstyle|isort|tox|testenv.*)\."
)
_PACKAGE = re.compile(
    r"(jest|mocha|ava|nyc|c8|tap|vitest|eslintConfig|eslintIgnore|stylelint|husky|lint-staged|xo)(\.|$)"
)
_TSCONFIG = re.compile(
    r"(compilerOptions\.(strict.*|noImplicit.*|noUnused.*|noEmit.*|noFallthrough.*|noUnchecked.*|noProperty.*|exact.*|"
    r"skip.*LibCheck|checkJs|allow(Js|Un.*)|useUnknown.*|alwaysStrict)|include|exclude|files|extends)(\.|$)"
)
_EDITOR = re.compile(
    r".*(path$|command|exec|interpreter|shell|terminal\.|\benv\b|args|server\.|binary|runtime|tasks?\.|hook|sdk|"
    r"runOnSave|trust)",
    re.IGNORECASE,
)
_MAY_GROW = re.compile(r"(markers|select|extend-select|enable|extra_checks|filterwarnings)$")
"""Lists that ask for more when they grow. New entries of `filterwarnings` must be errors."""
_BUILD_FILES = re.compile(r"(pom\.xml|build\.gradle(\.kts)?|vite\.config\..*|rollup\.config\..*|.*\.csproj|build\.sbt)")
_BUILD_LINES = re.compile(
    r"\b(skip\w*|exclude\w*|ignore\w*|failOn\w*|failIf\w*|testFailureIgnore|passWithNoTests|thresholds?|enabled|test)\b\s*"
    r"(=|:|>|\{|\()",
    re.IGNORECASE,
)
_EXAMPLES = frozenset(["testdata", "fixtures", "data", "examples", "example", "templates", "samples"])
_FORCES = re.compile(r"\b(skip|xfail|exit|setattr|monkeypatch|patch|outcome|exitstatus|deselected|_exit|os\.environ)\b")
_UNREAD = "this file cannot be read, so it may hold settings of the gate"
_HOOKED = re.compile(
    r"\s*(pytest_plugins\b|sys\.exit|os\._exit|pytest_\w+\s*=|(from|import)\b.*\bpytest_[a-z]|from\s+\S+\s+import\s+\*)"
)
_Read = Callable[[str], Sections | None]


def scan_gate_settings(subject: Subject) -> Iterator[ScanFinding]:
    """Report `gate-settings`. It blocks."""
    files = [
        file
        for file in subject.files
        if file.path not in subject.same_code and not is_granted(subject, file.path, file.old_path)
    ]
    ids = {blob for file in files if _is_asked(file) for blob in (file.id, file.old_id) if blob.strip("0")}
    texts = contents(subject.git, ids)
    for file in files:
        for name in dict.fromkeys((file.old_path or file.path, file.path)):
            if _WHOLE.fullmatch(name.rpartition("/")[2]) or name.endswith(".cargo/config.toml"):
                yield _found(file, "this file says how tests or linters are run")
                break
        else:
            yield from _within(file, texts)


def _is_asked(file: FileDiff) -> bool:
    paths = (file.path, file.old_path or file.path)
    return any(_reader(path) is not None or _is_conftest(path) for path in paths) or _has_hooks(file)


def _within(file: FileDiff, texts: dict[str, bytes]) -> Iterator[ScanFinding]:
    old_path = file.old_path or file.path
    if _is_asked(file) and (file.cut or file.binary):
        yield _found(file, _UNREAD)
    elif (reader := _reader(file.path) or _reader(old_path)) is not None:
        yield from _of_sections(file, reader, _text(texts, file.old_id), _text(texts, file.id))
    elif _is_conftest(file.path) or _is_conftest(old_path) or _has_hooks(file):
        try:
            yield from _of_conftest(file, texts)
        except SuiteTooLarge:
            yield _found(file, _UNREAD)
    elif _BUILD_FILES.fullmatch(file.path.rpartition("/")[2]):
        for line in (*file.added, *file.removed):
            if _BUILD_LINES.search(line.text):
                yield _found(file, "the line says what tests or checks are run", line=line.number, text=line.text)
                return


def _reader(path: str) -> tuple[_Read, re.Pattern[str]] | None:
    name = path.rpartition("/")[2]
    if name == "pyproject.toml":
        return read_toml, _TOML
    if name in ("Cargo.toml", "setup.cfg", "tox.ini"):
        return (read_toml, _CARGO) if name == "Cargo.toml" else (read_ini, _INI)
    if name == "package.json":
        return read_json, _PACKAGE
    if path.endswith(EDITOR_SETTINGS):
        return read_json, _EDITOR
    return (read_json, _TSCONFIG) if re.fullmatch(r"[tj]sconfig.*\.json", name) else None


def _of_sections(
    file: FileDiff, reader: tuple[_Read, re.Pattern[str]], old: str | None, new: str | None
) -> Iterator[ScanFinding]:
    read, gate = reader
    before, after = ({} if text is None else read(text) for text in (old, new))
    if before is None or after is None:
        yield _found(file, _UNREAD)
        return
    for name, was, now in find_changed(before, after):
        if (gate.match(name) and not _may_be(name, was, now)) or _is_script(file, name, was, before):
            what = "is run by editors" if gate is _EDITOR else "says how tests or linters are run"
            yield _found(file, f"'{name}' {what}", text=f"{name}: {was!r} -> {now!r}")


def _may_be(name: str, was: object, now: object) -> bool:
    """Tell whether a list only grew where growth is harmless."""
    if not _MAY_GROW.search(name) or not isinstance(now, list) or not isinstance(was, list | None):
        return False
    fresh = [entry for entry in now if entry not in (was or [])]
    kept = all(entry in now for entry in was or [])
    return kept and (not name.endswith("filterwarnings") or all(str(entry).startswith("error") for entry in fresh))


def _is_script(file: FileDiff, name: str, was: object, before: Sections) -> bool:
    """Tell whether this is an existing script of `package.json`, or one that runs around an existing one."""
    if not file.path.endswith("package.json") or not name.startswith("scripts."):
        return False
    script = name.removeprefix("scripts.")
    around = re.fullmatch(r"(?:pre|post)(.+)", script)
    return (
        was is not None or (around is not None and f"scripts.{around[1]}" in before) or script in ("prepare", "install")
    )


def _is_conftest(path: str) -> bool:
    return path.rpartition("/")[2] == "conftest.py"


def _has_hooks(file: FileDiff) -> bool:
    """Tell whether the file defines pytest hooks outside a `conftest.py`, as any plugin may."""
    lines = (*file.added, *file.removed) if file.path.endswith(".py") else ()
    return any(re.match(r"\s*(async\s+)?def pytest_[a-z_]+\(", line.text) for line in lines)


def _of_conftest(file: FileDiff, texts: dict[str, bytes]) -> Iterator[ScanFinding]:
    before, after = (_functions(texts.get(blob, b"")) for blob in (file.old_id, file.id))
    weight: Weight = "blocks" if _is_conftest(file.path) or _is_conftest(file.old_path or "") else "attention"
    for name in sorted({*before, *after}):
        old, new = before.get(name), after.get(name)
        if old is not None and new is not None and old.words == new.words:
            continue
        shown = new or old
        if name.rpartition("::")[2].startswith("pytest_") and shown is not None:
            message = f"the hook '{name}' has a say in what is run and what counts"
            yield _found(file, message, shown.line, shown.text, weight)
    if weight == "blocks":
        yield from _of_plugins(file)
        yield from _of_fixtures(file, texts, before)


def _of_plugins(file: FileDiff) -> Iterator[ScanFinding]:
    for line in (*file.added, *file.removed):
        if _HOOKED.match(line.text):
            yield _found(file, "the line has a say in what is run and what counts", line.number, line.text)


def _of_fixtures(file: FileDiff, texts: dict[str, bytes], before: dict[str, SuiteCase]) -> Iterator[ScanFinding]:
    """Report fixtures that apply to every test by themselves and interfere with how tests run."""
    root = parse("python", texts.get(file.id, b""), texts=True)
    for node in walk(root, into=lambda one: one.type != "function_definition") if root is not None else ():
        text = text_of(node)
        if node.type != "decorated_definition" or not re.search(r"autouse\s*=\s*True", text):
            continue
        name = text_of(getattr(node.child_by_field_name("definition"), "child_by_field_name", lambda _: None)("name"))
        was = before.get(name)
        if _FORCES.search(text) and (was is None or was.words != _functions(text.encode())[name].words):
            message = f"the fixture '{name}' is put around every test, and reaches into what they run with"
            yield _found(file, message, node.start_point.row + 1, text.split("\n")[0], weight="attention")


def _functions(source: bytes) -> dict[str, SuiteCase]:
    return dict(read_suite("conftest.py", source).support)


def _text(texts: dict[str, bytes], content: str) -> str | None:
    return texts[content].decode(errors="replace") if content in texts else None


def _found(file: FileDiff, why: str, line: int = 0, text: str = "", weight: Weight = "blocks") -> ScanFinding:
    if set(file.path.split("/")[:-1]) & _EXAMPLES:
        weight = "note"
    return finding(_RULE, weight, f"{why}{LEAVE}", file.path, line, text)
