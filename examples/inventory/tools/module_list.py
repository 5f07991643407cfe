"""Writes docs/modules.md, every module with the first line of its docstring: python tools/module_list.py [--check]"""

import ast
import sys
from pathlib import Path

PAGE = Path("docs/modules.md")


def page() -> str:
    rows = ["# Modules", "", "Written by `tools/module_list.py`.", "", "| module | about |", "|---|---|"]
    for path in sorted(Path("src/inventory").glob("*.py")):
        text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "(no docstring)"
        rows.append(f"| {path.stem} | {text.splitlines()[0]} |")
    return "\n".join(rows) + "\n"


if __name__ == "__main__":
    if sys.argv[1:] == ["--check"]:
        sys.exit(0 if PAGE.read_text(encoding="utf-8") == page() else f"{PAGE} is not up to date")
    PAGE.write_text(page(), encoding="utf-8")
