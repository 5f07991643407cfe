"""The exact command lines of the programs: each option protects something."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from cli_kit import KEY

from forgepool.workers.agents.cli.performing import PROGRAMS
from forgepool.workers.agents.cli.program import ProgramInvocation, ProgramJob
from forgepool.workers.schema.orders import CliProgram, Limits


def _invoked(
    program: CliProgram, folder: Path, given: Mapping[str, str], model: str | None = None, *, confined: bool = False
) -> ProgramInvocation:
    job = ProgramJob(
        executable=f"/bin/{program}",
        model=model,
        title="A word",
        worktree=folder / "worktree",
        home=folder,
        tmp=folder / "tmp",
        prompt=folder / "prompt.md",
        limits=Limits(cost_usd=2.5),
        given=given,
        confined=confined,
    )
    return PROGRAMS[program].invoke(job)


def test_claude_is_called_with_its_own_tools_and_nobodys_settings(tmp_path: Path) -> None:
    """It asks no questions, uses no other tools, and reads no settings or servers of the repository."""
    called = _invoked("claude", tmp_path, {"ANTHROPIC_API_KEY": KEY}, "claude-opus-5-5")
    tools = "Bash,Edit,Read,Write,Glob,Grep,NotebookEdit,TodoWrite"
    assert called.argv == (
        *("/bin/claude", "-p", "--output-format", "stream-json", "--verbose", "--no-session-persistence"),
        *("--permission-mode", "acceptEdits", "--permission-prompts", "none"),
        *("--tools", tools, "--allowedTools", tools, "--setting-sources", "user", "--strict-mcp-config"),
        *("--model", "claude-opus-5-5", "--max-budget-usd", "2.500000"),
    )
    assert called.env == {
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "CLAUDE_CODE_MAX_RETRIES": "6",
        "ANTHROPIC_API_KEY": KEY,
    }
    assert called.stdin == tmp_path / "prompt.md"


def test_codex_is_called_within_its_sandbox_and_hides_its_key(tmp_path: Path) -> None:
    """Its commands write in the worktree and do not see the key. Its configuration is in its own folder."""
    given = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": "http://here/v1"}
    called = _invoked("codex", tmp_path, given)
    provider = '{name="forgepool",base_url="http://here/v1",wire_api="responses",env_key="OPENAI_API_KEY"}'
    assert called.argv == (
        *("/bin/codex", "exec", "--json", "--ephemeral", "--skip-git-repo-check", "--color", "never"),
        *("-C", str(tmp_path / "worktree"), "-s", "workspace-write", "--ignore-rules"),
        *("-c", 'approval_policy="never"'),
        *("-c", 'shell_environment_policy.exclude=["OPENAI_API_KEY","CODEX_API_KEY"]'),
        *("-c", "sandbox_workspace_write.exclude_slash_tmp=true"),
        *("-c", 'model_provider="forgepool"', "-c", f"model_providers.forgepool={provider}", "-"),
    )
    assert called.env == {"CODEX_HOME": str(tmp_path / ".codex"), "OPENAI_API_KEY": KEY, "CODEX_API_KEY": KEY}
    assert called.stdin == tmp_path / "prompt.md"


def test_opencode_is_called_without_the_repositorys_configuration(tmp_path: Path) -> None:
    """It starts no agents, shares and updates nothing, and knows only the given server."""
    given = {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": "http://here/"}
    called = _invoked("opencode", tmp_path, given, "anthropic/model-1")
    assert called.argv == (
        *("/bin/opencode", "run", "--format", "json", "--pure", "--auto", "--dir", str(tmp_path / "worktree")),
        *("--title", "task: A word", "-m", "anthropic/model-1"),
    )
    env = dict(called.env)
    assert json.loads(env.pop("OPENCODE_CONFIG_CONTENT")) == {
        "autoupdate": False,
        "share": "disabled",
        "tools": {"task": False},
        "provider": {"anthropic": {"options": {"baseURL": "http://here/v1"}, "models": {"model-1": {}}}},
    }
    assert env == {
        "OPENCODE_DISABLE_AUTOUPDATE": "1",
        "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
        "OPENCODE_DISABLE_PROJECT_CONFIG": "1",
        "OPENCODE_DISABLE_MODELS_FETCH": "1",
        "ANTHROPIC_API_KEY": KEY,
    }


@pytest.mark.parametrize("address", [None, "http://here/v1"])
def test_aider_is_called_with_its_servers_said_last(tmp_path: Path, address: str | None) -> None:
    """It commits nothing, runs nothing and sends no statistics. A repository's `.env` cannot name another server."""
    given = {"OPENAI_API_KEY": KEY} | ({"OPENAI_BASE_URL": address} if address else {})
    called = _invoked("aider", tmp_path, given, "openai/model-1")
    openai, tmp = address or "https://api.openai.com/v1", tmp_path / "tmp"
    assert called.argv == (
        *("/bin/aider", "--message-file", str(tmp_path / "prompt.md"), "--yes-always", "--no-stream", "--no-pretty"),
        *("--no-auto-commits", "--no-dirty-commits", "--no-gitignore", "--no-check-update", "--no-show-release-notes"),
        *("--analytics-disable", "--no-show-model-warnings", "--no-suggest-shell-commands", "--no-detect-urls"),
        *("--chat-history-file", str(tmp / "aider-chat-history-file")),
        *("--input-history-file", str(tmp / "aider-input-history-file")),
        *("--llm-history-file", str(tmp / "aider-llm-history-file")),
        *("--set-env", f"OPENAI_API_BASE={openai}", "--set-env", f"OPENAI_BASE_URL={openai}"),
        *("--set-env", "ANTHROPIC_API_BASE=https://api.anthropic.com"),
        *("--set-env", "ANTHROPIC_BASE_URL=https://api.anthropic.com"),
        *("--model", "openai/model-1"),
    )
    assert called.env == {"OPENAI_API_KEY": KEY, "LITELLM_LOCAL_MODEL_COST_MAP": "True", "COLUMNS": "1000"}


def test_codex_brings_a_sandbox_of_its_own_only_where_there_is_none_around_it(tmp_path: Path) -> None:
    """Inside ours its sandbox cannot be set up, and it would run no command."""
    alone, held = (
        _invoked("codex", tmp_path, {"OPENAI_API_KEY": KEY}, confined=confined) for confined in (False, True)
    )
    assert [called.argv[called.argv.index("-s") + 1] for called in (alone, held)] == [
        "workspace-write",
        "danger-full-access",
    ]
