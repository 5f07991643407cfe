"""
Carry out the attempts inside, each in its own process, and print a line of JSON for each.

Run as `python -I -S runner.py STAGE`; the attempts are in the same folder.
"""

import json
import os
import signal
import sys
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from attempt import Attempt, Stage, read_stage
from table import ATTEMPTS

_LONGEST_S = 5


def main(stage: Stage) -> None:
    for each in ATTEMPTS.values():
        print(json.dumps(_tried(each, replace(stage, name=each.name))), flush=True)


def _tried(each: Attempt, stage: Stage) -> dict[str, object]:
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        signal.alarm(_LONGEST_S)
        os.close(reading)
        os.write(writing, json.dumps(_carried_out(each, stage)).encode())
        os._exit(0)
    os.close(writing)
    with open(reading, "rb") as pipe:  # noqa: PTH123 - a descriptor
        said = pipe.read()
    _, status = os.waitpid(pid, 0)
    if said:
        return {"name": each.name, **json.loads(said)}
    return {"name": each.name, "refused": f"ended with {os.waitstatus_to_exitcode(status)}"}


def _carried_out(each: Attempt, stage: Stage) -> dict[str, object]:
    try:
        return {"said": each.carry_out(stage)}
    except BaseException as trouble:
        return {"refused": f"{type(trouble).__name__}: {trouble}"}


if __name__ == "__main__":
    main(read_stage(sys.argv[1]))
