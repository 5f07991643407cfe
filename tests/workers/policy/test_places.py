"""Paths are resolved on the disk, and rules judge the result."""

import os
from pathlib import Path

import pytest

from forgepool.workers.policy.document import parse_policy
from forgepool.workers.policy.judgement import judge_path
from forgepool.workers.policy.layers import Access, Policy
from forgepool.workers.policy.rule import Ground, PathPattern, ResolvedPath, Unresolved
from forgepool.workers.policy.sources import policy_of


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    root = tmp_path / "worktree"
    (root / "src").mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_text("s")
    return Ground(root=root.resolve(), home=Path("/home/somebody"))


def names(ground: Ground, path: str) -> tuple[str, ...]:
    place = ground.place(path)
    assert isinstance(place, ResolvedPath)
    return place.names


def test_a_path_is_what_it_leads_to_and_what_it_was_written_as(ground: Ground) -> None:
    """Links and `..` are followed from the folder they are in."""
    (ground.root / "in").symlink_to("src")
    (ground.root / "out").symlink_to("../outside")
    outside = str(ground.root.parent / "outside")
    assert names(ground, "src/a.py") == ("src/a.py",)
    assert names(ground, ".") == (".",)
    assert names(ground, "in/a.py") == ("src/a.py", "in/a.py")
    assert names(ground, "out/secret") == (f"{outside}/secret", "out/secret")
    assert names(ground, "src/../../outside/secret") == (f"{outside}/secret",)
    assert names(ground, "out/../x") == (str(ground.root.parent / "x"), "x")


def test_a_circle_of_links_and_a_nul_lead_nowhere(ground: Ground) -> None:
    (ground.root / "a").symlink_to("b")
    (ground.root / "b").symlink_to("a")
    for path in ("a/x", "x\0y", ""):
        assert isinstance(ground.place(path), Unresolved), path
        assert judge_path(policy_of(person=None), "write_file", "write", path, ground).decision == "deny"


def test_a_file_with_a_name_outside_is_not_written(ground: Ground) -> None:
    """It is a hard link from outside. A file whose other name is inside may be written."""
    os.link(ground.root.parent / "outside" / "secret", ground.root / "linked")
    (ground.root / "src" / "one").write_text("1")
    os.link(ground.root / "src" / "one", ground.root / "two")
    shipped = policy_of(person=None).during("execute")
    judged = judge_path(shipped, "write_file", "write", "linked", ground)
    assert judged.decision == "deny" and "another name outside" in judged.reason
    assert judge_path(shipped, "read_file", "read", "linked", ground).decision == "allow"
    assert judge_path(shipped, "write_file", "write", "two", ground).decision == "allow"


@pytest.mark.parametrize(
    ("tool", "access", "path", "decision"),
    [
        ("write_file", "write", "src/a.py", "allow"),
        ("edit_file", "write", "src/a.py", "allow"),
        ("apply_patch", "write", "src/a.py", "allow"),
        ("rename_symbol", "write", "src/a.py", "allow"),
        ("write_file", "write", "new/folder/a.py", "allow"),
        ("write_file", "write", ".gitignore", "allow"),
        ("write_file", "write", ".github/CODEOWNERS", "allow"),
        ("write_file", "write", "vite.config.ts", "audit"),
        ("write_file", "write", "app/jest.config.js", "audit"),
        ("write_file", "write", ".github/workflows/ci.yml", "prompt"),
        ("edit_file", "write", ".GitHub/Workflows/ci.yml", "prompt"),
        ("write_file", "write", "forgepool.yaml", "prompt"),
        ("write_file", "write", ".vscode/tasks.json", "prompt"),
        ("write_file", "write", ".gitattributes", "prompt"),
        ("write_file", "write", ".git/config", "deny"),
        ("write_file", "write", ".git", "deny"),
        ("write_file", "write", ".Git/config", "deny"),
        ("write_file", "write", "src/sub/.git/hooks/x", "deny"),
        ("write_file", "write", "src/../.git/config", "deny"),
        ("apply_patch", "write", ".git/config", "deny"),
        ("write_file", "write", ".claude/settings.json", "deny"),
        ("write_file", "write", "src/.claude/settings.json", "deny"),
        ("write_file", "write", ".forgepool/skills/a.md", "deny"),
        ("write_file", "write", "../outside/secret", "deny"),
        ("write_file", "write", "/etc/passwd", "deny"),
        ("read_file", "read", "src/a.py", "allow"),
        ("read_file", "read", ".git/config", "allow"),
        ("glob", "read", ".", "allow"),
        ("unheard_of", "read", "a", "prompt"),
    ],
)
def test_shipped_rules_about_files(tool: str, access: Access, path: str, decision: str, ground: Ground) -> None:
    """Reading is left to the tools. Writing stays inside the worktree, and away from files that run by themselves."""
    assert judge_path(policy_of(person=None).during("execute"), tool, access, path, ground).decision == decision


def test_a_link_is_denied_by_what_it_leads_to(ground: Ground) -> None:
    """An allowed name with a denied target is denied, and so is a denied name with an allowed target."""
    (ground.root / "innocent").symlink_to("../outside")
    (ground.root / ".claude").symlink_to("src")
    shipped = policy_of(person=None).during("execute")
    for path in ("innocent/secret", ".claude/a"):
        assert judge_path(shipped, "write_file", "write", path, ground).decision == "deny", path


@pytest.mark.parametrize(
    ("glob", "fitting", "others"),
    [
        ("src/**", ["src", "src/a", "src/a/b"], ["srcs", "lib/src/a"]),
        ("src", ["src", "src/a/b"], ["srcs"]),
        ("src/", ["src", "src/a"], ["a/src"]),
        ("./src/a.py", ["src/a.py"], ["a.py"]),
        ("**/*.config.*", ["a.config.js", "x/y/a.config.js"], ["config.js"]),
        ("*.md", ["a.md"], ["docs/a.md"]),
        ("**", ["a", "a/b", "."], ["/etc/passwd"]),
        ("/**", ["/etc/passwd", "/"], ["a", "."]),
        ("/etc", ["/etc", "/etc/passwd"], ["/etcetera", "etc"]),
        ("~/.ssh", ["/home/somebody/.ssh/id"], [".ssh", "/root/.ssh"]),
        ("{a,b}/*.py", ["a/x.py", "b/x.py"], ["c/x.py", "a/b/x.py"]),
        ("[ab].py", ["a.py"], ["c.py"]),
    ],
)
def test_globs(glob: str, fitting: list[str], others: list[str]) -> None:
    pattern = PathPattern.of(glob, Path("/home/somebody"))
    for name in fitting:
        assert pattern.permits(ResolvedPath(shown=name, names=(name,))), name
        assert pattern.restrains(ResolvedPath(shown=name, names=(name.upper(),))) or glob.startswith("~"), name
    for name in others:
        assert not pattern.permits(ResolvedPath(shown=name, names=(name,))), name
        assert not pattern.restrains(ResolvedPath(shown=name, names=(name,))), name


def test_permission_is_exact_about_case_and_restraint_is_not(ground: Ground) -> None:
    """Some systems treat `SRC` as `src`. There it is the denied file; elsewhere it is not the allowed one."""
    text = "version: 1\nrules:\n  - {match: {tool: write_file, path: src/**}, decision: %s}"
    allowing, denying = (Policy(person=parse_policy(text % each, "p.yaml", "person")) for each in ("allow", "deny"))
    assert judge_path(allowing, "write_file", "write", "SRC/a", ground).decision == "prompt"
    assert judge_path(denying, "write_file", "write", "SRC/a", ground).decision == "deny"
