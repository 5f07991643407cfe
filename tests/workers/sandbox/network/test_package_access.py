"""
Set-up commands may use a host's package indexes: each password only for its own index, and no token in an address.
"""

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from forgepool.workers.sandbox.network.head import Plain
from forgepool.workers.sandbox.network.package_access import PackageAccess, find_lent_access, package_access, unlent
from forgepool.workers.sandbox.network.stand_in import Access, Key
from forgepool.workers.sandbox.network.upstream import basic
from forgepool.workers.schema.settings import Settings

MINE = basic("me", "pw")
NPM = "registry=https://git.corp/api/npm/\n//git.corp/api/npm/:_authToken=TOK\n"


def access(home: Path, **variables: str) -> PackageAccess:
    return package_access(variables, home)


@pytest.mark.parametrize(
    ("url", "with_password", "without"),
    [
        ("/team/simple", ("/team/simple/x/", "/team/packages/x.whl"), ("/", "/api/v4/users?private=1", "/teams/x")),
        ("/npm/", ("/npm/x", "/npm/@a%2fb", "/npm/x/-/x-1.tgz?v=1", "/npm"), ("/npmx", "/simple/", "/npm-private/x")),
        ("/root/pypi/+simple/", ("/root/pypi/+f/1/x.whl",), ("/root/other/+simple/x", "/root/")),
        ("/simple/", ("/simple/x/", "/packages/x.whl"), ()),
    ],
)
def test_a_password_is_for_the_path_of_its_index_alone(
    tmp_path: Path, url: str, with_password: tuple[str, ...], without: tuple[str, ...]
) -> None:
    found = access(tmp_path, PIP_INDEX_URL=f"https://me:pw@git.corp{url}").access
    assert {path: found.authorization("git.corp", 443, path) for path in with_password} == dict.fromkeys(
        with_password, MINE
    )
    assert [path for path in without if found.authorization("git.corp", 443, path)] == []


def test_a_password_of_netrc_is_for_the_paths_of_the_indexes_alone(tmp_path: Path) -> None:
    (tmp_path / ".netrc").write_text("machine git.corp login me password pw\n")
    (tmp_path / ".netrc").chmod(0o600)
    (tmp_path / ".npmrc").write_text(NPM)
    found = access(tmp_path, PIP_INDEX_URL="https://git.corp/team/simple/").access
    asked = ("/team/packages/x.whl", "/api/npm/x", "/api/v4/user", "/")
    assert [found.authorization("git.corp", 443, path) for path in asked] == [MINE, "Bearer TOK", None, None]


def test_a_password_of_uv_that_stands_in_variables_is_for_the_files_too(tmp_path: Path) -> None:
    user = {"UV_INDEX_CORP_USERNAME": "me", "UV_INDEX_CORP_PASSWORD": "pw"}
    found = access(tmp_path, UV_INDEX="corp=https://git.corp/team/simple/", **user)
    assert found.variables == {"UV_INDEX": "corp=https://git.corp/team/simple/"}
    asked = ("/team/files/x.whl", "/other/")
    assert [found.access.authorization("git.corp", 443, path) for path in asked] == [MINE, None]


@pytest.mark.parametrize(
    "path",
    [
        "/api/npm/../v4/user",
        "/api/npm/%2e%2e/v4/user",
        "/api/npm/.%2E/v4/user",
        "/api/npm/%252e%252e/v4/user",
        "/api/npm/%2525252525252e./v4/user",
        "/api/npm/..%2fv4/user",
        "/api/npm/x%5c..%5c..%5cv4",
        "/api/npm/..\\v4",
        "/api/npm/..;a=b/v4/user",
        "/api/npm/%2e%2e%3b/v4/user",
        "/api/npm/..%00/v4",
        "/api/npm/./x",
        "/api/npm/..",
        "/api/npm/..?x",
    ],
)
def test_a_path_that_leads_elsewhere_gets_no_password(path: str) -> None:
    found = Access(keys=(Key(host="git.corp", port=80, path="/api/npm/", authorization="Bearer TOK"),))
    assert found.authorization("git.corp", 80, path) is None
    head = f"GET {path} HTTP/1.1\r\nHost: git.corp\r\n\r\n".encode()
    request = Plain(host="git.corp", port=80, method="GET", head=head, body=0)
    assert b"TOK" not in found.with_authorization(request).head


@pytest.mark.parametrize("path", ["/api/npm/@a%2fb", "/api/npm/..x", "/api/npm/x-1.0..tgz", "/api/npm/a%2520b?x=/../y"])
def test_dots_in_names_and_encoded_slashes_are_usual(path: str) -> None:
    found = Access(keys=(Key(host="git.corp", port=80, path="/api/npm/", authorization="Bearer TOK"),))
    assert found.authorization("git.corp", 80, path) == "Bearer TOK"


@pytest.mark.parametrize(
    "url",
    [
        "https://x.corp/simple?token=SEKRET",
        "https://me:pw@x.corp/simple/?SEKRET",
        "https://x.corp/SEKRET7Kq2mZp4Wv9/me/",
        "https://x.corp/priv/glpat-SEKRETa8b7c6d5e4f3/pypi/simple",
        "https://x.corp/%53EKRET7Kq2mZp4Wv9/me/",
        "https://x.corp/SEKRET7K%712mZp4Wv9/me/",
    ],
)
def test_an_index_with_a_token_in_its_address_is_left_out(tmp_path: Path, url: str) -> None:
    (tmp_path / ".npmrc").write_text(f"registry={url}\n@a:registry=https://b.corp/npm/\n")
    found = access(
        tmp_path,
        PIP_INDEX_URL=url,
        PIP_EXTRA_INDEX_URL=f"{url} https://y.corp/simple/#SEKRET",
        UV_DEFAULT_INDEX=url,
        UV_INDEX=f"a={url} b=https://z.corp/simple/",
    )
    assert found.variables == {
        "PIP_EXTRA_INDEX_URL": "https://y.corp/simple/",
        "UV_INDEX": "b=https://z.corp/simple/",
    }
    assert found.npmrc == "@a:registry=https://b.corp/npm/\n"
    assert found.left_out == ("x.corp:443",) and "x.corp:443" not in found.hosts and found.access.keys == ()


def test_no_password_and_no_proxy_is_in_what_commands_are_told(tmp_path: Path) -> None:
    (tmp_path / ".npmrc").write_text(
        "registry=https://me:SEKRET@n.corp/npm/\n//n.corp/npm/:_authToken=SEKRET\nproxy=http://me:SEKRET@proxy.corp:8080/\n"
    )
    url = "https://me:SEKRET@x.corp/simple/"
    names = ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "UV_DEFAULT_INDEX", "UV_INDEX")
    found = access(tmp_path, **dict.fromkeys(names, url), HTTPS_PROXY="http://me:SEKRET@proxy.corp:8080")
    assert found.variables == dict.fromkeys(names, "https://x.corp/simple/")
    assert found.npmrc == "registry=https://n.corp/npm/\n"
    assert "SEKRET" not in repr(found)


def test_usual_addresses_are_not_taken_for_tokens(tmp_path: Path) -> None:
    urls = (
        "https://pkgs.dev.azure.com/corp/7f9c24e8-3b12-4fd5-a1e7-2c9d8b6f0a34/_packaging/feed/pypi/simple/",
        "https://git.corp/api/v4/projects/123456789012345678/packages/pypi/simple",
        "https://repo.corp/artifactory/api/pypi/platform-engineering-releases-2024/simple",
        "https://europe-west1-python.pkg.dev/internationalisation/py311/simple/",
    )
    found = access(tmp_path, PIP_EXTRA_INDEX_URL=" ".join(urls))
    assert found.variables["PIP_EXTRA_INDEX_URL"].split() == list(urls) and found.left_out == ()


def test_people_are_told_what_was_left_out_and_not_the_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PIP_INDEX_URL", "https://x.corp/simple?token=SEKRET")
    settings = Settings(setup_network="host")
    with capture_logs() as logs:
        assert find_lent_access(settings) is not None
    warned = [each for each in logs if each["event"] == "setup.index_left_out"]
    assert warned and warned[0]["hosts"] == ["x.corp:443"] and "SEKRET" not in str(logs)
    assert "not lent the index at x.corp:443" in unlent(settings) and "SEKRET" not in unlent(settings)
