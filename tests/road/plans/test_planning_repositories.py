"""Real repositories: a goal, a faulty plan that is sent back, a person's yes, landed work, and a lead's synthesis."""

import re
from dataclasses import dataclass
from pathlib import Path

import pytest
from kit import Machine, Repository
from planning_kit import LEAD, Models, know, objection, read, typed, written
from vendors.answers import Answer, Say, Seen
from vendors.server import VendorServer

BUNDLES = Path(__file__).parents[4] / "shared" / "data" / "repositories"


@dataclass(frozen=True)
class Story:
    """A goal in a repository, the plans of its planner, and what each task's agent writes."""

    repository: str
    goal: str
    faulty: tuple[str, str]
    """A part of the good plan, and what stands in its place in the first one."""
    sentences: tuple[str, ...]
    plan: str
    covers: dict[str, list[str]]
    reads: str
    work: dict[str, dict[str, str]]
    """The text that each task's agent appends, by path."""


BOLTONS = Story(
    repository="boltons",
    goal="Add wrap_angle to the math functions and strip_lines to the string functions, and document both",
    faulty=("files: [boltons/mathutils.py, tests/test_wrap_angle.py]", "files: [boltons/mathutil.py]"),
    sentences=("plan.yaml:15: task 'angle'", "'boltons/mathutil.py'", "nothing makes 'tests/test_wrap_angle.py'"),
    plan="""\
version: 1
name: angles-and-lines
checks:
  tests: python -m pytest -q -p no:cacheprovider tests/test_mathutils.py tests/test_strutils.py
defaults:
  agent: {builtin: {}}
tasks:
  - id: angle
    title: Add wrap_angle to mathutils
    description: |
      Add `wrap_angle(degrees: float) -> float` at the end of boltons/mathutils.py: the angle modulo 360, at least 0 and
      below 360. Write tests/test_wrap_angle.py for -90, 0, 360 and 725.
    acceptance:
      - python -m pytest -q -p no:cacheprovider tests/test_wrap_angle.py
    files: [boltons/mathutils.py, tests/test_wrap_angle.py]
  - id: lines
    title: Add strip_lines to strutils
    description: |
      Add `strip_lines(text: str) -> str` at the end of boltons/strutils.py: each line without spaces at its end. Write
      tests/test_strip_lines.py for an empty text and two lines.
    acceptance:
      - python -m pytest -q -p no:cacheprovider tests/test_strip_lines.py
    files: [boltons/strutils.py, tests/test_strip_lines.py]
  - id: document
    title: Document wrap_angle and strip_lines
    description: |
      Append an `autofunction` for `wrap_angle`, which `angle` adds, to docs/mathutils.rst, and one for `strip_lines`,
      which `lines` adds, to docs/strutils.rst.
    needs: [angle, lines]
    type: docs
    files: [docs/mathutils.rst, docs/strutils.rst]
    acceptance: ["grep -q wrap_angle docs/mathutils.rst && grep -q strip_lines docs/strutils.rst"]
""",
    covers={"R1": ["angle", "lines", "document"]},
    reads="boltons/mathutils.py",
    work={
        "angle": {
            "boltons/mathutils.py": '''

def wrap_angle(degrees):
    """Return the angle modulo 360."""
    return degrees % 360
''',
            "tests/test_wrap_angle.py": """from boltons.mathutils import wrap_angle


def test_wrap_angle():
    assert [wrap_angle(x) for x in (-90, 0, 360, 725)] == [270, 0, 0, 5]
""",
        },
        "lines": {
            "boltons/strutils.py": '''

def strip_lines(text):
    """Return the text without spaces at the ends of its lines."""
    return chr(10).join(line.rstrip() for line in text.split(chr(10)))
''',
            "tests/test_strip_lines.py": """from boltons.strutils import strip_lines


def test_strip_lines():
    assert strip_lines("") == ""
    assert strip_lines("a  \\nb ") == "a\\nb"
""",
        },
        "document": {
            "docs/mathutils.rst": "\n.. autofunction:: boltons.mathutils.wrap_angle\n",
            "docs/strutils.rst": "\n.. autofunction:: boltons.strutils.strip_lines\n",
        },
    },
)

TOMLKIT = Story(
    repository="tomlkit",
    goal="Let tomlkit tell whether a text is valid TOML",
    faulty=("import is_valid; assert is_valid('a = 1')", "import parse; parse('a = 1')"),
    sentences=("plan.yaml:14: task 'function' is accepted by", "which passes without its work"),
    plan="""\
version: 1
name: valid-toml
checks:
  imports: python -c "import tomlkit; tomlkit.parse('a = 1')"
defaults:
  agent: {builtin: {}}
tasks:
  - id: function
    title: Add is_valid to the API
    description: |
      Add `is_valid(text: str) -> bool` at the end of tomlkit/api.py: it calls `parse`, and is false on a `ParseError`.
    files: [tomlkit/api.py]
    acceptance:
      - python -c "from tomlkit.api import is_valid; assert is_valid('a = 1')"
  - id: export
    title: Export is_valid from the package
    description: |
      Import `is_valid`, which `function` adds to tomlkit/api.py, in tomlkit/__init__.py, and name it in `__all__`.
    needs: [function]
    files: [tomlkit/__init__.py]
    reads: [tomlkit/api.py]
    acceptance:
      - python -c "import tomlkit; assert tomlkit.is_valid('a = 1') and not tomlkit.is_valid('a = ')"
  - id: document
    title: Describe is_valid in the quickstart
    description: Append a paragraph on `is_valid` to docs/quickstart.rst, with one example.
    type: docs
    files: [docs/quickstart.rst]
    acceptance: ["grep -q is_valid docs/quickstart.rst"]
""",
    covers={"R1": ["function", "export", "document"]},
    reads="tomlkit/api.py",
    work={
        "function": {
            "tomlkit/api.py": '''

def is_valid(text: str) -> bool:
    """Report whether a text is valid TOML."""
    from tomlkit.exceptions import ParseError

    try:
        parse(text)
    except ParseError:
        return False
    return True
'''
        },
        "export": {
            "tomlkit/__init__.py": """

from tomlkit.api import is_valid

__all__.append("is_valid")
"""
        },
        "document": {"docs/quickstart.rst": "\nTo ask whether a text is valid: ``tomlkit.is_valid(text)``.\n"},
    },
)


def answer(story: Story, seen: Seen) -> Answer:
    """Answer as the agent of one of the story's tasks, or as its reviewer, who reads what it changed."""
    if "frame" in seen.tools:
        claims = "\n".join(f"- `{task}` landed." for task in story.work)
        return Say(calls=[(*LEAD, ("synthesize", {"text": claims}))[seen.answered]])
    text = "".join(seen.texts)
    if "# Review of a synthesis" in text:
        return Say(calls=[("verdict", {"objections": []})])
    (task,) = re.findall(r"# (?:Task|Review of task) ([a-z]+)", text)[:1]
    paths = list(story.work[task])
    if "verdict" in seen.tools:
        verdict = {"verdict": "pass", "findings": [], "confidence": 0.9, "summary": "read all of it"}
        # One file is so long that its end is read by itself.
        places = [(path, 1) for path in paths] + [(path, 1200) for path in paths if path == "boltons/strutils.py"]
        reads = [("read_file", {"path": path, "start": start}) for path, start in places]
        return Say(calls=[("verdict", verdict)] if seen.results else reads)
    if "commit_plan" in seen.tools:
        return Say(calls=[("commit_plan", {"plan": "as the task says", "files_to_modify": paths})])
    if not seen.results:
        appends = [f"cat >> {path} <<'END'\n{added}END" for path, added in story.work[task].items()]
        return Say(calls=[("bash", {"command": "\n".join(appends)})])
    return Say(calls=[("finish", {"summary": f"did {task}"})])


@pytest.mark.slow
@pytest.mark.parametrize(
    "story",
    [pytest.param(BOLTONS, id="boltons"), pytest.param(TOMLKIT, id="tomlkit", marks=pytest.mark.soak)],
)
def test_a_goal_becomes_landed_work_after_a_yes(story: Story, ground: Path, machine: Machine) -> None:
    bundle = BUNDLES / f"{story.repository}.bundle"
    if not bundle.is_file():
        pytest.skip(f"{bundle} is not there")
    repository = Repository(path=ground / "repo")
    Repository(path=ground).git("clone", "-q", str(bundle), "repo")
    first = written(story.plan.replace(*story.faulty), story.covers)
    models = Models([read(story.reads), first, written(story.plan, story.covers)], [objection()])
    models.work = lambda seen: answer(story, seen)
    with VendorServer(models, models=["planner-1", "critic-1"]) as server:
        know(machine, server)
        argv = ["do", story.goal, "--repo", str(repository.path), "--workers", "2", "--budget-usd", "5", "--lead"]
        status, said = typed(machine, argv, "y\n")
        assert server.invalid == []
    assert status == 0, said
    for sentence in story.sentences:
        assert sentence in models.planned[2].results[-1]
    name = re.findall(r"name: (.*)", story.plan)[0]
    base = repository.git("rev-parse", "HEAD")
    subjects = repository.git("log", "--format=%(trailers:key=Forgepool-Task,valueonly)", f"{base}..forgepool/{name}")
    assert set(subjects.split()) == set(story.work)
    assert "Run this plan? [y/N]" in said
    synthesis = (machine.home / "runs" / machine.the_run() / "synthesis.md").read_text()
    assert all(f"> - `{task}` landed." in synthesis.partition("### Not confirmed")[0] for task in story.work)
