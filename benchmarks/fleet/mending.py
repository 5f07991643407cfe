"""
Prints what a landing costs where the first attempt is wrong: seen in VERIFY, mended by the next one, or done afresh.

    python benchmarks/fleet/mending.py [--tasks 6] [--files 5] [--lines 40]

One run has four groups of tasks, done by the built-in agent with a local server in place of its models. The model
writes `--files` files of `--lines` lines, one in each turn, and the last line is wrong. Where the harness says so, it
reads and edits that file alone.

`seen in VERIFY` is wrong by a finding of the scans, which comes back into the conversation. The others are wrong by a
check. With `verify: checks` that comes back into the conversation, too; the gate alone runs it for the other two, whose
first attempts come back. A person then has one group mended (`forgepool retry --from-candidate`) and the other done
afresh (`--fresh`). So was every returned attempt before there was mending, and every one with a finding before VERIFY
saw the scans.

Calls are those to the model. Dollars are by the table's prices (1 USD a million tokens of input, 0.1 cached, 1.25
written to the cache, 5 output), of tokens as the server counts them.
"""

import argparse
import re
import sys
import tempfile
from collections import Counter
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "tests"))

import find_helpers  # noqa: F401  # before any helper
from kit import Machine, make_repository, write_plan
from models_kit import know
from vendors.answers import Answer, Brain, Say, Seen
from vendors.server import VendorServer

from forgepool.orchestrator.cli.output.terminal import print_table
from forgepool.orchestrator.journal import events as e

_GROUPS = {
    "seen": "seen in VERIFY",
    "checked": "seen by `verify: checks`",
    "mended": "returned, mended",
    "afresh": "returned, afresh",
}
_WRONG = {"seen": "  # TODO: refunds", "": "  # BROKEN"}
_AGAIN = ("Your work was verified, and is not done", "Your worktree begins with the change")


def main() -> int:
    read = argparse.ArgumentParser(description=(__doc__ or "").strip().splitlines()[0])
    read.add_argument("--tasks", type=int, default=6, help="tasks in each group")
    read.add_argument("--files", type=int, default=5, help="files that a task writes")
    read.add_argument("--lines", type=int, default=40, help="lines of each file")
    said = read.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="mending-") as folder,
        VendorServer(_brain(said.files, said.lines)) as server,
    ):
        machine = Machine(folder=Path(folder) / "m", name="here")
        machine.folder.mkdir()
        know(machine, server)
        _measure(machine, [f"{group}-{number}" for group in _GROUPS for number in range(said.tasks)])
    return 0


def _brain(files: int, lines: int) -> Brain:
    text = "\n".join(f"TOTAL_{number} = {number} * {number}" for number in range(lines))

    def answer(seen: Seen) -> Answer:
        card = "\n".join(seen.texts)
        task = (re.search(r"^# Task (\S+):", card, re.MULTILINE) or ["", ""])[1]
        paths = [f"{task}/f{number}.py" for number in range(files)]
        if "commit_plan" in seen.tools:
            return Say(calls=[("commit_plan", {"plan": "write the files", "files_to_modify": paths})])
        wrong = _WRONG.get(task.partition("-")[0], _WRONG[""])
        last = text if "Why attempt 1" in card else text + wrong
        steps = [("write_file", {"path": path, "content": f"{text}\n"}) for path in paths[:-1]]
        steps.append(("write_file", {"path": paths[-1], "content": f"{last}\n"}))
        mend = [("read_file", {"path": paths[-1]}), ("edit_file", {"path": paths[-1], "old": wrong, "new": ""})]
        finish = ("finish", {"summary": "written"})
        if _AGAIN[1] in card:
            steps = mend
        elif _AGAIN[0] in card:
            steps += [finish, *mend]
        done = len(seen.results)
        return Say(calls=[steps[done] if done < len(steps) else finish])

    return answer


def _measure(machine: Machine, tasks: list[str]) -> None:
    hub = make_repository(machine.folder / "hub", {"README.md": "read me\n"})
    checks = {"sound": "! grep -rq BROKEN --include=*.py ."}
    told = [
        {"id": one, "files": [f"{one}/*"], "agent": {"builtin": {}}, "attempts": 1}
        | ({"verify": "checks"} if one.startswith("checked") else {})
        for one in tasks
    ]
    plan = write_plan(machine.folder, {"name": "mending", "checks": checks, "review": "none", "tasks": told})
    _succeed(machine, 1, "run", plan, "--repo", hub.path, "--workers", "2")
    run = machine.runs()[0]
    mended, afresh = ([one for one in tasks if one.startswith(group)] for group in ("mended", "afresh"))
    _succeed(machine, 0, "retry", run, *mended, "--from-candidate", "--no-resume")
    _succeed(machine, 0, "retry", run, *afresh, "--fresh", "--no-resume")
    _succeed(machine, 0, "resume", run)
    attempts, calls, returned, landed, usd = (
        Counter[str](),
        Counter[str](),
        Counter[str](),
        Counter[str](),
        Counter[str](),
    )
    for event in (one.event for one in machine.journal(run)):
        match event:
            case e.OrderAnswered(task=task, result=result):
                group = task.partition("-")[0]
                attempts[group] += 1
                calls[group] += result.spent.turns
                usd[group] += round(1e9 * (result.spent.cost_usd or 0.0))
            case e.TaskFailed(task=task):
                returned[task.partition("-")[0]] += 1
            case e.LandingAnswered(result=result, entries=entries) if result.outcome == "landed":
                landed.update(one.partition("-")[0] for one in entries)
            case _:
                pass
    rows = [
        (
            name,
            str(landed[group]),
            str(returned[group]),
            *(f"{count[group] / max(1, landed[group]):.1f}" for count in (attempts, calls)),
            f"{usd[group] / 1e9 / max(1, landed[group]):.6f}",
        )
        for group, name in _GROUPS.items()
    ]
    print_table(("first attempt wrong", "landed", "returned", "attempts/landing", "calls/landing", "USD/landing"), rows)


def _succeed(machine: Machine, status: int, *words: str | Path) -> None:
    ended = machine.run(*words, within_s=600)
    if ended.status != status:
        raise SystemExit(f"{words[0]} ended with {ended.status}\n{ended.out}{ended.err}")


if __name__ == "__main__":
    sys.exit(main())
