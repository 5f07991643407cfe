"""
Drops a function that another module has too, and imports it instead:
python tools/drop_duplicate.py NAME FILE MODULE

Refuses when FILE's NAME and MODULE's NAME are not the same code.
"""

import ast
import sys
from pathlib import Path


def function(source: str, name: str) -> ast.FunctionDef:
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef) and node.name == name:
            return node
    sys.exit(f"no function {name} at the top level")


def code(node: ast.FunctionDef) -> str:
    """The function without its docstring and comments, for comparing."""
    body = node.body[1:] if ast.get_docstring(node) is not None else node.body
    return ast.dump(ast.Module([node.args, *body], []))


def without(source: str, node: ast.FunctionDef) -> str:
    lines = source.splitlines(keepends=True)
    before, after = lines[: node.lineno - 1], lines[node.end_lineno :]
    return "".join(before).rstrip("\n") + "\n\n\n" + "".join(after).lstrip("\n")


def with_import(source: str, statement: str) -> str:
    """The source with one more import, below the last one at the top level."""
    imports = [n for n in ast.parse(source).body if isinstance(n, (ast.Import, ast.ImportFrom))]
    lines = source.splitlines(keepends=True)
    lines.insert(imports[-1].end_lineno if imports else 0, statement + "\n")
    return "".join(lines)


def main(name: str, file: str, module: str) -> None:
    path = Path(file)
    kept = function(Path("src", *module.split(".")).with_suffix(".py").read_text(encoding="utf-8"), name)
    source = path.read_text(encoding="utf-8")
    dropped = function(source, name)
    if code(kept) != code(dropped):
        sys.exit(f"{name} in {file} and in {module} are not the same code")
    path.write_text(with_import(without(source, dropped), f"from {module} import {name}"), encoding="utf-8")
    print(f"{file}: {name} now comes from {module}")


if __name__ == "__main__":
    main(*sys.argv[1:])
