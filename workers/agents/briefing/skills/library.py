"""
Where skills are found: those that ship, and the repository's own at the commit the work starts from.
"""

from functools import cache
from importlib import resources

from forgepool.workers.agents.briefing.skills.role import Skill, parse_skill
from forgepool.workers.schema.mistakes import DocumentWrong, Mistake, nearest
from forgepool.worktrees.commits.changes import FileTooLarge, read_file
from forgepool.worktrees.git.git import CommitId, Git

FOLDER = ".forgepool/skills"
_MOST_BYTES = 64 * 1024


def find_skill(name: str, git: Git, base: CommitId) -> Skill:
    """
    The repository's skill of that name at `base`, else the built-in one.

    Raises:
        DocumentWrong: there is none of that name, or its file is wrong; one sentence, with file and line.
        GitFailed: the repository cannot be read.
    """
    own = repository_skills(git, base)
    if name in own:
        return _repository_skill(name, git, base)
    if name in builtin_skills():
        return builtin_skill(name)
    known = sorted({*own, *builtin_skills()})
    meant = nearest(name, known, count=2)
    more = f"did you mean {' or '.join(meant)}?" if meant else f"skills are: {', '.join(known)}"
    raise DocumentWrong(f"skill '{name}'", [Mistake(0, f"is neither built in nor in {FOLDER}/ at the base; {more}")])


@cache
def builtin_skills() -> tuple[str, ...]:
    """The names of those that ship, sorted."""
    files = resources.files("forgepool.workers.agents.briefing.skills").iterdir()
    return tuple(sorted(file.name.removesuffix(".md") for file in files if file.name.endswith(".md")))


@cache
def builtin_skill(name: str) -> Skill:
    text = (
        resources.files("forgepool.workers.agents.briefing.skills").joinpath(f"{name}.md").read_text(encoding="utf-8")
    )
    return parse_skill(text, f"{name}.md", name)


def repository_skills(git: Git, base: CommitId) -> tuple[str, ...]:
    """The names of the repository's own, sorted, whether they are right or not."""
    paths = git.run("ls-tree", "-z", "--name-only", "--full-tree", base, f"{FOLDER}/").fields
    names = (path.rpartition("/")[2] for path in paths)
    return tuple(sorted(name.removesuffix(".md") for name in names if name.endswith(".md")))


def _repository_skill(name: str, git: Git, base: CommitId) -> Skill:
    file = f"{FOLDER}/{name}.md"
    try:
        data = read_file(git, base, file, cap=_MOST_BYTES) or b""
        text = data.decode("utf-8")
    except FileTooLarge as large:
        raise DocumentWrong(file, [Mistake(0, f"is larger than {_MOST_BYTES:,} bytes; shorten it")]) from large
    except UnicodeDecodeError as wrong:
        line = data.count(b"\n", 0, wrong.start) + 1
        raise DocumentWrong(file, [Mistake(line, "is not UTF-8 text; save the file as UTF-8")]) from wrong
    return parse_skill(text, file, name)
