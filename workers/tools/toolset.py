"""
The tools an agent has while it works.
"""

from workers.tools.edit import EDIT_FILE
from workers.tools.finish import FINISH
from workers.tools.listing import LIST_FILES
from workers.tools.read import READ_FILE
from workers.tools.run import BASH
from workers.tools.tool import Tool
from workers.tools.write import WRITE_FILE

WORK: tuple[Tool, ...] = (READ_FILE, LIST_FILES, WRITE_FILE, EDIT_FILE, BASH, FINISH)
