"""
A program's usage limit is everybody's: who meets it shuts the program off for all workers until it ends.
"""

from collections.abc import Callable

from forgepool.workers.agents.cli.performing import perform_cli
from forgepool.workers.agents.contract import AgentAnswer, Assignment
from forgepool.workers.llm.provider import ModelFailed
from forgepool.workers.llm.routing.breaker import Breaker, Shut
from forgepool.workers.queue.broker import connect
from forgepool.workers.schema.orders import CliAgent
from forgepool.workers.workspace.upstream import write_priors
from forgepool.workers.workspace.workspace import Workspace


def perform_in_fleet(
    assignment: Assignment, bench: Workspace, agent: CliAgent, *, stop: Callable[[], bool]
) -> AgentAnswer:
    """As `perform_cli`, but for a program that is shut off: that is answered at once, with when it will not be."""
    broker = bench.settings.broker_url
    breaker = Breaker(client=connect(broker) if broker else None)
    pair = (f"cli:{agent.program}", agent.model or agent.program)
    verdict = breaker.look([pair])[pair]
    if isinstance(verdict, Shut):
        detail = f"{agent.program} is shut off: {verdict.why}"
        return AgentAnswer(ended="failed", detail=detail, trouble=verdict.trouble, resets_at=verdict.until)
    priors = write_priors(assignment.order.priors, assignment.tmp, bench.mirror.git)
    answer = perform_cli(assignment, stop=stop, priors=priors)
    if answer.trouble is not None:
        breaker.note(pair, ModelFailed(answer.detail, trouble=answer.trouble, resets_at=answer.resets_at))
    elif answer.ended == "finished":
        breaker.praise(pair)
    return answer
