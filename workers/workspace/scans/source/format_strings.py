"""Formatted Python texts in one spelling: `format` and `%` as f-strings, f-strings without a field as plain texts."""

import ast
import re
import string

_PERCENT = re.compile(r"%(?:(%)|([sr]))")


def from_format(node: ast.Call, text: str) -> ast.AST:
    """Write `"{} {}".format(a, b)` as `f"{a} {b}"`, if its fields are only names or numbers."""
    named = {each.arg: each.value for each in node.keywords}
    parts: list[ast.expr] = []
    given: list[ast.expr] = []
    try:
        for literal, field, spec, conversion in string.Formatter().parse(text):
            parts += [ast.Constant(literal)] if literal else []
            if field is None:
                continue
            at = len(given) if not field else int(field) if field.isdecimal() else field
            value = node.args[at] if isinstance(at, int) else named[at]
            if "{" in (spec or ""):
                return node
            given.append(value)
            parts.append(_field(value, conversion, spec))
    except (ValueError, LookupError):
        return node
    return join_parts(ast.JoinedStr(parts)) if len(given) == len(node.args) + len(named) else node


def _field(value: ast.expr, conversion: str | None, spec: str | None = None) -> ast.expr:
    shown = ast.JoinedStr([ast.Constant(spec)]) if spec else None
    return ast.FormattedValue(value, ord(conversion) if conversion else -1, shown)


def from_percent(node: ast.BinOp) -> ast.AST:
    """Write `"%s" % (a,)` as `f"{a}"`."""
    text = node.left.value if isinstance(node.left, ast.Constant) else None
    if not (isinstance(node.op, ast.Mod) and isinstance(text, str) and isinstance(node.right, ast.Tuple)):
        return node
    given = list(node.right.elts)
    if text.count("%") != sum(len(found[0].rstrip("sr")) for found in _PERCENT.finditer(text)):
        return node
    parts: list[ast.expr] = []
    at = 0
    for found in _PERCENT.finditer(text):
        parts += [ast.Constant(text[at : found.start()])] if found.start() > at else []
        at = found.end()
        if found[1] is None and not given:
            return node
        parts.append(ast.Constant("%") if found[1] else _field(given.pop(0), "r" if found[2] == "r" else None))
    parts += [ast.Constant(text[at:])] if at < len(text) else []
    return node if given else join_parts(ast.JoinedStr(parts))


def join_parts(node: ast.JoinedStr) -> ast.expr:
    """Join neighbouring texts, and turn an f-string without a field into a plain text."""
    parts: list[ast.expr] = []
    for part in node.values:
        if isinstance(part, ast.FormattedValue):
            part = _without_str(part)
        if isinstance(part, ast.Constant) and parts and isinstance(parts[-1], ast.Constant):
            parts[-1] = ast.Constant(str(parts[-1].value) + str(part.value))
        else:
            parts.append(part)
    if all(isinstance(part, ast.Constant) for part in parts):
        return parts[0] if parts else ast.Constant("")
    return ast.JoinedStr(parts)


def _without_str(part: ast.FormattedValue) -> ast.FormattedValue:
    """Write `{repr(x)}` as `{x!r}`, and the like."""
    value = part.value
    match value:
        case ast.Call(func=ast.Name(id="str" | "repr" | "ascii" as name), args=[inner], keywords=[]):
            return ast.FormattedValue(inner, ord(name[0]), part.format_spec) if part.conversion == -1 else part
        case _:
            return part
