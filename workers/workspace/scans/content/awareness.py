"""
`harness`: code that finds out by a detour that it is tested or confined.

A line that names a variable or a runner outright is found by `evasion`. Here a syntax tree says what code looks at (the
stack, the command line, the environment, `/proc`), and which words it looks for there. `QUESTIONS` has both, for each
language. Words that are put together at run time are not found.
"""

import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from forgepool.workers.workspace.scans.content.process_exit import FUNCTIONS, ChangedProgram, Oddity, oddity_at
from forgepool.workers.workspace.scans.languages.names import NAMED, name_of, read_imports, string_of
from forgepool.workers.workspace.scans.languages.suite import name_set
from forgepool.workers.workspace.scans.languages.syntax import SCRIPTS, line_of, text_of, walk

if TYPE_CHECKING:
    from tree_sitter import Node

_RUNNERS = (
    r"(?i:(?<![a-z])(_?pytest|py\.test|unittest|nose2?|conftest|tests?|testing|hypothesis|pluggy|xdist|tox|jest|mocha|"
    r"vitest|jasmine|forgepool|bwrap|sandbox)(?![a-z]))"
)
_SCRIPT_RUNNERS = r"\b(jest|mocha|vitest|jasmine|ava|tape|cypress|playwright)\b|node:(internal/)?test"
_OF_CHECKS = r"_?(PYTEST|HYPOTHESIS|FORGEPOOL|JUNIT|JEST|VITEST|MOCHA|NODE_TEST|NEXTEST|RUST_TEST|NOSE)(_\w*)?"
_OF_CI = (
    r"CI|CONTINUOUS_INTEGRATION|GITHUB_(ACTIONS?|RUN_\w+|WORKFLOW|JOB)?|GITLAB_CI|CIRCLECI|TRAVIS|JENKINS_\w*|BUILDKITE|"
    r"TF_BUILD|BUILD_(NUMBER|ID)|TEAMCITY_VERSION|APPVEYOR|DRONE|CODEBUILD_BUILD_ID"
)
_VARIABLES = rf"^(?:{_OF_CHECKS}|{_OF_CI})$"
_TEST_WORD = r"^TEST_?$"
"""A variable or its prefix, and as often the value of a setting."""
_OF_OURS = r"fpool|forgepool"
_FOLDERS = r"os\.(getcwd|getenv|environ)|(pathlib\.)?Path\.(cwd|home)|tempfile\.gettempdir"
_OWN = r"'/proc/(self|thread-self|1|\S*getppid\S*)/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A thing that code may look at, and the words that show that it looks for its tests there."""

    asks: re.Pattern[str]
    """Fits the whole name of an expression, or the content of a string behind an apostrophe."""
    words: re.Pattern[str] | None = None
    """Fits a string without blanks. None: to look is enough."""
    reach: Literal["file", "function"] = "file"
    """The distance at which the words count. A function includes the constants that it names."""
    certain: bool = True
    """No honest change is known that looks there, with the words in the same function."""


def _row(asks: str, words: str | None = None, reach: Literal["file", "function"] = "file", **said: bool) -> Question:
    return Question(asks=re.compile(asks), words=None if words is None else re.compile(words), reach=reach, **said)


_PROC = (
    _row(_OWN + r"(cmdline|environ|comm|uid_map|gid_map|loginuid)", certain=False),
    _row(_OWN + r"status", r"^(TracerPid|Seccomp|NoNewPrivs|CapEff|NSpid)\b", "function"),
    _row(r"'/proc/(self|1)/?", r"^(cmdline|environ|comm|uid_map)$", "function", certain=False),
)
_PYTHON = (
    _row(r"inspect\.(stack|currentframe|getouterframes)", _RUNNERS),
    _row(r"sys\.(_getframe(modulename)?|_current_frames)", _RUNNERS),
    _row(r"traceback\.(extract_stack|format_stack|walk_stack|StackSummary\.extract)", _RUNNERS),
    _row(r".*\.(f_back|tb_frame)", _RUNNERS),
    _row(r"sys\.orig_argv", certain=False),
    _row(r"(__main__|sys\.modules\[__main__\])\.(__file__|__spec__|__package__|__loader__)", certain=False),
    _row(r"sys\.argv\[0\]", r"pytest|py\.test|unittest", "function"),
    _row(r"sys\.modules", r"^(_?pytest|unittest|nose|pluggy|xdist)(\.|$)", "function"),
    _row(r"sys\.(stdout|stderr|stdin)", r"^_pytest|^EncodedFile$|^CaptureIO$|^DontReadFromInput$", "function"),
    _row(r"'@py(test_ar|_builtins)"),
    _row(r"os\.(environb?|getenv)", _VARIABLES, "function"),
    _row(r"os\.(environb?|getenv)", _TEST_WORD, "function", certain=False),
    _row(r"importlib\.util\.find_spec", r"^(_?pytest|nose|xdist)$", "function", certain=False),
    _row(_FOLDERS, _OF_OURS, "function"),
    _row(_FOLDERS, r"/checkouts/", "function", certain=False),
    _row(r"psutil\.Process\(\).*", _RUNNERS),
    _row(
        r"(socket\.gethostname|platform\.node|getpass\.getuser|os\.getlogin)",
        r"^(sandbox|agent|runner|ci)$",
        "function",
        certain=False,
    ),
    *_PROC,
)
_SCRIPT = (
    _row(r"(process|import\.meta)\.env\.(NODE_TEST|JEST|VITEST|MOCHA|AVA|CYPRESS|PLAYWRIGHT)(_\w+)?"),
    _row(r"(process|import\.meta)\.env\.(NODE_ENV|MODE)", r"^test$", "function", certain=False),
    _row(r"process\.env\.npm_(lifecycle_\w+|command)", r"^test", "function", certain=False),
    _row(r"process\.env", _VARIABLES, "function"),
    _row(r"process\.env", _TEST_WORD, "function", certain=False),
    _row(
        r"new Error\.stack|Error\.(captureStackTrace|prepareStackTrace)", _SCRIPT_RUNNERS + r"|^tests?$|\.(test|spec)\."
    ),
    _row(r".*\.stack", _SCRIPT_RUNNERS, "function"),
    _row(r"process\.execArgv", r"^--test"),
    _row(r"process\.argv\.(some|includes|find|indexOf|join)", r"^--test|" + _SCRIPT_RUNNERS, "function", certain=False),
    _row(r"process\.argv\[1\]|(require\.main|module\.parent|process\.mainModule)\b.*", _SCRIPT_RUNNERS, "function"),
    _row(r"require\.cache", _SCRIPT_RUNNERS, "function"),
    _row(r"(globalThis|global|window)\.(describe|jest|vi|expect|mocha|beforeEach|__vitest\w+|__coverage__)"),
    _row(r"import\.meta\.vitest", certain=False),
    *_PROC,
)
_TESTS = r"(?<![a-z])tests?(?![a-z])"
_RUST = (
    _row(r"(std::)?env::var(_os)?\(", r"^(NEXTEST|RUST_TEST)\w*$", "function"),
    _row(r"(std::)?env::var(_os)?\(", r"^CARGO(_\w+)?$", "function", certain=False),
    _row(r"(std::)?env::vars(_os)?\(", rf"^(CARGO|NEXTEST|RUST_TEST)|{_VARIABLES}", "function"),
    _row(r"(std::)?env::vars(_os)?\(", _TEST_WORD, "function", certain=False),
    _row(r"(std::)?(thread::)?current\(\)\.name\(", _TESTS, "function"),
    _row(r"(std::)?(thread::)?current\(\)\.name\(", r"^main$|::", "function", certain=False),
    _row(r"(std::)?env::(args(_os)?|current_exe)\(", r"/deps\b|nextest|--nocapture|--test-threads", "function"),
    _row(r"(std::)?env::(args(_os)?|current_exe)\(", r"\bdeps\b|^--exact$", "function", certain=False),
    _row(r"(std::backtrace::)?Backtrace::(force_)?capture\(", _TESTS, "function"),
    *_PROC,
)
QUESTIONS = {"python": _PYTHON, **dict.fromkeys(SCRIPTS, _SCRIPT), "rust": _RUST}
"""The questions of each language."""
_SAID = "this code finds out whether it is tested or confined; let it behave the same everywhere"
_MAY_ASK = re.compile(
    rb"frame|[sS]tack|argv|Argv|__main__|modules|stdout|stderr|stdin|@py|environ|getenv|psutil|gethostname|platform|getuser|"
    rb"getlogin|/proc/|find_spec|getcwd|Path\.|gettempdir|\.env|\.stack|require|module\.|globalThis|global\.|window\.|env::|current\(\)|Backtrace|cfg|vitest"
)
"""Every file with a question holds one of these. All others need no tree."""
_LONGEST = 400
"""Bytes of the name of a called function, or of a path."""
_MOST_WORDS = 100
_SETS = frozenset(["assignment", "variable_declarator", "const_item", "static_item"])
_SETS_VARIABLES = re.compile(r"(setdefault|pop|putenv|setenv|set_var|remove_var|run|spawn|add_argument)$")
_LITERALS = name_set("string template_string string_literal raw_string_literal regex")


def find_awareness(program: ChangedProgram) -> Iterator[Oddity]:
    """Yield what asks whether it is tested, in the product. Tests and their helpers may ask."""
    rows = QUESTIONS.get(program.language or "")
    if rows is None or program.in_tests or _MAY_ASK.search(program.text) is None or program.root is None:
        return
    if program.language == "rust":
        if program.path.rpartition("/")[2] == "build.rs":  # cargo tells it everything by variables
            return
        yield from _of_conditions(program)
    yield from _asked(program, rows)


def _asked(program: ChangedProgram, rows: "tuple[Question, ...]") -> Iterator[Oddity]:
    places = _Places(program)
    known: dict[tuple[int, int], tuple[list[Node], bool]] = {}
    for node, name, unit in places.names:
        for at, row in enumerate(rows):
            if row.asks.fullmatch(name) is None:
                continue
            if (at, unit.id) not in known:
                known[at, unit.id] = places.find(row, unit)
            said, is_near = known[at, unit.id]
            if (row.words is None or said) and (program.is_new(node) or any(map(program.is_new, said))):
                yield oddity_at(node if program.is_new(node) else said[0], _SAID, certain=row.certain and is_near)
                break


class _Places:
    """The names and the words of a file, each with its unit: the outermost function around it, or its statement."""

    def __init__(self, program: ChangedProgram) -> None:
        assert program.root is not None
        self.names: list[tuple[Node, str, Node]] = []
        self.literals: list[tuple[Node, str]] = []
        self.constants: dict[str, Node] = {}
        """The value of each name that the file sets outside of functions."""
        self._said: dict[Question, tuple[list[Node], list[int]]] = {}
        """The words of each question, and where they begin."""
        self._language = program.language or ""
        self._imported = read_imports(program.root, self._language)
        waiting: list[tuple[Node, tuple[Node, ...], Node | None, bool]] = [(program.root, (), None, False)]
        # No node is asked for its parent: in a deep tree that takes as long as the tree is deep.
        while waiting:
            node, above, unit, within = waiting.pop()
            if not within and (unit is None or node.type in FUNCTIONS) and above:
                unit, within = node, node.type in FUNCTIONS
            self._take(node, above, unit or node, within)
            around = (*above[-2:], node)
            waiting.extend((child, around, unit, within) for child in reversed(node.named_children))

    def _take(self, node: "Node", above: "tuple[Node, ...]", unit: "Node", within: bool) -> None:
        if node.type in _LITERALS and (text := string_of(node)) is not None:
            if len(text) < _LONGEST:
                self.names.append((node, f"'{text}", unit))
            if not _is_no_word(node, text, above):
                self.literals.append((node, text))
        elif self._language == "rust":
            function = node.child_by_field_name("function") if node.type == "call_expression" else None
            if function is not None and function.end_byte - function.start_byte < _LONGEST:
                self.names.append((node, re.sub(r"\s", "", text_of(function)) + "(", unit))
        elif node.type in NAMED and not (above and _is_written(node, above[-1])):
            self.names.append((node, name_of(node, self._imported), unit))
        elif node.type == "shorthand_property_identifier_pattern":
            self.literals.append((node, text_of(node)))
        if not within and node.type in _SETS:
            name = node.child_by_field_name("left") or node.child_by_field_name("name")
            value = node.child_by_field_name("right") or node.child_by_field_name("value")
            if value is not None:
                self.constants[text_of(name)] = value

    def find(self, row: Question, unit: "Node") -> "tuple[list[Node], bool]":
        """Return the words of a question that count in a unit, and whether they stand in it."""
        if row.words is None:
            return [], True
        if row not in self._said:
            words = [word for word, text in self.literals if row.words.search(text)]
            self._said[row] = words, [word.start_byte for word in words]
        said, starts = self._said[row]
        if not said:
            return [], False
        named = dict.fromkeys(text_of(each) for each in walk(unit) if each.type == "identifier")
        areas = [unit, *(self.constants[name] for name in named if name in self.constants)]
        spans = ((bisect_left(starts, area.start_byte), bisect_left(starts, area.end_byte)) for area in areas)
        near = [word for begin, end in spans for word in said[begin:end]]
        return (near, True) if near or row.reach == "function" else (said[:_MOST_WORDS], False)


def _is_no_word(node: "Node", text: str, above: "tuple[Node, ...]") -> bool:
    """Tell whether a string is prose, or the key or variable that code sets, and asks nothing."""
    if not above or re.search(r"\s", text) or above[-1].type == "expression_statement":
        return True
    parent = above[-1]
    if parent.type == "pair":
        return parent.child_by_field_name("key") == node
    if parent.type in ("argument_list", "arguments") and len(above) > 1:
        called = above[-2].child_by_field_name("function")
        is_short = called is not None and called.end_byte - called.start_byte < _LONGEST
        return is_short and _SETS_VARIABLES.search(text_of(called)) is not None
    return len(above) > 1 and _is_written(parent, above[-2])


def _is_written(node: "Node", parent: "Node") -> bool:
    """Tell whether an assignment or `del` changes this expression."""
    return parent.type == "delete_statement" or (
        parent.type in ("assignment", "assignment_expression") and parent.child_by_field_name("left") == node
    )


_TEST = re.compile(r"\btest\b")
_ASKS = re.compile(r"cfg!\s*\(|(cfg_if::)?cfg_if!")
_UNDER = re.compile(r"#\[cfg\((.*)\)\]", re.DOTALL)
_OTHER_FILE = re.compile(r"#!?\[cfg_attr\(.*\btest\b.*\bpath\s*=", re.DOTALL)
_TWICE = name_set("function_item const_item static_item struct_item enum_item type_item impl_item macro_definition")
_CHOSEN = frozenset(["use_declaration", "mod_item"])
_WITHIN = frozenset(["block", "match_block"])
_FORCED = re.compile(r"panic_handler|global_allocator|entry|no_mangle|lang\s*=")
_HIGHEST = 60
"""Nodes above an attribute that may be a module of tests. In a deep tree each takes as long as the tree is deep."""
_TWINS = "tests get another version of this than users; let both have one"


def _of_conditions(program: ChangedProgram) -> Iterator[Oddity]:
    """Yield what Rust compiles for tests and otherwise for users. Modules of tests and their helpers are fine."""
    assert program.root is not None
    held: dict[tuple[int, str], list[tuple[bool, Node]]] = {}
    below: dict[int, tuple[Node | None, bool]] = {}
    for node in walk(program.root):
        below.update(_items_below(node))
        text = text_of(node) if node.type in ("macro_invocation", "attribute_item", "inner_attribute_item") else ""
        if _OTHER_FILE.match(text) or (_ASKS.match(text) and _TEST.search(_unquoted(text))):
            yield from _new(program, node, certain=True)
        elif (under := _UNDER.match(text)) is not None and _TEST.search(_unquoted(under[1])):
            item, forced = below.get(node.id, (None, False))
            if item is None or _in_tests(node):
                continue
            live = re.search(r"not\s*\(\s*(any\s*\(\s*)?test\b", under[1]) is not None
            if item.parent is not None and item.parent.type in _WITHIN and item.type != "use_declaration":
                yield from _new(program, node, certain=live)
            elif live and item.type == "impl_item" and not forced:
                yield from _new(program, node, certain=False)
            held.setdefault((item.parent.id if item.parent else 0, _key(item)), []).append((live, node))
    for twins in held.values():
        if len({live for live, _ in twins}) == 2:
            for _, node in twins:
                chosen = below[node.id][0]
                yield from _new(program, node, certain=chosen is not None and chosen.type not in _CHOSEN)


def _new(program: ChangedProgram, node: "Node", *, certain: bool) -> Iterator[Oddity]:
    if program.is_new(node):
        yield Oddity(line=line_of(node), text=text_of(node)[:120], said=_TWINS, certain=certain)


def _unquoted(text: str) -> str:
    return re.sub(r'"[^"]*"', "", text)


def _items_below(parent: "Node") -> "Iterator[tuple[int, tuple[Node | None, bool]]]":
    """Yield for each attribute the item that it belongs to, and whether later ones say that a program must have it."""
    item: Node | None = None
    forced = False
    for node in reversed(parent.named_children):
        if node.type == "attribute_item":
            yield node.id, (item, forced)
            forced = forced or _FORCED.search(text_of(node)) is not None
        elif "comment" not in node.type:
            item, forced = node, False


def _key(item: "Node") -> str:
    """Return the name under which two items would be the same."""
    if item.type in _CHOSEN:
        words = re.findall(r"\w+", text_of(item.child_by_field_name("name") or item))
        return f"{item.type} {words[-1]}"
    name = item.child_by_field_name("name")
    trait = item.child_by_field_name("trait")
    owner = item.child_by_field_name("type") if item.type == "impl_item" else None
    return f"{item.type} {text_of(name)}{text_of(trait)} {text_of(owner)}" if item.type in _TWICE else str(item.id)


def _in_tests(node: "Node") -> bool:
    """Tell whether an attribute stands within a module of tests."""
    above = node.parent
    for _ in range(_HIGHEST):
        if above is None:
            break
        if above.type == "mod_item" and re.search(r"test", text_of(above.child_by_field_name("name"))):
            return True
        above = above.parent
    return False
