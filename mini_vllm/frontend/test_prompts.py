"""What cannot fit is refused by its length alone; what could fit never is."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mini_vllm.errors import PromptTooLongError
from mini_vllm.frontend.prompts import TextBound

transformers = pytest.importorskip("transformers")
tokenizers = pytest.importorskip("tokenizers")
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers  # noqa: E402

TINY = Path(__file__).parents[1] / "models" / "tiny"
CORPUS = [
    "all work and no play makes Jack a dull boy " * 3,
    "é日👍 ḉ ᾂ 한국어",
    "    indented\n\n\n\tcode = {}",
] * 3


def wrap(backend):
    return transformers.PreTrainedTokenizerFast(tokenizer_object=backend)


def byte_level(normalizer=None, *, dropped=False, lstrip=False):
    """GPT-2's kin; with NFC, Qwen's."""
    backend = tokenizers.Tokenizer(models.BPE())
    if normalizer is not None:
        backend.normalizer = normalizer
    split = pre_tokenizers.Split(tokenizers.Regex(r"\s+"), "removed" if dropped else "isolated")
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [split, pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    backend.train_from_iterator(
        CORPUS, trainers.BpeTrainer(vocab_size=400, initial_alphabet=alphabet)
    )
    backend.add_special_tokens(
        [tokenizers.AddedToken("<mask>", lstrip=lstrip), "<|a long special token|>"]
    )
    return wrap(backend)


def byte_fallback():
    """Llama 2's kin."""
    vocab = {f"<0x{byte:02X}>": byte for byte in range(256)} | {
        "<unk>": 256,
        "▁": 257,
        "a": 258,
        "l": 259,
        "al": 260,
    }
    backend = tokenizers.Tokenizer(
        models.BPE(vocab, [("a", "l")], byte_fallback=True, unk_token="<unk>", fuse_unk=True)
    )
    backend.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    backend.decoder = decoders.ByteFallback()
    return wrap(backend)


def word_level():
    """One token for a word that it does not know, however long; none for a space."""
    backend = tokenizers.Tokenizer(models.WordPiece({"[UNK]": 0, "a": 1}, unk_token="[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    return wrap(backend)


BOUNDED = {
    "tiny": transformers.AutoTokenizer.from_pretrained(TINY),
    "byte-level": byte_level(),
    "NFC": byte_level(normalizers.NFC()),
    "byte fallback": byte_fallback(),
}
UNBOUNDED = {
    "WordPiece": word_level(),
    "spaces dropped": byte_level(dropped=True),
    "a token that takes the spaces beside it": byte_level(lstrip=True),
    "NFKC": byte_level(normalizers.NFKC()),
    "lowercase": byte_level(normalizers.Lowercase()),
    "none": None,
}
PIECES = [
    "a",
    " ",
    "    ",
    "\n",
    "é",
    "e\u0301",
    "c\u0327\u0301",
    "\u03b1\u0313\u0300\u0345",
    "日",
    "👍",
    "\u1100\u1161\u11a8",
]
PIECES += [
    "all",
    "work",
    "makes",
    "\0",
    "\x80",
    "<|im_start|>",
    "<mask>",
    "<|a long special token|>",
    "ﬁ",
    "İ",
    "\ufeff",
]


@pytest.mark.parametrize("name", [*BOUNDED, *(name for name in UNBOUNDED if name != "none")])
@settings(max_examples=30, deadline=None)
@given(
    st.lists(
        st.one_of(st.sampled_from(PIECES), st.characters(exclude_categories=["Cs"])), max_size=30
    ),
    st.integers(1, 40),
)
def test_a_text_that_fits_is_never_refused(name, pieces, times):
    tokenizer = (BOUNDED | UNBOUNDED)[name]
    text = "".join(pieces) * times
    num_tokens = len(tokenizer.encode(text, add_special_tokens=False))
    TextBound(tokenizer).check(text, num_tokens)


@pytest.mark.parametrize("name", BOUNDED)
@pytest.mark.parametrize("character", ["a", " ", "é", "👍", "\u0301"])
def test_a_text_that_is_far_too_long_is_refused_by_its_length(name, character):
    with pytest.raises(
        PromptTooLongError, match=r"the prompt has 1000000 characters, at most \d+ fit \(100 tokens"
    ):
        TextBound(BOUNDED[name]).check(character * 10**6, 100)


@pytest.mark.parametrize("name", UNBOUNDED)
def test_where_characters_may_get_lost_nothing_is_said(name):
    bound = TextBound(UNBOUNDED[name])
    assert bound.max_chars_per_token is None
    bound.check(" " * 10**6, 1)
