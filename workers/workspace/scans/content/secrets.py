"""
`secret`: keys and passwords in added lines, found by the patterns of detect-secrets and by the names beside them.

Only the patterns are used, and nothing is verified over a network. A finding never shows the secret. Keys in the form
of a known service block, and values that only look like a secret ask for attention. Hashes in lock files,
identifiers, digests, templates and examples do not count. Keys in a known form are also found in parts that code
joins, and in base64, hex, escapes and lists of numbers.

Why not its `KeywordDetector`: its time grows with the square of a line's length, 46 s for one of 20 kB.
"""

import base64
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from forgepool.workers.policy.gate_file.test_paths import is_test_path
from forgepool.workers.workspace.scans.findings import ScanFinding, Weight
from forgepool.workers.workspace.scans.subject import Subject, find_moved_lines, finding, lighter
from forgepool.worktrees.commits.diff import DiffLine, FileDiff

if TYPE_CHECKING:
    from detect_secrets.plugins.base import RegexBasedDetector

RULE = "secret"

HIDDEN = "[secret hidden]"

_WINDOW, _OVERLAP = 2_000, 200
_MOST_CHARACTERS = 3_000_000
_CERTAIN = (
    *("aws.AWSKeyDetector", "azure_storage_key.AzureStorageKeyDetector", "discord.DiscordBotTokenDetector"),
    *("github_token.GitHubTokenDetector", "gitlab_token.GitLabTokenDetector", "npm.NpmDetector"),
    *("openai.OpenAIDetector", "private_key.PrivateKeyDetector", "pypi_token.PypiTokenDetector"),
    *("sendgrid.SendGridDetector", "slack.SlackDetector", "square_oauth.SquareOAuthDetector"),
    *("stripe.StripeDetector", "telegram_token.TelegramBotTokenDetector", "mailchimp.MailchimpDetector"),
    *("twilio.TwilioKeyDetector", "artifactory.ArtifactoryDetector", "cloudant.CloudantDetector"),
    *("ibm_cloud_iam.IbmCloudIamDetector", "ibm_cos_hmac.IbmCosHmacDetector", "softlayer.SoftlayerDetector"),
    *("jwt.JwtTokenDetector", "basic_auth.BasicAuthDetector"),
)
_ONLY_LIKELY = frozenset(["JwtTokenDetector", "BasicAuthDetector", "TwilioKeyDetector", "MailchimpDetector"])
"""Detectors whose patterns also fit other things."""
_NEWER = re.compile(
    r"sk-(?:ant|proj|svcacct|or-v1)-[\w-]{24,}|AIza[\w-]{35}\b|ya29\.[\w-]{30,}|github_pat_\w{40,}|hf_[A-Za-z]{30,}"
    r"|dop_v1_[0-9a-f]{64}|xapp-\d-[A-Z0-9]+-\d+-\w+|shp(?:at|ss|ca)_[0-9a-fA-F]{32}|npm_[A-Za-z0-9]{36}\b"
    r"|AGE-SECRET-KEY-1[0-9A-Z]{50,}|-----BEGIN ENCRYPTED PRIVATE KEY"
)
_KEY_BLOCK = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL)
_NAMED = re.compile(
    r"(?i:pass(?:word|wd|phrase)|pwd|secret|api_?-?key|auth_?-?(?:key|token)|access_?-?(?:key|token)|private_?-?key"
    r"|client_?-?secret|credentials?|bearer|token|encryption_?-?key|signing_?-?key)\w{0,20}[\"'\]]{0,2}\s{0,4}"
    r"(?:(?::\s{0,2}[\w.<>\[\]|? ]{1,30})?=|:=|:|=>|,)\s{0,4}[@bruf]{0,2}[\"'`](?P<value>[^\"'`\s]{8,200})[\"'`]"
)
_SETTING = re.compile(
    r"^\s*(?:export\s+|-\s+|ENV\s+|ARG\s+)?[\w.-]{0,40}(?i:password|passwd|secret|api_?key|access_?key|token|private_?key)"
    r"[\w.-]{0,20}\s{0,3}[=:]\s{0,3}(?P<value>[^\s\"'`$<>{}()\[\],;]{12,200})(?:\s+#.*)?$"
)
_SETTINGS = re.compile(
    r"(?:^|/)(?:\.env[\w.-]*|[\w.-]+\.(?:env|ya?ml|toml|ini|cfg|conf|properties|tfvars)|Dockerfile[\w.-]*)$"
)
_QUOTED = re.compile(r"[\"'`]([A-Za-z0-9+/=_\-]{32,120})[\"'`]")
_SOUNDS = re.compile(r"(?i:secret|passw|passphrase|pwd|token|auth|credential|private|bearer|key)")
_SOUNDS_PUBLIC = re.compile(
    r"(?i:sha\d|md5|hash|digest|checksum|integrity|commit|revision|\brev\b|fingerprint|etag|uuid|public|nonce|example"
    r"|placeholder|i18n|translat|label|message|title|selector|path|href|data:|class(?:name)?=)"
)
_NO_SECRET = re.compile(
    r"(?i)^(?:.*(?:example|changeme|change[-_]me|placeholder|dummy|redacted|your[-_]|my[-_]|insert|replace|sample|fake"
    r"|mock|test|foo|bar|xxxx|\*\*\*|\.\.\.|none|null|undefined|secret|password|passwd|token|api[-_]?key|localhost|demo"
    r"|default|invalid|wrong|hunter2|correct[-_]horse|lorem).*|[a-z][a-z_.\- ]*|[A-Z][A-Z_.\-]*|\d+|(.)\1*"
    r"|[\w.]*\{.*\}.*|\$.*|<.*>|%.*|/[\w./-]*|\w+://.*|[\w.]+\(.*\)?|[a-z]+(?:[A-Z][a-z]+)+|[\w-]+\.[\w.-]+"
    r"|0x[0-9a-f]+|[a-z]+(?:[-_:/][a-z0-9]+)+)$"
)
_UUID = re.compile(r"(?i)[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}")
_EXAMPLE_KEY = re.compile(r"EXAMPLE|(?i:example|placeholder|your|xxxx|0000000|1234567890|abcdef|redacted|dummy)")
_NO_SOURCE = re.compile(
    r"(?:^|/)(?:[\w.-]*lock(?:\.\w+)?|[\w.-]+\.(?:lock|sum|resolved|svg|map|snap|ambr|min\.js|css|ipynb|csv|tsv|po|pot)"
    r"|go\.sum|npm-shrinkwrap\.json|packages\.lock\.json|Package\.resolved|checksums?[\w.-]*|SHA\d+SUMS)$"
)
_LEAST_ENTROPY = 4.2


class Secret(NamedTuple):
    """A secret, where it is, and its value, which never leaves this package."""

    path: str
    line: int
    weight: Weight
    what: str
    value: str
    whole: str
    """The line that holds it."""


def scan_secrets(found: tuple[Secret, ...]) -> Iterator[ScanFinding]:
    """Report `secret`, with every value hidden."""
    values = [each.value for each in found]
    for each in found:
        message = f"this looks like {each.what}; remove it, read it from the environment, and revoke it"
        yield finding(RULE, each.weight, message, each.path, each.line, hide_values(each.whole, values))


def hide_values(text: str, values: Iterable[str]) -> str:
    """Return the text with these values replaced."""
    for value in sorted(set(values), key=len, reverse=True):
        text = text.replace(value, HIDDEN)
    return text


def mask(text: str, values: Sequence[str] = ()) -> str:
    """Return the text, such as the end of a log, with these values hidden, and all else that looks like a secret."""
    text = _KEY_BLOCK.sub(HIDDEN, hide_values(text, values))
    named = (each for line in text.split("\n") if _SOUNDS.search(line) for each in _named(line, unquoted=True))
    return hide_values(text, [value for _, _, value in (*_certain(text), *named)])


def is_listing(path: str) -> bool:
    """Tell whether the name belongs to a file that programs write: a lock file, checksums, a drawing, a snapshot."""
    return _NO_SOURCE.search(path) is not None


def find_secrets(subject: Subject) -> tuple[Secret, ...]:
    """Return the secrets in lines that were added and not merely moved."""
    return tuple(_found(subject))


def files_not_read(subject: Subject) -> tuple[FileDiff, ...]:
    """Return the files with added lines that were skipped because the change is too large."""
    return tuple(file for file, lines in _read(subject) if len(lines) < len(file.added))


def _read(subject: Subject) -> Iterator[tuple[FileDiff, tuple[DiffLine, ...]]]:
    """Yield each file with those of its added lines that fit into the limit."""
    room = _MOST_CHARACTERS
    for file in subject.read:
        lines: list[DiffLine] = []
        for line in file.added:
            if len(line.text) <= room:
                room -= len(line.text)
                lines.append(line)
        yield file, tuple(lines)


def _found(subject: Subject) -> Iterator[Secret]:
    moved = find_moved_lines(subject)
    for file, lines in _read(subject):
        in_test, unquoted = is_test_path(file.path), _SETTINGS.search(file.path) is not None
        is_source = not is_listing(file.path)
        suspicious = _suspicious(lines)
        for line in lines:
            found = [*(_certain(line.text) if line.number in suspicious else ())]
            if is_source and not found and _SOUNDS.search(line.text):
                found = [*_named(line.text, unquoted=unquoted)]
            if found and line.text.strip() not in moved:
                for weight, what, value in dict.fromkeys(found):
                    least = lighter(weight) if in_test else weight
                    yield Secret(file.path, line.number, least, what, value, line.text)
        for line, what, value in _assembled(lines) if lines else ():
            if line.text.strip() not in moved:
                least = lighter("blocks") if in_test else "blocks"
                yield Secret(file.path, line.number, least, f"{what}, in parts or encoded", value, "")


_JOINT = r"[\"'`]\s*(?:\+|\.\.|<>|[.&~\\%s])?\s*(?:\b[bruf]{1,2})?[\"'`]"
"""Signs between two strings that become one."""
_SIDE_BY_SIDE, _LISTED = re.compile(_JOINT % ""), re.compile(_JOINT % ",")
_JOINS = re.compile(r"\bjoin\(|\bconcat\b|\bformat\(|%\s*\(")
_FILLED = re.compile(r"\{\d?\}[\"']\.format\(\s*[\"']|\{\s*[\"']([\w/+-]*)[\"']\s*\}")
_NAMED_PART = re.compile(r"\b([A-Za-z_]\w*)\s*(?::[^=\n]{1,30})?:?=\s*[\"'`]([^\"'`\n]{2,200})[\"'`]")
_SUM = re.compile(r"\b[A-Za-z_]\w*(?:\s*\+\s*[A-Za-z_]\w*){1,9}|(?:\$?\{[A-Za-z_]\w*\}){2,9}")
_FORMS = re.compile(
    r"A3T[A-Z0-9]|A[BCKS]IA[A-Z0-9]|ACCA|gh[pousr]_|github_pat_|glpat-|xox[abeoprs]-|hooks\.slack|[rs]k_live_|sk-(?:ant|proj)"
    r"|SG\.|pypi-|npm_|hf_|AIza|ya29\.|dop_v1_|shp(?:at|ss|ca)_|AGE-SECRET-KEY|PRIVATE KEY"
)
"""Beginnings of keys in the form of a known service."""
_AROUND = 300
_ENCODED = re.compile(r"(?<![\w+/=])[A-Za-z0-9+/_-]{24,4000}={0,2}")
_BYTES = re.compile(
    r"(?:\\x[0-9a-fA-F]{2}|\\u00[0-9a-fA-F]{2}|\b(?:0x[0-9a-fA-F]{2}|\d{2,3})\s{0,9}[,)\]]\s{0,9}){16,400}"
)


def _assembled(lines: Sequence[DiffLine]) -> Iterator[tuple[DiffLine, str, str]]:
    """Yield the keys in a known form that no line holds as a whole: the line where each begins, the form, the key."""
    raw = "\n".join(line.text for line in lines)
    joined = _FILLED.sub(r"\1", raw)
    joined = (_LISTED if _JOINS.search(raw) else _SIDE_BY_SIDE).sub("", joined)
    backwards = raw[::-1] if "[::-1]" in raw or "reverse" in raw else ""
    for what, value in (*_in_form(joined), *_in_form("\n".join(_sums(raw)))):
        if value not in raw:
            yield _line_of(lines, value[:4]), what, value
    for what, value in _in_form(backwards):
        yield _line_of(lines, value[::-1]), what, value[::-1]
    encoded = (*((found[0], _decode(found[0])) for found in _ENCODED.finditer(joined)),)
    for text, decoded in (*encoded, *((found[0], _from_numbers(found[0])) for found in _BYTES.finditer(joined))):
        for what, _ in _in_form(decoded):
            yield _line_of(lines, text[:8]), what, text


def _sums(raw: str) -> Iterator[str]:
    """Yield the texts that names of texts are put together to."""
    parts = dict(_NAMED_PART.findall(raw))
    for found in _SUM.finditer(raw) if len(parts) > 1 else ():
        names = re.findall(r"\w+", found[0])
        if parts.keys() >= {*names}:
            yield "".join(parts[name] for name in names)


def _in_form(text: str) -> Iterator[tuple[str, str]]:
    for begin in _FORMS.finditer(text):
        for weight, what, value in _certain(text[max(0, begin.start() - 40) : begin.end() + _AROUND]):
            if weight == "blocks":
                yield what, value


def _line_of(lines: Sequence[DiffLine], begin: str) -> DiffLine:
    return next((line for line in lines if begin in line.text), lines[0])


def _decode(text: str) -> str:
    """Return the text behind hex or base64, or nothing."""
    try:
        if re.fullmatch(r"(?:[0-9a-fA-F]{2})+", text):
            return _printable(bytes.fromhex(text))
        plain = text.rstrip("=").replace("-", "+").replace("_", "/")
        return _printable(base64.b64decode(plain + "=" * (-len(plain) % 4)))
    except ValueError:
        return ""


def _from_numbers(text: str) -> str:
    """Return the text of escapes or of a list of numbers, or nothing."""
    numbers = [
        int(by_16, 16) if by_16 else int(by_10)
        for by_16, by_10 in re.findall(r"(?:\\x|\\u00|0x)([0-9a-fA-F]{2})|(\d{2,3})", text)
    ]
    return _printable(bytes(numbers)) if max(numbers, default=0) < 128 else ""


def _printable(data: bytes) -> str:
    text = data.decode("ascii", "replace")
    return text if text.isascii() and text.replace("\n", "").isprintable() else ""


def _suspicious(lines: tuple[DiffLine, ...]) -> frozenset[int]:
    """Return the numbers of the lines that may hold a pattern. Lines are searched in batches, as calls are slow."""
    found: set[int] = set()
    some: list[DiffLine] = []
    size = 0
    for line in (*lines, None):
        if line is None or size > _WINDOW:
            text = "\n".join(each.text for each in some)
            if any(True for _ in _certain(text)):
                found.update(each.number for each in some)
            some, size = [], 0
        if line is not None:
            some.append(line)
            size += len(line.text)
    return frozenset(found)


def _windows(text: str) -> Iterator[str]:
    """Yield overlapping parts of the text, as some patterns take the square of its length."""
    return (text[at : at + _WINDOW] for at in range(0, max(1, len(text) - _OVERLAP), _WINDOW - _OVERLAP))


def _certain(text: str) -> Iterator[tuple[Weight, str, str]]:
    for window in _windows(text):
        for newer in _NEWER.finditer(window):
            yield "blocks", "a key or a token", newer[0]
        for what, likely, plugin in _detectors():
            if any(True for _ in plugin.analyze_string(window)):
                for value in _whole(plugin, window, likely=likely):
                    yield ("attention" if likely else "blocks"), what, value


def _whole(plugin: "RegexBasedDetector", text: str, *, likely: bool) -> Iterator[str]:
    """Yield the whole matches of a detector's patterns. Its own answer is sometimes only the first letters."""
    for pattern in plugin.denylist:
        for found in pattern.finditer(text):
            values = [*plugin.analyze_string(found[0])]
            is_none = likely and all(_NO_SECRET.match(value) for value in values)
            if values and not is_none and not _EXAMPLE_KEY.search(found[0]):
                yield found[0]


def _named(text: str, *, unquoted: bool) -> Iterator[tuple[Weight, str, str]]:
    setting = _SETTING.match(text) if unquoted else None
    if setting is not None and _is_likely(setting["value"], text):
        yield "attention", "a password or a key", setting["value"]
    for window in _windows(text):
        for named in _NAMED.finditer(window):
            if _is_likely(named["value"], window):
                yield "attention", "a password or a key", named["value"]
        if _SOUNDS.search(window) and not _SOUNDS_PUBLIC.search(window):
            for quoted in _QUOTED.finditer(window):
                if _is_random(quoted[1]):
                    yield "attention", "a random key", quoted[1]


def _is_likely(value: str, line: str) -> bool:
    return not (_NO_SECRET.match(value) or _UUID.search(value) or _SOUNDS_PUBLIC.search(line)) and _entropy(value) > 2.5


def _is_random(value: str) -> bool:
    if _UUID.search(value) or _NO_SECRET.match(value):
        return False
    is_hex = re.fullmatch(r"[0-9a-fA-F]+", value) is not None
    kinds = sum(re.search(kind, value) is not None for kind in ("[a-z]", "[A-Z]", "[0-9]"))
    return _entropy(value) > (3.0 if is_hex else _LEAST_ENTROPY) and (is_hex or kinds == 3)


def _entropy(text: str) -> float:
    return -sum(count / len(text) * math.log2(count / len(text)) for count in Counter(text).values())


@cache
def _detectors() -> "tuple[tuple[str, bool, RegexBasedDetector], ...]":
    """Return each detector with the name of what it finds, and whether its patterns fit other things as well."""
    from importlib import import_module

    found = []
    for place in _CERTAIN:
        module, _, name = place.partition(".")
        kind = getattr(import_module(f"detect_secrets.plugins.{module}"), name)
        article = "an" if kind.secret_type[0] in "AEIOU" else "a"
        found.append((f"{article} {kind.secret_type}", name in _ONLY_LIKELY, kind()))
    return tuple(found)
