"""What callers of the API send, and the sentence for what cannot be read."""

from typing import Annotated, TypeVar

from pydantic import AfterValidator, ConfigDict, Field, ValidationError, model_validator

from forgepool.workers.schema.orders import Message


class BadBody(Exception):
    """One sentence on what is wrong with a body."""


def _line(text: str) -> str:
    if not text.isprintable():
        raise ValueError("it holds characters that cannot be printed")
    return text.strip()


Line = Annotated[str, Field(max_length=200), AfterValidator(_line)]


class JsonBody(Message):
    """By the names that JSON has for them."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=False)


class SubmissionBody(JsonBody):
    """A branch or a commit of the hub that is to be let in."""

    branch: Line | None = None
    commit: Line | None = None
    name: Line | None = None
    klass: Line = Field(default="normal", alias="class")
    needs: Annotated[tuple[Line, ...], Field(max_length=50)] = ()
    by: Line | None = None
    agent: Line | None = None
    family: Annotated[tuple[Line, ...], Field(max_length=10)] = ()

    @model_validator(mode="after")
    def _names_one(self) -> "SubmissionBody":
        if bool(self.branch) == bool(self.commit):
            raise ValueError("it names what is to be let in by 'branch' or by 'commit', one of them")
        return self


class WordBody(JsonBody):
    """What goes with a word to the gate."""

    by: Line = "api"


class Class(JsonBody):
    """The class of the line that an entry is to be in."""

    klass: Line = Field(alias="class")
    by: Line = "api"


class Pause(JsonBody):
    why: Line = ""
    by: Line = "api"


B = TypeVar("B", bound=JsonBody)


def read_body(kind: type[B], raw: bytes) -> B:
    """The body as one of these; one that is empty is as one without keys. Raises BadBody."""
    try:
        return kind.model_validate_json(raw or b"{}")
    except ValidationError as wrong:
        raise BadBody(_sentence(kind, wrong)) from wrong


def _sentence(kind: type[JsonBody], wrong: ValidationError) -> str:
    first = wrong.errors(include_input=False, include_url=False)[0]
    place = ".".join(str(part) for part in first["loc"])[:60]
    keys = ", ".join(field.alias or name for name, field in kind.model_fields.items())
    said = str(first["msg"]).removeprefix("Value error, ")
    match first["type"]:
        case "json_invalid":
            return f"the body is no JSON; an object with these keys would be right: {keys}"
        case "extra_forbidden":
            return f"the body has '{place}', which is no key here; keys are: {keys}"
        case "missing":
            return f"the body lacks '{place}'; keys are: {keys}"
        case "value_error":
            return f"'{place}' is wrong: {said}" if place else f"the body is wrong: {said}"
        case _:
            return f"'{place or 'the body'}' is wrong: {said[:1].lower()}{said[1:]}"
