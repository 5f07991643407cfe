"""
What a run brings home before its refs in the hub are removed: the transcripts of attempts that were made elsewhere.
"""

from pathlib import Path

from forgepool.workers.workspace.checkpoints import transcripts
from forgepool.workers.workspace.workspace import TRANSCRIPT, attempt_logs
from forgepool.worktrees.hub.mirror import Mirror


def bring_home(mirror: Mirror, run: str, folder: Path) -> None:
    """
    Writes every transcript that the hub keeps and the run's folder lacks; one that is here was made here, and is whole.

    Raises:
        GitFailed: the hub could not be asked.
    """
    for task, attempt, text in transcripts(mirror, run):
        place = attempt_logs(folder, task, attempt) / TRANSCRIPT
        if not place.exists():
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(text)
