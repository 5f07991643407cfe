import re
from fnmatch import fnmatchcase
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forgepool.workers.sandbox.launch import seatbelt
from forgepool.workers.sandbox.launch.confined import under_seatbelt
from forgepool.workers.schema.confinement import Confinement

Read = list["Read"] | str


def profile(
    *,
    readable: tuple[str, ...] = (),
    writable: tuple[str, ...] = (),
    protected: tuple[str, ...] = (),
    proxy_port: int | None = None,
) -> str:
    return seatbelt.profile(readable=readable, writable=writable, protected=protected, proxy_port=proxy_port)


TOKEN = re.compile(r';[^\n]*|\s+|#"[^"]*"|"(?:\\.|[^"\\])*"|[()]|[^\s()"]+', re.DOTALL)
UNESCAPED = {"n": "\n", "r": "\r", "t": "\t"}


def rules(text: str) -> list[Read]:
    """Parse the profile as Scheme does; an unbalanced bracket or quote raises."""
    stack: list[list[Read]] = [[]]
    at = 0
    while at < len(text):
        found = TOKEN.match(text, at)
        assert found is not None, text[at : at + 40]
        at, token = found.end(), found.group()
        if token == "(":
            stack.append([])
        elif token == ")":
            done = stack.pop()
            stack[-1].append(done)
        elif token.startswith('"'):
            inner = re.sub(r"\\(.)", lambda m: UNESCAPED.get(m[1], m[1]), token[1:-1], flags=re.DOTALL)
            stack[-1].append(f"={inner}")
        elif not token.startswith(";") and not token.isspace():
            stack[-1].append(token)
    assert len(stack) == 1
    return stack[0]


def decided(text: str, operation: str, path: str) -> str:
    """Return the decision of the unconditional rules about a path: the last matching rule counts."""
    decision = "deny"
    for rule in rules(text):
        assert isinstance(rule, list)
        verb, *rest = rule
        operations = [name for name in rest if isinstance(name, str)]
        filters = [part for part in rest if isinstance(part, list)]
        meant = any(fnmatchcase(operation, name) for name in operations)
        if meant and (not filters or any(_matches(part, path) for part in filters)):
            decision = str(verb)
    return decision


def _matches(part: list[Read], path: str) -> bool:
    how, what = part[0], str(part[1])[1:]
    match how:
        case "literal":
            return path == what
        case "subpath":
            return path == what or path.startswith(f"{what}/")
        case "regex" if not str(part[1]).startswith("#"):
            return re.search(what, path) is not None
        case _:
            return False


WORK = profile(
    readable=("/Users/me/.cargo",),
    writable=("/private/var/forge/wt", "/private/var/forge/tmp"),
    protected=("/private/var/forge/wt/.git", "/private/var/forge/wt/a/b/kept"),
    proxy_port=3128,
)


@pytest.mark.parametrize(
    ("operation", "path", "expected"),
    [
        ("file-write-data", "/private/var/forge/wt/src/a.py", "allow"),
        ("file-write-create", "/private/var/forge/tmp/x", "allow"),
        ("file-write-unlink", "/private/var/forge/wt/src/a.py", "allow"),
        ("file-write-data", "/private/var/forge/wt2/a", "deny"),
        ("file-write-data", "/private/var/forge/other", "deny"),
        ("file-write-data", "/Users/me/.cargo/config.toml", "deny"),
        ("file-write-data", "/usr/bin/env", "deny"),
        ("file-write-data", "/", "deny"),
        ("file-write-data", "/private/var/forge/wt/.git", "deny"),
        ("file-write-unlink", "/private/var/forge/wt/.git", "deny"),
        ("file-write-create", "/private/var/forge/wt/.git/hooks/pre-commit", "deny"),
        ("file-write-create", "/private/var/forge/wt/.GIT", "deny"),
        ("file-write-create", "/private/var/forge/wt/.Git/config", "deny"),
        ("file-write-create", "/private/var/forge/wt/.gitignore", "allow"),
        ("file-write-create", "/private/var/forge/wt/xgit", "allow"),
        ("file-write-data", "/private/var/forge/wt/a/b/kept", "deny"),
        ("file-write-unlink", "/private/var/forge/wt/a/b", "deny"),
        ("file-write-unlink", "/private/var/forge/wt/a", "deny"),
        ("file-write-unlink", "/private/var/forge/wt", "deny"),
        ("file-write-unlink", "/private/var/forge/tmp", "deny"),
        ("file-write-create", "/private/var/forge/wt/a/b/new", "allow"),
        ("file-read-data", "/private/var/forge/wt/.git/HEAD", "allow"),
        ("file-read-data", "/Users/me/.cargo/bin/cargo", "allow"),
        ("file-map-executable", "/usr/lib/libSystem.B.dylib", "allow"),
        ("file-map-executable", "/Users/me/evil.dylib", "deny"),
        ("file-read-data", "/Users/me/.ssh/id_ed25519", "deny"),
        ("file-read-data", "/Users/me", "deny"),
        ("file-read-metadata", "/Users/me", "allow"),
        ("file-read-metadata", "/Users/you", "deny"),
        ("file-read-data", "/private/var/forge/other/a", "deny"),
    ],
)
def test_the_last_rule_about_a_path_is_the_meant_one(operation: str, path: str, expected: str) -> None:
    """
    Readable paths can be read, and writable ones changed. Protected ones, and folders above them, cannot be changed or
    moved.
    """
    assert decided(WORK, operation, path) == expected


def test_everything_is_denied_first() -> None:
    """An operation without a rule is denied, with the four that `deny default` leaves open."""
    first, second, third, *_ = rules(WORK)
    assert (first, second) == (["version", "1"], ["deny", "default"])
    assert third == ["deny", "process-info*", "nvram*", "iokit-get-properties", "file-map-executable"]


def test_no_rule_allows_without_naming_what() -> None:
    """Only operations on the command itself are allowed without a condition."""
    bare = {name for rule in rules(WORK) if rule[0] == "allow" for name in [*rule[1:]] if isinstance(name, str)}
    unconditional = [rule[1:] for rule in rules(WORK) if rule[0] == "allow" and all(isinstance(p, str) for p in rule)]
    assert {"file-read*", "file-write*", "network-outbound", "mach-lookup", "sysctl-read"} <= bare
    assert unconditional == [["process-exec", "process-fork"], ["ipc-posix-sem"], ["pseudo-tty"]]


def network(text: str) -> list[Read]:
    return [rule for rule in rules(text) if str(rule[1]).startswith("network")]


def test_of_the_network_only_the_proxy_is_reached() -> None:
    """Loopback is the host's own here, where Redis and other servers listen."""
    assert network(profile()) == []
    assert network(profile(proxy_port=3128)) == [
        ["allow", "network-outbound", ["remote", "ip", "=localhost:3128"]],
    ]


def test_unix_sockets_are_those_in_folders_of_the_command() -> None:
    """Agents' sockets (ssh, gpg, Docker) are elsewhere."""
    assert "AF_UNIX" not in profile(readable=("/private/w",))
    assert network(profile(writable=("/private/w",))) == [
        ["allow", "network-bind", "network-inbound", ["local", "unix-socket", ["subpath", "=/private/w"]]],
        ["allow", "network-outbound", ["remote", "unix-socket", ["subpath", "=/private/w"]]],
    ]


def test_nothing_writable_makes_no_rule() -> None:
    """A rule with an empty list of paths would apply to all paths."""
    text = profile()
    assert decided(text, "file-write-data", "/private/w/x") == "deny"
    assert not [rule for rule in rules(text) if rule[1:] in (["file-write*"], ["file-write-unlink"])]


@given(
    parts=st.lists(
        st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1).filter(
            lambda part: part not in (".", "..")
        ),
        min_size=1,
        max_size=4,
    )
)
def test_a_path_is_read_back_as_it_was_given(parts: list[str]) -> None:
    """No name can end its quotes and add a rule. A protected path is denied in any letter case."""
    path = "/" + "/".join(parts)
    text = profile(writable=("/private/w", path), protected=(path,))
    assert ["deny", "file-write*", ["subpath", f"={path}"]] in rules(text)
    plain = profile(writable=("/private/w", "/x/y"), protected=("/x/y",))
    assert (len(rules(text)), text.count("\n")) == (len(rules(plain)), plain.count("\n"))
    assert decided(text, "file-write-data", path) == "deny"
    upper = "".join(c.upper() if c.isascii() else c for c in path)
    assert decided(text, "file-write-create", f"{upper}/x") == "deny"


@pytest.mark.parametrize("path", ["relative", "", "/a/../b", "/a//b", "/a/", "/a/./b", "/", "/a\0b"])
@pytest.mark.parametrize("kind", ["readable", "writable", "protected"])
def test_a_path_that_is_not_plain_is_refused(kind: str, path: str) -> None:
    """Seatbelt compares text, so another spelling would be another path."""
    with pytest.raises(ValueError, match="cannot stand in a sandbox profile; it must be an absolute path"):
        seatbelt.profile(**({"readable": (), "writable": (), "protected": (), "proxy_port": None} | {kind: (path,)}))  # type: ignore[arg-type]


def test_the_command_follows_the_profile_and_is_no_option() -> None:
    """sandbox-exec has its full path, and the command's first word is not read as an option."""
    assert seatbelt.argv("(version 1)", ["-f", "x"]) == [
        "/usr/bin/sandbox-exec",
        "-p",
        "(version 1)",
        "--",
        "-f",
        "x",
    ]


def test_a_command_is_run_under_the_profile_of_its_confinement(tmp_path: Path) -> None:
    """On macOS the worktree can be changed except its `.git`, and the mirror only read."""
    worktree, mirror = tmp_path / "worktree", tmp_path / "mirror"
    for folder in (worktree, mirror):
        folder.mkdir()
    held = Confinement(level="seatbelt", writable=(worktree,), protected=(worktree / ".git",), readable=(mirror,))
    words = under_seatbelt(("/bin/echo", "x"), {"PATH": "/usr/bin"}, worktree, held)
    assert words[:2] == ("/usr/bin/sandbox-exec", "-p") and words[3:] == ("--", "/bin/echo", "x")
    lines = words[2].splitlines()
    assert [line for line in lines if line.startswith("(allow file-write* ") and f'"{worktree}"' in line]
    assert [line for line in lines if line.startswith("(deny file-write* ") and f'"{worktree}/.git"' in line]
    assert not [line for line in lines if "file-write" in line and f'"{mirror}"' in line]
