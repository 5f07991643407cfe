"""Makes the helper beside these tests importable."""

import sys
from pathlib import Path

# Pytest imports tests by file and puts no folder on the path; the helper beside them must still be found.
sys.path.append(str(Path(__file__).parent))
