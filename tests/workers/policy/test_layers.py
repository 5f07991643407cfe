"""Which rule decides: the algebra of the layers, tested on random rules and hosts."""

from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forgepool.workers.policy.document import parse_policy
from forgepool.workers.policy.layers import Policy, on_host, on_tool
from forgepool.workers.policy.network import grant_hosts
from forgepool.workers.policy.rule import STRICTNESS, HostPattern, LayerName, PolicyRule
from forgepool.workers.schema.policy_rules import Decision

DECISIONS: tuple[Decision, ...] = ("allow", "audit", "prompt", "deny")
TOOLS = (None, ("*",), ("bash",), ("b*",), ("write_file",), ())


def rule(decision: Decision, tools: tuple[str, ...] | None, layer: LayerName = "person") -> PolicyRule:
    return PolicyRule(layer=layer, id=f"{layer}: {decision} {tools}", decision=decision, tools=tools)


def rules(layer: LayerName) -> st.SearchStrategy[tuple[PolicyRule, ...]]:
    one = st.builds(partial(rule, layer=layer), st.sampled_from(DECISIONS), st.sampled_from(TOOLS))
    return st.lists(one, max_size=4).map(tuple)


def decided(policy: Policy) -> Decision:
    verdict = policy.decide(partial(on_tool, tool="bash"))
    assert verdict is not None
    return verdict.decision


ANY = st.builds(
    Policy,
    built_in=rules("built-in"),
    person=rules("person"),
    repository=rules("repository"),
    plan=rules("plan"),
    phase=rules("phase"),
)


def without(policy: Policy, layer: str) -> Policy:
    layers = {name: getattr(policy, name) for name in ("built_in", "person", "repository", "plan", "phase")}
    return Policy(**layers | {layer: ()})


@given(ANY)
def test_a_repository_never_loosens(policy: Policy) -> None:
    """Without a plan, the result with the repository's rules is at least as strict as without them."""
    alone = without(policy, "plan")
    assert STRICTNESS[decided(alone)] >= STRICTNESS[decided(without(alone, "repository"))]


@given(ANY)
def test_a_phase_never_loosens(policy: Policy) -> None:
    """The result with the phase's rules is at least as strict as without them."""
    assert STRICTNESS[decided(policy)] >= STRICTNESS[decided(without(policy, "phase"))]


@given(ANY)
def test_a_plan_settles_what_stands_at_prompt_and_lifts_nothing_else(policy: Policy) -> None:
    """A plan can loosen only a `prompt`. A deny stays."""
    before = decided(without(without(policy, "phase"), "plan"))
    after = decided(without(policy, "phase"))
    if STRICTNESS[after] < STRICTNESS[before]:
        assert before == "prompt"
    if before == "deny":
        assert after == "deny"


@given(ANY)
def test_what_is_shipped_lifts_nothing_that_a_person_restrains(policy: Policy) -> None:
    """No built-in rule, however specific, undoes a person's `prompt` or `deny`."""
    own = decided(Policy(person=policy.person))
    if any(True for _ in on_tool(policy.person, "bash")) and own in ("prompt", "deny"):
        both = decided(Policy(built_in=policy.built_in, person=policy.person))
        assert both in ("prompt", "deny")


@given(ANY, st.randoms())
def test_the_order_of_rules_does_not_matter(policy: Policy, chance: object) -> None:
    """Within a layer, only rank and strictness decide."""
    turned = Policy(
        built_in=policy.built_in[::-1],
        person=policy.person[::-1],
        repository=policy.repository[::-1],
        plan=policy.plan[::-1],
        phase=policy.phase[::-1],
    )
    assert decided(turned) == decided(policy)


@given(ANY)
def test_rules_that_name_nothing_change_nothing(policy: Policy) -> None:
    """An empty list matches nothing."""
    kept = {
        name: tuple(each for each in getattr(policy, name) if each.tools != ())
        for name in ("built_in", "person", "repository", "plan", "phase")
    }
    assert decided(Policy(**kept)) == decided(policy)


def test_no_rule_is_a_prompt() -> None:
    assert decided(Policy()) == "prompt"


@pytest.mark.parametrize(
    ("written", "decision"),
    [
        ([("allow", None), ("deny", ("bash",))], "deny"),
        ([("deny", None), ("allow", ("bash",))], "allow"),
        ([("allow", ("bash",)), ("deny", ("bash",))], "deny"),
        ([("allow", ("bash",)), ("audit", ("bash",))], "audit"),
        ([("prompt", ("bash",)), ("audit", ("bash",))], "prompt"),
        ([("deny", ("write_file",)), ("allow", None)], "allow"),
    ],
)
def test_the_most_specific_decides_and_the_strictest_of_equals(
    written: list[tuple[Decision, tuple[str, ...] | None]], decision: Decision
) -> None:
    """A named tool outranks any tool, and of two equally specific rules the stricter decides."""
    assert decided(Policy(person=tuple(rule(*each) for each in written))) == decision


def test_a_person_wins_over_what_is_shipped_at_equal_rank() -> None:
    """This holds in both directions."""
    for own, shipped in (("allow", "deny"), ("deny", "allow"), ("audit", "prompt")):
        policy = Policy(built_in=(rule(shipped, ("bash",), "built-in"),), person=(rule(own, ("bash",)),))
        assert decided(policy) == own


HOSTS = """
version: 1
rules:
  - {match: {network: "*.example.org"}, decision: deny, reason: not there}
  - {match: {network: api.example.org}, decision: allow}
  - {match: {network: 169.254.169.254}, decision: deny}
  - {match: {network: "later.example.com"}, decision: prompt}
  - {match: {network: evil.example.net}, decision: deny}
  - {match: {network: []}, decision: deny}
"""


@pytest.mark.parametrize(
    ("wanted", "is_granted"),
    [
        ("api.example.org", True),
        ("API.Example.Org.", True),
        ("evil.example.org", False),
        ("*.example.org", False),
        ("*.evil.example.org", False),
        ("example.org", True),
        ("packages.example.net", True),
        ("*.example.net", False),
        ("*.good.example.net", True),
        ("later.example.com", True),
        ("api.example.org:8443", True),
        ("169.254.169.254", False),
        ("169.254.169.254:80", False),
        ("0xa9fea9fe", False),
        ("*", False),
        ("no host", False),
        ("", False),
    ],
)
def test_hosts_are_granted_unless_one_of_them_is_denied(wanted: str, is_granted: bool) -> None:
    """A plan's request settles a prompt. A pattern that includes a denied host is refused."""
    granted = grant_hosts(Policy(person=parse_policy(HOSTS, "p.yaml", "person")), [wanted], asked_by="plan")
    assert (granted.hosts, len(granted.refused)) == (((wanted,), 0) if is_granted else ((), 1))


def test_a_repository_gets_only_the_hosts_that_a_person_allows_in_so_many_words() -> None:
    """A plan speaks for its person; a repository does not."""
    allowed = "version: 1\nrules:\n  - {match: {network: a.example}, decision: allow, reason: ours}\n"
    policy = Policy(person=parse_policy(allowed, "p.yaml", "person"))
    wanted = ["a.example", "b.example"]
    assert grant_hosts(policy, wanted, asked_by="plan").hosts == ("a.example", "b.example")
    granted = grant_hosts(policy, wanted, asked_by="repository")
    assert granted.hosts == ("a.example",)
    assert "no rule of yours allows it" in granted.refused[0][1]


def test_no_hosts_wanted_are_no_hosts_granted() -> None:
    """An empty list means no network, never all of it."""
    assert grant_hosts(Policy(), [], asked_by="plan").hosts == ()


def test_an_exact_host_comes_before_a_glob() -> None:
    policy = Policy(person=parse_policy(HOSTS, "p.yaml", "person"))
    verdicts = [
        policy.decide(partial(on_host, host=HostPattern.of(each))) for each in ("api.example.org", "b.example.org")
    ]
    assert [verdict.decision for verdict in verdicts if verdict] == ["allow", "deny"]
