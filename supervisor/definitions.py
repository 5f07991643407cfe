"""
What a check is, and `forgepool.yaml`, the file in which a repository defines its own.

How a check is run lies elsewhere; here is only what a person can say about one.
"""

from collections.abc import Iterator, Sequence
from typing import Annotated, Literal

from pydantic import Discriminator, Field, Tag

from workers.documents import Located, read, validate
from workers.messages import CachedFolder, Message, Setup
from workers.mistakes import DocumentWrong, Mistake
from workers.policy.document import mistakes_in
from workers.policy.entries import RuleEntry
from workers.sandbox.network.hosts import BadHost, read_rule
from workers.scalars import Duration, Slug


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
    """Globs of what its outcome depends on; none of them: the whole tree."""
    uses: tuple[Slug, ...] = ()
    """Checks whose leavings it needs: it runs in their checkout, after them. Any other check finds a clean one."""
    cost_s: Duration | None = None
    """Seconds it takes, about: cheaper checks run first. Without it, what it took last on this host."""
    waive: tuple[Literal["no_tests", "cannot_fail"], ...] = ()
    """What is accepted of it: that no test runs, that its command cannot fail."""


class CheckDefinition(_CheckBody):
    """One command a tree must pass before it may land."""

    name: Slug

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
_CheckList = Annotated[tuple[CheckDefinition, ...], Tag("a list")]
_CheckMapping = Annotated[dict[Slug, _NamedBody], Tag("a mapping")]

WrittenChecks = Annotated[_CheckList | _CheckMapping, Discriminator(_checks_form)]
"""Checks as people write them: a list of mappings, or a mapping from name to command or mapping."""
WrittenChecksOrNone = Annotated[
    _CheckList | _CheckMapping | Annotated[Literal["none"], Tag("none")], Discriminator(_checks_form)
]
"""The same, or the word `none`."""


class GateFile(Message):
    """What a repository demands: the checks for whatever lands on the branch that holds the file, rules for agents."""

    version: Literal[1] = 1
    checks: tuple[CheckDefinition, ...]
    policy: tuple[RuleEntry, ...] = ()
    """The repository's own rules for agents. They tighten what a person allows, and loosen nothing."""


class _GateSource(Message):
    version: Literal[1]
    checks: WrittenChecks
    policy: tuple[RuleEntry, ...] = ()


def read_gate_file(text: str, name: str = "forgepool.yaml") -> GateFile:
    """
    The checks and rules of a `forgepool.yaml`.

    Raises:
        DocumentWrong: with every mistake found.
    """
    document = read(text, name)
    source = validate(document, _GateSource)
    wrong = (*check_mistakes(document, source.checks), *mistakes_in(document, source.policy, ("policy",)))
    if wrong:
        raise DocumentWrong(name, wrong)
    return GateFile(checks=definitions(source.checks), policy=source.policy)


def definitions(
    written: tuple[CheckDefinition, ...] | dict[str, str | _CheckBody],
) -> tuple[CheckDefinition, ...]:
    """Both forms in which checks are written, as the one that is used."""
    if isinstance(written, tuple):
        return written
    return tuple(
        CheckDefinition(name=name, run=body) if isinstance(body, str) else CheckDefinition(name=name, **dict(body))
        for name, body in written.items()
    )


def check_mistakes(
    document: Located, written: tuple[CheckDefinition, ...] | dict[str, str | _CheckBody]
) -> tuple[Mistake, ...]:
    """What is wrong with the document's `checks` as a whole: none at all, or one name given to two."""
    if not written:
        return (Mistake(document.line(("checks",)), "'checks' is empty; name at least one command that must pass"),)
    first: dict[str, int] = {}
    wrong: list[Mistake] = []
    for index, check in enumerate(definitions(written)):
        wrong += _hosts_wrong(document, index, check)
        line = document.line(("checks", index, "name"))
        if check.name in first:
            before = f"first on line {first[check.name]}"
            wrong.append(Mistake(line, f"check '{check.name}' is defined twice ({before}); give it another name"))
        first.setdefault(check.name, line)
    return tuple(wrong)


def _hosts_wrong(document: Located, index: int, check: CheckDefinition) -> Iterator[Mistake]:
    key: str | int = (
        index if isinstance(document.data, dict) and isinstance(document.data["checks"], list) else check.name
    )
    for host in check.network:
        try:
            read_rule(host)
        except BadHost as bad:
            line = document.line(("checks", key, "network"))
            yield Mistake(line, f"'network' of check '{check.name}' has the {bad}")


def effective_checks(
    target_checks: Sequence[CheckDefinition], plan_checks: Sequence[CheckDefinition]
) -> tuple[CheckDefinition, ...]:
    """The target's own checks, then the plan's further ones: a plan adds to the gate, replaces nothing."""
    own = {check.name for check in target_checks}
    return (*target_checks, *(check for check in plan_checks if check.name not in own))
