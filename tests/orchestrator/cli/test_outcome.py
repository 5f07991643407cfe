"""The end of a run as a terminal shows it."""

from pathlib import Path

import pytest
from plans import begun, course, task

from forgepool.orchestrator.cli.output import progress
from forgepool.orchestrator.run.run_folder import KeptRun, RunOptions
from forgepool.workers.schema.settings import Settings

OF = course(task("a"))


def test_the_end_of_a_run_reads_its_hub_in_the_cache_of_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The demo has its own cache and leaves nothing in the person's."""
    read: list[Path] = []

    def nothing_kept(mirror: Path, _: object) -> dict[str, list[str]]:
        read.append(mirror)
        return {}

    def cache_of(_: str, settings: Settings) -> Path:
        return settings.cache

    monkeypatch.setattr(progress, "mirror_of", cache_of)
    monkeypatch.setattr(progress, "refs_left", nothing_kept)
    options = RunOptions(run="r-1", hub="/hub", target="t", workers=1, plan_file="p", plan_file_digest="d")
    own = Settings().model_copy(update={"cache": tmp_path / "own"})
    kept = KeptRun(tmp_path, options, OF.plan, OF)
    progress.tell_outcome(kept, begun(OF), "ended", as_json=False, settings=own)
    assert read == [tmp_path / "own"]
