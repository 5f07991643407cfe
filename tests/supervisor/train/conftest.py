"""Pytest imports tests by file and puts no folder on the path; what is beside the tests must still be found."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))
