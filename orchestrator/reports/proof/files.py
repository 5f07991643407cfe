"""The report of a run as files: the bundle, the page, and the text, in the run's folder."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

import structlog

from forgepool.orchestrator.journal.store import Recorded
from forgepool.orchestrator.reports.leftovers import mirror_of
from forgepool.orchestrator.reports.proof.bundle import PAGE, ProofBundle
from forgepool.orchestrator.reports.proof.collect import Commands, collect, know_no_commands
from forgepool.orchestrator.reports.proof.page import render_page
from forgepool.orchestrator.reports.proof.seal import seal
from forgepool.orchestrator.reports.report import report_lines
from forgepool.orchestrator.run.run_folder import KeptRun
from forgepool.orchestrator.state.run import RunState
from forgepool.workers.policy.gate_file.reading import read_gate
from forgepool.workers.schema.mistakes import DocumentWrong
from forgepool.workers.schema.settings import Settings
from forgepool.worktrees.commits.changes import FileTooLarge
from forgepool.worktrees.git.git import CommitId, GitFailed
from forgepool.worktrees.hub.hub import HubUnusable

log = structlog.get_logger()


def make_bundle(
    kept: KeptRun, state: RunState, recorded: Sequence[Recorded], settings: Settings, *, key: Path | None = None
) -> ProofBundle:
    """Return the run's bundle with its seal. Without the hub it lacks the commands of the target's own checks."""
    return seal(collect(kept, state, recorded, commands=_commands(kept, settings)), key=key)


def _commands(kept: KeptRun, settings: Settings) -> Commands:
    try:
        git = mirror_of(kept.options.hub, settings).git
    except (GitFailed, HubUnusable, OSError):
        return know_no_commands
    plan_checks = kept.plan.checks if isinstance(kept.plan.checks, tuple) else ()

    @lru_cache(maxsize=1000)
    def read_commands(base: str) -> Mapping[str, str]:
        try:
            return {check.name: check.run for check in read_gate(git, CommitId(base), plan_checks).checks}
        except (GitFailed, DocumentWrong, FileTooLarge):
            return {}

    return read_commands


def write_report(kept: KeptRun, settings: Settings) -> None:
    """
    Write `report.json`, `report.html` and `report.md` into the run's folder, each whole or not at all; for a run that
    was led, `synthesis.md`, too.

    It never fails: a run's outcome does not depend on its report, which `forgepool report` can make again.
    """
    try:
        state, recorded = kept.replay()
        bundle = make_bundle(kept, state, recorded, settings)
        if bundle.synthesis:
            write_whole(kept.folder / "synthesis.md", "\n".join((f"# Run {state.run}", "", *bundle.synthesis, "")))
        write_whole(kept.folder / "report.json", bundle.model_dump_json(indent=1))
        write_whole(kept.folder / PAGE, render_page(bundle))
        write_whole(kept.folder / "report.md", "\n".join(report_lines(kept, state, recorded)) + "\n")
    except Exception as trouble:
        with suppress(OSError):
            (kept.folder / PAGE).unlink(missing_ok=True)
        log.warning("report.unwritten", run=kept.options.run, why=f"{type(trouble).__name__}: {trouble}")


def write_whole(path: Path, text: str) -> None:
    draft = path.with_name(f"{path.name}.draft")
    draft.write_text(text, encoding="utf-8", errors="backslashreplace")
    draft.replace(path)
