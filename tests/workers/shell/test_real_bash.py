"""The facts compared with what the real bash does."""

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from agreement import is_found
from made_scripts import Maker
from real_bash import Ran, RealBash

from forgepool.workers.shell.language.script import ShellScript
from forgepool.workers.shell.read_script import read_script

FOLDER = Path("/srv/tree")
SCRIPTS_PER_SEED = 1_000


@pytest.fixture(scope="module")
def bash(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealBash]:
    """Skip where the stubs cannot be isolated from the machine, but fail in CI."""
    bash = RealBash(tmp_path_factory.mktemp("bash") / "x")
    if not bash.works:
        if os.environ.get("CI") == "true":
            pytest.fail("bash and its stubs do not run, neither in bubblewrap nor as an ordinary user")
        pytest.skip("bash and its stubs do not run here")
    return bash


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_nothing_runs_that_is_not_among_the_facts(bash: RealBash, seed: int) -> None:
    """A random script that is understood runs only the commands that were found in it."""
    maker = Maker(random.Random(seed))
    scripts = [maker.script() for _ in range(SCRIPTS_PER_SEED)]
    read = [
        (script, found) for script in scripts if isinstance(found := read_script(script, folder=FOLDER), ShellScript)
    ]
    ran = bash.run([script for script, _ in read])
    assert _unseen(read, ran) == []
    assert sum(bool(each.argvs) for each in ran) > SCRIPTS_PER_SEED / 6


def test_the_rig_notices_what_was_not_found(bash: RealBash) -> None:
    """This proves that the comparison can fail: a script runs more than the reader saw."""
    seen = read_script("m1 a", folder=FOLDER)
    assert isinstance(seen, ShellScript)
    ran = bash.run(["m1 a; rm b"])
    assert ran == [Ran(argvs=(("m1", "a"), ("rm", "b")))]
    assert _unseen([("m1 a; rm b", seen)], ran) == [("m1 a; rm b", ("rm", "b"))]


def test_what_is_refused_for_good_reason_really_runs(bash: RealBash) -> None:
    """Bash runs commands hidden in values and quirks, so accepting one of these would miss a command."""
    hidden = [
        "x='a[$(rm q)]'; ((x))",
        "x='a[$(rm q)]'; [[ x -eq 1 ]]",
        "x='a[$(rm q)]'; y=abc; m1 ${y:x}",
        "x='a[$(rm q)]'; y=(); y[x]=1",
        "x='-v a[$(rm)]'; [ $x ]",
        "x='a[$(rm q)]'; declare -i y; y=x",
        "printf -v 'a[$(rm q)]' x",
        "PS4='$(rm q)'; set -x; :",
        "m1 >&'$(rm q)'",
        'm1 "$\\\n(rm q)"',
        "m1 ${v:-<(rm q)}",
        "declare -a x='($(rm q))'",
        ": 'a[$(rm q)]'; ((_))",
        "sh -c 'm1 &>f2 rm'",
    ]
    assert [any(argv[0] == "rm" for argv in each.argvs or ()) for each in bash.run(hidden)] == [True] * len(hidden)
    assert not [script for script in hidden if isinstance(read_script(script, folder=FOLDER), ShellScript)]


def _unseen(read: list[tuple[str, ShellScript]], ran: list[Ran]) -> list[tuple[str, tuple[str, ...]]]:
    return [
        (script, argv)
        for (script, found), each in zip(read, ran, strict=True)
        for argv in each.argvs or ()
        if not is_found(found, argv)
    ]
