"""What the commands share: the options of engine and sampling, one way to fail, and the
consoles.
"""

import logging
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, fields, is_dataclass, replace
from functools import wraps
from importlib.util import find_spec
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console

from mini_vllm.cli.exits import legible, raise_if_interrupted
from mini_vllm.config import EngineConfig
from mini_vllm.errors import InvalidParameterError
from mini_vllm.observe.files import check_text, read_prompts
from mini_vllm.params import SamplingParams
from mini_vllm.policies.registry import SCHEDULERS

if TYPE_CHECKING:
    from mini_vllm import LLM

ENGINE_OPTIONS = {  # the fields of EngineConfig that the command line offers
    "model": "'tiny' (bundled), a folder, or a name on the Hugging Face hub.",
    "device": "auto, cpu, cuda or cuda:N.",
    "tensor_parallel_size": "Processes, of which each holds a part of every layer.",
    "enable_expert_parallel": "Give each of them some of the experts whole.",
    "expert_loads": "A file of what each expert got: read at the start, written at the end.",
    "num_redundant_experts": "Copies of the busiest experts, over all processes.",
    "dtype": "auto (the checkpoint's own), float32, bfloat16 or float16.",
    "quantization": "int8: weights of linear layers in eight bits, quantised at load.",
    "block_size": "Tokens per KV block.",
    "num_kv_blocks": "KV blocks, the null block included; by default what the memory allows.",
    "max_model_len": "Most tokens of a request; by default the model's limit.",
    "max_num_seqs": "Most requests running at once.",
    "max_num_batched_tokens": "The token budget of one step.",
    "long_prefill_token_threshold": "Most tokens of one request in a step; 0 is no limit.",
    "enable_prefix_caching": "Share no blocks between requests.",  # offered as --no-prefix-caching
    "prefix_cache_retention_interval": "For windows: each so many tokens blocks stay cached, too.",
    "policy": "fcfs or priority.",
    "scheduler": f"{', '.join(SCHEDULERS)}.",
    "cache_watermark": "For --multi-tenant: the share of blocks that leaves cold ones cached.",
    "preemption_mode": "recompute, swap, cheaper.",
    "num_cpu_blocks": "Blocks of main memory to swap to; by default as many as the KV cache has.",
    "kv_offload_bytes": "Bytes of main memory behind the prefix cache.",
    "kv_offload_path": "A folder behind these, which outlives the process.",
    "kv_offload_policy": "lru, or arc: what that memory lets go of first.",
    "kv_offload_disk_bytes": "Most bytes there; by default half of what is left.",
    "block_aligned_chunks": "Let chunks of a prompt end at the edge of a block.",
    "charge_cached_tokens": "Let the budget of prefill_first pay for cached tokens, too.",
    "async_scheduling": "Decide a step while the one before it computes; by default on a GPU.",
    "cudagraph_mode": "none, piecewise, full, full_decode_only or full_and_piecewise.",
    "enforce_eager": "Run the model operator by operator, or compile it at the start.",
    "batch_invariant": "The same bits for a request, whatever else is in its batch.",
    "speculative": "ngram, suffix or draft_model, which draft tokens; by default nothing does.",
    "num_speculative_tokens": "Most drafts of a request in one step.",
    "prompt_lookup_match": "For --speculative ngram: first or last, of several places.",
    "draft_model": "For --speculative draft_model: a folder or hub name; self: the model itself.",
    "attention_backend": "auto, or one of those that doctor lists, from reference to cutedsl.",
    "structured_outputs_backend": "auto, xgrammar, guidance, or automaton (choices alone).",
    "tool_call_parser": "How a chat calls tools: auto, a form of docs/serving.md, or none.",
    "reasoning_parser": "auto, think or none: how a chat begins.",
    "sanitize_control_tokens": "Read <|im_end|> and its like as text in what a chat is given.",
    "seed": "From which every request draws its own.",
}
SAMPLING_OPTIONS = {  # fields of SamplingParams; by default what the checkpoint asks for
    "max_tokens": "Most tokens to generate.",
    "temperature": "0 is greedy.",
    "top_p": "Keep the most likely tokens up to this probability.",
    "top_k": "Keep this many of the most likely tokens; 0 and -1 keep all.",
    "min_p": "Drop tokens below this share of the likeliest one's probability.",
}
# options that are text, and may name a file in any encoding
PATHS = "model draft_model calibration kv_offload_path expert_loads".split()
KEY_VARIABLES = ["MINI_VLLM_API_KEY", "VLLM_API_KEY"]  # of the environment, which `ps` hides
MAX_PROMPT_BYTES = 4 << 20  # of a prompt or a line from stdin


def command(function: Callable[..., None]) -> Callable[..., None]:
    """Make a function a command: it gets --debug, which exits.py looks for, and its texts are known
    to be text.

    A parameter that is a dataclass becomes an option for each of its fields, and they are a group
    of the help by its name. If the function takes
    `config`, the command gets the engine's options and the function a valid EngineConfig; if it
    takes `sampling`, the sampling options and a dictionary of those that were given.
    """
    own = signature(function).parameters
    groups: dict[str, Any] = {
        name: p.annotation
        for name, p in own.items()
        if name != "config" and is_dataclass(p.annotation)
    }
    parameters: list[Parameter] = []
    for name, parameter in own.items():
        if name in groups:
            parameters += _options_of(groups[name])
        elif name not in ("config", "sampling"):
            parameters.append(parameter)
    if "sampling" in own:
        parameters += _options(
            SamplingParams, SAMPLING_OPTIONS, dict.fromkeys(SAMPLING_OPTIONS), "Sampling"
        )
    if "config" in own:
        parameters += _options(
            EngineConfig,
            ENGINE_OPTIONS,
            {"model": "tiny", "enable_prefix_caching": False},
            "Engine",
        )
    parameters.append(_option("debug", bool, False, "Show the traceback of an error."))
    parameters = [parameter.replace(kind=Parameter.KEYWORD_ONLY) for parameter in parameters]

    @wraps(function)
    def run(**options: Any) -> None:
        del options["debug"]
        check_texts(options)
        for name, group in groups.items():
            options[name] = group(
                **{each: options.pop(each) for each in signature(group).parameters}
            )
        if "sampling" in own:
            options["sampling"] = {
                name: value for name in SAMPLING_OPTIONS if (value := options.pop(name)) is not None
            }
        if "config" in own:
            engine = {name: options.pop(name) for name in ENGINE_OPTIONS}
            engine["enable_prefix_caching"] ^= True
            options["config"] = EngineConfig(**engine)
        function(**options)

    run.__signature__ = signature(function).replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def check_texts(options: Mapping[str, Any]) -> None:
    """Refuse an option that is no text. Raises InvalidParameterError."""
    for name, value in options.items():
        if name not in PATHS:
            for text in value if isinstance(value, list) else [value]:
                if isinstance(text, str):
                    check_text(name, text)


def option(default: Any, help: str, *flags: str, **limits: Any) -> Any:
    """An option, as the default of a parameter or of a field. limits: arguments of typer.Option,
    such as min.
    """
    return typer.Option(default, *flags, help=help, **limits)


PROMPTS = option(
    None,
    "A file of prompts, one a line or JSONL; - reads stdin.",
    "--prompts",
    encoding="utf-8",
    errors="surrogateescape",
)


def _options(
    owner: type, texts: dict[str, str], defaults: dict[str, Any], group: str
) -> list[Parameter]:
    """Options for fields of a dataclass, with its types, and its defaults where none is given
    here.
    """
    known = {field.name: field for field in fields(owner)}
    return [
        _option(name, known[name].type, defaults.get(name, known[name].default), text, group)
        for name, text in texts.items()
    ]


def _options_of(group: type) -> list[Parameter]:
    """The options of a dataclass, as a group of the help."""
    found = [*signature(group).parameters.values()]
    for each in found:
        each.default.rich_help_panel = group.__name__
    return found


def _option(name: str, kind: Any, default: Any, text: str, group: str | None = None) -> Parameter:
    flag = "--" + name.replace("enable_prefix", "no_prefix").replace("_", "-")
    if kind == bool | None or default is True:
        flag += "/--no" + flag[1:]
    made = option(default, text, flag, rich_help_panel=group)
    return Parameter(name, Parameter.KEYWORD_ONLY, default=made, annotation=kind)


def read_stdin(line: bool = False) -> str | None:
    """All of stdin, or its next line; None at its end.

    Raises InvalidParameterError for more than a prompt can be.

    A byte that is not UTF-8 is kept as Python keeps it in arguments, for check_text.
    """
    source = sys.stdin.buffer
    data = (source.readline if line else source.read)(MAX_PROMPT_BYTES + 1)
    if len(data) > MAX_PROMPT_BYTES:
        raise InvalidParameterError(
            f"standard input has more than {MAX_PROMPT_BYTES:,} bytes for one prompt"
        )
    return (
        data.decode(errors="surrogateescape").replace("\r\n", "\n").removesuffix("\n")
        if data
        else None
    )


def console(stderr: bool = False) -> Console:
    """A console on what stdout or stderr is now."""
    return Console(stderr=stderr, highlight=False)


def is_ascii_only(screen: Console) -> bool:
    """Whether the terminal may lack the characters of the drawings."""
    return not screen.encoding.lower().startswith("utf")


class _DimHandler(logging.Handler):
    def __init__(self, screen: Console) -> None:
        super().__init__()
        self.screen = screen

    def emit(self, record: logging.LogRecord) -> None:
        text = legible(record.getMessage())
        if record.exc_info and record.exc_info[1]:  # a fault, not a refusal
            text += "\n" + "".join(traceback.format_exception(record.exc_info[1]))
        self.screen.print(text, style="dim", markup=False, soft_wrap=True)


def show_log(screen: Console) -> None:
    """Print what the engine logs, dimmed."""
    logger = logging.getLogger("mini_vllm")
    logger.handlers, logger.propagate = [_DimHandler(screen)], False
    logger.setLevel(logging.INFO)


def busy(text: str, screen: Console | None = None) -> AbstractContextManager[object]:
    """A spinner on stderr while something takes its time; nothing where stderr is no terminal."""
    screen = screen or console(stderr=True)
    return screen.status(text) if screen.is_terminal else nullcontext()


def load_llm(config: EngineConfig, **plugins: Any) -> "LLM":
    """Import the engine (torch takes a moment) and load the model; what it logs is printed dimmed
    on stderr.

    plugins: scheduler_cls, kv_cache_manager_cls.
    """
    screen = console(stderr=True)
    show_log(screen)
    with busy("loading the engine and the model", screen):
        from mini_vllm import LLM

        if config.model == "tiny" and find_spec("torch"):
            import torch

            # its matrices are so small that threads would only wait for each other
            torch.set_num_threads(1)
        llm = LLM(**asdict(config), **plugins)
    raise_if_interrupted()
    return llm


def prompts_of(file: Iterable[str] | None) -> list[str]:
    """The prompts of a file, at least one. Raises InvalidParameterError."""
    if not (found := [prompt for prompt, _ in read_prompts(file or ())]):
        raise InvalidParameterError("give a PROMPT, or --prompts with a file that has one")
    return found


def sampling_params(llm: "LLM", **given: Any) -> SamplingParams:
    """The checkpoint's own sampling parameters, except for what is given."""
    return replace(llm.default_sampling_params(), **given)
