"""
The environment, read here alone: settings are read once at an entry point and passed down as frozen values.

Every setting below is read from `FORGEPOOL_<NAME>`; a secret may be in the file that `FORGEPOOL_<NAME>_FILE` names.
"""

import os
import re
import socket
import sys
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError

from forgepool.worktrees.errors import UserError


def _xdg(variable: str, fallback: str) -> Path:
    """Return the user's XDG folder, or its default below the home folder."""
    found = os.environ.get(variable, "")
    return Path(found) if Path(found).is_absolute() else Path.home() / fallback


def own_path(name: str) -> Path:
    """Return where the user's own file of this name is, or would be."""
    return _xdg("XDG_CONFIG_HOME", ".config") / "forgepool" / name


def _own_file(name: str) -> Path | None:
    return own if (own := own_path(name)).is_file() else None


def _login() -> str:
    import getpass

    try:
        return getpass.getuser()
    except (KeyError, OSError):  # No user has that number, as in some containers.
        return "unknown"


_SECRETS = (
    "broker_url",
    "fleet_key",
    "gate_token",
    "gate_api_token",
    "github_token",
    "gitlab_token",
    "notify",
    "notify_key",
)
"""The settings that may also be in a file, which `FORGEPOOL_<NAME>_FILE` names. Their values are never shown."""


class Settings(BaseModel):
    """The settings of this host."""

    model_config = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True)

    def __init__(self, **given: object) -> None:
        """Read the environment for settings that are not given."""
        names = {name: f"FORGEPOOL_{name.upper()}" for name in type(self).model_fields if name not in given}
        found = {name: (secret if name in _SECRETS else os.environ.get)(names[name]) for name in names}
        super().__init__(**{name: value for name, value in found.items() if value is not None} | given)

    home: Path = Field(default_factory=lambda: _xdg("XDG_STATE_HOME", ".local/state") / "forgepool")
    """The folder of journals, transcripts, logs and reports, which a person keeps."""
    cache: Path = Field(default_factory=lambda: _xdg("XDG_CACHE_HOME", ".cache") / "forgepool")
    """The folder of mirrors, pooled checkouts and set-up folders, which may be deleted between runs."""
    broker_url: str | None = None
    """The URL of a shared Redis; without one a run starts its own Redis and workers."""
    fleet_key: SecretStr | None = Field(default=None, min_length=32)
    """The key by which all processes of a fleet sign their messages; without one messages are not signed."""
    celery_events: bool = False
    """Workers send Celery's events and answer its remote control, for Flower, celery-exporter and `celery inspect`."""
    person: str = Field(default_factory=_login)
    """The name under which the runs started here count in the treasury."""
    host: str = Field(default_factory=socket.gethostname)
    """This host's name in results and reports."""
    redis_server: str | None = None
    """The `redis-server` program for runs on one machine; searched for when not given."""
    lease_ttl_s: float = Field(default=8.0, gt=0.5)
    """Seconds after which a lease that is not renewed is lost; it is renewed every quarter of that."""
    git_credential_helper: str | None = None
    """The `credential.helper` of git for hubs over https; the user's own git configuration is not read."""
    gate_token: SecretStr | None = None
    """The token by which a hub on another host knows the queue; a hub on this host has a file for it."""
    gate_api_token: SecretStr | None = None
    """The token that callers of the queue's HTTP API show."""
    watch_token: SecretStr | None = None
    """A token of `forgepool serve` on another machine, for `forgepool watch URL`."""
    github_token: SecretStr | None = None
    gitlab_token: SecretStr | None = None
    """The tokens by which GitHub and GitLab know the bot that reports for the queue."""
    notify: SecretStr | None = None
    """A URL or a command that is notified about runs; without one nothing is sent."""
    notify_key: SecretStr | None = Field(default=None, min_length=16)
    """The key by which notifications are signed; without one they are not."""
    notify_quiet: str = ""
    """Hours in which no person is called, such as `22-7`, by this machine's clock; empty for none."""
    models: Path | None = None
    """The file of models in addition to those built in; searched for when not given."""

    tools: Path | None = None
    """The file of language servers and MCP servers that agents may use; searched for when not given."""

    sandbox: Literal["auto", "require", "off"] = "auto"
    """The sandbox commands need: the best this host has (`auto`), bubblewrap (`require`), or none (`off`)."""
    command_memory_mb: int | None = Field(default=None, gt=0)
    """MiB of data per process of a command, and per order where a control group counts them."""
    command_processes: int = Field(default=4096, gt=0)
    command_file_mb: int = Field(default=8192, gt=0)
    """MiB of the longest file a command may write."""
    command_disk_mb: int = Field(default=32_768, gt=0)
    """MiB of all files together that an order's commands make."""

    context: str = "ledger"
    """The context profile of conversations for which neither plan nor task names one."""

    setup_network: Literal["none", "host"] = "none"
    """With `host`, set-up commands reach packages as this host does, through its indexes, proxies and authorities."""

    policy: Path | None = None
    """The file of rules for agents, on top of the built-in rules; searched for when not given."""

    treasury: Path | None = None
    """The file of limits on what all runs use; `treasury.yaml` in the home when not given."""

    @property
    def treasury_file(self) -> Path | None:
        """Return the file of limits that is set, or the home's if it exists."""
        own = self.home / "treasury.yaml"
        return self.treasury or (own if own.is_file() else None)

    @property
    def policy_file(self) -> Path | None:
        """Return the policy file that is set, or the user's `policy.yaml` if it exists."""
        return self.policy or _own_file("policy.yaml")

    @property
    def tools_file(self) -> Path | None:
        """Return the tools file that is set, or the user's `tools.yaml` if it exists."""
        return self.tools or _own_file("tools.yaml")

    @property
    def models_file(self) -> Path | None:
        """Return the models file that is set, or the user's `models.yaml` if it exists."""
        return self.models or _own_file("models.yaml")


def mistake_in_settings(wrong: ValidationError) -> str | None:
    """Return the sentence for a setting that cannot be read; None when the error is about something else."""
    if wrong.title != Settings.__name__:
        return None
    first = wrong.errors()[0]
    field = "_".join(str(part) for part in first["loc"])
    name = f"FORGEPOOL_{field.upper()}"
    if field in _SECRETS:
        limit = first.get("ctx", {}).get("min_length", 1)
        return f"{name} is too short: a key has at least {limit} characters; make one with `openssl rand -hex 32`"
    return f"{name} is '{first['input']}': {first['msg'].lower()}; set it right, or leave it out"


_TOOLCHAINS = (
    *("RUSTUP_HOME", "RUSTUP_TOOLCHAIN", "PYENV_ROOT", "PYENV_VERSION", "RBENV_ROOT", "RBENV_VERSION", "NODENV_ROOT"),
    *("NODENV_VERSION", "GOENV_ROOT", "GOENV_VERSION", "GOROOT", "NVM_DIR", "VOLTA_HOME", "ASDF_DIR", "ASDF_DATA_DIR"),
    *("MISE_DATA_DIR", "SDKMAN_DIR", "JAVA_HOME", "ELAN_HOME", "DOTNET_ROOT", "CONDA_PREFIX", "CONDA_DEFAULT_ENV"),
)
"""Variables that select versions of programs, and that tell programs where the rest of them is installed."""


def inherit_environment() -> dict[str, str]:
    """Return the few variables that a task's commands inherit from the host: enough to find programs, no secrets."""
    kept = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "VIRTUAL_ENV", "SSL_CERT_FILE", "SSL_CERT_DIR")
    return {name: os.environ[name] for name in (*kept, *_TOOLCHAINS) if name in os.environ}


_OF_PACKAGES = re.compile(
    r"(?:PIP|UV|NPM_CONFIG|npm_config)_.+|(?:https?|all|no)_proxy|(?:HTTPS?|ALL|NO)_PROXY"
    r"|SSL_CERT_FILE|REQUESTS_CA_BUNDLE|CURL_CA_BUNDLE|NODE_EXTRA_CA_CERTS|NETRC|VIRTUAL_ENV|XDG_CONFIG_HOME"
)


def package_environment() -> dict[str, str]:
    """Return this host's variables for pip, uv and npm, including passwords. No command gets them unchanged."""
    return {name: value for name, value in os.environ.items() if value and _OF_PACKAGES.fullmatch(name)}


def environment_value(name: str) -> str:
    """Return a variable that a user's file refers to, as `${NPM_TOKEN}` in an `.npmrc`; empty where it is not set."""
    return os.environ.get(name, "")


def put_first_on_path(folder: str) -> None:
    """Let this process and its children look for programs in a folder first."""
    os.environ["PATH"] = os.pathsep.join((folder, os.environ.get("PATH", os.defpath)))


def search_path() -> str:
    """Return the PATH that programs are looked for in."""
    return os.environ.get("PATH", os.defpath)


def programs_folder() -> str:
    """Return the folder of the programs installed with this Python."""
    return str(Path(sys.executable).parent)


def secret(name: str) -> str | None:
    """
    Return a key from the environment, or from the file that `<NAME>_FILE` names; None where it is missing or empty.

    It is never shown, logged or sent on.

    Raises:
        UserError: the file cannot be read.
    """
    given, file = os.environ.get(name, "").strip(), os.environ.get(f"{name}_FILE", "")
    if not given and file:
        try:
            given = Path(file).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as trouble:
            why = trouble.strerror if isinstance(trouble, OSError) else "it is not UTF-8 text"
            raise UserError(f"{name}_FILE is '{file}', which cannot be read: {why}; name a file with the key") from None
    return given or None


def fault() -> tuple[str, str] | None:
    """Return the place where a test wants a process to die, and the file that marks its death; normally None."""
    point, _, file = os.environ.get("FORGEPOOL_FAULT", "").partition(":")
    return (point, file) if point and file else None


def whole_environment() -> dict[str, str]:
    """Return the whole environment, for children that are Forgepool itself (workers, Redis)."""
    return dict(os.environ)
