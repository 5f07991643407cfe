"""
Set-up commands in a company's network, with a private index behind a password, its own certificate authority and a
proxy.

The commands install packages, and neither they nor later commands ever see a password.
"""

import shutil
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest
from gates import Gate, check
from package_hosts import PASSWORD, PROXY_PASSWORD, Company, company

from forgepool.supervisor.messages.answers import CheckResult
from forgepool.workers.policy.gate_file.document import CheckDefinition

_ATTEMPTS = count(1)
HIDDEN = '! env | grep -q sesame && ! grep -rqs sesame . "$HOME" "$TMPDIR" /proc/self/environ'
PIP = f"{HIDDEN} && python3 -m venv .venv && .venv/bin/python -m pip install -q --no-input corpdemo"
PYTHON = check(
    f"{HIDDEN} && .venv/bin/python -c 'import corpdemo'",
    "python",
    setup=PIP,
    network=("pypi.org", "files.pythonhosted.org"),
)
UV = PYTHON.model_copy(update={"setup": f"{HIDDEN} && uv venv -q .venv && uv pip install -q -p .venv corpdemo"})
NODE = check(
    f"{HIDDEN} && test -e node_modules/corpdemo/index.js",
    "node",
    setup=f"{HIDDEN} && npm install --no-audit --no-fund --no-save corpdemo",
    network=("registry.npmjs.org",),
)


@pytest.fixture
def corp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Company]:
    """Yield the network, with its variables set and an otherwise empty home."""
    with company(tmp_path) as found:
        home = tmp_path / "ann"
        home.mkdir()
        for name in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "UV_INDEX", "UV_DEFAULT_INDEX", "NPM_CONFIG_REGISTRY"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("HOME", str(home))
        monkeypatch.setenv("XDG_CONFIG_HOME", str(home / ".config"))
        monkeypatch.setenv("HTTPS_PROXY", found.proxy)
        monkeypatch.setenv("https_proxy", found.proxy)
        monkeypatch.setenv("NO_PROXY", "localhost")
        monkeypatch.setenv("no_proxy", "localhost")
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(found.authority))
        yield found


def asked(gate: Gate, of: CheckDefinition, *, lent: bool = True) -> CheckResult:
    gate.settings = gate.settings.model_copy(update={"setup_network": "host" if lent else "none"})
    return gate.examine(gate.request(gate.entry("one", {"c": "1\n"}, attempt=next(_ATTEMPTS)), of))


def said(gate: Gate, found: CheckResult) -> str:
    """Return all text about it that a person can read."""
    logs = "".join(path.read_text(errors="replace") for path in gate.settings.home.rglob("*.log"))
    return found.encode() + logs


def by_variable(of: Company, home: Path, patch: pytest.MonkeyPatch) -> None:
    patch.setenv("PIP_INDEX_URL", of.url("/simple/"))


def by_pip_conf(of: Company, home: Path, patch: pytest.MonkeyPatch) -> None:
    (home / ".config" / "pip").mkdir(parents=True)
    (home / ".config" / "pip" / "pip.conf").write_text(f"[global]\nindex-url = {of.url('/simple/')}\n")


def by_netrc(of: Company, home: Path, patch: pytest.MonkeyPatch) -> None:
    (home / "pip.conf").write_text(f"[global]\nindex-url = {of.url('/simple/', password=False)}\n")
    (home / ".netrc").write_text(f"machine {of.place.partition(':')[0]} login ann password {PASSWORD}\n")
    (home / ".netrc").chmod(0o600)
    patch.setenv("PIP_CONFIG_FILE", str(home / "pip.conf"))


@pytest.mark.parametrize(
    "way", [*(pytest.param(way, marks=pytest.mark.soak) for way in (by_variable, by_pip_conf)), by_netrc]
)
def test_pip_installs_from_a_private_index(
    gate: Gate, corp: Company, monkeypatch: pytest.MonkeyPatch, way: Callable[[Company, Path, pytest.MonkeyPatch], None]
) -> None:
    way(corp, Path.home(), monkeypatch)
    found = asked(gate, PYTHON)
    assert found.verdict == "green", found.detail + said(gate, found)[-3000:]
    assert any(path.endswith(".whl") for path in corp.asked) and corp.place in corp.tunnels
    assert PASSWORD not in said(gate, found) and PROXY_PASSWORD not in said(gate, found)


@pytest.mark.skipif(shutil.which("uv") is None, reason="uv is not there")
def test_uv_installs_from_a_private_index(gate: Gate, corp: Company, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UV_DEFAULT_INDEX", corp.url("/simple/"))
    found = asked(gate, UV)
    assert found.verdict == "green", found.detail + said(gate, found)[-3000:]
    assert PASSWORD not in said(gate, found)


@pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not there")
def test_npm_installs_from_a_private_registry(gate: Gate, corp: Company, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NPM_TOKEN_OF_TEST", PASSWORD)
    token = f"//{corp.place}/npm/:_authToken=${{NPM_TOKEN_OF_TEST}}\n"
    (Path.home() / ".npmrc").write_text(f"registry={corp.url('/npm/', password=False)}\n{token}")
    found = asked(gate, NODE)
    assert found.verdict == "green", found.detail + said(gate, found)[-3000:]
    assert "/npm/corpdemo.tgz" in corp.asked and PASSWORD not in said(gate, found)


def test_nothing_is_lent_unless_the_person_says_so_and_the_failure_says_how(
    gate: Gate, corp: Company, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first failure lists all hosts that are not allowed, and the second says that nothing is lent."""
    monkeypatch.setenv("PIP_INDEX_URL", corp.url("/simple/"))
    found = asked(gate, PYTHON, lent=False)
    assert found.verdict == "not_configured"
    assert "- {match: {network: [pypi.org, files.pythonhosted.org]}, decision: allow}" in found.detail
    assert found.detail.count("pypi.org") == 2 and "/forgepool/policy.yaml:\n" in found.detail
    policy = gate.folder / "policy.yaml"
    policy.write_text(found.detail.partition("policy.yaml:\n")[2])
    gate.settings = gate.settings.model_copy(update={"policy": policy})
    quick = PYTHON.model_copy(update={"setup": "false"})
    red = asked(gate, quick, lent=False)
    assert "set-ups are not lent this host's" in red.detail and "FORGEPOOL_SETUP_NETWORK=host lends them" in red.detail
    assert all(name in red.detail for name in ("PIP_INDEX_URL", "REQUESTS_CA_BUNDLE", "https_proxy"))
    assert corp.asked == []


def test_hosts_of_several_checks_are_refused_in_one_sentence(gate: Gate) -> None:
    both = (PYTHON, NODE)
    request = gate.request(gate.entry("one", {"c": "1\n"}), *both)
    found = gate.examine(request)
    assert found.verdict == "not_configured"
    assert found.detail.startswith(
        "check 'python' and check 'node' want the hosts pypi.org, files.pythonhosted.org, reg"
    )
    assert "[pypi.org, files.pythonhosted.org, registry.npmjs.org]" in found.detail


def test_a_check_itself_is_lent_nothing(gate: Gate, corp: Company, monkeypatch: pytest.MonkeyPatch) -> None:
    """A check runs code that the entry wrote. It gets only what a set-up command has fetched."""
    monkeypatch.setenv("PIP_INDEX_URL", corp.url("/simple/"))
    ask = "python3 -m venv .venv && ! .venv/bin/python -m pip install -q --no-input --retries 0 corpdemo"
    found = asked(gate, check(ask, "python", network=("pypi.org",)))
    assert (found.verdict, corp.asked, corp.tunnels) == ("green", [], [])


def test_a_set_up_can_read_the_index_and_write_nothing_to_it(
    gate: Gate, corp: Company, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", corp.url("/simple/"))
    curl = f'curl -s -o /dev/null -w "%{{http_code}}" -X POST --data x {corp.url("/simple/", password=False)}'
    found = asked(gate, check("test -e b", "post", setup=f'test "$({curl})" = 501', network=("pypi.org",)))
    assert found.verdict == "green", found.detail
    assert corp.asked == [] and corp.refused == []


def test_a_set_up_does_not_get_out_of_the_path_of_an_index(
    gate: Gate, corp: Company, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", corp.url("/team/simple/"))

    def curl(path: str) -> str:
        where = corp.url(path, password=False)
        return f'$(curl -s --path-as-is -o /dev/null -w "%{{http_code}}" {where})'

    setup = (
        f'test "{curl("/team/../secret")} {curl("/team/%2e%2e/secret")} {curl("/secret")} {curl("/team/x")}"'
        ' = "400 400 401 404"'
    )
    found = asked(gate, check("test -e b", "out", setup=setup, network=("pypi.org",)))
    assert found.verdict == "green", found.detail + said(gate, found)[-3000:]
    assert (set(corp.asked), set(corp.refused)) == ({"/team/x"}, {"/secret"})


@pytest.mark.soak
def test_an_index_whose_authority_is_not_known_is_not_believed(
    gate: Gate, corp: Company, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise it would receive the password."""
    monkeypatch.setenv("PIP_INDEX_URL", corp.url("/simple/"))
    monkeypatch.delenv("REQUESTS_CA_BUNDLE")
    found = asked(gate, PYTHON)
    assert found.verdict in ("red", "base_red") and corp.asked == corp.refused == []
    assert "certificate" in said(gate, found) or "502" in said(gate, found)
