"""
The project's linter, in one file: python tools/lint.py [--fix] [--only RULE[,RULE]] PATH...

Always on: `syntax`, `bare-except`, `mutable-default`. `unused-import` and `import-order` run only where `--only` names
them, until all code obeys them; `--fix` mends these two. Prints PATH:LINE: RULE: SENTENCE and exits with 1 if anything
is left.
"""

import argparse
import ast
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

Finding = tuple[int, str, str]
Import = ast.Import | ast.ImportFrom
ALWAYS = ("syntax", "bare-except", "mutable-default")


def find_errors(tree: ast.Module) -> Iterator[Finding]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ExceptHandler) and node.type is None:
            yield node.lineno, "bare-except", "name the exception"
        if isinstance(node, ast.FunctionDef):
            for default in (*node.args.defaults, *node.args.kw_defaults):
                if isinstance(default, ast.List | ast.Dict | ast.Set):
                    yield default.lineno, "mutable-default", "all calls share this value"


def imports(tree: ast.Module) -> list[Import]:
    return [node for node in tree.body if isinstance(node, Import)]


def without_unused(source: str) -> str:
    tree = ast.parse(source)
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    lines = source.splitlines(keepends=True)
    # From the end, so that the lines before a replacement keep their numbers.
    for statement in reversed(imports(tree)):
        kept = [alias for alias in statement.names if (alias.asname or alias.name.partition(".")[0]) in used]
        if len(kept) < len(statement.names):
            statement.names = kept
            new = [ast.unparse(statement) + "\n"] if kept else []
            lines[statement.lineno - 1 : statement.end_lineno] = new
    return "".join(lines)


def sort_key(statement: Import) -> tuple[bool, bool, str, str]:
    """The standard library first, then `import` before `from`, then the alphabet."""
    is_from = isinstance(statement, ast.ImportFrom)
    name = statement.names[0].name
    module = statement.module if is_from else name
    return module.partition(".")[0] not in sys.stdlib_module_names, is_from, module, name


def sorted_imports(source: str) -> str:
    tree = ast.parse(source)
    block = imports(tree)
    if not block:
        return source
    lines = source.splitlines(keepends=True)
    wanted = ["\n"] if block[0].lineno > 1 and lines[block[0].lineno - 2].strip() else []
    before = None
    for statement in sorted(block, key=sort_key):
        if before is not None and sort_key(before)[0] != sort_key(statement)[0]:
            wanted.append("\n")
        wanted.append(ast.unparse(statement) + "\n")
        before = statement
    return "".join([*lines[: block[0].lineno - 1], *wanted, *lines[block[-1].end_lineno :]])


FIXERS: dict[str, Callable[[str], str]] = {"unused-import": without_unused, "import-order": sorted_imports}


def check(path: Path, rules: set[str], *, fix: bool) -> Iterator[Finding]:
    source = path.read_text(encoding="utf-8")
    try:
        tree = ast.parse(source)
    except SyntaxError as wrong:
        yield wrong.lineno or 1, "syntax", wrong.msg
        return
    yield from (finding for finding in find_errors(tree) if finding[1] in rules)
    for rule in FIXERS.keys() & rules:
        mended = FIXERS[rule](source)
        if mended != source and fix:
            path.write_text(source := mended, encoding="utf-8")
        elif mended != source:
            yield imports(tree)[0].lineno, rule, "run with --fix"


def main() -> int:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--fix", action="store_true")
    asked.add_argument("--only", default=",".join(ALWAYS))
    asked.add_argument("paths", nargs="+", type=Path)
    given = asked.parse_args()
    files = [file for path in given.paths for file in (sorted(path.rglob("*.py")) if path.is_dir() else [path])]
    left = 0
    for file in files:
        for line, rule, sentence in check(file, set(given.only.split(",")), fix=given.fix):
            print(f"{file}:{line}: {rule}: {sentence}")
            left += 1
    print(f"{len(files)} files, {left} findings")
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main())
