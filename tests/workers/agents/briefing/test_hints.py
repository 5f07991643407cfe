"""File hints: where they come from, how many are shown, what a model may add, and that no error stops the order."""

from collections.abc import Callable
from pathlib import Path

import pytest
from premade import Files, order, repository

from forgepool.workers.agents.briefing.hints import (
    Hint,
    best,
    hintable_paths,
    hints_by_rule,
    render_hints,
)
from forgepool.workers.agents.briefing.model_hints import hints_by_model
from forgepool.workers.llm.messages import StopReason, Text, Turn, Usage
from forgepool.workers.llm.provider import Hear, ModelFailed, ModelRequest, deaf
from forgepool.workers.schema.orders import HintSettings
from forgepool.workers.schema.reports import Prior
from forgepool.worktrees.git.git import CommitId, Git

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


def test_a_path_that_no_line_can_hold_is_no_hint(tmp_path: Path) -> None:
    """A name with an escape character or invalid UTF-8 would break the section or the message."""
    git, base = repository(tmp_path / "r", {"a.py": ""})
    names = b"a\x1b.py", b"b\xff.py", b"c.py"
    blob = git.text("rev-parse", f"{base}:a.py").encode()
    tree = git.text("mktree", "-z", stdin=b"".join(b"100644 blob %s\t%s\0" % (blob, name) for name in names))
    who = {f"GIT_{role}_{part}": "a@b" for role in ("AUTHOR", "COMMITTER") for part in ("NAME", "EMAIL")}
    commit = CommitId(git.text("commit-tree", tree, "-m", "x", env=who))
    assert hintable_paths(git, commit) == ("c.py",)


USUAL = HintSettings()
ALL = HintSettings(threshold=0)


def test_predictions_and_earlier_tasks_give_the_hints(repo: tuple[Git, CommitId]) -> None:
    """Each path occurs once, the most probable first, and all exist in the base."""
    task = order(
        title="Expire in read_token",
        description="As src/auth.py says; not gone.py.",
        files=("src/**", "new.py"),
        priors=(Prior(task="first", paths=("other.py", "gone.py", "src/auth.py")),),
    )
    hints = hints_by_rule(task, *repo, ALL)
    assert {(hint.path, hint.reason) for hint in hints} >= {
        ("src/auth.py", "the task names it"),
        ("src/web.py", "defines read_token"),
        ("tests/test_auth.py", "tests src/auth.py, by its name"),
    }
    numbers = [hint.confidence for hint in hints if hint.confidence is not None]
    assert numbers == sorted(numbers, reverse=True)
    assert len({hint.path for hint in hints}) == len(hints) and "gone.py" not in {hint.path for hint in hints}
    assert "uncalibrated" in hints[0].source, "six commits are too few"


def test_a_file_that_the_task_may_write_is_no_hint(repo: tuple[Git, CommitId]) -> None:
    """It is on the card; the files that change with it are hints."""
    task = order(files=("./src/auth.py",), priors=(Prior(task="first", paths=("src/auth.py",)),))
    hints = hints_by_rule(task, *repo, ALL)
    assert "tests/test_auth.py" in {hint.path for hint in hints}
    assert "src/auth.py" not in {hint.path for hint in hints}


def test_what_the_text_names_is_shown_whatever_its_number(repo: tuple[Git, CommitId]) -> None:
    """It is worth a look, changed or not; its number stays what it is."""
    hints = hints_by_rule(order(description="src/web.py `MAX_AGE_S`"), *repo, HintSettings(threshold=1))
    assert {hint.path for hint in hints} == {"src/web.py", "src/auth.py"}
    assert all(hint.confidence is not None and hint.confidence < 1 for hint in hints)


def test_a_file_of_an_earlier_task_has_no_number(repo: tuple[Git, CommitId]) -> None:
    """The past says nothing of plans, so no probability is known; it is shown whatever the threshold."""
    task = order(priors=(Prior(task="first", paths=("other.py",)),))
    (hint,) = hints_by_rule(task, *repo, HintSettings(threshold=1))
    assert (hint.path, hint.confidence) == ("other.py", None)
    assert render_hints([hint]).endswith("- `other.py` — task first, which this one needs, changed it")


def test_the_threshold_and_the_number_are_obeyed(repo: tuple[Git, CommitId]) -> None:
    task = order(description="Expire the auth tokens")
    every = hints_by_rule(task, *repo, ALL)
    surest = every[0].confidence
    assert surest is not None and len(every) > 2
    assert hints_by_rule(task, *repo, HintSettings(threshold=surest)) == every[:1]
    assert hints_by_rule(task, *repo, HintSettings(threshold=0, most=2)) == every[:2]


def test_a_repository_that_cannot_be_read_gives_no_hints(tmp_path: Path, repo: tuple[Git, CommitId]) -> None:
    """No exception is raised."""
    task = order(description="src/auth.py read_token")
    assert hints_by_rule(task, Git(git_dir=tmp_path / "none"), repo[1], ALL) == ()
    assert hints_by_rule(task, repo[0], CommitId("0" * 40), ALL) == ()


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
    many = [Hint(path=f"{n:02}.py", confidence=0.3 + n / 100, reason="", source="") for n in range(-5, 20)]
    kept = best([*many, *many], {hint.path for hint in many}, USUAL)
    assert [hint.path for hint in kept] == [f"{n:02}.py" for n in range(19, 9, -1)]
    assert [hint.path for hint in best(many, {"-1.py", "00.py", "07.py"}, USUAL)] == ["07.py", "00.py"]


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
    guess = hints_by_model(model, order(description="Expire it"), *repo, USUAL, stop=lambda: False)
    assert [(hint.path, hint.confidence, hint.reason) for hint in guess.hints] == [("src/web.py", 0.9, "reads it")]
    assert (guess.usage.input_tokens, guess.model) == (7, "small")
    assert render_hints(guess.hints).splitlines()[1].endswith("(generated from the list of files, by small):")
    shown = model.asked[0].turns[0].text
    assert "Expire it" in shown and "\nsrc/auth.py\nsrc/go.go\n" in shown


def test_a_model_is_shown_what_the_repository_says_of_itself(tmp_path: Path) -> None:
    """The repository has an engineering.md."""
    git, base = repository(tmp_path / "r", BASE | {"docs/engineering.md": "Tokens live in web.\n"})
    model = Says(GOOD)
    guess = hints_by_model(model, order(), git, base, USUAL, stop=lambda: False)
    assert "Tokens live in web." in model.asked[0].turns[0].text
    assert "(generated from docs/engineering.md):" in render_hints(guess.hints)


def test_a_long_list_of_files_is_shown_in_part(tmp_path: Path) -> None:
    """Files that share a word with the task stay, and the number of omitted files is given."""
    files = {f"deep/{'x' * 80}/{n}.py": "" for n in range(900)} | {"deep/er/expiry_rules.py": ""}
    model = Says("[]")
    git, base = repository(tmp_path / "r", files)
    hints_by_model(model, order(title="Change the expiry"), git, base, USUAL, stop=lambda: False)
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
    assert hints_by_model(model, order(), *repo, USUAL, stop=lambda: False).hints == ()


def test_a_files_name_gives_no_orders() -> None:
    """A path that cannot be quoted on one line is no hint, and a reason is cut to one line."""
    paths = ["a`b.py", "a\nb.py", "plain.py"]
    hints = [Hint(path=path, confidence=0.9, reason="it `is`\n## new", source="x") for path in paths]
    kept = best(hints, frozenset(paths), USUAL)
    assert [hint.path for hint in kept] == ["plain.py"]
    assert render_hints(kept).endswith("- `plain.py` (confidence: 0.90) — it is## new")
