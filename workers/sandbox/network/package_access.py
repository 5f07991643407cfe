"""
How this host reaches packages, according to the variables and user files of pip, uv and npm.

Set-up commands borrow this when the host's owner allows it (`FORGEPOOL_SETUP_NETWORK=host`). They learn where the
indexes are. Passwords and the proxies' names stay in this process (`workers.sandbox.network.stand_in`). An index with a
token elsewhere in its address is not lent.
"""

import base64
import configparser
import netrc
import re
import ssl
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlsplit, urlunsplit

import structlog

from forgepool.workers.sandbox.network.hosts import BadHost, host_name, write_in_full
from forgepool.workers.sandbox.network.stand_in import Access, Key
from forgepool.workers.sandbox.network.upstream import Proxies, basic
from forgepool.workers.schema.settings import Settings, environment_value, package_environment

log = structlog.get_logger()

_PEM = re.compile(r"-----BEGIN CERTIFICATE-----[A-Za-z0-9+/=\s]+-----END CERTIFICATE-----")
_VARIABLE = re.compile(r"\$\{([^}]+)\}")
_AUTHORITIES = ("PIP_CERT", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS")
_LENT_ANYWAY = "SSL_CERT_FILE"
_PROXY_NAMES = ("https_proxy", "HTTPS_PROXY", "http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY")
_OF_PIP = frozenset(("index-url", "extra-index-url", "cert", "proxy"))
_OF_NPM = frozenset(("registry", "cafile", "https-proxy", "proxy"))
_PUBLIC_OF_PYTHON = ("pypi.org", "files.pythonhosted.org")
_FOLDER_OF_PAGES = re.compile(r"/\+?simple/?$")
_RUN = re.compile(r"[A-Za-z0-9]+")
_TOKEN = re.compile(r"(?=(?:.*[0-9]){2})(?=.*[A-Za-z]).{16,}")
_PUBLIC_OF_NODE = ("registry.npmjs.org", "registry.yarnpkg.com")


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageAccess:
    """The access to packages that set-up commands are lent."""

    variables: Mapping[str, str]
    """The indexes for pip and uv, without passwords."""
    npmrc: str
    """The registries for npm, as the content of its file."""
    hosts: tuple[str, ...]
    """The indexes' hosts, each with its port."""
    stands_for: frozenset[str]
    """Public hosts that the indexes replace."""
    access: Access
    told: tuple[str, ...]
    """The variables and files that contain something, for people."""
    left_out: tuple[str, ...] = ()
    """Hosts of indexes that are not lent because their address contains a token."""

    def write_files(self, home: Path) -> None:
        if self.npmrc:
            (home / ".npmrc").write_text(self.npmrc)


def find_lent_access(settings: Settings) -> PackageAccess | None:
    """Return what this host lends its set-up commands; None if it lends nothing."""
    if settings.setup_network != "host":
        return None
    access = package_access(package_environment(), Path.home())
    if access.left_out:
        log.warning("setup.index_left_out", hosts=list(access.left_out), why="a token in the address's path or query")
    return access


def unlent(settings: Settings) -> str:
    """Describe, in a clause, what this host has and set-up commands are not lent; empty if nothing."""
    access = package_access(package_environment(), Path.home())
    if settings.setup_network == "host":
        hosts = ", ".join(access.left_out)
        clause = (
            f"set-ups are not lent the index at {hosts}, for a token seems to be in the path or query of its address"
        )
        return f"{clause}; write it as the password (https://USER:TOKEN@HOST/...)" if hosts else ""
    told = access.told
    named = ", ".join(told)
    return (
        f"set-ups are not lent this host's {named}; FORGEPOOL_SETUP_NETWORK=host lends them to set-ups" if told else ""
    )


def package_access(environment: Mapping[str, str], home: Path) -> PackageAccess:
    """Read these variables, and the files below this home and in `/etc`. Unreadable files count as empty."""
    return _Reading(environment=environment, home=home).result()


@dataclass(slots=True, kw_only=True)
class _Reading:
    environment: Mapping[str, str]
    home: Path
    keys: list[Key] = field(default_factory=list)
    hosts: list[str] = field(default_factory=list)
    folders: list[tuple[str, str]] = field(default_factory=list)
    """Each index's host with its port, and the path below which its pages and files are."""
    left_out: list[str] = field(default_factory=list)
    authorities: list[str] = field(default_factory=list)
    told: list[str] = field(default_factory=list)
    proxies: dict[str, str] = field(default_factory=dict)

    def result(self) -> PackageAccess:
        pip, uv, npm = self._pip(), self._uv(), self._npm()
        self._netrc()
        self.told += [
            name for name in (*_AUTHORITIES, *_PROXY_NAMES) if name in self.environment and name != _LENT_ANYWAY
        ]
        variables = {name: value for name, value in (pip | uv).items() if value}
        replaced = [*(_PUBLIC_OF_PYTHON if variables else ()), *(_PUBLIC_OF_NODE if "registry=" in npm else ())]
        return PackageAccess(
            variables=variables,
            npmrc=npm,
            hosts=tuple(dict.fromkeys(self.hosts)),
            stands_for=frozenset(replaced),
            access=Access(
                keys=tuple(self.keys), proxies=Proxies.of(self.proxies | dict(self.environment)), roots=self._roots()
            ),
            told=tuple(dict.fromkeys(self.told)),
            left_out=tuple(dict.fromkeys(self.left_out)),
        )

    def _pip(self) -> dict[str, str]:
        said: dict[str, str] = {}
        for path in self._pip_files():
            said |= self._ini(path)
        for key in _OF_PIP:
            name = f"PIP_{key.upper().replace('-', '_')}"
            if name in self.environment:
                said[key] = self.environment[name]
                self.told.append(name)
        self.authorities += filter(None, (said.get("cert"),))
        if said.get("proxy"):
            self.proxies |= {"http_proxy": said["proxy"], "https_proxy": said["proxy"]}
        extra = [self._index(url) for url in said.get("extra-index-url", "").split()]
        return {"PIP_INDEX_URL": self._index(said.get("index-url", "")), "PIP_EXTRA_INDEX_URL": _joined(extra)}

    def _pip_files(self) -> Iterator[Path]:
        """Yield pip's files; later ones win."""
        config = Path(self.environment.get("XDG_CONFIG_HOME") or self.home / ".config")
        yield from (Path("/etc/xdg/pip/pip.conf"), Path("/etc/pip.conf"))
        yield from (self.home / ".pip" / "pip.conf", config / "pip" / "pip.conf")
        for name, file in (("VIRTUAL_ENV", "pip.conf"), ("PIP_CONFIG_FILE", "")):
            if self.environment.get(name):
                yield Path(self.environment[name]) / file

    def _ini(self, path: Path) -> dict[str, str]:
        parser = configparser.RawConfigParser()
        said: dict[str, str] = {}
        with suppress(OSError, configparser.Error, UnicodeDecodeError):
            if parser.read(path, encoding="utf-8"):
                for section in ("global", "install"):
                    items = parser.items(section) if parser.has_section(section) else []
                    said |= {key.replace("_", "-"): value for key, value in items}
        if not _OF_PIP.isdisjoint(said):
            self.told.append(self._shown(path))
        return said

    def _uv(self) -> dict[str, str]:
        config = Path(self.environment.get("XDG_CONFIG_HOME") or self.home / ".config")
        named = self.environment.get("UV_CONFIG_FILE")
        default, others = "", list[str]()
        for path in (Path(named),) if named else (Path("/etc/uv/uv.toml"), config / "uv" / "uv.toml"):
            first, more = self._uv_file(path)
            default, others = first or default, [*more, *others]
        for name in ("UV_INDEX_URL", "UV_DEFAULT_INDEX"):
            default = self._variable(name) or default
        for name in ("UV_EXTRA_INDEX_URL", "UV_INDEX"):
            others = [*self._variable(name).split(), *others]
        indexes = {
            "UV_DEFAULT_INDEX": self._index(default),
            "UV_INDEX": _joined(self._named_index(one) for one in others),
        }
        return {name: value for name, value in indexes.items() if value}

    def _uv_file(self, path: Path) -> tuple[str, list[str]]:
        with suppress(OSError, tomllib.TOMLDecodeError, UnicodeDecodeError):
            said = tomllib.loads(path.read_text(encoding="utf-8"))
            listed = [one for one in said.get("index", ()) if isinstance(one, dict) and one.get("url")]
            default = next((str(one["url"]) for one in listed if one.get("default")), str(said.get("index-url") or ""))
            others = [_named(one) for one in listed if not one.get("default")]
            others += map(str, said.get("extra-index-url", ()))
            self.told += [self._shown(path)] if default or others else []
            return default, others
        return "", []

    def _named_index(self, written: str) -> str:
        """Read `name=https://...`, or the URL alone; variables named after it may hold the password."""
        name, equals, url = written.partition("=")
        if not equals or "/" in name:
            return self._index(written)
        stem = f"UV_INDEX_{re.sub(r'[^A-Z0-9]', '_', name.upper())}_"
        user, password = (self.environment.get(f"{stem}{part}", "") for part in ("USERNAME", "PASSWORD"))
        lent = self._index(url)
        if lent and (user or password) and "@" not in url:
            self._key(url, basic(user, password), folder=_folder(url))
        return f"{name}={lent}" if lent else ""

    def _npm(self) -> str:
        """Return an `.npmrc` with the registries and no password."""
        said: dict[str, str] = {}
        for path in (
            Path(self._variable("NPM_CONFIG_GLOBALCONFIG") or "/etc/npmrc"),
            Path(self._variable("NPM_CONFIG_USERCONFIG") or self.home / ".npmrc"),
        ):
            said |= self._npmrc(path)
        for key in _OF_NPM:
            name = f"NPM_CONFIG_{key.upper().replace('-', '_')}"
            said[key] = self._variable(name) or said.get(key, "")
        self.authorities += filter(None, (said["cafile"],))
        self.proxies |= {
            f"{kind}_proxy": value
            for kind, value in (("http", said["proxy"]), ("https", said["https-proxy"] or said["proxy"]))
            if value
        }
        for key, value in said.items():
            self._npm_key(key, value, said)
        registries = ((key, said[key]) for key in said if key == "registry" or key.endswith(":registry"))
        return "".join(f"{key}={lent}\n" for key, url in registries if (lent := self._index(url)))

    def _npmrc(self, path: Path) -> dict[str, str]:
        said: dict[str, str] = {}
        with suppress(OSError, UnicodeDecodeError):
            for line in path.read_text(encoding="utf-8").splitlines():
                key, equals, value = line.strip().partition("=")
                if equals and key[0] not in "#;":
                    written = value.strip().strip("\"'")
                    said[key.strip()] = _VARIABLE.sub(lambda found: environment_value(found[1]), written)
        if any(key in _OF_NPM or key.endswith(":registry") or key.startswith("//") for key in said):
            self.told.append(self._shown(path))
        return said

    def _npm_key(self, key: str, value: str, said: Mapping[str, str]) -> None:
        """Read `//host/path/:_authToken`, `:_auth`, or `:username` with `:_password`, which is in base64."""
        place, _, what = key.rpartition(":")
        if not place.startswith("//") or not value:
            return
        match what:
            case "_authToken":
                self._key(f"https:{place}", f"Bearer {value}")
            case "_auth":
                self._key(f"https:{place}", f"Basic {value}")
            case "username" if said.get(f"{place}:_password"):
                with suppress(ValueError):
                    password = base64.b64decode(said[f"{place}:_password"]).decode()
                    self._key(f"https:{place}", basic(value, password))

    def _netrc(self) -> None:
        """Add the passwords of indexes that have none yet."""
        path = Path(self.environment.get("NETRC") or self.home / ".netrc")
        with suppress(OSError, netrc.NetrcParseError, UnicodeDecodeError):
            known = netrc.netrc(str(path))
            told = Access(keys=tuple(self.keys))
            for host, folder in dict.fromkeys(self.folders):
                written, _, port = host.rpartition(":")
                name = written.strip("[]")
                found = known.authenticators(name)
                if found is not None and told.authorization(name, int(port), folder) is None:
                    self._key(f"https://{host}", basic(found[0], found[2] or ""), folder=folder)
                    self.told.append(self._shown(path))

    def _index(self, url: str) -> str:
        """Return the URL without its password, which is kept, and allow its host. Empty if the index is not lent."""
        place = _place(url)
        if place is None:
            return ""
        parts = urlsplit(url.strip())
        host = write_in_full(*place)
        if parts.query or _has_token(parts.path):
            self.left_out.append(host)
            return ""
        self.hosts.append(host)
        self.folders.append((host, _folder(url)))
        if parts.username is not None:
            said = basic(unquote(parts.username), unquote(parts.password or ""))
            self._key(urlunsplit((parts.scheme, host, "", "", "")), said, folder=_folder(url))
        return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2], fragment=""))

    def _key(self, url: str, authorization: str, *, folder: str = "") -> None:
        """Keep a password for what is below the URL, or below that folder of its host."""
        place = _place(url)
        if place is not None:
            path = folder or urlsplit(url).path or "/"
            self.keys.append(Key(host=place[0], port=place[1], path=path, authorization=authorization))

    def _variable(self, name: str) -> str:
        """Read a variable in either case, as npm does."""
        for written in (name, name.lower()):
            if written in self.environment:
                self.told.append(written)
                return self.environment[written]
        return ""

    def _roots(self) -> str:
        """Return the certificates of all authorities that the host's programs trust, as PEM."""
        paths = [*self.authorities, *(self.environment.get(name, "") for name in _AUTHORITIES)]
        blocks = list[str]()
        for path in (*_usual_authorities(), *paths):
            with suppress(OSError, ValueError):
                blocks += _PEM.findall(Path(path).read_text(encoding="utf-8", errors="replace")) if path else []
        return "".join(f"{block}\n" for block in dict.fromkeys(blocks))

    def _shown(self, path: Path) -> str:
        return f"~/{path.relative_to(self.home)}" if path.is_relative_to(self.home) else str(path)


def _usual_authorities() -> Sequence[str]:
    import certifi

    return tuple(filter(None, (ssl.get_default_verify_paths().cafile, certifi.where())))


def _named(index: Mapping[str, object]) -> str:
    return f"{index['name']}={index['url']}" if index.get("name") else str(index["url"])


def _joined(urls: Iterable[str]) -> str:
    return " ".join(filter(None, urls))


def _folder(url: str) -> str:
    """
    Return the path below which an index has its pages and files.

    Python's pages are in a folder `simple`, and most indexes have the files beside it.
    """
    return _FOLDER_OF_PAGES.sub("/", urlsplit(url.strip()).path) or "/"


def _has_token(path: str) -> bool:
    """Does the path contain a run of letters and digits too long and too mixed to be a name?"""
    return any(_TOKEN.fullmatch(run) for run in _RUN.findall(unquote(path)))


def _place(url: str) -> tuple[str, int] | None:
    with suppress(BadHost, ValueError):
        parts = urlsplit(url.strip())
        if parts.scheme in ("http", "https") and parts.hostname:
            written = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
            return host_name(written), parts.port or (443 if parts.scheme == "https" else 80)
    return None
