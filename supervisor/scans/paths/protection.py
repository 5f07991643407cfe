"""
Paths that no agent changes without a person's leave: what runs and judges changes, and what pins what is installed.

By name alone; of what lies in files that hold more than settings, see `gate_settings`.
"""

import re
from collections.abc import Iterator

from forgepool.supervisor.findings import ScanFinding, Weight
from forgepool.supervisor.scans.grants import LEAVE, is_covered, is_granted
from forgepool.supervisor.scans.paths.commands import run_by
from forgepool.supervisor.scans.subject import Subject, finding

_FOLDERS: dict[str, str] = {
    **dict.fromkeys((".github/workflows", ".github/actions", ".circleci", ".gitlab", ".buildkite", ".ci"), "CI"),
    **dict.fromkeys((".azure-pipelines", ".drone", ".teamcity", ".woodpecker", ".forgejo", ".gitea"), "CI"),
    **dict.fromkeys((".githooks", ".husky", ".git-hooks"), "git hooks"),
}
_NAMES: dict[str, str] = {
    **dict.fromkeys((".gitlab-ci.yml", "jenkinsfile", "azure-pipelines.yml", ".travis.yml", "appveyor.yml"), "CI"),
    **dict.fromkeys((".appveyor.yml", "bitbucket-pipelines.yml", ".drone.yml", ".cirrus.yml", "cloudbuild.yaml"), "CI"),
    **dict.fromkeys(("buildspec.yml", ".woodpecker.yml", "wercker.yml", "dagger.json", "earthfile"), "CI"),
    **dict.fromkeys(
        (".pre-commit-config.yaml", ".pre-commit-hooks.yaml", "lefthook.yml", ".lefthook.yml"), "git hooks"
    ),
    **dict.fromkeys((".gitattributes", ".gitmodules"), "git's own settings"),
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
"""One of these is that of a lock file nobody has heard of."""
_REQUIREMENTS = re.compile(r"(.*[-_.])?(requirements|constraints)([-_.].*)?\.txt")


def scan_protection(subject: Subject) -> Iterator[ScanFinding]:
    """Findings `protected-path`: they block, save of a lock file that is changed with its manifest."""
    run = run_by(subject.git, subject.base, subject.old_paths, (*subject.checks, *subject.makers))
    for file in subject.files:
        for path in dict.fromkeys((file.old_path or file.path, file.path)):
            found = _reason(subject, path, run)
            if found is not None and path not in subject.made and not is_granted(subject, path):
                weight, why = found
                yield finding("protected-path", weight, f"{why}{LEAVE}", path)


def _reason(subject: Subject, path: str, run: frozenset[str]) -> tuple[Weight, str] | None:
    if (known := _known(path)) is not None:
        return "blocks", f"this is {known}"
    if is_covered(subject.protect, path):
        return "blocks", "the target's gate file protects this path"
    if path in run or (path.endswith(".mk") and any(_is_makefile(one) for one in run)):
        return "blocks", "the checks, or what makes files, run this file or are told by it what to run"
    return _lock(subject, path)


def is_protected(path: str) -> bool:
    """Is it, by its name, one of those that run and judge changes?"""
    return _known(path) is not None


def _known(path: str) -> str | None:
    folded = path.casefold()
    name = folded.rpartition("/")[2]
    if folded.startswith(".forgepool") or folded in ("forgepool.yaml", "forgepool.yml"):
        return "the gate itself"
    if "/.husky/" in folded:
        return _FOLDERS[".husky"]
    return next((what for folder, what in _FOLDERS.items() if folded.startswith(f"{folder}/")), _NAMES.get(name))


def _is_makefile(path: str) -> bool:
    return path.rpartition("/")[2].casefold() in ("makefile", "gnumakefile")


def _lock(subject: Subject, path: str) -> tuple[Weight, str] | None:
    """Versions are pinned by it: nobody reads what has changed there, and a manifest at least says why."""
    folder, _, name = path.rpartition("/")
    manifests = _LOCKS.get(name.casefold(), _MANIFESTS if name.endswith(".lock") else None)
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
    """Requirements with hashes are a lock file; without, they are a list that people write."""
    lines = (line.text for file in subject.files if file.path == path for line in (*file.added, *file.removed))
    return next((line for line in lines if "--hash=" in line), None)


def _above(name: str, folder: str) -> set[str]:
    parts = folder.split("/") if folder else []
    return {"/".join((*parts[:count], name)) for count in range(len(parts) + 1)}
