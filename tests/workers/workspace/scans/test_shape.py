"""Scans of a change as a whole: files removed, paths outside the lock, changed file types, and claims about it."""

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from changing import Changes, rules

from forgepool.supervisor.messages.requests import EntryRef
from forgepool.workers.workspace.scans.findings import ScanFinding
from forgepool.workers.workspace.scans.scanning import subject_of
from forgepool.workers.workspace.scans.shape import scan_shape
from forgepool.worktrees.commits.compose import tree_of
from forgepool.worktrees.git.git import CommitId, Git

TREE = {f"src/f{number}.py": f"{number}\n" for number in range(40)}
LINK, SUBMODULE, SCRIPT = "120000", "160000", "100755"


@pytest.fixture(scope="module")
def changes(tmp_path_factory: pytest.TempPathFactory) -> Changes:
    return Changes(tmp_path_factory.mktemp("shape"))


def without(count: int) -> dict[str, None]:
    return dict.fromkeys([*TREE][:count])


def found(changes: Changes, after: object, before: object = TREE, **said: object) -> list[ScanFinding]:
    return changes.found(scan_shape, before, after, **said)  # type: ignore[arg-type]


def test_a_tree_that_lost_more_than_a_twentieth_of_its_files_is_refused(changes: Changes) -> None:
    assert rules(found(changes, without(3)), "blocks") == {"shrinkage"}
    assert rules(found(changes, without(30)), "blocks") == {"shrinkage"}


def test_emptied_files_count_as_removed(changes: Changes) -> None:
    assert rules(found(changes, dict.fromkeys([*TREE][:3], "")), "blocks") == {"shrinkage"}


def test_a_few_files_may_go(changes: Changes) -> None:
    """Two of forty are a twentieth but too few to count, and three of a hundred are less than a twentieth."""
    assert found(changes, without(2)) == []
    many = {f"g{number}": "x\n" for number in range(60)}
    assert found(changes, without(3), {**TREE, **many}) == []


def test_moved_files_do_not_count_as_removed(changes: Changes) -> None:
    assert found(changes, {**without(10), **{f"lib/f{number}.py": f"{number}\n" for number in range(10)}}) == []


def test_files_that_a_person_granted_may_be_removed(changes: Changes) -> None:
    assert found(changes, without(20), grants=("src/",)) == []


def test_a_path_outside_the_lock_is_found(changes: Changes) -> None:
    """Both names of a moved file count."""
    assert rules(found(changes, {"src/f1.py": "x\n"}, holds=("src/f2.py",))) == {"outside-lock"}
    assert rules(found(changes, {"src/f1.py": None, "src/g.py": "1\n"}, holds=("src/g.py",))) == {"outside-lock"}
    assert rules(found(changes, {"src/f1.py": "x\n"}, holds=())) == {"outside-lock"}
    assert rules(found(changes, {"src/f1.py": "x\n"}, holds=(), extended=("src/f1.py",))) == set()


@pytest.mark.parametrize("said", [{"holds": ("src/",)}, {"holds": None}, {"holds": (), "grants": ("**",)}], ids=str)
def test_a_path_that_is_held_or_granted_has_no_finding(changes: Changes, said: dict[str, object]) -> None:
    assert found(changes, {"src/f1.py": "x\n"}, **said) == []


@pytest.mark.parametrize(
    ("before", "after", "weight"),
    [
        ("1\n", (SCRIPT, "1\n"), "attention"),
        ((SCRIPT, "1\n"), "1\n", "attention"),
        ("1\n", (LINK, "src/f1.py"), "blocks"),
        ((LINK, "src/f1.py"), "1\n", "blocks"),
        ("1\n", (SUBMODULE, "1" * 40), "blocks"),
        (None, (SUBMODULE, "1" * 40), "blocks"),
        (None, (LINK, "/etc/passwd"), "blocks"),
        (None, (LINK, "../outside"), "blocks"),
        (None, (LINK, "src/../../outside"), "blocks"),
        (None, (LINK, ".git/config"), "blocks"),
        ((LINK, "src/f1.py"), (LINK, "../outside"), "blocks"),
    ],
    ids=str,
)
def test_a_changed_file_type_is_found(changes: Changes, before: object, after: object, weight: str) -> None:
    start = TREE if before is None else {**TREE, "thing": before}
    assert rules(found(changes, {"thing": after}, start), weight) == {"mode-change"}
    assert found(changes, {"thing": after}, start, grants=("thing",)) == []


@pytest.mark.parametrize("after", [(SCRIPT, "1\n"), (LINK, "src/f1.py"), (LINK, "./src/../src"), "1\n"], ids=str)
def test_a_new_file_that_stays_inside_the_tree_has_no_finding(changes: Changes, after: object) -> None:
    """Scripts and links that stay inside may be added."""
    assert found(changes, {"thing": after}) == []


def test_an_empty_change_is_refused(changes: Changes) -> None:
    assert rules(found(changes, {}), "blocks") == {"empty-change"}
    assert rules(found(changes, {}, planned=("src/f1.py",)), "blocks") == {"empty-change"}


def test_a_plan_of_which_nothing_was_done_is_refused(changes: Changes) -> None:
    """If a part was done, the rest is reported as a note."""
    planned = ("src/f1.py", "src/new.py")
    assert rules(found(changes, {"src/f2.py": "x\n"}, planned=planned), "blocks") == {"claimed-unchanged"}
    some = found(changes, {"src/f1.py": "x\n"}, planned=planned)
    assert [(one.path, one.weight) for one in some] == [("src/new.py", "note")]
    assert found(changes, {"src/f1.py": "x\n", "src/new.py": "x\n"}, planned=planned) == []


@pytest.mark.parametrize(
    "claims", ["Done in commit 1234567abc.", "committed as `0123456789abcdef`", "SHA: abcdef12345"]
)
def test_a_claimed_commit_that_does_not_exist_is_found(changes: Changes, claims: str) -> None:
    assert rules(found(changes, {"src/f1.py": "x\n"}, claims=claims), "attention") == {"claimed-commit"}


def test_a_claimed_commit_that_exists_has_no_finding(changes: Changes) -> None:
    """Words and numbers that only look like a commit have none either."""
    commit = changes.commit(TREE)
    for claims in (
        f"see commit {commit}",
        f"committed as {commit[:10]}",
        "no commit defaced it",
        "the digest 1234567ab",
    ):
        assert found(changes, {"src/f1.py": "x\n"}, claims=claims) == [], claims


@pytest.mark.parametrize(
    ("message", "found_"),
    [
        ("Work\n\nForgepool-Work: 0123456789abcdef0123456789abcdef\n", ["claimed-work"]),
        ("Work on the line Forgepool-Work: of docs\n", []),
    ],
)
def test_a_branch_that_carries_a_landing_trailer_is_refused(message: str, found_: list[str], tmp_path: Path) -> None:
    """Any commit of the branch counts, not only its tip. The target's own history may have such trailers."""

    def git(*argv: str) -> str:
        who = ("-c", "user.name=P", "-c", "user.email=p@example.org")
        return subprocess.run(["git", *who, *argv], cwd=tmp_path, check=True, capture_output=True, text=True).stdout

    git("init", "-q")
    ids = []
    for number, text in enumerate(("Landed\n\nForgepool-Work: ab\n", message, "tip\n")):
        (tmp_path / f"{number}.txt").write_text("x\n")
        git("add", "-A")
        git("commit", "-q", "-m", text)
        ids.append(CommitId(git("rev-parse", "HEAD").strip()))
    repository = Git(git_dir=tmp_path / ".git")
    entry = EntryRef(task="t", attempt=1, commit=ids[-1], ref="refs/heads/t", message="t\n")
    subject = subject_of(repository, ids[0], tree_of(repository, ids[-1]), entry)
    assert [(one.rule, one.weight) for one in scan_shape(subject)] == [(rule, "blocks") for rule in found_]
    assert list(scan_shape(replace(subject, commit=None))) == []
    entry = entry.model_copy(update={"commit": ids[1]})
    alone = subject_of(repository, ids[0], tree_of(repository, ids[1]), entry)
    assert [one.rule for one in scan_shape(alone)] == found_


def test_a_message_in_an_encoding_of_its_own_is_read_as_git_reads_it(tmp_path: Path) -> None:
    changes = Changes(tmp_path)
    base = changes.commit(TREE)
    head = f"tree {tree_of(changes.git, base)}\nparent {base}\nauthor a <a@b> 1 +0000\ncommitter a <a@b> 1 +0000\n"
    content = f"{head}encoding IBM037\n\n".encode() + "Work\n\nForgepool-Work: abc\n".encode("cp037")
    commit = CommitId(changes.git.text("hash-object", "-w", "-t", "commit", "--stdin", stdin=content))
    entry = EntryRef(task="t", attempt=1, commit=commit, ref="refs/heads/t", message="t\n")
    subject = subject_of(changes.git, base, changes.subject(TREE, {"new": "1"}).tree, entry)
    assert "claimed-work" in {one.rule for one in scan_shape(subject)}
