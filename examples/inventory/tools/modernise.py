"""
Rewrites old spellings in Python files: python tools/modernise.py typing|f-strings FILE...

`typing`: List[X] becomes list[X], Optional[X] becomes X | None, Union[X, Y] becomes X | Y. `f-strings`: a literal
with % and a tuple or a call becomes an f-string where each mark is a plain %s or %d; any other mark is left alone.
"""

import ast
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

BUILTIN = {"List": "list", "Dict": "dict", "Set": "set", "Tuple": "tuple"}


def modern_type(node: ast.expr) -> ast.expr | None:
    """The new spelling of one type, its parts included; None where it is new already."""
    if not (isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name)):
        return None
    inner = [modern_type(part) or part for part in parts(node.slice)]
    match node.value.id:
        case "Optional":
            return union([*inner, ast.Constant(None)])
        case "Union":
            return union(inner)
        case name:
            whole = inner[0] if len(inner) == 1 else ast.Tuple(inner, ast.Load())
            return ast.Subscript(ast.Name(BUILTIN.get(name, name), ast.Load()), whole, ast.Load())


def parts(node: ast.expr) -> list[ast.expr]:
    return node.elts if isinstance(node, ast.Tuple) else [node]


def union(types: list[ast.expr]) -> ast.expr:
    whole = types[0]
    for each in types[1:]:
        whole = ast.BinOp(whole, ast.BitOr(), each)
    return whole


def f_string(node: ast.expr) -> ast.expr | None:
    if not (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod) and isinstance(node.left, ast.Constant)):
        return None
    pieces = re.split(r"(%.)", node.left.value)
    values = list(parts(node.right))
    marks = [piece for piece in pieces if piece.startswith("%")]
    if set(marks) - {"%s", "%d"} or len(marks) != len(values):
        return None
    joined = [
        ast.FormattedValue(values.pop(0), -1, None) if piece in ("%s", "%d") else ast.Constant(piece)
        for piece in pieces
        if piece
    ]
    return ast.JoinedStr(joined)


def outermost(node: ast.AST, change: Callable[[ast.expr], ast.expr | None]) -> Iterator[tuple[ast.expr, ast.expr]]:
    for child in ast.iter_child_nodes(node):
        new = change(child) if isinstance(child, ast.expr) else None
        if new is not None and ast.dump(new) != ast.dump(child):
            yield child, new
        else:
            yield from outermost(child, change)


def rewritten(source: str, change: Callable[[ast.expr], ast.expr | None]) -> str:
    lines = source.splitlines(keepends=True)
    places = sorted(outermost(ast.parse(source), change), key=lambda place: (place[0].lineno, place[0].col_offset))
    # From the end, so that the columns before a replacement stay true.
    for old, new in reversed(places):
        if old.lineno == old.end_lineno:
            line = lines[old.lineno - 1]
            new_text = ast.unparse(ast.fix_missing_locations(new))
            lines[old.lineno - 1] = line[: old.col_offset] + new_text + line[old.end_col_offset :]
    return "".join(lines)


def main(what: str, *paths: str) -> None:
    change = {"typing": modern_type, "f-strings": f_string}[what]
    for path in map(Path, paths):
        source = path.read_text(encoding="utf-8")
        path.write_text(rewritten(source, change), encoding="utf-8")
        print(f"{path}: {what}")


if __name__ == "__main__":
    main(*sys.argv[1:])
