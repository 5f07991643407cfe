"""`forgepool schema`: what can be read is valid by its schema, and what an editor should mark is not."""

import json
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator
from people import ROOT, person_in

from forgepool.orchestrator.cli.run.schema import FileKind, make_schema
from forgepool.orchestrator.plan.entries import PlanSource
from forgepool.workers.llm.routing.table import SHIPPED
from forgepool.workers.policy.document import PolicyEntry
from forgepool.workers.policy.gate_file.reading import GateSource
from forgepool.workers.schema.documents import load, read
from forgepool.workers.schema.mistakes import DocumentWrong

_YAML = re.compile(r"^```yaml\n(.*?)^```", re.MULTILINE | re.DOTALL)
PLAN = "version: 1\nname: a\ntasks:\n- {id: a, agent: {command: 'true'}"


@cache
def _validator(kind: FileKind) -> Draft202012Validator:
    made = make_schema(kind)
    Draft202012Validator.check_schema(made)
    return Draft202012Validator(made)


def _mistakes(kind: FileKind, text: str) -> list[str]:
    return [each.message for each in _validator(kind).iter_errors(read(text, "a file").data)]


def _in_documents() -> Iterator[tuple[FileKind, str]]:
    """Yield all files in the documents that can be read as one kind."""
    kinds: dict[FileKind, Callable[[str], object]] = {
        "plan": lambda text: load(text, "", PlanSource),
        "forgepool": lambda text: load(text, "", GateSource),
        "policy": lambda text: load(text, "", PolicyEntry),
    }
    for page in (ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md"))):
        for block in _YAML.findall(page.read_text()):
            for kind, reader in kinds.items():
                try:
                    reader(block)
                except DocumentWrong:
                    continue
                yield kind, block


def test_what_the_documents_show_is_valid() -> None:
    found = list(_in_documents())
    assert {kind for kind, _ in found} == {"plan", "forgepool", "policy"}
    assert [(block, wrong) for kind, block in found if (wrong := _mistakes(kind, block))] == []


@pytest.mark.parametrize("path", sorted(ROOT.glob("examples/*plan.yaml")), ids=lambda path: path.name)
def test_the_examples_are_valid(path: Path) -> None:
    assert _mistakes("plan", path.read_text()) == []


def test_the_shipped_files_are_valid() -> None:
    assert _mistakes("models", SHIPPED.read_text()) == []
    assert _mistakes("policy", (ROOT / "workers" / "policy" / "defaults.yaml").read_text()) == []


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("plan", PLAN + ", duration_s: 15m, runs_on: gpu}\nprogress: 2m\n"),
        ("plan", PLAN.replace("command: 'true'", "cli: claude") + "}\n"),
        (
            "forgepool",
            "version: 1\nscopes: {core: {paths: [src/**]}}\nchecks:\n- {name: a, run: a, timeout_s: 1h, scope: core}\n",
        ),
        ("forgepool", "version: 1\nchecks: {a: pytest}\n"),
        ("policy", "version: 1\nrules: [{match: {commandPrefix: git push, pathGlob: a}, decision: deny}]\n"),
        ("models", "models: {a: {family: gpt, account: openai}}\n"),
        ("models", "budget: a\n"),
    ],
)
def test_short_forms_are_valid(kind: FileKind, text: str) -> None:
    assert _mistakes(kind, text) == []


@pytest.mark.parametrize(
    ("kind", "text", "named"),
    [
        ("plan", PLAN + ", run: a}\n", "'run' was unexpected"),
        ("plan", PLAN + ", duration_s: 15x}\n", "15x"),
        ("plan", "version: 1\nname: a\n", "'tasks' is a required property"),
        ("forgepool", "version: 1\nchecks: [{name: a}]\n", ""),
        ("policy", "version: 1\nrules: [{match: {tool: a}, decision: maybe}]\n", "'maybe' is not one of"),
        ("models", "budgets: a\n", "'budgets' was unexpected"),
    ],
)
def test_mistakes_are_marked(kind: FileKind, text: str, named: str) -> None:
    wrong = _mistakes(kind, text)
    assert len(wrong) == 1
    assert named in wrong[0]


def test_keys_are_explained_in_the_words_of_the_files() -> None:
    task = make_schema("plan")["$defs"]["TaskEntry"]["properties"]
    assert task["grants"]["description"] == "Globs of protected paths and tests that it may change."
    assert "None" not in json.dumps([make_schema("plan"), make_schema("forgepool")])


def test_it_is_printed_or_written(tmp_path: Path) -> None:
    person = person_in(tmp_path, {})
    printed = person.forgepool("schema", "plan")
    assert (printed.status, json.loads(printed.out)["title"]) == (0, "Forgepool: plan")
    said = person.forgepool("schema", "plan", "--output", "plan.json")
    assert (said.status, said.out) == (0, "")
    assert "# yaml-language-server: $schema=plan.json" in said.err
    assert json.loads((person.folder / "plan.json").read_text()) == json.loads(printed.out)


def test_a_wrong_kind_or_folder_is_one_sentence(tmp_path: Path) -> None:
    person = person_in(tmp_path, {})
    said = person.forgepool("schema", "plans")
    assert (said.status, said.err.count("\n")) == (2, 1)
    assert "'plan', 'forgepool', 'policy', 'models'" in said.err
    said = person.forgepool("schema", "plan", "--output", "no/such.json")
    assert (said.status, said.err) == (
        2,
        "forgepool: no/such.json cannot be written: No such file or directory; name another file with --output\n",
    )
