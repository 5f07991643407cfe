"""Which paths are tests, by name alone: what the runners of each language collect where nobody tells them otherwise."""

import re
from functools import lru_cache

from forgepool.supervisor.scans.languages.suite import name_set

_COLLECTED: dict[str, tuple[str, ...]] = {
    # The stricter ones first: what moves from one to a later one may be lost to a runner.
    "py": (r"(test_.*|.*_test)\.py", r"(tests?|test[A-Z0-9].*|.*_tests)\.py"),
    "js": (r".*[.\-_](test|spec|cy|e2e)\.[cm]?[jt]sx?",),
    "go": (r".*_test\.go",),
    "java": (r"(Test.*|.*(Test|Tests|TestCase|IT))\.(java|kt|groovy|scala)", r".*(Spec|Suite)\.(kt|groovy|scala)"),
    "rb": (r".*_(spec|test)\.rb", r"test_.*\.rb"),
    "php": (r".*Test\.php",),
    "cs": (r".*Tests?\.cs",),
    "c": (r"(test_.*|.*(_test|_unittest|Test|Tests))\.(c|cc|cpp|cxx|m|mm|swift)",),
    "ex": (r".*_test\.exs",),
    "sh": (r".*\.bats|test.*\.(sh|t)|.*[_-]test\.sh",),
}
_FAMILIES = {
    **dict.fromkeys(("js", "jsx", "ts", "tsx", "mjs", "cjs", "mts", "cts"), "js"),
    **dict.fromkeys(("java", "kt", "groovy", "scala"), "java"),
    **dict.fromkeys(("c", "cc", "cpp", "cxx", "m", "mm", "swift"), "c"),
    **dict.fromkeys(("sh", "bats", "t"), "sh"),
    "exs": "ex",
    "py": "py",
    "go": "go",
    "rb": "rb",
    "php": "php",
    "cs": "cs",
    "rs": "rs",
}
_FOLDERS = name_set("tests test __tests__ spec specs e2e testing __snapshots__ testdata integration-tests")
_UNSEEN = name_set("node_modules build dist venv .venv vendor third_party __pycache__ CVS _darcs")
_PROSE = frozenset(["md", "rst", "txt", "adoc"])
_SYSTEMS = "aix android darwin dragonfly freebsd illumos ios js netbsd openbsd plan9 solaris wasip1 windows"
_ARCHITECTURES = "386 arm loong64 mips mips64 mipsle ppc64 ppc64le riscv64 s390x wasm"
_ELSEWHERE = re.compile(rf"_({'|'.join((*_SYSTEMS.split(), *_ARCHITECTURES.split()))})_test\.go$")


@lru_cache(maxsize=65536)
def rank(path: str) -> int:
    """How surely runners collect the file: 2 by every habit, 1 by some, 0 by none."""
    folders, name = path.split("/")[:-1], path.rpartition("/")[2]
    family = _FAMILIES.get(name.rpartition(".")[2], "")
    if any(folder in _UNSEEN or folder.startswith(".") for folder in folders):
        return 0
    if family == "go" and (
        _ELSEWHERE.search(name) or any(one == "testdata" or one[0] == "_" for one in path.split("/"))
    ):
        return 0
    for at, pattern in enumerate(_COLLECTED.get(family, ())):
        if re.fullmatch(pattern, name):
            return 2 - at
    if family == "js" and "__tests__" in folders:
        return 2
    # mocha takes whatever lies in `test`, cargo what lies directly in `tests`.
    loose = (family == "js" and "test" in folders) or (family == "rs" and folders[-1:] == ["tests"])
    return 1 if loose else 0


def is_test(path: str) -> bool:
    """Is it a file that holds tests?"""
    return rank(path) > 0


def beside_tests(path: str) -> bool:
    """Does it lie where tests do, though it may hold none: their data, their helpers?"""
    *folders, name = path.split("/")
    return is_test(path) or name == "conftest.py" or any(folder in _FOLDERS for folder in folders)


def is_code(path: str) -> bool:
    """Is it part of what is tested, and neither a test nor prose?"""
    return not beside_tests(path) and path.rpartition(".")[2] not in _PROSE
