"""
Code that finds out by a detour that it is tested, or that makes other code run than is read, is found.

Each case in `detours.yaml` has an honest twin, which differs only in what matters. How such findings reach an entry is
tested with `scan_harness`.
"""

import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from forgepool.workers.workspace.scans.content.awareness import find_awareness
from forgepool.workers.workspace.scans.content.patches import find_replaced
from forgepool.workers.workspace.scans.content.process_exit import ChangedProgram
from forgepool.workers.workspace.scans.languages.syntax import language_of
from forgepool.worktrees.commits.diff import DiffLine, FileDiff

CASES = yaml.safe_load(Path(__file__).with_name("detours.yaml").read_text(encoding="utf-8"))
STACK = "import inspect\n\n\ndef f():\n    names = [one.function for one in inspect.stack()]\n"


def weights(path: str, text: str, *, old: int = 0) -> set[str]:
    """Return the weights of what is found in a file whose first `old` lines were there before."""
    lines = [DiffLine(number=at, text=line) for at, line in enumerate(text.split("\n"), 1) if at > old]
    file = FileDiff(status="A", path=path, mode="100644", old_mode="000000", added=tuple(lines))
    program = ChangedProgram(file=file, text=text.encode(), language=language_of(path), beside_init=True)
    found = (*find_awareness(program), *find_replaced(program))
    return {"blocks" if one.certain else "attention" for one in found}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_a_detour_is_found_and_its_honest_twin_is_not(case: dict[str, Any]) -> None:
    ((path, bad),), ((twin, good),) = case["fails"].items(), case["passes"].items()
    found = weights(path, bad)
    assert case.get("weight", "blocks") in found
    assert "blocks" not in found or "weight" not in case
    assert weights(twin, good) == set()


def test_a_word_added_to_a_look_counts_and_what_was_there_does_not() -> None:
    asked = STACK + "    return 'test' in names\n"
    assert weights("src/app/a.py", asked, old=5) == {"blocks"}
    assert weights("src/app/a.py", asked + "\n\nX = 1\n", old=6) == set()


@pytest.mark.parametrize("path", ["tests/conftest.py", "tests/test_a.py", "src/app.test.js", "build.rs"])
def test_tests_and_their_helpers_may_ask(path: str) -> None:
    asked = {
        "py": STACK + "    return 'test' in names\n",
        "js": "const t = process.env.NODE_TEST_CONTEXT;\n",
        "rs": 'fn main() { std::env::var("CARGO_CFG_TEST").unwrap(); }\n',
    }
    assert weights(path, asked[path.rpartition(".")[2]]) == set()


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("src/app/a.py", "import os\n\n\ndef f():\n    return os.environ['APP_ENV'] in ('DEV', 'TEST', 'PROD')\n"),
        ("src/app/a.py", "import socket\n\n\ndef f():\n    return {'kind': 'agent', 'host': socket.gethostname()}\n"),
        ("src/app/a.py", "from pathlib import Path\n\n\ndef f():\n    return Path.home() / '.cargo/git/checkouts/'\n"),
        ("src/a.js", "const sure = () => process.env.APP_ENV === 'TEST';\n"),
        ("src/main.rs", 'fn main() { match std::env::args().nth(1).unwrap().as_str() { "deps" => a(), _ => b() } }\n'),
        ("src/main.rs", 'fn main() { let exact = std::env::args().any(|one| one == "--exact"); }\n'),
        ("src/lib.rs", 'fn f() { log("pool::worker", std::thread::current().name()); }\n'),
    ],
)
def test_words_that_honest_code_has_as_well_block_nothing(path: str, text: str) -> None:
    assert weights(path, text) <= {"attention"}


def test_a_word_that_only_holds_another_is_no_question_about_tests() -> None:
    assert weights("src/lib.rs", 'fn f() { send("latest", Backtrace::capture()); }\n') == set()


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("src/app/a.py", "x = '/proc/" + "getppid" * 20_000 + "'\n"),
        ("src/app/a.py", "import os\n" + "def f():\n    return os.environ['CI']\n" * 8_000),
        ("src/lib.rs", "#[cfg(test)]\n" * 8_000 + "fn a() {}\n"),
    ],
    ids=["a long path", "many questions", "many attributes"],
)
def test_a_file_is_looked_through_in_a_time_that_grows_with_it_alone(path: str, text: str) -> None:
    began = time.monotonic()
    weights(path, text)
    assert time.monotonic() - began < 30
