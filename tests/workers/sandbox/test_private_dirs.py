"""A command's private folders are removed with the order, however their content was made."""

import os
import tempfile
from pathlib import Path

import pytest

from forgepool.workers.sandbox.layers import why_level_fails
from forgepool.workers.sandbox.run.process import Command, run, shell
from forgepool.workers.sandbox.sandbox_profile import Shelter, private
from forgepool.workers.schema.settings import Settings

_DEEP = 1_200


def test_folders_deeper_than_functions_and_paths_can_be_go_too(tmp_path: Path) -> None:
    """A recursive removal would end the order with an error."""
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


@pytest.mark.skipif(
    why_level_fails("bubblewrap") is not None, reason="only bubblewrap gives a command a /tmp of its own"
)
@pytest.mark.parametrize("place", ["/tmp", "/var/tmp"])
def test_a_link_in_the_tmp_leads_no_start_out(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each start makes mount points in it, while bwrap has the host's root at /oldroot."""
    monkeypatch.setattr(tempfile, "tempdir", place)
    work, elsewhere = tmp_path / "work", tmp_path / "elsewhere"
    work.mkdir()
    elsewhere.mkdir()
    elsewhere.chmod(0o777)
    for above in tmp_path.parents[:2]:
        above.chmod(0o755)
    with private({}, Shelter(settings=Settings(), writable=(work,), level="bubblewrap")) as own:
        places = [f"{above}/{own.home.parent.name}" for above in ("/tmp", own.tmp)]
        moved = [f"mv {each} /tmp/away; ln -sfn /oldroot{elsewhere} {each}" for each in places]
        for script in ("\n".join(moved), "echo x > $HOME/x && echo y > $TMPDIR/y && cat /tmp/y"):
            confined, log = own.confined, tmp_path / "log"
            command = Command(argv=shell(script), cwd=work, env=own.env, log=log, timeout_s=20, confined=confined)
            ended = run(command)
        assert ended.succeeded, ended
    assert list(elsewhere.iterdir()) == []
