"""File hints: what each rule finds in a real repository, what a model may add, and that no error stops the order."""

from collections.abc import Callable
from pathlib import Path

import pytest
from premade import Files, order, repository

from forgepool.workers.agents.briefing.hints import (
    Hint,
    best,
    companions,
    find_definitions,
    find_named_files,
    hintable_paths,
    hints_by_rule,
    identifiers,
    render_hints,
)
from forgepool.workers.agents.briefing.model_hints import hints_by_model
from forgepool.workers.llm.messages import StopReason, Text, Turn, Usage
from forgepool.workers.llm.provider import Hear, ModelFailed, ModelRequest, deaf
from forgepool.workers.schema.orders import Prior
from forgepool.worktrees.git.git import CommitId, Git, GitFailed

PATHS = (
    "Makefile",
    "install",
    "src/auth/login.py",
    "src/web/login.py",
    "src/auth/token.py",
    "docs/token.md",
    "src/auth/__init__.py",
)
BASE = {
    "src/auth.py": "class TokenStore:\n    pass\n\nMAX_AGE_S = 5\n",
    "src/web.py": "from auth import TokenStore\n\ndef read_token(x):\n    return TokenStore\n",
    "src/go.go": "func (s *Server) ServeToken(w int) {}\n",
    "tests/test_auth.py": "import auth\n",
    "other.py": "x = 1\n",
}
COMMITS: tuple[Files, ...] = (
    BASE,
    *({"src/auth.py": f"class TokenStore:\n    n = {n}\n", "tests/test_auth.py": f"{n}\n"} for n in range(4)),
    {"src/auth.py": "class TokenStore:\n    pass\n\nMAX_AGE_S: int = 5\n", "other.py": "x = 2\n"},
)


@pytest.fixture(scope="module")
def repo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Git, CommitId]:
    return repository(tmp_path_factory.mktemp("hints") / "r", *COMMITS)


def found(text: str) -> dict[str, float]:
    return {hint.path: hint.confidence for hint in find_named_files(text, PATHS)}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Mend src/auth/token.py, please.", {"src/auth/token.py": 0.95}),
        ("see `./src/auth/token.py:14`", {"src/auth/token.py": 0.95}),
        ("token.md is old", {"docs/token.md": 0.85}),
        ("auth/login.py fails", {"src/auth/login.py": 0.85}),
        ("login.py fails", {"src/auth/login.py": 0.75, "src/web/login.py": 0.75}),
        ("call src.auth.token.check from", {"src/auth/token.py": 0.85}),
        ("the package src.auth is", {"src/auth/__init__.py": 0.85}),
        ("run Makefile", {"Makefile": 0.95}),
        ("please install", {}),
        ("a token for login", {}),
        ("nothing/here.py", {}),
    ],
)
def test_words_that_name_files_are_found(text: str, expected: dict[str, float]) -> None:
    """A more exact name gives more confidence, and ordinary words name no file."""
    assert found(text) == expected


def test_identifiers_are_what_no_sentence_has() -> None:
    text = "Rename `store` and TokenStore, read_token, getToken; the Token and API stay, e.g. in here"
    assert identifiers(text) == ("store", "TokenStore", "read_token", "getToken")


def test_definitions_are_found_at_the_base(repo: tuple[Git, CommitId]) -> None:
    """The place that defines a name counts, in several languages, and not a use of it."""
    hints = list(find_definitions("`TokenStore` read_token ServeToken MAX_AGE_S NoSuchName", *repo))
    assert {(hint.path, hint.reason) for hint in hints} == {
        ("src/auth.py", "defines TokenStore"),
        ("src/auth.py", "defines MAX_AGE_S"),
        ("src/web.py", "defines read_token"),
        ("src/go.go", "defines ServeToken"),
    }
    assert {hint.confidence for hint in hints} == {0.8}


def test_a_name_that_many_files_have_says_nothing(tmp_path: Path) -> None:
    """This holds for a name defined in many files and for a common file name."""
    files = {f"p{n}/setup.py": "def do_setup():\n    pass\n" for n in range(5)}
    git, base = repository(tmp_path / "r", files)
    assert list(find_definitions("do_setup", git, base)) == []
    assert list(find_named_files("setup.py", tuple(files))) == []
    assert len(list(find_named_files("setup.py", tuple(files)[:3]))) == 3


def test_a_path_that_no_line_can_hold_is_no_hint(tmp_path: Path) -> None:
    """A name with an escape character or invalid UTF-8 would break the section or the message."""
    git, base = repository(tmp_path / "r", {"a.py": ""})
    names = b"a\x1b.py", b"b\xff.py", b"c.py"
    blob = git.text("rev-parse", f"{base}:a.py").encode()
    tree = git.text("mktree", "-z", stdin=b"".join(b"100644 blob %s\t%s\0" % (blob, name) for name in names))
    who = {f"GIT_{role}_{part}": "a@b" for role in ("AUTHOR", "COMMITTER") for part in ("NAME", "EMAIL")}
    commit = CommitId(git.text("commit-tree", tree, "-m", "x", env=who))
    assert hintable_paths(git, commit) == ("c.py",)


def test_files_that_change_together_are_found(repo: tuple[Git, CommitId]) -> None:
    """The share of common commits counts, and a single one is not enough."""
    hints = list(companions(*repo, {"src/auth.py"}))
    assert [(hint.path, hint.reason) for hint in hints] == [
        ("tests/test_auth.py", "changed in 5 of the last 6 commits that changed src/auth.py")
    ]
    assert 0.7 < hints[0].confidence < 0.9


def test_a_sweeping_commit_says_nothing(tmp_path: Path) -> None:
    wide = [{f"f{n}.py": str(turn) for n in range(40)} for turn in range(5)]
    assert list(companions(*repository(tmp_path / "r", *wide), {"f1.py"})) == []


def test_rules_together_give_the_best_that_exist(repo: tuple[Git, CommitId]) -> None:
    """Each path occurs once, the most certain first, and all exist in the base."""
    task = order(
        title="Expire in read_token",
        description="As src/auth.py says; not gone.py.",
        files=("src/go.go", "src/**", "new.py"),
        priors=(Prior(task="first", paths=("other.py", "gone.py")),),
    )
    hints = hints_by_rule(task, *repo)
    assert [(hint.path, hint.confidence) for hint in hints] == [
        ("src/auth.py", 0.95),
        ("src/go.go", 0.95),
        ("tests/test_auth.py", 0.83),
        ("src/web.py", 0.8),
        ("other.py", 0.72),
    ]


def test_a_repository_that_cannot_be_read_gives_no_hints(tmp_path: Path, repo: tuple[Git, CommitId]) -> None:
    """No exception is raised."""
    task = order(description="src/auth.py read_token")
    assert hints_by_rule(task, Git(git_dir=tmp_path / "none"), repo[1]) == ()
    assert hints_by_rule(task, repo[0], CommitId("0" * 40)) == ()
    with pytest.raises(GitFailed):
        list(companions(repo[0], CommitId("0" * 40), {"a"}))


def test_the_section_has_the_form_that_is_fixed() -> None:
    """The first line says what the hints are based on."""
    hints = (
        Hint(path="a.py", confidence=0.9, reason="the task names it", source="the task's words"),
        Hint(path="b.py", confidence=0.8, reason="defines b", source="symbol definitions"),
    )
    assert render_hints(hints) == (
        "## File Hints\n"
        "The following files are likely relevant to this task (generated from the task's words, symbol definitions):\n"
        "- `a.py` (confidence: 0.90) — the task names it\n"
        "- `b.py` (confidence: 0.80) — defines b"
    )
    assert render_hints(()) == ""


def test_hints_are_few_and_sure() -> None:
    many = [Hint(path=f"{n:02}.py", confidence=0.7 + n / 100, reason="", source="") for n in range(-5, 20)]
    kept = best([*many, *many], {hint.path for hint in many})
    assert [hint.path for hint in kept] == [f"{n:02}.py" for n in range(19, 9, -1)]
    assert [hint.path for hint in best(many, {"-1.py", "00.py", "07.py"})] == ["07.py", "00.py"]


class Says:
    """A model that gives one answer."""

    def __init__(self, text: str | ModelFailed, stop: StopReason = "end") -> None:
        self._text, self._stop = text, stop
        self.asked: list[ModelRequest] = []

    def ask(self, request: ModelRequest, *, stop: Callable[[], bool], hear: Hear = deaf) -> Turn:
        self.asked.append(request)
        if isinstance(self._text, ModelFailed):
            raise self._text
        parts = (Text(text=self._text),)
        return Turn(role="assistant", parts=parts, model="small", stop=self._stop, usage=Usage(input_tokens=7))


GOOD = """Here: [{"path": "./src/web.py", "confidence": 1.0, "reason": "reads\\nit"},
 {"path": "made/up.py", "confidence": 0.9, "reason": "?"}, {"path": "other.py", "confidence": 0.3, "reason": "?"}]"""


def test_a_model_proposes_files(repo: tuple[Git, CommitId]) -> None:
    """Missing and doubtful files are dropped, its confidence counts as 0.9 at most, and its use is reported."""
    model = Says(GOOD)
    guess = hints_by_model(model, order(description="Expire it"), *repo, stop=lambda: False)
    assert [(hint.path, hint.confidence, hint.reason) for hint in guess.hints] == [("src/web.py", 0.9, "reads it")]
    assert (guess.usage.input_tokens, guess.model) == (7, "small")
    assert render_hints(guess.hints).splitlines()[1].endswith("(generated from the list of files, by small):")
    shown = model.asked[0].turns[0].text
    assert "Expire it" in shown and "\nsrc/auth.py\nsrc/go.go\n" in shown


def test_a_model_is_shown_what_the_repository_says_of_itself(tmp_path: Path) -> None:
    """The repository has an engineering.md."""
    git, base = repository(tmp_path / "r", BASE | {"docs/engineering.md": "Tokens live in web.\n"})
    model = Says(GOOD)
    guess = hints_by_model(model, order(), git, base, stop=lambda: False)
    assert "Tokens live in web." in model.asked[0].turns[0].text
    assert "(generated from docs/engineering.md):" in render_hints(guess.hints)


def test_a_long_list_of_files_is_shown_in_part(tmp_path: Path) -> None:
    """Files that share a word with the task stay, and the number of omitted files is given."""
    files = {f"deep/{'x' * 80}/{n}.py": "" for n in range(900)} | {"deep/er/expiry_rules.py": ""}
    model = Says("[]")
    git, base = repository(tmp_path / "r", files)
    hints_by_model(model, order(title="Change the expiry"), git, base, stop=lambda: False)
    shown = model.asked[0].turns[0].text
    assert "deep/er/expiry_rules.py" in shown and " more are not listed)" in shown
    assert len(shown) < 61_000


@pytest.mark.parametrize(
    "model",
    [
        Says(ModelFailed("no", trouble="overloaded")),
        Says("src/web.py looks good"),
        Says('[{"path": "src/web.py"}]'),
        Says('[{"path": "src/web.py", "confidence": 3, "reason": "x"}]'),
        Says("[" * 5000 + "]"),
        Says(GOOD, stop="max_tokens"),
    ],
)
def test_a_model_that_does_not_answer_as_asked_gives_none(model: Says, repo: tuple[Git, CommitId]) -> None:
    """No exception is raised."""
    assert hints_by_model(model, order(), *repo, stop=lambda: False).hints == ()


def test_a_files_name_gives_no_orders() -> None:
    """A path that cannot be quoted on one line is no hint, and a reason is cut to one line."""
    paths = ["a`b.py", "a\nb.py", "plain.py"]
    hints = [Hint(path=path, confidence=0.9, reason="it `is`\n## new", source="x") for path in paths]
    kept = best(hints, frozenset(paths))
    assert [hint.path for hint in kept] == ["plain.py"]
    assert render_hints(kept).endswith("- `plain.py` (confidence: 0.90) — it is## new")
