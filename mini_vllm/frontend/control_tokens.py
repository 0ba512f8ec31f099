"""The control tokens of a chat template under names that no client can know.

A chat template puts the words of a client among control tokens, and all of it is read as one text.
So `<|im_end|>` in a message would end its turn. With the option sanitize_control_tokens the
template and a copy of the tokenizer have secret names for these tokens. Their own names are then
ordinary text, whatever a template does with a message: it cannot write a name that it does not
have. Source: the option of this name of apply_chat_template in
transformers/tokenization_utils_base.py, version 5, which marks these tokens in messages instead.
"""

import json
import secrets
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from mini_vllm.errors import ChatTemplateError, InvalidParameterError


class ControlTokens:
    """Those tokens that are special, or are added ones that stand in the chat template. White space
    is none.

    hide, show: a text in which they have their secret names, and their own ones again. Raises
    InvalidParameterError for a tokenizer in which they cannot have other names.
    """

    def __init__(self, tokenizer: Any) -> None:
        backend = getattr(tokenizer, "backend_tokenizer", None)
        if backend is None:
            raise InvalidParameterError(
                "sanitize_control_tokens needs tokenizer.json, and transformers"
            )
        state, secret = json.loads(backend.to_str()), secrets.token_hex(16)
        state |= {"truncation": None, "padding": None}
        names = {}  # of all added tokens, some of them secret
        for token in state["added_tokens"]:
            own = token["content"]
            if not own.isspace() and (token["special"] or own in str(tokenizer.chat_template)):
                token["content"] = f"{secret}n{token['id']}e"
            names[own] = token["content"]
        self._copy = type(backend).from_str(json.dumps(state))
        # by name, since the copy has numbers of its own
        self._ids = {new: backend.token_to_id(own) for own, new in names.items()}
        self._names = {own: new for own, new in names.items() if own != new}
        self.hide = partial(rename, self._names)
        self.show = partial(rename, {new: own for own, new in self._names.items()})

    def encode(self, hidden: str, plain: Sequence[int], *given: Any) -> list[int]:
        """The tokens of a hidden text. plain: those of the shown one; given: what it was made from.

        Where no name of a control token is given, both are the same. Raises ChatTemplateError if
        they are not, which is a template that writes names in pieces, and for a tokenizer that
        makes a control token of ordinary text.
        """
        found = self._copy.encode(hidden, add_special_tokens=False)
        token_ids = [
            self._ids.get(name.strip() or name, token_id)
            for token_id, name in zip(found.ids, found.tokens, strict=True)
        ]
        is_same = token_ids == plain or any(name in str(given) for name in self._names)
        if not is_same or self._names.keys() & {*found.tokens}:
            raise ChatTemplateError(
                "sanitize_control_tokens: a control token is made of pieces, or of other text"
            )
        return token_ids


def rename(names: Mapping[str, str], text: str) -> str:
    """A text with other names in it, the longest first."""
    for name in sorted(names, key=len, reverse=True):
        text = text.replace(name, names[name])
    return text
