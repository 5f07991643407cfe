"""`forgepool sandbox exec` runs a command as an agent would, and the doctor reports what would confine it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from premises import FORGEPOOL, Premises, Said

from forgepool.workers.sandbox.layers import obstacle, why_level_fails

PROJECT = Path(__file__).parents[3]


@pytest.fixture
def inside(premises: Premises) -> Premises:
    """Skip the test where bubblewrap does not work, but fail in CI."""
    why_not = why_level_fails("bubblewrap")
    if why_not is not None:
        if os.environ.get("CI") == "true":
            pytest.fail(f"bubblewrap: {why_not}")
        pytest.skip(f"bubblewrap: {why_not}")
    return premises


def _sh(premises: Premises, script: str, *options: str, folder: Path | None = None, **env: str) -> Said:
    """Run the script in a sandbox, in the repository unless another folder is given."""
    ran = subprocess.run(
        [*FORGEPOOL, "sandbox", "exec", *options, "--", "sh", "-c", script],
        cwd=folder or premises.repo,
        env=premises.environment(env),
        input="for nobody\n",
        check=False,
        capture_output=True,
        encoding="utf-8",
        timeout=120,
    )
    return Said(status=ran.returncode, out=ran.stdout, err=ran.stderr)


def test_a_command_works_in_this_folder_and_nowhere_else(inside: Premises) -> None:
    """
    The command's files stay. It can read the history but not write it, and files beside the folder do not exist for it.
    """
    outside = inside.folder / "beside"
    outside.write_text("secret")
    script = (
        f"cat; git log --format=%s; echo new > made; cat {outside} || echo x > {outside} || echo x > .git/x; exit 5"
    )
    said = _sh(inside, f"{{ {script}; }} 2>&1")
    assert said.status == 5, said
    assert said.err == ""
    assert said.out.splitlines()[0] == "first", "its input is empty"
    assert "secret" not in said.out
    assert outside.read_text() == "secret"
    assert (inside.repo / "made").read_text() == "new\n"
    assert not (inside.repo / ".git" / "x").exists()


def test_a_further_folder_is_written_where_it_is_named(inside: Premises) -> None:
    further = inside.folder / "further"
    further.mkdir()
    assert _sh(inside, f"echo x > {further}/a", "--write", str(further)).status == 0
    assert (further / "a").exists()


def test_a_linked_worktree_reads_its_repository(inside: Premises) -> None:
    """The `.git` of a linked worktree is a file that points to the repository."""
    linked = inside.folder / "linked"
    inside.git("worktree", "add", "-q", linked)
    said = _sh(inside, "git status --short --branch; echo x > .git", folder=linked)
    assert said.out.splitlines()[0] == "## linked"
    assert "Read-only file system" in said.out
    assert (linked / ".git").read_text().startswith("gitdir:")


def test_a_git_file_that_leads_astray_is_refused(inside: Premises) -> None:
    """A file in the folder must not make another folder readable."""
    astray = inside.folder / "astray"
    astray.mkdir()
    (astray / ".git").write_text(f"gitdir: {inside.folder}\n")
    _sh(inside, "true", folder=astray).is_refusal(2, "leads to no worktree of its own")
    (astray / ".git").unlink()
    (astray / ".git").symlink_to(inside.repo / ".git")
    _sh(inside, "true", folder=astray).is_refusal(2, "is a symbolic link")


def test_a_home_is_not_handed_over(inside: Premises) -> None:
    """A folder that contains the home is refused, because the command could change all of the person's files."""
    _sh(inside, "true", HOME=str(inside.repo)).is_refusal(2, "contains your home")
    _sh(inside, "true", "--write", "/").is_refusal(2, "/ contains your home")


def test_a_signal_is_told_as_a_shell_tells_it(inside: Premises) -> None:
    """The same is in the answer of `--json`; then the command's output goes to standard error."""
    said = _sh(inside, "echo x; kill -KILL $$", "--json")
    assert said.status == 137
    assert said.err == "x\n"
    assert said.answer["level"] == "bubblewrap"
    assert (said.answer["how"], said.answer["status"]) == ("exit", 137)


def test_what_is_no_program_is_named(inside: Premises) -> None:
    inside.forgepool("sandbox", "exec", "nowhere-to-be-found").is_refusal(127, "'nowhere-to-be-found'")


def test_a_reader_that_goes_ends_the_command(inside: Premises) -> None:
    """`forgepool sandbox exec -- yes | head -1` returns, as it does in any pipe."""
    script = f"{sys.executable} -m forgepool.orchestrator.cli sandbox exec -- yes | head -n1"
    env = inside.environment({})
    ran = subprocess.run(script, shell=True, cwd=inside.repo, env=env, check=True, capture_output=True, timeout=60)
    assert (ran.stdout, ran.stderr) == (b"y\n", b"")


def test_a_host_is_granted_by_its_name(inside: Premises) -> None:
    said = _sh(inside, "printenv https_proxy", "--network", "packages.example.org")
    assert said.out.startswith("http://127.0.0.1:")
    _sh(inside, "true", "--network", "no host").is_refusal(2, "'no host'")


def test_a_weaker_level_is_said(inside: Premises) -> None:
    """The fallback and no sandbox at all are each reported in a sentence. The fallback grants no network."""
    assert "weaker than bubblewrap" in _sh(inside, "true", "--level", "landlock").err
    assert "your own rights" in _sh(inside, "true", "--level", "off").err
    refused = _sh(inside, "true", "--level", "landlock", "--network", "packages.example.org")
    refused.is_refusal(3, "only bubblewrap can hold to")


def test_a_host_where_bubblewrap_fails_is_told_so(inside: Premises) -> None:
    """
    No sandbox can be made inside a sandbox. There, `require` is refused, `auto` is weaker, and the doctor reports both.
    """
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    command = "python -m forgepool.orchestrator.cli"
    script = (
        f"{command} doctor --json; echo; FORGEPOOL_SANDBOX=require {command} doctor --json; echo\n"
        f"{command} sandbox exec --level require -- true 2>&1; echo $?"
    )
    said = _sh(inside, script, "--write", str(PROJECT), PATH=path)
    auto, require, sentence, status = [line for line in said.out.splitlines() if line]
    found = {finding["what"]: finding for finding in json.loads(auto)}
    assert found["bubblewrap"]["verdict"] == "note"
    assert found["sandbox"]["verdict"] in ("note", "bad")
    assert found["sandbox"]["found"].startswith("FORGEPOOL_SANDBOX=auto: ")
    strict = {finding["what"]: finding for finding in json.loads(require)}
    assert strict["sandbox"]["verdict"] == "bad"
    assert "bubblewrap is required and does not hold" in strict["sandbox"]["found"]
    assert "bubblewrap is required" in sentence
    assert status == "3"


def test_the_doctor_tells_what_holds(inside: Premises) -> None:
    """It also reports what a run would use; with the sandbox off, it says that nothing confines commands."""
    lines = inside.forgepool("doctor").out.splitlines()
    found = {line[4:].strip().split("  ")[0]: line for line in lines}
    assert found["sandbox"].startswith("ok")
    assert "FORGEPOOL_SANDBOX=auto: commands run in bubblewrap" in found["sandbox"]
    assert "works" in found["bubblewrap"]
    assert "ABI" in found["Landlock, seccomp"]
    assert ("started by root" in found["user of commands"]) == (os.geteuid() == 0)
    assert "32768 MiB for the new files of an order, by a watch" in found["disk of commands"]
    off = inside.forgepool("doctor", env={"FORGEPOOL_SANDBOX": "off"}).out
    assert "note  sandbox" in off
    assert "your own rights" in off


@pytest.mark.parametrize(
    ("file", "text", "words"),
    [
        ("proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1\n", "AppArmor"),
        ("proc/sys/kernel/unprivileged_userns_clone", "0\n", "unprivileged_userns_clone is 0"),
        ("proc/sys/user/max_user_namespaces", "0\n", "max_user_namespaces is 0"),
        (".dockerenv", "", "container"),
    ],
)
def test_the_switch_that_forbids_bubblewrap_is_named(tmp_path: Path, file: str, text: str, words: str) -> None:
    """Each kernel setting is reported with its remedy. A host with none of them gets no such line."""
    assert obstacle(tmp_path) is None
    place = tmp_path / file
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text)
    found = obstacle(tmp_path)
    assert found is not None
    assert words in found.found
    assert found.mend
