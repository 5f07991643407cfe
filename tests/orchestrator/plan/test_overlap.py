"""Globs are read as git and a shell read them, and overlap exactly when some path is covered by both."""

import itertools
import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from forgepool.orchestrator.plan.overlap import Globs, OverlapIndex, find_shared_files, meet
from forgepool.workers.schema.globs import BadGlob, Pattern, Tree, escape, parse


def both_ways(a: str, b: str) -> bool:
    answer = meet(parse(a), parse(b))
    assert meet(parse(b), parse(a)) is answer
    return answer


@pytest.mark.parametrize(
    ("glob", "covered", "not_covered"),
    [
        ("src", ["src", "src/a.py", "src/b/c.py", "./src/a.py", "/src"], ["srcs", "a/src", "sr", "Src/a.py"]),
        ("src/", ["src/a.py", "src/b/c"], ["srcs/a.py"]),
        ("./src//a.py", ["src/a.py"], ["src/a.pyc", "src/a.py/x"]),
        ("/src/a.py", ["src/a.py"], ["x/src/a.py"]),
        (
            "src/*.py",
            ["src/a.py", "src/.py", "src/.a.py"],
            ["src/b/a.py", "src/a.pyc", "src/a.py/b.md", "a.py"],
        ),
        ("src/*", ["src/a.py", "src/.hidden", "src/b/c.py"], ["srcs/a"]),
        ("*", ["a", ".a", "a/b"], []),
        ("?.py", ["a.py", "é.py", "..py"], [".py", "ab.py", "a/.py"]),
        ("**", ["a", "a/b/c.py"], ["../a"]),
        ("**/*.py", ["a.py", "a/b/c.py"], ["a.pyc"]),
        ("**/test/**", ["test/a", "a/test/b/c", "test"], ["tests/a"]),
        ("a/**/b.py", ["a/b.py", "a/x/b.py", "a/x/y/b.py"], ["ab.py", "a/xb.py", "a/b.py/c"]),
        ("[a-c]x", ["ax", "cx", "cx/y"], ["dx", "-x", "x"]),
        ("[!a-c]x", ["dx", "-x"], ["ax", "/x", "a/x"]),
        ("[^a]x.py", ["bx.py"], ["ax.py"]),
        ("[]a].py", ["].py", "a.py"], ["[.py"]),
        ("[a-]x.py", ["ax.py", "-x.py"], ["bx.py"]),
        ("a[.-0]b.py", ["a.b.py", "a0b.py"], ["a/b.py"]),
        ("{a,b}.py", ["a.py", "b.py"], ["c.py", "{a,b}.py"]),
        ("{src,lib/{x,y}}/*.py", ["src/a.py", "lib/x/a.py"], ["lib/a.py", "lib/z/a.py"]),
        ("a{,b}.py", ["a.py", "ab.py"], ["b.py"]),
        ("a,b.py", ["a,b.py"], ["a"]),
        ("[{]a[}]", ["{a}"], ["a"]),
        ("pages/[[]id].tsx", ["pages/[id].tsx"], ["pages/i.tsx"]),
        (".", ["a", "a/b"], []),
        (".github", [".github/workflows/ci.yml"], []),
        ("Makefile", ["Makefile"], ["Makefile/x", "makefile"]),
        ("a\nb.py", ["a\nb.py"], ["a"]),
        ("*.py", ["a\nb.py"], []),
    ],
)
def test_pattern_covers_other_paths(glob: str, covered: list[str], not_covered: list[str]) -> None:
    """A pattern covers what it matches and, unless it reads as a file's name, what is below."""
    pattern = parse(glob)
    assert [path for path in covered if not pattern.matches(path)] == []
    assert [path for path in not_covered if pattern.matches(path)] == []
    assert [path for path in covered if not Globs.of([glob]).covers(path)] == []
    assert [path for path in not_covered if Globs.of([glob]).covers(path)] == []


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ("src/a.py", "src/a.py", True),
        ("src/a.py", "src/b.py", False),
        ("src/A.py", "src/a.py", False),
        ("src", "src/a.py", True),
        ("src/", "src/deep/er/a.py", True),
        ("src", "srcs", False),
        ("src/*.py", "src/a*", True),
        ("src/*.py", "src/sub/a.py", False),
        ("src/*", "src/sub/a.py", True),
        ("src/**", "src/sub/*.py", True),
        ("**/*.py", "src/a.py", True),
        ("**/*.py", "**/*.md", False),
        ("**/*.py", "docs", True),
        ("**/*.py", "Makefile", False),
        ("src/a.py", "**/*.md", False),
        ("a*.py", "*b.py", True),
        ("a*.py", "b*.py", False),
        ("a?.py", "a[0-9].py", True),
        ("a[a-f].py", "a[g-z].py", False),
        ("a[a-f].py", "a[!a-f].py", False),
        ("a[+-9]b.py", "a/b.py", False),
        ("{a,b}/x.py", "{b,c}/*.py", True),
        ("{a,b}/x.py", "{c,d}/*.py", False),
        ("a/**/z.py", "a/b/*/z.py", True),
        ("a/*/z.py", "a/**/y/z.py", True),
        ("a/*/z.py", "a/b/c/**/z.py", False),
        ("**/a/**", "b/**/c.py", True),
        ("docs/v1.2", "docs/v1.2/x.md", True),
        ("docs/v1.2", "docs/v1.2/*/x.md", True),
        ("docs/v1.2", "**/x.md", False),
        ("docs/v1.2/", "**/x.md", True),
        (".", "anything", True),
    ],
)
def test_globs_compared_as_strings(a: str, b: str, expected: bool) -> None:
    """Two globs overlap exactly when some path is covered by both."""
    assert both_ways(a, b) is expected


@pytest.mark.parametrize(
    ("glob", "part"),
    [
        ("", "it is empty"),
        ("  ", "it is empty"),
        ("..", "write the path from the repository's root"),
        ("a/../b", "'..' leaves the folder"),
        ("{a,..}/b", "'..' leaves the folder"),
        ("[a", "'[' is not closed; write [[] for a real one"),
        ("[]", "'[' is not closed"),
        ("[!]", "'[' is not closed"),
        ("[/]", "'[' is not closed"),
        ("[z-a]", "the range z-a is empty; write a-z"),
        ("[[:alpha:]]", "write the ranges"),
        ("a[/-/]", "'[' is not closed"),
        ("{a", "'{' is not closed"),
        ("a}", "'}' closes nothing"),
        ("{a}", "braces need two alternatives"),
        ("{,a}", "one of its alternatives is empty"),
        ("a\\b", "write / between folders"),
        ("!a", "list only what the task touches"),
        ("~/a", "outside the repository"),
        ("C:/a", "outside the repository"),
        ("src/**.py", "write **/*.py instead of **.py"),
        ("a**", "must be a whole segment"),
        ("{a,b}" * 11, "more than 1024 patterns"),
        ("{" * 5000, "is not closed"),
    ],
)
def test_bad_glob_is_accepted(glob: str, part: str) -> None:
    """A misleading glob is refused in one sentence that names it and the correction."""
    with pytest.raises(BadGlob) as refused:
        parse(glob)
    assert str(refused.value).startswith(f"glob '{glob}': ")
    assert part in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "path",
    ["a.py", "pages/[id].tsx", "{{cookiecutter}}/x", "what?.md", "*", "!a", "~a", " ", "a\\b", "[", "]", "}"],
)
def test_escape_loses_a_real_file(path: str) -> None:
    """Any real path can be written as a glob that covers it."""
    assert parse(escape(path)).matches(path)
    assert Globs.exactly([path]).covers(path)


def test_exactly_covers_more_than_the_files() -> None:
    """The lock of given files covers exactly these, whatever their names look like."""
    held = Globs.exactly(["src/tool", "[ab]"])
    assert held.covers("src/tool")
    assert held.covers("[ab]")
    assert not held.covers("src/tool/x")
    assert not held.covers("a")
    assert held.witness(Globs.of(["**/*.py"])) is None
    assert held.witness(Globs.of(["src"])) == ("src/tool", "src")


def test_selecting_globs_reach_below() -> None:
    """A glob that selects files matches only names where a wildcard comes last."""
    assert parse("src/*", below=False).matches("src/a.py")
    assert not parse("src/*", below=False).matches("src/sub/a.py")
    assert parse("src", below=False).matches("src/sub/a.py")
    assert parse("packages/*/", below=False).matches("packages/one/a.py")


def test_tree_is_ignored() -> None:
    """With a known tree, a literal name is the file or folder it is there. Wildcards do not change."""
    tree = Tree.of(["bin/tool", "docs/v1.2/x.md", "src/a.py"])
    assert tree.directories == {"bin", "docs", "docs/v1.2", "src"}
    assert not Globs.of(["bin/tool"], tree).meets(Globs.of(["**/*.md"]))
    assert Globs.of(["docs/v1.2"], tree).meets(Globs.of(["**/*.md"]))
    assert Globs.of(["docs/v1.2"], tree).covers("docs/v1.2/y.md")
    assert Globs.of(["bin/tool/"], tree).covers("bin/tool/new.md")
    assert Globs.of(["{src,new}/*"], tree) == Globs.of(["{src,new}/*"])


def test_witness_is_not_the_first_pair() -> None:
    """The pair shown is the first in written order, for few globs and for many."""
    few = Globs.of(["docs", "src/*.py", "src/a.py"])
    assert few.witness(Globs.of(["lib", "src/a.py", "src/*"])) == ("src/*.py", "src/a.py")
    many = Globs.of([f"lib/{at}.py" for at in range(200)])
    assert many.witness(Globs.of(["x.py", "lib/7?.py", "lib/*"])) == ("lib/0.py", "lib/*")
    assert Globs.of(["lib/*.md"]).witness(many) is None
    assert Globs.of([]).witness(many) is None


def test_shared_files_are_not_limited() -> None:
    """The files shown are the first few that both cover."""
    files = [f"src/{name}.py" for name in "abcdefgh"] + ["docs/a.md"]
    assert find_shared_files(Globs.of(["src"]), Globs.of(["**/[d-g].py"]), files, limit=2) == (
        "src/d.py",
        "src/e.py",
    )
    assert find_shared_files(Globs.of(["docs"]), Globs.of(["src"]), files) == ()


# --- exactness, by brute force over every short path ---

_NAMES = ["".join(letters) for size in (1, 2, 3) for letters in itertools.product("ab.", repeat=size)]
_SOLID = [name for name in _NAMES if name not in (".", "..")]
_PATHS = [
    *_SOLID,
    *("/".join(names) for names in itertools.product(_SOLID[:10], repeat=2)),
    *("/".join(names) for names in itertools.product(["a", "b", "ab", "a.b"], repeat=3)),
    *("/".join(names) for names in itertools.product(["a", "b"], repeat=4)),
]

_unit = st.sampled_from(["a", "b", "a", "b", ".", "*", "?", "[ab]", "[!a]", "[!.]", "[.a]", "{a,b}", "{a,*b}"])
_segment = st.one_of(
    st.lists(_unit, min_size=1, max_size=3).map("".join).filter(lambda text: text not in (".", "..")),
    st.just("**"),
)
_glob = st.builds(
    lambda segments, slash: "/".join(segments) + slash,
    st.lists(_segment, min_size=1, max_size=3),
    st.sampled_from(["", "", "", "/"]),
)


def readable(glob: str) -> bool:
    try:
        parse(glob)
    except BadGlob:
        return False
    return True


_globs = _glob.filter(readable)


def expanded(glob: str) -> list[str]:
    """Expand braces, the outermost last pair first. The code under test does it differently."""
    inner = re.search(r"\{([^{}]*)\}", glob)
    if not inner:
        return [glob]
    return [
        text for part in inner[1].split(",") for text in expanded(glob[: inner.start()] + part + glob[inner.end() :])
    ]


def fits_name(glob: str, name: str) -> bool:
    """Match a name against one segment, letter by letter, with backtracking."""
    if not glob:
        return not name
    if glob[0] == "*":
        return any(fits_name(glob[1:], name[at:]) for at in range(len(name) + 1))
    atom = glob[: glob.index("]") + 1] if glob[0] == "[" else glob[0]
    if not name:
        return False
    fits = (name[0] in atom) != (atom[1] == "!") if atom[0] == "[" else atom in ("?", name[0])
    return fits and fits_name(glob[len(atom) :], name[1:])


def fits_path(segments: list[str], names: list[str]) -> bool:
    if not segments:
        return not names
    if segments[0] == "**":
        return any(fits_path(segments[1:], names[at:]) for at in range(len(names) + 1))
    return bool(names) and fits_name(segments[0], names[0]) and fits_path(segments[1:], names[1:])


def covers(glob: str, path: str) -> bool:
    """Implement the definition in the module's docstring a second time."""
    names = path.split("/")
    for text in expanded(glob):
        segments = text.rstrip("/").split("/")
        below = text.endswith("/") or not reads_as_file(segments[-1])
        sizes = range(1, len(names) + 1) if below else [len(names)]
        if any(fits_path(segments, names[:size]) for size in sizes):
            return True
    return False


def reads_as_file(last: str) -> bool:
    """Return whether a `.` follows the first character. A class of one character counts as that character."""
    spelled = re.sub(r"\[([ab.])\]", r"\1", last)
    return "." in re.sub(r"\[[^\]]*\]", "x", spelled)[1:]


@given(_globs)
@settings(max_examples=300, deadline=None)
@example("a*b*a/**")
@example("**/?*")
def test_matches_differs_from_the_definition(glob: str) -> None:
    """`matches` agrees with the definition for every short path."""
    pattern = parse(glob)
    assert [path for path in _PATHS if pattern.matches(path) != covers(glob, path)] == []


def segments_of(glob: str) -> list[list[str]]:
    """Return each reading of a glob as segments, with `**` last where it covers what is below."""
    ways = []
    for text in expanded(glob):
        segments = text.rstrip("/").split("/")
        ways.append([*segments, "**"] if text.endswith("/") or not reads_as_file(segments[-1]) else segments)
    return ways


# A place in a glob while a path is read letter by letter: what is left of the name being read (None between
# names, "**" within a name of `**`), and the segments after it.
Place = tuple[str | None, tuple[str, ...]]


def letter(rest: str, char: str) -> set[str]:
    """Return what may be left of a segment after this letter."""
    if not rest:
        return set()
    if rest[0] == "*":
        return {rest} | letter(rest[1:], char)
    atom = rest[: rest.index("]") + 1] if rest[0] == "[" else rest[0]
    return {rest[len(atom) :]} if fits_name(atom, char) else set()


def step(place: Place, char: str) -> set[Place]:
    name, after = place
    if name is None:
        if not after or char == "/":
            return set()
        if after[0] == "**":
            return {("**", after)} | step((None, after[1:]), char)
        return {(left, after[1:]) for left in letter(after[0], char)}
    if char == "/":
        return {(None, after)} if not name.strip("*") else set()
    return {place} if name == "**" else {(left, after) for left in letter(name, char)}


def at_end(place: Place) -> bool:
    name, after = place
    return name is not None and not name.strip("*") and all(segment == "**" for segment in after)


def common_path(a: str, b: str) -> str | None:
    """Find a shortest path that both cover, by reading both letter by letter."""
    start = tuple(frozenset[Place]((None, tuple(way)) for way in segments_of(glob)) for glob in (a, b))
    queue, seen = [("", start)], {start}
    for path, places in queue:
        if all(any(at_end(place) for place in each) for each in places):
            return path
        for char in "abz./":
            then = tuple(frozenset(new for place in each for new in step(place, char)) for each in places)
            if all(then) and then not in seen:
                seen.add(then)
                queue.append((path + char, then))
    return None


def goes_through(a: Pattern, b: Pattern) -> bool:
    """Return whether a literal name of one is a folder or the same name in the other's literal head."""
    return any(
        one.literal is not None and "/".join((*other.head, "")).startswith(f"{one.literal}/")
        for one in a.ways
        for other in b.ways
    )


@given(_globs, _globs)
@settings(max_examples=1000, deadline=None)
@example("**/a*", "*b/**")
@example("a*b", "*a.b")
@example("**/*.a/b", "**/*b*/*")
@example("a*a*b*", "*b?a*")
def test_meet_misses_or_invents_a_common_path(a: str, b: str) -> None:
    """`meet` is true exactly where a common path exists, or where one glob goes through the other's name."""
    left, right = parse(a), parse(b)
    path = common_path(a, b)
    assert both_ways(a, b) is (path is not None or goes_through(left, right) or goes_through(right, left))
    if path and not {".", ".."} & set(path.split("/")):
        assert left.matches(path)
        assert right.matches(path)


@given(_globs, _globs, st.sampled_from(_PATHS))
@settings(max_examples=1000, deadline=None)
def test_meet_denies_a_path_that_both_match(a: str, b: str, path: str) -> None:
    """A path that both match is enough, whatever the oracle finds."""
    left, right = parse(a), parse(b)
    assert both_ways(a, b) or not (left.matches(path) and right.matches(path))


@given(st.lists(st.lists(_globs, max_size=3), min_size=1, max_size=8), st.lists(_globs, max_size=3))
@settings(max_examples=300, deadline=None)
def test_index_differs_from_comparing_all(owners: list[list[str]], asked: list[str]) -> None:
    """The index agrees with comparing every owner."""
    held = {at: Globs.of(globs) for at, globs in enumerate(owners)}
    wanted = Globs.of(asked)
    assert OverlapIndex(held).meeting(wanted) == {at for at, globs in held.items() if globs.meets(wanted)}


def test_index_loses_what_goes_through_a_name() -> None:
    """The index finds a name that reads as a file's, even if the other glob ends in another name."""
    index = OverlapIndex({"name": Globs.of(["docs/v1.2"]), "beside": Globs.of(["docs/v1.3"])})
    assert index.meeting(Globs.of(["docs/v1.2/x.md"])) == {"name"}
    assert index.meeting(Globs.of(["docs/v1.2/*/x.md"])) == {"name"}
    through = OverlapIndex({"through": Globs.of(["docs/v1.2/*/x.md"])})
    assert through.meeting(Globs.of(["docs/v1.2"])) == {"through"}


@given(st.lists(_globs, max_size=12), st.lists(_globs, max_size=12))
@settings(max_examples=200, deadline=None)
def test_witness_differs_between_few_and_many(ours: list[str], theirs: list[str]) -> None:
    """The first pair is the same with and without an index."""
    a, b = Globs.of(ours), Globs.of(theirs)
    pairs = ((one.text, other.text) for one in a.patterns for other in b.patterns if meet(one, other))
    assert a.witness(b) == next(pairs, None)
    assert (a | b).meets(b) is bool(b)


@given(_globs, st.lists(st.sampled_from(_PATHS), max_size=20))
@settings(max_examples=200, deadline=None)
def test_knowing_the_tree_changes_what_wildcards_cover(glob: str, files: list[str]) -> None:
    """A tree only decides whether a literal name is a file or a directory."""
    plain, settled = Globs.of([glob]), Globs.of([glob], Tree.of(files))
    for path in _PATHS[:200]:
        if plain.covers(path) != settled.covers(path):
            assert any(way.literal and path.startswith(f"{way.literal}/") for way in plain.ways())


def test_a_hostile_glob_takes_exponential_time() -> None:
    """Many stars against a long name that nearly fits are answered at once."""
    stars = parse("a*" * 40 + "b.py")
    assert not stars.matches("a" * 5000 + ".py")
    assert not meet(stars, parse("c*" * 40 + ".py"))
    assert meet(stars, parse("*a" * 40 + "*.py"))
