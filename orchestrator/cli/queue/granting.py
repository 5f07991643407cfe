"""`forgepool queue grant`: a person's leave for what the scans would keep out."""

from typing import Annotated

import typer

from forgepool.orchestrator.cli.output.say import printable
from forgepool.orchestrator.cli.output.texts import prove_text
from forgepool.orchestrator.journal.inbox import PersonRequest
from forgepool.orchestrator.run.hub import CannotRun
from forgepool.workers.schema.globs import parse
from forgepool.workers.schema.segments import BadGlob
from forgepool.workers.schema.yaml.mistakes import nearest


def granting(globs: tuple[str, ...], rules: tuple[str, ...], by: str) -> PersonRequest:
    """
    What is left for the gate.

    Raises:
        CannotRun: a glob or a rule is none, or nothing is granted.
    """
    from forgepool.supervisor.gate_file.document import RULES

    if not globs and not rules:
        raise CannotRun("say what is granted: globs of what the entry may change, or --waive RULE")
    for glob in globs:
        prove_text(glob, f"the glob '{printable(glob)}'")
        try:
            parse(glob)
        except BadGlob as bad:
            raise CannotRun(f"nothing is granted by the {bad}") from bad
    for rule in rules:
        if rule not in RULES:
            meant = nearest(rule, RULES)
            mend = f"did you mean '{meant[0]}'?" if meant else f"rules are: {', '.join(sorted(RULES))}"
            raise CannotRun(f"there is no rule '{rule}'; {mend}")
    return PersonRequest(do="grant", grants=globs, waive=rules, by=by)


Globs = Annotated[
    list[str] | None, typer.Argument(metavar="[GLOB]...", help="Paths that it may change, protected or not.")
]
Rules = Annotated[list[str] | None, typer.Option("--waive", metavar="RULE", help="A rule that is not applied to it.")]
