"""
The names under which a run keeps its things in the hub: all below `refs/forgepool/<run>/`, none a branch.

A candidate is created once, together with its result, in one atomic push. A landing's marker is created in the same
atomic push that moves the target, once per task: that is what makes landing twice impossible.
"""


def run_refs(run: str) -> str:
    return f"refs/forgepool/{run}/*"


def candidate_ref(run: str, task: str, attempt: int) -> str:
    return f"refs/forgepool/{run}/orders/{task}/{attempt}"


def orders_of(run: str, task: str) -> str:
    """The candidates of a task."""
    return f"refs/forgepool/{run}/orders/{task}/*"


def result_ref(run: str, task: str, attempt: int) -> str:
    """A blob: the worker's result as JSON, so that an answer lost with Redis is read again from the hub."""
    return f"refs/forgepool/{run}/results/{task}/{attempt}"


def marker_ref(run: str, task: str) -> str:
    return f"refs/forgepool/{run}/landed/{task}"


def submission_ref(target: str, name: str) -> str:
    """Where anybody pushes what is to be let into a gated target; the gate removes it once it has taken it in."""
    return f"refs/forgepool/for/{target}/{name}"


def submissions_of(target: str) -> str:
    return f"refs/forgepool/for/{target}/*"


def sign_ref(target: str) -> str:
    """A blob: which gate keeps the target, for as long as it does."""
    return f"refs/forgepool/gates/{target}"


def board_ref(target: str) -> str:
    """A blob: how the entries of the queue stand, for those who ask from another clone."""
    return f"refs/forgepool/queues/{target}"


def reply_ref(run: str, task: str, number: int) -> str:
    """A blob: what the gate of its target has to say of what a run gave it."""
    return f"refs/forgepool/{run}/told/{task}/{number}"


def reply_refs(run: str) -> str:
    return f"refs/forgepool/{run}/told/*"


def progress_ref(run: str, task: str, attempt: int) -> str:
    """Work under way: the files of an attempt and its transcript, as they were after a turn."""
    return f"refs/forgepool/{run}/progress/{task}/{attempt}"


def assets_ref(run: str) -> str:
    """A commit of the files beside the plan that its tasks are given."""
    return f"refs/forgepool/{run}/assets"


def overlay_ref(run: str, key: str) -> str:
    """What a command has made of a merged tree: a commit of these files alone. Created once, by who comes first."""
    return f"refs/forgepool/{run}/made/{key}"
