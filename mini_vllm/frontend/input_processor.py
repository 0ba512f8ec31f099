"""What a caller gives becomes token ids: texts and conversations are read, and everything is
checked.

Called by a Front and by a server, also in a process that has no model: it knows of the model what
is said to it. Source: InputProcessor in vllm/v1/engine/input_processor.py.
"""

import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any, NamedTuple

from mini_vllm.config import EngineConfig
from mini_vllm.errors import (
    ChatTemplateError,
    EmptyPromptError,
    InvalidParameterError,
    InvalidPromptError,
    TokenizerMissingError,
    check_prompt_len,
    shown,
)
from mini_vllm.frontend.chat_template import ChatTemplateRenderer
from mini_vllm.frontend.control_tokens import ControlTokens
from mini_vllm.frontend.prompts import (
    Prompt,
    TextBound,
    as_prompt,
    check_text,
    check_token_ids,
)
from mini_vllm.frontend.tokenizer import Tokenizer, reader_of
from mini_vllm.frontend.tool_calls.form import THINK, UNKNOWN, AssistantForm, find_form, hides_tag
from mini_vllm.frontend.tools import ToolUse
from mini_vllm.models.checkpoint import (
    load_generation_config,
    load_hf_config,
    load_tokenizer,
    resolve_model,
)
from mini_vllm.models.config_fields import SAMPLING_FIELDS
from mini_vllm.params import SamplingParams
from mini_vllm.structured.schema import check_size

Message = Mapping[str, Any]

logger = logging.getLogger(__name__)


class ModelLimits(NamedTuple):
    """What the front must know of a model and its KV cache, which may be in another process.

    In tokens.
    """

    vocab_size: int
    max_model_len: int  # of prompt and output
    num_slots: int  # of the KV cache

    @property
    def max_prompt_tokens(self) -> int:
        """The longest prompt that the scheduler takes."""
        return min(self.max_model_len, self.num_slots)


class InputProcessor:
    """Reads prompts for one model."""

    def __init__(self, config: EngineConfig, limits: ModelLimits) -> None:
        path = resolve_model(config.model)
        self.model = config.model
        self.tokenizer = load_tokenizer(path)
        self.text_reader: Tokenizer | None = (
            None if self.tokenizer is None else reader_of(self.tokenizer)
        )
        self.generation_config = load_generation_config(path)
        self._hf_config = load_hf_config(path)
        self.limits = limits
        self._text_bound = TextBound(self.tokenizer)
        self._parsers = config.tool_call_parser, config.reasoning_parser
        control = ControlTokens(self.tokenizer) if config.sanitize_control_tokens else None
        self._chat_templates = ChatTemplateRenderer(self.tokenizer, control=control)
        self._control, self._show = control, control.show if control else str

    @cached_property
    def assistant_form(self) -> AssistantForm:
        """How the model writes. To find it takes a moment; a form that no parser reads is told."""
        form = find_form(self.tokenizer, *self._parsers, self._chat_templates.render, self._show)
        if form.calls == UNKNOWN:
            logger.warning(
                f"the chat template of {self.model} writes calls of tools in a form that no parser "
                "reads: chats with tools are refused unless a call is forced (tool_choice), or "
                "tool_call_parser names a form, or 'none' for text"
            )
        return form._replace(skip_special_tokens=not hides_tag(form.calls, self.text_reader))

    @property
    def limits(self) -> ModelLimits:
        return self._limits

    @limits.setter
    def limits(self, limits: ModelLimits) -> None:
        """A front is made before the process that has the model says what it has."""
        self._limits = limits
        self.eos_token_ids = find_eos_token_ids(
            self.generation_config, self._hf_config, self.tokenizer, limits.vocab_size
        )

    def read(self, request_id: str, prompt: Prompt, params: SamplingParams) -> list[int]:
        """The token ids of a request's prompt, when all that the request asks for is possible.

        Raises a RequestRefusedError or InvalidParameterError.
        """
        token_ids = self.tokenize(prompt)
        if not token_ids:
            raise EmptyPromptError(
                f"request {shown(request_id)}: the prompt has 0 tokens, at least 1 is needed"
            )
        check_prompt_len(
            request_id, len(token_ids), self.limits.max_model_len, self.limits.num_slots
        )
        for name, ids in (
            ("stop_token_ids", params.stop_token_ids),
            ("allowed_token_ids", params.allowed_token_ids or ()),
            ("logit_bias", [token_id for token_id, _ in params.logit_bias]),
            ("bad_token_ids", [token_id for word in params.bad_token_ids for token_id in word]),
        ):
            check_token_ids(request_id, name, ids, self.limits.vocab_size)
        for what, value in (
            ("stop strings", params.stop),
            ("bad words", params.bad_words),
            ("structured outputs", params.structured),
        ):
            if value and self.tokenizer is None:
                raise TokenizerMissingError(
                    f"{self.model} has no tokenizer: {what} {shown(value)} need one"
                )
        if params.structured is not None:
            check_size(params.structured)
        return check_token_ids(request_id, "prompt", token_ids, self.limits.vocab_size)

    def tokenize(self, prompt: Prompt, *, add_special_tokens: bool = True) -> list[int]:
        """Token ids of a prompt; token ids pass as they are.

        A text that can never fit is refused before it is read.
        """
        given = as_prompt(prompt)
        if not isinstance(given, str):
            return list(given)
        if self.text_reader is None:
            raise TokenizerMissingError(
                f"{self.model} has no tokenizer: give the prompt as token ids"
            )
        self._text_bound.check(given, self.limits.max_prompt_tokens)
        check_text("prompt", given)
        try:
            return self.text_reader.encode(given, add_special_tokens=add_special_tokens)
        # of a class without a name, by tokenizers: a vocabulary without [UNK], for instance
        except Exception as error:
            raise InvalidPromptError(
                f"the tokenizer of {self.model} cannot read it: {shown(error)}"
            ) from error

    def tokenize_bad_words(self, texts: Sequence[str]) -> tuple[tuple[int, ...], ...]:
        """The token ids of texts that are not to be written, at a beginning and behind a space.

        Raises InvalidParameterError for a text that has no token. Source: update_from_tokenizer in
        vllm/sampling_params.py, which leaves out the latter
        unless it has as many tokens and another first one.
        """
        found: dict[tuple[int, ...], None] = {}
        for text in texts:
            for space in ("", " "):
                ids = tuple(self.tokenize(space + text.lstrip(), add_special_tokens=False))
                if not ids:
                    raise InvalidParameterError(
                        f"SamplingParams: bad_words must be texts with a token, got {shown(text)}"
                    )
                found[ids] = None
        return tuple(found)

    def check_vocabulary(self, name: str, token_ids: Sequence[int]) -> None:
        """Raise TokenIdOutOfRangeError unless each is one of the model's."""
        check_token_ids(name, name, token_ids, self.limits.vocab_size)

    def detokenize(self, token_ids: Sequence[int]) -> str:
        """The text of token ids, special tokens included.

        Raises TokenIdOutOfRangeError, TokenizerMissingError.
        """
        ids = check_token_ids("detokenize", "tokens", token_ids, self.limits.vocab_size)
        if self.text_reader is None:
            raise TokenizerMissingError(f"{self.model} has no tokenizer")
        return self.text_reader.decode(ids, skip_special_tokens=False)

    def apply_chat_template(
        self, messages: Sequence[Message], **template_options: Any
    ) -> list[int]:
        """Token ids of a conversation, ready for the assistant's turn. template_options: see
        ChatTemplateRenderer.

        Raises a ChatTemplateError, and InvalidParameterError for tools if the template knows none.
        """
        render = self._chat_templates.render
        text = render(messages, **template_options)
        name = "tools" if template_options.get("tools") else "messages"
        has_tools = name == "tools" or any(
            each.get("role") == "tool" or each.get("tool_calls") for each in messages
        )
        template = template_options.get("chat_template") or self.tokenizer.chat_template  # type: ignore[union-attr]
        is_blind = has_tools and "tool" not in str(template)
        if name == "tools" and not is_blind:
            with suppress(ChatTemplateError):  # of a template that cannot do without them
                is_blind = text == render(messages, **template_options | {"tools": None})
        if is_blind:
            raise InvalidParameterError(
                f"chat: {name} cannot be used: the chat template of {self.model} has no tools"
            )
        ids = self.tokenize(self._show(text), add_special_tokens=False)
        control = self._control
        return control.encode(text, ids, messages, template_options) if control else ids

    def form_of(self, prompt: Sequence[int], use: ToolUse, params: SamplingParams) -> AssistantForm:
        """How the answer to a chat is written.

        Raises InvalidParameterError for tools that may be called in a form that no parser reads.
        """
        if use.forced_schema() is not None:
            return AssistantForm("json")
        own = self.assistant_form
        calls = own.calls if use.tools and use.tool_choice != "none" else "none"
        if calls == UNKNOWN:
            raise InvalidParameterError(
                f"chat: tools cannot be used with tool_choice 'auto': no parser reads the calls "
                f"that the chat template of {self.model} writes. Set tool_choice to 'required' or "
                f"a function, or tool_call_parser to a form, or to 'none' for calls as text"
            )
        # a grammar knows no reasoning
        may_think = own.thinks and params.structured is None
        is_thinking = may_think and self.detokenize(prompt[-8:]).rstrip().endswith(THINK)
        return own._replace(
            calls=calls,
            is_thinking=is_thinking,
            names=use.names,
            is_parallel=use.parallel_tool_calls is not False,
            parameters=use.parameters,
            skip_special_tokens=calls == "none" or own.skip_special_tokens,
        )

    def default_sampling_params(self, **others: Any) -> SamplingParams:
        """What the checkpoint's generation_config.json asks for, as vLLM reads it; the request goes
        before it.
        """
        found = self.generation_config
        options = {
            ours: found[theirs]
            for theirs, ours in SAMPLING_FIELDS.items()
            if found.get(theirs) is not None
        }
        if found.get("do_sample") is False:
            options["temperature"] = 0.0
        return SamplingParams(**options | others)


def find_eos_token_ids(
    generation_config: dict[str, Any], hf_config: Any, tokenizer: Any, vocab_size: int
) -> frozenset[int]:
    """All ids that end a text: a checkpoint may name several (generation_config), the tokenizer
    adds its own.

    An id that the model does not have can end no text. It is left out, and a warning names it.
    """
    found = generation_config.get("eos_token_id")
    if found is None:
        found = getattr(hf_config, "eos_token_id", None)
    own = getattr(tokenizer, "eos_token_id", None)
    ids = {*(found if isinstance(found, list | tuple) else [found]), own} - {None}
    beyond = sorted(token_id for token_id in ids if token_id >= vocab_size)
    if beyond and vocab_size:
        logger.warning(f"eos_token_id {beyond} is left out: the model has {vocab_size} tokens")
    return frozenset(ids.difference(beyond))
