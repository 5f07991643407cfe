"""Make the modules of the queue benchmarks importable."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[4] / "benchmarks" / "queue"))
