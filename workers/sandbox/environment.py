"""
What a command may know of the host: an environment built up from nothing, with a home and a tmp of its own.
"""

from collections.abc import Mapping
from pathlib import Path

OWN_PREFIX = "FORGEPOOL_"
"""Of variables that say something to Forgepool itself; no task sets one."""
_USUAL_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

_SAME_EVERYWHERE = {
    # A command behaves as on a person's machine without a terminal: no colours, no questions, no pager.
    "TERM": "dumb",
    "NO_COLOR": "1",
    "PAGER": "cat",
    "PYTHONDONTWRITEBYTECODE": "1",
    # An agent may call git itself: without anybody's configuration, and with a name to commit under.
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_PAGER": "cat",
    "GIT_AUTHOR_NAME": "Forgepool agent",
    "GIT_AUTHOR_EMAIL": "agent@forgepool.invalid",
    "GIT_COMMITTER_NAME": "Forgepool agent",
    "GIT_COMMITTER_EMAIL": "agent@forgepool.invalid",
}

UNTRACED = {"ASAN_OPTIONS": "detect_leaks=0"}
"""The search for leaks stops the process to look at it, which a sandbox refuses: every such test would fail."""


def command_environment(base: Mapping[str, str], extra: Mapping[str, str], home: Path, tmp: Path) -> dict[str, str]:
    """
    The complete environment of a command.

    `base` is what the host lends (`settings.inherited_environment()`, an allow-list), `extra` what the task
    asks for. Giving a complete environment as `base` changes nothing in it. The folders are named here, not
    made.

    Raises:
        ValueError: `extra` names a variable that is Forgepool's own.
    """
    for name in extra:
        if name.startswith(OWN_PREFIX):
            raise ValueError(f"env: {name} is Forgepool's own; use a name that does not start with {OWN_PREFIX}")
    lent = {name: value for name, value in base.items() if name != "CI"}
    return {"PATH": _USUAL_PATH, "LANG": "C.UTF-8"} | lent | _SAME_EVERYWHERE | _folders(home, tmp) | dict(extra)


def _folders(home: Path, tmp: Path) -> dict[str, str]:
    return {
        "HOME": str(home),
        "TMPDIR": str(tmp),
        "XDG_CONFIG_HOME": str(home / ".config"),
        "XDG_CACHE_HOME": str(home / ".cache"),
        "XDG_DATA_HOME": str(home / ".local" / "share"),
        "XDG_STATE_HOME": str(home / ".local" / "state"),
        "XDG_RUNTIME_DIR": str(tmp),
    }
