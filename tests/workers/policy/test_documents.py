"""Rules as people write them: what is accepted, and what is refused with its line. Examples in a rule are checked."""

from pathlib import Path

import pytest

from forgepool.workers.policy.document import parse_policy, read_policy
from forgepool.workers.policy.sources import policy_alone, policy_of, read_builtin_rules, repository_rules
from forgepool.workers.schema.mistakes import DocumentWrong

HEAD = "version: 1\nrules:\n"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "p.yaml:1: is empty; write its keys, or remove it"),
        ("version: 1", "p.yaml:1: the file lacks the key 'rules'"),
        ("version: 2\nrules: []", "p.yaml:1: 'version' must be 1, is 2"),
        ("rules: []", "p.yaml:1: the file lacks the key 'version'"),
        (HEAD.rstrip() + " 7", "p.yaml:2: 'rules' must be a list, is 7"),
        (HEAD + "  - {decision: deny}", "p.yaml:3: rule 1 lacks the key 'match'"),
        (HEAD + "  - {match: {tool: bash}}", "p.yaml:3: rule 1 lacks the key 'decision'"),
        (
            HEAD + "  - {match: {tool: bash}, decision: forbid}",
            "p.yaml:3: 'decision' of rule 1 must be 'allow', 'audit', 'prompt' or 'deny', is 'forbid'",
        ),
        (
            HEAD + "  - {match: {tool: bash}, decision: deny, reasn: x}",
            "p.yaml:3: rule 1 has an unknown key 'reasn'; did you mean 'reason'?",
        ),
        (
            HEAD + "  - {match: {tol: bash}, decision: deny}",
            "p.yaml:3: 'match' of rule 1 has an unknown key 'tol'; did you mean 'tool'?",
        ),
        (
            HEAD + "  - name: a\n    match: {}\n    decision: deny",
            "p.yaml:4: 'match' of rule 'a' names nothing; name a tool, path, command, network host or variable "
            "(tool: '*' is every tool)",
        ),
        (
            HEAD + "  - {match: {phase: plan}, decision: deny}",
            "p.yaml:3: 'match' of rule 1 names nothing; name a tool, path, command, network host or variable "
            "(tool: '*' is every tool)",
        ),
        (
            HEAD + "  - {match: {path: a, pathGlob: b}, decision: deny}",
            "p.yaml:3: 'match' of rule 1 has both 'pathGlob' and 'path', which are the same; keep 'path'",
        ),
        (
            HEAD + "  - {match: {tool: 7}, decision: deny}",
            "p.yaml:3: 'tool' of 'match' of rule 1 must be a list, is 7",
        ),
        (
            HEAD + "  - match:\n      tool: bash\n      command: -rf\n    decision: deny",
            "p.yaml:5: 'command' of rule 1 must begin with a program, as in 'git push' or [git, push]",
        ),
        (
            HEAD + "  - {match: {path: ../x}, decision: deny}",
            "p.yaml:3: 'path' of rule 1 must not hold '..', is '../x'; write it from the repository's root, or from /",
        ),
        (
            HEAD + "  - {match: {path: ''}, decision: deny}",
            "p.yaml:3: 'path' of rule 1 must be a glob over paths such as src/** or **/*.config.js, "
            "with / between folders",
        ),
        (
            HEAD + "  - {match: {network: 'a b'}, decision: deny}",
            "p.yaml:3: 'network' of rule 1 must be a host such as packages.example.org or *.example.org: ",
        ),
        (
            HEAD + "  - {match: {network: a.org, path: x}, decision: deny}",
            "p.yaml:3: 'network' of rule 1 cannot stand with 'path'; make two rules of it",
        ),
        (
            HEAD + "  - {match: {variable: X, command: ls}, decision: deny}",
            "p.yaml:3: 'variable' of rule 1 cannot stand with 'command'; make two rules of it",
        ),
        (
            HEAD + "  - {match: {command: a, commands: [b]}, decision: deny}",
            "p.yaml:3: 'command' of rule 1 cannot stand with 'commands'; make two rules of it",
        ),
        (
            HEAD + "  - {match: {command: a, without: -x}, decision: deny}",
            "p.yaml:3: 'without' of rule 1 belongs to a rule that allows or audits a command; remove it",
        ),
        (
            HEAD + "  - match: {command: git push}\n    decision: deny\n    match_examples:\n      - git status",
            "p.yaml:6: rule 1 does not match its example 'git status'",
        ),
        (
            HEAD + "  - match: {command: git push}\n    decision: deny\n    not_match_examples: [git -C x push]",
            "p.yaml:5: rule 1 matches its example 'git -C x push'",
        ),
        (
            HEAD + "  - match: {command: git push}\n    decision: allow\n    match_examples: [git -C x pull]",
            "p.yaml:5: rule 1 does not match its example 'git -C x pull'",
        ),
        (
            HEAD + "  - match: {path: src/**}\n    decision: deny\n    match_examples: [src/../a]",
            "p.yaml:5: rule 1 does not match its example 'src/../a'",
        ),
        (
            HEAD + "  - match: {network: '*.a.org'}\n    decision: deny\n    match_examples: [a.org]",
            "p.yaml:5: rule 1 does not match its example 'a.org'",
        ),
        (
            HEAD + "  - match: {variable: 'LD_*'}\n    decision: deny\n    match_examples: [PATH]",
            "p.yaml:5: rule 1 does not match its example 'PATH'",
        ),
        (
            HEAD + "  - match: {tool: bash}\n    decision: deny\n    match_examples: [ls]",
            "p.yaml:5: rule 1 has examples, which a rule about tools alone cannot have; remove them",
        ),
        (
            HEAD + "  - match: {command: rm, path: x}\n    decision: deny\n    match_examples: [rm x]",
            "p.yaml:5: rule 1 has examples, which a rule about commands and paths together cannot have; remove them",
        ),
        (
            HEAD + "  - {match: {tool: a}, decision: deny, name: x}\n" * 2,
            "p.yaml:4: the name 'x' is given twice; reports go by it, change one",
        ),
        (
            HEAD + "  - match: {tool: []}\n    decision: deny\n    name: Not a name",
            "p.yaml:5: 'name' of rule 'Not a name' ",
        ),
    ],
)
def test_a_mistake_is_a_sentence_with_its_line(text: str, sentence: str) -> None:
    with pytest.raises(DocumentWrong) as wrong:
        parse_policy(text, "p.yaml", "person")
    assert len(wrong.value.mistakes) == 1, wrong.value.mistakes
    said = wrong.value.mistakes[0]
    assert said.startswith(sentence) if sentence.endswith(" ") else said == sentence


def test_every_mistake_is_told_at_once() -> None:
    """Each has its own line."""
    with pytest.raises(DocumentWrong) as wrong:
        parse_policy(HEAD + "  - {match: {path: ../x}, decision: deny}\n" * 3, "p.yaml", "person")
    assert [said.split(":")[1] for said in wrong.value.mistakes] == ["3", "4", "5"]


def test_words_are_short_for_lists_and_keys_have_their_other_names() -> None:
    """`commandPrefix` and `pathGlob` are other spellings, and each gives the same rule."""
    one, other = (
        parse_policy(HEAD + f"  - {{match: {match}, decision: deny, name: x}}", "p.yaml", "person")
        for match in (
            "{tool: bash, command: git push, path: a}",
            "{tool: [bash], commandPrefix: [git, push], pathGlob: [a]}",
        )
    )
    assert one == other


def test_a_rule_is_known_by_its_name_or_its_line() -> None:
    text = HEAD + "  - {match: {tool: bash}, decision: deny}\n  - {match: {tool: bash}, decision: deny, name: mine}"
    assert [rule.id for rule in parse_policy(text, "p.yaml", "person")] == ["person: p.yaml:3", "person: mine"]


def test_shipped_rules_are_named_and_restraining_ones_say_why() -> None:
    """Names are unique, and each deny or prompt has a reason for the model."""
    names = [rule.id for rule in read_builtin_rules()]
    assert len(set(names)) == len(names)
    assert all(":" not in name.removeprefix("built-in: ") for name in names)
    assert all(rule.reason for rule in read_builtin_rules() if rule.restrains)


def test_a_repositorys_rules_are_read_from_its_gate_file() -> None:
    """They are under the key `policy`. A file without it has none, and a wrong rule is refused with its line."""
    gate = "version: 1\nchecks: {test: make}\n"
    assert repository_rules(gate) == ()
    found = repository_rules(f"{gate}policy:\n  - {{match: {{tool: bash}}, decision: deny}}\n")
    assert [(rule.id, rule.layer) for rule in found] == [("repository: forgepool.yaml:4", "repository")]
    with pytest.raises(DocumentWrong, match=r"forgepool\.yaml:4: 'match' of rule 1 names nothing"):
        repository_rules(f"{gate}policy:\n  - {{match: {{}}, decision: deny}}\n")


def test_a_file_alone_is_alone(tmp_path: Path) -> None:
    """Shipped rules are not added."""
    path = tmp_path / "p.yaml"
    path.write_text(HEAD + "  - {match: {tool: bash}, decision: deny}")
    assert [rule.id for rule in policy_alone(path).rules] == [f"person: {path}:3"]
    assert len(policy_of(person=path).rules) > len(read_builtin_rules())


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DocumentWrong, match="there is no such file"):
        read_policy(tmp_path / "none.yaml", "none.yaml", "person")


def test_examples_at_home_are_at_home() -> None:
    parse_policy(
        HEAD + "  - {match: {path: ~/.ssh}, decision: deny, match_examples: [~/.ssh/id], not_match_examples: [.ssh]}",
        "p.yaml",
        "person",
    )


def test_home_is_where_it_is_said_to_be() -> None:
    """`~` in a path is the given home."""
    (rule,) = parse_policy(
        HEAD + "  - {match: {path: ~/.ssh}, decision: deny}", "p.yaml", "person", home=Path("/home/me")
    )
    from forgepool.workers.policy.rule import ResolvedPath

    assert rule.paths is not None
    assert rule.paths[0].restrains(ResolvedPath(shown="x", names=("/home/me/.ssh/id",)))
    assert not rule.paths[0].restrains(ResolvedPath(shown="x", names=("/home/you/.ssh/id",)))
