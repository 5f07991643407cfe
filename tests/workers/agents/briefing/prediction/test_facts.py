"""The names that lines of code define and import, in many languages."""

from pathlib import Path

import pytest
from premade import repository

from forgepool.workers.agents.briefing.prediction.facts import facts_of, read_facts
from forgepool.workers.agents.briefing.prediction.snapshot import IndexedTree


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("class TokenStore:", {"TokenStore"}),
        ("    async def read_token(self):", {"read_token"}),
        ("func (s *Server) ServeToken(w int) {}", {"ServeToken"}),
        ("export default function render() {", {"render"}),
        ("pub fn parse(x: u8) {", {"parse"}),
        ("#define LIMIT 5", {"LIMIT"}),
        ("MAX_AGE_S: int = 5", {"MAX_AGE_S"}),
        ("if MAX_AGE_S == 5:", set()),
        ("    return TokenStore", set()),
    ],
)
def test_definitions_are_found(line: str, names: set[str]) -> None:
    assert facts_of(line).defines == names


@pytest.mark.parametrize(
    ("importer", "line", "imported"),
    [
        ("a/one.py", "from a.two import three", "a/two.py"),
        ("a/one.py", "from .two import three", "a/two.py"),
        ("a/b/one.py", "from .. import two as second, other", "a/two.py"),
        ("a/one.py", "import a.two", "a/two.py"),
        ("x.py", "from pkg import names", "src/pkg/__init__.py"),
        ("web/one.ts", 'import { two } from "./two"', "web/two.ts"),
        ("web/one.js", "const two = require('../lib/two.js')", "lib/two.js"),
        ("c/one.c", '#include "two.h"', "c/two.h"),
        ("src/one.rs", "use crate::a::two::Three;", "src/a/two.rs"),
    ],
)
def test_imports_lead_to_the_file(importer: str, line: str, imported: str) -> None:
    """In both directions; a file of the same name elsewhere is not meant where the import is relative."""
    files = {importer: "1", imported: "2", "elsewhere/deep/two.css": "2"}
    tree = IndexedTree(files, {"1": facts_of(line)})
    assert imported in tree.imports(importer) and importer in tree.importers(imported)
    if line.startswith("from .") or "./two" in line:
        assert tree.imports(importer) == {imported}


def test_binary_and_large_contents_have_no_facts(tmp_path: Path) -> None:
    text = "def here():\n    pass\n"
    files: dict[str, str | bytes | None] = {"a.py": text, "b.bin": text.encode() + b"\0", "c.py": text * 20_000}
    git, base = repository(tmp_path / "r", files)
    ids = [git.text("rev-parse", f"{base}:{path}") for path in files]
    assert read_facts(git, [*ids, "0" * 40], timeout_s=60).keys() == {ids[0]}
