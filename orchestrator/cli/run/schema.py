"""`forgepool schema`: the JSON Schema of a file that people write, for editors that complete, explain and check it."""

import ast
import inspect
import json
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

import typer
from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue

from forgepool.orchestrator.cli.output.say import complain, say
from forgepool.orchestrator.decisions.orders.treasury import TreasurySource
from forgepool.orchestrator.plan.entries import PlanSource
from forgepool.workers.llm.routing.table import Table
from forgepool.workers.policy.document import PolicyEntry
from forgepool.workers.policy.gate_file.reading import GateSource
from forgepool.workers.schema.mistakes import models_in
from forgepool.worktrees.errors import UserError

FileKind = Literal["plan", "forgepool", "policy", "models", "treasury"]
_MODELS: dict[FileKind, type[BaseModel]] = {
    "plan": PlanSource,
    "forgepool": GateSource,
    "policy": PolicyEntry,
    "models": Table,
    "treasury": TreasurySource,
}


class _WithoutTitles(GenerateJsonSchema):
    """Pydantic's schemas without a title made of each key's name, which an editor would show beside it."""

    def field_title_should_be_set(self, schema: object) -> bool:
        return False


def register(app: typer.Typer) -> None:
    app.command()(schema)


def schema(
    kind: Annotated[FileKind, typer.Argument(help="The kind of file: plan, forgepool, policy, models or treasury.")],
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write it to this file.")] = None,
) -> int:
    """Print the JSON Schema of a plan, a forgepool.yaml, a policy, a models.yaml or a treasury.yaml."""
    text = json.dumps(make_schema(kind), indent=1)
    if output is None:
        say(text)
        return 0
    try:
        output.write_text(text + "\n")
    except OSError as trouble:
        raise UserError(f"{output} cannot be written: {trouble.strerror}; name another file with --output") from trouble
    return complain(f"wrote {output}; for a file to use it: # yaml-language-server: $schema={output}", 0)


def make_schema(kind: FileKind) -> JsonSchemaValue:
    """Return the schema of one kind of file. What it cannot say is checked when the file is read."""
    model = _MODELS[kind]
    made = model.model_json_schema(schema_generator=_WithoutTitles)
    described = made | {"title": f"Forgepool: {kind}"}
    defined = made.get("$defs", {})
    for each in _all_models(model):
        place = described if each is model else defined.get(each.__name__, {})
        for name, words in _descriptions(each):
            place.get("properties", {}).get(name, {}).setdefault("description", words)
    if kind == "models":
        # The user's file is laid over the shipped one key by key, so that none is needed in it.
        for place in (described, *defined.values()):
            place.pop("required", None)
    for place in defined.values():
        place.pop("title")
    # The descriptions are those of the code, in which a key without a value is None.
    result: JsonSchemaValue = json.loads(re.sub(r"\bNone\b", "null", json.dumps(described)))
    return result


def _all_models(model: type[BaseModel]) -> set[type[BaseModel]]:
    """Return the model and all models that its fields have."""
    found, left = set[type[BaseModel]](), {model}
    while left:
        found |= left
        left = (
            set().union(*(models_in(field.annotation) for each in left for field in each.model_fields.values())) - found
        )
    return found


def _descriptions(model: type[BaseModel]) -> Iterator[tuple[str, str]]:
    """Yield the fields with the text below each in the source, also from the classes that the model extends."""
    for each in model.__mro__:
        if each in (BaseModel, object):
            continue
        (body,) = ast.parse(textwrap.dedent(inspect.getsource(each))).body
        assert isinstance(body, ast.ClassDef)
        for field, text in zip(body.body, body.body[1:], strict=False):
            match field, text:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(words))):
                    yield name, inspect.cleandoc(words)
