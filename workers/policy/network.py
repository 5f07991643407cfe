"""The network hosts that a policy grants to a plan or a repository."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from forgepool.workers.policy.judgement import judge_host
from forgepool.workers.policy.layers import Policy
from forgepool.workers.policy.rule import HostPattern
from forgepool.workers.sandbox.network.hosts import BadHost, read_rule
from forgepool.workers.schema.settings import own_path
from forgepool.worktrees.errors import UserError


@dataclass(frozen=True, slots=True, kw_only=True)
class Granted:
    hosts: tuple[str, ...]
    """Granted hosts as they were requested; empty is no network."""
    refused: tuple[tuple[str, str], ...]
    """Refused hosts with their reasons."""


Asking = Literal["plan", "repository"]
_UNSAID = "no rule of yours allows it"


class HostsRefused(UserError):
    """A wanted host is refused; the message is one sentence, with the lines of the file that would allow it."""


def require_hosts(
    policy: Policy,
    wanted: Sequence[str],
    *,
    asked_by: Asking,
    what: str,
    person: Path | None,
    replaced: Collection[str] = (),
) -> tuple[str, ...]:
    """
    Return all of the wanted hosts, or none. `what` names who wants them, `person` that person's policy file.

    Hosts `replaced` by this host's own indexes are left out where no rule allows them.

    Raises:
        HostsRefused: some of them are refused; the message names all of these.
    """
    granted = grant_hosts(policy, wanted, asked_by=asked_by)
    refused = [(host, why) for host, why in granted.refused if host not in replaced]
    if refused:
        raise HostsRefused(_refusal(what, refused, person))
    return granted.hosts


def require_hosts_of_all(
    policy: Policy, wanted: Mapping[str, Sequence[str]], *, person: Path | None, replaced: Collection[str] = ()
) -> None:
    """
    Require the hosts of several checks at once, so that a person gets one message.

    Raises:
        HostsRefused: some of them are refused; the message names all of these.
    """
    refused: dict[str, str] = {}
    asking: list[str] = []
    for what, hosts in wanted.items():
        found = grant_hosts(policy, hosts, asked_by="repository").refused
        if lacking := {host: why for host, why in found if host not in replaced}:
            asking.append(what)
            refused |= lacking
    if refused:
        raise HostsRefused(_refusal(" and ".join(asking), list(refused.items()), person))


def _refusal(what: str, refused: Sequence[tuple[str, str]], person: Path | None) -> str:
    """Word a refusal; last come the lines of the person's policy file that allow the hosts no rule mentions."""
    unsaid = [host for host, why in refused if why == _UNSAID]
    said = [f"{host}: {why}" for host, why in refused if why != _UNSAID]
    if unsaid:
        which = f"{', '.join(unsaid)}: {_UNSAID}" if said else _UNSAID
        rule = f"  - {{match: {{network: [{', '.join(map(_quoted, unsaid))}]}}, decision: allow}}"
        if person is None:
            said.append(f"{which}; to allow it, write this into {own_path('policy.yaml')}:\nversion: 1\nrules:\n{rule}")
        else:
            said.append(f"{which}; to allow it, add this line below `rules:` in {person}:\n{rule}")
    named = ", ".join(host for host, _ in refused)
    wants = f"{what} want{'' if ' and ' in what else 's'}"
    hosts = f"the hosts {named}, which are" if len(refused) > 1 else f"the host {named}, which is"
    return f"{wants} {hosts} not allowed: {'; '.join(said)}"


def _quoted(host: str) -> str:
    return f"'{host}'" if ":" in host or "*" in host else host


def grant_hosts(policy: Policy, wanted: Sequence[str], *, asked_by: Asking) -> Granted:
    """
    Judge each wanted host. A plan's request settles a `prompt`; a repository's does not, since it may not loosen a
    person's policy. A denied host is refused, and so is a pattern that covers a denied one.
    """
    hosts: list[str] = []
    refused: list[tuple[str, str]] = []
    for text in dict.fromkeys(wanted):
        try:
            read_rule(text)
            judged = judge_host(policy, HostPattern.of(text))
        except BadHost as wrong:
            refused.append((text, str(wrong)))
            continue
        if judged.decision == "deny":
            refused.append((text, judged.reason))
        elif judged.decision == "prompt" and asked_by == "repository":
            refused.append((text, _UNSAID))
        else:
            hosts.append(text)
    return Granted(hosts=tuple(hosts), refused=tuple(refused))
