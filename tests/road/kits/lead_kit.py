"""A scripted lead, the scripts of the tasks that it dispatches, and the plan around them."""

from pathlib import Path
from typing import Any

import yaml
from kit import write_plan

BRANCH = "forgepool/led"
FRAME = {
    "tool": "frame",
    "questions": ["Where is the greeting?", "Which files may change?"],
    "dependencies": ["the second rests on the first"],
    "known": ["README.md exists"],
    "expected": ["survey: a file and a line", "fix: one new file"],
    "would_change_the_plan": ["no greeting anywhere: then nothing is to be fixed"],
}
SURVEY = {
    "id": "survey",
    "objective": "It is known in which file the greeting of this project is.",
    "notes": "Nothing is known yet but that README.md exists; look there first.",
    "answers": True,
}
FIX = {
    "id": "fix",
    "objective": "The file greeting.txt holds the greeting, in one line.",
    "notes": "The survey says where the greeting is; leave README.md as it is.",
    "files": ["greeting.txt"],
    "acceptance": ["test -f greeting.txt"],
}
DISPATCH = {"tool": "dispatch", "tasks": [SURVEY, FIX]}
COLLECT_ALL = {"tool": "collect", "what": "all"}
CHECKPOINT = {"tool": "checkpoint", "changed": ["the greeting is in README.md"], "in_tension": [], "open": []}
READ = {"tool": "read_result", "id": "survey", "depth": "full"}
BRIEF = {
    "tool": "brief",
    "what_matters": ["survey found it", "fix landed"],
    "disagrees": [],
    "gaps": ["who reads it"],
    "calibration": ["sure: both were checked"],
    "direction": ["say where it is now"],
}
SYNTHESIZE = {
    "tool": "synthesize",
    "text": "The greeting was in README.md.\n\n"
    "- `fix` landed: greeting.txt holds it.\n"
    "- All of it is tested and green.",
}
WORKERS = """
turns:
  - when: {shown_contains: "# Task survey"}
    calls:
      - tool: report
        summary: "The greeting is in README.md."
        output: "THE WHOLE ANSWER"
        missing: ["who reads it"]
        evidence: [{path: README.md, lines: [1, 1]}]
  - when: {shown_contains: "# Task fix"}
    calls: [{tool: write_file, path: greeting.txt, content: "hello\\n"}]
  - calls: [{tool: finish, summary: "wrote it"}]
"""
BRIEF_ON_WHOLE = {"when": {"shown_contains": "THE WHOLE ANSWER"}, "calls": [BRIEF]}
"""The brief, by a lead that has read the whole result of the survey."""
ROAD = (FRAME, DISPATCH, COLLECT_ALL, CHECKPOINT, READ, BRIEF_ON_WHOLE, SYNTHESIZE)
"""The calls of a lead that goes from its frame to its synthesis."""
SHORT = (FRAME, {"tool": "dispatch", "tasks": [SURVEY]}, COLLECT_ALL, READ, BRIEF_ON_WHOLE, SYNTHESIZE)
"""The same of a lead whose one task answers, so that there is no candidate to be reviewed."""
OBJECTION = {"quote": "The greeting was in README.md.", "why": "survey saw one line of README.md alone"}


def write_led_plan(
    ground: Path, *calls: dict[str, Any], workers: str = WORKERS, pause_s: float = 0.0, **more: Any
) -> Path:
    """Write a plan with a lead that makes these calls, one in each turn. A call of itself has the key `tool`."""
    turns = [{"pause_s": pause_s, **({"calls": [call]} if "tool" in call else call)} for call in calls]
    (ground / "lead.yaml").write_text(yaml.safe_dump({"turns": turns}))
    (ground / "workers.yaml").write_text(workers)
    lead = {
        "id": "lead",
        "title": "Put the greeting into a file of its own",
        "leads": {"scripted": "workers.yaml"},
        "agent": {"scripted": "lead.yaml"},
    }
    told = {"name": "led", "checks": {"sound": "test -f README.md"}, "review": "none", "tasks": [lead]}
    return write_plan(ground, told | more)


def write_reviewed_plan(
    ground: Path,
    *objections: dict[str, str],
    road: tuple[dict[str, Any], ...] = ROAD,
    family: str = "gpt",
    pause_s: float = 0.0,
) -> Path:
    """Write a led plan whose reviewer passes every candidate, and objects so to the synthesis."""
    about, of_fix = {"shown_contains": "# Review of a synthesis"}, {"shown_contains": "# Review of task fix"}
    passes = {"verdict": "pass", "findings": [], "confidence": 0.9, "summary": "read it"}
    turns = [
        {"when": about, "pause_s": pause_s, "calls": [{"tool": "verdict", "objections": list(objections)}]},
        {"when": of_fix, "calls": [{"tool": "read_file", "path": "greeting.txt"}]},
        {"calls": [{"tool": "verdict", **passes}]},
    ]
    (ground / "reviewer.yaml").write_text(yaml.safe_dump({"family": family, "turns": turns}))
    return write_led_plan(ground, *road, review={"scripted": "reviewer.yaml"})
