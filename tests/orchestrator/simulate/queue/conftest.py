"""Makes the modules of the queue benchmarks importable, as they are to the scripts beside them."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[4] / "benchmarks" / "queue"))
