"""Recordings built call by call, and random ones."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from forgepool.workers.context.replay.recording import Recording
from forgepool.workers.llm.messages import Part, Text, ToolCall, ToolResult, Turn, user


@dataclass(slots=True)
class Tape:
    """Records the calls it is given; `recording` is the result."""

    task: str = "Make the sessions expire."
    system: str = "s" * 400
    project: str = "one"
    turns: list[Turn] = field(default_factory=list)
    times: list[float | None] = field(default_factory=list)
    _calls: int = 0

    def __post_init__(self) -> None:
        self._add(user(Text(text=self.task)), 0.0)

    def call(self, tool: str, arguments: dict[str, object], answer: str, *, said: str = "", at: float = 0.0) -> None:
        self.calls([(tool, arguments, answer)], said=said, at=at)

    def calls(self, made: Sequence[tuple[str, dict[str, object], str]], *, said: str = "", at: float = 0.0) -> None:
        parts: list[Part] = [Text(text=said)] if said else []
        answers: list[Part] = []
        for tool, arguments, answer in made:
            self._calls += 1
            parts.append(ToolCall(id=f"c{self._calls}", name=tool, arguments=arguments))
            failed = answer.startswith("[exit status 1")
            answers.append(ToolResult(call_id=f"c{self._calls}", text=answer, is_error=failed and tool != "bash"))
        self._add(Turn(role="assistant", parts=tuple(parts), stop="calls"), at)
        self._add(user(*answers), at)

    def read(self, path: str, answer: str, **more: float) -> None:
        self.call("read_file", {"path": path}, answer, **more)

    def say(self, said: str) -> None:
        self._add(Turn(role="assistant", parts=(Text(text=said),)), 0.0)

    @property
    def recording(self) -> Recording:
        return Recording(
            name="tape.json",
            format="normal",
            project=self.project,
            system=self.system,
            turns=tuple(self.turns),
            times=tuple(self.times),
        )

    def _add(self, turn: Turn, at: float) -> None:
        self.turns.append(turn)
        self.times.append(at)


def text(chance: random.Random, mark: str, lines: int) -> str:
    return "".join(f"{at:6}\tdef {mark}_{chance.randrange(40)}(value): return {at}\n" for at in range(1, lines + 1))


def random_tape(seed: int, calls: int) -> Recording:
    """
    Make a recording that rereads slowly changing files, repeats tests, writes and searches, and needs some earlier
    results.
    """
    chance, tape = random.Random(seed), Tape()
    files = {f"src/f{number}.py": text(chance, f"name{number}", chance.randrange(4, 60)) for number in range(4)}
    for number in range(calls):
        path = chance.choice(list(files))
        name = f"name{chance.randrange(4)}_{chance.randrange(40)}"
        said = f"Next I look at {name}." * chance.randrange(3)
        match chance.randrange(6):
            case 0 | 1:
                tape.read(path, files[path], said=said)
            case 2:
                old = chance.choice(files[path].splitlines())
                new = f"{old} + {number}"
                files[path] = files[path].replace(old, new, 1)
                asked = {"path": path, "old": old.partition("\t")[2], "new": new}
                tape.call("edit_file", asked, f"OK: edited {path}", said=said)
            case 3:
                tape.call("grep", {"pattern": name}, f"{path}:3: def {name}\n" * chance.randrange(1, 30), said=said)
            case 4:
                status = chance.randrange(2)
                lines = "".join(f"tests/test_{at}.py::test_{at} PASSED\n" for at in range(chance.randrange(60)))
                tape.call(
                    "bash", {"command": "pytest -q"}, f"[exit status {status}, 1.0 s]\n{lines}{name}\n", said=said
                )
            case _:
                made = [("read_file", {"path": each}, files[each]) for each in chance.sample(list(files), 2)]
                tape.calls(made, said=said)
    return tape.recording
