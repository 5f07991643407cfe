"""
Python in one spelling.

Forms with one meaning are written in one way: `assert x is None` for `self.assertIsNone(x)`, `raise AssertionError`
for `assert False`, `range(n)` for `range(0, n)`. A difference that remains is more than form. A source that is not
valid Python, or would take too long, has no such spelling. It is then compared as it is written.
"""

import ast
import re
import warnings
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from inspect import cleandoc

from forgepool.workers.workspace.scans.source.format_strings import from_format, from_percent, join_parts

_COOKIE = re.compile(rb"\A(?:[^\n]*\n)?[ \t\f]*#[^\n]*?coding[:=][ \t]*(?!utf-?8\b)[-\w.]+", re.IGNORECASE)
_TRIPLE_F = re.compile(rb"(?:f|fr|rf)(?:\"\"\"|''')", re.IGNORECASE)
_TRIPLES = re.compile(rb"\"\"\"|'''")
_MOST_IN_F_STRINGS = 3_000_000_000
"""Braces times bytes: Python 3.11 takes the square of an f-string's length."""
_UNREADABLE = (SyntaxError, ValueError, RecursionError, MemoryError)
_COMPARED: dict[str, type[ast.cmpop]] = {
    **dict.fromkeys(("assertEqual", "assertEquals", "assertListEqual", "assertDictEqual", "assertSetEqual"), ast.Eq),
    **dict.fromkeys(("assertTupleEqual", "assertMultiLineEqual"), ast.Eq),
    **dict.fromkeys(("assertNotEqual", "assertNotEquals"), ast.NotEq),
    "assertIs": ast.Is,
    "assertIsNot": ast.IsNot,
    "assertIn": ast.In,
    "assertNotIn": ast.NotIn,
    "assertLess": ast.Lt,
    "assertLessEqual": ast.LtE,
    "assertGreater": ast.Gt,
    "assertGreaterEqual": ast.GtE,
}
_AWAITED = {f"assert{kind}{end}": kind.lower() for kind in ("Raises", "Warns") for end in ("", "Regex")}
_WITH_NONE: dict[str, type[ast.cmpop]] = {"assertIsNone": ast.Is, "assertIsNotNone": ast.IsNot}
_MIRRORED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.Eq,
    ast.NotEq: ast.NotEq,
    ast.Lt: ast.Gt,
    ast.Gt: ast.Lt,
    ast.LtE: ast.GtE,
    ast.GtE: ast.LtE,
}
_NEGATED: dict[type[ast.cmpop], type[ast.cmpop]] = {ast.In: ast.NotIn, ast.Is: ast.IsNot}
_ALIASES = {
    **dict.fromkeys(("IOError", "EnvironmentError", "WindowsError", "socket.error", "select.error"), "OSError"),
    **dict.fromkeys(("socket.timeout", "asyncio.TimeoutError"), "TimeoutError"),
}
_AS_UTF_8 = (".encode()", ".encode('utf-8')", ".encode('utf8')")
_Defined = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Spelled:
    """A source in one spelling."""

    text: bytes
    _numbers: tuple[int, ...]
    _lines: tuple[int, ...]

    def line(self, number: int) -> int:
        """Return the line of the original source for a line of this text."""
        at = bisect_right(self._numbers, number) - 1
        return self._lines[at] if at >= 0 else number


def is_same_code(old: bytes, new: bytes) -> bool:
    """Tell whether two sources differ only in layout, string prefixes and white space around docstring lines."""
    before, after = _tree(old), _tree(new)
    if before is None or after is None:
        return False
    try:
        return ast.dump(_Plain().visit(before)) == ast.dump(_Plain().visit(after))
    except _UNREADABLE:
        return False


def in_one_spelling(source: bytes) -> Spelled | None:
    """Return the source without comments and docstrings, each meaning in one form."""
    tree = _tree(source)
    if tree is None:
        return None
    try:
        defined = (node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
        _OneSpelling(frozenset(name for name in defined if name.startswith("assert"))).visit(tree)
        spelled = ast.fix_missing_locations(tree)
        text = ast.unparse(spelled)
        again = ast.parse(text)
    except _UNREADABLE:
        return None
    lines: dict[int, int] = {}
    for made, read in zip(ast.walk(spelled), ast.walk(again), strict=False):
        if type(made) is not type(read):
            break
        if isinstance(made, ast.expr | ast.stmt) and isinstance(read, ast.expr | ast.stmt):
            lines.setdefault(read.lineno, made.lineno)
    numbers = sorted(lines)
    return Spelled(text.encode("utf-8", "surrogatepass"), tuple(numbers), tuple(lines[number] for number in numbers))


def _tree(source: bytes) -> ast.Module | None:
    if _COOKIE.match(source) or _work_in_f_strings(source) > _MOST_IN_F_STRINGS:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(source)
    except _UNREADABLE:
        return None


def _work_in_f_strings(source: bytes) -> int:
    """Return an upper bound. An f-string lies on one line, or between two triple quotes."""
    parts = source.split(b"\n")
    if _TRIPLE_F.search(source):
        parts += _TRIPLES.split(source)
    return sum(part.count(b"{") * len(part) for part in parts)


class _Plain(ast.NodeTransformer):
    """Removes string prefixes and the indentation of docstrings."""

    def visit(self, node: ast.AST) -> ast.AST:
        if isinstance(node, ast.Constant):
            node.kind = None
        if isinstance(node, _Defined) and (docstring := _docstring(node)) is not None:
            docstring.value = "\n".join(line.rstrip() for line in cleandoc(str(docstring.value)).split("\n")).strip()
        return super().generic_visit(node)


def _docstring(node: _Defined) -> ast.Constant | None:
    first = node.body[0] if node.body else None
    value = first.value if isinstance(first, ast.Expr) else None
    return value if isinstance(value, ast.Constant) and isinstance(value.value, str) else None


class _OneSpelling(ast.NodeTransformer):
    """Replaces each form by the chosen one of its meaning. Methods that the source defines as `own` stay."""

    def __init__(self, own: frozenset[str] = frozenset()) -> None:
        self._own = own

    def visit(self, node: ast.AST) -> ast.AST | list[ast.AST]:
        if isinstance(node, _Defined) and _docstring(node) is not None:
            del node.body[0]
        self.generic_visit(node)
        if isinstance(node, ast.stmt | ast.Module):
            _drop_idle(node)
        if isinstance(node, ast.Constant):
            node.kind = None
        respell = _FORMS.get(type(node))
        if isinstance(node, ast.Expr | ast.Call) and _method_name(node) in self._own:
            return node
        made = respell(node) if respell is not None else node
        if isinstance(made, list):
            return [ast.copy_location(each, node) for each in made]
        return ast.copy_location(made, node) if made is not node else node


def _method_name(node: ast.Expr | ast.Call) -> str:
    call = node.value if isinstance(node, ast.Expr) else node
    return call.func.attr if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) else ""


def _drop_idle(node: ast.AST) -> None:
    """Drop `pass` and `...` beside other statements, and a bare `return` at a function's end."""
    for name in ("body", "orelse", "finalbody"):
        block = getattr(node, name, None)
        if not isinstance(block, list) or (not block and name != "body"):
            continue
        kept = [each for each in block if not _is_idle(each)]
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and kept and _returns_nothing(kept[-1]):
            kept.pop()
        if kept or not isinstance(node, ast.Module):
            block[:] = kept or [ast.copy_location(ast.Pass(), block[0] if block else node)]


def _is_idle(node: ast.stmt) -> bool:
    return isinstance(node, ast.Pass) or (isinstance(node, ast.Expr) and _is_constant(node.value, ...))


def _returns_nothing(node: ast.stmt) -> bool:
    return isinstance(node, ast.Return) and (node.value is None or _is_constant(node.value, None))


def _name(node: ast.expr) -> ast.AST:
    known = _ALIASES.get(ast.unparse(node)) if isinstance(node, ast.Name) or _is_plain(node) else None
    return ast.Name(known, ast.Load()) if known and isinstance(getattr(node, "ctx", None), ast.Load) else node


def _is_plain(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)


def _assert(node: ast.Assert) -> list[ast.AST]:
    """Return one statement per assertion. Asserting something false is another way to fail."""
    failure = ast.Raise(ast.Name("AssertionError", ast.Load()), None)
    return [failure if _is_constant(test, False) else ast.Assert(test) for test in _parts(node.test)]


def _parts(test: ast.expr) -> list[ast.expr]:
    waiting, parts = [test], list[ast.expr]()
    while waiting:
        part = waiting.pop()
        inner = part.operand if isinstance(part, ast.UnaryOp) and isinstance(part.op, ast.Not) else None
        if isinstance(part, ast.BoolOp) and isinstance(part.op, ast.And):
            waiting += reversed(part.values)
        elif isinstance(inner, ast.BoolOp) and isinstance(inner.op, ast.Or):
            waiting += [_not(ast.UnaryOp(ast.Not(), value)) for value in reversed(inner.values)]
        else:
            parts.append(part)
    return parts


def _is_constant(node: ast.expr, value: object) -> bool:
    return isinstance(node, ast.Constant) and node.value is value


def _raise(node: ast.Raise) -> ast.AST:
    if isinstance(node.exc, ast.Call) and isinstance(node.exc.func, ast.Name | ast.Attribute):
        is_failure = ast.unparse(node.exc.func) == "AssertionError"
        if is_failure or not (node.exc.args or node.exc.keywords):
            node.exc = node.exc.func
    return node


def _statement(node: ast.Expr) -> ast.AST | list[ast.AST]:
    """Write `self.assertEqual(a, b)` as `assert a == b`."""
    call = node.value
    if not (isinstance(call, ast.Call) and _is_plain(call.func) and all(each.arg == "msg" for each in call.keywords)):
        return node
    owner, _, name = ast.unparse(call.func).partition(".")
    test = _claimed(name, call.args) if owner in ("self", "cls") else None
    return node if test is None else _assert(ast.Assert(ast.copy_location(test, call)))


def _claimed(name: str, given: list[ast.expr]) -> ast.expr | None:
    if any(isinstance(each, ast.Starred) for each in given):
        return None
    if name in _COMPARED and len(given) in (2, 3):
        return _compare(ast.Compare(given[0], [_COMPARED[name]()], [given[1]]))
    if name in _WITH_NONE and len(given) in (1, 2):
        return ast.Compare(given[0], [_WITH_NONE[name]()], [ast.Constant(None)])
    if name in ("assertTrue", "assert_") and len(given) in (1, 2):
        return given[0]
    if name == "assertFalse" and len(given) in (1, 2):
        return _not(ast.UnaryOp(ast.Not(), given[0]))
    return None


def _not(node: ast.UnaryOp) -> ast.expr:
    inner = node.operand
    if isinstance(node.op, ast.Not) and isinstance(inner, ast.Compare) and len(inner.ops) == 1:
        negated = _NEGATED.get(type(inner.ops[0]))
        if negated is not None:
            return ast.Compare(inner.left, [negated()], inner.comparators)
    return node


def _compare(node: ast.Compare) -> ast.expr:
    """Write `1 == x` as `x == 1`."""
    right = node.comparators[0]
    mirrored = _MIRRORED.get(type(node.ops[0])) if len(node.ops) == 1 else None
    if mirrored is not None and _looks_constant(node.left) and not _looks_constant(right):
        return ast.Compare(right, [mirrored()], [node.left])
    return node


def _looks_constant(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) or (isinstance(node, ast.Name) and node.id.isupper())


def _call(node: ast.Call) -> ast.AST:
    if any(isinstance(each, ast.Starred) for each in node.args):
        return node
    if isinstance(node.func, ast.Attribute):
        return _method(node, node.func)
    if not isinstance(node.func, ast.Name) or node.keywords:
        return node
    return _collection(node, node.func.id) or _builtin(node, node.func.id)


def _builtin(node: ast.Call, name: str) -> ast.AST:
    match name, node.args:
        case "getattr", [whole, ast.Constant(value=str(part))] if part.isidentifier() and not part.startswith("__"):
            return ast.Attribute(whole, part, ast.Load())
        case "range", [ast.Constant(value=0), end]:
            node.args = [end]
        case "open", [path, ast.Constant(value="r" | "rt" | "U" | "rU")]:
            node.args = [path]
        case ("str", [ast.Constant(value=str())]) | ("bytes", [ast.Constant(value=bytes())]):
            return node.args[0]
        case _:
            pass
    return node


def _collection(node: ast.Call, name: str) -> ast.AST | None:
    match name, node.args:
        case "tuple", []:
            return ast.Tuple([], ast.Load())
        case "list", []:
            return ast.List([], ast.Load())
        case "dict", []:
            return ast.Dict([], [])
        case "set", [ast.List() | ast.Tuple() as made]:
            return ast.Set(made.elts) if made.elts else ast.Call(node.func, [], [])
        case "set", [ast.GeneratorExp() | ast.ListComp() as made]:
            return ast.SetComp(made.elt, made.generators)
        case "dict", [ast.GeneratorExp(elt=ast.Tuple(elts=[key, value])) as made]:
            return ast.DictComp(key, value, made.generators)
        case _:
            return None


def _method(node: ast.Call, called: ast.Attribute) -> ast.AST:
    """Respell `encode` and `format` of a literal text, assertions on raised errors, and tables of parameters."""
    text = called.value.value if isinstance(called.value, ast.Constant) else None
    if called.attr == "parametrize" and node.args:
        _respell_table(node)
    if called.attr in _AWAITED and ast.unparse(called.value) in ("self", "cls"):
        return _awaited(node, called.attr)
    if not isinstance(text, str):
        return node
    if called.attr == "encode" and text.isascii():
        return ast.Constant(text.encode()) if ast.unparse(node).lower().endswith(_AS_UTF_8) else node
    return from_format(node, text) if called.attr == "format" else node


def _awaited(node: ast.Call, name: str) -> ast.AST:
    """Write `self.assertRaisesRegex(ValueError, "x")` as `pytest.raises(ValueError, match="x")`."""
    given = node.args
    if name.endswith("Regex") and len(given) > 1:
        node.keywords.append(ast.keyword("match", given[1]))
        given = [given[0], *given[2:]]
    return ast.Call(ast.Attribute(ast.Name("pytest", ast.Load()), _AWAITED[name], ast.Load()), given, node.keywords)


def _respell_table(node: ast.Call) -> None:
    """Write the columns as one text, and rows as tuples if there are several columns."""
    names = node.args[0] = _columns(node.args[0])
    table = node.args[1] if len(node.args) > 1 else None
    if not (isinstance(names, ast.Constant) and isinstance(table, ast.List | ast.Tuple)):
        return
    rows = table.elts
    if "," in str(names.value):
        rows = [ast.copy_location(ast.Tuple(r.elts, ast.Load()), r) if isinstance(r, ast.List) else r for r in rows]
    node.args[1] = ast.copy_location(ast.List(rows, ast.Load()), table)


def _columns(names: ast.expr) -> ast.expr:
    if isinstance(names, ast.List | ast.Tuple) and len(names.elts) > 1:
        texts = [name.value for name in names.elts if isinstance(name, ast.Constant)]
        joined = ",".join(str(text) for text in texts) if len(texts) == len(names.elts) else None
    else:
        joined = names.value if isinstance(names, ast.Constant) and isinstance(names.value, str) else None
    return names if joined is None else ast.copy_location(ast.Constant(joined.replace(" ", "")), names)


def _defined(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> ast.AST:
    """Drop empty brackets of pytest's decorators, and `object` as a base class."""
    for at, each in enumerate(node.decorator_list):
        if (
            isinstance(each, ast.Call)
            and not (each.args or each.keywords)
            and ast.unparse(each.func).startswith("pytest.")
        ):
            node.decorator_list[at] = each.func
    if isinstance(node, ast.ClassDef):
        node.bases = [each for each in node.bases if not (isinstance(each, ast.Name) and each.id == "object")]
    return node


def _with(node: ast.With | ast.AsyncWith) -> ast.AST:
    """Write several managers as nested statements."""
    for item in reversed(node.items[1:]):
        node.body = [ast.copy_location(type(node)([item], node.body), node)]
    del node.items[1:]
    return node


_FORMS: dict[type[ast.AST], Callable[..., ast.AST | list[ast.AST]]] = {
    ast.Name: _name,
    ast.Attribute: _name,
    ast.Assert: _assert,
    ast.Raise: _raise,
    ast.Expr: _statement,
    ast.UnaryOp: _not,
    ast.Compare: _compare,
    ast.Call: _call,
    ast.BinOp: from_percent,
    ast.JoinedStr: join_parts,
    **dict.fromkeys((ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef), _defined),
    **dict.fromkeys((ast.With, ast.AsyncWith), _with),
}
