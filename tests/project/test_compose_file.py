"""docker-compose.yml and Dockerfile agree with the program, as far as that can be tested without Docker."""

import os
import re
import shlex
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import warm
import yaml

from forgepool.workers.queue.broker import QUEUES
from forgepool.workers.schema.settings import Settings

ROOT = Path(__file__).parents[2]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = sorted(name for name, service in SERVICES.items() if service["image"] == "forgepool")
DOCKERFILE = (ROOT / "Dockerfile").read_text()


@cache
def options_of(*command: str) -> frozenset[str]:
    """Return the options in `forgepool COMMAND --help`. The test fails if the command does not exist."""
    asked = warm.forgepool([*command, "--help"], cwd=ROOT, env=os.environ)
    assert asked.returncode == 0, f"forgepool {' '.join(command)}: {asked.stderr}"
    return frozenset(re.findall(r"--[a-z-]+", asked.stdout))


@cache
def has_commands(command: str) -> bool:
    """Return whether it is a group of commands, such as `forgepool gate`."""
    asked = warm.forgepool([command, "--help"], cwd=ROOT, env=os.environ)
    return "COMMAND [ARGS]" in asked.stdout


def assert_is_a_command(words: list[str]) -> None:
    command, *rest = words
    used = {word.partition("=")[0] for word in rest if word.startswith("--")}
    named = (command, *rest[:1]) if has_commands(command) and rest and not rest[0].startswith("-") else (command,)
    assert used <= options_of(*named), f"forgepool {' '.join(words)}"


def test_the_parts_are_redis_orchestrator_worker_and_supervisor() -> None:
    assert set(SERVICES) == {"redis", "orchestrator", "worker", "supervisor"}
    assert OURS == ["orchestrator", "supervisor", "worker"]


@pytest.mark.parametrize("name", OURS)
def test_a_service_runs_a_command_that_forgepool_has(name: str) -> None:
    words = SERVICES[name]["command"]
    assert all(isinstance(word, str) for word in words)
    assert_is_a_command(words)


def test_a_command_nobody_has_would_be_noticed() -> None:
    with pytest.raises(AssertionError, match="forgepool labour"):
        assert_is_a_command(["labour"])
    with pytest.raises(AssertionError, match="--queue "):
        assert_is_a_command(["worker", "--queue", "orders"])


def test_every_queue_that_carries_messages_has_somebody_who_listens() -> None:
    words = SERVICES["worker"]["command"]
    listened = set(words[words.index("--queues") + 1].split(","))
    assert listened <= set(QUEUES)
    assert listened | {"checks", "landings", "reviews"} == set(QUEUES), "the supervisor listens to the last three"


@pytest.mark.parametrize("document", ["docker-compose.yml", "README.md", "docs/how-to/hosts.md"])
def test_a_command_shown_to_people_exists(document: str) -> None:
    text = (ROOT / document).read_text()
    shown = re.findall(r"docker compose run --rm orchestrator (.+)", text)
    shown += re.findall(r"^(?:    )?(?:\$ )?(?:[A-Z_]+=\S+ )*forgepool (.+)$", text, re.MULTILINE)
    assert shown
    for line in shown:
        words = shlex.split(line.rstrip("`"), comments=True)
        if not words[0].startswith("--"):
            assert_is_a_command([word for word in words if word != "..."])


@pytest.mark.parametrize("name", OURS)
def test_a_services_environment_names_settings_that_exist(name: str) -> None:
    settings = {f"FORGEPOOL_{field.upper()}" for field in Settings.model_fields}
    given = set(SERVICES[name]["environment"])
    assert given <= settings
    assert "FORGEPOOL_BROKER_URL" in given


def test_services_share_no_folder() -> None:
    mounted = [volume.partition(":")[0] for service in SERVICES.values() for volume in service.get("volumes", ())]
    assert len(mounted) == len(set(mounted))
    assert not any(key in service for service in SERVICES.values() for key in ("volumes_from", "network_mode"))
    assert "volumes" not in SERVICES["worker"] and "volumes" not in SERVICES["supervisor"]


def test_the_journals_outlive_the_orchestrators_container() -> None:
    user = re.findall(r"^USER (\w+)$", DOCKERFILE, re.MULTILINE)[-1]
    kept = [volume.partition(":")[::2] for volume in SERVICES["orchestrator"]["volumes"]]
    assert ("journals", f"/home/{user}/.local/state/forgepool") in kept
    assert "journals" in COMPOSE["volumes"]
    assert f"/home/{user}/.local/state/forgepool" in DOCKERFILE, "made in the image, or root owns the volume"


def test_redis_wants_a_password_keeps_nothing_and_opens_no_port() -> None:
    redis = SERVICES["redis"]
    words = redis["command"]
    assert words[words.index("--requirepass") + 1].startswith("${REDIS_PASSWORD:?")
    assert words[words.index("--save") + 1] == ""
    assert words[words.index("--appendonly") + 1] == "no"
    assert "ports" not in redis and "volumes" not in redis


@pytest.mark.parametrize("name", OURS)
def test_no_password_is_written_down(name: str) -> None:
    assert "redis://:${REDIS_PASSWORD:?" in SERVICES[name]["environment"]["FORGEPOOL_BROKER_URL"]


def test_workers_scale_and_the_orchestrator_starts_only_when_asked() -> None:
    assert SERVICES["worker"]["deploy"]["replicas"] >= 2
    assert not any("container_name" in service for service in SERVICES.values()), "a name can be had only once"
    assert SERVICES["orchestrator"]["profiles"]
    assert not any("profiles" in SERVICES[name] for name in ("redis", "worker", "supervisor"))


def test_the_image_holds_every_package_and_runs_as_an_ordinary_user() -> None:
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", DOCKERFILE, re.MULTILINE)
    sources = {source for line in copied for source in line.split()}
    packages = {path.parent.name for path in ROOT.glob("*/__init__.py") if path.parent.name != "tests"}
    assert packages | {"examples", "pyproject.toml", "README.md"} == sources
    assert all((ROOT / source).exists() for source in sources)
    assert re.findall(r"^USER (\w+)$", DOCKERFILE, re.MULTILINE)[-1] not in ("root", "0")
    assert 'ENTRYPOINT ["forgepool"]' in DOCKERFILE


def test_what_the_image_copies_reaches_the_builder() -> None:
    rules = (ROOT / ".dockerignore").read_text().splitlines()
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", DOCKERFILE, re.MULTILINE)
    assert "*" in rules
    for source in (source for line in copied for source in line.split()):
        assert f"!{source}" in rules
