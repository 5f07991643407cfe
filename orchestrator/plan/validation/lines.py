"""The lines of a plan file, by task and key, for faults that are found after the file has been read."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from forgepool.orchestrator.plan.entries import SURVEY, PlanReading, PlanSource, fan_out_entries
from forgepool.workers.schema.documents import read, validate


@dataclass(frozen=True, slots=True)
class PlanLines:
    """The lines of a plan's text. Without a text, as for a plan that was kept as JSON, every line is 0."""

    reading: PlanReading | None = None
    places: Mapping[str, int] = field(default_factory=dict)
    """The place in `tasks` of the entry that each task comes from."""

    @classmethod
    def of(cls, text: str, name: str, files: Callable[[], Sequence[str]]) -> "PlanLines":
        """
        Find the lines of a plan that `parse_plan` has accepted.

        Raises:
            PlanWrong: it would not be accepted.
        """
        document = read(text, name)
        reading = PlanReading(document=document, source=validate(document, PlanSource), wrong=[])
        return cls(reading, {task.entry.id: task.index for task in fan_out_entries(reading, files)})

    def of_task(self, task: str, *where: str | int) -> int:
        """Return the line of a task's key, or of the task where it has no such key."""
        if self.reading is not None and self.reading.source.survey is not None and task == SURVEY:
            return self.of_plan(SURVEY, *where)
        if self.reading is None or task not in self.places:
            return 0
        return self.reading.line(self.places[task], where)

    def of_plan(self, *where: str | int) -> int:
        """Return the line of a key of the whole plan."""
        return self.reading.document.line(where) if self.reading else 0
