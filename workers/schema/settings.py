"""
The door to the environment: settings are read once, at an entry point, and passed down as frozen values.

Every name below is read from `FORGEPOOL_<NAME>`. Nothing else in the four packages looks at the environment.
"""

import os
import re
import socket
import sys
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError


def _xdg(variable: str, fallback: str) -> Path:
    """The user's own XDG folder, or the specification's default below the home folder."""
    found = os.environ.get(variable, "")
    return Path(found) if Path(found).is_absolute() else Path.home() / fallback


def _own_file(name: str) -> Path | None:
    own = _xdg("XDG_CONFIG_HOME", ".config") / "forgepool" / name
    return own if own.is_file() else None


class Settings(BaseModel):
    """Where this host keeps things, and which Redis it talks to."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    def __init__(self, **given: object) -> None:
        """Read the environment for what is not given."""
        found = ((name, os.environ.get(f"FORGEPOOL_{name.upper()}")) for name in type(self).model_fields)
        super().__init__(**{name: value for name, value in found if value is not None} | given)

    home: Path = Field(default_factory=lambda: _xdg("XDG_STATE_HOME", ".local/state") / "forgepool")
    """Journals, transcripts, logs, reports: what a person keeps."""
    cache: Path = Field(default_factory=lambda: _xdg("XDG_CACHE_HOME", ".cache") / "forgepool")
    """Mirrors, pooled checkouts, set-up folders: what may be deleted at any time between runs."""
    broker_url: str | None = None
    """A shared Redis; without one a run starts its own, private Redis and workers."""
    host: str = Field(default_factory=socket.gethostname)
    """This host's name in results and reports."""
    redis_server: str | None = None
    """Path of the `redis-server` binary for one-machine runs; found when not given."""
    lease_ttl_s: float = Field(default=8.0, gt=0.5)
    """A lease not renewed for so long is lost. Renewed every quarter of it."""
    git_credential_helper: str | None = None
    """Passed to git as `credential.helper` for hubs over https; the user's own git configuration is not read."""
    gate_token: SecretStr | None = None
    """By which a hub on another host knows the gate; of a hub on this host the hub's own file is read."""
    gate_api_token: SecretStr | None = None
    """By which callers of a gate's HTTP API are known."""
    github_token: SecretStr | None = None
    gitlab_token: SecretStr | None = None
    """By which the forges know the bot that reports for the gate."""
    models: Path | None = None
    """The file that says which models there are, beside those that are known anyway; found when not given."""

    tools: Path | None = None
    """The file that says which language servers and MCP servers agents may use; found when not given."""

    sandbox: Literal["auto", "require", "off"] = "auto"
    """What must hold commands: the best that does here, bubblewrap, or, said in so many words, nothing."""
    command_memory_mb: int | None = Field(default=None, gt=0)
    """MiB of data that a command's process may have, and all of an order's where a control group can count them."""
    command_processes: int = Field(default=4096, gt=0)
    command_file_mb: int = Field(default=8192, gt=0)
    """MiB of the longest file a command may write."""

    context: str = "ledger"
    """How conversations with models are kept short where neither plan nor task says it: a context profile."""

    setup_network: Literal["none", "host"] = "none"
    """With `host`, set-up commands reach packages as this host does: its indexes, proxies and authorities."""

    policy: Path | None = None
    """The file of rules for what agents may do, laid over those that are shipped; found when not given."""

    @property
    def policy_file(self) -> Path | None:
        """The file named, or the user's own `policy.yaml` where there is one."""
        own = _xdg("XDG_CONFIG_HOME", ".config") / "forgepool" / "policy.yaml"
        return self.policy or (own if own.is_file() else None)

    @property
    def tools_file(self) -> Path | None:
        """The file named, or the user's own `tools.yaml` where there is one."""
        return self.tools or _own_file("tools.yaml")

    @property
    def models_file(self) -> Path | None:
        """The file named, or the user's own `models.yaml` where there is one."""
        return self.models or _own_file("models.yaml")


def mistake_in_settings(wrong: ValidationError) -> str | None:
    """The sentence for settings that could not be read; None when the mistake is in something else."""
    if wrong.title != Settings.__name__:
        return None
    first = wrong.errors()[0]
    name = "FORGEPOOL_" + "_".join(str(part) for part in first["loc"]).upper()
    return f"{name} is '{first['input']}': {first['msg'].lower()}; set it right, or leave it out"


_TOOLCHAINS = (
    *("RUSTUP_HOME", "RUSTUP_TOOLCHAIN", "PYENV_ROOT", "PYENV_VERSION", "RBENV_ROOT", "RBENV_VERSION", "NODENV_ROOT"),
    *("NODENV_VERSION", "GOENV_ROOT", "GOENV_VERSION", "GOROOT", "NVM_DIR", "VOLTA_HOME", "ASDF_DIR", "ASDF_DATA_DIR"),
    *("MISE_DATA_DIR", "SDKMAN_DIR", "JAVA_HOME", "ELAN_HOME", "DOTNET_ROOT", "CONDA_PREFIX", "CONDA_DEFAULT_ENV"),
)
"""Which version of its programs a person has chosen, and where these find the rest of themselves."""


def inherit_environment() -> dict[str, str]:
    """The few variables a command run for a task gets from the host: enough to find programs, no secrets."""
    kept = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "VIRTUAL_ENV", "SSL_CERT_FILE", "SSL_CERT_DIR")
    return {name: os.environ[name] for name in (*kept, *_TOOLCHAINS) if name in os.environ}


_OF_PACKAGES = re.compile(
    r"(?:PIP|UV|NPM_CONFIG|npm_config)_.+|(?:https?|all|no)_proxy|(?:HTTPS?|ALL|NO)_PROXY"
    r"|SSL_CERT_FILE|REQUESTS_CA_BUNDLE|CURL_CA_BUNDLE|NODE_EXTRA_CA_CERTS|NETRC|VIRTUAL_ENV|XDG_CONFIG_HOME"
)


def package_environment() -> dict[str, str]:
    """What this host's variables tell pip, uv and npm, passwords included. No command is given it as it is."""
    return {name: value for name, value in os.environ.items() if value and _OF_PACKAGES.fullmatch(name)}


def environment_value(name: str) -> str:
    """A variable that a file of the user's names, as `${NPM_TOKEN}` in an `.npmrc`; empty where it is not set."""
    return os.environ.get(name, "")


def put_first_on_path(folder: str) -> None:
    """Lets commands of this process and its children find the programs in a folder before all others."""
    os.environ["PATH"] = os.pathsep.join((folder, os.environ.get("PATH", os.defpath)))


def search_path() -> str:
    """Where commands are looked for."""
    return os.environ.get("PATH", os.defpath)


def programs_folder() -> str:
    """Where the programs installed beside this Python are."""
    return str(Path(sys.executable).parent)


def secret(name: str) -> str | None:
    """The value of a variable that holds a key; None where it is not set, or empty. Never shown, logged or sent on."""
    return os.environ.get(name, "").strip() or None


def fault() -> tuple[str, str] | None:
    """Where a test wants a process to die, and the file by which it dies once; None where nobody wants that."""
    point, _, file = os.environ.get("FORGEPOOL_FAULT", "").partition(":")
    return (point, file) if point and file else None


def whole_environment() -> dict[str, str]:
    """Everything this process was given, for children that are Forgepool itself (workers, Redis)."""
    return dict(os.environ)
