"""
Measures which planted facts a view still has after many rebuilds.

The facts are paths read and written, decisions, a person's words, and the last failed test.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

from led import Led, code, edited, ran, read, wrote

from forgepool.workers.context.edits.state import Profile, SummaryQuestion, SummaryReply
from forgepool.workers.context.profiles import registry
from forgepool.workers.context.profiles.advisory import Advisory
from forgepool.workers.context.profiles.comparators import Clear, Compact, Condenser
from forgepool.workers.context.profiles.ledger import LedgerProfile
from forgepool.workers.context.replay.simulation import summary
from forgepool.workers.tools.endings import COMPACT

READ = tuple(f"src/planted/read_{name}.py" for name in ("alpha", "beta", "gamma"))
WRITTEN = tuple(f"src/planted/written_{name}.py" for name in ("delta", "epsilon"))
DECISIONS = ("I decided to count `idle_s` from the last request.", "The cause is a clock that nobody winds.")
SAID = ("Whatever you do, times are in UTC, in the tests too.", "Leave the `legacy/` folder alone.")
FAILED = ("tests/planted/test_expiry.py::test_ends_after_idle_s",)
FACTS = {"read": READ, "written": WRITTEN, "decisions": DECISIONS, "said": SAID, "last failure": FAILED}
REBUILDS = (1, 2, 5, 20)
_MOST_ROUNDS = 60
"""Most rounds of work between two rebuilds; a profile that has not acted by then never does."""


def sized(name: str, window_tokens: int) -> Profile:
    """Return a registered profile, with thresholds in tokens or items adapted to the window."""
    profile = registry.profile(name)
    match profile:
        case LedgerProfile():
            return replace(profile, least_tokens=window_tokens // 20)
        case Clear():
            return replace(profile, trigger_tokens=window_tokens // 2, at_least_tokens=window_tokens // 20)
        case Compact():
            return replace(profile, trigger_tokens=window_tokens // 2)
        case Condenser():
            return replace(profile, max_items=16)
        case Advisory():
            return replace(profile, least=0.0, brief=True)
        case _:
            return profile


def recall(name: str, rebuilds: int, window_tokens: int = 12_000) -> dict[str, float]:
    """
    Return, for each kind of fact, the share (0 to 1) that the view has after this many rebuilds.

    If the profile makes fewer, theirs count. Its models give perfect answers. The facts are planted at the beginning
    and never repeated.
    """
    return recalled(led_on(name, rebuilds, window_tokens))


def recalled(led: Led) -> dict[str, float]:
    return {kind: sum(fact in led.text for fact in facts) / len(facts) for kind, facts in FACTS.items()}


def led_on(name: str, rebuilds: int, window_tokens: int) -> Led:
    """Return a conversation with planted facts after this many rebuilds."""
    led = Led(profile=sized(name, window_tokens), window_tokens=window_tokens)
    _plant(led)
    rounds = last = 0
    while led.view.rebuilds < rebuilds and rounds - last < _MOST_ROUNDS:
        before = led.view.rebuilds
        _work(led, rounds, wishes=name == "advisory" and rounds % 8 == 7)
        rounds += 1
        if led.view.rebuilds > before:
            last = rounds
    return led


def rows(window_tokens: int = 12_000) -> Iterator[str]:
    """Yield a table: each profile after each number of rebuilds."""
    yield f"{'profile':16}{'rebuilds':>12}" + "".join(f"{kind:>14}" for kind in FACTS)
    for name in registry.names():
        for rebuilds in REBUILDS:
            led = led_on(name, rebuilds, window_tokens)
            shares = "".join(f"{share:>14.0%}" for share in recalled(led).values())
            yield f"{name:16}{led.view.rebuilds:>6} of{rebuilds:3}{shares}"


def _plant(led: Led) -> None:
    led.model(*(read(path, code("planted", 12)) for path in READ[:2]), said=DECISIONS[0])
    led.hear(SAID[0])
    led.model(ran(f"cat {READ[2]}", "x = 1"), wrote(WRITTEN[0], "x = 1\n"), said=f"I see. {DECISIONS[1]} So I write.")
    led.model(edited(WRITTEN[1]))
    led.hear(SAID[1])
    led.model(ran("pytest -q tests/planted", f"E  assert 0\nFAILED {FAILED[0]} - assert 0\n1 failed, 8 passed", 1))


def _work(led: Led, number: int, *, wishes: bool) -> None:
    path = f"src/area{number % 7}/file{number % 11}.py"
    done = [
        read(path, code(f"name{number}", 40)),
        ran(f"grep -rn name{number} src", code(f"hit{number}", 30)),
        edited(path, f"old{number}", f"new{number}"),
        ran("python -m tool --all", f"line of {number}\n" * 90),
    ][number % 4]
    wish = replace(done, tool=COMPACT, arguments={"reason": "on to the next part"}, answer="OK")
    led.model(wish if wishes else done, said=f"Now for number {number}.")
    led.ask("wish" if wishes else "call", _summing(led))


def _summing(led: Led) -> Callable[[SummaryQuestion], SummaryReply]:
    return lambda question: summary(question, led.view.turns, led.view.deeds)


if __name__ == "__main__":
    print(*rows(), sep="\n")
