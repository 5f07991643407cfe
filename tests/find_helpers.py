"""
Make the helpers of all tests importable by their bare names; `tests/project/test_packaging.py` keeps the names
distinct.

Pytest imports tests by file and puts no folder on the path. Benchmarks that use a helper import this module first.
"""

import sys
from pathlib import Path

_TESTS = Path(__file__).parent
_FOLDERS = {file.parent for file in _TESTS.rglob("*.py") if not file.name.startswith(("test_", "conftest"))}
sys.path += sorted(str(folder) for folder in _FOLDERS if "vendors" not in folder.parts)
