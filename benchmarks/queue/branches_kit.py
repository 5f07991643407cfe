"""
A real repository whose branches have known right outcomes, and the inspection of a queue's history afterwards.

The project is `examples/inventory`. A `conftest.py` beside its tests tells a shop of every run of them. It also has a
fixture that makes a test flaky. The shop is cold the first time such a test asks about a tree, and open the second
time. This holds for the first three trees that a test asks about, like a service that wakes up slowly.

The shop is a UNIX socket outside the checkout. It lies in a folder of the PATH, so that commands held by bubblewrap see
it as well: a file that a check writes is visible to that check alone.
"""

import os
import random
import re
import shutil
import socketserver
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

Kind = Literal["good", "bad", "flaky", "textual", "semantic"]
PROJECT = Path(__file__).parents[2] / "examples" / "inventory"
CONFTEST = '''"""Tells the shop of every run of the tests, and asks it whether it is open."""

import hashlib
import os
import socket
from pathlib import Path

import pytest

PLACE = Path(__file__).parent.parent


def tree_name():
    files = sorted((*PLACE.glob("src/**/*.py"), *PLACE.glob("tests/*.py")))
    parts = (str(one.relative_to(PLACE)).encode() + one.read_bytes() for one in files)
    return hashlib.sha256(b"".join(parts)).hexdigest()


def ask(*words):
    with socket.socket(socket.AF_UNIX) as there:
        there.connect(os.environ["BRANCHES_SHOP"])
        there.sendall(" ".join(words).encode() + b"\\n")
        return there.recv(99).decode().strip()


def pytest_sessionstart(session):
    if ask("run", tree_name()) == "broken":
        raise pytest.UsageError("a library of this host is gone")


@pytest.fixture
def shop(request):
    said = ask("open", tree_name(), request.node.name)
    assert said == "open", "the shop is " + said
    return said
'''
COLD_TREES = 3
BROKEN_RUNS = 10
WORK = '''"""Price list {number}."""

from decimal import Decimal

from inventory.money import percent_of, round_cents


def price_{number}(net):
    return round_cents(net {sign} percent_of(net, {percent}))


def prices_{number}(nets):
    return [price_{number}(Decimal(one)) for one in nets]
'''
TEST = """from decimal import Decimal

from inventory.list_{number} import price_{number}, prices_{number}


def test_price_{number}({shop}):
    assert price_{number}(Decimal("100.00")) == Decimal("1{percent:02}.00")


def test_prices_{number}():
    assert len(prices_{number}(["1", "2"])) == 2
"""
CALLER = '''"""What list {number} needs of {module}."""

from inventory.{module} import {name}


def wanted_{number}():
    return {name}
'''
CALLER_TEST = """from inventory.caller_{number} import wanted_{number}


def test_wanted_{number}():
    assert wanted_{number}()
"""
FIRST_LINES = (
    "src/inventory/money.py",
    "src/inventory/stock.py",
    "src/inventory/validation.py",
    "src/inventory/__init__.py",
    "src/inventory/catalog.py",
    "README.md",
)
RENAMED = (
    ("text", "shorten", "abbreviated"),
    ("labels", "shelf_label", "label_of"),
    ("reports", "stock_row", "row_of"),
    ("units", "GRAMS", "GRAMS_OF"),
    ("csvio", "COLUMNS", "HEADINGS"),
    ("suppliers", "DEFAULT_LEAD_DAYS", "USUAL_LEAD_DAYS"),
)
"""Modules, a name in each that no test of the project mentions, and its new name."""
WHO = {"NAME": "B", "EMAIL": "b@forgepool.invalid"}
MOST_BRANCHES = 15 * len(RENAMED) + 14


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    name: str
    kind: Kind
    pair: int = 0
    partner: str = ""
    """Name of the other branch of the pair; empty without a pair."""
    second: bool = False
    commit: str = ""


@dataclass(slots=True, kw_only=True)
class Ended:
    """The outcome of a queue's work on the branches."""

    wall_s: float = 0.0
    landed: set[str] = field(default_factory=set)
    returned: dict[str, str] = field(default_factory=dict)
    """Returned branches, each with the branch that the queue blames; empty where it blames none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """The commits at which the target stood after a queue's work; each was checked once more in a plain checkout."""

    moves: tuple[str, ...]
    red_moves: tuple[str, ...]
    brought: Mapping[str, int]
    """Number of first-parent commits that brought each branch in."""


@dataclass(slots=True)
class Book:
    """The shop's record of one queue's work."""

    calm: bool = False
    broken_from: int = 0
    """The number of the first run that finds the tool broken, as do those after it, `BROKEN_RUNS` in all; 0 is none."""
    runs: list[str] = field(default_factory=list)
    """The tree of each run."""
    asked: dict[str, set[str]] = field(default_factory=dict)
    """Trees that each test has asked about."""

    def answer(self, what: str, tree: str, test: str = "") -> str:
        if what == "run":
            self.runs.append(tree)
            at = len(self.runs)
            return "broken" if 0 < self.broken_from <= at < self.broken_from + BROKEN_RUNS else "noted"
        seen = self.asked.setdefault(test, set())
        is_cold = tree not in seen and len(seen) < COLD_TREES and not self.calm
        seen.add(tree)
        return "cold" if is_cold else "open"


class _Counter(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        assert isinstance(self.server, Shop)
        words = self.rfile.readline().decode().split()
        self.wfile.write(f"{self.server.book.answer(*words)}\n".encode())


class Shop(socketserver.UnixStreamServer):
    """A server that answers one request at a time, so that runs that ask together get their answers in turn."""

    book = Book()


@contextmanager
def opened(folder: Path) -> Iterator[Shop]:
    (folder / "bin").mkdir()
    # A gate that root serves runs its checks as another user, who has to reach the socket.
    folder.chmod(0o755)
    with Shop(str(shop_of(folder)), _Counter) as shop:
        shop_of(folder).chmod(0o666)
        thread = threading.Thread(target=shop.serve_forever, daemon=True)
        thread.start()
        try:
            yield shop
        finally:
            shop.shutdown()
            thread.join()


def shop_of(folder: Path) -> Path:
    return folder / "bin" / "shop"


def git(folder: Path, *argv: str, stdin: str | None = None, ok: Sequence[int] = (0,)) -> str:
    """Return git's output; raises AssertionError where its exit status is not in `ok`."""
    return said_by_git(folder, *argv, stdin=stdin, ok=ok)[1]


def said_by_git(folder: Path, *argv: str, stdin: str | None = None, ok: Sequence[int] = (0, 1)) -> tuple[int, str]:
    ran = subprocess.run(
        ["git", *argv], cwd=folder, env=plain_environment(), input=stdin, capture_output=True, text=True, check=False
    )
    assert ran.returncode in ok, f"git {' '.join(argv)}: {ran.stderr}"
    return ran.returncode, ran.stdout.strip()


def plain_environment(**more: str) -> dict[str, str]:
    """Return every command's environment: no user's git configuration, and this Python's programs before others."""
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("FORGEPOOL_", "GIT_"))}
    who = {f"GIT_{one}_{what}": said for one in ("AUTHOR", "COMMITTER") for what, said in WHO.items()}
    return kept | who | {"PATH": path, "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull} | more


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """The repository with its branches, and the shop that knows of every run of its checks."""

    folder: Path
    shop: Shop
    branches: tuple[Branch, ...]
    """All branches, in the order of submission."""

    @property
    def seed(self) -> Path:
        return self.folder / "seed"

    @property
    def check(self) -> str:
        return check_of(self.folder)

    def fresh(self, queue: str) -> Path:
        """Return a bare hub with `main` alone, which logs each of its moves; start the shop's record afresh."""
        self.shop.book = Book()
        hub = self.folder / f"{queue}.git"
        git(self.folder, "clone", "-q", "--bare", "--single-branch", "--branch", "main", str(self.seed), str(hub))
        git(hub, "config", "core.logAllRefUpdates", "always")
        return hub


def check_of(folder: Path) -> str:
    return f"env BRANCHES_SHOP={shop_of(folder)} PYTHONPATH=src PYTHONDONTWRITEBYTECODE=1 pytest -q -p no:cacheprovider"


def make_ground(folder: Path, shop: Shop, count: int, seed: int) -> Ground:
    """Make the repository with `count` branches of one commit each, all on the same first commit."""
    place = folder / "seed"
    shutil.copytree(PROJECT, place, ignore=shutil.ignore_patterns("__pycache__", ".*_cache"))
    (place / "tests" / "conftest.py").write_text(CONFTEST)
    (place / "forgepool.yaml").write_text(f"version: 1\nchecks:\n  test: {check_of(folder)}\n")
    (place / ".mergetrain.yaml").write_text(
        f"version: 2\nproject:\n  name: inventory\ngates:\n  - name: test\n    run: {check_of(folder)}\n"
    )
    (place / ".gitignore").write_text("__pycache__/\n.mergetrain/\n")
    git(place, "init", "-q", "-b", "main")
    git(place, "add", "-A")
    git(place, "commit", "-q", "-m", "first")
    branches = []
    for branch in planted(count, random.Random(seed)):
        git(place, "checkout", "-q", "-b", branch.name, "main")
        write(branch, place)
        git(place, "add", "-A")
        git(place, "commit", "-q", "-m", f"{branch.kind} {branch.name}")
        made = git(place, "rev-parse", "HEAD")
        branches.append(replace(branch, commit=made))
    git(place, "checkout", "-q", "main")
    return Ground(folder=folder, shop=shop, branches=tuple(branches))


def planted(count: int, chance: random.Random) -> list[Branch]:
    """Return the branches in line; chance decides each one's place, which is its name."""
    names = [f"b{at:03}" for at in range(count)]
    free = chance.sample(names, count)
    found = list[Branch]()
    pairs: tuple[Kind, ...] = ("textual", "semantic")
    alone: tuple[tuple[Kind, int], ...] = (("bad", count // 7), ("flaky", count // 10))
    for kind in pairs:
        for pair in range(count // 15):
            one, other = free.pop(), free.pop()
            found.append(Branch(name=one, kind=kind, pair=pair, partner=other))
            found.append(Branch(name=other, kind=kind, pair=pair, partner=one, second=True))
    for kind, many in alone:
        found += [Branch(name=free.pop(), kind=kind) for _ in range(many)]
    found += [Branch(name=name, kind="good") for name in free]
    return sorted(found, key=lambda one: one.name)


def write(branch: Branch, place: Path) -> None:
    """Write the branch's change into a checkout of `main`."""
    number = int(branch.name[1:])
    match branch.kind:
        case "textual":
            path = place / FIRST_LINES[branch.pair]
            _, rest = path.read_text().split("\n", 1)
            first = "# " if path.suffix == ".md" else '"""'
            path.write_text(f"{first}As {branch.name} says it.{first.strip(' #')}\n{rest}")
        case "semantic" if branch.second:
            module, name, _ = RENAMED[branch.pair]
            lay(place, f"caller_{number}", CALLER.format(number=number, module=module, name=name))
            lay_test(place, f"caller_{number}", CALLER_TEST.format(number=number))
        case "semantic":
            _, name, new = RENAMED[branch.pair]
            for path in sorted((place / "src").rglob("*.py")):
                path.write_text(re.sub(rf"\b{name}\b", new, path.read_text()))
        case _:
            sign, shop = "-" if branch.kind == "bad" else "+", "shop" if branch.kind == "flaky" else ""
            percent = number % 89 + 10
            lay(place, f"list_{number}", WORK.format(number=number, sign=sign, percent=percent))
            lay_test(place, f"list_{number}", TEST.format(number=number, shop=shop, percent=percent))


def lay(place: Path, module: str, text: str) -> None:
    (place / "src" / "inventory" / f"{module}.py").write_text(text)


def lay_test(place: Path, module: str, text: str) -> None:
    (place / "tests" / f"test_{module}.py").write_text(text)


def look_back(ground: Ground, queue: str, hub: Path) -> History:
    """Run the check on every commit at which the target has stood."""
    start = git(ground.seed, "rev-parse", "main")
    reflog = git(hub, "reflog", "show", "--format=%H", "refs/heads/main").split()
    commits = git(hub, "rev-list", "--first-parent", "--reverse", f"{start}..main").split()
    moves = [one for one in reversed(reflog) if one != start]
    place = ground.folder / f"look-{queue}"
    ground.shop.book = Book(calm=True)
    git(ground.folder, "clone", "-q", "--no-checkout", str(hub), str(place))
    return History(
        moves=tuple(moves),
        red_moves=tuple(one for one in moves if not is_green(ground, place, one)),
        brought=brought(ground, hub, commits),
    )


_KNOWN: dict[tuple[Path, str], bool] = {}


def is_green(ground: Ground, place: Path, commit: str) -> bool:
    """Tell whether the check passes in a plain checkout, with the shop awake; equal trees are checked only once."""
    tree = (ground.folder, git(place, "rev-parse", f"{commit}^{{tree}}"))
    if tree not in _KNOWN:
        git(place, "checkout", "-q", "--force", "--detach", commit)
        git(place, "clean", "-q", "-fdx")
        _KNOWN[tree] = run_check(ground, place)
    return _KNOWN[tree]


def run_check(ground: Ground, place: Path) -> bool:
    ran = subprocess.run(
        ["sh", "-c", ground.check], cwd=place, env=plain_environment(), capture_output=True, check=False
    )
    return ran.returncode == 0


def brought(ground: Ground, hub: Path, commits: Sequence[str]) -> dict[str, int]:
    """Count the first-parent commits that brought each branch in: its own commit is new in the history with them."""
    by = {one.commit: one.name for one in ground.branches}
    found = dict.fromkeys(by.values(), 0)
    for commit in commits:
        for new in git(hub, "rev-list", f"{commit}^1..{commit}").split():
            if new in by:
                found[by[new]] += 1
    return found
