import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from outcomes import NoInterpreter, Of, Outcome, Outcomes

from forgepool.workers.sandbox.layers import lease_uid, why_level_fails


def missing(why: str) -> None:
    """Skip on a laptop, but fail in CI."""
    if os.environ.get("CI") == "true":
        pytest.fail(why)
    pytest.skip(why)


@pytest.fixture(scope="session")
def outcomes_of(request: pytest.FixtureRequest) -> Iterator[Of]:
    """Return the outcomes of all attempts in one run, by the run's name and its user."""
    for level in ("bubblewrap", "landlock"):
        if (why_not := why_level_fails(level)) is not None:  # type: ignore[arg-type]  # two of them
            missing(f"{level} does not hold here: {why_not}")
    root = os.geteuid() == 0
    with lease_uid() if root else contextlib.nullcontext(os.geteuid()) as uid:
        outcomes = Outcomes(uid)
        outcomes.begin((held, who) for held, who in _asked(request) if root or who != "root")

        def of(held: str, who: str) -> dict[str, Outcome]:
            if who == "root" and not root:
                pytest.skip("only root runs commands under another uid; run the tests as root for this")
            try:
                return outcomes.of(held, who)
            except NoInterpreter as none:
                missing(str(none))
                raise

        yield of
        outcomes.close()


def _asked(request: pytest.FixtureRequest) -> list[tuple[str, str]]:
    """Return the runs that the selected tests need."""
    params = [
        getattr(item, "callspec", None) for item in request.session.items if item.path.parent == Path(__file__).parent
    ]
    asked = [each.params for each in params if each is not None]
    return [(each["held"], each["who"]) for each in asked if "held" in each and "who" in each]
