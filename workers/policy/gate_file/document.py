"""
The models of `forgepool.yaml`, the file in which a repository says what a change must pass.

`reading` reads the file and names its mistakes. How a check is run lies in `supervisor.checks`.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag

from forgepool.workers.schema.mistakes import Duration, Slug
from forgepool.workers.schema.orders import CachedFolder, Message, Setup
from forgepool.workers.schema.policy_rules import RuleEntry

GATE_FILE = "forgepool.yaml"


class Scope(Message):
    """One part of a repository."""

    paths: tuple[str, ...] = Field(min_length=1)
    """Globs of the files that belong to it."""
    needs: tuple[Slug, ...] = ()
    """Scopes that it depends on. A change in one of them affects this one too."""


Scopes = Mapping[str, Scope]


def closure(names: Sequence[str], scopes: Scopes) -> frozenset[str]:
    """Return the scopes with all that they need, directly or not. Unknown names are left out."""
    found, left = set[str](), list(names)
    while left:
        name = left.pop()
        if name in scopes and name not in found:
            found.add(name)
            left.extend(scopes[name].needs)
    return frozenset(found)


def inside(names: Sequence[str], scopes: Scopes) -> tuple[str, ...]:
    """Return the globs of every file that these scopes depend on."""
    mine = closure(names, scopes)
    return tuple(dict.fromkeys(glob for name in sorted(mine) for glob in scopes[name].paths))


def outside(globs: Sequence[str], scopes: Scopes) -> tuple[str, ...]:
    """Return the globs of all other scopes. A path in no scope at all counts for every check."""
    return tuple(sorted({glob for scope in scopes.values() for glob in scope.paths} - set(globs)))


OF_CONTENT: dict[str, str] = {
    "letters": "Added text or a name reads otherwise than it runs: direction marks, invisible or look-alike letters.",
    "unreadable": "Code that no diff shows: binary, too large, too much for its grammar, or far behind blanks.",
    "secret": "An added line seems to hold a key, a token or a password. The finding does not show it.",
    "conflict-marker": "An added line is a marker that a merge with conflicts leaves behind.",
    "reviewer-instructions": "Added text orders a reviewer to ignore its instructions, to approve, to be silent.",
    "supply-chain": "A new dependency has a look-alike name or another origin, or code runs to install it.",
    "placeholder": "Added code stands in for work still to be done: TODO comments, 'not implemented', stub bodies.",
    "type-bypass": "An added line silences a type checker or a linter: `# type: ignore`, `as any`, `@ts-ignore`, ...",
}
"""Rules about added lines."""
OF_THE_GATE: dict[str, str] = {
    "shrinkage": "The tree lost a twentieth of its files, or they were emptied.",
    "outside-lock": "A path is changed that the task does not hold.",
    "mode-change": "A file became executable, a link or a submodule, or a link leads out of the tree.",
    "claimed-unchanged": "A path that was to be changed is not.",
    "empty-change": "Nothing differs from the target.",
    "claimed-commit": "The agent names a commit that is not there.",
    "claimed-work": "A commit's message says that a plan's task has landed with it.",
    "file-size": "A file is larger than `max_file_mb` allows.",
    "protected-path": "A path is changed that runs or judges changes, or pins what is installed.",
    "binary": "Bytecode, native code, an archive, or a pickle that calls something, was added or changed.",
    "gate-settings": "A setting is changed that says how tests or linters are run, or a hook of pytest.",
    "test-removed": "A test is gone: deleted, emptied of its name, or moved to where no runner finds it.",
    "test-skipped": "A test is skipped, expected to fail, deselected, or others are skipped for its sake.",
    "test-tautology": "An assertion holds in any case, or what it raises is caught, or a test has none left.",
    "assertion-removed": "A test asserts less than before, or less exactly, or is run with fewer cases.",
    "expected-edited": "What a test expects was changed.",
    "test-outside": "A test that was there is edited by a task that does not declare it.",
    "test-unread": "Tests were changed that are too large, or nested too deeply, to be compared.",
    "harness": "Code knows that it is being checked, ends or changes what checks it, or stands in for it.",
}
"""Rules about tests, about paths, and about the files that run and judge a change."""
RULES = OF_CONTENT | OF_THE_GATE


def _one_or_more(value: object) -> object:
    if isinstance(value, str):
        return (value,)
    return tuple(value) if isinstance(value, list) else value


class NotConfigured(Exception):
    """The gate's demands are missing or prove nothing, and no setting accepts that. One sentence."""


class CheckBody(Message):
    """A check without its name."""

    run: str = Field(min_length=1)
    """A shell command, run in a clean checkout. Exit status 0 is green."""
    timeout_s: Duration = 900.0
    setup: str | None = Field(default=None, min_length=1)
    """A shell command that runs before, outside the check's own time and verdict."""
    cache: tuple[CachedFolder, ...] = ()
    network: tuple[str, ...] = ()
    """Hosts that the check and its set-up may reach. Empty means no network."""
    reports: tuple[str, ...] = ()
    """Globs of the JUnit XML files that it writes into the checkout. pytest's is requested without this."""
    paths: tuple[str, ...] = ()
    """Globs of the files that its result depends on. Without these and without a scope: the whole tree."""
    scope: Annotated[
        tuple[Slug, ...], BeforeValidator(_one_or_more, json_schema_input_type=Slug | tuple[Slug, ...])
    ] = ()
    """The target's scopes that it is about. They and all they need are added to `paths`."""
    uses: tuple[Slug, ...] = ()
    """Checks that it runs after, in their checkout. Every other check gets a clean one."""
    cost_s: Duration | None = None
    """Seconds it takes. Cheaper checks run first. Without this, its last time on this host counts."""
    waive: tuple[Literal["no_tests", "cannot_fail"], ...] = ()
    """Accepted weaknesses: that it runs no test, or that its command cannot fail."""
    baseline: Literal["tip"] | None = None
    """With `tip`, failures of the target may stay, and only new ones count against a change."""
    traced: bool = Field(default=False, exclude_if=lambda traced: not traced)
    """Test files of pytest are not run in a tree in which all that they read is as it was when they were green."""
    voting: bool = True
    """Without a vote it runs and is reported, and keeps nothing out."""


class WrittenCheck(CheckBody):
    """A check as written in a list."""

    name: Slug


class CheckDefinition(WrittenCheck):
    """A command that a tree must pass before it may land."""

    elsewhere: tuple[str, ...] = ()
    """Globs of the scopes that it is not about. They follow from the target's `scopes`."""

    @property
    def needs(self) -> Setup | None:
        """The set-up that runs before it."""
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
    Annotated[_Command, Tag("a command")] | Annotated[CheckBody, Tag("a body")], Discriminator(_body_form)
]
_CheckList = Annotated[tuple[WrittenCheck, ...], Tag("a list")]
_CheckMapping = Annotated[dict[Slug, _NamedBody], Tag("a mapping")]

WrittenChecks = Annotated[_CheckList | _CheckMapping, Discriminator(_checks_form)]
"""Checks as written: a list of mappings, or a mapping from name to command or mapping."""
WrittenChecksOrNone = Annotated[
    _CheckList | _CheckMapping | Annotated[Literal["none"], Tag("none")], Discriminator(_checks_form)
]
"""The same, or the word `none`."""


class RegenerateDefinition(Message):
    """Files that a command generates from others. They merge by running it, not line by line."""

    paths: tuple[str, ...] = Field(min_length=1)
    """Globs of the generated files. Everything else that the command touches is discarded."""
    of: tuple[str, ...] = Field(default=(), alias="from")
    """Globs of the files that they are generated from. Empty means all the rest of the tree."""
    run: str = Field(min_length=1)
    """A shell command, run in a clean checkout of the merged tree."""
    timeout_s: Duration = 900.0
    setup: str | None = Field(default=None, min_length=1)
    """A shell command that runs before, outside the command's own time."""
    cache: tuple[CachedFolder, ...] = ()
    network: tuple[str, ...] = ()
    """Hosts that the command and its set-up may reach. Empty means no network."""

    @property
    def named(self) -> str:
        return self.paths[0] if len(self.paths) == 1 else f"{self.paths[0]} and the like"


PeoplesScans = Literal["off", "report", "enforce"]
"""The effect of the scans on a person's change."""


class ScanRules(Message):
    """The settings of a repository's scans."""

    people: PeoplesScans = "report"
    """`report`: findings are shown and hold nothing up. `enforce`: they count as an agent's do."""
    max_file_mb: float = Field(default=50.0, gt=0)
    """Megabytes (of 1,000,000 bytes) of the largest file that may be added, by agents and people alike."""

    protect: tuple[str, ...] = ()
    """Globs of paths that no agent changes without a person's permission, beyond the built-in ones."""
    waive: tuple[str, ...] = ()
    """Rules that are not applied to any change."""


ReviewWord = Literal["self-other-model", "person", "none"]
"""The reviewer that may stand in for another model family: another model of the author's own, a person, or none."""


class GateDemands(Message):
    """All settings of a gate file except its checks."""

    scopes: dict[Slug, Scope] = Field(default_factory=dict)
    """Parts of the repository, by name."""

    policy: tuple[RuleEntry, ...] = ()
    """The repository's own rules for agents. They tighten what a person allows, and loosen nothing."""
    scans: ScanRules = ScanRules()
    regenerate: tuple[RegenerateDefinition, ...] = ()
    """Generated files, in the order in which they are generated."""
    review: Literal["required"] | ReviewWord | None = None
    """
    The review that every plan needs here.

    With `required`, nothing lands without an approval by another model family or a person, whatever a plan says. The
    other words apply to plans that say nothing about reviews.
    """


class GateFile(GateDemands):
    """The checks for every change that lands on the branch with this file, and the rules for agents."""

    version: Literal[1] = 1
    checks: tuple[CheckDefinition, ...]


def apply_scopes(checks: Sequence[CheckDefinition], scopes: Scopes) -> tuple[CheckDefinition, ...]:
    """Return the checks with the paths that follow from their scopes. A second time changes nothing."""
    return tuple(_with_scopes(check, scopes) for check in checks)


def _with_scopes(check: CheckDefinition, scopes: Scopes) -> CheckDefinition:
    if not scopes or not (check.scope or check.paths):
        return check
    paths = tuple(dict.fromkeys((*check.paths, *inside(check.scope, scopes))))
    return check.model_copy(update={"paths": paths, "elsewhere": outside(paths, scopes)})


def definitions(written: tuple[WrittenCheck, ...] | dict[str, str | CheckBody]) -> tuple[CheckDefinition, ...]:
    """Return the checks in one form, whichever way they are written."""
    if isinstance(written, tuple):
        return tuple(CheckDefinition(**dict(check)) for check in written)
    return tuple(
        CheckDefinition(name=name, run=body) if isinstance(body, str) else CheckDefinition(name=name, **dict(body))
        for name, body in written.items()
    )


def voting(checks: Sequence[CheckDefinition]) -> tuple[CheckDefinition, ...]:
    """Return the checks that must be green."""
    return tuple(check for check in checks if check.voting)


def effective_checks(
    target_checks: Sequence[CheckDefinition], plan_checks: Sequence[CheckDefinition]
) -> tuple[CheckDefinition, ...]:
    """Return the target's own checks, then the plan's further ones. A plan adds checks and replaces none."""
    own = {check.name for check in target_checks}
    return (*target_checks, *(check for check in plan_checks if check.name not in own))


def as_check(definition: RegenerateDefinition) -> CheckDefinition:
    """Return the command in the form of a check, with its set-up, folders, hosts and time limit."""
    settings = {
        "setup": definition.setup,
        "cache": definition.cache,
        "network": definition.network,
        "timeout_s": definition.timeout_s,
    }
    return CheckDefinition.model_validate({"name": "regenerate", "run": definition.run, **settings})
