"""The plain reader of the bundled tokenizer.json gives what the package tokenizers gives."""

import random
import time
from pathlib import Path
from typing import Any

import pytest

from mini_vllm.frontend.tokenizer import HFTokenizer, reader_of
from mini_vllm.models.byte_level_bpe import ByteLevelBPE
from mini_vllm.models.checkpoint import load_tokenizer, resolve_model

pytest.importorskip("transformers")

ROOT = Path(__file__).parents[2]
TINY = resolve_model("tiny")
PIECES = [
    *"abzZ'sStTvVdm019_-—“”.,\t\n\r\v\f",
    *(
        "  ",
        "   ",
        "\x00",
        "\x1c",
        "\x1f",
        "\x7f",
        "\x85",
        "\xa0",
        "\u1680",
        "\u180e",
        "\u2003",
        "\u2028",
        "\u200b",
        "\u3000",
    ),
    *(
        "é",
        "e\u0301",
        "ß",
        "ſ",
        "İ",
        "ﬁ",
        "字",
        "가",
        "ア",
        "ㄱ",
        "א",
        "ع",
        "न्",
        "\u0e33",
        "٣",
        "²",
        "Ⅷ",
        "½",
        "①",
        "〇",
        "三",
    ),
    *(
        "🎉",
        "👩\u200d👩\u200d👧",
        "🇩🇪",
        "\ufeff",
        "\ufffd",
        "\ufffe",
        "\U0010ffff",
        "\ue000",
        "$",
        "€",
        "∑",
        "|",
        "<|",
        "|>",
    ),
    *(
        "<|im_end|>",
        "<|im_start|>",
        "<|endoftext|>",
        "<|im_",
        "'ll",
        "'re",
        " 've",
        "'LL",
        "''s",
        "the",
        " block",
    ),
]


@pytest.fixture(scope="module")
def theirs() -> HFTokenizer:
    return HFTokenizer(load_tokenizer(TINY))


@pytest.fixture(scope="module")
def ours() -> ByteLevelBPE:
    return ByteLevelBPE(TINY)


def assert_same(ours: ByteLevelBPE, theirs: HFTokenizer, text: str) -> None:
    token_ids = ours.encode(text, add_special_tokens=False)
    assert token_ids == theirs.encode(text, add_special_tokens=False), ascii(text)
    assert ours.decode(token_ids, skip_special_tokens=False) == text


def test_the_corpus(ours: ByteLevelBPE, theirs: HFTokenizer) -> None:
    files = [ROOT / "docs" / "glossary.md", ROOT / "README.md", ROOT / "mini_vllm" / "scheduler.py"]
    for file in files:
        assert_same(ours, theirs, file.read_text(encoding="utf-8"))


@pytest.mark.slow
def test_every_text_of_the_repository(ours: ByteLevelBPE, theirs: HFTokenizer) -> None:
    for file in [
        *ROOT.glob("docs/**/*.md"),
        *ROOT.glob("mini_vllm/**/*.py"),
        *ROOT.glob("labkit/*.py"),
    ]:
        assert_same(ours, theirs, file.read_text(encoding="utf-8"))


def test_hostile_unicode(ours: ByteLevelBPE, theirs: HFTokenizer) -> None:
    rng = random.Random(0)
    for _ in range(1500):
        assert_same(ours, theirs, "".join(rng.choices(PIECES, k=rng.randint(0, 40))))


@pytest.mark.nightly
def test_every_character(ours: ByteLevelBPE, theirs: HFTokenizer) -> None:
    characters = [chr(code) for code in (*range(0xD800), *range(0xE000, 0x110000))]
    for start in range(0, len(characters), 500):
        assert_same(
            ours,
            theirs,
            "".join(f"a{c}b 1{c} {c}{c}\n{c}" for c in characters[start : start + 500]),
        )


def test_any_tokens_as_text_and_as_bytes(ours: ByteLevelBPE, theirs: HFTokenizer) -> None:
    rng = random.Random(1)
    for _ in range(1000):
        token_ids = rng.choices(range(2048), k=rng.randint(0, 12))
        for skip in (True, False):
            assert ours.decode(token_ids, skip_special_tokens=skip) == theirs.decode(
                token_ids, skip_special_tokens=skip
            )
    for token_id in (*range(2048), 2048, 10**9):
        assert ours.token_bytes(token_id) == theirs.token_bytes(token_id)
        assert ours.is_special(token_id) == theirs.is_special(token_id)


def test_a_long_word_takes_no_quadratic_time(ours: ByteLevelBPE) -> None:
    """In seconds of the processor, the best of three texts: other work only adds to them."""

    def seconds(length: int) -> float:
        texts = ["".join(random.Random(i).choices("abcde", k=length + i)) for i in range(3)]
        found = []
        for text in texts:
            start = time.thread_time()
            ours.encode(text)
            found.append(time.thread_time() - start)
        return min(found)

    assert seconds(40_000) < 20 * max(seconds(5_000), 0.005)


def test_the_same_templates_and_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    hf: Any = load_tokenizer(TINY)
    monkeypatch.setattr("mini_vllm.models.checkpoint.find_spec", lambda name: None)
    plain = load_tokenizer(TINY)
    assert isinstance(plain, ByteLevelBPE)
    assert reader_of(plain) is plain
    assert plain.eos_token_id == hf.eos_token_id
    assert plain.get_added_vocab() == hf.get_added_vocab()
    assert plain.get_chat_template(None, None) == hf.get_chat_template(None, None)
    shared = ("eos_token", "pad_token")
    assert plain.special_tokens_map == {name: hf.special_tokens_map[name] for name in shared}
