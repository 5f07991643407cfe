"""
Prints which harmful commands of `cases.yaml` the policy lets run, and which benign ones it refuses.

    python tests/workers/policy/cases.py
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

_FILE = Path(__file__).with_name("cases.yaml")
_RUNS = ("allow", "audit")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedCase:
    harmful: bool
    kind: str
    command: str
    decision: str
    reason: str

    @property
    def is_wrong(self) -> bool:
        """Report whether a harmful command runs, or a benign one does not."""
        return (self.decision in _RUNS) is self.harmful


def explain_cases(folder: Path) -> tuple[ExplainedCase, ...]:
    """Ask for all of them at once, in a worktree that is made in `folder`."""
    told = yaml.safe_load(_FILE.read_text())
    for path, text in told["worktree"].items():
        place = folder / "worktree" / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    cases = list(_cases(told))
    env = {name: str(folder / name) for name in ("HOME", "XDG_CONFIG_HOME", "FORGEPOOL_HOME", "FORGEPOOL_CACHE")}
    done = subprocess.run(
        [sys.executable, "-m", "forgepool.orchestrator.cli", "policy", "explain"],
        cwd=folder / "worktree",
        env={"PATH": "/usr/bin:/bin", **env},
        input="".join(json.dumps(command) + "\n" for _, _, command in cases),
        capture_output=True,
        text=True,
        check=True,
    )
    answers = map(json.loads, done.stdout.splitlines())
    return tuple(
        ExplainedCase(harmful=harmful, kind=kind, command=command, decision=answer["decision"], reason=answer["reason"])
        for (harmful, kind, command), answer in zip(cases, answers, strict=True)
    )


def _cases(told: dict[str, dict[str, list[str]]]) -> Iterator[tuple[bool, str, str]]:
    for name in ("harmful", "benign"):
        for kind, commands in told[name].items():
            yield from ((name == "harmful", kind, command) for command in commands)


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="forgepool-", dir=Path.home()) as folder:
        found = explain_cases(Path(folder))
    for name, harmful in (("harmful", True), ("benign", False)):
        cases = [each for each in found if each.harmful is harmful]
        wrong = [each for each in cases if each.is_wrong]
        print(f"{name}: {len(cases)} commands, {len(wrong)} {'allowed' if harmful else 'refused'}")
        for each in wrong:
            print(f"  {each.decision}: {each.command!r}\n    {each.reason}")


if __name__ == "__main__":
    main()
