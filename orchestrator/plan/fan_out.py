"""
Task entries as people write them in a plan, and the expansion of one entry with `for_each` into many.

Everything here works on one entry alone. Relations between entries are checked in `entries` and `graph`.
"""

import hashlib
import re
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import PurePosixPath
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, Tag, model_validator

from forgepool.workers.sandbox import OWN_PREFIX
from forgepool.workers.schema.capabilities import check_label
from forgepool.workers.schema.globs import escape, parse
from forgepool.workers.schema.mistakes import Duration, RaceCount, Where, program_line
from forgepool.workers.schema.orders import CliProgram, HintSettings, Limits, Message
from forgepool.workers.schema.policy_rules import RuleEntry, Unattended, WrittenVerify

_TOKEN = re.compile(r"\{(path|stem|dir|name)\}")
_SHELL = re.compile(
    r"""\\.|'[^']*'|"(?:\\.|[^"\\])*"|(?<![^\s;&|()])\#[^\n]*|\{(?P<token>path|stem|dir|name)\}|.""", re.DOTALL
)
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MOST_SLUG = 80


def _env_name(text: str) -> str:
    if not _ENV_NAME.fullmatch(text):
        raise ValueError("is not the name of an environment variable; use letters, digits and '_', no digit first")
    if text.startswith(OWN_PREFIX):
        raise ValueError(f"is Forgepool's own; use a name that does not start with {OWN_PREFIX}")
    return text


Name = Annotated[str, Field(min_length=1)]


class ModelsEntry(Message):
    """A model for one phase alone."""

    plan: Name | None = None
    execute: Name | None = None


def _known_profile(name: str | None) -> str | None:
    # Imported late: profiles load the grammar of shell commands.
    from forgepool.workers.context.profiles.registry import UnknownProfile, names

    if name is not None and name not in names():
        raise ValueError(str(UnknownProfile(name)))
    return name


def _hints_alone(written: object) -> object:
    """Expand `hints: true` to the usual settings, and `hints: false` to none."""
    return ({} if written else None) if isinstance(written, bool) else written


class BuiltinEntry(Message):
    """The built-in agent as it is written; every key is optional."""

    model: Name | None = None
    models: ModelsEntry = ModelsEntry()
    red_first: bool = False
    hints: Annotated[HintSettings | None, BeforeValidator(_hints_alone, json_schema_input_type=bool | HintSettings)] = (
        HintSettings()
    )
    skill: Name | None = None
    context: Annotated[Name | None, AfterValidator(_known_profile)] = None
    workflow: Name | None = None

    @model_validator(mode="after")
    def _is_red_once(self) -> Self:
        if self.workflow is not None and self.red_first:
            raise ValueError("has both 'workflow' and 'red_first'; remove 'red_first': a workflow has its own phases")
        return self


class CliEntry(Message):
    program: CliProgram
    model: Name | None = None


def _program_alone(written: object) -> object:
    """Expand `cli: claude` to `cli: {program: claude}`."""
    return {"program": written} if isinstance(written, str) else written


def _label_alone(written: object) -> object:
    """Expand `runs_on: gpu` to `runs_on: [gpu]`."""
    return tuple(written) if isinstance(written, list) else (written,) if isinstance(written, str) else written


class AgentEntry(Message):
    """The agent that does the work: one of these."""

    builtin: BuiltinEntry | None = None
    cli: Annotated[
        CliEntry | None, BeforeValidator(_program_alone, json_schema_input_type=CliProgram | CliEntry | None)
    ] = None
    acp: Annotated[Name | None, AfterValidator(program_line)] = None
    """The program, with its arguments, that speaks the Agent Client Protocol."""
    command: Name | None = None
    scripted: Name | None = None
    """The file with a scripted model's turns."""

    @model_validator(mode="after")
    def _is_one(self) -> Self:
        if sum(each is not None for each in (self.builtin, self.cli, self.acp, self.command, self.scripted)) != 1:
            raise ValueError("must have one of the keys 'builtin', 'cli', 'acp', 'command' and 'scripted'")
        return self


class SurveyEntry(Message):
    """The survey as it is written; every key is optional."""

    agent: AgentEntry | None = None
    """A `builtin` or `scripted` agent. None is the defaults', without its skill and workflow, else `{builtin: {}}`."""
    about: str = ""
    """A question that it answers as well."""


def _usual(written: object) -> object:
    if not isinstance(written, bool | dict | SurveyEntry | None):
        raise ValueError("must be `true` or a mapping; its keys are 'agent' and 'about', both optional")
    return ({} if written else None) if isinstance(written, bool) else written


WrittenSurvey = Annotated[SurveyEntry | None, BeforeValidator(_usual, json_schema_input_type=bool | SurveyEntry | None)]


def _any_agent(written: object) -> object:
    """Expand `leads: true` to the built-in agent for the tasks that a lead dispatches."""
    return {"builtin": {}} if written is True else None if written is False else written


def _form(written: object) -> str:
    return "a mapping" if isinstance(written, dict | Message) else "plain"


Rungs = Annotated[tuple[Name, ...], Field(min_length=1, max_length=10)]


class LadderEntry(Message):
    """The models of one attempt after the other, or, by type of task, those of each."""

    ladder: Annotated[
        Annotated[dict[Name, Rungs], Tag("a mapping")] | Annotated[Rungs, Tag("plain")], Discriminator(_form)
    ]
    race: RaceCount = 0
    """2: the first two models begin together where that shortens the run, and the first work to pass lands."""


WrittenAttempts = Annotated[
    Annotated[LadderEntry, Tag("a mapping")] | Annotated[int, Field(ge=1, le=10), Tag("plain")], Discriminator(_form)
]


class LimitsEntry(Limits):
    """Limits as they are written; `model_fields_set` has those that are."""

    wall_s: Duration = Limits().wall_s
    idle_s: Duration = Limits().idle_s


class ForEach(Message):
    """The files of the repository for which an entry is repeated."""

    files: str = Field(min_length=1)


class TaskFields(Message):
    """The keys that a task and the plan's `defaults` have in common."""

    title: str | None = Field(default=None, min_length=1)
    """One line, the subject of the task's commit; null is the id."""
    description: str = ""
    """The instructions for the agent."""
    type: str = Field(default="code", min_length=1)
    """The kind of work, which selects the model if the agent names none."""
    files: tuple[str, ...] | None = None
    """Globs of the files that it may write. `[]` is none; null declares nothing."""
    reads: tuple[str, ...] = ()
    """Globs of the files that it only reads."""
    context: tuple[Name, ...] = ()
    """Texts given to its agent: a file (`path`), lines of one (`path:10-40`), a need's whole result (`id:full`)."""
    answers: bool = False
    """True: it ends with a report, which tasks that need it are given, and changes nothing."""
    acceptance: tuple[Annotated[str, Field(min_length=1)], ...] = ()
    """Shell commands that must pass in its worktree before its work becomes a candidate."""
    guards: tuple[Annotated[str, Field(min_length=1)], ...] = ()
    """Acceptance commands that pass before the work, too, and must still pass after it."""
    criteria: tuple[Annotated[str, Field(min_length=1)], ...] = Field(default=(), max_length=20)
    """Sentences that its reviewer answers one by one, with evidence; each must be met."""
    verify: WrittenVerify = None
    """`checks`: the target's checks run, too, before the work of a built-in agent counts as verified."""
    agent: AgentEntry | None = None
    """The agent that does the work, such as `{builtin: {}}` or `{command: "make fix"}`."""
    priority: int = 0
    """Tasks with a higher number start first."""
    attempts: WrittenAttempts | None = None
    """The most attempts, or the model of each: `{ladder: [MODEL, ...]}`. None is 1 for a command, 2 for a model."""
    unchanged: Literal["ok", "fail"] | None = None
    """`ok`: an attempt that changes nothing has done the task. None: `ok` for a command, `fail` for a model."""
    limits: LimitsEntry = LimitsEntry()
    """The most that one attempt may use."""
    env: dict[Annotated[str, AfterValidator(_env_name)], str] = Field(default_factory=dict)
    """Variables for the agent and the acceptance commands."""
    policy: tuple[RuleEntry, ...] = ()
    """Policy rules for the task's agent. A task's own are added to the defaults'."""
    unattended: Unattended = "deny"
    """A call that needs a person's approval is refused (`deny`), or the task waits for it (`park`)."""
    network: tuple[str, ...] = ()
    """Hosts that its commands may reach."""
    runs_on: Annotated[
        tuple[Annotated[str, AfterValidator(check_label)], ...],
        BeforeValidator(_label_alone, json_schema_input_type=str | tuple[str, ...]),
    ] = ()
    """Labels that the host must have which does it."""
    grants: tuple[str, ...] = ()
    """Globs of protected paths and tests that it may change."""
    waive: tuple[Name, ...] = ()
    """Rules of the gate's scans that are waived for it."""
    review: Literal["none"] | None = None
    """`none`: its candidates are not reviewed. Scans and checks still decide."""
    disable_file_hints: bool = False
    """True: the built-in agent gets no list of files that are likely to matter."""
    duration_s: Duration | None = None
    """Its author's estimate, which affects only the order of tasks."""


class TaskEntry(TaskFields):
    """One item of the plan's `tasks`."""

    id: str
    """Letters, digits, `_`, `-` and single dots; different from other ids in more than case."""
    needs: tuple[str, ...] = ()
    """Tasks or groups that must land first. `id:full` passes on the whole output of one."""
    leads: Annotated[
        AgentEntry | None, BeforeValidator(_any_agent, json_schema_input_type=bool | AgentEntry | None)
    ] = None
    """True: it leads the run, dispatches tasks and collects their results. An agent: the one of these tasks."""
    for_each: ForEach | None = None
    """Repeats the entry for each of these files."""
    group: str | None = None
    """The name by which others need all tasks of a `for_each`; null is the id."""

    @property
    def group_name(self) -> str | None:
        """The name for all tasks of this `for_each` in the needs of others; None where there is none."""
        if self.for_each is None:
            return None
        return self.group or (None if _TOKEN.search(self.id) else self.id)


class CannotFanOut(Exception):
    """An entry cannot be repeated for its files: the place in the entry, and the rest of a sentence."""

    def __init__(self, where: Where, sentence: str) -> None:
        super().__init__(sentence)
        self.where = where
        self.sentence = sentence


def merge_defaults(defaults: TaskFields, entry: TaskEntry) -> TaskEntry:
    """Fill the entry's missing keys from the defaults; `env` and `limits` are merged by key, policy rules added."""
    taken = {name: getattr(defaults, name) for name in defaults.model_fields_set if name not in entry.model_fields_set}
    if defaults.env and entry.env:
        taken["env"] = defaults.env | entry.env
    if defaults.policy and entry.policy:
        taken["policy"] = (*defaults.policy, *entry.policy)
    if defaults.limits.model_fields_set and entry.limits.model_fields_set:
        own = {name: getattr(entry.limits, name) for name in entry.limits.model_fields_set}
        taken["limits"] = defaults.limits.model_copy(update=own)
    return entry.model_copy(update=taken) if taken else entry


def for_each(entry: TaskEntry, files: Sequence[str]) -> list[TaskEntry]:
    """
    Repeat the entry for each file that its glob matches, in the files' order, and fill in its templates.

    Raises:
        CannotFanOut: no file matches, two files give one id, or a name is not safe at a template's place.
        BadGlob: the glob is not one.
    """
    assert entry.for_each is not None
    pattern = parse(entry.for_each.files, below=False)
    paths = [path for path in dict.fromkeys(files) if pattern.matches(path)]
    if not paths:
        raise CannotFanOut(
            ("for_each", "files"), f"is repeated for '{entry.for_each.files}', which matches no file of the repository"
        )
    for path in paths:
        if not path.isprintable() and any("\ud800" <= letter <= "\udfff" for letter in path):
            raise CannotFanOut(("for_each", "files"), f"is repeated for '{path}', whose name is not UTF-8; exclude it")
    slugs = dict(zip(paths, _slugs(paths), strict=True))
    return _with_unique_ids(entry, paths, [_repeated(entry, path, slugs[path]) for path in paths])


def _with_unique_ids(entry: TaskEntry, paths: Sequence[str], made: list[TaskEntry]) -> list[TaskEntry]:
    first: dict[str, str] = {}
    for path, task in zip(paths, made, strict=True):
        if task.id in first:
            raise CannotFanOut(
                ("id",), f"would be '{task.id}' for both '{first[task.id]}' and '{path}'; use {{path}} in its id"
            )
        first[task.id] = path
    return made


def _repeated(entry: TaskEntry, path: str, path_slug: str) -> TaskEntry:
    pure = PurePosixPath(path)
    values = {"path": path, "stem": pure.stem, "dir": str(pure.parent), "name": pure.name}
    words = {name: _slug(value) for name, value in values.items()} | {"path": path_slug}
    globs = {name: escape(value) for name, value in values.items()}

    def commands(texts: Iterable[str], *where: str | int) -> tuple[str, ...]:
        return tuple(_command(text, values, (*where, at)) for at, text in enumerate(texts))

    taken: dict[str, object] = {
        "id": _filled(entry.id, words) if _TOKEN.search(entry.id) else f"{entry.id}-{path_slug}",
        "needs": tuple(_filled(need, words) for need in entry.needs),
        "title": entry.title and " ".join(_filled(entry.title, values).split()),
        "description": _filled(entry.description, values),
        "files": entry.files and tuple(_filled(glob, globs) for glob in entry.files),
        "reads": tuple(_filled(glob, globs) for glob in entry.reads),
        "grants": tuple(_filled(glob, globs) for glob in entry.grants),
        "context": tuple(_filled(text, values) for text in entry.context),
        "acceptance": commands(entry.acceptance, "acceptance"),
        "guards": commands(entry.guards, "guards"),
        "criteria": tuple(_filled(text, values) for text in entry.criteria),
        "env": {name: _filled(value, values) for name, value in entry.env.items()},
    }
    if entry.agent and entry.agent.command:
        command = _command(entry.agent.command, values, ("agent", "command"))
        taken["agent"] = entry.agent.model_copy(update={"command": command})
    return entry.model_copy(update=taken)


def _filled(text: str, values: Mapping[str, str]) -> str:
    """Replace the four exact tokens; `${HOME}`, `{a,b}` and awk's braces stay as they are."""
    return _TOKEN.sub(lambda token: values[token[1]], text) if "{" in text else text


def _command(text: str, values: Mapping[str, str], where: Where) -> str:
    """Fill in hostile file names: each becomes one quoted word, no option, and never within other quotes."""
    if not _TOKEN.search(text):
        return text
    options = [name for name in ("path", "dir") if values[name].startswith("-")]
    safe = {**values, **{name: f"./{values[name]}" for name in options}}
    quoted = {name: shlex.quote(value) for name, value in safe.items()}
    if any(quoted[name] != safe[name] for name in _TOKEN.findall(text)) and not _stand_bare(text):
        raise CannotFanOut(
            where,
            f"puts a template within quotes, a comment or a here-document, where the name '{values['path']}' "
            "is not safe; write the template as a word of its own, it is quoted when it is filled in",
        )
    return _filled(text, quoted)


@lru_cache(maxsize=4096)
def _stand_bare(command: str) -> bool:
    """Return whether every template is certainly at a place where the shell reads a plain word."""
    if "<<" in command or "$'" in command or "`" in command:
        return False
    bare = 0
    for part in _SHELL.finditer(command):
        text = part[0]
        if text in ("'", '"') or (text[0] == '"' and "$" in text and re.search(r"\$[({]", text)):
            return False
        bare += part["token"] is not None
    return bare == len(_TOKEN.findall(command))


def _slugs(paths: Sequence[str]) -> list[str]:
    """Name each path by its parts, with a digest where two names would be equal without case, as on a Mac."""
    plain = [_slug(path) for path in paths]
    count = Counter(each.lower() for each in plain)
    return [
        each if count[each.lower()] == 1 else f"{each}-{_digest(path)}" for each, path in zip(plain, paths, strict=True)
    ]


def _slug(text: str) -> str:
    kept = re.sub(r"\.\.+", ".", re.sub(r"[^A-Za-z0-9._]+", "-", text).strip("-."))
    if len(kept) > _MOST_SLUG or not kept or kept.endswith(".lock"):
        return f"{kept[: _MOST_SLUG - 9].strip('-.')}-{_digest(text)}".lstrip("-")
    return kept


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]
