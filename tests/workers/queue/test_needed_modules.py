"""A host names modules by string, and a wrong name would keep every worker from starting."""

import importlib.util

import pytest

from forgepool.workers.queue.host import _NEEDED


@pytest.mark.parametrize("module", sorted({name for names in _NEEDED.values() for name in names}))
def test_every_module_that_messages_need_is_there(module: str) -> None:
    assert importlib.util.find_spec(module) is not None
