"""Faults that are an HTTP status with a JSON body, in each vendor's format."""

from dataclasses import dataclass

from vendors.answers import Body, Fault, Wire


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wording:
    status: int
    type: str
    message: str
    code: str | None = None


_ANTHROPIC = {
    "rate_limit": _Wording(
        status=429,
        type="rate_limit_error",
        message="This request would exceed your organization's rate limit of 50,000 input tokens per minute.",
    ),
    "usage_limit": _Wording(
        status=429,
        type="rate_limit_error",
        message="You have reached your specified API usage limits. You will regain access on 2027-01-01 at 00:00 UTC.",
        code="enforced_spend_limit_reached",
    ),
    "overloaded": _Wording(status=529, type="overloaded_error", message="Overloaded"),
    "server": _Wording(status=500, type="api_error", message="Internal server error"),
    "authentication": _Wording(status=401, type="authentication_error", message="invalid x-api-key"),
    "forbidden": _Wording(
        status=403, type="permission_error", message="Your API key does not have permission to use this model."
    ),
    "no_model": _Wording(status=404, type="not_found_error", message="model: no-such-model"),
    "bad_request": _Wording(status=400, type="invalid_request_error", message="messages: this is not right"),
    "overflow": _Wording(
        status=400, type="invalid_request_error", message="prompt is too long: 208310 tokens > 200000 maximum"
    ),
    "too_large": _Wording(
        status=413, type="request_too_large", message="Request exceeds the maximum allowed number of bytes"
    ),
}

_OPENAI = {
    "rate_limit": _Wording(
        status=429,
        type="tokens",
        message="Rate limit reached for this model on tokens per min (TPM): Limit 30000, Used 29000, Requested 2000.",
        code="rate_limit_exceeded",
    ),
    "usage_limit": _Wording(
        status=429,
        type="insufficient_quota",
        message="You exceeded your current quota, please check your plan and billing details.",
        code="insufficient_quota",
    ),
    "overloaded": _Wording(
        status=503, type="server_error", message="The engine is currently overloaded, please try again later"
    ),
    "server": _Wording(
        status=500, type="server_error", message="The server had an error while processing your request."
    ),
    "authentication": _Wording(
        status=401,
        type="invalid_request_error",
        message="Incorrect API key provided: sk-se***ret. You can find your API key in your account.",
        code="invalid_api_key",
    ),
    "forbidden": _Wording(
        status=403, type="insufficient_permissions", message="You have insufficient permissions for this operation."
    ),
    "no_model": _Wording(
        status=404,
        type="invalid_request_error",
        message="The model `no-such-model` does not exist or you do not have access to it.",
        code="model_not_found",
    ),
    "bad_request": _Wording(status=400, type="invalid_request_error", message="Invalid value."),
    "overflow": _Wording(
        status=400,
        type="invalid_request_error",
        message="Your input exceeds the context window of this model. Please adjust your input and try again.",
        code="context_length_exceeded",
    ),
    "too_large": _Wording(status=413, type="invalid_request_error", message="Request too large."),
}


def status(wire: Wire, fault: Fault) -> int:
    return fault.status or _wording(wire, fault).status


def refusal(wire: Wire, fault: Fault) -> Body:
    """Return the body of an answer with an error status."""
    said = _wording(wire, fault)
    code = fault.code or said.code
    message = fault.message or said.message
    if wire == "anthropic":
        error: Body = {"type": said.type, "message": message}
        return {
            "type": "error",
            "error": error | ({"details": {"error_code": code}} if code else {}),
            "request_id": "req_1",
        }
    return {"error": {"message": message, "type": said.type, "param": None, "code": code}}


def has_status(fault: Fault) -> bool:
    return fault.kind in _ANTHROPIC


def _wording(wire: Wire, fault: Fault) -> _Wording:
    return (_ANTHROPIC if wire == "anthropic" else _OPENAI)[fault.kind]
