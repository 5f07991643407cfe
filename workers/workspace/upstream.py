"""
What the tasks before this one have come to, for its card: a summary or all of it, and where all of it can be read.

The full result of each is written into a file; a card names the file whatever it quotes, so that an agent that was
given the summary can read the rest. The form of the section is V-014's.
"""

import re
from collections.abc import Sequence
from pathlib import Path

from forgepool.workers.schema.orders import Prior
from forgepool.worktrees.git.git import Git, GitFailed

_DIFF_BYTES = 100_000
_DIFF_S = 30.0
_SPOOFS = re.compile(r"^(?=#|\[From |PRIOR ANALYSIS:)", re.MULTILINE)
"""Lines that would look like the card's own."""


def write_priors(priors: Sequence[Prior], folder: Path, git: Git) -> str:
    """
    Writes `<folder>/results/<task>.md` for each, and answers the section of the card; empty without priors.

    The text of a summary is what its agent claimed. It can end neither its own part nor the section.
    """
    if not priors:
        return ""
    results = folder / "results"
    results.mkdir(parents=True, exist_ok=True)
    return "\n".join(["PRIOR ANALYSIS:", *(_written(prior, results, git) for prior in priors)])


def _written(prior: Prior, results: Path, git: Git) -> str:
    path = results / f"{prior.task}.md"
    full = full_result(prior, git)
    path.write_text(full, encoding="utf-8")
    content = full if prior.full else prior.summary.strip() or "(its agent gave no summary)"
    return f"[From {prior.task} — full: {path}]\n{_SPOOFS.sub('    ', content.rstrip())}"


def full_result(prior: Prior, git: Git) -> str:
    """Title, summary, paths and the diff that landed, as text."""
    parts = [
        f"Task {prior.task}: {prior.title}".rstrip(": "),
        f"Its agent says:\n{prior.summary.strip() or '(nothing)'}",
        f"Landed as commit {prior.commit or '(none: it changed nothing)'}",
    ]
    if prior.paths:
        parts.append("Paths it changed:\n" + "\n".join(f"- {path}" for path in prior.paths))
    if prior.commit:
        parts.append(f"Its diff:\n{_diff(prior.commit, git)}")
    return "\n\n".join(parts) + "\n"


def _diff(commit: str, git: Git) -> str:
    """Against the first parent: what the landing changed of the target, also where it is a merge."""
    shown = ("show", "--first-parent", "-m", "-p", "-M", "--irreversible-delete", "--format=", "--no-color")
    try:
        said = git.run(*shown, "--no-ext-diff", "--no-textconv", commit, timeout_s=_DIFF_S).stdout
    except GitFailed as failed:
        return f"(it could not be had: {failed})"
    text = said[:_DIFF_BYTES].decode("utf-8", "replace").strip("\n")
    missing = len(said) - _DIFF_BYTES
    return f"{text}\n({missing:,} more bytes of the diff are left out)" if missing > 0 else text
