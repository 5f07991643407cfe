"""
Put single layers on this process, then become a program: `python -I -S held.py PROJECT WHAT PROGRAM...`.

WHAT is JSON: `scope` and `filter` ("own" or "none"), `files`, `limits`, each only if it is to hold.
"""

import json
import os
import resource
import sys
import types


def main(what: "dict[str, object]", argv: "list[str]") -> None:
    from forgepool.workers.sandbox.launch import seccomp
    from forgepool.worktrees.git import landlock

    limits: dict[str, int] = what.get("limits", {})  # type: ignore[assignment]  # as written by the harness
    for name, most in limits.items():
        resource.setrlimit(getattr(resource, name), (most, most))
    if "scope" in what:
        landlock.restrict_scope()
    if "files" in what:
        landlock.restrict_files(*what["files"])  # type: ignore[misc]  # as above
    if "filter" in what:
        seccomp.install(seccomp.program(network=what["filter"], unix=what["filter"] == "own"))  # type: ignore[arg-type]
    os.execv(argv[0], argv)


if __name__ == "__main__":
    sys.modules["forgepool"] = types.ModuleType("forgepool")
    sys.modules["forgepool"].__path__ = [sys.argv[1]]
    main(json.loads(sys.argv[2]), sys.argv[3:])
