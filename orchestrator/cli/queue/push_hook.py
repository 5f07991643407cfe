"""`forgepool gate install-hook` and `remove-hook`: git's pre-push hook that runs the gate on what is pushed."""

import re
import shlex
from pathlib import Path
from typing import Annotated

import typer

from forgepool.orchestrator.cli.output.say import say
from forgepool.orchestrator.launch.commits import open_repository
from forgepool.orchestrator.run.hub import CannotRun
from forgepool.workers.policy.gate_file.document import GATE_FILE
from forgepool.workers.schema.settings import programs_folder
from forgepool.worktrees.git.git import Git
from forgepool.worktrees.hub.protect import find_hooks

_MARK = "# Written by `forgepool gate install-hook`; `forgepool gate remove-hook` removes it."
_HOOK = """\
#!/bin/sh
{mark}
# Each branch that is pushed must pass the gate of this branch of the remote. $1 is the remote's name.
branch={branch}
forgepool={program}
base=refs/remotes/$1/$branch
while read -r _ head ref _; do
    case $ref in refs/heads/*) ;; *) continue ;; esac # a tag, or notes
    case $head in *[!0]*) ;; *) continue ;; esac # a branch that is deleted
    if ! git cat-file -e "$base:forgepool.yaml" 2>/dev/null; then
        echo "gate: $ref is not checked: the remote's $branch is not known here, or has no forgepool.yaml" >&2
    elif ! git merge-base "$base" "$head" >/dev/null; then
        echo "gate: $ref is not checked: it has no commit in common with the remote's $branch" >&2
    elif ! command -v "$forgepool" >/dev/null; then
        echo "gate: there is no $forgepool any more; call 'forgepool gate install-hook' again" >&2
        exit 1
    else
        "$forgepool" gate check --base "$base" --head "$head" --author-family none </dev/null || exit 1
    fi
done
"""
_FIELDS = re.compile(r"^branch=(.*)\nforgepool=(.*)$", re.MULTILINE)
Repo = Annotated[str, typer.Option(help="A folder of the repository.")]


def register(gate: typer.Typer) -> None:
    gate.command("install-hook")(install_hook)
    gate.command("remove-hook")(remove_hook)


def install_hook(
    base: Annotated[
        str | None,
        typer.Option(metavar="BRANCH", help="The remote's branch whose gate counts; default: the default branch."),
    ] = None,
    repo: Repo = ".",
) -> None:
    """Let git run the gate before each push, as on a person's change. Hooks of other tools, or changed, are kept."""
    git, path = _hook(repo)
    branch = base or _default_branch(git)
    if _is_foreign(path):
        there = shlex.quote(f"origin/{branch}")
        line = f"forgepool gate check --base {there} --head HEAD --author-family none </dev/null || exit 1"
        raise CannotRun(
            f"{path} is a hook of another tool, or changed by hand, and was left alone; add this line to it: {line}"
        )
    path.parent.mkdir(exist_ok=True)
    program = Path(programs_folder()) / "forgepool"
    path.write_text(_fill(shlex.quote(branch), shlex.quote(str(program) if program.exists() else program.name)))
    path.chmod(0o755)
    say(f"wrote {path}: what you push must pass the gate of {branch}; `git push --no-verify` goes past it")
    if git.run("cat-file", "-e", f"refs/remotes/origin/{branch}:{GATE_FILE}", ok=(0, 1, 128)).status != 0:
        say(f"origin/{branch} has no {GATE_FILE} yet; the hook checks nothing until it has one")


def remove_hook(repo: Repo = ".") -> None:
    """Remove the hook that `install-hook` wrote."""
    _, path = _hook(repo)
    if _is_foreign(path):
        raise CannotRun(f"{path} is a hook of another tool, or changed by hand, and was left alone; edit it by hand")
    say(f"removed {path}" if path.exists() else "there is no pre-push hook")
    path.unlink(missing_ok=True)


def _hook(repo: str) -> tuple[Git, Path]:
    """
    Return the repository and the path of its pre-push hook.

    Raises:
        CannotRun: another tool keeps its hooks elsewhere.
    """
    facts = open_repository(repo).facts
    assert facts.local is not None, "a repository on this host has a folder"
    git = Git(git_dir=facts.local)
    hooks = find_hooks(git)
    if hooks != facts.local / "hooks":
        raise CannotRun(
            f"core.hooksPath leads to {hooks.name}, whose hooks another tool keeps; call `forgepool gate check` there"
        )
    return git, hooks / "pre-push"


def _is_foreign(path: Path) -> bool:
    """Tell if a hook is there that is not, to the letter, what `install-hook` writes for some branch and program."""
    if path.is_symlink() or not path.exists():
        return path.is_symlink()
    text = path.read_text(errors="replace")
    found = _FIELDS.search(text)
    return found is None or any(one != _quote_again(one) for one in found.groups()) or text != _fill(*found.groups())


def _fill(branch: str, program: str) -> str:
    return _HOOK.format(mark=_MARK, branch=branch, program=program)


def _quote_again(word: str) -> str:
    """Return one quoted word as we would have quoted it; empty where it is none, or several."""
    try:
        (said,) = shlex.split(word)
    except ValueError:
        return ""
    return shlex.quote(said)


def _default_branch(git: Git) -> str:
    """Return the default branch of `origin`, as the clone knows it."""
    head = git.run("symbolic-ref", "--quiet", "refs/remotes/origin/HEAD", ok=(0, 1))
    if head.status == 0:
        return head.text.removeprefix("refs/remotes/origin/")
    if git.run("rev-parse", "--quiet", "--verify", "refs/remotes/origin/main", ok=(0, 1)).status == 0:
        return "main"
    raise CannotRun("it is not known which branch of the remote counts; name it, such as --base main")
