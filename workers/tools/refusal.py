"""
How a tool says no.
"""


class ToolRefused(Exception):
    """A call that cannot be carried out; the sentence is for the model and says what would be right."""
