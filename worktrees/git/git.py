"""
The door to git: every git process of the four packages is started here.

GitPython tells git's version. The calls of a task's road do without it: its `execute` hands on this process's whole
environment, secrets and all, and cost half as much again as git itself (`benchmarks/worktrees/git_door.py`).

A call inherits nothing. Its environment is built from nothing, and the user's and the system's configuration are not
read. Hooks, fsmonitor and user-wide attributes are off. The repository is named, never discovered, except by
`find_repository` for a hub that a person names. Output is bytes; file names in it are decoded with `os.fsdecode`, so
that every name git can hold survives.

Git at work in a work tree runs inside a fence: programs started there can open no file beyond it. Commands may change
the folder while git takes a snapshot of it. One that turns a folder into a link and back as fast as it can makes git
read files beside the work tree. Git looks at a name and then opens it: 158 of 389 runs of `git add` were deceived. So a
thread gives up all other files for itself and its children (Landlock), starts git, and ends. On a kernel without
Landlock git runs without a fence, and `fence_holds` says so.
"""

import errno
import fcntl
import functools
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, NewType, TypeVar

from forgepool.worktrees.errors import InfrastructureError
from forgepool.worktrees.git import landlock
from forgepool.worktrees.git.time_limit import cut_to_limit

T = TypeVar("T")
CommitId = NewType("CommitId", str)
TreeId = NewType("TreeId", str)

MINIMUM = (2, 38)
"""The first git with `merge-tree --write-tree`."""

_OFF = (
    *("core.hooksPath=/dev/null", "core.fsmonitor=false", "core.sshCommand=ssh -o BatchMode=yes", "core.askPass="),
    *("core.attributesFile=/dev/null", "core.excludesFile=/dev/null", "core.pager=cat", "core.editor=false"),
    *("core.autocrlf=false", "core.quotePath=false", "core.untrackedCache=false", "core.splitIndex=false"),
    *(
        "core.protectHFS=true",
        "core.protectNTFS=true",
        "core.sparseCheckout=false",
        "index.sparse=false",
        "safe.bareRepository=explicit",
    ),
    *("submodule.recurse=false", "fetch.recurseSubmodules=false", "push.recurseSubmodules=no"),
    *("diff.ignoreSubmodules=all", "status.submoduleSummary=false", "advice.addEmbeddedRepo=false"),
    *("commit.gpgSign=false", "tag.gpgSign=false", "push.gpgSign=false", "rerere.enabled=false"),
    *("gc.auto=0", "maintenance.auto=false", "merge.renames=true", "merge.directoryRenames=conflict"),
    *("protocol.allow=never", "protocol.file.allow=always", "protocol.ssh.allow=always"),
    *("protocol.https.allow=always", "protocol.http.allow=always", "protocol.git.allow=always"),
)
_SETTINGS = tuple(word for setting in _OFF for word in ("-c", setting))

_ENVIRONMENT = {
    "HOME": "/nonexistent",
    "LC_ALL": "C",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_GRAFT_FILE": "/nonexistent/grafts",
    "GIT_LITERAL_PATHSPECS": "1",
}
_NETWORK = (
    *("SSH_AUTH_SOCK", "SSL_CERT_FILE", "SSL_CERT_DIR", "ALL_PROXY", "all_proxy"),
    *("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy"),
)

_PROGRAMS = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/nix/store", "/opt", "/etc/ld.so.cache")
_DEVICES = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom")
_FENCE_ABI = 3
"""Later versions of Landlock restrict what no git in a work tree needs."""

_PASSWORD = re.compile(r"(?<=://)[^/@\s]+@")
_OBJECT_ID = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_BAD_REF = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|/\.|\.lock(?:/|$)|[/.]$|^[/.-]")


PIPE, DEVNULL = subprocess.PIPE, subprocess.DEVNULL


class GitFailed(InfrastructureError):
    """Git is missing, ended with an unexpected status, or did not end in time. Nothing is known then."""

    def __init__(self, argv: tuple[str, ...], status: int, stderr: str) -> None:
        self.argv = tuple(without_password(word) for word in argv)
        self.status = status
        self.stderr = without_password(stderr)
        self.hint = ""
        super().__init__(self.argv, status, self.stderr)

    def __str__(self) -> str:
        verb = next(iter(self.argv), "git")
        return f"git {verb} ended with status {self.status}: {_telling_line(self.stderr)}{self.hint}"


@dataclass(frozen=True, slots=True, kw_only=True)
class GitOutput:
    """The output and exit status of a git process."""

    status: int
    stdout: bytes
    stderr: str

    @property
    def text(self) -> str:
        """Standard output as text, file names included, without the final newline."""
        return os.fsdecode(self.stdout.removesuffix(b"\n"))

    @property
    def fields(self) -> list[str]:
        """The NUL-terminated fields of output requested with `-z`."""
        return [os.fsdecode(field) for field in self.stdout.split(b"\0")[:-1]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fence:
    """The folders that may be opened, with all below them. Programs and libraries may be opened too."""

    folders: tuple[Path, ...]

    def run(self, work: Callable[[], T]) -> T:
        """Run the work in its own thread inside the fence; programs that it starts are inside too."""
        with ThreadPoolExecutor(max_workers=1) as alone:
            return alone.submit(self._inside, work).result()

    def _inside(self, work: Callable[[], T]) -> T:
        known, _, _ = landlock.find_handled_rights(min(landlock.abi(), _FENCE_ABI))
        ruleset = landlock.make_ruleset(known, 0, 0)
        try:
            for place, rights in self._rules():
                landlock.allow(ruleset, os.open(place, os.O_PATH | os.O_CLOEXEC), known & rights)
            landlock.enter(ruleset)
        finally:
            os.close(ruleset)
        return work()

    def _rules(self) -> Iterator[tuple[Path, int]]:
        yield from ((folder, ~0) for folder in self.folders if folder.exists())
        yield from ((Path(device), landlock.USING_DEVICES) for device in _DEVICES)
        yield from ((place, landlock.READING) for place in _programs())


@functools.cache
def fence_holds() -> bool:
    """Does this kernel enforce a fence?"""
    return sys.platform == "linux" and landlock.abi() > 0


@functools.cache
def _programs() -> tuple[Path, ...]:
    """List the folders of programs and libraries that everyone may run, git's own included."""
    git = shutil.which("git")
    own = [] if git is None else [Path(git).resolve().parents[1], Path(git).parent]
    return tuple(place for place in (*map(Path, _PROGRAMS), *own) if place.exists() and place != Path("/"))


DOUBTED = "doubted"
_DAMAGE = re.compile(
    r"^(?:error|fatal): .*"
    r"(?:is empty|is corrupt|could not read [0-9a-f]{40}|unable to (?:read|parse|get|find)|bad (?:tree|object)"
    r"|missing (?:blob|tree|commit)|not a tree object|inflate|is too small|packfile .* (?:cannot be|does not))",
    re.IGNORECASE | re.MULTILINE,
)
"""Words of git, not of a hub's hook, about objects that it has and cannot read, or lacks, as after a loss of power."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Git:
    """A repository by name, with its work tree and index if it has any."""

    git_dir: Path
    work_tree: Path | None = None
    index: Path | None = None

    def run(
        self,
        *argv: str,
        stdin: bytes | None = None,
        ok: Collection[int] = (0,),
        env: Mapping[str, str] | None = None,
        timeout_s: float = 600,
    ) -> GitOutput:
        """
        Run git once. `env` is added to the environment made here; it is the only way in.

        Raises:
            GitFailed: a status outside `ok`, no end within `timeout_s`, or no git.
        """
        places = {"GIT_DIR": str(self.git_dir), **(env or {})}
        if self.work_tree is not None:
            places["GIT_WORK_TREE"] = str(self.work_tree)
        if self.index is not None:
            places["GIT_INDEX_FILE"] = str(self.index)
        try:
            output = _execute(argv, self.work_tree or self.git_dir, places, stdin, ok, timeout_s, self._fence)
        except GitFailed as failed:
            if self.doubt(failed.stderr):
                failed.hint = (
                    "; this host's copy of the hub is looked through, and made again if it is damaged; try again"
                )
            raise
        self.doubt(output.stderr)
        return output

    def doubt(self, stderr: str) -> bool:
        """Mark a mirror whose objects git could not read; who opens the mirror next looks through it."""
        if not stderr or _DAMAGE.search(stderr) is None:
            return False
        mirror = self.git_dir.parents[1] if self.git_dir.parent.name == "worktrees" else self.git_dir
        mark = mirror / DOUBTED
        with suppress(OSError):
            if (mirror / "forgepool").is_file():
                mark.touch()
                return True
        return False

    @property
    def _fence(self) -> Fence | None:
        """The fence for a work tree, whose files others may be changing at the same time."""
        if self.work_tree is None or not fence_holds():
            return None
        return Fence(folders=(self.git_dir, self.work_tree, *([self.index.parent] if self.index else [])))

    def text(
        self,
        *argv: str,
        stdin: bytes | None = None,
        ok: Collection[int] = (0,),
        env: Mapping[str, str] | None = None,
        timeout_s: float = 600,
    ) -> str:
        """Run git and return its output as text, without the final newline."""
        return self.run(*argv, stdin=stdin, ok=ok, env=env, timeout_s=timeout_s).text


def git_version() -> tuple[int, ...]:
    """
    Return the version of the git on PATH, as numbers: (2, 39, 5).

    Raises:
        GitFailed: there is no git, or its answer names no version.
    """
    try:
        from git import Git as GitPython  # fails to import where there is no git
        from git import GitCommandNotFound
    except ImportError as missing:
        raise GitFailed(("version",), 127, _NO_GIT) from missing
    try:
        version = GitPython().version_info
    except GitCommandNotFound as missing:
        raise GitFailed(("version",), 127, _NO_GIT) from missing
    if not version:
        raise GitFailed(("version",), 0, "its answer names no version")
    return tuple(version)


def find_repository(where: Path) -> GitOutput:
    """
    Find the repository of a path: the git folder shared by its worktrees, is it bare, is it shallow.

    The only call that discovers a repository; only for paths named by a person, never for a checkout.
    """
    facts = ("--path-format=absolute", "--git-common-dir", "--is-bare-repository", "--is-shallow-repository")
    argv = ("-c", "safe.bareRepository=all", "rev-parse", *facts)
    return _execute(argv, where, {}, None, (0, 128), 60)


def run_outside(*argv: str, env: Mapping[str, str] | None = None, timeout_s: float = 600) -> GitOutput:
    """Run git without a repository, such as `ls-remote` of a URL."""
    return _execute(argv, Path("/"), {"GIT_DIR": "/nonexistent", **(env or {})}, None, (0,), timeout_s)


def network_environment(*, with_home: bool = False) -> dict[str, str]:
    """Return what git needs to reach another host: key agent, certificates, proxies; HOME for its credential helper."""
    names = (*_NETWORK, "HOME") if with_home else _NETWORK
    return {name: os.environ[name] for name in names if name in os.environ}


def is_object_id(text: str) -> bool:
    """Is it a full object id, which git cannot take for an option or an expression?"""
    return _OBJECT_ID.fullmatch(text) is not None


def is_ref(name: str) -> bool:
    """Is it a full ref name that git accepts and that cannot be read as part of a refspec?"""
    return name.startswith("refs/") and _BAD_REF.search(name) is None


def without_password(text: str) -> str:
    """Return the text without user names and passwords in URLs."""
    return _PASSWORD.sub("", text)


def _execute(
    argv: tuple[str, ...],
    folder: Path,
    places: Mapping[str, str],
    stdin: bytes | None,
    ok: Collection[int],
    timeout_s: float,
    fence: Fence | None = None,
) -> GitOutput:
    timeout_s = cut_to_limit(timeout_s)

    def start(given: int) -> GitOutput:
        with start_git(argv, folder, places, stdin=given, stderr=PIPE) as process:
            try:
                stdout, stderr = process.communicate(timeout=timeout_s)
            except subprocess.TimeoutExpired:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                # Whatever its own status: a helper may hold the output of a git that has ended.
                late = f"Timeout: it did not end within {timeout_s:.3g} s"
                return GitOutput(status=-signal.SIGKILL, stdout=b"", stderr=late)
        return GitOutput(status=process.returncode, stdout=stdout, stderr=stderr.decode(errors="replace").rstrip("\n"))

    try:
        # A whole file, no pipe: git never acts on half of its input, however this process ends.
        with TemporaryFile() if stdin is not None else nullcontext() as file:
            given = DEVNULL if file is None else _rewound(file, stdin or b"")
            output = start(given) if fence is None else fence.run(lambda: start(given))
    except OSError as trouble:
        no_git = trouble.filename == "git" and trouble.errno in (errno.ENOENT, errno.EACCES, errno.ENOTDIR)
        reason = _NO_GIT if no_git else f"fatal: git cannot be started: {trouble.strerror}"
        raise GitFailed(argv, 127 if no_git else 128, reason) from trouble
    if output.status not in ok:
        raise GitFailed(argv, output.status, output.stderr)
    return output


def _rewound(file: IO[bytes], content: bytes) -> int:
    file.write(content)
    file.seek(0)
    return file.fileno()


def start_git(
    argv: tuple[str, ...], folder: Path, places: Mapping[str, str], *, stdin: int, stderr: int
) -> "subprocess.Popen[bytes]":
    """
    Start git with the environment and settings of every call, and `places` in addition; its pipes are not buffered.

    Raises:
        OSError: git is missing, or may not be run.
    """
    return subprocess.Popen(
        ("git", *_SETTINGS, *argv),
        # A repository that is still to be made is named all the same, and needs no folder to stand in.
        cwd=folder if os.access(folder, os.X_OK) else "/",
        env={"PATH": os.environ.get("PATH", os.defpath), **_ENVIRONMENT, **places},
        bufsize=0,
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=stderr,
        # Ctrl-C in a terminal ends the run in order, not git in its middle.
        start_new_session=True,
        pass_fds=(harness_mark(),),
    )


_NO_GIT = f"there is no git on PATH; git {MINIMUM[0]}.{MINIMUM[1]} or newer is needed"


@functools.cache
def harness_mark() -> int:
    """
    A descriptor that only the git processes started here hold.

    It tells them apart from a command's processes, which are killed when the command ends. Its number is high: next to
    another descriptor that is passed on, Python would close all the others one by one, 4 ms for 20,000.
    """
    mark, _ = os.pipe()
    with suppress(OSError):  # fewer descriptors are allowed
        return fcntl.fcntl(mark, fcntl.F_DUPFD_CLOEXEC, 200)
    return mark


def _telling_line(stderr: str) -> str:
    """Return the most telling line of git's complaint: its first error, which causes the later ones."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    fatal = [line for line in lines if line.startswith(("fatal:", "error:", "Timeout:"))]
    return fatal[0] if fatal else (lines or ["it gave no reason"])[-1]
