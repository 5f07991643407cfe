"""
Runs the whole suite under several hash seeds and writes down what came out:
python tools/hash_seed_audit.py SEEDS REPORT

A suite that leans on the order of a set passes on one machine and fails on the next. The report holds no times
and is written at the very end, so that a run that was killed leaves nothing half done and the next one is the same.
"""

import os
import subprocess
import sys
from pathlib import Path

HEAD = """# Hash seed audit

The test suite, once per `PYTHONHASHSEED`. Written by `tools/hash_seed_audit.py`.

| seed | result |
|---:|---|
"""


def passes(seed: int) -> bool:
    command = [sys.executable, "-m", "unittest", "discover", "--quiet", "--start-directory", "tests"]
    environment = {**os.environ, "PYTHONHASHSEED": str(seed), "PYTHONPATH": "src"}
    return subprocess.run(command, env=environment, stderr=subprocess.DEVNULL).returncode == 0


def main(seeds: str, report: str) -> None:
    results = {}
    for seed in range(int(seeds)):
        results[seed] = "passed" if passes(seed) else "failed"
        print(f"seed {seed}: {results[seed]}", flush=True)
    rows = "".join(f"| {seed} | {result} |\n" for seed, result in results.items())
    Path(report).write_text(HEAD + rows, encoding="utf-8")
    if "failed" in results.values():
        sys.exit("the suite depends on the hash seed")


if __name__ == "__main__":
    main(*sys.argv[1:])
