"""Ordinary work succeeds inside the sandbox: everyday builds and test suites are not hindered."""

import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from zipfile import ZipFile

import pytest
from repositories import git, write

from forgepool.workers.sandbox.layers import why_level_fails
from forgepool.workers.sandbox.run.process import Command, run, shell
from forgepool.workers.sandbox.sandbox_profile import Private, Shelter, private
from forgepool.workers.schema.confinement import Level
from forgepool.workers.schema.settings import Settings
from forgepool.worktrees.checkouts.checkout import lease_checkout
from forgepool.worktrees.git.git import CommitId
from forgepool.worktrees.hub.mirror import open_mirror

PROJECT = Path(__file__).parent / "benign" / "everyday.py"
LEVELS: tuple[Level, ...] = ("bubblewrap", "landlock")


@dataclass(frozen=True, slots=True, kw_only=True)
class Inside:
    """A worktree with commands that run one after the other, as those of an order do."""

    level: Level
    worktree: Path
    own: Private
    log: Path

    def __call__(self, script: str, *, status: int = 0, **env: str) -> str:
        """Return the output of a script that must end with the status."""
        command = Command(
            argv=shell(f"set -e\n{script}"),
            cwd=self.worktree,
            env=self.own.env | env,
            log=self.log,
            timeout_s=120,
            confined=self.own.confined,
        )
        ended = run(command)
        assert (ended.how, ended.status, ended.left) == ("exit", status, ()), ended.head + ended.tail
        return ended.head + ended.tail


Opened = Callable[..., Inside]


def _skip_without(level: Level) -> None:
    why_not = why_level_fails(level)
    if why_not is None:
        return
    if os.environ.get("CI") == "true":
        pytest.fail(f"{level}: {why_not}")
    pytest.skip(f"{level}: {why_not}")


@pytest.fixture(params=LEVELS)
def inside(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Inside]:
    """Yield an empty worktree, at each level."""
    level: Level = request.param
    _skip_without(level)
    worktree = tmp_path / "worktree"
    worktree.mkdir()
    shelter = Shelter(settings=Settings(), writable=(worktree,), level=level)
    with private({"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}, shelter) as own:
        yield Inside(level=level, worktree=worktree, own=own, log=tmp_path / "log")


@pytest.fixture
def first_choice(inside: Inside) -> Inside:
    if inside.level != "bubblewrap":
        pytest.skip("the fallback does not give it")
    return inside


def _needs(*programs: str) -> None:
    for program in programs:
        if shutil.which(program) is None:
            pytest.skip(f"there is no {program}")


def test_the_test_suite_of_a_python_project(inside: Inside) -> None:
    """It uses loopback sockets, processes, tmp files, threads, pools, shared memory, sqlite, asyncio and terminals."""
    shutil.copy(PROJECT, inside.worktree / "test_everyday.py")
    chosen = "" if inside.level == "bubblewrap" else "-k 'not socket and not shared'"
    said = inside(
        f"python -m pytest -q -p no:cacheprovider --disable-plugin-autoload -W error {chosen} test_everyday.py"
    )
    assert "passed" in said
    assert "skipped" not in said
    assert not list(inside.worktree.glob("core*"))


def test_npm_test_of_a_small_project(first_choice: Inside) -> None:
    """Node's own test runner uses a server, a client, child processes and workers, without a network."""
    _needs("npm", "node")
    tests = """
const test = require('node:test'), assert = require('node:assert'), http = require('node:http')
const { execFileSync } = require('node:child_process'), { Worker } = require('node:worker_threads')
test('server', async () => {
  const server = http.createServer((_, answer) => answer.end('hello')).listen(0, 'localhost')
  await new Promise(done => server.once('listening', done))
  const answer = await fetch(`http://localhost:${server.address().port}/`)
  assert.equal(await answer.text(), 'hello'); server.closeAllConnections(); server.close()
})
test('child', () => assert.equal(execFileSync('echo', ['x']).toString(), 'x\\n'))
test('worker', async () => {
  const worker = new Worker('require("node:worker_threads").parentPort.postMessage(7)', { eval: true })
  assert.equal(await new Promise(done => worker.once('message', done)), 7)
})
"""
    package = '{"name": "small", "version": "1.0.0", "scripts": {"test": "node --test"}}'
    write(first_choice.worktree, {"package.json": package, "small.test.js": tests})
    assert "pass 3" in first_choice("npm test")


def test_make_and_a_compiler(inside: Inside) -> None:
    """A parallel build makes and runs programs, and rebuilds only what changed."""
    _needs("make", "gcc")
    rules = "all: one two\n%: %.c\n\t$(CC) -O1 -g -pthread -o $@ $<\n\t./$@\n"
    source = '#include <stdio.h>\nint main(void) { printf("built %s\\n", __FILE__); return 0; }\n'
    write(inside.worktree, {"Makefile": rules, "one.c": source, "two.c": source})
    said = inside("make -j2; make")
    assert "built one.c" in said
    assert "Nothing to be done" in said


def test_what_looks_for_leaks_finds_nobody_to_stop(inside: Inside) -> None:
    """A program with the address sanitizer exits with its own status. The leak check, which must trace, is off."""
    _needs("gcc")
    write(inside.worktree, {"one.c": "#include <stdlib.h>\nint main(void) { return malloc(9) == 0; }\n"})
    inside("gcc -fsanitize=address -o one one.c 2>/dev/null || exit 0; ./one")


def test_cargo_with_a_folder_of_crates_that_is_kept(inside: Inside, tmp_path: Path) -> None:
    """rustup's programs are found although the home is private, and a build needs only its own folders."""
    _needs("cargo")
    write(
        inside.worktree,
        {
            "Cargo.toml": '[package]\nname = "small"\nversion = "0.1.0"\nedition = "2021"\n',
            "src/lib.rs": "pub fn two() -> u8 { 2 }\n#[test]\nfn is_two() { assert_eq!(two(), 2) }\n",
        },
    )
    said = inside("CARGO_HOME=$PWD/.cargo cargo test --offline")
    assert "1 passed" in said
    assert inside("cargo --version").startswith("cargo ")


def test_folders_that_are_kept_are_read_and_not_written(first_choice: Inside, tmp_path: Path) -> None:
    """A cache of dependencies outside the worktree is at its own path for every command."""
    kept = tmp_path / "kept" / "crates"
    write(kept, {"index": "crates\n"})
    shelter = Shelter(
        settings=Settings(), writable=(first_choice.worktree,), readable=(kept,), level=first_choice.level
    )
    with private({"CARGO_HOME": str(kept)}, shelter) as own:
        other = Inside(level="bubblewrap", worktree=first_choice.worktree, own=own, log=tmp_path / "log")
        assert "crates" in other('cat "$CARGO_HOME/index"; ! touch "$CARGO_HOME/new" 2>/dev/null')


def test_git_reads_the_history_of_a_leased_checkout(inside: Inside, tmp_path: Path) -> None:
    """status, diff, log, blame and grep print no error, and need no write access they lack."""
    hub, work = tmp_path / "hub.git", tmp_path / "work"
    git(tmp_path, "init", "-q", "-b", "main", str(work))
    write(work, {"a.txt": "one\ntwo\n", ".gitignore": "*.o\n"})
    git(work, "add", "-A")
    git(work, "commit", "-q", "-m", "first")
    git(tmp_path, "clone", "-q", "--bare", str(work), str(hub))
    mirror = open_mirror(str(hub), tmp_path / "cache")
    tip = CommitId(mirror.hub_refs("refs/heads/main")["refs/heads/main"])
    mirror.ensure(tip)
    with lease_checkout(mirror, tip, tmp_path / "pool") as checkout:
        shelter = Shelter(
            settings=Settings(),
            writable=(checkout.path,),
            protected=(checkout.pointer,),
            readable=(mirror.path,),
            level=inside.level,
        )
        with private({}, shelter) as own:
            command = Inside(level=inside.level, worktree=checkout.path, own=own, log=tmp_path / "log")
            said = command(
                "exec 2>errors.o; echo three >> a.txt; touch b.txt; touch -d yesterday a.txt\n"
                "git status --short; git diff --stat; git log --oneline; git show --stat HEAD; git blame a.txt\n"
                "git grep -n two; git ls-files; git rev-parse --show-toplevel; git branch -a; git describe --always\n"
                "cat errors.o; exec 2>&1; ! git commit -q --allow-empty -m x >/dev/null 2>&1"
            )
            assert " M a.txt" in said
            assert "?? b.txt" in said
            assert "Not Committed Yet" in said
            assert "a.txt:2:two" in said
            assert not [line for line in said.splitlines() if line.startswith(("fatal", "error", "warning"))], said
            assert checkout.pointer.read_bytes() == checkout.slot.pointer


def test_a_virtual_environment_is_made_and_used(first_choice: Inside) -> None:
    """Its pip installs a wheel from the worktree, without a network."""
    with ZipFile(first_choice.worktree / "small-1-py3-none-any.whl", "w") as wheel:
        wheel.writestr("small.py", "print('small')\n")
        wheel.writestr("small-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: small\nVersion: 1\n")
        wheel.writestr("small-1.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr("small-1.dist-info/RECORD", "")
    first_choice("python -m venv own; own/bin/pip install --quiet --no-index ./small-1-py3-none-any.whl")
    assert first_choice(". own/bin/activate; python -m small") == "small\n"


def test_java_compiles_and_runs(inside: Inside) -> None:
    """A virtual machine has room for its heap, its threads and its files."""
    _needs("javac", "java")
    source = 'class One { public static void main(String[] a) { System.out.println("java " + a.length); } }\n'
    write(inside.worktree, {"One.java": source})
    assert "java 1" in inside("javac One.java; java One x")


def test_tools_ask_who_and_where_they_are(inside: Inside) -> None:
    """Everyday shell commands answer without an error message."""
    said = inside(
        "exec 2>errors; id; ps -e >/dev/null; getent hosts localhost; getent services http; locale; date; nproc\n"
        "uname -a; hostname; umask; df . >/dev/null; uptime; test -w /dev/null; head -c8 /dev/urandom >/dev/null\n"
        "mktemp; mktemp -d; ls ~ >/dev/null; test $(stat -c %a /etc) = 755; printenv HOME TMPDIR\n"
        "pwd; test $(pwd -P) = $(pwd); python --version; python -c 'import ssl; ssl.create_default_context()'"
    )
    assert "LANG=" in said
    assert "\n0022\n" in said
    assert (inside.worktree / "errors").read_text() == ""


def test_a_command_has_a_name_of_its_own(first_choice: Inside) -> None:
    """Its user, home and host can be looked up, and look as on ordinary CI, although the host knows none of them."""
    home = first_choice("python -c 'import pwd, os; print(pwd.getpwuid(os.getuid()).pw_dir)'").strip()
    assert first_choice("whoami; id -u; id -g; echo ~").split() == ["runner", "1001", "1001", home]
    name, found = first_choice("hostname; getent hosts $(hostname)").splitlines()
    assert re.fullmatch(r"[0-9a-f]{12}", name) and found.split()[1:] == [name]


def test_a_terminal_can_be_had(first_choice: Inside) -> None:
    """`script` and Python open pseudo-terminals of the command's own."""
    _needs("script")
    assert "/dev/pts/0" in first_choice("script -qec tty /dev/null")
    assert "/dev/pts/0" in first_choice("python -c 'import pty; pty.spawn([\"tty\"])'")


def test_what_one_command_leaves_the_next_one_finds(inside: Inside) -> None:
    """An order's home, tmp and worktree stay the same between commands."""
    inside('echo a > ~/kept; echo b > "$TMPDIR/kept"; echo c > kept')
    assert inside('cat ~/kept "$TMPDIR/kept" kept').split() == ["a", "b", "c"]
    if inside.level == "bubblewrap":
        inside('echo d > /tmp/d; echo e > /var/tmp/e; test -z "$(ls /run)"')
        assert inside("cat /tmp/d /var/tmp/e").split() == ["d", "e"]


def test_nobody_elses_configuration_is_asked_for(first_choice: Inside) -> None:
    """/etc has what programs need, and nothing about the host, its users or their keys."""
    there = set(first_choice("ls /etc").split())
    assert {"passwd", "group", "hosts", "nsswitch.conf", "resolv.conf"} <= there
    assert not there & {"shadow", "sudoers", "ssh", "npmrc", "pip.conf", "gitconfig", "machine-id", "environment"}
    assert first_choice("getent passwd").count("\n") == 2
