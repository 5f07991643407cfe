"""
CODEOWNERS: which approvals a change of these paths needs. Pure: text and names in, answers out.

The two forges read the file differently, so it is read as its own forge would. At GitHub the last matching line counts,
a line without owners frees its paths, and a pattern with an inner slash starts at the top. At GitLab that holds within
each section. There a pattern starts at the top only after a leading slash, and means a folder only with a trailing
slash. A `!` takes a path out of its section for good.

As at the forges, an unreadable line is no rule; it is listed in `mistakes`. A group with unknown members approves
nothing.

Source: the forges' own documentation of the file, and the examples in it.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

Dialect = Literal["github", "gitlab"]

PLACES: Mapping[Dialect, tuple[str, ...]] = {
    "github": (".github/CODEOWNERS", "CODEOWNERS", "docs/CODEOWNERS"),
    "gitlab": ("CODEOWNERS", "docs/CODEOWNERS", ".gitlab/CODEOWNERS"),
}
"""Places of the file in the target's tree; the first one found counts."""

_HEADING = re.compile(r"(\^)?\[([^\[\]]+)\](?:\[([^\]]*)\])?(?:\s+(.*))?")
_WORDS = re.compile(r"((?:\\.|[^\s\\])+)(?:\s+(.*))?")
_OWNER = re.compile(r"@@?[\w.-]+(?:/[\w.-]+)*|[^\s@]+@[^\s@]+\.[^\s@]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnersRule:
    """One line: a pattern and its owners; none where the line names none."""

    pattern: str
    owners: tuple[str, ...]
    line: int
    excludes: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """Rules that apply independently of other sections'; GitHub's file is one section without a name."""

    name: str = ""
    optional: bool = False
    approvals: int = 1
    rules: tuple[OwnersRule, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """Approvals that are still missing, and for which paths."""

    section: str
    pattern: str
    owners: tuple[str, ...]
    paths: tuple[str, ...]
    wanted: int
    given: int

    def __str__(self) -> str:
        several = f" and {len(self.paths) - 1} more" if len(self.paths) > 1 else ""
        count = "an approval" if self.wanted == 1 else f"{self.wanted} approvals (it has {self.given})"
        return f"{self.paths[0]}{several} needs {count} by {' or '.join(self.owners)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Codeowners:
    """A CODEOWNERS file."""

    dialect: Dialect
    sections: tuple[Section, ...] = ()
    mistakes: tuple[str, ...] = ()
    """Invalid lines, one sentence each."""

    def owners_of(self, path: str) -> tuple[str, ...]:
        """Return all owners of a path, those of optional sections too."""
        rules = (self._rule(section, path) for section in self.sections)
        return tuple(dict.fromkeys(owner for rule in rules if rule is not None for owner in rule.owners))

    def owners_wanted(self, paths: Iterable[str]) -> tuple[str, ...]:
        """Return all owners whose approval may be needed for these paths."""
        demands = (rule.owners for _, rule, _ in self._demands(paths))
        return tuple(dict.fromkeys(owner for owners in demands for owner in owners))

    def missing_approvals(
        self,
        paths: Iterable[str],
        approved_by: Collection[str],
        members: Mapping[str, Collection[str]] | None = None,
    ) -> tuple[Missing, ...]:
        """
        Return the approvals that these paths (both of a rename) still need, given these approvers.

        `members` lists the members of groups, by the owner's name in the file. A person is known by name, with or
        without `@`, or by e-mail address.
        """
        approved = {_plain(name) for name in approved_by}
        missing = []
        for section, rule, touched in self._demands(paths):
            given = len(approved & _eligible(rule.owners, members or {}))
            if given < section.approvals:
                missing.append(
                    Missing(
                        section=section.name,
                        pattern=rule.pattern,
                        owners=rule.owners,
                        paths=touched,
                        wanted=section.approvals,
                        given=given,
                    )
                )
        return tuple(missing)

    def _demands(self, paths: Iterable[str]) -> Iterator[tuple[Section, OwnersRule, tuple[str, ...]]]:
        """Yield rules that need approvals, with the paths they need them for."""
        touched = sorted(set(paths))
        for section in self.sections:
            found: dict[OwnersRule, list[str]] = {}
            for path in () if section.optional else touched:
                rule = self._rule(section, path)
                if rule is not None and rule.owners:
                    found.setdefault(rule, []).append(path)
            yield from ((section, rule, tuple(of_rule)) for rule, of_rule in found.items())

    def _rule(self, section: Section, path: str) -> OwnersRule | None:
        matching = [rule for rule in section.rules if _matches(self.dialect, rule.pattern, path)]
        if not matching or any(rule.excludes for rule in matching):
            return None
        return matching[-1]


def read_codeowners(text: str, dialect: Dialect) -> Codeowners:
    """Read the file as that forge reads it."""
    return _read_github(text) if dialect == "github" else _read_gitlab(text)


def _read_github(text: str) -> Codeowners:
    rules, mistakes = [], []
    for number, pattern, words in _lines(text):
        # Text after a `#` is a comment here, and part of the line at GitLab.
        owners = tuple(words[: next((i for i, word in enumerate(words) if word.startswith("#")), len(words))])
        strange = [owner for owner in owners if not _OWNER.fullmatch(owner)]
        if pattern.startswith(("!", "\\#")) or "[" in pattern:
            mistakes.append(f"line {number}: '{pattern}' has '!', '[' or '\\#', which GitHub does not support")
        elif strange:
            mistakes.append(f"line {number}: '{strange[0]}' is not an owner; use @user, @org/team or an address")
        else:
            rules.append(OwnersRule(pattern=pattern, owners=owners, line=number))
    return Codeowners(dialect="github", sections=(Section(rules=tuple(rules)),), mistakes=tuple(mistakes))


def _read_gitlab(text: str) -> Codeowners:
    sections: dict[str, Section] = {"": Section()}
    mistakes: list[str] = []
    name, defaults = "", tuple[str, ...]()
    for number, line in _kept(text):
        heading = _HEADING.fullmatch(line)
        if heading is not None:
            name, defaults = heading[2].strip().lower(), _owners(_split(heading[4] or ""), number, mistakes)
            sections[name] = _opened(sections.get(name), heading, number, mistakes)
            continue
        match = _WORDS.match(line)
        pattern, words = (match[1], _split(match[2] or "")) if match else (line, [])
        if line.startswith(("[", "^[")):
            mistakes.append(f"line {number}: '{line}' is not a heading; use [NAME], ^[NAME] or [NAME][2]")
        owners = _owners(words, number, mistakes) or defaults
        excludes = pattern.startswith("!")
        if not owners and not excludes:
            mistakes.append(f"line {number}: '{pattern}' has no owner, so it requires no approval")
        rule = OwnersRule(pattern=pattern.removeprefix("!"), owners=owners, line=number, excludes=excludes)
        if not _is_readable(rule.pattern):
            mistakes.append(f"line {number}: '{pattern}' has an invalid set of characters")
            continue
        sections[name] = replace(sections[name], rules=(*sections[name].rules, rule))
    return Codeowners(dialect="gitlab", sections=tuple(sections.values()), mistakes=tuple(mistakes))


def _opened(before: Section | None, heading: re.Match[str], number: int, mistakes: list[str]) -> Section:
    """Open or continue a section; of two headings, the stricter demand counts."""
    optional, name, count = heading[1] is not None, heading[2].strip(), heading[3]
    approvals = int(count) if count and count.isdecimal() else 0 if count is not None else 1
    if approvals < 1:
        mistakes.append(f"line {number}: '{count}' is not a number of approvals; one is required")
    if before is None:
        return Section(name=name, optional=optional, approvals=max(1, approvals))
    return replace(before, optional=before.optional and optional, approvals=max(before.approvals, approvals))


def _owners(words: Sequence[str], number: int, mistakes: list[str]) -> tuple[str, ...]:
    """Return the valid owners of a line, as GitLab does, which drops the others."""
    strange = [word for word in words if not _OWNER.fullmatch(word)]
    mistakes += [f"line {number}: '{word}' is not an owner; use @user, @group or an address" for word in strange]
    return tuple(word for word in words if word not in strange)


def _kept(text: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(text.removeprefix("\ufeff").splitlines(), start=1):
        if line.strip() and not line.lstrip().startswith("#"):
            yield number, line.strip()


def _lines(text: str) -> Iterator[tuple[int, str, list[str]]]:
    for number, line in _kept(text):
        match = _WORDS.match(line)
        yield (number, match[1], _split(match[2] or "")) if match else (number, line, [])


def _split(words: str) -> list[str]:
    return words.split()


def _plain(name: str) -> str:
    return name.removeprefix("@").casefold()


def _eligible(owners: Iterable[str], members: Mapping[str, Collection[str]]) -> set[str]:
    """Return the people whose approval counts, with groups replaced by their members."""
    found: set[str] = set()
    for owner in owners:
        if owner in members:
            found |= {_plain(member) for member in members[owner]}
        elif "/" not in owner and not owner.startswith("@@"):
            found.add(_plain(owner))
    return found


def _matches(dialect: Dialect, pattern: str, path: str) -> bool:
    return _expression(dialect, pattern).fullmatch(path) is not None


def _is_readable(pattern: str) -> bool:
    try:
        _expression("gitlab", pattern)
    except re.error:
        return False
    return True


@lru_cache(maxsize=4096)
def _expression(dialect: Dialect, pattern: str) -> re.Pattern[str]:
    made = _as_gitignore(pattern) if dialect == "github" else _as_fnmatch(pattern)
    return re.compile(made, re.DOTALL)


def _as_gitignore(pattern: str) -> str:
    """Translate a pattern as gitignore reads it, except that a final `/*` goes no deeper."""
    is_folder, inner = pattern.endswith("/"), pattern.strip("/")
    before = "" if pattern.startswith("/") or "/" in inner else r"(?:.*/)?"
    *parents, last = inner.split("/")
    deeper = "/.+" if is_folder else "" if last == "*" and "/" in pattern else r"(?:/.+)?"
    if last == "**":
        return before + "".join(map(_segment, parents)) + ".+"
    return before + "".join(map(_segment, parents)) + _glob(last, sets=False) + deeper


def _segment(name: str) -> str:
    return r"(?:.*/)?" if name == "**" else _glob(name, sets=False) + "/"


def _as_fnmatch(pattern: str) -> str:
    """Translate a pattern as Ruby's `File.fnmatch` reads it, with its flags for paths and dot files."""
    whole = pattern if pattern.startswith("/") else f"/**/{pattern}"
    whole += "**/*" if whole.endswith("/") else ""
    *parents, last = whole[1:].split("/")
    return "".join(r"(?:.*/)?" if name == "**" else _glob(name, sets=True) + "/" for name in parents) + _glob(
        last, sets=True
    )


_PIECE = re.compile(
    r"\\(?P<plain>.)|(?P<stars>\*+)|(?P<one>\?)|\[(?P<not>[!^]?)(?P<set>[^\]]+)\]|(?P<other>.)", re.DOTALL
)


def _glob(name: str, *, sets: bool) -> str:
    """Translate a pattern within one path component."""
    return "".join(_piece(match, sets=sets) for match in _PIECE.finditer(name))


def _piece(match: re.Match[str], *, sets: bool) -> str:
    if match["stars"]:
        return "[^/]*"
    if match["one"]:
        return "[^/]"
    if match["set"]:
        inner = re.sub(r"([\\\[\]&~|^])", r"\\\1", match["set"])
        return f"(?!/)[{'^' if match['not'] else ''}{inner}]" if sets else re.escape(match[0])
    return re.escape(match["plain"] or match["other"])
