"""CODEOWNERS is read as its forge reads it, and a required approval is never assumed."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forgepool.orchestrator.merge_queue.forges.codeowners import Codeowners, Dialect, read_codeowners

GITHUB = """\
# Everything, unless a later line says otherwise.
*       @one @two
*.js    @js #This is an inline comment.
*.go docs@example.com
*.txt @octo-org/octocats
/build/logs/ @logs
docs/*  @shallow
apps/ @apps
/apps/github
**/deep @deep
/a/**/z @az
with\\ space/ @space
"""


@pytest.mark.parametrize(
    ("path", "owners"),
    [
        ("README", ("@one", "@two")),
        ("x/y/README", ("@one", "@two")),
        ("x/a.js", ("@js",)),
        ("a.js/inner", ("@js",)),
        ("a.go", ("docs@example.com",)),
        ("a.txt", ("@octo-org/octocats",)),
        ("build/logs/today/a", ("@logs",)),
        ("x/build/logs/a", ("@one", "@two")),
        ("docs/a.md", ("@shallow",)),
        ("docs/more/a.md", ("@one", "@two")),
        ("x/docs/a.md", ("@one", "@two")),
        ("x/apps/y/a", ("@apps",)),
        ("apps", ("@one", "@two")),
        ("apps/github/a.js", ()),
        ("x/deep/a", ("@deep",)),
        ("deep", ("@deep",)),
        ("a/z", ("@az",)),
        ("a/b/c/z", ("@az",)),
        ("b/a/z", ("@one", "@two")),
        ("with space/a", ("@space",)),
        ("A.JS", ("@one", "@two")),
        ("line\nbreak.js", ("@js",)),
    ],
)
def test_github_the_last_line_that_matches_has_the_owners(path: str, owners: tuple[str, ...]) -> None:
    assert read_codeowners(GITHUB, "github").owners_of(path) == owners


@pytest.mark.parametrize("line", ["!*.js @a", "\\#a @a", "a[0-9].js @a", "*.js @a nobody", "*.js a@b"])
def test_github_a_line_it_cannot_read_is_no_rule_and_is_told(line: str) -> None:
    read = read_codeowners(f"* @all\n{line}\n", "github")
    assert len(read.mistakes) == 1 and read.mistakes[0].startswith("line 2: ")
    assert read.owners_of("a1.js") == ("@all",)


GITLAB = """\
* @admin

[README Owners]
README.md @user1 @user2
internal/README.md @user4

[README other owners]
README.md @user3

[Documentation][2] @docs-team
docs/
*.txt
/guide/* @guide
\\#odd.md @odd
path\\ with\\ spaces/ @space

^[Database] @database-team
model/db/
config/db/setup.md @docs-team

[Ruby]
*.rb @ruby-team
!/config/**/*.rb
/config/routes.rb @ops
lib/[a-c]?.py @set
"""


@pytest.mark.parametrize(
    ("path", "owners"),
    [
        ("README.md", ("@admin", "@user1", "@user2", "@user3")),
        ("x/README.md", ("@admin", "@user1", "@user2", "@user3")),
        ("internal/README.md", ("@admin", "@user4", "@user3")),
        ("x/docs/deep/a", ("@admin", "@docs-team")),
        ("docs", ("@admin",)),
        ("guide/a", ("@admin", "@guide")),
        ("guide/b/a", ("@admin",)),
        ("x/guide/a", ("@admin",)),
        ("#odd.md", ("@admin", "@odd")),
        ("path with spaces/a", ("@admin", "@space")),
        ("model/db/CHANGELOG.txt", ("@admin", "@docs-team", "@database-team")),
        ("app/a.rb", ("@admin", "@ruby-team")),
        ("config/x/a.rb", ("@admin",)),
        ("config/routes.rb", ("@admin",)),
        ("x/lib/b1.py", ("@admin", "@set")),
        ("lib/d1.py", ("@admin",)),
        (".hidden", ("@admin",)),
    ],
)
def test_gitlab_each_section_has_its_own_owners(path: str, owners: tuple[str, ...]) -> None:
    read = read_codeowners(GITLAB, "gitlab")
    assert read.owners_of(path) == owners and read.mistakes == ()


def test_gitlab_sections_of_one_name_are_one_and_the_stricter_demand_counts() -> None:
    read = read_codeowners("^[Docs] @a\n*.md\n[DOCS][2] @b\n*.txt\n", "gitlab")
    docs = read.sections[1]
    assert (docs.name, docs.optional, docs.approvals, len(docs.rules)) == ("Docs", False, 2, 2)
    assert (read.owners_of("x.md"), read.owners_of("x.txt")) == (("@a",), ("@b",))


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("[Section name", "is not a heading"),
        ("[Docs][0] @a", "not a number of approvals"),
        ("[Docs][two] @a", "not a number of approvals"),
        ("*.md @a nobody", "'nobody' is not an owner"),
        ("*.md", "has no owner"),
        ("[z-a].md @a", "an invalid set of characters"),
    ],
)
def test_gitlab_what_it_cannot_read_is_told(line: str, told: str) -> None:
    (mistake,) = [one for one in read_codeowners(f"* @all\n{line}\n", "gitlab").mistakes if told in one]
    assert mistake.startswith("line 2: ")


def missing(text: str, dialect: Dialect, paths: list[str], *by: str, **members: list[str]) -> list[str]:
    groups = {f"@{name.replace('__', '/')}": people for name, people in members.items()}
    return [str(one) for one in read_codeowners(text, dialect).missing_approvals(paths, by, groups)]


def test_one_owner_of_each_line_must_approve() -> None:
    text = "* @one @two\n*.js @js\n"
    assert missing(text, "github", ["a", "b", "c.js"], "one") == ["c.js needs an approval by @js"]
    assert missing(text, "github", ["a", "b"], "js") == ["a and 1 more needs an approval by @one or @two"]
    assert missing(text, "github", ["a", "c.js"], "@Two", "JS") == []
    assert missing("/free\n", "github", ["free", "x"]) == []


def test_a_group_is_its_members_and_a_group_nobody_knows_is_nobody() -> None:
    text = "* @org/team\n"
    assert missing(text, "github", ["a"], "ada", org__team=["ada"]) == []
    assert missing(text, "github", ["a"], "bob", org__team=["ada"]) != []
    assert missing(text, "github", ["a"], "org/team", "team") != []
    assert missing("* @@maintainer\n", "gitlab", ["a"], "maintainer", "@maintainer") != []
    assert missing("* @team\n", "gitlab", ["a"], "team", team=["ada"]) != []


def test_a_section_wants_as_many_as_it_says_and_an_optional_one_none() -> None:
    text = "[Docs][2]\n*.md @a @b @c\n^[Free]\n*.md @d\n"
    (said,) = missing(text, "gitlab", ["x.md"], "a", "d")
    assert said == "x.md needs 2 approvals (it has 1) by @a or @b or @c"
    assert missing(text, "gitlab", ["x.md"], "a", "A", "@a") != []
    assert missing(text, "gitlab", ["x.md"], "a", "c") == []


NAMES = st.text(st.sampled_from("ab*?/.[]!\\-# @"), max_size=12)


@given(st.lists(NAMES, max_size=6), NAMES, st.sampled_from(["github", "gitlab"]))
def test_no_file_and_no_path_is_too_strange_to_be_read(lines: list[str], path: str, dialect: Dialect) -> None:
    read = read_codeowners("\n".join(lines), dialect)
    assert isinstance(read, Codeowners) and isinstance(read.owners_of(path), tuple)


SEGMENT = st.text(st.sampled_from("ab*?."), min_size=1, max_size=4).filter(lambda name: "**" not in name)
PATH = st.lists(st.text(st.sampled_from("ab."), min_size=1, max_size=4), min_size=1, max_size=3).map("/".join)


@given(SEGMENT, PATH, st.sampled_from(["github", "gitlab"]))
def test_a_pattern_of_one_name_matches_names_and_at_github_folders(name: str, path: str, dialect: Dialect) -> None:
    plain = re.compile(re.escape(name).replace(r"\*", ".*").replace(r"\?", "."))
    parts = path.split("/")
    expected = any(map(plain.fullmatch, parts)) if dialect == "github" else plain.fullmatch(parts[-1]) is not None
    assert bool(read_codeowners(f"{name} @a\n", dialect).owners_of(path)) == expected
