"""
Importing Forgepool in a bare interpreter (`python -I -S`), which has no site folder and so no installed package.

In a checkout the four packages lie at the top level, in an installation below `forgepool/`: either way the folder that
holds them is what the name `forgepool` stands for.
"""

import os

HOUSE = os.path.realpath(os.path.join(__file__, *[os.pardir] * 3))  # noqa: PTH118 - a bare interpreter starts quicker
"""The folder of the four packages; a bare interpreter gets it as its first argument."""

START = """
import sys, types
sys.modules["forgepool"] = types.ModuleType("forgepool")
sys.modules["forgepool"].__path__ = [sys.argv[1]]
"""
"""The first lines of such an interpreter's program."""
