"""What the engine asks of a tokenizer: text to tokens, tokens to text, and the bytes that each
token stands for.

A decoder of single tokens would say U+FFFD for a part of a character; the bytes of all tokens,
joined, are the text. Source: bytes_to_unicode of GPT-2 for byte-level BPE, the byte fallback of
SentencePiece; vllm's decoded_token.
"""

import codecs
import json
import re
from collections.abc import Sequence
from functools import cache
from typing import Any, Protocol

from mini_vllm.models.byte_level_bpe import ByteLevelBPE, unicode_to_bytes

BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2})>")
SPACE = "\N{LOWER ONE EIGHTH BLOCK}"  # SentencePiece's sign for a space


class Tokenizer(Protocol):
    """A reader of a checkpoint's tokenizer.json.

    What has these four methods can take the place of transformers'.
    """

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
        """The tokens of a text; with add_special_tokens, also those that the model expects around
        it.
        """

    def decode(self, token_ids: Sequence[int], *, skip_special_tokens: bool) -> str:
        """The text of tokens; U+FFFD stands for bytes that are no character."""

    def token_bytes(self, token_id: int) -> bytes:
        """The bytes of a token by itself, of a special one its name; b"" for one that the tokenizer
        does not have.
        """

    def is_special(self, token_id: int) -> bool:
        """Whether it is one of the tokens that no text shows, such as the end of a turn."""


class HFTokenizer:
    """The Tokenizer that transformers reads.

    The table of bytes is filled as tokens are asked for.
    """

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._find = cache(self._find_bytes)
        # those of tokenizer.json, too, which no field of tokenizer_config.json names
        added = tokenizer.added_tokens_decoder.items()
        named = (token_id for token_id, token in added if token.special)
        self._special = frozenset([*tokenizer.all_special_ids, *named])
        self._added = {str(token) for token in tokenizer.get_added_vocab()}
        self._is_byte_level, self._has_fallback = kinds_of_decoder(tokenizer)

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
        return list(self._tokenizer.encode(text, add_special_tokens=add_special_tokens))

    def decode(self, token_ids: Sequence[int], *, skip_special_tokens: bool) -> str:
        options = {
            "skip_special_tokens": skip_special_tokens,
            "clean_up_tokenization_spaces": False,
        }
        return str(self._tokenizer.decode(list(token_ids), **options))

    def token_bytes(self, token_id: int) -> bytes:
        return self._find(token_id)

    def is_special(self, token_id: int) -> bool:
        return token_id in self._special

    def _find_bytes(self, token_id: int) -> bytes:
        piece = self._tokenizer.convert_ids_to_tokens(token_id)
        if piece is None:
            return b""
        if piece in self._added:
            return str(piece).encode(errors="replace")
        if self._is_byte_level:
            table = unicode_to_bytes()
            return bytes(table[character] for character in piece if character in table)
        if self._has_fallback:
            if match := BYTE_TOKEN.fullmatch(piece):
                return bytes([int(match[1], 16)])
            return str(piece).replace(SPACE, " ").encode(errors="replace")
        return self.decode([token_id], skip_special_tokens=False).encode(errors="replace")


def reader_of(tokenizer: Any) -> Tokenizer:
    """The Tokenizer of what load_tokenizer() has found."""
    return tokenizer if isinstance(tokenizer, ByteLevelBPE) else HFTokenizer(tokenizer)


class TokenNames:
    """How tokens are shown. Without a tokenizer none has a text."""

    def __init__(self, tokenizer: Tokenizer | None, *, skip_special_tokens: bool = True) -> None:
        self._tokenizer, self._skips_special = tokenizer, skip_special_tokens

    def all_bytes(self, token_id: int) -> bytes:
        """All that it stands for, a special token for its name."""
        return b"" if self._tokenizer is None else self._tokenizer.token_bytes(token_id)

    def shown_bytes(self, token_id: int) -> bytes:
        """What it adds to a text: nothing, if it is a special token and the text shows none."""
        if self._tokenizer is None or (
            self._skips_special and self._tokenizer.is_special(token_id)
        ):
            return b""
        return self.all_bytes(token_id)

    def text(self, token_id: int) -> str:
        """A name that no other token has: of a part of a character, the bytes.

        OpenAI writes them so, too.
        """
        data = self.all_bytes(token_id)
        try:
            return data.decode()
        except UnicodeDecodeError:
            return "bytes:" + "".join(f"\\x{byte:02x}" for byte in data)

    def text_of(self, token_ids: Sequence[int]) -> str:
        """Tokens as text."""
        return b"".join(map(self.shown_bytes, token_ids)).decode(errors="replace")


class TextOffset:
    """Where in a text each token begins, in characters.

    A part of a character begins where its character does.
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._num_characters = 0

    def before(self, data: bytes) -> int:
        """Where a token of these bytes begins. Call it for each token in turn."""
        at = self._num_characters
        self._num_characters += len(self._decoder.decode(data))
        return at


def kinds_of_decoder(tokenizer: Any) -> tuple[bool, bool]:
    """Whether the tokens are bytes in GPT-2's alphabet, and whether they are SentencePiece's with
    single bytes.
    """
    backend = getattr(tokenizer, "backend_tokenizer", None)
    decoder = {} if backend is None else json.loads(backend.to_str()).get("decoder") or {}
    names = {each.get("type") for each in decoder.get("decoders", [decoder])}
    return "ByteLevel" in names, bool(names & {"ByteFallback", "Metaspace"})
