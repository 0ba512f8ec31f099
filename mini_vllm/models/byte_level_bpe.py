"""A byte-level BPE tokenizer from tokenizer.json, in plain Python: what reads text where
transformers is not installed.

A text is cut at special tokens, then into words by GPT-2's rule. The UTF-8 bytes of a word are
written in GPT-2's alphabet, one character for each, and neighbours are merged, the pair that was
learned first before all other pairs. Source: Sennrich, Haddow and Birch 2016; ByteLevel and BPE of
the package tokenizers.
"""

import json
import re
from collections.abc import Sequence
from functools import cache, lru_cache
from heapq import heapify, heappop, heappush
from pathlib import Path
from typing import Any
from unicodedata import category

SPACES = "\t\n\v\f\r\x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(
    map(chr, range(0x2000, 0x200B))
)
CONTRACTION = re.compile("'(?:s|t|re|ve|m|ll|d)")
WORD = re.compile(r" ?L+| ?N+| ?O+|[ S]+(?![LNO])|[ S]+")  # over the kinds of the characters


class Kinds(dict[int, str]):
    """What a character is to WORD, by its number: L a letter, N a number, S a space other than ' ',
    O another one.

    Python has the Unicode of its own release, tokenizers that of another: they may differ in a
    character of the last years. In all other characters WORD cuts as GPT-2's own expression does,
    which plain `re` cannot read.
    """

    def __missing__(self, code: int) -> str:
        character, kind = chr(code), category(chr(code))[0]
        found = (
            " "
            if character == " "
            else "S"
            if character in SPACES
            else kind
            if kind in "LN"
            else "O"
        )
        return self.setdefault(code, found)


class ByteLevelBPE:
    """It has the four methods of frontend's Tokenizer, and what a chat template asks of
    transformers' tokenizer.

    It reads the bundled tokenizer.json, and none with a normalizer, another pre-tokenizer or
    options of merging.
    """

    def __init__(self, path: Path) -> None:
        state = json.loads((path / "tokenizer.json").read_text(encoding="utf-8"))
        self._vocab: dict[str, int] = state["model"]["vocab"]
        pairs = [
            pair.split(" ") if isinstance(pair, str) else pair for pair in state["model"]["merges"]
        ]
        self._ranks = {(left, right): rank for rank, (left, right) in enumerate(pairs)}
        self._added = {token["content"]: token["id"] for token in state["added_tokens"]}
        self._special = frozenset(
            token["id"] for token in state["added_tokens"] if token["special"]
        )
        longest_first = sorted(self._added, key=len, reverse=True)
        self._cut = re.compile("(" + "|".join(map(re.escape, longest_first)) + ")")
        alphabet, names = unicode_to_bytes(), {i: token for token, i in self._vocab.items()}
        self._bytes = {
            i: bytes(alphabet[each] for each in token if each in alphabet)
            for i, token in names.items()
        }
        self._bytes |= {i: token.encode() for token, i in self._added.items()}
        self._letters = {byte: letter for letter, byte in alphabet.items()}
        self._kinds = Kinds()
        self._merge = lru_cache(maxsize=1 << 14)(self._merge_word)
        config = json.loads((path / "tokenizer_config.json").read_text(encoding="utf-8"))
        self.chat_template = config.get("chat_template")
        self.special_tokens_map = {
            name: config[name] for name in ("eos_token", "pad_token") if name in config
        }
        self.eos_token_id = self._added.get(config.get("eos_token"))

    def encode(self, text: str, *, add_special_tokens: bool = False) -> list[int]:
        """Token ids of a text; a special token is known by its name."""
        token_ids: list[int] = []
        for i, part in enumerate(self._cut.split(text)):
            token_ids += [self._added[part]] if i % 2 else self._encode_words(part)
        return token_ids

    def decode(self, token_ids: Sequence[int], *, skip_special_tokens: bool = False) -> str:
        """The text of tokens; U+FFFD stands for bytes that are no character."""
        shown = (i for i in token_ids if not (skip_special_tokens and i in self._special))
        return b"".join(map(self.token_bytes, shown)).decode(errors="replace")

    def token_bytes(self, token_id: int) -> bytes:
        return self._bytes.get(token_id, b"")

    def is_special(self, token_id: int) -> bool:
        return token_id in self._special

    def get_added_vocab(self) -> dict[str, int]:
        return self._added

    def get_chat_template(self, chat_template: str | None, tools: Any) -> str:
        return str(chat_template or self.chat_template)

    def _encode_words(self, text: str) -> list[int]:
        kinds, start, token_ids = text.translate(self._kinds), 0, list[int]()
        while start < len(text):
            match = CONTRACTION.match(text, start) or WORD.match(kinds, start)
            assert match is not None
            token_ids += self._merge(text[start : match.end()])
            start = match.end()
        return token_ids

    def _merge_word(self, word: str) -> tuple[int, ...]:
        """The tokens of a word, the pair of least rank merged first, of equals the one further
        left.
        """
        pieces = [self._letters[byte] for byte in word.encode()]
        # neighbours that are left
        before, after = list(range(-1, len(pieces) - 1)), list(range(1, len(pieces) + 1))

        def ranked(i: int) -> tuple[float, int]:
            pair = (pieces[i], pieces[after[i]]) if i >= 0 and after[i] < len(pieces) else ("", "")
            return self._ranks.get(pair, float("inf")), i

        heap = [ranked(i) for i in range(len(pieces))]
        heapify(heap)
        while heap and heap[0][0] < float("inf"):
            entry = heappop(heap)
            i = entry[1]
            if entry != ranked(i):  # one of the two has been merged since
                continue
            gone = after[i]
            pieces[i], pieces[gone], after[i] = pieces[i] + pieces[gone], "", after[gone]
            if after[i] < len(pieces):
                before[after[i]] = i
            for at in (before[i], i):
                heappush(heap, ranked(at))
        return tuple(self._vocab[piece] for piece in pieces if piece in self._vocab)


@cache
def unicode_to_bytes() -> dict[str, int]:
    """GPT-2's alphabet: printable bytes stand for themselves, the other bytes for the characters
    from U+0100 on.
    """
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {
        chr(0x100 + i): byte for i, byte in enumerate(others)
    }
