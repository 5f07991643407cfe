"""
Detect the checks of a repository from its committed files.

Only the top of the tree is read, and deeper projects are named in a note. A command that does nothing, or that cannot
fail, is left out and named as well.
"""

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import Any

from forgepool.supervisor.checks.cannot_fail import why_unfailing
from forgepool.supervisor.detection.proposals import (
    CheckProposal,
    CommittedFiles,
    Detected,
    Folder,
    Preparation,
    Role,
    name_proposals,
    one_line,
)
from forgepool.supervisor.detection.python_projects import python_checks

_SCRIPTS: tuple[Role, ...] = ("test", "lint", "build")
"""Scripts of `package.json`, each named like its role."""
_SAYS_NOTHING = re.compile(r"(?:echo|printf|true|:|exit)\b.*|:|")
_BETWEEN = re.compile(r"&&|\|\||[;|\n]")
_WRITES_IN_MODULES = ("vite", "vitest", "webpack", "babel-loader", "terser-webpack-plugin", "ava", "nyc")
_MAKEFILES = ("GNUmakefile", "makefile", "Makefile")
_RULE = re.compile(r"^(?P<targets>[A-Za-z0-9_.%/-]+(?:[ \t]+[A-Za-z0-9_.%/-]+)*)[ \t]*::?(?!=)(?P<needs>[^\n]*)$")
_MANIFESTS = frozenset(
    [
        "pyproject.toml",
        "setup.py",
        "package.json",
        "Cargo.toml",
        "go.mod",
        "pom.xml",
        "build.gradle",
        "build.gradle.kts",
    ]
)
_MOST_NAMED = 5


def detect(files: CommittedFiles) -> Detected:
    """Return every check that the files suggest, and notes for the person who decides."""
    notes: list[str] = []
    native = [*python_checks(files), *_node(files, notes), *_cargo(files), *_go(files), *_jvm(files)]
    around = [*_make(files, notes), *_runners(files)]
    roles = {proposal.role for proposal in native}
    for proposal in around:
        if proposal.role in roles:
            by = proposal.why.partition(";")[0]
            notes.append(
                f"`{proposal.run}` is there too ({by}); it may do the same as what is proposed for {proposal.role}."
            )
    proposals = name_proposals([*native, *(proposal for proposal in around if proposal.role not in roles)])
    notes += _unignored(files, proposals)
    notes += _deeper(files)
    return Detected(proposals=proposals, notes=tuple(notes))


def _node(files: CommittedFiles, notes: list[str]) -> Iterator[CheckProposal]:
    package = _json(files.text("package.json"))
    scripts = package.get("scripts")
    if not isinstance(scripts, dict):
        return
    manager = _manager(files, package)
    before = _modules(files, package, manager)
    for script in _SCRIPTS:
        command = scripts.get(script)
        if not isinstance(command, str):
            continue
        if objection := _objection([command]):
            notes.append(f"package.json's script '{script}' {objection}, and is left out.")
            continue
        run = f"{manager} test" if script == "test" else f"{manager} run {script}"
        # On a terminal it would wait for changes for ever.
        prefix = "CI=true " if "react-scripts test" in command else ""
        why = f"by package.json, script '{script}': {command[:80]}"
        yield CheckProposal(role=script, tool=f"{manager}-{script}", run=prefix + run, why=why, preparation=before)


def _manager(files: CommittedFiles, package: dict[str, Any]) -> str:
    pinned = package.get("packageManager")
    if isinstance(pinned, str) and (found := re.match(r"(npm|pnpm|yarn)@", pinned)):
        return found[1]
    return {"pnpm-lock.yaml": "pnpm", "yarn.lock": "yarn"}.get(files.first("pnpm-lock.yaml", "yarn.lock") or "", "npm")


def _modules(files: CommittedFiles, package: dict[str, Any], manager: str) -> Preparation | None:
    """Return the set-up of `node_modules`, or None if the package needs none."""
    needs = [name for key in ("dependencies", "devDependencies") for name in _dict(package.get(key))]
    if not needs and "workspaces" not in package:
        return None
    lock = {
        "npm": files.first("npm-shrinkwrap.json", "package-lock.json"),
        "pnpm": "pnpm-lock.yaml",
        "yarn": "yarn.lock",
    }
    key = lock[manager] if lock[manager] in files.paths else None
    berry = manager == "yarn" and (".yarnrc.yml" in files.paths or not _classic(package))
    exact = {"npm": "npm ci", "pnpm": "pnpm install --frozen-lockfile", "yarn": "yarn install --frozen-lockfile"}
    run = "yarn install --immutable" if berry else exact[manager]
    hosts = ("registry.yarnpkg.com", "registry.npmjs.org") if manager == "yarn" else ("registry.npmjs.org",)
    if key is None:
        why = "no lock file is committed, so nothing says which versions, and nothing is kept"
        return Preparation(run=f"{manager} install", why=why, network=hosts)
    # Plug'n'Play puts its packages elsewhere.
    kept = not berry or "nodeLinker: node-modules" in files.text(".yarnrc.yml")
    writes = sorted(set(needs) & set(_WRITES_IN_MODULES))
    writable_note = f"; writable, since {writes[0]} keeps a cache in there" if writes and kept else ""
    folders = (Folder(folder="node_modules", key=key, writable=bool(writes)),) if kept else ()
    return Preparation(run=run, why=f"the packages by {key}{writable_note}", folders=folders, network=hosts)


def _classic(package: dict[str, Any]) -> bool:
    pinned = package.get("packageManager")
    return not isinstance(pinned, str) or pinned.startswith("yarn@1.")


def _cargo(files: CommittedFiles) -> Iterator[CheckProposal]:
    if "Cargo.toml" not in files.paths:
        return
    lock = "Cargo.lock" in files.paths
    fetched = lock and "\nsource = " in files.text("Cargo.lock")
    needs = re.search(r"^\[(?:.*\.)?(?:dev-|build-)?dependencies", files.text("Cargo.toml"), re.MULTILINE) is not None
    before = None
    home = 'CARGO_HOME="$PWD/.cargo-home" '
    if fetched:
        before = Preparation(
            run=f"{home}cargo fetch --locked",
            why="the crates by Cargo.lock; cargo locks its home while it works, so it must be writable",
            folders=(Folder(folder=".cargo-home", key="Cargo.lock", writable=True),),
            network=("index.crates.io", "static.crates.io"),
        )
    elif needs and not lock:
        before = Preparation(
            run=f"{home}cargo fetch",
            why="Cargo.lock is not committed, so nothing says which versions, and nothing is kept",
            network=("index.crates.io", "static.crates.io"),
        )
    parts = (home if before else "", " --locked" if lock else "", " --offline" if before else "")
    workspace = " --workspace" if re.search(r"^\[workspace\]", files.text("Cargo.toml"), re.MULTILINE) else ""

    def cargo(verb: str) -> str:
        return f"{parts[0]}cargo {verb}{workspace}{parts[1]}{parts[2]}"

    yield CheckProposal(role="build", tool="cargo-build", run=cargo("build"), why="by Cargo.toml", preparation=before)
    yield CheckProposal(
        role="test",
        tool="cargo-test",
        run=cargo("test"),
        why="by Cargo.toml; in the checkout of the build, so that little is compiled twice",
        preparation=before,
        uses="cargo-build",
    )
    yield CheckProposal(
        role="lint",
        tool="cargo-clippy",
        run=f"{cargo('clippy --all-targets')} -- -D warnings",
        why="by Cargo.toml; the component clippy must be installed, and every warning counts",
        preparation=before,
    )
    why = "by Cargo.toml; the component rustfmt must be installed"
    yield CheckProposal(role="format", tool="cargo-fmt", run="cargo fmt --all --check", why=why)


def _go(files: CommittedFiles) -> Iterator[CheckProposal]:
    if "go.mod" not in files.paths:
        return
    required = re.search(r"^require\b", files.text("go.mod"), re.MULTILINE) is not None
    before = None
    where = ""
    if required and "vendor/modules.txt" not in files.paths:
        where = 'GOMODCACHE="$PWD/.gomodcache" '
        key = files.first("go.sum")
        before = Preparation(
            run=f"{where}go mod download -modcacherw",
            why=f"the modules by {key or 'go.mod'}",
            folders=(Folder(folder=".gomodcache", key=key, writable=True),) if key else (),
            network=("proxy.golang.org", "sum.golang.org"),
        )
    verbs: tuple[tuple[Role, str], ...] = (("build", "build"), ("lint", "vet"), ("test", "test"))
    for role, verb in verbs:
        tool, run = f"go-{verb}", f"{where}go {verb} ./..."
        yield CheckProposal(role=role, tool=tool, run=run, why="by go.mod", preparation=before)


def _jvm(files: CommittedFiles) -> Iterator[CheckProposal]:
    hosts: tuple[str, ...] = ("repo.maven.apache.org",)
    why = "; what it needs is fetched each time, unless the host has it"
    if "pom.xml" in files.paths:
        maven = "./mvnw" if "mvnw" in files.paths else "mvn"
        reports = ("**/target/surefire-reports/TEST-*.xml",)
        yield CheckProposal(
            role="test", tool="maven", run=f"{maven} -B test", why=f"by pom.xml{why}", reports=reports, network=hosts
        )
    built = files.first("build.gradle", "build.gradle.kts", "settings.gradle", "settings.gradle.kts")
    if built:
        gradle = "./gradlew" if "gradlew" in files.paths else "gradle"
        hosts = (*hosts, "plugins.gradle.org", "services.gradle.org")
        reports = ("**/build/test-results/**/TEST-*.xml",)
        run = f"{gradle} --no-daemon check"
        yield CheckProposal(role="test", tool="gradle", run=run, why=f"by {built}{why}", reports=reports, network=hosts)


def _make(files: CommittedFiles, notes: list[str]) -> Iterator[CheckProposal]:
    path = files.first(*_MAKEFILES)
    rules = _rules(files.text(path)) if path else {}
    advice = "; what it calls must be on the PATH, or be set up"
    for target in ("test", "check", "lint"):
        if target not in rules:
            continue
        needs, recipe = rules[target]
        if not needs and (objection := _objection(recipe)):
            notes.append(f"{path}'s target '{target}' {objection}, and is left out.")
            continue
        if target == "check" and "test" in rules and rules["test"] != ([], []):
            notes.append(f"`make check` is there too (by {path}); `make test` is taken for the tests.")
            continue
        role: Role = "lint" if target == "lint" else "test"
        why = f"by {path}, target '{target}'{advice}"
        yield CheckProposal(role=role, tool=f"make-{target}", run=f"make {target}", why=why)


def _rules(text: str) -> dict[str, tuple[list[str], list[str]]]:
    """Return the prerequisites and the recipe of each literal target. Variables are not expanded."""
    found: dict[str, tuple[list[str], list[str]]] = {}
    open_: list[str] = []
    for line in text.replace("\\\n", " ").splitlines():
        if line.startswith("\t"):
            for target in open_:
                found[target][1].append(_recipe(line.strip()))
        elif rule := _RULE.match(line):
            needs, _, inline = rule["needs"].partition("#")[0].partition(";")
            open_ = rule["targets"].split()
            for target in open_:
                before = found.setdefault(target, ([], []))
                before[0].extend(needs.split())
                before[1].extend([inline.strip()] if inline.strip() else [])
        elif line.strip() and not line.startswith("#"):
            open_ = []
    return found


def _recipe(line: str) -> str:
    """Return a line of a recipe as the shell gets it. `make` ignores the failure of a line with a leading `-`."""
    command = line.lstrip("@-+ ")
    ignored = "-" in line[: len(line) - len(command)]
    return f"{command} || true" if ignored else command


def _runners(files: CommittedFiles) -> Iterator[CheckProposal]:
    """Propose tools that run other tools. They count only if those were not found."""
    hosts = ("pypi.org", "files.pythonhosted.org")
    advice = "it makes its environments itself, each time"
    if files.first("tox.toml") or re.search(r"^\[(?:tox|testenv)\]", files.text("tox.ini"), re.MULTILINE):
        where = files.first("tox.toml", "tox.ini")
        yield CheckProposal(role="test", tool="tox", run="tox run", why=f"by {where}; {advice}", network=hosts)
    elif "noxfile.py" in files.paths:
        yield CheckProposal(role="test", tool="nox", run="nox", why=f"by noxfile.py; {advice}", network=hosts)


def _objection(commands: Sequence[str]) -> str | None:
    """Return why commands are no check, as the end of a sentence, or None if they may be one."""
    parts = [part.strip() for command in commands for part in _BETWEEN.split(command)]
    if not any(parts):
        return "is empty"
    if all(_SAYS_NOTHING.fullmatch(part) for part in parts):
        return "does nothing but talk"
    reasons = [why_unfailing(command) for command in commands]
    return None if None in reasons else f"cannot fail, since {reasons[-1]}"


def _unignored(files: CommittedFiles, proposals: tuple[CheckProposal, ...]) -> Iterator[str]:
    ignored = {line.strip().strip("/") for line in files.text(".gitignore").splitlines()}
    folders = {each.folder for proposal in proposals if proposal.preparation for each in proposal.preparation.folders}
    for folder in sorted(folders - ignored):
        yield f"{folder} is not named in .gitignore; until git ignores it, agents' worktrees do without it."


def _deeper(files: CommittedFiles) -> Iterator[str]:
    manifests = sorted(path for path in files.paths if "/" in path and _is_manifest(path))
    if manifests:
        more = f" and {len(manifests) - _MOST_NAMED} more" if len(manifests) > _MOST_NAMED else ""
        named_ = ", ".join(one_line(path) for path in manifests[:_MOST_NAMED])
        yield f"Not looked into, since not at the top: {named_}{more}."


def _is_manifest(path: str) -> bool:
    parts = PurePosixPath(path).parts
    return parts[-1] in _MANIFESTS and not {"node_modules", "vendor", "third_party", "testdata"} & set(parts)


def _json(text: str) -> dict[str, Any]:
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return _dict(data)


def _dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
