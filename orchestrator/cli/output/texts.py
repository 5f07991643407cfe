"""What the command line was given, as text."""

from forgepool.orchestrator.run.hub import CannotRun


def prove_text(said: str, what: str) -> None:
    """Raises CannotRun: what the command line was given are bytes that no text is made of."""
    try:
        said.encode()
    except UnicodeEncodeError as problem:
        raise CannotRun(f"{what} is not UTF-8; give it as UTF-8 text") from problem
