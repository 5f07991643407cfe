"""A folder from which any interpreter can import Forgepool: its `forgepool` is a link to this checkout."""

import atexit
import shutil
import tempfile
from pathlib import Path

TREE = Path(tempfile.mkdtemp(prefix="forgepool-house-"))
TREE.chmod(0o755)
(TREE / "forgepool").symlink_to(Path(__file__).resolve().parents[2])
atexit.register(shutil.rmtree, TREE, ignore_errors=True)
