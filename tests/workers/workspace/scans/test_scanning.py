"""All scans together: who is told what, in which order, and which findings keep an entry out."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from stories import PARTS, Stage, story

from forgepool.workers.policy.gate_file.document import RULES
from forgepool.workers.schema.mistakes import nearest
from forgepool.workers.workspace.scans.content import secrets
from forgepool.workers.workspace.scans.findings import ScanFinding
from forgepool.workers.workspace.scans.scanning import MOST_OF_A_RULE, find_kept_out, scan

_HERE = Path(__file__).parent
_WEIGHTS = ("blocks", "attention", "note")


def _found(weight: str) -> ScanFinding:
    return ScanFinding(rule="placeholder", path="a", weight=weight, said="It is.")  # type: ignore[arg-type]  # of the three


def test_what_blocks_keeps_out_always_and_what_wants_a_look_where_nobody_looks() -> None:
    findings = tuple(_found(weight) for weight in _WEIGHTS)
    assert [one.weight for one in find_kept_out(findings, reviewed=True)] == ["blocks"]
    assert [one.weight for one in find_kept_out(findings, reviewed=False)] == ["blocks", "attention"]


def test_of_a_change_that_changes_nothing_just_that_is_said(stage: Stage) -> None:
    assert [one.rule for one in stage.scan(story(name="x", before={"a.py": "x = 1\n"}))] == ["empty-change"]


def test_every_rule_of_content_has_its_fixtures_and_its_sentence() -> None:
    ours = {file.stem for file in _HERE.glob("content/rules/*.yaml")}
    assert ours <= set(RULES)
    assert ours == {
        "placeholder",
        "type-bypass",
        "secret",
        "letters",
        "unreadable",
        "conflict-marker",
        "reviewer-instructions",
    }
    assert all(said[0].isupper() and said.endswith(".") for said in RULES.values())
    assert nearest("placeholders", RULES) == ["placeholder"]


def test_a_waived_rule_is_silent_and_the_others_are_not(stage: Stage) -> None:
    files = {"a.py": "# TODO: one\nx = load()  # type: ignore\n"}
    assert {one.rule for one in stage.scan(story(name="x", after=files))} == {"placeholder", "type-bypass"}
    waived = story(name="x", after=files, waive=["placeholder"])
    assert {one.rule for one in stage.scan(waived)} == {"type-bypass"}
    subject = stage.subject(story(name="x", after=files))
    assert {one.rule for one in scan(replace(subject, waive=("type-bypass",)))} == {"placeholder"}


def test_the_worst_comes_first_then_the_order_of_the_files(stage: Stage) -> None:
    files = {
        "b.py": "x: Any = 1\n# TODO: b\n",
        "a.py": "y = 1\n# HACK: it\n# TODO: a\n# TODO: later\n",
    }
    told = [(one.weight, one.path, one.line) for one in stage.scan(story(name="x", after=files))]
    assert told == [
        ("blocks", "a.py", 3),
        ("blocks", "a.py", 4),
        ("blocks", "b.py", 2),
        ("attention", "a.py", 2),
        ("note", "b.py", 1),
    ]


def test_of_one_rule_so_many_are_told_and_the_others_counted(stage: Stage) -> None:
    text = "".join(f"# TODO: {number}\n" for number in range(MOST_OF_A_RULE + 7)) + "x = load()  # type: ignore\n"
    findings = stage.scan(story(name="x", after={"a.py": text}))
    of_it = [one for one in findings if one.rule == "placeholder"]
    assert len(of_it) == MOST_OF_A_RULE + 1
    assert "7 more" in of_it[-1].said
    assert of_it[-1].weight == "blocks"
    assert [one.rule for one in findings].count("type-bypass") == 1


def test_a_secret_is_never_shown_by_its_own_finding_nor_by_another(stage: Stage) -> None:
    """The secret is hidden on the line of another finding and on a line in another file."""
    key = PARTS["github token"]
    files = {"a.py": "KEY = '{{github token}}'  # TODO: read it\n", "b.py": f"# FIXME: not {key[:]}\nx = 1\n"}
    findings = stage.scan(story(name="x", after=files))
    assert {one.rule for one in findings} >= {"secret", "placeholder"}
    told = "\n".join(one.model_dump_json() for one in findings)
    assert key not in told
    assert key[4:] not in told
    assert "[secret hidden]" in told


def test_what_is_told_can_be_printed_and_sent_whatever_the_diff_holds(stage: Stage) -> None:
    path = "caf\udce9 \u202e.py"
    text = "# TODO: \x1b[2J\u202e" + "long " * 100 + "\udcff\n"
    findings = stage.scan(story(name="x", after={path: text}))
    assert findings
    for one in findings:
        assert (one.path + one.text + one.said).isprintable()
        assert len(one.text) <= 200
        assert ScanFinding.model_validate_json(one.model_dump_json()) == one


def test_what_nobody_writes_by_hand_is_not_scanned_if_the_target_says_so(stage: Stage) -> None:
    files = {"gen/a.py": "# TODO: generated\n"}
    rule = {".gitattributes": "gen/** linguist-generated\n"}
    told = {one.rule for one in stage.scan(story(name="x", before=rule, after=files))}
    assert "placeholder" not in told
    own = {one.rule for one in stage.scan(story(name="x", after={**files, **rule}))}
    assert "placeholder" in own


@pytest.mark.parametrize("mode", ["120000", "100644"])
def test_a_link_has_no_lines_of_code(stage: Stage, mode: str) -> None:
    findings = stage.scan(story(name="x", after={"a.py": "# TODO: it"}, modes={"a.py": mode}))
    assert ("placeholder" in {one.rule for one in findings}) == (mode == "100644")


def test_the_same_change_is_found_the_same_way_twice(stage: Stage) -> None:
    subject = stage.subject(story(name="x", after={"a.ts": "const a = b as any; // TODO\n" * 40}))
    assert scan(subject) == scan(subject)


def test_line_numbers_are_those_of_the_new_file(stage: Stage) -> None:
    before = {"a.py": "".join(f"a{number} = 1\n" for number in range(50))}
    after = {"a.py": before["a.py"].replace("a30 = 1\n", "a30 = 1\n# TODO: here\n")}
    (found,) = stage.scan(story(name="x", before=before, after=after))
    assert (found.line, found.text) == (32, "# TODO: here")
    assert re.search("remove|do the work", found.said)


def test_what_was_too_much_to_be_searched_for_secrets_is_said(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """With too many lines the key is beyond the limit, and a finding says so. With fewer lines it is found."""
    monkeypatch.setattr(secrets, "_MOST_CHARACTERS", 1_000)

    def found(lines: int) -> set[tuple[str, str, str]]:
        files = {"docs/a.txt": "a line of nine words that says just nothing\n" * lines, "z.py": 'k = "{{aws key}}"\n'}
        findings = stage.scan(story(name="x", after=files))
        return {(one.rule, one.path, one.weight) for one in findings if one.rule in ("unreadable", "secret")}

    assert found(23) == {("unreadable", "z.py", "attention")}
    assert found(24) == {("unreadable", "docs/a.txt", "attention"), ("unreadable", "z.py", "attention")}
    assert found(20) == {("secret", "z.py", "blocks")}
