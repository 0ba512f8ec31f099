"""What a client learns of an error: a status, a message, the field at fault."""

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager

from mini_vllm.errors import (
    EngineDeadError,
    InvalidParameterError,
    PromptTooLongError,
    RequestFailedError,
    RequestRefusedError,
    TokenIdOutOfRangeError,
)
from mini_vllm.serving.admission.tenants import QueueFullError
from mini_vllm.serving.async_engine import QueueTimeoutError, RequestTimeoutError
from mini_vllm.serving.openai.protocol import ApiError

logger = logging.getLogger("mini_vllm")

# status and code; of the first class that fits
REFUSALS: dict[type[Exception], tuple[int, str | None]] = {
    QueueFullError: (429, "queue_full"),
    RequestTimeoutError: (504, "request_timeout"),
    QueueTimeoutError: (503, None),
    EngineDeadError: (503, None),
    PromptTooLongError: (400, "context_length_exceeded"),
    InvalidParameterError: (400, None),
    RequestRefusedError: (400, None),
    RequestFailedError: (500, None),
}


def to_api_error(error: Exception, param: str | None = None) -> ApiError:
    """How a client learns of an error. param: the field at fault, unless the error names another
    one.
    """
    if isinstance(error, ApiError):
        return error
    status, code = next(
        (found for kind, found in REFUSALS.items() if isinstance(error, kind)), (None, None)
    )
    if status is None:
        return ApiError(500, "the server has failed at this request")
    if isinstance(error, InvalidParameterError | TokenIdOutOfRangeError):
        found = re.search(r": (\w[\w.\[\]]*) ", str(error))
        # which is the engine's name for what the client has sent
        if found and found[1] != "prompt":
            param = found[1]
    headers = (
        {"Retry-After": str(getattr(error, "retry_after", 1))} if status in (429, 503) else None
    )
    return ApiError(
        status,
        re.sub(r"^[A-Z]\w+: ", "", str(error)),  # without the name of a class
        param if status == 400 else None,
        code,
        headers,
    )


@contextmanager
def refusals(param: str) -> Iterator[None]:
    """Around what may refuse a request for one of its fields, which the answer then names."""
    try:
        yield
    except ApiError:
        raise
    except Exception as error:
        raise to_api_error(error, param) from error


def log_failure(refused: ApiError, error: BaseException, request_id: str) -> None:
    """Tell the log what has failed, if it was the server that did."""
    if refused.status == 500:
        found = error.__cause__ if isinstance(error, ApiError) and error.__cause__ else error
        logger.error("the request %s has failed", request_id, exc_info=found)
