"""The base classes of errors that end a command with one sentence, in every package."""


class UserError(Exception):
    """A request that cannot be carried out as given; exit status 2. The text says what is wrong and what to do."""


class InfrastructureError(Exception):
    """A failing machine, repository or service; exit status 3. The text says which, and what to do."""
