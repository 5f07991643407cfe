"""
A stream of candidates, some of which are green alone and red together, and a hub that they land on.

The repository is a folder of parts that name, use, number and price things. Its check takes a few hundredths of a
second. Each pair breaks another of its rules, and no pair conflicts in its text.
"""

import os
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from forgepool.supervisor.gate.check_entry import examine
from forgepool.supervisor.gate.land import land
from forgepool.supervisor.messages.answers import CheckResult
from forgepool.supervisor.messages.requests import CheckRequest, EntryRef, LandRequest
from forgepool.workers.policy.gate_file.document import CheckDefinition
from forgepool.workers.schema.settings import Settings

CHECK = """
import pathlib, sys

WORDS = ("def", "use", "id", "cost", "speaks")


def mistakes(parts, limits):
    said = {word: [] for word in WORDS}
    for name, text in sorted(parts.items()):
        for line in text.splitlines():
            word, _, rest = line.partition(" ")
            said[word].append((name, rest))
    known = {rest for _, rest in said["def"]}
    yield from ((name, f"uses {rest}, which is not there") for name, rest in said["use"] if rest not in known)
    first = {}
    for name, number in said["id"]:
        if first.setdefault(number, name) != name:
            yield name, f"has the number of {first[number]}"
    for name, text in sorted(limits.items()):
        most, version = text.split()
        spent = [int(rest.split()[1]) for _, rest in said["cost"] if rest.split()[0] == name]
        if sum(spent) > int(most):
            yield name, f"costs {sum(spent)}, more than {most}"
        speaks = [(part, rest.split()[1]) for part, rest in said["speaks"] if rest.split()[0] == name]
        yield from ((part, f"speaks {other}, not {version}") for part, other in speaks if other != version)


def read(folder):
    return {path.name: path.read_text() for path in pathlib.Path(folder).iterdir()}


if __name__ == "__main__":
    parts, limits = read("parts"), read("limits")
    found = {}
    for name, why in mistakes(parts, limits):
        found.setdefault(name, why)
    cases = "".join(
        f'<testcase classname="parts" name="{name}">'
        + (f'<failure message="{found[name]}"/>' if name in found else "")
        + "</testcase>"
        for name in sorted({*parts, *limits})
    )
    if "--report" in sys.argv:
        pathlib.Path("report.xml").write_text(f"<testsuites><testsuite name='parts'>{cases}</testsuite></testsuites>")
    print(*(f"{name} {why}" for name, why in found.items()), f"{len(parts)} parts", sep="\\n")
    sys.exit(bool(found))
"""
RUN = "python -I -S check.py"
BY_STATUS = CheckDefinition(name="parts", run=RUN)
BY_TEST = CheckDefinition(name="parts", run=f"{RUN} --report", reports=("report.xml",))
WINDOW = 8
"""Number of candidates made on the same tip."""
Files = dict[str, str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """The changes of one candidate; `partner` is the earlier one with which it is red together."""

    name: str
    files: Files
    partner: str | None = None


def _neutral(number: int) -> Work:
    text = f"def thing-{number}\nuse thing-0\nid {number}\n" if number else "def thing-0\nid 0\n"
    return Work(name=f"add-{number}", files={f"parts/thing-{number}": text})


def _pair(number: int) -> tuple[Files, Work, Work]:
    """Return what the pair needs on the target, and its two halves."""
    here = f"pair-{number}"
    part, other = f"parts/{here}-left", f"parts/{here}-right"
    match number % 5:
        case 0:
            needs: Files = {f"parts/{here}": f"def {here}-old\nuse {here}-old\n"}
            left: Files = {f"parts/{here}": f"def {here}-new\nuse {here}-new\n"}
            right: Files = {other: f"use {here}-old\n"}
        case 1:
            needs = {}
            left, right = {part: f"id {here}-9\n"}, {other: f"id {here}-9\n"}
        case 2:
            needs = {f"parts/{here}": f"def {here}\n"}
            left, right = {f"parts/{here}": None}, {other: f"use {here}\n"}
        case 3:
            needs = {f"limits/{here}": "5 1\n", f"parts/{here}": f"cost {here} 4\n"}
            left, right = {part: f"cost {here} 1\n"}, {other: f"cost {here} 1\n"}
        case _:
            needs = {f"limits/{here}": "5 1\n", f"parts/{here}": f"speaks {here} 1\n"}
            left = {f"limits/{here}": "5 2\n", f"parts/{here}": f"speaks {here} 2\n"}
            right = {other: f"speaks {here} 1\n"}
    first = Work(name=f"left-{number}", files=left)
    return needs, first, Work(name=f"right-{number}", files=right, partner=first.name)


def stream(landings: int, pairs: int) -> tuple[Files, list[list[Work]]]:
    """
    Return the target's files, and windows of work, each made on the tip at which its window begins.

    The left half of a pair lands, and the right half comes later in the same window.
    """
    start: Files = {"check.py": CHECK.lstrip(), **_neutral(0).files, "limits/all": "0 1\n"}
    halves: list[tuple[Work, Work]] = []
    for number in range(pairs):
        needs, left, right = _pair(number)
        start |= needs
        halves.append((left, right))
    neutral = [_neutral(number) for number in range(1, landings - pairs + 1)]
    windows: list[list[Work]] = []
    while neutral or halves:
        pair = [halves.pop()] if halves else []
        fill = [neutral.pop(0) for _ in range(min(WINDOW - 2 * len(pair), len(neutral)))]
        middle = len(fill) // 2
        left, right = [one for one, _ in pair], [two for _, two in pair]
        windows.append([*fill[:1], *left, *fill[1:middle], *right, *fill[middle:]] if fill else [*left, *right])
    return start, windows


@dataclass(slots=True, kw_only=True)
class Road:
    """A hub, the host that judges, and the outcome of each candidate."""

    folder: Path
    check: CheckDefinition
    landed: list[str] = field(default_factory=list)
    refused: dict[str, CheckResult] = field(default_factory=dict)

    @property
    def hub(self) -> Path:
        return self.folder / "hub.git"

    def begin(self, files: Files) -> None:
        subprocess.run(["git", "init", "-q", "--bare", "-b", "main", str(self.hub)], check=True, env=_environment())
        self.commit("main", files, message="first")

    def tip(self) -> str:
        return self.git("rev-parse", "refs/heads/main")

    def git(self, *argv: str) -> str:
        ran = subprocess.run(
            ["git", *argv], cwd=self.hub, check=True, env=_environment(), capture_output=True, text=True
        )
        return ran.stdout.strip()

    def commit(self, branch: str, files: Files, *, on: str | None = None, message: str = "change") -> str:
        """Commit in the hub itself, as a push would."""
        lines = [f"commit refs/heads/{branch}", "committer A Person <person@localhost> 1700000000 +0000"]
        lines += [f"data {len(message)}", message, *([f"from {on}"] if on else [])]
        for path, text in files.items():
            lines += [f"D {path}"] if text is None else [f"M 644 inline {path}", f"data {len(text.encode())}", text]
        subprocess.run(
            ["git", "fast-import", "--quiet", "--force"],
            cwd=self.hub,
            input="\n".join([*lines, "", ""]).encode(),
            check=True,
            env=_environment(),
        )
        return self.git("rev-parse", f"refs/heads/{branch}")

    def offer(self, work: Work, *, on: str) -> CheckResult:
        """Make the work on that commit, examine it on the present tip, and land it if it is green."""
        commit = self.commit(f"work/{work.name}", work.files, on=on)
        request = self.request(work, commit)
        found = examine(request, self.settings, stop=lambda: False)
        asked = request.model_dump(exclude={"decisive", "diagnose"}) | {"request_id": f"r.{work.name}.1.land-1"}
        asked |= {"commit": found.commit or commit, "tree": found.tree or "0" * 40, "certificates": found.certificates}
        landing = land(LandRequest.model_validate(asked), self.settings, stop=lambda: False)
        if landing.outcome == "landed":
            self.landed.append(work.name)
        else:
            self.refused[work.name] = found
        return found

    def request(self, work: Work, commit: str) -> CheckRequest:
        entry = EntryRef(
            task=work.name,
            attempt=1,
            commit=commit,
            ref=f"refs/heads/work/{work.name}",
            message=f"{work.name}\n\nForgepool-Task: {work.name}\n",
        )
        return CheckRequest(
            request_id=f"r.{work.name}.1.check-1",
            token="t",
            run="r",
            hub=str(self.hub),
            target="main",
            base=self.tip(),
            entries=(entry,),
            plan_checks=(self.check,),
            issued_at=1.0,
            start_by=2.0,
        )

    @property
    def settings(self) -> Settings:
        return Settings(home=self.folder / "home", cache=self.folder / "cache", host="here")

    def drive(self, windows: Sequence[Sequence[Work]]) -> None:
        for window in windows:
            tip = self.tip()
            for work in window:
                self.offer(work, on=tip)

    def red_commits(self) -> list[str]:
        """Return the target's commits on which its own check fails, run without the gate and the sandbox."""
        commits = self.git("rev-list", "--first-parent", "--reverse", "refs/heads/main").split()
        return [commit for commit in commits if not self._is_green(commit)]

    def _is_green(self, commit: str) -> bool:
        with tempfile.TemporaryDirectory(dir=self.folder) as folder:
            archive = subprocess.run(
                ["git", "archive", commit], cwd=self.hub, check=True, env=_environment(), capture_output=True
            )
            subprocess.run(["tar", "x", "-C", folder], input=archive.stdout, check=True)
            return subprocess.run(RUN.split(), cwd=folder, capture_output=True, check=False).returncode == 0


def red_without_a_gate(start: Files, windows: Sequence[Sequence[Work]]) -> int:
    """Count the commits that would be red if everything landed that is green where it was made."""
    names: dict[str, object] = {"__name__": "check"}
    exec(CHECK, names)
    files = dict(start)
    return sum(_red(files, work, names) for work in _all(windows))


def _red(files: Files, work: Work, names: dict[str, object]) -> bool:
    files |= work.files
    parts, limits = (
        {path.removeprefix(f"{top}/"): text for path, text in files.items() if path.startswith(f"{top}/") and text}
        for top in ("parts", "limits")
    )
    return any(names["mistakes"](parts, limits))  # type: ignore[operator]


def _all(windows: Sequence[Sequence[Work]]) -> Iterator[Work]:
    for window in windows:
        yield from window


def _environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return kept | {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
