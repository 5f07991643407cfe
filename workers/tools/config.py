"""`tools.yaml`: the language servers and MCP servers that a host's agents may use, in addition to the known ones."""

from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, JsonValue, model_validator

from forgepool.workers.schema.documents import load, read_text
from forgepool.workers.schema.orders import Message, PhaseName

VariableName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
_Argv = Annotated[tuple[str, ...], Field(min_length=1)]


class LanguageServer(Message):
    """A program that answers questions about code, over its standard input and output."""

    name: str = Field(pattern=r"^[a-z][a-z0-9-]*$")
    command: _Argv
    """The program is looked for on the commands' PATH, then beside this Python."""
    files: dict[Annotated[str, Field(pattern=r"^\.[^/.]+$")], str] = Field(min_length=1)
    """Suffixes of the files it knows, each with the protocol's name for their language."""
    settings: dict[str, JsonValue] = Field(default_factory=dict)
    """Answers to its questions about its configuration, by section."""
    initialization: dict[str, JsonValue] = Field(default_factory=dict)
    """Options it gets at its start, in its own terms."""


class McpServer(Message):
    """A server with tools of its own: a program, or an address."""

    name: str = Field(pattern=r"^[a-z][a-z0-9-]{0,23}$")
    command: _Argv | None = None
    url: Annotated[str, Field(pattern=r"^https?://")] | None = None
    env: dict[VariableName, VariableName] = Field(default_factory=dict)
    """A program's variables, each with the worker's variable that holds the value. Nothing else is passed on."""
    headers: dict[Annotated[str, Field(pattern=r"^[A-Za-z0-9-]+$")], VariableName] = Field(default_factory=dict)
    """Headers of every request to an address, each with the worker's variable that holds the value."""
    phases: tuple[PhaseName, ...] = Field(default=("execute",), min_length=1)
    tools: tuple[str, ...] = Field(default=("*",), min_length=1)
    """Globs over the names of its tools; other tools are not offered."""
    read_only: bool = False
    """None of its tools changes anything, whatever the server says."""

    @model_validator(mode="after")
    def _one_way_to_reach_it(self) -> Self:
        if (self.command is None) == (self.url is None):
            raise ValueError("has to have a command or a url, one of the two")
        if self.url is not None and self.env:
            raise ValueError("a url takes headers; env is for a command")
        if self.command is not None and self.headers:
            raise ValueError("a command takes env; headers are for a url")
        return self


class ToolConfig(Message):
    """The content of `tools.yaml`. Everything in it is optional."""

    language_servers: tuple[LanguageServer, ...] = ()
    """Each replaces, for its files, the server that would be used otherwise."""
    mcp_servers: tuple[McpServer, ...] = ()

    @model_validator(mode="after")
    def _names_are_names(self) -> Self:
        for kind, names in (
            ("language server", [each.name for each in self.language_servers]),
            ("MCP server", [each.name for each in self.mcp_servers]),
        ):
            twice = sorted({name for name in names if names.count(name) > 1})
            if twice:
                raise ValueError(f"two of them are the {kind} {twice[0]!r}; give each a name of its own")
        return self


def read_tool_config(path: Path | None) -> ToolConfig:
    """
    Read the file; without a file, the configuration is empty.

    Raises:
        DocumentWrong: the file is wrong; it names every mistake with its line.
    """
    if path is None:
        return ToolConfig()
    return load(read_text(path, path.name), path.name, ToolConfig)
