"""Makes what stands beside the tests importable."""

import sys
from pathlib import Path

# Pytest imports tests by file and puts no folder on the path; what they share must still be found.
sys.path.append(str(Path(__file__).parent))
