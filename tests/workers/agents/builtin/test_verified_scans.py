"""The built-in agent's work is scanned before it counts as verified, by the rules and terms of the gate."""

from pathlib import Path
from typing import Any

import pytest
from host_kit import Host
from repositories import git, write

from forgepool.workers.context.transcript.entries import TurnSaid, Verified
from forgepool.workers.schema.orders import ScriptedAgent, WorkResult
from forgepool.workers.schema.policy_rules import ScanTerms
from forgepool.workers.workspace.screening import AttemptWork, find_held
from forgepool.worktrees.git.git import Git, TreeId

FILES = {
    "a.py": "def total(items):\n    return sum(items)\n",
    "test_a.py": "from a import total\n\n\ndef test_total():\n    assert total([1, 2]) == 3\n",
}
CLEAN = "def total(items):\n    return sum(items, 0)\n"
STUB = "def total(items):\n    pass\n"
SKIPPED = (
    "import pytest\n\nfrom a import total\n\n\n@pytest.mark.skip\ndef test_total():\n    assert total([1, 2]) == 3\n"
)
TODO = "def total(items):\n    # TODO: handle refunds\n    return sum(items)\n"


def turn(path: str, content: str) -> str:
    return f"  - calls: [{{tool: write_file, path: {path}, content: {content!r}}}, {{tool: finish, summary: done}}]\n"


def script(*turns: tuple[str, str]) -> ScriptedAgent:
    lines = "".join(turn(path, content).replace("'", '"') for path, content in turns)
    return ScriptedAgent(script=f"turns:\n{lines}")


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path, FILES)


def work(host: Host, *turns: tuple[str, str], **said: Any) -> WorkResult:
    return host.carry_out(agent=script(*turns), **({"scans": ScanTerms(), "acceptance": ("true",)} | said))


def verdicts(host: Host) -> list[Verified]:
    return [entry for entry in host.transcript() if isinstance(entry, Verified)]


@pytest.mark.parametrize(
    ("path", "bad", "good", "rule"),
    [
        ("a.py", TODO, CLEAN, "placeholder"),
        ("a.py", STUB, CLEAN, "placeholder"),
        (
            "test_a.py",
            SKIPPED,
            FILES["test_a.py"] + "\n\ndef test_none():\n    assert total([]) == 0\n",
            "test-skipped",
        ),
    ],
)
def test_a_finding_comes_back_into_the_conversation_with_the_gates_words(
    host: Host, path: str, bad: str, good: str, rule: str
) -> None:
    done = work(host, (path, bad), (path, good), files=("a.py", "test_a.py"))
    assert done.outcome == "candidate", done.detail
    red, green = verdicts(host)
    assert green.ok and not red.ok
    assert red.detail.startswith(f"the gate's scans would return it for {path}:") and f": {rule}: " in red.output
    (said,) = [
        part.text
        for entry in host.transcript()
        if isinstance(entry, TurnSaid) and entry.turn.role == "user"
        for part in entry.turn.parts
        if getattr(part, "text", "").startswith("[the harness] Your work was verified, and is not done")
    ]
    assert red.output in said


def test_a_red_command_and_a_finding_come_back_together(host: Host) -> None:
    done = work(host, ("a.py", TODO), ("a.py", CLEAN), acceptance=("echo broken; grep -q ', 0' a.py",))
    assert done.outcome == "candidate", done.detail
    red = verdicts(host)[0]
    assert "exited with 1; and the gate's scans would return it" in red.detail
    assert "broken" in red.output and "placeholder" in red.output


def test_findings_that_stay_end_the_attempt_as_reds_do(host: Host) -> None:
    done = work(host, *[("a.py", TODO)] * 5)
    assert done.outcome == "verify_failed" and "placeholder" in done.log_tail, done
    assert "so it was 3 times, in the same way" in done.detail and len(verdicts(host)) == 3
    assert done.unverified is not None


@pytest.mark.parametrize(
    ("terms", "said", "verdict"),
    [
        (ScanTerms(), {}, "verify_failed"),
        (ScanTerms(waive=("placeholder",)), {}, "candidate"),
        (None, {}, "candidate"),
    ],
)
def test_what_a_person_waived_counts_and_an_older_run_has_no_terms(
    host: Host, terms: ScanTerms | None, said: dict[str, Any], verdict: str
) -> None:
    assert work(host, ("a.py", TODO), scans=terms, **said).outcome == verdict


TICKET = "def total(items):\n    # TODO(ABC-12): handle refunds\n    return sum(items)\n"


def commit(host: Host, files: dict[str, str]) -> None:
    """Commit files on the target, as a person does."""
    person = host.folder / "person"
    write(person, files)
    git(person, "add", "-A")
    git(person, "commit", "-q", "-m", "settings")
    git(person, "push", "-q", str(host.hub), "main")
    host.base = git(person, "rev-parse", "HEAD")


@pytest.mark.parametrize(
    ("gate", "terms", "verdict"),
    [
        ("", ScanTerms(), "verify_failed"),
        ("", ScanTerms(reviewed=True), "candidate"),
        ("review: required\n", ScanTerms(), "candidate"),
        ("scans: {waive: [placeholder]}\n", ScanTerms(), "candidate"),
        ("no: gate file\n", ScanTerms(), "candidate"),
    ],
)
def test_attention_is_left_to_a_reviewer_and_rules_are_those_of_the_base(
    host: Host, gate: str, terms: ScanTerms, verdict: str
) -> None:
    """A gate file that is wrong is the gate's to report."""
    if gate:
        commit(host, {"forgepool.yaml": f"version: 1\nchecks: {{test: pytest -q}}\n{gate}"})
    assert work(host, ("a.py", TICKET), scans=terms).outcome == verdict


def test_the_works_own_gate_file_decides_nothing(host: Host) -> None:
    """No tool lets an agent write it, but a command could."""
    gate = "version: 1\nchecks: {test: pytest -q}\n"
    commit(host, {"forgepool.yaml": gate})
    base = host.base
    commit(host, {"forgepool.yaml": f"{gate}scans: {{waive: [placeholder, protected-path]}}\n", "a.py": TODO})
    tree = TreeId(git(host.hub, "rev-parse", "main^{tree}"))
    order = host.order(base=base, agent=script(), scans=ScanTerms())
    work = AttemptWork(git=Git(git_dir=host.hub), order=order, tree=tree, paths=("a.py", "forgepool.yaml"))
    assert {(one.path, one.rule) for one in find_held(work)} == {
        ("a.py", "placeholder"),
        ("forgepool.yaml", "protected-path"),
    }


def test_files_that_checks_run_are_protected_also_those_of_the_plan(host: Host) -> None:
    commit(host, {"scripts/check.sh": "pytest -q\n", "scripts/prepare.sh": "true\n"})
    terms = ScanTerms(checks={"test": "sh scripts/check.sh"})
    assert work(host, ("scripts/check.sh", "true\n"), scans=terms).outcome == "verify_failed"
    granted = terms.model_copy(update={"grants": ("scripts/**",)})
    assert work(host, ("scripts/check.sh", "true\n"), scans=granted, attempt=2).outcome == "candidate"


def test_generated_files_are_left_to_the_gate_which_makes_them_itself(host: Host) -> None:
    made = "regenerate: [{paths: [uv.lock], run: make-lock}]\n"
    commit(host, {"forgepool.yaml": f"version: 1\nchecks: {{test: pytest -q}}\n{made}", "uv.lock": "1\n"})
    assert work(host, ("uv.lock", "2\n")).outcome == "candidate"
