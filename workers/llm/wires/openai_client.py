"""The client of OpenAI's kit, for both of its wires."""

import weakref
from typing import TYPE_CHECKING

from forgepool.workers.llm.endpoint import Endpoint, add_version, query

if TYPE_CHECKING:
    from openai import OpenAI

_VENDOR = "https://api.openai.com/v1"
_CONNECT_S = 10.0
_NO_KEY = "none"


def client(endpoint: Endpoint, owner: object) -> "OpenAI":
    """
    A client that is closed when its owner is gone. Nothing of it comes from the environment: a key or an address there
    may be meant for something else.
    """
    import openai

    timeout = openai.Timeout(endpoint.silence_s, connect=min(_CONNECT_S, endpoint.silence_s))
    at = endpoint.base_url or _VENDOR
    made = openai.OpenAI(
        # The kit insists on a key, also for a server that wants none.
        api_key=endpoint.api_key or _NO_KEY,
        base_url=add_version(at),
        default_query=query(at),
        timeout=timeout,
        max_retries=0,
        # Who is sent on would take the conversation along, to an address nobody has written down.
        http_client=openai.DefaultHttpxClient(follow_redirects=False, timeout=timeout),
    )
    # The kit fills in from the environment what it is not given, and cannot be told not to.
    made.organization, made.project = None, None
    made._custom_headers = dict(endpoint.headers)
    weakref.finalize(owner, made.close)
    return made
