"""The bytes that each token stands for, as far as one token by itself stands for any.

A decoder of single tokens would say U+FFFD for a part of a character; the bytes of all tokens, joined, are the text.
Source: bytes_to_unicode of GPT-2 for byte-level BPE, the byte fallback of SentencePiece; vllm's decoded_token.
"""

import json
import re
from functools import cache
from typing import Any

BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2})>")
SPACE = "\N{LOWER ONE EIGHTH BLOCK}"  # SentencePiece's sign for a space


class TokenBytes:
    """A table of one tokenizer, filled as tokens are asked for. tokenizer: of transformers; None: no token has text."""

    def __init__(self, tokenizer: Any | None) -> None:
        self._tokenizer = tokenizer
        self._known: dict[int, bytes] = {}
        self._added: dict[str, str] = {}
        self._special: frozenset[int] = frozenset()
        self._is_byte_level = self._has_fallback = False
        if tokenizer is not None:
            self._special = frozenset(tokenizer.all_special_ids)
            self._added = {str(token): str(token) for token in tokenizer.get_added_vocab()}
            self._is_byte_level, self._has_fallback = kinds_of_decoder(tokenizer)

    def __getitem__(self, token_id: int) -> bytes:
        """The bytes of a token; b"" for one that the tokenizer does not have."""
        found = self._known.get(token_id)
        if found is None:
            found = self._known[token_id] = self._find(token_id)
        return found

    def is_special(self, token_id: int) -> bool:
        """Whether it is one of the tokens that no text shows, such as the end of a turn."""
        return token_id in self._special

    def text(self, token_id: int) -> str:
        """The bytes as text; what is no whole character is U+FFFD."""
        return self[token_id].decode(errors="replace")

    def _find(self, token_id: int) -> bytes:
        tokenizer = self._tokenizer
        piece = None if tokenizer is None else tokenizer.convert_ids_to_tokens(token_id)
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
        assert tokenizer is not None
        return str(tokenizer.decode([token_id])).encode(errors="replace")


def kinds_of_decoder(tokenizer: Any) -> tuple[bool, bool]:
    """Whether the tokens are bytes in GPT-2's alphabet, and whether they are SentencePiece's with single bytes."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    decoder = {} if backend is None else json.loads(backend.to_str()).get("decoder") or {}
    names = {each.get("type") for each in decoder.get("decoders", [decoder])}
    return "ByteLevel" in names, bool(names & {"ByteFallback", "Metaspace"})


@cache
def unicode_to_bytes() -> dict[str, int]:
    """GPT-2's alphabet: printable bytes stand for themselves, the others for the characters from U+0100 on."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(0x100 + i): byte for i, byte in enumerate(others)}
