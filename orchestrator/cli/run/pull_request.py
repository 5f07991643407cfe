"""`forgepool run --pr`: a pull or merge request of what has landed, with the run's report as its text."""

import re
import threading
from dataclasses import dataclass

from forgepool.orchestrator.cli.output.say import complain, printable
from forgepool.orchestrator.merge_queue.bot.service import Connected, Connection, connect_forge
from forgepool.orchestrator.merge_queue.forges.protocol import ForgeAway, ForgeRefused
from forgepool.orchestrator.reports.report import report_lines
from forgepool.orchestrator.reports.status import tell_verdict
from forgepool.orchestrator.run.hub import CannotRun, Hub
from forgepool.orchestrator.run.run_folder import KeptRun
from forgepool.workers.schema.error_lines import plain_text
from forgepool.workers.schema.settings import Settings

_MOST_TEXT = 60_000
"""Characters of a description; GitHub takes 65,536."""
_MOST_LINE = 2_000
_LOUD = re.compile(
    r"@(?=\w)|[#!](?=\d)|!(?=\[)|\bGH-(?=\d)|(?-i:\b[A-Z][A-Z0-9_]+-)(?=\d)|:(?=//)|^[ \t]*/(?=\w)|depends-on(?=:)"
    r"|c(?=los)|f(?=ix)|r(?=esolv)|i(?=mplement)",
    re.IGNORECASE,
)
"""
Words on which a forge or our bot would act even in code: GitLab looks for words that close issues in the raw text, and
other programs for mentions, references, URLs of issues, pictures, commands and dependencies.
"""
_LOCAL = re.compile(r"(?<![\w.:/~@+-])(?:~(?:/[\w.@+~-]+)*|(?:/[\w.@+~-]+)+)/(?=[\w.@+~-])")
"""The folders of an absolute path, which name a person's home or a host's disks."""
_LINE = re.compile(r"( *(?:- |#+ )?)(.*)")
"""A line of the report: its place in the outline, and its words."""
_NOTHING = "\u200b"
"""A space of no width."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A change at a forge that is to be opened at the end of a run."""

    forge: Connected
    target: str
    base: str

    def send(self, kept: KeptRun) -> None:
        """Open it, or update the one that is open; a failure is a sentence, since the run's outcome stands."""
        state, recorded = kept.replay()
        if not state.count("landed"):
            complain("there is no pull request, because nothing has landed", 0)
            return
        text = make_text("\n".join(report_lines(kept, state, recorded, public=True)))
        title = _quiet(plain_text(f"{kept.plan.name}: {tell_verdict(kept.course, state)}"))
        try:
            with self.forge.api:
                sent = self.forge.forge.propose(self.target, self.base, title, text)
            kept_text = "" if sent.written else "; its description is a person's own and was kept"
            complain(f"the pull request is {printable(sent.url)}{kept_text}", 0)
        except (ForgeRefused, ForgeAway) as trouble:
            complain(f"there is no pull request: {trouble}", 0)


def prepare_proposal(wanted: str, hub: Hub, target: str, settings: Settings) -> Proposal:
    """
    Return the proposal that `--pr` asks for, such as `github:OWNER/REPO` or `gitlab:GROUP/PROJECT@https://HOST/api/v4`.

    Raises:
        CannotRun: the forge lacks the branch, cannot be asked, or takes no token; nothing has begun.
    """
    base = hub.facts.default_branch
    if hub.facts.local is not None:
        raise CannotRun("--pr needs the forge's own repository, and this one is on this host; add --repo URL")
    if base is None or base == target:
        raise CannotRun(f"--pr proposes the target for {base or 'a default branch'}; give the plan another target")
    repository, _, url = wanted.partition("@")
    forge = connect_forge(Connection(forge=repository, url=url or None), settings, threading.Event(), option="--pr")
    try:
        forge.forge.find_open(target, base)
    except (ForgeRefused, ForgeAway) as trouble:
        raise CannotRun(f"--pr: {trouble}") from trouble
    return Proposal(forge=forge, target=target, base=base)


def make_text(report: str) -> str:
    """
    Return a report as a description, in which texts of agents mention no person, close no issue and load nothing.

    The words of each line are code, in which forges see nothing else. Of a path on a host, its last part is left.
    """
    lines = "\n".join(_quote_line(line[:_MOST_LINE]) for line in plain_text(report).splitlines())
    if len(lines) <= _MOST_TEXT:
        return f"{lines}\n"
    return f"{lines[:_MOST_TEXT].rpartition(chr(10))[0]}\n\n(cut; `forgepool report` shows all)\n"


def _quiet(words: str) -> str:
    """Return words on which no forge acts, in which a path on a host has only its last part."""
    return _LOUD.sub(lambda loud: loud[0] + _NOTHING, _LOCAL.sub("…/", words))


def _quote_line(line: str) -> str:
    """Return a line with its words as a code span, which ends where as many backticks follow as it began with."""
    found = _LINE.fullmatch(line)
    assert found is not None, "a pattern of anything matches a line"
    words = _quiet(found[2].strip())
    ticks = "`" * (1 + max(map(len, re.findall("`+", words)), default=0))
    return f"{found[1]}{ticks} {words} {ticks}" if words else ""
