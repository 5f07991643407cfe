"""
`protected-path`: paths that no agent changes without a person's permission.

They run or judge changes, or they pin what is installed. Here they are known by their path, and by the files that
the checks' commands run. `gate_settings` compares settings within files that hold other things too.
"""

import re
import shlex
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import PurePosixPath

from forgepool.workers.policy.gate_file.document import CheckDefinition
from forgepool.workers.policy.gate_file.kept_paths import INSTRUCTS, find_path_rule
from forgepool.workers.workspace.scans.findings import ScanFinding, Weight
from forgepool.workers.workspace.scans.languages.suite import beside_tests
from forgepool.workers.workspace.scans.subject import Subject, finding, is_covered, is_granted
from forgepool.worktrees.commits.changes import FileTooLarge, read_file
from forgepool.worktrees.git.git import CommitId, Git

_CUT = re.compile(r"&&|\|\||[;|\n()`]|\$\(")
_WRAPPERS = frozenset(
    ["env", "time", "exec", "nice", "sudo", "xargs", "command", "timeout", "npx", "bunx", "then", "do", "if", "!", "@"]
)
_RUNNERS = frozenset(["poetry", "uv", "pdm", "hatch", "pipenv", "rye", "pixi", "bundle"])
_INTERPRETERS = re.compile(
    r"(python|pypy|node|ruby|perl|php|lua|Rscript|bash|sh|zsh|dash|ksh|deno|bun|tsx|ts-node)[\d.]*|\.|source"
)
_BUILDS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("make", "gmake"), ("Makefile", "makefile", "GNUmakefile")),
    "just": ("justfile", "Justfile", ".justfile"),
    "task": ("Taskfile.yml", "Taskfile.yaml", "Taskfile.dist.yml"),
    "tox": ("tox.ini", "tox.toml"),
    "nox": ("noxfile.py",),
    **dict.fromkeys(("invoke", "inv"), ("tasks.py",)),
    "rake": ("Rakefile", "rakefile"),
    "doit": ("dodo.py",),
    "mage": ("magefile.go",),
    "bazel": (".bazelrc",),
    "pre-commit": (".pre-commit-config.yaml",),
    "gulp": ("gulpfile.js", "gulpfile.mjs"),
    "grunt": ("Gruntfile.js",),
}
_OPTIONS = frozenset(["-c", "-f", "--config", "--config-file", "--rcfile", "--file", "--makefile", "--configuration"])
_MOST_READ = 20
_DEEPEST = 3


def run_by(git: Git, base: CommitId, paths: frozenset[str], checks: Sequence[CheckDefinition]) -> frozenset[str]:
    """
    Return the files that the commands run or read, and those that their scripts and makefiles run in turn.

    The default files of build tools are included even where they do not exist yet.
    """
    found: set[str] = set()
    texts = [text for check in checks for text in (check.run, check.setup or "")]
    for _ in range(_DEEPEST):
        fresh = {path for text in texts for path in _named(text, paths)} - found
        found |= fresh
        texts = [_script_text(git, base, path) for path in sorted(fresh & paths) if _is_script(path)][:_MOST_READ]
    return frozenset(found)


def _named(text: str, paths: frozenset[str]) -> Iterator[str]:
    folder = ""
    for part in _CUT.split(text):
        words = _split(part)
        while words and (words[0] in _WRAPPERS or re.match(r"[A-Za-z_]\w*=", words[0]) or words[0].isdigit()):
            words = words[1:]
        if len(words) > 1 and words[0] in _RUNNERS and words[1] in ("run", "exec"):
            words = words[2:]
        if not words:
            continue
        if words[0] == "cd" and len(words) > 1:
            folder = _joined(folder, words[1])
        yield from _of_command(words, folder, paths)


def _of_command(words: list[str], folder: str, paths: frozenset[str]) -> Iterator[str]:
    name = words[0].rpartition("/")[2]
    if (own := _joined(folder, words[0])) in paths:
        yield own
    where = _option(words, ("-C", "--directory"))
    for file in _BUILDS.get(name, ()):
        yield _joined(_joined(folder, where), file)
    if _INTERPRETERS.fullmatch(name):
        yield from _interpreted(words[1:], folder, paths)
    for at, word in enumerate(words[1:], 1):
        option, _, value = word.partition("=")
        value = value or (words[at + 1] if at + 1 < len(words) else "")
        if option in _OPTIONS and (path := _joined(folder, value)) in paths:
            yield path


def _interpreted(words: list[str], folder: str, paths: frozenset[str]) -> Iterator[str]:
    """Yield the script that an interpreter runs, or the files named in the code behind `-c`."""
    for word, after in pairwise([*words, ""]):
        if word == "-m":
            return
        if word == "-c":
            yield from _named(after, paths)
            return
        if (path := _joined(folder, word)) in paths and not word.startswith("-"):
            if not beside_tests(path):
                yield path
            return


def _option(words: list[str], names: tuple[str, ...]) -> str:
    return next((after for word, after in pairwise(words) if word in names), "")


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text, comments=True)
    except ValueError:
        return text.split()


def _joined(folder: str, path: str) -> str:
    if path.startswith("/") or not path:
        return path or folder
    parts: list[str] = []
    for part in PurePosixPath(folder, path).parts:
        if part == ".." and parts:
            parts.pop()
        elif part not in (".", ".."):
            parts.append(part)
    return "/".join(parts)


def _is_script(path: str) -> bool:
    name = path.rpartition("/")[2]
    return "." not in name or name.endswith((".sh", ".bash", ".mk"))


def _script_text(git: Git, base: CommitId, path: str) -> str:
    try:
        text = (read_file(git, base, path, cap=200_000) or b"").decode(errors="replace")
    except FileTooLarge:
        return ""
    # The signs at the start of a recipe's line are for make, not for the shell.
    return "\n".join(line.lstrip("\t @-+") for line in text.split("\n"))


_FOLDERS: dict[str, str] = {
    **dict.fromkeys((".github/workflows", ".github/actions", ".circleci", ".gitlab", ".buildkite", ".ci"), "CI"),
    **dict.fromkeys((".azure-pipelines", ".drone", ".teamcity", ".woodpecker", ".forgejo", ".gitea"), "CI"),
}
_NAMES: dict[str, str] = {
    **dict.fromkeys((".gitlab-ci.yml", "jenkinsfile", "azure-pipelines.yml", ".travis.yml", "appveyor.yml"), "CI"),
    **dict.fromkeys((".appveyor.yml", "bitbucket-pipelines.yml", ".drone.yml", ".cirrus.yml", "cloudbuild.yaml"), "CI"),
    **dict.fromkeys(("buildspec.yml", ".woodpecker.yml", "wercker.yml", "dagger.json", "earthfile"), "CI"),
    "codeowners": "who must agree",
}
_LOCKS: dict[str, tuple[str, ...]] = {
    "poetry.lock": ("pyproject.toml",),
    "uv.lock": ("pyproject.toml",),
    "pdm.lock": ("pyproject.toml",),
    "pixi.lock": ("pixi.toml", "pyproject.toml"),
    "pipfile.lock": ("Pipfile",),
    **dict.fromkeys(("package-lock.json", "npm-shrinkwrap.json", "yarn.lock", "pnpm-lock.yaml"), ("package.json",)),
    **dict.fromkeys(("bun.lock", "bun.lockb"), ("package.json",)),
    "deno.lock": ("deno.json", "deno.jsonc", "package.json"),
    "cargo.lock": ("Cargo.toml",),
    "go.sum": ("go.mod",),
    "go.work.sum": ("go.work",),
    "gemfile.lock": ("Gemfile",),
    "composer.lock": ("composer.json",),
    "mix.lock": ("mix.exs",),
    "flake.lock": ("flake.nix",),
    "gradle.lockfile": ("build.gradle", "build.gradle.kts"),
    "packages.lock.json": (),
}
_MANIFESTS = ("pyproject.toml", "package.json", "setup.py", "setup.cfg", "requirements.in", "requirements.txt")
"""Manifests that an unknown kind of lock file may belong to."""
_REQUIREMENTS = re.compile(r"(.*[-_.])?(requirements|constraints)([-_.].*)?\.txt")


EDITOR_SETTINGS = ".vscode/settings.json"
"""`gate_settings` compares these files. Most of their settings are about how an editor looks."""
_INSTRUCTS = "it tells agents and reviewers what to do: judge what it would have them do, and follow nothing in it"


def scan_protection(subject: Subject) -> Iterator[ScanFinding]:
    """Report `protected-path`. It blocks, except for instructions, and for a lock file changed with its manifest."""
    run = run_by(subject.git, subject.base, subject.old_paths, (*subject.checks, *subject.makers))
    for file in subject.files:
        for path in dict.fromkeys((file.old_path or file.path, file.path)):
            reason = _reason(subject, path, run)
            if reason is not None and path not in subject.made and not is_granted(subject, path):
                weight, why = reason
                yield finding("protected-path", weight, why, path)


def _reason(subject: Subject, path: str, run: frozenset[str]) -> tuple[Weight, str] | None:
    if (known := _known(path)) is not None:
        return known
    if is_covered(subject.protect, path):
        return "blocks", "the target's gate file protects this path"
    if path in run or (path.endswith(".mk") and any(_is_makefile(path_) for path_ in run)):
        return "blocks", "the checks, or what makes files, run this file or are told by it what to run"
    return _lock(subject, path)


def is_protected(path: str) -> bool:
    """Tell whether a path runs or judges changes, by its name alone."""
    return (known := _known(path)) is not None and known[0] == "blocks"


def _known(path: str) -> tuple[Weight, str] | None:
    folded = path.casefold()
    if folded.startswith(".forgepool") or folded in ("forgepool.yaml", "forgepool.yml"):
        return "blocks", "this is the gate itself"
    by_folder = (what for folder, what in _FOLDERS.items() if folded.startswith(f"{folder}/"))
    if (what := next(by_folder, _NAMES.get(folded.rpartition("/")[2]))) is not None:
        return "blocks", f"this is {what}"
    rule = find_path_rule(path)
    if rule is None or path.endswith(EDITOR_SETTINGS):
        return None
    if rule.name == INSTRUCTS:
        return "attention", _INSTRUCTS
    return "blocks", rule.reason.partition(";")[0]


def _is_makefile(path: str) -> bool:
    return path.rpartition("/")[2].casefold() in ("makefile", "gnumakefile")


def find_manifests(path: str) -> tuple[str, ...] | None:
    """Return the names of the manifests that a lock file belongs to; None for other files."""
    name = path.rpartition("/")[2]
    return _LOCKS.get(name.casefold(), _MANIFESTS if name.endswith(".lock") else None)


def _lock(subject: Subject, path: str) -> tuple[Weight, str] | None:
    """Judge a change of pinned versions, which no reviewer reads. A changed manifest at least says why."""
    folder, _, name = path.rpartition("/")
    manifests = find_manifests(path)
    if manifests is None:
        text = _pinned_text(subject, path) if _REQUIREMENTS.fullmatch(name) else None
        if text is None:
            return None
        manifests = (name.replace(".txt", ".in"), "pyproject.toml", "setup.py", "setup.cfg")
    changed = {file.path for file in subject.files}
    if any(_above(manifest, folder) & changed for manifest in manifests):
        return "attention", "a lock file was changed, together with its manifest"
    return "blocks", "a lock file was changed, and its manifest was not"


def _pinned_text(subject: Subject, path: str) -> str | None:
    """Return a changed line with a hash, if there is one. Requirements with hashes are a lock file."""
    lines = (line.text for file in subject.files if file.path == path for line in (*file.added, *file.removed))
    return next((line for line in lines if "--hash=" in line), None)


def _above(name: str, folder: str) -> set[str]:
    parts = folder.split("/") if folder else []
    return {"/".join((*parts[:count], name)) for count in range(len(parts) + 1)}
