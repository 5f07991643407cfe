"""docker-compose.yml and Dockerfile agree with the program, as far as that can be tested without Docker."""

import json
import os
import re
import shlex
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any, get_args

import pytest
import warm
import yaml

from forgepool.workers.llm.routing.table import read_table
from forgepool.workers.queue.broker import QUEUES
from forgepool.workers.sandbox.launch import seccomp
from forgepool.workers.schema.orders import CliProgram
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
    keys = {account.key for account in read_table(None).accounts.values()}
    given = {variable.removesuffix("_FILE") for variable in SERVICES[name]["environment"]}
    assert given <= settings | keys
    assert "FORGEPOOL_BROKER_URL" in given


def test_services_share_no_folder() -> None:
    assert not any(key in service for service in SERVICES.values() for key in ("volumes_from", "network_mode"))
    for name in ("worker", "supervisor"):
        (models,) = SERVICES[name]["volumes"]
        assert models["read_only"] and models["target"] == SERVICES[name]["environment"]["FORGEPOOL_MODELS"]


def test_the_journals_outlive_the_orchestrators_container() -> None:
    user = re.findall(r"^USER (\w+)$", DOCKERFILE, re.MULTILINE)[-1]
    kept = [volume.partition(":")[::2] for volume in SERVICES["orchestrator"]["volumes"]]
    assert ("journals", f"/home/{user}/.local/state/forgepool") in kept
    assert "journals" in COMPOSE["volumes"]
    assert f"/home/{user}/.local/state/forgepool" in DOCKERFILE, "made in the image, or root owns the volume"


def test_redis_wants_a_password_keeps_nothing_and_opens_no_port() -> None:
    redis = SERVICES["redis"]
    words = shlex.split(redis["command"][-1].replace("$$(", "$("))
    assert words[words.index("--requirepass") + 1] == "$(cat /run/secrets/redis-password)"
    assert words[words.index("--save") + 1] == ""
    assert words[words.index("--appendonly") + 1] == "no"
    assert "ports" not in redis and "volumes" not in redis


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_a_key_comes_from_a_file_that_only_its_service_has(name: str) -> None:
    """A variable would be in what `docker inspect` prints."""
    service = SERVICES[name]
    files = [value for key, value in service.get("environment", {}).items() if key.endswith("_FILE")]
    files += re.findall(r"/run/secrets/[\w-]+", " ".join(service["command"]))
    assert {f"/run/secrets/{secret}" for secret in service["secrets"]} == set(files)
    assert set(service["secrets"]) <= set(COMPOSE["secrets"])
    assert not any(word in key for key in service.get("environment", {}) for word in _SECRET if "_FILE" not in key)
    assert all(set(source) == {"environment"} for source in COMPOSE["secrets"].values())


_SECRET = ("KEY", "TOKEN", "PASSWORD", "BROKER_URL")


def test_the_recipe_for_secrets_names_all_that_are_wanted() -> None:
    text = (ROOT / "docs/how-to/hosts.md").read_text()
    wanted = {source["environment"] for source in COMPOSE["secrets"].values()}
    assert wanted == set(re.findall(r"^    ([A-Z_]+)=", text[text.index("cat > .env") :], re.MULTILINE))


@pytest.mark.parametrize("name", ["worker", "supervisor"])
def test_a_host_is_asked_whether_it_answers(name: str) -> None:
    test, *command = SERVICES[name]["healthcheck"]["test"]
    assert (test, command[0]) == ("CMD", "forgepool")
    assert_is_a_command(command[1:])


def denied() -> set[str]:
    profile = json.loads((ROOT / "docker-seccomp.json").read_text())
    assert profile["defaultAction"] == "SCMP_ACT_ALLOW"
    assert {rule["action"] for rule in profile["syscalls"]} == {"SCMP_ACT_ERRNO"}
    return {name for rule in profile["syscalls"] for name in rule["names"]}


def test_the_containers_profile_lets_through_only_what_a_sandbox_is_made_with() -> None:
    """All else that a command may not call, a container may not, either."""
    made_with = {"mount", "umount2", "pivot_root", "move_mount", "open_tree", "mount_setattr", "chroot", "setns"}
    made_with |= {"sethostname", "clone3", "openat2"}
    assert set(seccomp.REFUSED | seccomp.UNKNOWN) - denied() == made_with
    for name in ("worker", "supervisor"):
        assert "seccomp=./docker-seccomp.json" in SERVICES[name]["security_opt"]


@pytest.mark.skipif(not (shutil.which("strace") and shutil.which("bwrap")), reason="needs strace and bubblewrap")
def test_bubblewrap_makes_no_call_that_the_containers_profile_refuses(tmp_path: Path) -> None:
    calls = tmp_path / "calls"
    argv = ["bwrap", "--unshare-all", "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "true"]
    traced = subprocess.run(["strace", "-f", "-o", calls, *argv], capture_output=True, text=True)
    if traced.returncode:
        pytest.skip(f"no bubblewrap under strace: {traced.stderr}")
    seen = set(re.findall(r"^\d+ +(\w+)\(", calls.read_text(), re.MULTILINE))
    assert {"mount", "pivot_root", "execve"} <= seen
    assert seen & denied() == set()


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
    stages = re.split(r"^FROM ", DOCKERFILE, flags=re.MULTILINE)[1:]
    assert [stage.split("\n")[0].split(" AS ")[1] for stage in stages] == ["build", "base", "agents", "plain"]
    assert 'ENTRYPOINT ["forgepool"]' in stages[1]
    for stage in stages:
        assert re.findall(r"^USER (\w+)$", stage, re.MULTILINE)[-1:] not in (["root"], ["0"])


def test_the_image_of_agents_has_every_agent_that_forgepool_knows() -> None:
    agents = DOCKERFILE[DOCKERFILE.index("AS agents") :]
    known = {"claude": "claude-code", "codex": "codex", "opencode": "opencode-ai", "aider": "aider-chat"}
    assert set(known) == set(get_args(CliProgram))
    assert all(package in agents for package in known.values())


def test_what_the_image_copies_reaches_the_builder() -> None:
    rules = (ROOT / ".dockerignore").read_text().splitlines()
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", DOCKERFILE, re.MULTILINE)
    assert "*" in rules
    for source in (source for line in copied for source in line.split()):
        assert f"!{source}" in rules
