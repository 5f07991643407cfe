"""
`finish`: the model's word that it is done. A claim; the harness looks for itself.
"""

from pydantic import Field

from workers.tools.tool import Answer, Arguments, Tool
from workers.tools.workplace import Workplace


class Finish(Arguments):
    summary: str = Field(min_length=1, description="what was done, in a sentence or two")


def finish(arguments: Finish, workplace: Workplace) -> Answer:
    return Answer(text="OK: finished", summary=arguments.summary)


FINISH = Tool(
    name="finish",
    description="Ends the work. Call it once, alone, when everything that was asked is done.",
    arguments=Finish,
    function=finish,
)
