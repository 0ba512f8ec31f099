"""Every way in which mini_vllm says no.

A refusal is raised before anything has changed, and its message names the value and the limit. All derive from
MiniVllmError, so a server can turn one `except` clause into a 400; laws of the engine itself are asserts.
"""

from reprlib import Repr


def shown(value: object, limit: int = 200) -> str:
    """repr(value), cut to `limit` characters: a message stays readable, whatever a caller has sent."""
    short = Repr()
    short.maxstring = short.maxother = short.maxlong = limit
    short.maxlevel, short.maxlist, short.maxtuple, short.maxdict = 3, 20, 20, 20
    try:
        text = short.repr(value[:limit] if isinstance(value, bytes | bytearray) else value)
    except Exception:  # an integer of too many digits, or a __repr__ that fails
        text = f"<{type(value).__name__}>"
    return text if len(text) <= limit else text[: limit - 3] + "..."


class MiniVllmError(Exception):
    """Base class of everything that mini_vllm raises on purpose."""


class InvalidParameterError(MiniVllmError, ValueError):
    """A parameter has a value outside its range."""


class UnknownParameterError(MiniVllmError, TypeError):
    """A parameter of that name does not exist; ignoring it would be worse than refusing it."""


class RequestRefusedError(MiniVllmError, ValueError):
    """A request was not added. The engine goes on with the others."""


class EmptyPromptError(RequestRefusedError):
    """A prompt without a single token: there is nothing to predict from."""


class PromptTooLongError(RequestRefusedError):
    """A prompt that exceeds max_model_len or the whole KV cache, so that it could never be computed."""


class GroupTooLargeError(RequestRefusedError):
    """A request whose choices have to run together and never could."""


class TokenIdOutOfRangeError(RequestRefusedError):
    """A token id that the model's vocabulary does not have."""


class DuplicateRequestError(RequestRefusedError):
    """A request id that is still in flight."""


class TokenizerMissingError(RequestRefusedError):
    """Text in, or a stop string, for a checkpoint that has no tokenizer: only token ids work."""


class CheckpointError(MiniVllmError):
    """A model cannot be loaded."""


class CheckpointNotFoundError(CheckpointError):
    """Neither a local folder nor a cached hub name."""


class CorruptCheckpointError(CheckpointError):
    """A file of the checkpoint is missing, truncated or malformed."""


class UnsupportedCheckpointError(CheckpointError):
    """Weights in a format that can run code when it is read (.bin, .pt); only safetensors are read."""


class UnsupportedModelError(CheckpointError):
    """An architecture, or an option of one, that mini_vllm does not implement."""


class WeightsMismatchError(CheckpointError):
    """The checkpoint's tensors are not exactly the model's parameters."""


class KVCacheTooSmallError(MiniVllmError, ValueError):
    """The memory budget does not hold the smallest useful KV cache."""


class KVCacheTooLargeError(MiniVllmError, ValueError):
    """Blocks that are asked for by number take more memory than the machine has free."""


class InvalidLogitsError(MiniVllmError):
    """The model produced logits from which no token can be sampled: NaN, or -inf everywhere."""


class ConnectorMissingError(MiniVllmError, RuntimeError):
    """A step has work for the worker side of a KV connector, and this worker has none: its K and V would be wrong."""


class SchedulerStalledError(MiniVllmError, RuntimeError):
    """Requests are unfinished, but the scheduler schedules nothing: it would never end."""


class BrokenTraceError(MiniVllmError, ValueError):
    """A file of recorded traces cannot be read, or holds something else."""
