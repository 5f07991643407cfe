"""
What a check is, and `forgepool.yaml`, the file in which a repository says what it demands.

How a check is run lies elsewhere; here is only what a person can say about one.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag

from forgepool.supervisor.gate_file.rules import RULES
from forgepool.supervisor.gate_file.scopes import Scope, Scopes, inside, outside, unknown
from forgepool.workers.policy.document import mistakes_in
from forgepool.workers.sandbox.network.hosts import BadHost, read_rule
from forgepool.workers.schema.documents import Located, read, validate
from forgepool.workers.schema.globs import BadGlob, parse
from forgepool.workers.schema.mistakes import DocumentWrong, Duration, Mistake, Slug, nearest
from forgepool.workers.schema.orders import CachedFolder, Message, Setup
from forgepool.workers.schema.policy_rules import RuleEntry

_TOOLS = re.compile(
    r"(?:(?<![\w./-])|(?<=bin/))(ruff(?: format)?|mypy|eslint|tsc|flake8|pylint|pyright|pytest)(?![\w./=-])"
)
"""Programs that find something, in a command."""
_SAID = re.compile(r"\\(?P<joined>\n)|\\.|'[^']*'|\"(?:\\.|[^\"\\])*\"|(?<![^\s;&|()])#[^\n]*", re.DOTALL)
"""Text of a shell in which nothing separates commands."""
_REDIRECTED = re.compile(r"[<>]&|>\|")
_SHELL = re.compile(r"`|\$\(|(?:^|[\s/;&|(])(?:(?:ba|da|k|z)?sh\s(?:.*\s)?-[a-z]*c\b|eval\s)")
"""In a command with this, what stands in quotes may be commands, too."""
_SEPARATOR = re.compile(r"(&&|\|\|?|[;&\n])")
_PREPARES = re.compile(r"(?:cd|export|set)(?: [^`(]*)?|(?:\w+=[^\s`(]*\s*)+")


def _one_or_more(value: object) -> object:
    if isinstance(value, str):
        return (value,)
    return tuple(value) if isinstance(value, list) else value


class NotConfigured(Exception):
    """What is demanded is missing or proves nothing, and nobody has said that this shall be so; one sentence."""


class _CheckBody(Message):
    """What a check is, without its name."""

    run: str = Field(min_length=1)
    """A shell command, run in a clean checkout; exit status 0 is green."""
    timeout_s: Duration = 900.0
    setup: str | None = Field(default=None, min_length=1)
    """A shell command run before, outside the check's own time and verdict."""
    cache: tuple[CachedFolder, ...] = ()
    network: tuple[str, ...] = ()
    """Hosts that the check and its set-up may reach; none of them: no network."""
    reports: tuple[str, ...] = ()
    """Globs of the JUnit XML files that it writes into the checkout. pytest's is asked for without this."""
    paths: tuple[str, ...] = ()
    """Globs of what its outcome depends on; none of them, and no scope: the whole tree."""
    scope: Annotated[tuple[Slug, ...], BeforeValidator(_one_or_more)] = ()
    """The target's scopes that it is about: with all that they need they belong to `paths`."""
    uses: tuple[Slug, ...] = ()
    """Checks whose leavings it needs: it runs in their checkout, after them. Any other check finds a clean one."""
    cost_s: Duration | None = None
    """Seconds it takes, about: cheaper checks run first. Without it, what it took last on this host."""
    waive: tuple[Literal["no_tests", "cannot_fail"], ...] = ()
    """What is accepted of it: that no test runs, that its command cannot fail."""
    baseline: Literal["tip"] | None = None
    """With `tip`, what is red on the target stays red there, and only new failures are held against a change."""
    voting: bool = True
    """Without a vote it is run and told, and keeps nothing out."""


class WrittenCheck(_CheckBody):
    """A check as it is written in a list."""

    name: Slug


class CheckDefinition(WrittenCheck):
    """One command a tree must pass before it may land."""

    elsewhere: tuple[str, ...] = ()
    """Globs of scopes that it is not about. Nobody writes it: it comes of the target's `scopes`."""

    @property
    def needs(self) -> Setup | None:
        """What is run before."""
        if self.setup is None:
            return None
        return Setup(name=self.name, run=self.setup, cache=self.cache, network=self.network, timeout_s=self.timeout_s)


def _body_form(value: object) -> str:
    return "a command" if isinstance(value, str) else "a body"


def _checks_form(value: object) -> str:
    if not isinstance(value, dict | list | tuple):
        return "none" if value == "none" else "something else"
    return "a mapping" if isinstance(value, dict) else "a list"


_Command = Annotated[str, Field(min_length=1)]
_NamedBody = Annotated[
    Annotated[_Command, Tag("a command")] | Annotated[_CheckBody, Tag("a body")], Discriminator(_body_form)
]
_CheckList = Annotated[tuple[WrittenCheck, ...], Tag("a list")]
_CheckMapping = Annotated[dict[Slug, _NamedBody], Tag("a mapping")]

WrittenChecks = Annotated[_CheckList | _CheckMapping, Discriminator(_checks_form)]
"""Checks as people write them: a list of mappings, or a mapping from name to command or mapping."""
WrittenChecksOrNone = Annotated[
    _CheckList | _CheckMapping | Annotated[Literal["none"], Tag("none")], Discriminator(_checks_form)
]
"""The same, or the word `none`."""


class RegenerateDefinition(Message):
    """Files that a command makes of others: merged by running it, not line by line."""

    paths: tuple[str, ...] = Field(min_length=1)
    """Globs of the files that it makes; what else it touches is nobody's."""
    of: tuple[str, ...] = Field(default=(), alias="from")
    """Globs of what it makes them of; none of them: of all the rest of the tree."""
    run: str = Field(min_length=1)
    """A shell command, run in a clean checkout of the merged tree."""
    timeout_s: Duration = 900.0
    setup: str | None = Field(default=None, min_length=1)
    """A shell command run before, outside the command's own time."""
    cache: tuple[CachedFolder, ...] = ()
    network: tuple[str, ...] = ()
    """Hosts that the command and its set-up may reach; none of them: no network."""

    @property
    def named(self) -> str:
        return self.paths[0] if len(self.paths) == 1 else f"{self.paths[0]} and the like"


PeoplesScans = Literal["off", "report", "enforce"]
"""What scans do about a change that a person made."""


class ScanRules(Message):
    """The settings of a repository's scans."""

    people: PeoplesScans = "report"
    """`report`: findings are shown and hold nothing up. `enforce`: they count as those of an agent do."""
    max_file_mb: float = Field(default=50.0, gt=0)
    """Megabytes (of 1,000,000 bytes) of the largest file that may come in, whoever adds it."""

    protect: tuple[str, ...] = ()
    """Globs of paths that no agent changes without a person's leave, in addition to those protected anyway."""
    waive: tuple[str, ...] = ()
    """Rules that are not applied to any change."""


ReviewWord = Literal["self-other-model", "person", "none"]
"""
Who reviews candidates of models in place of another family: another model of the author's own, a person, or nobody.
"""


class _Demands(Message):
    """What a gate file says besides its checks."""

    scopes: dict[Slug, Scope] = Field(default_factory=dict)
    """Parts of the repository, by name."""

    policy: tuple[RuleEntry, ...] = ()
    """The repository's own rules for agents. They tighten what a person allows, and loosen nothing."""
    scans: ScanRules = ScanRules()
    regenerate: tuple[RegenerateDefinition, ...] = ()
    """Files that are made by commands, in the order in which they are made."""
    review: Literal["required"] | ReviewWord | None = None
    """
    `required`: nothing lands here without an approval of another family's model or a person, whatever a plan says. The
    other words hold for plans that say nothing of reviews.
    """


class GateFile(_Demands):
    """What a repository demands: the checks for whatever lands on the branch that holds the file, rules for agents."""

    version: Literal[1] = 1
    checks: tuple[CheckDefinition, ...]


class _GateSource(_Demands):
    version: Literal[1]
    checks: WrittenChecks


def read_gate_file(text: str, name: str = "forgepool.yaml") -> GateFile:
    """
    The checks and rules of a `forgepool.yaml`.

    Raises:
        DocumentWrong: with every mistake found.
    """
    document = read(text, name)
    source = validate(document, _GateSource)
    checks = definitions(source.checks)
    wrong = (
        *check_mistakes(document, source.checks),
        *(Mistake(_line(document, check, "uses"), said) for check, said in unknown_uses(checks)),
        *mistakes_in(document, source.policy, ("policy",)),
        *_scans_wrong(document, source.scans),
        *_scopes_wrong(document, source.scopes),
        *(Mistake(_line(document, check, "scope"), said) for check, said in unknown_scopes(checks, source.scopes)),
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


def apply_scopes(checks: Sequence[CheckDefinition], scopes: Scopes) -> tuple[CheckDefinition, ...]:
    """The checks, with what their scopes make of what they depend on; again changes nothing."""
    return tuple(_scoped(check, scopes) for check in checks)


def _scoped(check: CheckDefinition, scopes: Scopes) -> CheckDefinition:
    if not scopes or not (check.scope or check.paths):
        return check
    paths = tuple(dict.fromkeys((*check.paths, *inside(check.scope, scopes))))
    return check.model_copy(update={"paths": paths, "elsewhere": outside(paths, scopes)})


def unknown_scopes(checks: Sequence[CheckDefinition], scopes: Scopes) -> Iterator[tuple[CheckDefinition, str]]:
    """Each check that is about a scope which is none, and a sentence about it."""
    for check in checks:
        for name, mend in unknown(check.scope, scopes):
            yield check, f"check '{check.name}' is about scope '{name}', which is none; {mend}"


def definitions(
    written: tuple[WrittenCheck, ...] | dict[str, str | _CheckBody],
) -> tuple[CheckDefinition, ...]:
    """Both forms in which checks are written, as the one that is used."""
    if isinstance(written, tuple):
        return tuple(CheckDefinition(**dict(one)) for one in written)
    return tuple(
        CheckDefinition(name=name, run=body) if isinstance(body, str) else CheckDefinition(name=name, **dict(body))
        for name, body in written.items()
    )


def check_mistakes(
    document: Located, written: tuple[WrittenCheck, ...] | dict[str, str | _CheckBody]
) -> tuple[Mistake, ...]:
    """
    What is wrong with the document's `checks` beside their forms: none at all, one name for two, hosts, globs, circles.

    That a check uses one of another document is no mistake; see `unknown_uses`.
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
    wrong += [Mistake(_line(document, check, "uses"), said) for check, said in _circles(checks)]
    return tuple(wrong)


def voting(checks: Sequence[CheckDefinition]) -> tuple[CheckDefinition, ...]:
    """Those that must be green."""
    return tuple(check for check in checks if check.voting)


def unknown_uses(checks: Sequence[CheckDefinition]) -> Iterator[tuple[CheckDefinition, str]]:
    """Each check that uses one that is not among them, or that has no vote where it has one; a sentence about it."""
    known = [check.name for check in checks]
    voteless = {check.name for check in checks if not check.voting}
    for check in checks:
        for name in check.uses:
            if name in voteless and check.voting:
                mend = f"let '{name}' vote, or take the vote from '{check.name}'"
                yield (
                    check,
                    f"check '{check.name}' uses '{name}', which has no vote and could keep it from running; {mend}",
                )
            if name not in known:
                meant = nearest(name, known)
                mend = f"did you mean '{meant[0]}'?" if meant else f"checks are: {', '.join(known)}"
                yield check, f"check '{check.name}' uses '{name}', which is no check; {mend}"


def _circles(checks: Sequence[CheckDefinition]) -> Iterator[tuple[CheckDefinition, str]]:
    """Each check that would have to run before itself; of a circle, the one that is written first."""
    uses = {check.name: check.uses for check in checks}
    told: set[str] = set()
    for check in checks:
        if check.name in check.uses:
            yield check, f"check '{check.name}' uses itself; take it out of its 'uses'"
        elif check.name not in told and (way := _way_back(check.name, uses)):
            told.update(way)
            named = ", ".join(f"'{name}'" for name in way)
            yield check, f"checks {named} use each other in a circle; take one of them out of the others' 'uses'"


def _way_back(name: str, uses: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """The checks through which it leads back to itself, itself first; none where it does not."""
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


def _hosts_wrong(document: Located, check: CheckDefinition) -> Iterator[Mistake]:
    for host in check.network:
        try:
            read_rule(host)
        except BadHost as bad:
            yield Mistake(_line(document, check, "network"), f"'network' of check '{check.name}' has the {bad}")


def _globs_wrong(document: Located, check: CheckDefinition) -> Iterator[Mistake]:
    for key, globs in (("paths", check.paths), ("reports", check.reports)):
        for glob in globs:
            if wrong := _glob_wrong(glob):
                yield Mistake(_line(document, check, key), f"'{key}' of check '{check.name}' has the {wrong}")


def _baseline_wrong(document: Located, check: CheckDefinition) -> Iterator[Mistake]:
    """Of two tools in one command the second may not run while the first is red, and nobody would see what it finds."""
    if check.baseline is None:
        return
    tools = tuple(dict.fromkeys(_TOOLS.findall(check.run)))
    if len(tools) > 1:
        named = " and ".join(tools)
        said = f"check '{check.name}' with a 'baseline' runs {named}; give each of them a check of its own"
        yield Mistake(_line(document, check, "run"), said)
    elif _runs_several(check.run):
        mend = "give each of them a check of its own, and let 'setup' do what only prepares"
        said = f"check '{check.name}' with a 'baseline' runs more than one command; {mend}"
        yield Mistake(_line(document, check, "run"), said)


def _runs_several(command: str) -> bool:
    """Tell whether a shell runs more of it than one command behind `cd`, `export`, `set` and assignments."""
    text = command if _SHELL.search(command) else _SAID.sub(_without_separators, command)
    parts = [part.strip() for part in _SEPARATOR.split(_REDIRECTED.sub("_", text).strip("; \t\n"))]
    while len(parts) > 2 and parts[1] in ("&&", ";", "") and (not parts[0] or _PREPARES.fullmatch(parts[0])):
        parts = parts[2:]
    return any(parts[1:])


def _without_separators(said: re.Match[str]) -> str:
    return "" if said["joined"] or said[0].startswith("#") else "_"


def _scans_wrong(document: Located, scans: ScanRules) -> Iterator[Mistake]:
    for at, glob in enumerate(scans.protect):
        if wrong := _glob_wrong(glob):
            yield Mistake(document.line(("scans", "protect", at)), f"'protect' of 'scans' has the {wrong}")
    if not scans.waive:
        return
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
    for index, one in enumerate(regenerate):
        for key, globs in (("paths", one.paths), ("from", one.of)):
            for at, glob in enumerate(globs):
                if wrong := _glob_wrong(glob) or (_covers_gate(glob) if key == "paths" else None):
                    line = document.line(("regenerate", index, key, at))
                    yield Mistake(line, f"'{key}' of regenerate {index + 1} has the {wrong}")
        for at, host in enumerate(one.network):
            try:
                read_rule(host)
            except BadHost as bad:
                line = document.line(("regenerate", index, "network", at))
                yield Mistake(line, f"'network' of regenerate {index + 1} has the {bad}")


def _covers_gate(glob: str) -> str | None:
    """No command writes what says which commands there are."""
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
    """Where a check's key is written, in either form; of two checks of one name, the first one's."""
    written = document.data["checks"] if isinstance(document.data, dict) else None
    if not isinstance(written, list):
        return document.line(("checks", check.name, key))
    named = (at for at, each in enumerate(written) if isinstance(each, dict) and each.get("name") == check.name)
    return document.line(("checks", next(named, 0), key))


def effective_checks(
    target_checks: Sequence[CheckDefinition], plan_checks: Sequence[CheckDefinition]
) -> tuple[CheckDefinition, ...]:
    """The target's own checks, then the plan's further ones: a plan adds to the gate, replaces nothing."""
    own = {check.name for check in target_checks}
    return (*target_checks, *(check for check in plan_checks if check.name not in own))
