"""
Prints the figures of the code itself: its size, its folders, its names and its language.

    python benchmarks/house.py            the table
    python benchmarks/house.py --list     each place behind a figure as well, as FILE:LINE

It counts the four packages. `tests/project/test_house.py` holds the figures, so that none of them gets worse.
"""

import ast
import inspect
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("orchestrator", "supervisor", "workers", "worktrees")
EXTRAS = (
    "workers/tools/lsp/",
    "workers/tools/mcp/",
    "orchestrator/interfaces/export/",
    "orchestrator/interfaces/acp/",
    "orchestrator/interfaces/mcp/",
    "orchestrator/interfaces/watch/",
    "orchestrator/interfaces/rest/",
    "orchestrator/interfaces/web/",
    "orchestrator/merge_queue/http_",
)
"""Beginnings of the paths that serve an optional extra alone."""
MOST_ENTRIES = 12
"""Number of entries that a folder may have."""
LONGEST_MODULE, LONGEST_FUNCTION, LONGEST_SENTENCE = 400, 50, 25
"""Lines of a module, lines of a function, and words of a sentence."""
AVOIDED = re.compile(
    r"\b(whoever|whom|nobody|somebody|anybody|besides|be it|anew|thereof|of which|what is \w+ is)\b", re.IGNORECASE
)
"""Words that a reader has to read twice."""
OPENING = re.compile(r"\s*(What|Who|Whose|Of|As|Whether|Where)\b")
"""Beginnings of docstrings that are dependent clauses."""
_PARTICIPLE = re.compile(r"(?!(?:need|feed|seed|embed|proceed|succeed|exceed|shed|speed|breed)(?:_|$))\w*?ed(?:_|$)")
_IRREGULAR = frozenset(
    (
        "told",
        "said",
        "shown",
        "given",
        "born",
        "kept",
        "found",
        "seen",
        "held",
        "made",
        "taken",
        "known",
        "written",
        "sent",
        "begun",
        "done",
        "gone",
        "lost",
        "met",
        "bound",
        "built",
        "bought",
        "brought",
        "caught",
        "chosen",
        "drawn",
        "driven",
        "fallen",
        "felt",
        "forgotten",
        "grown",
        "heard",
        "hidden",
        "laid",
        "led",
        "lent",
        "meant",
        "paid",
        "sold",
        "sought",
        "spent",
        "spoken",
        "stood",
        "swept",
        "thought",
        "thrown",
        "understood",
        "woken",
        "won",
        "worn",
    )
)


@dataclass(frozen=True, slots=True)
class Module:
    path: Path
    text: str
    tree: ast.Module

    @property
    def name(self) -> str:
        parts = self.path.relative_to(ROOT).with_suffix("").parts
        return ".".join(("forgepool", *(parts[:-1] if parts[-1] == "__init__" else parts)))

    def at(self, line: int) -> str:
        return f"{self.path.relative_to(ROOT)}:{line}"


@cache
def modules() -> tuple[Module, ...]:
    files = sorted(file for package in PACKAGES for file in (ROOT / package).rglob("*.py"))
    return tuple(Module(file, text := file.read_text(), ast.parse(text)) for file in files)


def figures() -> Mapping[str, list[str]]:
    """Return, for each figure that should be zero, the places that count towards it."""
    found: dict[str, list[str]] = {
        "folders with too many entries": list(_full_folders()),
        "modules in import circles": list(_circles()),
        "modules too long": [
            f"{one.at(1)} {lines}" for one in modules() if (lines := one.text.count("\n")) > LONGEST_MODULE
        ],
        "class names used twice": list(_shared_classes()),
    }
    for kind in ("functions too long", "participles as function names", *_DOCSTRING_FIGURES, "avoided words in texts"):
        found[kind] = []
    for module in modules():
        for kind, place in _in_module(module):
            found[kind].append(place)
    return found


_DOCSTRING_FIGURES = (
    "docstrings with avoided words",
    "docstrings that open with a clause",
    "docstrings with long sentences",
)


def _in_module(module: Module) -> Iterator[tuple[str, str]]:
    documented = set[ast.Constant]()
    for node in ast.walk(module.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            if (node.end_lineno or node.lineno) - node.lineno + 1 > LONGEST_FUNCTION:
                yield "functions too long", f"{module.at(node.lineno)} {node.name}"
            if _is_participle(node):
                yield "participles as function names", f"{module.at(node.lineno)} {node.name}"
        body = getattr(node, "body", None)
        for statement in body if isinstance(body, list) else ():
            match statement:
                case ast.Expr(value=ast.Constant(value=str(text)) as constant):
                    documented.add(constant)
                    for kind in _faults(text):
                        yield kind, f"{module.at(statement.lineno)} {text.strip().splitlines()[0][:80]}"
    for node in ast.walk(module.tree):
        match node:
            case ast.Constant(value=str(text)) if node not in documented and " " in text and AVOIDED.search(text):
                yield "avoided words in texts", f"{module.at(node.lineno)} {text.strip()[:80]}"


def _is_participle(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Tell whether a public function, other than a property, has a name that begins with a bare participle."""
    name = function.name
    if name.startswith("_") or any("property" in ast.unparse(one) for one in function.decorator_list):
        return False
    return name.split("_")[0] in _IRREGULAR or _PARTICIPLE.match(name.split("_")[0]) is not None


def _faults(docstring: str) -> Iterator[str]:
    if AVOIDED.search(docstring):
        yield _DOCSTRING_FIGURES[0]
    if OPENING.match(docstring):
        yield _DOCSTRING_FIGURES[1]
    # A block indented by four more spaces is a table or an example.
    text = re.sub(r"(?m)^ {4,}.*$", "", inspect.cleandoc(docstring.split("Raises:")[0]))
    prose = re.sub(r"`[^`]*`", "code", text)
    if any(len(sentence.split()) > LONGEST_SENTENCE for sentence in re.split(r"(?<=[.!?;:])\s+|\n\s*\n", prose)):
        yield _DOCSTRING_FIGURES[2]


def _full_folders() -> Iterator[str]:
    for top in (*PACKAGES, "tests", "docs", "benchmarks"):
        for folder in (ROOT / top, *(one for one in (ROOT / top).rglob("*") if one.is_dir())):
            entries = [one for one in folder.iterdir() if one.name != "__pycache__" and not one.name.startswith(".")]
            if folder.name != "__pycache__" and len(entries) > MOST_ENTRIES:
                yield f"{folder.relative_to(ROOT)} {len(entries)}"


def _shared_classes() -> Iterator[str]:
    places = defaultdict[str, list[str]](list)
    for module in modules():
        for node in module.tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(module.at(node.lineno))
    for name, where in sorted(places.items()):
        if len(where) > 1:
            yield f"{name} {' '.join(where)}"


def _circles() -> Iterator[str]:
    """Yield the modules that import themselves through others, at import time."""
    graph = _imports()
    for name in graph:
        seen, waiting = set[str](), list(graph[name])
        while waiting:
            other = waiting.pop()
            if other not in seen:
                seen.add(other)
                waiting += graph[other]
        if name in seen:
            yield name


def _imports() -> dict[str, set[str]]:
    known = {one.name for one in modules()}
    graph = {name: set[str]() for name in known}
    for module in modules():
        for node in module.tree.body:
            match node:
                case ast.ImportFrom(module=str(source), names=names, level=0) if source.startswith("forgepool"):
                    inner = {f"{source}.{one.name}" for one in names}
                    graph[module.name] |= (inner & known) or ({source} & known)
                case ast.Import(names=names):
                    graph[module.name] |= {one.name for one in names} & known
    return graph


def sizes() -> Counter[str]:
    """Return the neutral figures: modules, lines, comment lines and docstring lines."""
    count = Counter(modules=len(modules()))
    for module in modules():
        count["lines"] += module.text.count("\n")
        if str(module.path.relative_to(ROOT)).startswith(EXTRAS):
            count["lines of them for extras"] += module.text.count("\n")
        count["comment lines"] += sum(line.lstrip().startswith("#") for line in module.text.splitlines())
        count["docstring lines"] += sum(
            (statement.end_lineno or 0) - statement.lineno + 1
            for node in ast.walk(module.tree)
            for statement in (getattr(node, "body", None) if isinstance(getattr(node, "body", None), list) else ())
            if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        )
    return count


def main() -> None:
    for name, number in sizes().items():
        print(f"{number:>7}  {name}")
    for name, places in figures().items():
        print(f"{len(places):>7}  {name}")
        if "--list" in sys.argv:
            print("".join(f"         {place}\n" for place in places), end="")


if __name__ == "__main__":
    main()
