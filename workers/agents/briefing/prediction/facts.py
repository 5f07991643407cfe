"""The names that a file defines and the modules that it imports, by the look of its lines, in any language."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from forgepool.worktrees.git.git import Git

_MODIFIERS = "export|default|declare|pub|public|private|protected|internal|abstract|final|static|async|unsafe|inline"
_KEYWORDS = (
    "def|class|function|func|fn|struct|interface|trait|enum|type|impl|module|mod|record|protocol|object|union|namespace"
    "|const|let|var|val|macro_rules!|#define|create table|CREATE TABLE"
)
_DEFINED = re.compile(
    rf"[ \t]*(?:(?:{_MODIFIERS})[ \t]+)*(?:{_KEYWORDS})[ \t]+(?:\([^)]*\)[ \t]*)?([A-Za-z_]\w*)"
    r"|([A-Za-z_]\w*)[ \t]*(?::[^=]*)?=(?!=)"
)
_IMPORTING = re.compile(
    r"[ \t]*(?:from|import|export|use|pub use|mod|#[ \t]*include|require|require_relative)[ \t(]|.*\brequire\("
)
_PYTHON = re.compile(r"\s*(?:from\s+([\w.]+)\s+import\s+(.*)|import\s+([\w., \t]+))")
_QUOTED = re.compile(r"""["'<]([\w@./-]+)["'>]""")
_DOTTED = re.compile(r"\s*(?:import|use|pub use|mod)\s+(?:static\s+)?([\w.:]+)")
_LARGE = 200_000
"""A longer file is data, or made by a program."""
_MOST_BYTES = 30_000_000
"""The contents read for one question; Python reads some 20 MB in a second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFacts:
    defines: frozenset[str] = frozenset()
    imports: frozenset[str] = frozenset()
    """Modules as paths without a suffix; one that begins with `.` is relative to the file's folder."""


NOTHING = FileFacts()


def read_facts(git: Git, ids: Iterable[str], *, timeout_s: float) -> dict[str, FileFacts]:
    """
    Return the facts of these contents by their ids. Large ones, binary ones, and all beyond a limit are left out.

    Raises:
        GitFailed: git was not done in time.
    """
    chosen = list(_affordable(git, "\n".join(ids).encode(), timeout_s))
    output = git.run("cat-file", "--batch", stdin="\n".join(chosen).encode(), timeout_s=timeout_s).stdout
    found, at = dict[str, FileFacts](), 0
    for content in chosen:
        end = output.index(b"\n", at)
        size = int(output[at:end].rpartition(b" ")[2])
        data, at = output[end + 1 : end + 1 + size], end + size + 2
        if b"\0" not in data:
            found[content] = facts_of(data.decode(errors="replace"))
    return found


def _affordable(git: Git, ids: bytes, timeout_s: float) -> Iterator[str]:
    room = _MOST_BYTES
    checked = git.run(
        "cat-file", "--batch-check=%(objectname) %(objecttype) %(objectsize)", stdin=ids, timeout_s=timeout_s
    )
    for line in checked.text.splitlines():
        name, kind, size = line.split(" ") if line.count(" ") == 2 else ("", "", "0")
        if kind == "blob" and int(size) <= _LARGE:
            room -= int(size)
            if room < 0:
                return
            yield name


def facts_of(text: str) -> FileFacts:
    lines = [each for line in set(text.split("\n")) if (each := _facts_of_line(line[:300])) is not NOTHING]
    return FileFacts(
        defines=frozenset().union(*(line.defines for line in lines)),
        imports=frozenset().union(*(line.imports for line in lines)),
    )


@lru_cache(maxsize=200_000)
def _facts_of_line(line: str) -> FileFacts:
    """Most lines of a file's versions are the same, and are kept."""
    match = _DEFINED.match(line)
    defines = frozenset(name for name in match.groups() if name) if match else frozenset()
    imports = frozenset(_imported(line)) if _IMPORTING.match(line) else frozenset()
    return FileFacts(defines=defines, imports=imports) if defines or imports else NOTHING


def _imported(line: str) -> Iterator[str]:
    if quoted := _QUOTED.findall(line):
        # JavaScript, C, Go, Ruby: a path, with or without a suffix.
        yield from (re.sub(r"\.\w+$", "", each) for each in quoted)
    elif match := _PYTHON.match(line):
        if match[1]:
            module = _relative(match[1])
            yield module
            names = re.findall(r"(\w+)(?:\s+as\s+\w+)?", match[2].partition("#")[0])
            yield from (f"{module.rstrip('/')}/{name}" for name in names)
        else:
            yield from (each.split(" as ")[0].strip().replace(".", "/") for each in match[3].split(","))
    elif match := _DOTTED.match(line):
        parts = [part for part in re.split(r"::|\.", match[1]) if part not in ("crate", "self", "super", "")]
        yield from ("/".join(parts[:count]) for count in range(1, len(parts) + 1))


def _relative(module: str) -> str:
    """Spell `.part` as `./part` and `..part` as `../part`; a module without dots in front keeps its place."""
    name = module.lstrip(".")
    dots = len(module) - len(name)
    return ("./" if dots == 1 else "../" * (dots - 1)) * bool(dots) + name.replace(".", "/")
