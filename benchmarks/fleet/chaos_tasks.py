"""The tasks of a chaos session's run, with what must become of each, and the checks of its target."""

import random
import subprocess
from dataclasses import dataclass
from typing import Literal

Fate = Literal["lands", "never", "one-of-pair"]

CHECKS = (
    "! grep -rqs BAD out",
    "! test -e out/pair-a.txt -a -e out/pair-b.txt",
    'test -z "$(sort out/shared.txt 2>/dev/null | uniq -d)"',
)
SCRIPT = """turns:
  - calls: [{tool: write_file, path: out/scripted.txt, content: "scripted\\n"}]
  - calls: [{tool: finish, summary: "written"}]
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deed:
    """A task or an entry: the paths it may change, and what must become of it."""

    name: str
    paths: tuple[str, ...]
    fate: Fate = "lands"
    content: str | None = None
    """The text that its file must hold in the end."""


def make_tasks(dice: random.Random, run: str, *, tool: bool) -> tuple[dict[str, Deed], list[dict[str, object]]]:
    """Draw five to ten tasks: alone, on one file, in a chain, scripted, one that is red, and a pair that is."""
    deeds: dict[str, Deed] = {}
    tasks: list[dict[str, object]] = []

    def add(
        name: str, path: str, script: str, *, fate: Fate = "lands", content: str | None = None, **more: object
    ) -> None:
        deeds[name] = Deed(name=name, paths=(path,), fate=fate, content=content)
        pause = f"{'frob; ' if tool else ''}sleep {dice.uniform(0.1, 1.0):.2f}; mkdir -p out"
        tasks.append({"id": name, "files": [path], "agent": {"command": f"{pause}; {script}"}, **more})

    for number in range(dice.randint(2, 3)):
        name = f"{run}-alone-{number}"
        proof = subprocess.run(["sha256sum"], input=name, text=True, capture_output=True, check=True).stdout
        path = f"out/{name}.txt"
        add(name, path, f"printf %s {name} | sha256sum > {path}", content=proof)
    for number in range(2):
        add(f"{run}-shared-{number}", "out/shared.txt", f"echo {run}-{number} >> out/shared.txt")
    before: list[str] = []
    for number in range(dice.randint(0, 2)):
        path = f"out/{run}-chain.txt"
        add(f"{run}-chain-{number}", path, f"echo {number} >> {path}", needs=before)
        before = [f"{run}-chain-{number}"]
    if dice.random() < 0.5:
        add(f"{run}-bad", f"out/{run}-bad.txt", f"echo BAD > out/{run}-bad.txt", fate="never", attempts=1)
    if dice.random() < 0.3 and run != "west":
        for half in ("pair-a", "pair-b"):
            add(f"{run}-{half}", f"out/{half}.txt", f"echo {half} > out/{half}.txt", fate="one-of-pair", attempts=1)
    if dice.random() < 0.3 and run != "west":
        name = f"{run}-scripted"
        deeds[name] = Deed(name=name, paths=("out/scripted.txt",), content="scripted\n")
        tasks.append({"id": name, "files": ["out/scripted.txt"], "agent": {"scripted": "script.yaml"}})
    return deeds, tasks
