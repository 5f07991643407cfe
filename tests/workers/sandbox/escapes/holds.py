"""The layers of each run of the attempts, by the run's name."""

from attempt import Layer

Layers = frozenset[Layer]

FIRST_CHOICE: Layers = frozenset(
    ("door", "user", "root", "pids", "network", "ipc", "seccomp", "scope", "limits"),
)
FALLBACK: Layers = frozenset(("door", "files", "filter", "keeper", "limits"))

ALONE: dict[str, Layers] = {
    "off": frozenset(("door",)),
    "seccomp": frozenset(("seccomp",)),
    "filter": frozenset(("filter",)),
    "scope": frozenset(("scope",)),
    "files": frozenset(("files",)),
    "limits": frozenset(("limits",)),
    # The launcher's preparation for bwrap, without bwrap.
    "launcher": frozenset(("door", "scope", "limits")),
    # Each namespace comes with a user namespace, the only one that an ordinary user may make.
    "user": frozenset(("user",)),
    "root": frozenset(("user", "root")),
    "pids": frozenset(("user", "pids")),
    "network": frozenset(("user", "network")),
    "ipc": frozenset(("user", "ipc")),
    "all but seccomp": FIRST_CHOICE - {"seccomp", "door"},
}
"""Single layers, tried by ordinary users and by root."""
OF_ROOT: dict[str, Layers] = {
    # The launcher's work, with a uid.
    "uid": frozenset(("door", "uid", "scope", "limits")),
    "all but uid": FIRST_CHOICE,
}
HOLDS: dict[str, Layers] = {
    "nothing": frozenset(),
    "bubblewrap": FIRST_CHOICE,
    "landlock": FALLBACK,
    **ALONE,
    **OF_ROOT,
}


def holds(held: str, who: str) -> Layers:
    """Return the layers of a run. At both levels, root's commands also have a uid of their own."""
    return HOLDS[held] | {"uid"} if who == "root" and held in ("bubblewrap", "landlock") else HOLDS[held]
