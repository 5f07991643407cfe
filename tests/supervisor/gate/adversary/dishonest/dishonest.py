"""All dishonest candidates by kind, and those that no scan and no check can tell from honest ones."""

from dishonest_claims import CLAIMS
from dishonest_code import BEYOND, CODE
from dishonest_detours import DETOURS
from dishonest_processes import PROCESSES
from dishonest_runner import RUNNER
from dishonest_settings import SETTINGS
from dishonest_tests import TESTS
from dishonest_trees import TREES

DISHONEST = (*CLAIMS, *TESTS, *SETTINGS, *RUNNER, *PROCESSES, *CODE, *TREES, *DETOURS)

__all__ = ["BEYOND", "DISHONEST"]
