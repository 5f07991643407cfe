"""
Renames a name in the Python files given: python tools/rename_name.py OLD NEW FILE...

Works on tokens, so comments and longer names that contain OLD stay as they are. A string that is exactly OLD, as
in `__all__`, is renamed too.
"""

import io
import sys
import tokenize
from pathlib import Path


def places(source: str, old: str) -> list[tuple[int, int]]:
    """Line and column of every OLD, both from zero."""
    found = []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        row, column = token.start
        if token.type == tokenize.NAME and token.string == old:
            found.append((row - 1, column))
        elif token.type == tokenize.STRING and token.string in (f'"{old}"', f"'{old}'"):
            found.append((row - 1, column + 1))
    return found


def renamed(source: str, old: str, new: str) -> str:
    lines = source.splitlines(keepends=True)
    # From the end, so that the columns before a replacement stay true.
    for row, column in reversed(places(source, old)):
        lines[row] = lines[row][:column] + new + lines[row][column + len(old) :]
    return "".join(lines)


def main(old: str, new: str, *paths: str) -> None:
    if not paths:
        sys.exit(f"no file uses {old}; name at least one")
    for path in map(Path, paths):
        source = path.read_text(encoding="utf-8")
        path.write_text(renamed(source, old, new), encoding="utf-8")
        print(f"{path}: {len(places(source, old))} renamed")


if __name__ == "__main__":
    main(*sys.argv[1:])
