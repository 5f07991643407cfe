"""Settings come from the environment once, and a task's commands see only what finds programs."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from forgepool.workers.schema.settings import Settings, inherit_environment


def test_every_setting_is_read_from_its_own_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("HOME", "/h"), ("CACHE", "/c"), ("BROKER_URL", "redis://x"), ("LEASE_TTL_S", "3")):
        monkeypatch.setenv(f"FORGEPOOL_{name}", value)
    read = Settings()
    assert (read.home, read.cache, read.broker_url, read.lease_ttl_s) == (Path("/h"), Path("/c"), "redis://x", 3.0)


@pytest.mark.parametrize(("said", "home"), [("/x", Path("/x/forgepool")), ("not/absolute", None), ("", None)])
def test_a_users_own_folders_are_kept_to_where_they_are_absolute(
    monkeypatch: pytest.MonkeyPatch, said: str, home: Path | None
) -> None:
    monkeypatch.delenv("FORGEPOOL_HOME", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", said)
    assert Settings().home == (home or Path.home() / ".local/state/forgepool")


def test_a_lease_too_short_to_be_renewed_is_refused() -> None:
    with pytest.raises(ValidationError):
        Settings(lease_ttl_s=0.1)


def test_settings_do_not_change() -> None:
    with pytest.raises(ValidationError):
        Settings().host = "another"  # type: ignore[misc]  # that is the point


def test_a_command_run_for_a_task_inherits_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-secret")
    monkeypatch.setenv("FORGEPOOL_BROKER_URL", "redis://:secret@host")
    monkeypatch.setenv("PATH", "/bin")
    found = inherit_environment()
    assert found["PATH"] == "/bin" and not any("secret" in value for value in found.values())
