"""
A profile for macOS' Seatbelt, and the command line that runs a program under it.

The profile allows only what it names, and the last matching rule wins: so protected paths stand at the end. Seatbelt
has no namespaces. Processes outside can be seen in part and memory is not limited. Loopback is the host's, so only the
proxy's port is open.

Only the text is tested, on any system. Standard library only, as its neighbours for Linux.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:  # `collections.abc` is not loaded at a launcher's start.
    from collections.abc import Iterable, Sequence

PROGRAM = "/usr/bin/sandbox-exec"
"""A full path: the first match on a command's PATH may be the command's own."""

_SYSTEM = (
    "/System",
    "/usr",
    "/bin",
    "/sbin",
    "/opt",
    "/Library/Apple",
    "/Library/Developer/CommandLineTools",
    "/Applications/Xcode.app",
    "/private/etc",
    "/private/var/db/dyld",
    "/private/var/db/timezone",
    "/private/var/select",
)
"""The files that a shell, a compiler and the interpreters consist of."""

_BASE = """\
(version 1)
(deny default)
; What `deny default` leaves open.
(deny process-info* nvram* iokit-get-properties file-map-executable)
(allow process-exec process-fork)
(allow signal process-info* (target same-sandbox))
; Named one by one: kern.procargs2 would tell the environment of the user's other processes.
(allow sysctl-read
  (sysctl-name-prefix "hw.") (sysctl-name-prefix "machdep.cpu.")
  (sysctl-name "kern.argmax") (sysctl-name "kern.hostname") (sysctl-name "kern.maxfilesperproc")
  (sysctl-name "kern.maxproc") (sysctl-name "kern.ngroups") (sysctl-name "kern.osproductversion")
  (sysctl-name "kern.osrelease") (sysctl-name "kern.ostype") (sysctl-name "kern.osvariant_status")
  (sysctl-name "kern.osversion") (sysctl-name "kern.secure_kernel") (sysctl-name "kern.usrstack64")
  (sysctl-name "kern.version") (sysctl-name "sysctl.proc_cputype") (sysctl-name "sysctl.proc_native")
  (sysctl-name "vm.loadavg"))
; Users' and groups' names, and logging. Not the keychain, the pasteboard, Apple events or launchd.
(allow mach-lookup
  (global-name "com.apple.system.opendirectoryd.libinfo")
  (global-name "com.apple.system.opendirectoryd.membership")
  (global-name "com.apple.system.notification_center")
  (global-name "com.apple.system.logger")
  (global-name "com.apple.logd"))
(allow ipc-posix-sem)
(allow pseudo-tty)
(allow file-read* file-write* file-ioctl (literal "/dev/ptmx") (literal "/dev/tty"))
(allow file-read* file-write* (require-all (regex #"^/dev/ttys[0-9]+$") (extension "com.apple.sandbox.pty")))
(allow file-ioctl (regex #"^/dev/ttys[0-9]+$"))
(allow file-read* file-write-data file-ioctl (literal "/dev/null") (literal "/dev/zero"))
(allow file-read* (literal "/dev/random") (literal "/dev/urandom") (subpath "/dev/fd"))
; The loader lists it.
(allow file-read* (literal "/"))
"""

_ESCAPED = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def profile(
    *, readable: "Iterable[str]", writable: "Iterable[str]", protected: "Iterable[str]", proxy_port: int | None
) -> str:
    """
    Return the rules: reading `readable` and the system's programs, changing `writable` except what is `protected`.

    Paths are real ones (`/private/var`, not `/var`): Seatbelt compares resolved paths. A protected path need not exist.
    It can be neither made nor replaced, and no folder above it moved away, in any case of its letters. Without
    `proxy_port` there is no network at all.

    Raises:
        ValueError: a path is not absolute, is not plain (`..`, a double slash), or contains a NUL.
    """
    readable, writable, protected = ([_plain(path) for path in paths] for paths in (readable, writable, protected))
    seen = [*_SYSTEM, *readable, *writable]
    rules = [
        _rule("allow file-read* file-test-existence file-map-executable", "subpath", seen),
        # A program asks for its working folder's name by going upwards.
        _rule("allow file-read-metadata file-test-existence", "literal", _above(seen)),
        _rule("allow file-write*", "subpath", writable),
        *_sockets(writable),
        *([] if proxy_port is None else [f'(allow network-outbound (remote ip "localhost:{int(proxy_port)}"))']),
        # Moving a folder away would take it from under its rules; the next order's would hold for what came instead.
        _rule("deny file-write-unlink", "literal", [*writable, *_above(protected)]),
        _rule("deny file-write*", "subpath", protected),
        _rule("deny file-write*", "regex", [_in_any_case(path) for path in protected]),
    ]
    return _BASE + "".join(f"{rule}\n" for rule in rules if rule)


def argv(profile: str, command: "Sequence[str]") -> list[str]:
    """Return the command line that runs the command under the profile; profiles do not nest."""
    return [PROGRAM, "-p", profile, "--", *command]


def _sockets(writable: list[str]) -> list[str]:
    """Allow UNIX sockets in the command's own folders, for programs whose parts talk by them."""
    if not writable:
        return []
    return [
        "(allow system-socket (socket-domain AF_UNIX))",
        *(
            _rule(f"allow {does}", "subpath", writable, within=f"{side} unix-socket")
            for does, side in (("network-bind network-inbound", "local"), ("network-outbound", "remote"))
        ),
    ]


def _rule(does: str, how: str, paths: list[str], *, within: str = "") -> str:
    """Return a rule, or nothing for no path: a rule without paths would apply to all."""
    filters = (f"({how} {_quoted(path)})" for path in dict.fromkeys(paths))
    named = " ".join(f"({within} {item})" if within else item for item in filters)
    return f"({does} {named})" if named else ""


def _above(paths: list[str]) -> list[str]:
    """List every folder above the paths, the nearest first, without `/`."""
    return [path[:at] for path in paths for at in range(len(path) - 1, 0, -1) if path[at] == "/"]


def _in_any_case(path: str) -> str:
    """Return a regular expression for the path and all below it, in any case of its ASCII letters."""
    return f"^{''.join(map(_either_case, path))}(/|$)"


def _either_case(character: str) -> str:
    if character.isascii() and character.isalpha():
        return f"[{character.lower()}{character.upper()}]"
    return f"\\{character}" if character in "\\.^$*+?()[]{}|" else character


def _quoted(text: str) -> str:
    return '"' + "".join(_ESCAPED.get(character, character) for character in text) + '"'


def _plain(path: str) -> str:
    if "\0" in path or not path.startswith("/") or any(part in ("", ".", "..") for part in path[1:].split("/")):
        raise ValueError(f"{path!r} cannot stand in a sandbox profile; it must be an absolute path in its plain form")
    return path
