"""
Finds what commands need and do not have: programs, Python modules and files, tried in the sandbox they will run in.
"""

import shlex
from collections.abc import Sequence

from forgepool.supervisor.checks.running import CheckPlace
from forgepool.workers.sandbox.run.process import Command, run, shell
from forgepool.workers.shell.requirements import ShellRequirement
from forgepool.workers.workspace.checks.setups import prepare_bench
from forgepool.worktrees.git.git import CommitId

_TIMEOUT_S = 60.0
_FINDS_MODULE = "import importlib.util, sys; sys.exit(importlib.util.find_spec(sys.argv[1]) is None)"


def missing(
    requirements: Sequence[ShellRequirement], commit: CommitId, place: CheckPlace
) -> tuple[ShellRequirement, ...]:
    """
    Return those of the requirements that a command on a clean checkout of the commit would not find.

    A module is looked for where its interpreter is there. What cannot be asked, because the commands cannot be held or
    took too long, counts as there: the checks themselves will tell.
    """
    if not requirements:
        return ()
    script = "\n".join(f"{_test(one)} || echo missing {number}" for number, one in enumerate(requirements))
    with prepare_bench(commit, place, "tools", None) as bench:
        command = Command(
            argv=shell(script),
            cwd=bench.checkout.path,
            env=bench.own.env,
            confined=bench.own.confined,
            log=place.logs / "tools.log",
            timeout_s=_TIMEOUT_S,
        )
        ended = run(command, stop=place.stop)
    if not ended.succeeded:
        return ()
    lines = ended.log.read_text(errors="replace").splitlines()
    numbers = (line.removeprefix("missing ") for line in lines if line.startswith("missing "))
    return tuple(requirements[int(number)] for number in numbers if number.isdigit())


def _test(requirement: ShellRequirement) -> str:
    name = shlex.quote(requirement.name)
    match requirement.kind:
        case "program":
            return f"command -v {name} >/dev/null 2>&1"
        case "module":
            python = shlex.quote(requirement.by)
            return f"! command -v {python} >/dev/null 2>&1 || {python} -c {shlex.quote(_FINDS_MODULE)} {name} 2>&1"
        case "file":
            return f"[ -e {name} ]"
