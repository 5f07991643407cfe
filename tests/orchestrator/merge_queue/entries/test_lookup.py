"""Which queue of a home is meant, if several serve branches of the same name."""

import subprocess
from pathlib import Path

import pytest
from tiny_hub import make_hub

from forgepool.orchestrator.merge_queue import lookup
from forgepool.orchestrator.run.run_folder import KeptRun, RunOptions
from forgepool.workers.schema.settings import Settings


def _kept(name: str, hub: Path) -> KeptRun:
    options = RunOptions(run=name, hub=str(hub), target="main", workers=1, plan_file="", plan_file_digest="", gate=True)
    return KeptRun(hub, options, None, None)  # type: ignore[arg-type]


def test_of_several_queues_that_of_the_repository_at_hand_is_meant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: dict[str, KeptRun] = {}
    for name in ("one", "two"):
        hub = make_hub(tmp_path / f"{name}.git").path
        subprocess.run(["git", "clone", "-q", str(hub), str(tmp_path / name)], check=True, capture_output=True)
        kept[f"gate-{name}"] = _kept(f"gate-{name}", hub)
    monkeypatch.setattr(lookup.run_folder, "run_names", lambda _: list(kept))
    monkeypatch.setattr(lookup.run_folder, "open_run", lambda _, name, with_course: kept[name])
    monkeypatch.chdir(tmp_path / "two")

    def meant(hub: Path | None = None) -> list[str]:
        found = lookup.find_queues(Settings(), None, str(hub) if hub else None)
        return [one.options.run for one in found]

    assert meant() == ["gate-two"]
    assert meant(tmp_path / "one.git" / "hub.git") == ["gate-one"]
    monkeypatch.chdir(tmp_path)
    assert meant() == ["gate-one", "gate-two"], "outside of any repository all are meant"
