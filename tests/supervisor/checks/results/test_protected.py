"""The composed tree is run under the target's own tests and settings, in real repositories."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from gates import check
from judged_runs import case, told, untold
from repositories import Hub, git

from forgepool.supervisor.checks.results.evidence import RunEvidence
from forgepool.supervisor.checks.results.judging import Ran, judge
from forgepool.supervisor.checks.results.protected import GuardedTree, commit_of, excuse_of, protect_tree, weigh
from forgepool.supervisor.checks.results.reports import SuiteReport
from forgepool.supervisor.checks.results.touched import Cover, Touched, cover_of, find_touched
from forgepool.workers.policy.gate_file.test_paths import Role
from forgepool.worktrees.commits.changes import changes
from forgepool.worktrees.commits.diff import DiffLine, FileDiff, tree_diff
from forgepool.worktrees.git.git import CommitId, Git, TreeId

TIP = {
    "src/a.py": "A = 1\n",
    "tests/test_a.py": "def test_a():\n    assert 1\n",
    "tests/test_b.py": "def test_b():\n    assert 2\n",
    "conftest.py": "import pytest\n",
    "pytest.ini": "[pytest]\n",
    "Makefile": "test:\n\tpytest\n",
    "ci/run.sh": "pytest\n",
    "pyproject.toml": '[project]\nname = "a"\n\n[tool.pytest.ini_options]\naddopts = "-q"\n',
    ".github/workflows/ci.yml": "on: push\n",
}


class Repository:
    """A target's tip, and the trees that entries would make of it."""

    def __init__(self, folder: Path) -> None:
        self.hub = Hub(path=folder / "hub.git", work=folder / "work")
        git(folder, "init", "-q", "--bare", "-b", "main", str(self.hub.path))
        git(folder, "init", "-q", "-b", "main", str(self.hub.work))
        git(self.hub.work, "commit", "-q", "--allow-empty", "-m", "first")
        git(self.hub.work, "remote", "add", "origin", str(self.hub.path))
        git(self.hub.work, "push", "-q", "origin", "main")
        self.tip = self.hub.commit(TIP)
        self.git = Git(git_dir=self.hub.path)
        self.made = 0

    def entry(self, files: Mapping[str, str | None]) -> tuple[TreeId, tuple[FileDiff, ...]]:
        """Commit these files on the tip, without earlier entries."""
        self.made += 1
        return self.diffed(self.hub.commit(files, branch=f"entry-{self.made}"))

    def diffed(self, commit: CommitId) -> tuple[TreeId, tuple[FileDiff, ...]]:
        tree = TreeId(git(self.hub.path, "rev-parse", f"{commit}^{{tree}}"))
        return tree, tree_diff(self.git, self.tip, tree)

    def guarded(self, files: Mapping[str, str | None], **said: Any) -> GuardedTree | None:
        tree, diffs = self.entry(files)
        return protect_tree(self.git, self.tip, tree, diffs, **said)

    def differing(self, tree: TreeId) -> dict[str, str]:
        """Return the status of each path in which the tree differs from the tip."""
        return {one.path: one.status for one in changes(self.git, self.tip, tree)}


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path)


@pytest.mark.parametrize(
    "files",
    [
        {"tests/test_a.py": "def test_a():\n    assert True\n"},
        {"tests/test_a.py": None},
        {"tests/test_c.py": "def test_c(): pass\n"},
        {"tests/test_a.py": None, "tests/test_a/inner.py": "x\n"},
        {"conftest.py": None, "conftest.py/x.txt": "x\n"},
        {"conftest.py": "import os; os._exit(0)\n"},
        {"src/conftest.py": "import os; os._exit(0)\n"},
        {"pytest.ini": "[pytest]\naddopts = -k nothing\n"},
        {"pytest.ini": None},
        {"tox.ini": "[pytest]\n"},
        {"Makefile": "test:\n\ttrue\n"},
        {".github/workflows/ci.yml": None},
        {"pyproject.toml": TIP["pyproject.toml"].replace("-q", "-k nothing")},
        {"tests/test_a.py": None, "tests/test_moved.py": TIP["tests/test_a.py"]},
        {"tests/ünï\ncode.py": "x\n"},
    ],
)
def test_the_targets_tests_decide(repository: Repository, files: Mapping[str, str | None]) -> None:
    """Tests that are changed, added, deleted or renamed are as in the target. The code is the entry's."""
    guarded = repository.guarded({**files, "src/a.py": "A = 2\n"})
    assert guarded is not None
    assert repository.differing(guarded.tree) == {"src/a.py": "M"}
    assert guarded.put_back


@pytest.mark.parametrize(
    "files",
    [
        {"src/a.py": "A = 2\n", "src/b.py": "B = 1\n", "README.md": "x\n"},
        {"ci/run.sh": "true\n"},
        {"pyproject.toml": TIP["pyproject.toml"].replace('name = "a"', 'name = "b"')},
        {},
    ],
)
def test_code_alone_has_no_protected_tree(repository: Repository, files: Mapping[str, str | None]) -> None:
    """An entry that changes neither tests nor settings has no protected tree."""
    assert repository.guarded(files) is None


def test_a_script_that_a_check_names_is_put_back(repository: Repository) -> None:
    """A script in the check's command is put back, wherever it lies."""
    guarded = repository.guarded({"ci/run.sh": "true\n"}, checks=[check("./ci/run.sh")])
    assert guarded is not None and repository.differing(guarded.tree) == {}
    assert [(one.path, one.role) for one in guarded.put_back] == [("ci/run.sh", "runner")]


def test_settings_are_put_back_and_dependencies_stay(repository: Repository) -> None:
    """In a file with both, the entry's dependencies stay."""
    new = TIP["pyproject.toml"].replace('name = "a"', 'name = "a"\ndependencies = ["x"]').replace("-q", "-k nothing")
    guarded = repository.guarded({"pyproject.toml": new})
    assert guarded is not None
    text = git(repository.hub.path, "show", f"{guarded.tree}:pyproject.toml")
    assert '"x"' in text and '"-q"' in text and "nothing" not in text


def test_a_mode_or_a_link_is_put_back(repository: Repository) -> None:
    """A test that became a link or lost its execute bit is put back."""
    work = repository.hub.work
    repository.entry({"src/a.py": "A = 2\n"})
    (work / "tests/test_a.py").unlink()
    (work / "tests/test_a.py").symlink_to("../src/a.py")
    (work / "tests/test_b.py").chmod(0o755)
    git(work, "add", "-A")
    git(work, "commit", "-q", "-m", "modes")
    git(work, "push", "-q", "origin", "HEAD:refs/heads/modes")
    tree, diffs = repository.diffed(CommitId(git(work, "rev-parse", "HEAD")))
    guarded = protect_tree(repository.git, repository.tip, tree, diffs)
    assert guarded is not None and repository.differing(guarded.tree) == {"src/a.py": "M"}


def test_a_move_between_code_and_tests_is_undone_in_the_tests(repository: Repository) -> None:
    """Code moved into the tests is absent there. A test moved out of them is put back, and its copy stays as code."""
    into = repository.guarded({"src/a.py": None, "tests/a.py": TIP["src/a.py"]})
    assert into is not None and repository.differing(into.tree) == {"src/a.py": "D"}
    out = repository.guarded({"tests/test_a.py": None, "src/helper.py": TIP["tests/test_a.py"]})
    assert out is not None and "tests/test_a.py" not in repository.differing(out.tree)
    assert "src/helper.py" in repository.differing(out.tree)


def test_what_a_person_granted_stays(repository: Repository) -> None:
    """A granted file stays as the entry has it. For a renamed file, both names need a grant."""
    files = {"tests/test_a.py": "def test_a():\n    assert 9\n", "conftest.py": "import os\n"}
    guarded = repository.guarded(files, grants=["tests/**"])
    assert guarded is not None and repository.differing(guarded.tree) == {"tests/test_a.py": "M"}
    assert repository.guarded(files, grants=["tests/**", "conftest.py"]) is None
    moved = {"tests/test_a.py": None, "tests/other/test_a.py": TIP["tests/test_a.py"]}
    assert repository.guarded(moved, grants=["tests/test_a.py"]) is not None


def test_making_it_writes_only_objects(repository: Repository) -> None:
    """Only objects are written, no ref or index, and the same entry gives the same commit."""
    tree, diffs = repository.entry({"tests/test_a.py": None})
    before = git(repository.hub.path, "for-each-ref"), sorted(repository.hub.path.iterdir())
    made = [protect_tree(repository.git, repository.tip, tree, diffs) for _ in range(2)]
    assert made[0] == made[1] and made[0] is not None
    commits = [commit_of(repository.git, repository.tip, made[0].tree) for _ in range(2)]
    assert commits[0] == commits[1]
    assert git(repository.hub.path, "rev-parse", f"{commits[0]}^", f"{commits[0]}^{{tree}}").split() == [
        repository.tip,
        made[0].tree,
    ]
    assert (git(repository.hub.path, "for-each-ref"), sorted(repository.hub.path.iterdir())) == before


# The effect of a protected run.


def put(path: str, cover: Cover, role: Role = "test") -> Touched:
    return Touched(path=path, role=role, cover=cover)


def guarded(*put_back: Touched) -> GuardedTree:
    return GuardedTree(tree=TreeId("0" * 40), put_back=put_back)


GREEN = told(["a", "b"])
RED = told(["a"], ["b"])
B = "tests/test_a.py::b"


def weighed(ran: Ran, *put_back: Touched, tip: Ran = GREEN, **said: Any) -> Any:
    return weigh(judge(tip, ran, ran, tip), tip, ran, guarded(*put_back), **said)


def test_a_broken_test_needs_a_look_or_is_red() -> None:
    """
    The entry changed a test that then fails on the target's version. A declared test needs a look, and any other is
    red.
    """
    assert weighed(RED, put("tests/test_a.py", "held")).attention == (B,)
    assert weighed(RED, put("tests/test_a.py", "none")).red == (B,)
    assert weighed(told(["a"]), put("tests/test_a.py", "held")).attention == (B,)
    assert weighed(told(["a"]), put("tests/test_a.py", "none")).red == (B,)


def test_a_failing_test_elsewhere_needs_a_look_or_is_red() -> None:
    """
    A test that the entry did not change fails because of other files put back. Declaring runner settings does not
    excuse it.
    """
    assert weighed(RED, put("conftest.py", "held", "support")).attention == (B,)
    assert weighed(RED, put("conftest.py", "none", "support")).red == (B,)
    assert weighed(RED, put("pytest.ini", "held", "runner")).red == (B,)
    assert weighed(RED, put("tests/test_a.py", "held"), put("pytest.ini", "held", "runner")).attention == (B,)


def test_a_granted_test_is_excused() -> None:
    """A granted file stays the entry's, and failures in it are excused."""
    files = (FileDiff(status="M", path="tests/test_a.py", mode="100644", old_mode="100644"),)
    excuse = excuse_of(files, grants=["tests/**"])
    found = weighed(told(["a"]), put("pytest.ini", "none", "runner"), excuse=excuse)
    assert (found.excused, found.red, found.attention, found.whole) == ((B,), (), (), None)


def test_a_failure_without_names_is_weighed_by_the_least_covered_file() -> None:
    """If no test is named, the least covered of the files put back decides."""
    green, red = untold(), untold(1)
    for put_back, whole in (
        ([put("tests/a.rs", "held")], "held"),
        ([put("tests/a.rs", "held"), put("tests/b.rs", "none")], "none"),
        ([put("Makefile", "held", "runner")], "none"),
    ):
        found = weigh(judge(green, red, red), green, red, guarded(*put_back))
        assert (found.whole, found.red, found.attention) == (whole, (), ())


def test_what_was_red_before_has_no_effect() -> None:
    """A protected run that is green, or as red as the tip, has no effect."""
    nothing = weighed(GREEN, put("tests/test_a.py", "none"))
    assert nothing == weighed(RED, put("tests/test_a.py", "none"), tip=RED)
    assert (nothing.red, nothing.attention, nothing.excused, nothing.whole) == ((), (), (), None)


def test_a_failure_that_did_not_run_again_is_weighed() -> None:
    first, second = told(["a"], ["b"]), told(["a"])
    found = weigh(judge(GREEN, first, second), told(["a"]), second, guarded(put("tests/test_a.py", "held")))
    assert found.attention == (B,)


def test_a_waived_scan_excuses_no_failure() -> None:
    """Permission to remove tests from a file does not excuse failures of those left in it."""
    diff = FileDiff(status="M", path="tests/test_a.py", mode="100644", old_mode="100644")
    excuse = excuse_of([diff], holds=[], waive=["test-removed"])
    assert weighed(RED, put("tests/test_a.py", "none"), excuse=excuse).red == (B,)
    assert judge(GREEN, told(["a"]), excuse=excuse).verdict == "green"
    assert judge(GREEN, told(["a"]), excuse=excuse_of([diff], holds=[], waive=["placeholder"])).vanished == (B,)


# Which tests lie in what an entry changed.


def test_the_file_of_a_test_is_found() -> None:
    """A test's file is found by the file in the report, by its class, or by its name in a removed line."""
    report = told(["x"]).evidence.report
    assert report is not None
    one = report.cases[0]
    for id_, file, path, removed, wanted in (
        ("x", "tests/test_a.py", "tests/test_a.py", "", True),
        ("x", "tests/test_a.py", "backend/tests/test_a.py", "", True),
        ("x", "tests/test_a.py", "tests/test_aa.py", "x", False),
        ("x", "tests/test_a.py", "tests/test_b.py", "def x():", False),
        ("tests.test_a.TestX::test_y", "", "tests/test_a.py", "", True),
        ("tests.test_a.TestX::test_y", "", "tests/test_b.py", "", False),
        ("com.acme.FooTest$Inner::adds", "", "src/test/java/com/acme/FooTest.java", "", True),
        ("com.acme.FooTest::adds", "", "src/test/java/com/acme/BarTest.java", "", False),
        ("example.com/m::TestX", "", "sum_test.go", "func TestX(t *testing.T) {", True),
        ("example.com/m::TestX", "", "sum_test.go", "func TestXY(t *testing.T) {", False),
        ("sums adds::sums adds", "", "sums.test.js", "describe('sums', () => { it('adds'", True),
    ):
        diff = FileDiff(
            status="M", path=path, mode="100644", old_mode="100644", removed=(DiffLine(number=1, text=removed),)
        )
        case = one.model_copy(update={"id": id_, "file": file})
        assert cover_of(case, find_touched([diff], grants=["**"])) == ("granted" if wanted else "none"), (id_, path)


@pytest.mark.parametrize(
    ("grants", "holds", "waive", "cover"),
    [
        ((), ("src/**",), (), "none"),
        ((), ("tests/**",), (), "held"),
        ((), None, (), "held"),
        (("tests/old.py",), ("tests/**",), (), "granted"),
        (("tests/new.py",), (), (), "none"),
        ((), (), ("test-removed",), "none"),
    ],
)
def test_the_cover_of_a_renamed_file_is_that_of_its_old_name(
    grants: tuple[str, ...], holds: tuple[str, ...] | None, waive: tuple[str, ...], cover: str
) -> None:
    """The name in the target counts."""
    diff = FileDiff(status="R", path="tests/new.py", old_path="tests/old.py", mode="100644", old_mode="100644")
    found = find_touched([diff], grants, holds, waive)
    assert [(one.path, one.role, one.cover) for one in found] == [("tests/old.py", "test", cover)]


@pytest.mark.parametrize(("now", "collected"), [("tests/test_core.py", True), ("tests/helpers/core.py", False)])
def test_a_renamed_file_of_tests_is_found_if_it_is_collected(tmp_path: Path, now: str, collected: bool) -> None:
    """A renamed file's tests are found if a runner collects it, and are missing if none does."""
    repository = Repository(tmp_path)
    _, files = repository.entry({"tests/test_a.py": None, now: TIP["tests/test_a.py"]})
    here = [case("test_b", "passed", "tests/test_b.py"), *([case("test_a", "passed", now)] if collected else [])]
    tip = [case("test_b", "passed", "tests/test_b.py"), case("test_a", "passed")]
    runs = [
        Ran(how="exit", status=0, evidence=RunEvidence(report=SuiteReport(cases=tuple(each)))) for each in (tip, here)
    ]
    found = judge(runs[0], runs[1], excuse=excuse_of(files, holds=["src/**"]))
    assert found.vanished == (() if collected else ("tests/test_a.py::test_a",))
    assert judge(runs[0], runs[1], excuse=excuse_of(files)).attention == found.vanished
