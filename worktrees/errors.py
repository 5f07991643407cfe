"""Failures that end a command with one sentence: the base classes of those with which every package does so."""


class UserError(Exception):
    """A request that cannot be carried out as given; exit status 2. The text says what is wrong and what to do."""


class InfrastructureError(Exception):
    """A machine, a repository or a service that does not work; exit status 3. The text says which, and what to do."""
