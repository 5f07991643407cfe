"""What commands leave in their private folders goes with the order, however it was made."""

import os
import tempfile
from pathlib import Path

from workers.sandbox.private import private

_DEEP = 1_200


def test_folders_deeper_than_functions_and_paths_can_be_go_too(tmp_path: Path) -> None:
    """A removal that calls itself for each folder in the other would end the order with an error."""
    with private({}, None) as own:
        place = own.tmp.parent
        here = os.open(own.tmp, os.O_RDONLY)
        for _ in range(_DEEP):
            os.mkdir("d" * 9, dir_fd=here)
            above, here = here, os.open("d" * 9, os.O_RDONLY, dir_fd=here)
            os.close(above)
        os.close(here)
        (own.home / "closed").mkdir(mode=0o000)
    assert not place.exists()
    assert place.parent == Path(tempfile.gettempdir())
