"""What a change touches is run, what it cannot touch is not, and a candidate proves nothing about itself."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from gates import Gate, check
from repositories import Hub

from forgepool.supervisor.checks.results.reports import SuiteReport
from forgepool.supervisor.checks.traced.proofs import MISS_COUNTS_S, Proofs
from forgepool.supervisor.messages.answers import CheckResult
from forgepool.supervisor.messages.requests import CheckRequest
from forgepool.workers.sandbox.layers import why_level_fails

TEST = check("python -m pytest -q -p no:cacheprovider --disable-plugin-autoload tests", traced=True)
ONE, TWO = "tests/test_one.py", "tests/test_two.py"
FILES = {
    "README": "1\n",
    "conftest.py": "",
    "lib/__init__.py": "",
    "lib/one.py": "def double(number):\n    return 2 * number\n",
    "lib/three.py": "",
    "lib/two.py": "def half(number):\n    return number / 2\n",
    "data/one.txt": "4\n",
    "data/child.txt": "6\n",
    ONE: """\
import pathlib
import subprocess

from lib.one import double

try:
    import lib.three
except ImportError:
    pass

def test_file():
    assert double(2) == int(pathlib.Path("data/one.txt").read_text())


def test_child():
    assert double(3) == int(subprocess.run(["cat", "data/child.txt"], capture_output=True).stdout)


def test_absent():
    print(pathlib.Path("data/flag").exists())
""",
    TWO: "from lib.two import half\n\n\ndef test_half():\n    assert half(4) == 2\n",
}

pytestmark = pytest.mark.skipif(
    why_level_fails("bubblewrap") is not None, reason="only bubblewrap's commands are traced"
)


def whole(gate: Gate, number: int = 1, test: Any = TEST) -> CheckResult:
    """Run all checks on the target, as after landings."""
    anybody = gate.request(gate.entry("anybody", {"b": "2\n"}), test)
    said = {"entries": (), "whole": True, "request_id": f"whole-{number}"}
    return gate.examine(CheckRequest.model_validate(anybody.model_dump() | said))


def asked(gate: Gate, task: str, files: dict[str, str | None], test: Any = TEST) -> tuple[CheckResult, set[str]]:
    """Return the verdict on a candidate, and the test files that its run in the composed tree was about."""
    request = gate.request(gate.entry(task, files), test)
    found = gate.examine(request)
    report = gate.settings.home / "runs/r/logs/checks" / request.request_id / f"composed-{test.name}.tests.json"
    if not report.exists():
        return found, set()
    return found, {case.file for case in SuiteReport.model_validate_json(report.read_bytes()).cases}


def proofs(gate: Gate) -> list[Proofs]:
    kept = (gate.settings.cache / "verdicts").glob("*.traced.json")
    return [Proofs.model_validate_json(path.read_bytes()) for path in kept]


def make_gate(folder: Path, pristine: Path, files: dict[str, str]) -> Gate:
    import shutil

    shutil.copytree(pristine, folder, dirs_exist_ok=True)
    gate = Gate(Hub(path=folder / "hub.git", work=folder / "person"), folder)
    gate.hub.commit({**files})
    return gate


@pytest.fixture(scope="module")
def traced(pristine: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gate]:
    """Yield a gate whose target has been traced. Its candidates must not land."""
    gate = make_gate(tmp_path_factory.mktemp("traced"), pristine, FILES)
    found = whole(gate)
    assert found.verdict == "green" and found.certificates[0].traced == "2 of 2 test files proven"
    yield gate


@pytest.mark.parametrize(
    ("task", "files", "ran"),
    [
        ("readme", {"README": "2\n"}, set()),
        ("module", {"lib/two.py": "def half(number):\n    return number // 2\n"}, {TWO}),
        ("data", {"data/one.txt": " 4\n"}, {ONE}),
        ("data-of-a-child", {"data/child.txt": " 6\n"}, {ONE}),
        ("failed-look-up", {"data/flag": "x\n"}, {ONE}),
        ("new-test", {"tests/test_new.py": "def test_new():\n    pass\n"}, {"tests/test_new.py"}),
        ("deleted", {"lib/three.py": None}, {ONE, TWO}),
        ("conftest", {"conftest.py": "import os\n"}, {ONE, TWO}),
        ("shadow", {"lib/two/__init__.py": "def half(number):\n    return number / 2\n"}, {ONE, TWO}),
    ],
)
def test_only_what_a_change_can_touch_is_run(
    traced: Gate, task: str, files: dict[str, str | None], ran: set[str]
) -> None:
    found, about = asked(traced, task, files)
    assert (found.verdict, about) == ("green", ran)
    left = 2 - len(ran & {ONE, TWO})
    assert found.certificates[0].traced == (f"{left} of 2 test files proven and not run" if left else "")
    assert found.certificates[0].tests == 4 + (task == "new-test")


def test_another_environment_is_not_proven(traced: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "C")
    assert asked(traced, "environment", {"README": "3\n"})[1] == {ONE, TWO}


def test_another_repository_is_not_proven(traced: Gate, pristine: Path, tmp_path: Path) -> None:
    other = make_gate(tmp_path, pristine, FILES)
    other.settings = other.settings.model_copy(update={"cache": traced.settings.cache})
    assert asked(other, "readme", {"README": "4\n"})[1] == {ONE, TWO}


def test_what_was_not_run_is_told_of_a_remembered_run_as_well(traced: Gate) -> None:
    for task, reused in (("once", False), ("twice", True)):
        (one,) = asked(traced, task, {"README": "5\n"})[0].certificates
        assert (one.reused, one.traced) == (reused, "2 of 2 test files proven and not run")


def test_a_candidate_proves_nothing_whatever_it_says_or_writes(pristine: Path, tmp_path: Path) -> None:
    """The sly test reads in a way that its own process hides. It also writes a proof wherever it can."""
    gate = make_gate(tmp_path, pristine, FILES | {"data/sly.txt": "1\n"})
    kept = gate.settings.cache / "verdicts"
    sly = f"""\
import builtins, ctypes, glob, pathlib

PROOF = '{{"files": {{"tests/test_sly.py": {{"inputs": "", "looked": [], "opened": [], "cases": []}}}}}}'


def test_sly():
    for folder in ({str(kept)!r}, ".", "/tmp"):
        for name in [*glob.glob(folder + "/*.json"), folder + "/forged.traced.json"]:
            try:
                pathlib.Path(name).write_text(PROOF)
            except OSError:
                pass
    libc, room = ctypes.CDLL(None), ctypes.create_string_buffer(2)
    libc.read(libc.open(b"data/../data/sly.txt", 0), room, 2)
    print("tests/test_sly.py proven", PROOF)
    assert room.value == b"1\\n"
"""
    entry = gate.entry("sly", {"tests/test_sly.py": sly})
    request = gate.request(entry, TEST)
    found = gate.examine(request)
    assert found.verdict == "green" and proofs(gate) == []
    assert gate.land(gate.landing(request, found)).outcome == "landed"
    assert whole(gate).certificates[0].traced == "3 of 3 test files proven"
    (one,) = proofs(gate)
    assert "data/sly.txt" in one.files["tests/test_sly.py"].looked
    gate.let_in(gate.entry("readme", {"README": "2\n"}), TEST)
    found, ran = asked(gate, "change", {"data/sly.txt": "2\n"})
    # The tree holds a path of this run, so others may be among those that are audited.
    assert found.verdict == "red" and "tests/test_sly.py" in ran


def test_one_miss_has_the_check_run_whole_and_says_why(pristine: Path, tmp_path: Path) -> None:
    """The test looks at a file outside of the tree."""
    gate = make_gate(tmp_path, pristine, FILES)
    sick = gate.mirror.path / "sick"
    gate.hub.commit(
        {TWO: f"import pathlib\n\n\ndef test_sick():\n    assert not pathlib.Path({str(sick)!r}).exists()\n"}
    )
    whole(gate)
    sick.touch()
    assert whole(gate, 2).verdict == "base_red"
    sick.unlink()
    (one,) = proofs(gate)
    assert one.words == (
        f"run whole, since {TWO} was red where all that it reads was as when it was green (1 of 1 audits were red)"
    )
    assert asked(gate, "readme", {"README": "2\n"})[1] == {ONE, TWO}
    gate.hub.commit({"README": "3\n"})
    assert whole(gate, 3).certificates[0].traced == one.words, "another tip does not excuse it"
    (kept,) = (gate.settings.cache / "verdicts").glob("*.traced.json")
    kept.write_text(one.model_copy(update={"missed_at": one.missed_at - MISS_COUNTS_S}).encode())
    assert whole(gate, 4).certificates[0].traced == "2 of 2 test files proven"


def test_another_tip_is_looked_at_again_where_a_hook_had_the_check_run_whole(pristine: Path, tmp_path: Path) -> None:
    hook = (
        "def pytest_ignore_collect(collection_path):\n    return False if collection_path.suffix == '.py' else None\n"
    )
    gate = make_gate(tmp_path, pristine, FILES | {"conftest.py": hook})
    for number, traces in ((1, True), (2, False)):
        found = whole(gate, number)
        assert found.certificates[0].traced.startswith(
            "run whole, since none of its test files can be left out: "
            "pytest_ignore_collect in conftest.py may collect tests/test_"
        )
        assert any((gate.settings.home / f"runs/r/logs/checks/whole-{number}").glob("traced-*")) == traces
    gate.hub.commit({"conftest.py": ""})
    assert whole(gate, 3).certificates[0].traced == "2 of 2 test files proven"


@pytest.mark.parametrize(
    ("files", "run", "said"),
    [
        (
            {ONE: "import os\n\n\ndef test_one():\n    os.environ['SET'] = '1'\n"}
            | {TWO: "import os\n\n\ndef test_two():\n    assert os.environ['SET']\n"},
            TEST.run,
            f"run whole, since {TWO} has other results alone than with the others before it",
        ),
        pytest.param(
            {},
            f"{TEST.run.removesuffix('tests')} {ONE} {TWO}",
            "run whole, since none of its test files can be left out: its command names tests/test_",
            marks=pytest.mark.soak,
        ),
    ],
)
def test_what_cannot_be_proven_is_always_run(
    pristine: Path, tmp_path: Path, files: dict[str, str], run: str, said: str
) -> None:
    gate = make_gate(tmp_path, pristine, FILES | files)
    test = check(run, traced=True)
    assert whole(gate, test=test).certificates[0].traced.startswith(said)
    assert TWO in asked(gate, "readme", {"README": "2\n"}, test)[1]


def test_what_asks_git_is_always_run_and_what_is_read_outside_of_the_paths_is_told(
    pristine: Path, tmp_path: Path
) -> None:
    gate = make_gate(tmp_path, pristine, FILES | {TWO: "def test_git():\n    open('.git').close()\n"})
    mine = check(TEST.run, traced=True, paths=("lib", "tests"))
    other = check("test -e data", "data", paths=("data",))
    anybody = gate.request(gate.entry("anybody", {"b": "2\n"}), mine, other)
    found = gate.examine(CheckRequest.model_validate(anybody.model_dump() | {"entries": (), "whole": True}))
    assert found.certificates[0].traced == (
        "1 of 2 test files proven; it reads data/child.txt, data/one.txt, which its paths leave out"
    )
