"""
Small changes in pairs: a task done with a planted defect, and the same task done right.

Each pair has a proof, a few lines of Python that fail on one and pass on the other.

The reviewers are scripts that miss the defects of some kinds and report false ones of others. They measure the protocol
and say nothing about models.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

import yaml

Turn = dict[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    kind: str
    task: str
    wrong: str
    right: str
    at: str
    """Text in the line of the defect."""
    category: str
    proof: str
    """Python that may use the names of the code."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One change to be reviewed."""

    name: str
    title: str
    path: str
    text: str
    planted: Pair | None

    @property
    def line(self) -> int:
        """Return the line of the defect; for the honest twin, the last line."""
        lines = self.text.split("\n")
        wanted = self.planted.at if self.planted else ""
        return next((at for at, line in enumerate(lines, start=1) if wanted and wanted in line), len(lines) - 1)


PAIRS = (
    Pair(
        kind="border",
        task="Count the pages that so many items take",
        wrong="def pages(items, size):\n    return items // size\n",
        right="def pages(items, size):\n    return -(-items // size)\n",
        at="items // size",
        category="bug",
        proof="assert pages(11, 5) == 3 and pages(10, 5) == 2",
    ),
    Pair(
        kind="rounding",
        task="Print weights in the unit that fits",
        wrong="def weight(g):\n    return f'{g:.0f} g' if g < 1000 else f'{g / 1000:g} kg'\n",
        right="def weight(g):\n    g = round(g)\n    return f'{g} g' if g < 1000 else f'{g / 1000:g} kg'\n",
        at="g:.0f",
        category="bug",
        proof="assert weight(999.7) == '1 kg' and weight(12) == '12 g'",
    ),
    Pair(
        kind="shared-state",
        task="Collect the words of a text, into a list that may be given",
        wrong="def words(text, into=[]):\n    into.extend(text.split())\n    return into\n",
        right="def words(text, into=None):\n    into = [] if into is None else into\n"
        "    into.extend(text.split())\n    return into\n",
        at="into=[]",
        category="bug",
        proof="words('a b')\nassert words('c') == ['c']",
    ),
    Pair(
        kind="injection",
        task="Find customers by their name",
        wrong="def find(name):\n    return f\"select * from customers where name = '{name}'\", ()\n",
        right="def find(name):\n    return 'select * from customers where name = ?', (name,)\n",
        at="where name",
        category="security",
        proof="assert 'x' not in find('x\\' or 1=1 --')[0]",
    ),
    Pair(
        kind="traversal",
        task="Give the path of an upload below its folder",
        wrong="def place(folder, name):\n    return f'{folder}/{name}'\n",
        right="def place(folder, name):\n    if name in ('', '.', '..') or '/' in name:\n"
        "        raise ValueError(f'{name!r} is no plain name')\n    return f'{folder}/{name}'\n",
        at="return f'{folder}",
        category="security",
        proof="assert place('/u', 'a') == '/u/a'\ntry:\n    place('/u', '../etc/passwd')\n"
        "except ValueError:\n    pass\nelse:\n    raise AssertionError",
    ),
    Pair(
        kind="lost-data",
        task="Save a setting into a dictionary of settings, encoded",
        wrong="def save(settings, name, value, encode):\n    settings.pop(name, None)\n"
        "    settings[name] = encode(value)\n",
        right="def save(settings, name, value, encode):\n    settings[name] = encode(value)\n",
        at="settings.pop",
        category="data_loss",
        proof="kept = {'a': 1}\ntry:\n    save(kept, 'a', 2, lambda value: 1 / 0)\n"
        "except ZeroDivisionError:\n    pass\nassert kept == {'a': 1}",
    ),
    Pair(
        kind="silence",
        task="Read a number from a form",
        wrong="def number(text):\n    try:\n        return int(text)\n    except ValueError:\n        return 0\n",
        right="def number(text):\n    try:\n        return int(text)\n    except ValueError:\n"
        "        raise ValueError(f'{text!r} is no number') from None\n",
        at="return 0",
        category="bug",
        proof="try:\n    number('ten')\nexcept ValueError:\n    pass\nelse:\n    raise AssertionError",
    ),
    Pair(
        kind="leak",
        task="Lend a connection from a pool while a function runs",
        wrong="def with_one(pool, function):\n    one = pool.pop()\n    answer = function(one)\n"
        "    pool.append(one)\n    return answer\n",
        right="def with_one(pool, function):\n    one = pool.pop()\n    try:\n        return function(one)\n"
        "    finally:\n        pool.append(one)\n",
        at="answer = function",
        category="bug",
        proof="pool = [1]\ntry:\n    with_one(pool, lambda one: 1 / 0)\nexcept ZeroDivisionError:\n    pass\n"
        "assert pool == [1]",
    ),
    Pair(
        kind="growth",
        task="Remember the last answers, at most a hundred",
        wrong="def remember(known, key, value):\n    known[key] = value\n",
        right="def remember(known, key, value):\n    known[key] = value\n    while len(known) > 100:\n"
        "        known.pop(next(iter(known)))\n",
        at="known[key]",
        category="scaling",
        proof="known = {}\nfor key in range(1000):\n    remember(known, key, 0)\nassert len(known) == 100",
    ),
    Pair(
        kind="race",
        task="Let one of several claim a name",
        wrong="def claim(names, name, who):\n    if name in names:\n        return False\n    names[name] = who()\n"
        "    return True\n",
        right="def claim(names, name, who):\n    mine = who()\n    return names.setdefault(name, mine) is mine\n",
        at="names[name] = who()",
        category="bug",
        proof="names, first, second = {}, object(), object()\n"
        "inner = []\n"
        "def slow():\n    inner.append(claim(names, 'n', lambda: second))\n    return first\n"
        "assert [claim(names, 'n', slow), *inner].count(True) == 1",
    ),
    Pair(
        kind="requirement",
        task="List tasks, the newest first, those of one day by name",
        wrong="def listed(tasks):\n    return sorted(tasks, key=lambda task: task[0], reverse=True)\n",
        right="def listed(tasks):\n    return sorted(sorted(tasks, key=lambda task: task[1]), "
        "key=lambda task: task[0], reverse=True)\n",
        at="reverse=True",
        category="requirement",
        proof="assert listed([(1, 'b'), (2, 'z'), (2, 'a')]) == [(2, 'a'), (2, 'z'), (1, 'b')]",
    ),
    Pair(
        kind="units",
        task="Tell whether a time limit given in milliseconds has passed",
        wrong="def is_late(began_s, now_s, limit_ms):\n    return now_s - began_s > limit_ms\n",
        right="def is_late(began_s, now_s, limit_ms):\n    return (now_s - began_s) * 1000 > limit_ms\n",
        at="> limit_ms",
        category="bug",
        proof="assert is_late(0, 2, 1500) and not is_late(0, 1, 1500)",
    ),
)


def cases() -> Iterator[Case]:
    for pair in PAIRS:
        for text, planted in ((pair.wrong, pair), (pair.right, None)):
            word = "wrong" if planted else "right"
            name = f"{pair.kind}-{word}"
            # No reviewer can tell the twins apart by anything but the code.
            yield Case(
                name=name, title=f"{pair.task} ({len(text)})", path=f"src/{pair.kind}.py", text=text, planted=planted
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Player:
    """A scripted reviewer."""

    family: str
    blind: Collection[str]
    """Kinds of defects that it does not see by itself."""
    ghosts: Collection[str]
    """Kinds of defects that it reports in the honest twin."""
    open: bool = True
    """True if it accepts another reviewer's true finding, and drops a false one when asked for evidence."""

    def script(self) -> str:
        turns = [turn for case in cases() for turn in self._turns(case)]
        return yaml.safe_dump({"family": self.family, "turns": turns})

    def _turns(self, case: Case) -> Iterator[Turn]:
        about: Mapping[str, object] = {"when": {"shown_contains": case.title}}
        yield {**about, "calls": [{"tool": "read_file", "path": case.path}]}
        kind = case.name.rpartition("-")[0]
        sees = kind not in self.blind if case.planted else kind in self.ghosts
        yield {**about, "calls": [_verdict(case, self.family) if sees else _verdict(case, "")]}
        for _ in range(4):
            if case.planted and self.open and not sees:
                yield {"when": {"shown_contains": _claim(case)}, "calls": [_verdict(case, self.family)]}
            keeps = sees and not (self.open and case.planted is None)
            yield {**about, "calls": [_verdict(case, self.family) if keeps else _verdict(case, "")]}


def _claim(case: Case) -> str:
    return f"{case.name}: what it gives is wrong"


def _verdict(case: Case, finder: str) -> Turn:
    said: Turn = {"tool": "verdict", "confidence": 0.9, "summary": f"looked at {case.path}"}
    if not finder:
        return said | {"verdict": "pass", "findings": []}
    category = case.planted.category if case.planted else "bug"
    found = {"severity": "high", "category": category, "file": case.path, "line": case.line, "claim": _claim(case)}
    return said | {"verdict": "fail", "findings": [found | {"evidence": f"called as {finder} would"}]}
