"""Predictions of real repositories: what they say, what is fitted and kept, and that no history breaks them."""

import subprocess
import time
from pathlib import Path

import pytest
from premade import Files, repository, told_repository

from forgepool.workers.agents.briefing.prediction.calibration import calibration_error
from forgepool.workers.agents.briefing.prediction.facts import read_facts
from forgepool.workers.agents.briefing.prediction.history import first_tree, read_history
from forgepool.workers.agents.briefing.prediction.predict import Prediction, list_files, open_predictor, predict_files
from forgepool.workers.agents.briefing.prediction.replay import FEWEST, Calibration, replay
from forgepool.worktrees.git.git import CommitId, Git

NAMES = ("alpha", "beta", "gamma", "delta")
TREE: Files = {f"src/{name}.py": f"def run_{name}():\n    pass\n" for name in NAMES} | {
    "README.md": "",
    "notes.txt": "",
}


def written(number: int) -> tuple[str, Files]:
    """Return a commit that names what it changes; every second one of alpha changes its notes, too."""
    name = NAMES[number % 4]
    files = {f"src/{name}.py": f"def run_{name}():\n    return {number}\n"}
    return f"Mend {name}.py", files | ({"notes.txt": f"{number}\n"} if number % 8 == 0 else {})


HISTORY = (("Begin", TREE), *(written(number) for number in range(160)))


@pytest.fixture(scope="module")
def repo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Git, CommitId]:
    return told_repository(tmp_path_factory.mktemp("predict") / "r", *HISTORY)


@pytest.fixture(autouse=True)
def _afresh() -> None:
    open_predictor.cache_clear()


def found(predictions: list[Prediction]) -> dict[str, Prediction]:
    return {each.path: each for each in predictions}


def test_the_files_of_a_task_come_first_with_a_probability_that_holds(repo: tuple[Git, CommitId]) -> None:
    """All commits that named alpha changed it, and half of them the notes."""
    predictions = predict_files(*repo, "Mend alpha.py once more")
    assert (predictions[0].path, predictions[0].why) == ("src/alpha.py", "the task names alpha.py")
    assert [each.path for each in predictions if each.in_text] == ["src/alpha.py"]
    assert 0.9 < predictions[0].probability < 1 and predictions[0].calibrated
    notes = found(predictions)["notes.txt"]
    assert 0.2 < notes.probability < 0.8
    assert notes.why in (
        "changed in 20 of 40 commits that say alpha",
        "changed together with src/alpha.py in 20 of 40 commits",
    )


def test_files_beside_those_given_are_predicted(repo: tuple[Git, CommitId]) -> None:
    """The prediction leaves out the given files, because the task has declared them."""
    predictions = predict_files(*repo, "Go on", ["src/alpha.py"])
    assert (predictions[0].path, predictions[0].why) == (
        "notes.txt",
        "changed together with src/alpha.py in 21 of 41 commits",
    )
    assert "src/alpha.py" not in found(predictions)


def test_a_short_history_is_not_fitted(tmp_path: Path) -> None:
    git, base = told_repository(tmp_path / "r", *HISTORY[:40])
    predictions = predict_files(git, base, "Mend alpha.py")
    assert predictions[0].path == "src/alpha.py"
    assert not any(each.calibrated for each in predictions)


def test_a_fit_is_kept_for_its_tree_alone(tmp_path: Path, repo: tuple[Git, CommitId]) -> None:
    """A kept fit is used again for its tree. Another base gets its own, and a broken file is replaced."""
    git, base = repo
    cache = tmp_path / "cache"
    assert predict_files(git, base, "Mend alpha.py", cache=cache)[0].calibrated
    (kept,) = cache.iterdir()
    assert kept.name.startswith(git.text("rev-parse", f"{base}^{{tree}}"))
    kept.write_text(Calibration().encode())
    open_predictor.cache_clear()
    assert not predict_files(git, base, "Mend alpha.py", cache=cache)[0].calibrated
    assert predict_files(git, CommitId(git.text("rev-parse", f"{base}~1")), "Mend alpha.py", cache=cache)[0].calibrated
    assert len(list(cache.iterdir())) == 2
    kept.write_text("{")
    open_predictor.cache_clear()
    assert predict_files(git, base, "Mend alpha.py", cache=cache)[0].calibrated


def test_only_the_newest_fits_are_kept(tmp_path: Path, repo: tuple[Git, CommitId]) -> None:
    cache = tmp_path / "cache"
    cache.mkdir()
    for number in range(30):
        (cache / f"{number}.json").write_text("{}")
    predict_files(*repo, "Mend alpha.py", cache=cache)
    assert len(list(cache.iterdir())) == 20


def test_a_folder_that_cannot_be_written_does_no_harm(tmp_path: Path, repo: tuple[Git, CommitId]) -> None:
    (tmp_path / "file").write_text("")
    assert predict_files(*repo, "Mend alpha.py", cache=tmp_path / "file" / "cache")


def test_a_replayed_commit_knows_only_what_came_before(repo: tuple[Git, CommitId]) -> None:
    """Its tree is its parent's, the past has none of it, and half of its files are given."""
    git, base = repo
    files = dict(list_files(git, base))
    history = read_history(git, base, timeout_s=60)
    ids = git.text("rev-list", "--reverse", base).split()
    seen = 0
    for query in replay(git, history, files, read_facts(git, files.values(), timeout_s=60)):
        parent = ids[query.number - 1]
        assert query.tree.paths.keys() == dict(list_files(git, CommitId(parent))).keys()
        assert query.past.commits == query.number
        given = query.choose_given("given")
        assert set(given) <= set(query.truth) and len(given) == (len(query.truth) + 1) // 2
        seen += 1
    assert seen == len(history) - 1, "the first commit found no files"
    assert first_tree(files, history) == {}


def test_probabilities_of_the_past_hold_for_what_follows(repo: tuple[Git, CommitId]) -> None:
    """Fitted at the middle of the history, they are right for the commits after it."""
    git, base = repo
    middle = CommitId(git.text("rev-parse", f"{base}~40"))
    predicted = [
        (each.probability, each.path in files)
        for text, files in HISTORY[-40:]
        for each in predict_files(git, middle, text)
    ]
    assert calibration_error(predicted) < 0.05


def test_a_repository_that_cannot_be_read_predicts_nothing(tmp_path: Path, repo: tuple[Git, CommitId]) -> None:
    """No exception is raised."""
    assert predict_files(Git(git_dir=tmp_path / "none"), repo[1], "Mend alpha.py") == []
    assert predict_files(repo[0], CommitId("0" * 40), "Mend alpha.py") == []


def test_a_hostile_history_is_survived(tmp_path: Path) -> None:
    """Thousands of files in one commit, binary files, odd names and messages, a rename, a link, an empty message."""
    wide: dict[str, str | bytes | None] = {f"wide/{number}.py": f"import x{number}\n" for number in range(6000)}
    odd: dict[str, str | bytes | None] = {
        "\x01odd.py": "1",
        ":100644 odd": "2",
        '"line\\nbreak.py"': "3",
        "blob.bin": b"\0\1\2" * 1000,
        "link": "-> src/alpha.py",
        "{0}.py": "def brace():\n    pass\n",
    }
    commits = [
        *HISTORY[:70],
        ("Move \x01 everything {0}", wide),
        ("", odd),
        ("Rename alpha", {"src/alpha.py": None, "src/omega.py": "def run_alpha():\n    return 1\n"}),
        ("Mend \x01odd.py", {"\x01odd.py": "4", "{0}.py": "5", '"line\\nbreak.py"': "6"}),
        *((f"Mend {{0}}.py {number}", {"{0}.py": f"{number}\n"}) for number in range(5)),
    ]
    begun = time.monotonic()
    git, base = told_repository(tmp_path / "r", *commits)
    predictions = found(predict_files(git, base, "Mend `brace` in {0}.py, omega.py \x01 " + "x" * 100_000))
    assert {"src/omega.py", "{0}.py"} <= predictions.keys()
    assert all(path.isprintable() for path in predictions)
    assert predict_files(git, base, "Go on", ["{0}.py", "gone.py"])
    assert time.monotonic() - begun < 60


def test_merges_and_submodules_are_left_out(tmp_path: Path, repo: tuple[Git, CommitId]) -> None:
    """The commits of a merge hold its changes already. A submodule has no content to read."""
    folder = tmp_path / "r"
    git, base = told_repository(folder, *HISTORY)
    env = {f"GIT_{role}_{part}": "a@b" for role in ("AUTHOR", "COMMITTER") for part in ("NAME", "EMAIL")}
    tree = git.text("rev-parse", f"{base}^{{tree}}")
    side = git.text("commit-tree", tree, "-p", f"{base}~9", "-m", "Aside", env=env)
    entries = git.text("ls-tree", base) + f"\n160000 commit {base}\tvendored"
    vendored = git.text("mktree", stdin=entries.encode())
    merge = CommitId(git.text("commit-tree", vendored, "-p", base, "-p", side, "-m", "Merge Mend alpha.py", env=env))
    added = CommitId(git.text("commit-tree", vendored, "-p", merge, "-p", merge, "-m", "Empty", env=env))
    texts = [commit.text for commit in read_history(git, added, timeout_s=60)]
    assert not any("Merge" in text for text in texts)
    predictions = predict_files(git, added, "Mend alpha.py")
    assert predictions[0].path == "src/alpha.py" and predictions[0].calibrated
    assert "vendored" not in found(predictions)


def test_a_shallow_clone_is_read_as_far_as_it_goes(tmp_path: Path, repo: tuple[Git, CommitId]) -> None:
    """Old contents that are missing end the fit, not the order."""
    shallow = tmp_path / "shallow"
    url = f"file://{repo[0].git_dir}"
    subprocess.run(
        ["git", "clone", "-q", "--bare", "-b", "main", "--depth", str(FEWEST), url, str(shallow)], check=True
    )
    predictions = predict_files(Git(git_dir=shallow), repo[1], "Mend alpha.py")
    assert predictions[0].path == "src/alpha.py" and not predictions[0].calibrated


def test_an_empty_commit_has_no_files(tmp_path: Path) -> None:
    git, base = repository(tmp_path / "r", {})
    assert predict_files(git, base, "Mend alpha.py") == []
