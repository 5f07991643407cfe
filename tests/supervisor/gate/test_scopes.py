"""A repository's scopes: what each check depends on, and which changes have nothing in common."""

import pytest
from gates import Gate, check

from forgepool.supervisor.gate.affected_checks import Lanes, TargetLanes
from forgepool.supervisor.gate.requirements import demands_of
from forgepool.workers.policy.gate_file.document import CheckDefinition, NotConfigured
from forgepool.workers.policy.gate_file.reading import read_gate_file
from forgepool.workers.schema.mistakes import DocumentWrong
from forgepool.workers.workspace.checks.lines import match_inputs

FILE = """\
version: 1
scopes:
  web: {paths: [web], needs: [shared]}
  api: {paths: [api], needs: [shared]}
  shared: {paths: [lib]}
  docs: {paths: [docs, '**/*.md']}
checks:
  - {name: web, run: make web, scope: web}
  - {name: api, run: make api, scope: [api]}
"""
WEB, API = read_gate_file(FILE).checks


def depends(one: CheckDefinition, path: str) -> bool:
    counts = match_inputs(one, (WEB, API))
    assert counts is not None
    return counts(path)


@pytest.mark.parametrize("path", ["web/a.js", "lib/a.js", "package.json", "new/a.js"])
def test_of_its_scope_what_that_needs_and_what_is_in_none_a_check_depends(path: str) -> None:
    assert depends(WEB, path)


@pytest.mark.parametrize("path", ["api/a.py", "docs/a.md", "site.md"])
def test_of_other_scopes_it_does_not_be_they_anybodys_or_nobodys(path: str) -> None:
    """`docs` is a scope without a check."""
    assert not depends(WEB, path)


def test_what_a_scope_claims_and_another_too_counts_for_both() -> None:
    assert depends(WEB, "web/a.md")


def test_needs_in_a_circle_are_one_part() -> None:
    file = FILE.replace("shared: {paths: [lib]}", "shared: {paths: [lib], needs: [web]}")
    assert set(read_gate_file(file).checks[1].paths) == {"api", "lib", "web"}


@pytest.mark.parametrize(
    ("was", "now", "said"),
    [
        ("scope: web", "scope: wep", "check 'web' is about scope 'wep', which is none; did you mean 'web'?"),
        ("needs: [shared]", "needs: [sharde]", "scope 'web' needs 'sharde', which is none; did you mean 'shared'?"),
        ("paths: [lib]", "paths: [/lib]", "5: scope 'shared' has the glob '/lib': it begins at the root of the disk"),
        ("paths: [lib]", "paths: []", "5: 'paths' of 'shared' of 'scopes' must not be empty"),
        ("scope: web", "scope: web, elsewhere: [a]", "elsewhere"),
    ],
)
def test_what_is_wrong_with_a_scope_is_said(was: str, now: str, said: str) -> None:
    with pytest.raises(DocumentWrong) as wrong:
        read_gate_file(FILE.replace(was, now, 1))
    assert said in str(wrong.value)


def test_a_plans_check_may_be_about_a_scope_of_the_target(gate: Gate) -> None:
    gate.hub.commit({"forgepool.yaml": FILE})
    further = check("make e2e", "e2e", scope=("web",))
    request = gate.request(gate.entry("any", {"web/a.js": "1\n"}), further)
    gate.mirror.ensure(gate.hub.tip())
    found = {one.name: one for one in demands_of(gate.mirror, request).checks}
    assert found["e2e"].paths == found["web"].paths
    with pytest.raises(NotConfigured, match="check 'e2e' is about scope 'moon', which is none"):
        demands_of(
            gate.mirror, request.model_copy(update={"plan_checks": (further.model_copy(update={"scope": ("moon",)}),)})
        )


def test_changes_with_no_check_in_common_are_in_different_lanes() -> None:
    lanes = Lanes((WEB, API))
    assert lanes.of(("web/a.js",)) == {"web"}
    assert lanes.of(("api/a.py",)) == {"api"}
    assert lanes.of(("docs/a.md",)) == frozenset()


@pytest.mark.parametrize("paths", [(), ("lib/a.js",), ("web/a.js", "api/a.py"), ("Makefile",)])
def test_a_change_of_which_nothing_is_known_or_that_all_depend_on_is_in_every_lane(paths: tuple[str, ...]) -> None:
    assert Lanes((WEB, API)).of(paths) is None


def test_a_check_of_the_whole_tree_is_in_every_lane_and_leaves_one_alone_where_it_is_the_only_one() -> None:
    whole = check("make lint", "lint")
    assert Lanes((WEB, API, whole)).of(("api/a.py",)) == {"api", "lint"}
    assert Lanes((whole,)).of(("api/a.py",)) is None


def test_the_lanes_of_a_target_are_those_of_its_present_gate_file(gate: Gate) -> None:
    known = TargetLanes(gate.mirror.git, ())
    first = gate.hub.commit({"forgepool.yaml": FILE})
    gate.mirror.ensure(first)
    before = known.at(first)
    assert before.of(("api/a.py",)) == {"api"}
    second = gate.hub.commit({"other.txt": "1\n"})
    gate.mirror.ensure(second)
    assert known.at(second) is before
    broken = gate.hub.commit({"forgepool.yaml": "version: 9\n"})
    gate.mirror.ensure(broken)
    assert known.at(broken).of(("api/a.py",)) is None
    assert known.at("0" * 39 + "1").of(("api/a.py",)) is None
