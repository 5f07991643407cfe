"""Read a `forgepool.yaml`, and name every mistake in it."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from forgepool.workers.policy.gate_file.document import (
    GATE_FILE,
    RULES,
    CheckBody,
    CheckDefinition,
    GateDemands,
    GateFile,
    RegenerateDefinition,
    ScanRules,
    Scopes,
    WrittenCheck,
    WrittenChecks,
    apply_scopes,
    definitions,
    effective_checks,
)
from forgepool.workers.sandbox.network.hosts import BadHost, read_rule
from forgepool.workers.schema.documents import Located, Version, read, validate
from forgepool.workers.schema.globs import BadGlob, parse
from forgepool.workers.schema.mistakes import DocumentWrong, Mistake, nearest
from forgepool.workers.schema.policy_rules import RuleEntry

if TYPE_CHECKING:
    from forgepool.worktrees.git.git import CommitId, Git


def unknown(names: Sequence[str], scopes: Scopes) -> Iterator[tuple[str, str]]:
    """Yield each name that is no scope, with advice."""
    for name in names:
        if name not in scopes:
            meant = nearest(name, scopes)
            known = f"scopes are: {', '.join(scopes)}" if scopes else "there are none; declare it under 'scopes'"
            yield name, f"did you mean '{meant[0]}'?" if meant else known


_TOOLS = re.compile(
    r"(?:(?<![\w./-])|(?<=bin/))(ruff(?: format)?|mypy|eslint|tsc|flake8|pylint|pyright|pytest)(?![\w./=-])"
)
"""Programs that report findings, in a command."""


_SAID = re.compile(r"\\(?P<joined>\n)|\\.|'[^']*'|\"(?:\\.|[^\"\\])*\"|(?<![^\s;&|()])#[^\n]*", re.DOTALL)
"""Quoted text, comments and escapes of a shell, where no sign separates commands."""


_REDIRECTED = re.compile(r"[<>]&|>\|")


_SHELL = re.compile(r"`|\$\(|(?:^|[\s/;&|(])(?:(?:ba|da|k|z)?sh\s(?:.*\s)?-[a-z]*c\b|eval\s)")
"""Signs that quoted text in a command may be commands as well."""


_SEPARATOR = re.compile(r"(&&|\|\|?|[;&\n])")


_PREPARES = re.compile(r"(?:cd|export|set)(?: [^`(]*)?|(?:\w+=[^\s`(]*\s*)+")


class GateSource(GateDemands):
    version: Version
    checks: WrittenChecks


def read_gate_file(text: str, name: str = "forgepool.yaml") -> GateFile:
    """
    Read the checks and rules of a `forgepool.yaml`.

    Raises:
        DocumentWrong: with every mistake found.
    """
    document = read(text, name)
    source = validate(document, GateSource)
    checks = definitions(source.checks)
    wrong = (
        *check_mistakes(document, source.checks),
        *(Mistake(_line(document, check, "uses"), said) for check, said in unknown_uses(checks)),
        *_policy_mistakes(document, source.policy),
        *_scans_wrong(document, source.scans),
        *_scopes_wrong(document, source.scopes),
        *(
            Mistake(_line(document, check, "scope"), message)
            for check, message in unknown_scopes(checks, source.scopes)
        ),
        *_regenerate_wrong(document, source.regenerate),
    )
    if wrong:
        raise DocumentWrong(name, wrong)
    return GateFile(
        checks=apply_scopes(checks, source.scopes),
        scopes=source.scopes,
        policy=source.policy,
        scans=source.scans,
        regenerate=source.regenerate,
        review=source.review,
    )


def read_gate(git: "Git", commit: "CommitId", plan_checks: Sequence[CheckDefinition]) -> GateFile:
    """
    Return what a commit of the target demands of what lands on it, with the plan's further checks and all scopes.

    Raises:
        DocumentWrong: its gate file cannot be read as one.
        FileTooLarge, GitFailed: it cannot be read at all.
    """
    from forgepool.worktrees.commits.changes import find_at, read_file

    text = read_file(git, commit, GATE_FILE) if GATE_FILE in find_at(git, commit, GATE_FILE) else None
    found = read_gate_file(text.decode(errors="replace"), GATE_FILE) if text is not None else GateFile(checks=())
    checks = apply_scopes(effective_checks(found.checks, plan_checks), found.scopes)
    return found.model_copy(update={"checks": checks})


def unknown_scopes(checks: Sequence[CheckDefinition], scopes: Scopes) -> Iterator[tuple[CheckDefinition, str]]:
    """Yield each check that names an unknown scope, with a sentence about it."""
    for check in checks:
        for name, mend in unknown(check.scope, scopes):
            yield check, f"check '{check.name}' is about scope '{name}', which is none; {mend}"


def check_mistakes(
    document: Located, written: tuple[WrittenCheck, ...] | dict[str, str | CheckBody]
) -> tuple[Mistake, ...]:
    """
    Return the mistakes in the document's `checks`: none at all, a name used twice, hosts, globs, circles.

    A check may use one of another document. `unknown_uses` reports those that exist nowhere.
    """
    if not written:
        return (Mistake(document.line(("checks",)), "'checks' is empty; name at least one command that must pass"),)
    first: dict[str, int] = {}
    wrong: list[Mistake] = []
    checks = definitions(written)
    for index, check in enumerate(checks):
        wrong += _hosts_wrong(document, check)
        wrong += _globs_wrong(document, check)
        wrong += _baseline_wrong(document, check)
        line = document.line(("checks", index, "name"))
        if check.name in first:
            before = f"first on line {first[check.name]}"
            wrong.append(Mistake(line, f"check '{check.name}' is defined twice ({before}); give it another name"))
        first.setdefault(check.name, line)
    wrong += [Mistake(_line(document, check, "uses"), message) for check, message in _circles(checks)]
    return tuple(wrong)


def unknown_uses(checks: Sequence[CheckDefinition]) -> Iterator[tuple[CheckDefinition, str]]:
    """Yield each check that uses an unknown one, or votes and uses one without a vote, with a sentence about it."""
    known = [check.name for check in checks]
    voteless = {check.name for check in checks if not check.voting}
    for check in checks:
        for name in check.uses:
            if name in voteless and check.voting:
                mend = f"let '{name}' vote, or take the vote from '{check.name}'"
                message = (
                    f"check '{check.name}' uses '{name}', which has no vote and could keep it from running; {mend}"
                )
                yield check, message
            if name not in known:
                meant = nearest(name, known)
                mend = f"did you mean '{meant[0]}'?" if meant else f"checks are: {', '.join(known)}"
                yield check, f"check '{check.name}' uses '{name}', which is no check; {mend}"


def _circles(checks: Sequence[CheckDefinition]) -> Iterator[tuple[CheckDefinition, str]]:
    """Yield each check that would have to run before itself. Of a circle, the one written first stands for all."""
    uses = {check.name: check.uses for check in checks}
    reported: set[str] = set()
    for check in checks:
        if check.name in check.uses:
            yield check, f"check '{check.name}' uses itself; take it out of its 'uses'"
        elif check.name not in reported and (way := _way_back(check.name, uses)):
            reported.update(way)
            named = ", ".join(f"'{name}'" for name in way)
            yield check, f"checks {named} use each other in a circle; take one of them out of the others' 'uses'"


def _way_back(name: str, uses: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """Return the checks through which it leads back to itself, starting with itself."""
    waiting: list[tuple[str, ...]] = [(name,)]
    seen: set[str] = set()
    while waiting:
        way = waiting.pop()
        for used in uses.get(way[-1], ()):
            if used == name:
                return way
            if used not in seen:
                seen.add(used)
                waiting.append((*way, used))
    return ()


def _policy_mistakes(document: Located, rules: Sequence[RuleEntry]) -> list[Mistake]:
    if not rules:
        return []
    from forgepool.workers.policy.document import mistakes_in

    return mistakes_in(document, rules, ("policy",))


def _host_wrong(host: str) -> str | None:
    try:
        read_rule(host)
    except BadHost as bad:
        return str(bad)
    return None


def _hosts_wrong(document: Located, check: CheckDefinition) -> Iterator[Mistake]:
    for host in check.network:
        if wrong := _host_wrong(host):
            yield Mistake(_line(document, check, "network"), f"'network' of check '{check.name}' has the {wrong}")


def _globs_wrong(document: Located, check: CheckDefinition) -> Iterator[Mistake]:
    for key, globs in (("paths", check.paths), ("reports", check.reports)):
        for glob in globs:
            if wrong := _glob_wrong(glob):
                yield Mistake(_line(document, check, key), f"'{key}' of check '{check.name}' has the {wrong}")


def _baseline_wrong(document: Located, check: CheckDefinition) -> Iterator[Mistake]:
    """Report several commands in one check. A red first one keeps the second from running."""
    if check.baseline is None:
        return
    tools = tuple(dict.fromkeys(_TOOLS.findall(check.run)))
    if len(tools) > 1:
        named = " and ".join(tools)
        message = f"check '{check.name}' with a 'baseline' runs {named}; give each of them a check of its own"
        yield Mistake(_line(document, check, "run"), message)
    elif _runs_several(check.run):
        mend = "give each of them a check of its own, and let 'setup' do what only prepares"
        message = f"check '{check.name}' with a 'baseline' runs more than one command; {mend}"
        yield Mistake(_line(document, check, "run"), message)


def _runs_several(command: str) -> bool:
    """Tell whether a shell runs more of it than one command behind `cd`, `export`, `set` and assignments."""
    text = command if _SHELL.search(command) else _SAID.sub(_without_separators, command)
    parts = [part.strip() for part in _SEPARATOR.split(_REDIRECTED.sub("_", text).strip("; \t\n"))]
    while len(parts) > 2 and parts[1] in ("&&", ";", "") and (not parts[0] or _PREPARES.fullmatch(parts[0])):
        parts = parts[2:]
    return any(parts[1:])


def _without_separators(match: re.Match[str]) -> str:
    return "" if match["joined"] or match[0].startswith("#") else "_"


def _scans_wrong(document: Located, scans: ScanRules) -> Iterator[Mistake]:
    for at, glob in enumerate(scans.protect):
        if wrong := _glob_wrong(glob):
            yield Mistake(document.line(("scans", "protect", at)), f"'protect' of 'scans' has the {wrong}")
    for at, rule in enumerate(scans.waive):
        if rule not in RULES:
            meant = nearest(rule, RULES)
            mend = f"did you mean '{meant[0]}'?" if meant else f"rules are: {', '.join(sorted(RULES))}"
            yield Mistake(document.line(("scans", "waive", at)), f"'waive' of 'scans' has no rule '{rule}'; {mend}")


def _scopes_wrong(document: Located, scopes: Scopes) -> Iterator[Mistake]:
    for name, scope in scopes.items():
        for at, glob in enumerate(scope.paths):
            if wrong := _glob_wrong(glob):
                yield Mistake(document.line(("scopes", name, "paths", at)), f"scope '{name}' has the {wrong}")
        for need, mend in unknown(scope.needs, scopes):
            line = document.line(("scopes", name, "needs"))
            yield Mistake(line, f"scope '{name}' needs '{need}', which is none; {mend}")


def _regenerate_wrong(document: Located, regenerate: Sequence[RegenerateDefinition]) -> Iterator[Mistake]:
    for index, definition in enumerate(regenerate):
        for key, globs in (("paths", definition.paths), ("from", definition.of)):
            for at, glob in enumerate(globs):
                if wrong := _glob_wrong(glob) or (_covers_gate(glob) if key == "paths" else None):
                    line = document.line(("regenerate", index, key, at))
                    yield Mistake(line, f"'{key}' of regenerate {index + 1} has the {wrong}")
        for at, host in enumerate(definition.network):
            if wrong := _host_wrong(host):
                line = document.line(("regenerate", index, "network", at))
                yield Mistake(line, f"'network' of regenerate {index + 1} has the {wrong}")


def _covers_gate(glob: str) -> str | None:
    """Return a complaint if a command would write the files that define the commands."""
    own = next((name for name in ("forgepool.yaml", ".gitattributes") if parse(glob).matches(name)), None)
    return f"glob '{glob}', which covers {own}; name only what the command makes" if own else None


def _glob_wrong(glob: str) -> str | None:
    if glob.startswith("/"):
        return f"glob '{glob}': it begins at the root of the disk; write it relative to the repository's root"
    try:
        parse(glob)
    except BadGlob as bad:
        return str(bad)
    return None


def _line(document: Located, check: CheckDefinition, key: str) -> int:
    """Return the line of a check's key, in either form. If two checks share a name, the first one counts."""
    written = document.data["checks"] if isinstance(document.data, dict) else None
    if not isinstance(written, list):
        return document.line(("checks", check.name, key))
    named = (at for at, each in enumerate(written) if isinstance(each, dict) and each.get("name") == check.name)
    return document.line(("checks", next(named, 0), key))
