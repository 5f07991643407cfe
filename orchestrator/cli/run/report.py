"""`forgepool report` and `forgepool verify`: what a run did, and its proof by git."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from forgepool.orchestrator.cli.output.say import complain, say, say_json, tell_slow
from forgepool.orchestrator.cli.run.options import OptionalRun
from forgepool.workers.schema.settings import Settings
from forgepool.worktrees.errors import UserError

if TYPE_CHECKING:
    from forgepool.orchestrator.reports.proof.verify import BundleVerdict


def register(app: typer.Typer) -> None:
    app.command()(report)
    app.command()(verify)


def report(
    run: OptionalRun = None,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Write it as one self-contained HTML page.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the proof bundle, for `forgepool verify`.")] = False,
    sign_key: Annotated[
        Path | None, typer.Option("--sign-key", metavar="FILE", help="Sign the bundle with this SSH key.")
    ] = None,
) -> None:
    """Show what a run did: what landed with which proof, what did not and why, and who did what."""
    from forgepool.orchestrator.reports.proof.files import make_bundle, write_whole
    from forgepool.orchestrator.reports.report import report_lines
    from forgepool.orchestrator.run import run_folder

    settings = Settings()
    kept = run_folder.find(settings, run)
    state, recorded = kept.replay()
    if html is None and not as_json and sign_key is None:
        for line in report_lines(kept, state, recorded):
            say(line)
        return
    bundle = make_bundle(kept, state, recorded, settings, key=sign_key)
    if html is not None:
        from forgepool.orchestrator.reports.proof.page import render_page

        try:
            write_whole(html, render_page(bundle))
        except OSError as trouble:
            raise UserError(f"{html}: {trouble.strerror}; name a file in a folder that you may write to") from trouble
    if as_json or html is None:
        say_json(bundle.model_dump(mode="json"))
    else:
        say(f"{html}: {bundle.verdict}")


def verify(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A proof bundle: a run's report.json, or its run.")],
    repo: Annotated[str, typer.Option(help="Path or URL of the repository the run landed in.")] = ".",
    allowed_signers: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Ask for an SSH signature by a key in this file (see ssh-keygen)."),
    ] = None,
    run_checks: Annotated[
        bool, typer.Option("--run-checks", help="Also run the checks again on each landed tree.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> int:
    """Prove a run's report from a repository alone: what landed, by which checks and reviews, and the sums."""
    from forgepool.orchestrator.reports.proof.bundle import read_bundle
    from forgepool.orchestrator.reports.proof.verify import verify_bundle
    from forgepool.orchestrator.run.run_folder import run_names, runs_folder

    settings = Settings()
    if not file.exists() and len(runs := [name for name in run_names(settings) if name.startswith(str(file))]) == 1:
        file = runs_folder(settings) / runs[0] / "report.json"
    bundle = read_bundle(file)
    with tell_slow("proving the report" + (", and running its checks again" if run_checks else "")):
        found = verify_bundle(bundle, repo, settings, allowed_signers=allowed_signers, run_checks=run_checks)
    if as_json:
        say_json({"run": bundle.run, **found.as_json(), "holds": not found.broken})
        return 1 if found.broken else 0
    _tell(bundle.run, found)
    return 1 if found.broken else 0


def _tell(run: str, found: "BundleVerdict") -> None:
    for line in found.broken:
        say(f"does not hold: {line}")
    if found.broken:
        complain(f"the report of run {run} is not proven", 0)
        return
    say(f"run {run} is proven")
    for line in found.proven:
        say(f"  proven: {line}")
    for line in found.unproven:
        say(f"  not provable: {line}")
