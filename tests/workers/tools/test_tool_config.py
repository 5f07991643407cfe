from pathlib import Path

import pytest

from forgepool.workers.schema.mistakes import DocumentWrong
from forgepool.workers.schema.settings import Settings
from forgepool.workers.tools.config import ToolConfig, read_tool_config

_FILE = """\
language_servers:
  - name: pyls
    command: [pylsp]
    files: {.py: python}
    settings: {pylsp: {plugins: {flake8: {enabled: true}}}}
mcp_servers:
  - name: github
    command: [github-mcp, stdio]
    env: {GITHUB_TOKEN: AGENTS_GITHUB_TOKEN}
    phases: [plan, execute]
    tools: ["get_*", "list_*"]
  - name: docs
    url: https://docs.example/mcp
    headers: {Authorization: DOCS_AUTHORIZATION}
    read_only: true
"""


def test_a_file_names_servers(tmp_path: Path) -> None:
    """Every key of a server's entry is read unchanged."""
    file = tmp_path / "tools.yaml"
    file.write_text(_FILE)
    config = read_tool_config(file)
    assert config.language_servers[0].files == {".py": "python"}
    github, docs = config.mcp_servers
    assert (github.env, github.phases, github.read_only) == (
        {"GITHUB_TOKEN": "AGENTS_GITHUB_TOKEN"},
        ("plan", "execute"),
        False,
    )
    assert (docs.url, docs.tools, docs.phases) == ("https://docs.example/mcp", ("*",), ("execute",))


def test_no_file_names_nothing() -> None:
    """Without a file the defaults apply."""
    assert read_tool_config(None) == ToolConfig()


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("{name: x}", "has to have a command or a url"),
        ("{name: x, command: [a], url: 'http://b'}", "has to have a command or a url"),
        ("{name: x, url: 'http://b', env: {A: B}}", "a url takes headers"),
        ("{name: x, command: [a], headers: {A: B}}", "a command takes env"),
        ("{name: X y, command: [a]}", "tools.yaml:3"),
        ("{name: x, command: [a], phases: [verify]}", "tools.yaml:3"),
        ("{name: x, command: [a], env: {A: 'B C'}}", "tools.yaml:3"),
        ("{name: x, command: [a]}\n  - {name: x, command: [b]}", "two of them are the MCP server 'x'"),
    ],
)
def test_a_mistake_is_told_with_its_line(tmp_path: Path, entry: str, said: str) -> None:
    """It is refused in a sentence, before any server starts."""
    file = tmp_path / "tools.yaml"
    file.write_text(f"# mine\nmcp_servers:\n  - {entry}\n")
    with pytest.raises(DocumentWrong) as wrong:
        read_tool_config(file)
    assert said in str(wrong.value)
    assert str(wrong.value).startswith("tools.yaml:")


def test_the_file_is_the_users_own_unless_another_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """FORGEPOOL_TOOLS comes before the XDG folder. A missing file is none."""
    monkeypatch.delenv("FORGEPOOL_TOOLS", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert Settings().tools_file is None
    own = tmp_path / "forgepool" / "tools.yaml"
    own.parent.mkdir()
    own.write_text(_FILE)
    assert Settings().tools_file == own
    monkeypatch.setenv("FORGEPOOL_TOOLS", "/elsewhere.yaml")
    assert Settings().tools_file == Path("/elsewhere.yaml")
