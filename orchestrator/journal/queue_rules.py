"""What a person has set of a gate as they opened it: journaled, so that whoever reads the journal goes by the same."""

from datetime import datetime

from forgepool.orchestrator.journal.freeze_windows import describe_windows, freezes
from forgepool.workers.schema.orders import Message


class GateRules(Message):
    freezes: tuple[str, ...] = ()
    """Within which nothing but hotfixes lands, as they were written."""
    zone: str = ""
    """Of the freezes; empty for that of the machine."""
    most_of_one: int | None = None
    """Entries of one submitter that may be in cars at once while others wait; None is no cap."""

    def frozen_until(self, now: float) -> float | None:
        """Unix seconds; None where nothing is frozen."""
        return freezes(self.freezes, self.zone).until(now) if self.freezes else None

    def clock(self, at: float) -> str:
        """As the clock shows it that the freezes are of: `Mon 2026-11-23 08:00`, with the zone where one was named."""
        shown = datetime.fromtimestamp(at, freezes((), self.zone).zone).strftime("%a %Y-%m-%d %H:%M")
        return f"{shown} {self.zone}".rstrip()

    def describe_rules(self) -> list[str]:
        """A sentence for each rule; none where nothing was set."""
        said = [f"nothing but hotfixes lands {describe_windows(self.freezes)}"] if self.freezes else []
        cap = self.most_of_one
        return said + ([f"of one submitter, {cap} at once are tested while others wait"] if cap is not None else [])
