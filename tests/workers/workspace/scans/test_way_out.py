"""Every sentence that keeps a change out says how a person lets it in, and that way works."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from stories import Stage, Story, entry_of, story

from forgepool.workers.policy.gate_file.document import RULES
from forgepool.workers.workspace.scans.findings import ScanFinding, is_grantable, way_out
from forgepool.workers.workspace.scans.scanning import find_kept_out, scan, subject_of

_TEST = (
    "from app import f\n\n\ndef test_a():\n    assert f(1) == 1\n    assert f(2) == 2\n\n\n"
    "def test_b():\n    assert f(3)\n"
)
_WAY = re.compile(
    r"if it is (?:meant|none), a person (?:grants it: --grant (\S+)|waives the rule: --waive ([\w-]+)), or `"
)


def _of_gate() -> list[Story]:
    """Return changes that break the rules about tests, paths and settings."""
    edits: dict[str, tuple[dict[str, str], dict[str, str], dict[str, Any]]] = {
        "test-removed": ({"tests/test_a.py": _TEST}, {"tests/test_a.py": _TEST[: _TEST.index("def test_b")]}, {}),
        "test-skipped": (
            {"tests/test_a.py": _TEST},
            {"tests/test_a.py": f"import pytest\npytestmark = pytest.mark.skip\n{_TEST}"},
            {},
        ),
        "test-tautology": ({"tests/test_a.py": _TEST}, {"tests/test_a.py": _TEST.replace("f(3)", "True")}, {}),
        "assertion-removed": (
            {"tests/test_a.py": _TEST},
            {"tests/test_a.py": _TEST.replace("    assert f(2) == 2\n", "")},
            {},
        ),
        "expected-edited": ({"tests/test_a.py": _TEST}, {"tests/test_a.py": _TEST.replace("== 2", "== 3")}, {}),
        "test-outside": (
            {"tests/test_a.py": _TEST},
            {"tests/test_a.py": _TEST.replace("f(3)", "f(3) is True")},
            {"holds": ("src/**",)},
        ),
        "test-unread": ({"tests/test_a.py": _TEST}, {"tests/test_a.py": _TEST + "x = " + "[" * 60_000 + "\n"}, {}),
        "outside-lock": ({"a.txt": "a\n"}, {"a.txt": "b\n"}, {"holds": ("src/**",)}),
        "protected-path": ({}, {".github/workflows/ci.yml": "on: push\n"}, {}),
        "gate-settings": ({}, {"pytest.ini": "[pytest]\n"}, {}),
        "harness": ({}, {"app.py": "import os\n\nif 'PYTEST_VERSION' in os.environ:\n    x = 1\n"}, {}),
        "claimed-unchanged": ({"a.txt": "a\n"}, {"a.txt": "b\n"}, {"planned": ("src/a.py",)}),
        "claimed-commit": ({"a.txt": "a\n"}, {"a.txt": "b\n"}, {"claims": "It is commit 0a1b2c3d4e."}),
        "empty-change": ({"a.txt": "a\n"}, {}, {}),
    }
    changes = [story(name=name, before=before, after=after, **said) for name, (before, after, said) in edits.items()]
    gone = [f"{number}.txt" for number in range(4)]
    kept = {f"{number}.txt": f"{number}\n" for number in range(10)}
    changes.append(story(name="shrinkage", before=kept, gone=gone))
    changes.append(story(name="mode-change", before={}, after={"a": "/etc/hosts"}, modes={"a": "120000"}))
    changes.append(story(name="binary", after={"a.so": "\x7fELF\x02\x01\x01" + "\0" * 60}))
    changes.append(story(name="supply-chain", after={"requirements.txt": "reqeusts\n"}))
    return changes


def _of_content() -> list[Story]:
    """Return the shortest fixtures of the rules about lines."""
    found = []
    for file in sorted(Path(__file__).parent.joinpath("content", "rules").glob("*.yaml")):
        told = next(one for one in yaml.safe_load(file.read_text(encoding="utf-8")) if "long" not in one)
        found.append(story(name=file.stem, before=told.get("before"), after=told["fails"]))
    return found


def _let_in(told: Story, held: tuple[ScanFinding, ...]) -> Story:
    """Return the change with all grants and waivers that its findings name."""
    ways = [found for each in held if (found := _WAY.search(each.said)) is not None]
    assert len(ways) == len(held), held
    grants, waive = (tuple(dict.fromkeys(way[at] for way in ways if way[at])) for at in (1, 2))
    return replace(told, entry={**told.entry, "grants": grants, "waive": waive})


def test_every_sentence_names_a_way_out_that_lets_the_change_in(stage: Stage) -> None:
    stories = [*_of_gate(), *_of_content()]
    rules: set[str] = set()
    for told, (base, tree) in zip(stories, stage.write(stories), strict=True):
        held = find_kept_out(scan(subject_of(stage.git, base, tree, entry_of(told))), reviewed=False)
        assert told.name in {each.rule for each in held}, (told.name, held)
        rules |= {each.rule for each in held}
        again = scan(subject_of(stage.git, base, tree, entry_of(_let_in(told, held))))
        assert find_kept_out(again, reviewed=False) == (), told.name
    # These need a history, or a file of many megabytes.
    assert set(RULES) - rules == {"claimed-work", "file-size"}


@pytest.mark.parametrize("rule", sorted(RULES))
def test_the_way_out_names_the_path_or_the_rule(rule: str) -> None:
    one = ScanFinding(rule=rule, path="src/a.py", weight="blocks", said="it is wrong; mend it")
    way = _WAY.search(way_out(one))
    assert way is not None and (way[1], way[2]) == (("src/a.py", None) if is_grantable(one) else (None, rule))
    for path in ("", ".", "src/[id].ts", "a\nb"):
        assert f"--waive {rule}, or `waive`" in way_out(one.model_copy(update={"path": path})), path
