"""Code and files that take the place of a test runner, a tool or a library."""

import builtins
import re
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from forgepool.workers.workspace.scans.content.process_exit import ChangedProgram, Oddity, is_inside, oddity_at
from forgepool.workers.workspace.scans.languages.names import name_of, read_imports, root_of, string_of
from forgepool.workers.workspace.scans.languages.suite import name_set
from forgepool.workers.workspace.scans.languages.syntax import SCRIPTS, arguments_of, text_of, walk
from forgepool.workers.workspace.scans.subject import Subject
from forgepool.worktrees.commits.diff import FileDiff

if TYPE_CHECKING:
    from tree_sitter import Node

_RUNNERS = name_set("pytest _pytest unittest pluggy coverage nose xdist doctest _pytest.runner junitxml")
_INSIDE = frozenset(["_pytest", "pluggy", "xdist"])
_OUTCOMES = re.compile(
    r"\.(exitstatus|outcome|testsfailed|testscollected|wasSuccessful|_exitstatus|shouldfail|failures|errors)$"
)
_HOOKS = re.compile(
    r"sys\.modules\[\s*['\"](pytest|_pytest|unittest|coverage|pluggy)|builtins\.(__import__|AssertionError)|__builtins__"
)
_OWN = re.compile(r"(globals|vars)\(\)\[|sys\.modules\[\s*__name__")
_GLOBALS = re.compile(
    r"\b(global|globalThis|window)\.(expect|it|test|describe|jest|vi|beforeEach|afterEach)\s*=[^=]|"
    r"defineProperty\(\s*(global|globalThis|window|expect)\b|\bexpect\.(prototype|extend)\s*=|"
    r"\b(jest|vi)\.(retryTimes|setTimeout)\(\s*\d{2,}|\bassert\.\w+\s*=[^=]"
)
_PATCHED = "this changes the test runner; leave the runner alone"
_STOOD_IN = "this replaces names of the test module itself; test what is imported"
_OUTCOME = "this sets the outcome of a test; leave that to the test runner"
_IMPORTED = "product code imports the test runner; import it only in tests"
_EQUAL = "this object equals anything; compare what it holds"


def find_patched(program: ChangedProgram) -> Iterator[Oddity]:
    """Yield assignments to parts of a test runner, and imports of one where none belongs."""
    if program.language == "python":
        names = _names(program)
        yield from _assigned(program, names)
        yield from _called(program, names)
        yield from _imported(program)
        yield from _always_equal(program)
    elif program.language in ("javascript", "typescript", "tsx"):
        for number, text in program.lines:
            if _GLOBALS.search(text):
                yield Oddity(line=number, text=text, said=_PATCHED)


def _names(program: ChangedProgram) -> frozenset[str]:
    """Return the names by which the file knows a test runner or a part of one."""
    names = set(_RUNNERS)
    for node in program.root.named_children if program.root is not None else ():
        text = " ".join(text_of(node).split())
        found = re.match(r"from ([\w.]+) import (.+)$|import (.+)$", text)
        if node.type not in ("import_statement", "import_from_statement") or found is None:
            continue
        for name in (found[2] or found[3]).strip("()").split(","):
            origin, _, alias = name.strip().partition(" as ")
            if (found[1] or origin).split(".")[0] in _RUNNERS:
                names.add(alias.strip() or origin.split(".")[0].strip())
    return frozenset(names)


def _assigned(program: ChangedProgram, names: frozenset[str]) -> Iterator[Oddity]:
    for node in program.nodes("assignment", "augmented_assignment", "delete_statement"):
        left = text_of(node.child_by_field_name("left") or (node.named_children[0] if node.named_children else None))
        root = re.split(r"[.\[]", left)[0]
        if root in names and re.search(r"[.\[]", left):
            yield oddity_at(node, _PATCHED)
        elif _OUTCOMES.search(left) and (
            program.path.endswith("conftest.py") or re.match(r"(session|report|rep|result|item)\.", left)
        ):
            yield oddity_at(node, _OUTCOME)
        elif _HOOKS.match(left):
            yield oddity_at(node, _PATCHED)
        elif program.in_tests and _OWN.match(left):
            yield oddity_at(node, _STOOD_IN)


def _called(program: ChangedProgram, names: frozenset[str]) -> Iterator[Oddity]:
    for node in program.nodes("call"):
        name = text_of(node.child_by_field_name("function"))
        given = text_of(node.child_by_field_name("arguments"))
        first = re.split(r"[,.)\[]", given.lstrip("("))[0].strip()
        if program.in_tests and re.match(r"\(\s*(globals\(\)|sys\.modules\[__name__\])", given):
            yield oddity_at(node, _STOOD_IN)
        elif name.rpartition(".")[2] in ("setattr", "delattr", "patch", "object"):
            target = re.match(
                r"\(\s*['\"](_pytest|pytest|unittest\.(case|runner|main|result|TestCase)|pluggy)\b", given
            )
            if target or (first in names and name.rpartition(".")[2] != "patch" and first != "doctest"):
                yield oddity_at(node, _PATCHED)
        elif name in ("sys.settrace", "sys.setprofile", "sys.addaudithook") and not program.in_tests:
            yield oddity_at(node, _PATCHED, certain=False)


def _imported(program: ChangedProgram) -> Iterator[Oddity]:
    if program.in_tests and not program.path.endswith("conftest.py"):
        return
    for node in program.nodes("import_statement", "import_from_statement"):
        named = re.findall(r"(?:^from|^import|,)\s+([\w.]+)", " ".join(text_of(node).split()))
        roots = {name.split(".")[0] for name in named}
        if roots & _INSIDE:
            yield oddity_at(node, _IMPORTED, certain=not program.in_tests)
        elif roots & {"pytest", "unittest", "nose"} and not program.in_tests and not _is_for_tests(program):
            yield oddity_at(node, _IMPORTED, certain=False)


def _is_for_tests(program: ChangedProgram) -> bool:
    return re.search(r"testing|plugin|fixture|noxfile|tasks", program.path) is not None


def _always_equal(program: ChangedProgram) -> Iterator[Oddity]:
    for node in program.nodes("function_definition"):
        name = text_of(node.child_by_field_name("name"))
        body = " ".join(text_of(node.child_by_field_name("body")).split())
        answer = {"__eq__": "return True", "__ne__": "return False"}.get(name)
        if answer is not None and body.endswith(answer) and body.count("return") == 1 and "if " not in body:
            yield oddity_at(node, _EQUAL, certain=False)


_FINDERS = re.compile(r"sys\.(meta_path|path_hooks|path_importer_cache)\b.*|__path__\.\w+")
_LOADERS = re.compile(
    r"(importlib\.machinery\.)?(SourcelessFileLoader|ExtensionFileLoader)|zipimport\.zipimporter|imp\.load_\w+"
)
_ARCHIVE = re.compile(r"\.(zip|egg|whl|pyz|jar)\b")
_BUILTIN = re.compile(r"(?:builtins\.|__builtins__\.|__builtins__\[)(\w+)\]?")
_LOADED = re.compile(r"sys\.modules\[([^=].*)\]")
_INNER = re.compile(r".*\.__code__")
_FOR_OTHERS = re.compile(r"(sys|threading)\.(\w*hook|std(in|out|err))|warnings\.(show|format)warning|sys\.path")
"""Names of other modules that are made to be replaced."""
_CAPITALS = re.compile(r"(?:.*\.)?[A-Z][A-Z0-9_]*")
_READS_CODE = re.compile(r"\b(open|read_text|read_bytes|get_data|read)\(")
_SOURCE = re.compile(r"\.pyi?['\"]")
_LOADS = name_set(
    "sys.path.insert sys.path.append sys.path.extend site.addsitedir exec eval builtins.exec builtins.eval"
)
_MOST_INSIDE = 100
"""Findings in tests for which it is asked whether they stand in a function. All further ones are reported."""
_SETTERS = frozenset(["setattr", "delattr"])
_OTHER = "this changes another module behind its back; change the code that uses it"
_FOUND = "this changes how modules are found, so that other code runs than is read; import modules as they are"
_FROM_DATA = "this loads code that no diff shows; write it as a module"


def find_replaced(program: ChangedProgram) -> Iterator[Oddity]:
    """Yield what makes code do other than its source says: import hooks, and changes of other modules."""
    if program.root is None:
        return
    if program.language == "python":
        yield from _replaced(program, read_imports(program.root, "python"))
    elif program.language in SCRIPTS:
        yield from _replaced_in_script(program, read_imports(program.root, "javascript"))
    elif program.language == "rust":
        yield from _replaced_in_rust(program)


def _replaced(program: ChangedProgram, imported: dict[str, str]) -> Iterator[Oddity]:
    own, left = _defined(program), _MOST_INSIDE
    for node in program.nodes("assignment", "augmented_assignment", "delete_statement", "call"):
        judge = _called_for if node.type == "call" else _set
        found = list(judge(program, node, imported, own))
        if found and program.in_tests and left > 0:
            left -= 1
            found = [] if is_inside(node) else found
        yield from found


def _called_for(
    program: ChangedProgram, node: "Node", imported: dict[str, str], own: frozenset[str]
) -> Iterator[Oddity]:
    """Judge a call: of a list of finders, of a loader, or of `setattr`."""
    name = name_of(node.child_by_field_name("function"), imported)
    if _FINDERS.fullmatch(name):
        yield oddity_at(node, _FOUND, certain=False)
    elif _loads_data(name, node, program):
        yield oddity_at(node, _FROM_DATA, certain=False)
    elif name in _SETTERS and len(given := arguments_of(node)) > 1 and (attribute := string_of(given[1])) is not None:
        value = given[2] if len(given) > 2 else None
        yield from _changed(program, given[0], f"{name_of(given[0], imported)}.{attribute}", value, imported, own)


def _set(program: ChangedProgram, node: "Node", imported: dict[str, str], own: frozenset[str]) -> Iterator[Oddity]:
    """Judge an assignment, to one name or to several, or a deletion."""
    left = node.child_by_field_name("left") or next(iter(node.named_children), None)
    for target in left.named_children if left is not None and left.type == "pattern_list" else [left]:
        if target is not None and target.type in ("attribute", "subscript"):
            right = node.child_by_field_name("right") if target == left else None
            yield from _changed(program, target, name_of(target, imported), right, imported, own)


def _changed(
    program: ChangedProgram,
    node: "Node",
    name: str,
    value: "Node | None",
    imported: dict[str, str],
    own: frozenset[str],
) -> Iterator[Oddity]:
    """Judge one name of another module that gets a value. None stands for one that is deleted, or not known."""
    if _FINDERS.fullmatch(name):
        yield oddity_at(node, _FOUND, certain=False)
    elif (found := _BUILTIN.fullmatch(name)) is not None:
        if found[1] != "_":  # gettext's, by its own documentation
            yield oddity_at(node, _OTHER, certain=found[1] in dir(builtins))
    elif (found := _LOADED.fullmatch(name)) is not None:
        if not program.in_tests and found[1].split(".")[0] not in program.path.split("/"):
            yield oddity_at(node, _FOUND, certain=False)
    elif _INNER.fullmatch(name):
        yield oddity_at(node, _OTHER, certain=False)
    elif (root := root_of(node)) in imported and "[" not in name and _FOR_OTHERS.fullmatch(name) is None:
        is_constant = name.split(".")[0] in sys.stdlib_module_names and _CAPITALS.fullmatch(name) is not None
        if is_constant or _is_code(value, name, own | set(imported) - {root}, imported):
            yield oddity_at(node, _OTHER, certain=False)


def _is_code(value: "Node | None", name: str, known: frozenset[str], imported: dict[str, str]) -> bool:
    """Tell whether a value is a function or a class, as far as the file shows; all else may be a setting."""
    if value is None or value.type == "lambda":
        return True
    if value.type == "identifier":
        return text_of(value) in known and _CAPITALS.fullmatch(text_of(value)) is None
    if value.type == "attribute":
        return root_of(value) in imported and _CAPITALS.fullmatch(text_of(value)) is None
    given = text_of(value.child_by_field_name("arguments")) if value.type == "call" else ""
    return re.search(rf"\blambda\b|\b{re.escape(name.rpartition('.')[2])}\b", given) is not None


def _defined(program: ChangedProgram) -> frozenset[str]:
    assert program.root is not None
    nodes = (node for node in walk(program.root) if node.type in ("function_definition", "class_definition"))
    return frozenset(text_of(node.child_by_field_name("name")) for node in nodes)


def _loads_data(name: str, call: "Node", program: ChangedProgram) -> bool:
    """Tell whether a call loads compiled code, an archive, or a text that is no source file."""
    if _LOADERS.fullmatch(name) or name in ("marshal.load", "marshal.loads"):
        return True
    if name not in _LOADS:
        return False
    given = text_of(call.child_by_field_name("arguments"))
    if name in ("sys.path.insert", "sys.path.append", "sys.path.extend", "site.addsitedir"):
        return _ARCHIVE.search(given) is not None
    if program.in_tests or program.is_script:
        return False
    return _READS_CODE.search(given) is not None and _SOURCE.search(given) is None


_SCRIPT_FINDERS = re.compile(
    r"(node:)?module(\.Module)?\.(_load|_resolveFilename|_extensions\b.*|_compile|_cache\b.*|_findPath|wrap|"
    r"prototype\.(require|_compile))|require\.(extensions|cache)\b.+|Module\.(_load|_resolveFilename|prototype\..*)"
)
_REGISTERS = re.compile(r"(node:)?module(\.Module)?\.register(Hooks)?")
_STANDARD = re.compile(
    r"(?:(?:globalThis|global|window)\.)?(?:Object|Function|Array|String|Number|Boolean|Promise|Map|Set|RegExp|Date|Error|"
    r"Symbol|BigInt|Math|JSON|Reflect)(?:\.prototype)?\.\w+"
)
_ASSERTIONS = re.compile(r"(node:)?(assert(/strict)?|test)|chai|expect|vitest|@jest/globals|should|sinon")
_SCRIPT_CODE = name_set("arrow_function function_expression generator_function identifier member_expression class")


def _replaced_in_script(program: ChangedProgram, imported: dict[str, str]) -> Iterator[Oddity]:
    for node in program.nodes("assignment_expression"):
        left, value = node.child_by_field_name("left"), node.child_by_field_name("right")
        if _SCRIPT_FINDERS.fullmatch(name := name_of(left, imported)):
            yield oddity_at(node, _FOUND, certain=False)
        elif value is not None and value.type in _SCRIPT_CODE:
            yield from _changed_in_script(program, node, name, imported.get(root_of(left), ""))
    for node in program.nodes("call_expression"):
        name, given = name_of(node.child_by_field_name("function"), imported), arguments_of(node)
        if _REGISTERS.fullmatch(name):
            yield oddity_at(node, _FOUND, certain=False)
        elif name in ("Object.defineProperty", "Reflect.set") and len(given) > 1:
            target = f"{name_of(given[0], imported)}.{string_of(given[1]) or ''}"
            yield from _changed_in_script(program, node, target, imported.get(root_of(given[0]), ""))


def _changed_in_script(program: ChangedProgram, node: "Node", name: str, module: str) -> Iterator[Oddity]:
    """Judge one name of the language or of an imported module that gets other code."""
    if _STANDARD.fullmatch(name):
        if not (program.in_tests and is_inside(node)) and not _is_missing(node, name):
            yield oddity_at(node, _OTHER, certain=False)
    elif module and name.startswith(f"{module}."):
        if _ASSERTIONS.fullmatch(module):
            yield oddity_at(node, _PATCHED)
        elif not program.in_tests and (not module.startswith(".") or name.rpartition(".")[2][:1].islower()):
            yield oddity_at(node, _OTHER, certain=False)


_HIGHEST = 20
"""Nodes above a polyfill that may ask for the name. In a deep tree each takes as long as the tree is deep."""
_CHOICES = frozenset(["if_statement", "binary_expression", "ternary_expression"])


def _is_missing(node: "Node", name: str) -> bool:
    """Tell whether the code asks first whether the name is there, as a polyfill does."""
    above = node.parent
    for _ in range(_HIGHEST):
        if above is None:
            break
        asked = above.child_by_field_name("condition") or above.child_by_field_name("left")
        if above.type in _CHOICES and name in text_of(asked):
            return True
        above = above.parent
    return False


_MACROS = re.compile(r"macro_rules!\s*(assert|assert_eq|assert_ne|debug_assert\w*|panic|matches)\b")
_OTHER_SOURCE = re.compile(r"#\[path\s*=\s*\"(?![^\"]*\.rs\")|include!\s*[(\[{]\s*\"(?![^\"]*\.rs\")")
_SYMBOLS = name_set(
    "malloc free realloc write read open close exit _exit abort memcmp bcmp strcmp getenv clock_gettime"
)
_BEFORE_MAIN = re.compile(r"#\[(ctor\b|.*link_section\s*=\s*\"\.(init_array|ctors|preinit_array))")


def _replaced_in_rust(program: ChangedProgram) -> Iterator[Oddity]:
    for node in program.nodes("macro_definition", "macro_invocation", "attribute_item", "function_item"):
        text = text_of(node)
        if node.type == "macro_definition" and _MACROS.match(text):
            yield oddity_at(node, _PATCHED)
        elif node.type != "function_item" and _OTHER_SOURCE.match(text):
            yield oddity_at(node, _FROM_DATA, certain=False)
        elif node.type == "attribute_item" and _BEFORE_MAIN.match(text):
            yield oddity_at(node, _OTHER, certain=False)
        elif node.type == "function_item" and text_of(node.child_by_field_name("name")) in _SYMBOLS:
            before = node.prev_named_sibling
            if before is not None and re.search(r"no_mangle|export_name", text_of(before)):
                yield oddity_at(node, _OTHER)


_ROOTS = ("", "src/", "lib/", "python/", "tests/", "test/")
_TOOLS = name_set(
    "pytest _pytest pluggy xdist pytest_cov pytest_asyncio hypothesis nose coverage tox nox ruff mypy black isort "
    "flake8 "
    "pylint pyflakes pycodestyle bandit pyright basedpyright setuptools pip wheel build hatchling poetry uv attr attrs "
    "iniconfig packaging pkg_resources exceptiongroup sitecustomize usercustomize"
)
_HARMLESS = frozenset(["test", "this", "antigravity", "idlelib", "turtledemo", "__main__", "lib2to3", "__future__"])
_RUN_AT_START = re.compile(r"(sitecustomize|usercustomize)\.py|.*\.pth|.*\.egg-link|python\d*\._pth")
_INSTALLED = re.compile(
    r"(^|/)(node_modules|\.venv|venv|site-packages|dist-packages|__pypackages__|\.yarn/(cache|unplugged))/"
)
_METADATA = re.compile(r"\.(dist-info|egg-info)/(entry_points\.txt|METADATA|RECORD|top_level\.txt|PKG-INFO)$")


def find_disguise(subject: Subject, file: FileDiff) -> str | None:
    """Return why an added or changed file would be taken for something else, or None."""
    name = file.path.rpartition("/")[2]
    if file.status == "D":
        return None
    if _RUN_AT_START.fullmatch(name):
        return "Python runs this file whenever it starts"
    if file.status not in ("A", "R"):
        return None
    if _INSTALLED.search(file.path):
        return "installed packages do not belong to the sources"
    if _METADATA.search(file.path):
        return "this file makes Python believe that a package is installed, and may run code of it"
    if (other := _double(subject, file.path)) is not None:
        return f"the tests would import this file for {other}"
    module = _module(subject, file.path)
    if module in _TOOLS:
        return f"'{module}' is imported or run by the checks, and would now be this file"
    if module in sys.stdlib_module_names and module not in _HARMLESS:
        return f"'{module}' is part of Python, and would now be this file"
    return None


def _double(subject: Subject, path: str) -> str | None:
    """Return the same module under another root, if it exists before and after the change."""
    for root in _ROOTS:
        rest = path.removeprefix(root)
        if not path.startswith(root) or not re.fullmatch(r"(\w+/)+(?!__init__|conftest|test_)\w+\.py", rest):
            continue
        for other in _ROOTS:
            there = f"{other}{rest}"
            if there != path and there in subject.old_paths and there in subject.new_paths:
                return there
    return None


def _module(subject: Subject, path: str) -> str | None:
    """Return the name that imports this file. A new package is named by its `__init__.py` or `__main__.py`."""
    for root in _ROOTS:
        rest = path.removeprefix(root)
        if not path.startswith(root) or (root in ("tests/", "test/") and f"{root}__init__.py" in subject.new_paths):
            continue
        if re.fullmatch(r"\w+\.(py|pyi|so|pyd)|\w+\.cpython-.*\.so", rest):
            return rest.partition(".")[0]
        if re.fullmatch(r"\w+/(__init__|__main__)\.py", rest):
            return rest.partition("/")[0]
    return None
