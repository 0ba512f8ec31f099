"""Text that grows and is never taken back, and requests that leave nothing behind."""

import copy
import statistics
import tracemalloc
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from mini_vllm.frontend.output_processor import (
    CompletionOutput,
    IncrementalDetokenizer,
    OutputProcessor,
    RequestOutput,
    StopStrings,
    find_borders,
)
from mini_vllm.frontend.tokenizer import HFTokenizer
from mini_vllm.params import SamplingParams
from mini_vllm.request import Request
from mini_vllm.step import Logprob, SampledToken, TokenDelta

CORPUS = [
    "the quick brown fox jumps over the lazy dog, and the dog sleeps.",
    "Once upon a time there was a little engine; it said: I think I can.",
    "naïve café, Zürich, e\u0301toile, a\u030a 日本語の文字 中文字符 한국어 👍 👩‍👩‍👧 🇨🇭",
]
EOS = "<|end|>"


def byte_level():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=[EOS],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(CORPUS[:2], trainer)  # what is not in there is spelt in bytes
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=EOS)


def byte_fallback():
    """As in Llama 2: SentencePiece BPE, unknown characters in bytes, the very first space
    dropped.
    """
    tokens = ["<unk>", EOS, *(f"<0x{byte:02X}>" for byte in range(256))]
    tokens += ["▁", *sorted(set("".join(CORPUS[:2])) - {" "})]
    merges = [("t", "h"), ("▁", "th"), ("▁th", "e"), ("▁", "a"), ("i", "n"), ("▁", "▁")]
    tokens += ["".join(merge) for merge in merges]
    vocabulary = {token: i for i, token in enumerate(tokens)}
    tokenizer = Tokenizer(
        models.BPE(vocabulary, merges, unk_token="<unk>", byte_fallback=True, fuse_unk=True)
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    tokenizer.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>", eos_token=EOS)


def metaspace():
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    alphabet = sorted(set("".join(CORPUS)))
    trainer = trainers.UnigramTrainer(
        vocab_size=160,
        special_tokens=[EOS, "<unk>"],
        unk_token="<unk>",
        initial_alphabet=alphabet,
        show_progress=False,
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>", eos_token=EOS)


TOKENIZERS = {
    "byte_level": byte_level(),
    "byte_fallback": byte_fallback(),
    "metaspace": metaspace(),
}
BYTES = TOKENIZERS["byte_level"]
READER = HFTokenizer(BYTES)
by_tokenizer = pytest.mark.parametrize("tokenizer", TOKENIZERS.values(), ids=TOKENIZERS.keys())
fast = settings(
    max_examples=75, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)


def in_bytes(text):
    """Token ids of text, a byte each."""
    return raw_bytes(text.encode())


def raw_bytes(data):
    pieces = dict(zip(range(256), ["?"] * 256, strict=True))
    # GPT-2's map of bytes to characters
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    pieces |= {byte: chr(byte) for byte in printable} | {
        byte: chr(256 + i) for i, byte in enumerate(others)
    }
    return [BYTES.convert_tokens_to_ids(pieces[byte]) for byte in data]


def decode(tokenizer, token_ids):
    return tokenizer.decode(token_ids, skip_special_tokens=True)


def run(tokenizer, token_ids, stop=(), *, flush=True):
    """Append one by one; returns the texts after each token (and the flush), and the stop string
    that ended it.
    """
    reader = HFTokenizer(tokenizer) if isinstance(tokenizer, PreTrainedTokenizerFast) else tokenizer
    detokenizer = IncrementalDetokenizer(
        reader, StopStrings(stop, [find_borders(each) for each in stop])
    )
    texts = []
    for token_id in token_ids:
        stop_string = detokenizer.append(token_id)
        texts.append("".join(detokenizer.pieces))
        if stop_string is not None:
            return texts, stop_string
    stop_string = detokenizer.flush() if flush else None
    return [*texts, "".join(detokenizer.pieces)], stop_string


def assert_grows(texts):
    for before, after in pairwise(["", *texts]):
        assert after.startswith(before)


# --- characters -----------------------------------------------------------------------------------


def test_the_byte_tokens_of_these_tests_are_bytes():
    assert decode(BYTES, in_bytes("".join(CORPUS))) == "".join(CORPUS)
    assert len(raw_bytes(bytes(range(256)))) == len(set(raw_bytes(bytes(range(256))))) == 256


@by_tokenizer
def test_the_bytes_of_an_added_token_are_what_decode_gives(tokenizer):
    """Its name goes through the decoder as any token does."""
    tokenizer = copy.deepcopy(tokenizer)
    names = ["<｜begin▁of▁text｜>", "<|im_end|>", "<0x41>", "a b", "é", "été", "日本", "▁x", "\n\n"]
    tokenizer.add_tokens(
        [AddedToken(name, normalized=False, special=i % 2 > 0) for i, name in enumerate(names)]
    )
    reader = HFTokenizer(tokenizer)
    before = tokenizer.encode("the", add_special_tokens=False)
    start = reader.decode(before, skip_special_tokens=False)
    for name, token in tokenizer.get_added_vocab().items():
        text = reader.decode([*before, token], skip_special_tokens=False)
        assert text == start + reader.token_bytes(token).decode(errors="replace"), name


@by_tokenizer
@pytest.mark.parametrize(
    "text", [*CORPUS, "  two  spaces ", "a\nb\tc", " x", "x ", "👍🏽", "\u0301", "🇨🇭🇨"]
)
def test_trap_34_chunks_join_to_decode_all(tokenizer, text):
    token_ids = tokenizer.encode(text, add_special_tokens=False)
    texts, _ = run(tokenizer, token_ids)
    assert_grows(texts)
    assert texts[-1] == decode(tokenizer, token_ids)


@by_tokenizer
@pytest.mark.parametrize(
    "text", ["Hello world is", "a", " a ", "日本", "the\nthe", "the the the the the"]
)
def test_the_text_goes_on_where_the_prompt_ends(tokenizer, text):
    """Prompt and output together are the text of all tokens, wherever the prompt ends."""
    token_ids = tokenizer.encode(text + " the a the", add_special_tokens=False)
    reader, num_cut = HFTokenizer(tokenizer), 0
    for num_prompt in range(1, len(token_ids)):
        prompt = decode(tokenizer, token_ids[:num_prompt])
        detokenizer = IncrementalDetokenizer(reader, StopStrings((), ()), token_ids[:num_prompt])
        for token_id in token_ids[num_prompt:]:
            detokenizer.append(token_id)
        detokenizer.flush()
        if prompt.endswith("\N{REPLACEMENT CHARACTER}"):  # within a character
            num_cut += 1
            continue
        assert prompt + "".join(detokenizer.pieces) == decode(tokenizer, token_ids)
    assert num_cut < len(token_ids) - 1


def test_trap_34_no_text_ends_in_half_a_character():
    text = "a👍é日"
    texts, _ = run(BYTES, in_bytes(text), flush=False)
    assert set(texts) == {text[:n] for n in range(1, 5)}
    assert texts.count("a") == 4  # the thumb's first three bytes show nothing


@pytest.mark.parametrize(
    "tail",
    [b"\xe6", b"\xe6\x97", b"\xf0\x9f\x91", b"\xff", b"\x80\x80", b"\xe6\xe6", b"\xf0\x9f\xf0"],
)
def test_trap_34_invalid_bytes_at_the_end_are_flushed_not_swallowed(tail):
    token_ids = in_bytes("end ") + raw_bytes(tail)
    texts, _ = run(BYTES, token_ids)
    assert texts[-2] == "end "
    assert texts[-1] == decode(BYTES, token_ids) == "end " + tail.decode(errors="replace")


@given(
    st.lists(
        st.sampled_from(
            [
                b"\xe6\x97\xa5",
                b"a",
                b"\xe6",
                b"\x97",
                b"\xff",
                b"\xf0\x9f\x91\x8d",
                b"\xf0\x9f",
                b"\xef\xbf\xbd",
            ]
        )
    )
)
@fast
def test_trap_34_any_bytes(parts):
    token_ids = raw_bytes(b"".join(parts))
    texts, _ = run(BYTES, token_ids)
    assert_grows(texts)
    assert texts[-1] == decode(BYTES, token_ids)


@given(st.lists(st.integers(0, len(BYTES) + 50), max_size=40))
@fast
def test_trap_34_any_tokens_even_unknown_ones(token_ids):
    texts, _ = run(BYTES, token_ids)
    assert_grows(texts)
    assert texts[-1] == decode(BYTES, token_ids)


@pytest.mark.parametrize("name", ["byte_fallback", "metaspace"])
@given(data=st.data())
@fast
def test_trap_34_any_pieces(name, data):
    """Specials, unknown ids and pieces in any order; of the bytes of byte_fallback only those that
    are characters.
    """
    tokenizer = TOKENIZERS[name]
    fallback = [
        [tokenizer.convert_tokens_to_ids(f"<0x{byte:02X}>") for byte in char.encode()]
        for char in "é日👍"
    ]
    first_piece = 258 if name == "byte_fallback" else 2
    pieces = [[token_id] for token_id in [0, 1, *range(first_piece, len(tokenizer) + 3)]]
    pieces += [[tokenizer.convert_tokens_to_ids("▁")]] * 40
    choices = pieces + (fallback * 10 if name == "byte_fallback" else [])
    token_ids = [
        token_id
        for piece in data.draw(st.lists(st.sampled_from(choices), max_size=25))
        for token_id in piece
    ]
    texts, _ = run(tokenizer, token_ids)
    assert_grows(texts)
    assert texts[-1] == decode(tokenizer, token_ids)


@given(st.lists(st.sampled_from([0xE6, 0x97, 0xA5, 0xFF, 0x41, 0x41]), max_size=30))
@fast
def test_invalid_runs_of_a_byte_fallback_only_ever_grow(data):
    tokenizer = TOKENIZERS["byte_fallback"]
    texts, _ = run(tokenizer, [tokenizer.convert_tokens_to_ids(f"<0x{byte:02X}>") for byte in data])
    assert_grows(texts)
    assert bool(texts[-1]) == bool(data)


@pytest.mark.parametrize(
    ("min_tokens", "stop", "expected"),
    [
        *[(n, ("ab",), "x") for n in (0, 2)],
        (3, ("ab",), "xaby"),
        (5, ("ab",), "xaby"),
        (6, ("ab",), "xabyab"),
        (3, ("by", "y"), "xa"),
        (3, ("y",), "xab"),
        (4, ("by", "a"), "xaby"),
        (3, ("xaby",), ""),
    ],
)
def test_a_stop_string_ends_no_text_before_min_tokens(min_tokens, stop, expected):
    """The token that completes it is one more than min_tokens, as in vLLM."""
    (request,) = start(processor := OutputProcessor(READER), stop=stop, min_tokens=min_tokens)
    texts, reasons = [], []
    for token_id in in_bytes("xabyab"):
        outputs, _ = processor.process(
            [TokenDelta(request.request_id, [SampledToken(token_id, None)])]
        )
        texts += [output.outputs[0].text for output in outputs]
        reasons += [output.outputs[0].finish_reason for output in outputs]
    ended = [text for text, reason in zip(texts, reasons, strict=True) if reason]
    if expected == "xabyab":
        assert ended == []
    else:
        assert ended == [expected]


@given(
    st.text(st.sampled_from("aé日👍\u0301 \n"), max_size=30),
    st.lists(st.integers(1, 5), min_size=1),
)
@fast
def test_several_tokens_in_a_step_are_the_same(text, sizes):
    token_ids = in_bytes(text)
    processor = OutputProcessor(READER)
    (request,) = start(processor)
    shown = ""
    while token_ids:
        size = sizes[len(token_ids) % len(sizes)]
        ((output,), _) = processor.process([delta_of(request, token_ids[:size])])
        token_ids, shown = token_ids[size:], output.outputs[0].text
    assert shown == text


def test_an_invalid_byte_does_not_repeat_what_its_run_has_shown():
    tokenizer = TOKENIZERS["byte_fallback"]
    run_of_bytes = [
        tokenizer.convert_tokens_to_ids(f"<0x{byte:02X}>") for byte in [*"日".encode(), 0xFF]
    ]
    token_ids = [*run_of_bytes, tokenizer.convert_tokens_to_ids("a")]
    # the decoder voids the whole run
    assert decode(tokenizer, token_ids) == "\N{REPLACEMENT CHARACTER}" * 4 + "a"
    texts, _ = run(tokenizer, token_ids)
    assert texts == [
        "",
        "",
        "日",
        "日",
        "日\N{REPLACEMENT CHARACTER}a",
        "日\N{REPLACEMENT CHARACTER}a",
    ]


class CountingTokenizer:
    """Counts how many token ids are decoded."""

    def __init__(self, tokenizer):
        self.tokenizer, self.num_decoded = tokenizer, 0

    def decode(self, token_ids, **options):
        self.num_decoded += len(token_ids)
        return self.tokenizer.decode(token_ids, **options)


EOS_ID = BYTES.convert_tokens_to_ids(EOS)
LONG_RUNS = {
    "text": in_bytes("all work and no play "),
    "special": [EOS_ID],
    "unknown": [10_000],
    "invalid": raw_bytes(b"\x80"),
    "unfinished": raw_bytes(b"\xf0\x9f"),
    "replacement": in_bytes("\N{REPLACEMENT CHARACTER}"),
    "half a character among specials": [
        raw_bytes(b"\xe6")[0],
        *[EOS_ID] * 20,
        *raw_bytes(b"\x97\xa5"),
    ],
}


@pytest.mark.parametrize("token_ids", LONG_RUNS.values(), ids=LONG_RUNS.keys())
def test_the_cost_of_a_token_is_bounded(token_ids):
    token_ids = (token_ids * 2000)[:2000]
    tokenizer = CountingTokenizer(BYTES)
    texts, _ = run(tokenizer, token_ids)
    assert tokenizer.num_decoded < 60 * len(token_ids)
    assert texts[-1] == decode(BYTES, token_ids)


# --- stop strings ---------------------------------------------------------------------------------


class CountingString(str):
    """Counts how many of its characters are looked at one by one or copied."""

    __slots__ = ("num_looked_at",)

    def __getitem__(self, key):
        piece = super().__getitem__(key)
        self.num_looked_at = getattr(self, "num_looked_at", 0) + len(piece)
        return piece


@pytest.mark.parametrize("length", [2, 20, 200, pytest.param(1000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("text", ["all work and no play ", "aaaaaaaaab", "b"])
def test_a_character_costs_two_looks_at_a_stop_string_however_long_it_is(length, text):
    """64 stop strings of 100,000 characters made an answer of 1,500 tokens take 79 seconds instead
    of 6.
    """
    stop = tuple(
        CountingString("a" * (length - 1 - i) + "!" * (i + 1)) for i in range(min(length, 8))
    )
    text = (text * 2000)[:2000]
    texts, hit = run(BYTES, in_bytes(text), stop)
    assert (texts[-1], hit) == (text, None)
    for each in stop:
        # at most two looks, at most as often back as on
        assert each.num_looked_at <= 4 * len(text) + 4 * length


@pytest.mark.parametrize("num_choices", [1, 8])
def test_the_choices_of_a_request_prepare_its_stop_strings_once(num_choices):
    stop = CountingString("ab" * 500)
    start(OutputProcessor(READER), n=num_choices, stop=(stop,))
    assert 0 < getattr(stop, "num_looked_at", 0) <= 4 * len(stop)


def splits(token_ids):
    """All ways to cut a short text into tokens are not in the vocabulary; all ways to hand its
    tokens over are.
    """
    for mask in range(1 << (len(token_ids) - 1)):
        group, groups = [], []
        for i, token_id in enumerate(token_ids):
            group.append(token_id)
            if mask >> i & 1 or i == len(token_ids) - 1:
                groups.append(group)
                group = []
        yield groups


STOPS = [
    ("abXYZcd", ("XYZ",), "ab"),
    # YZ and XYZ end together: the first in the list, as vLLM does
    ("abXYZcd", ("XYZW", "YZ", "XYZ"), "abX"),
    ("abXYZcd", ("XYZW", "XYZ", "YZ"), "ab"),
    # one is the beginning of the other: the shorter is complete first
    ("abXYZcd", ("XYZc", "XY"), "ab"),
    ("XXYab", ("XY",), "X"),  # the second X begins it, the first does not
    ("ababac", ("abac", "zz"), "ab"),
    ("a日👍b", ("👍",), "a日"),
    ("XYZ", ("XYZ",), ""),
    ("aXYaXY", ("XYZ",), "aXYaXY"),  # never complete: everything is shown in the end
]


@pytest.mark.parametrize(("text", "stop", "wanted"), STOPS)
def test_trap_32_text_ends_before_the_stop_string_for_every_split(text, stop, wanted):
    for groups in splits(in_bytes(text)):
        processor = OutputProcessor(READER)
        start(processor, stop=stop)
        texts, choice = [], None
        while choice is None or choice.finish_reason is None:
            tokens = [SampledToken(token_id, None) for token_id in groups.pop(0)]
            ((output,), _) = processor.process(
                [TokenDelta("r", tokens, None if groups else "length")]
            )
            (choice,) = output.outputs
            texts.append(choice.text)
        assert choice.finish_reason == ("length" if wanted == text else "stop")
        assert choice.text == wanted
        # nothing shown was a part of the stop string
        assert all(wanted.startswith(shown) for shown in texts)
        assert_grows(texts)


@given(
    st.text(st.sampled_from("ab日 "), max_size=20),
    st.lists(st.text(st.sampled_from("ab日 "), min_size=1, max_size=4), min_size=1, max_size=4),
    st.sampled_from(sorted(TOKENIZERS)),
)
@fast
def test_trap_32_any_text_any_stop_strings(text, stop, name):
    tokenizer = TOKENIZERS[name]
    token_ids = tokenizer.encode(text, add_special_tokens=False)
    whole = decode(tokenizer, token_ids)
    ends = [
        (whole.find(s) + len(s), order, whole.find(s), s)
        for order, s in enumerate(stop)
        if s in whole
    ]
    texts, hit = run(tokenizer, token_ids, tuple(stop))
    assert_grows(texts)
    if ends:
        _, _, start, stop_string = min(ends)
        assert (texts[-1], hit) == (whole[:start], stop_string)
    else:
        assert (texts[-1], hit) == (whole, None)


def test_trap_32_only_what_may_be_a_stop_string_is_held_back():
    texts, _ = run(BYTES, in_bytes("a\n\nb\n"), ("\n\n\n", "c"))
    assert texts == ["a", "a", "a", "a\n\nb", "a\n\nb", "a\n\nb\n"]


def test_a_stop_string_that_only_the_flush_completes_counts():
    texts, hit = run(BYTES, in_bytes("ab") + raw_bytes(b"\xe6"), ("b\N{REPLACEMENT CHARACTER}",))
    assert (texts[-1], hit) == ("a", "b\N{REPLACEMENT CHARACTER}")


def test_the_token_that_ended_the_request_has_no_text():
    stop_token_id = in_bytes("!")[0]
    processor = OutputProcessor(READER)
    start(processor, stop_token_ids=(stop_token_id,), stop=("!",))
    tokens = [SampledToken(token_id, None) for token_id in in_bytes("hi!")]
    ((output,), stopped) = processor.process([TokenDelta("r", tokens, "stop")])
    assert (output.outputs[0].text, output.outputs[0].stop_reason, stopped) == (
        "hi",
        stop_token_id,
        [],
    )


def test_without_a_tokenizer_there_is_no_text():
    assert run(None, [1, 2, 3]) == ([""] * 4, None)


# --- requests -------------------------------------------------------------------------------------


def start(processor, request_id="r", prompt=(1, 2), n=1, on_output=None, **params):
    """Add a request to the processor; returns its child requests."""
    sampling_params = SamplingParams(n=n, **{"max_tokens": 1000, **params})
    child_ids = [request_id] if n == 1 else [f"{i}_{request_id}" for i in range(n)]
    requests = [
        Request(child_id, list(prompt), sampling_params, eos_token_ids=[EOS_ID])
        for child_id in child_ids
    ]
    processor.add_request(request_id, "prompt", requests, on_output)
    return requests


def feed(processor, request, token_ids, logprobs=None):
    """A step for each token; returns the last output and the stopped child requests."""
    last, all_stopped = None, []
    for token_id in token_ids:
        request.append_output_token(token_id)
        request.maybe_finish()
        outputs, stopped = processor.process([delta_of(request, [token_id], logprobs)])
        last = outputs[0] if outputs else last
        all_stopped += stopped
    return last, all_stopped


def delta_of(request, token_ids, logprobs=None):
    tokens = [SampledToken(token_id, logprobs) for token_id in token_ids]
    return TokenDelta(request.request_id, tokens, request.finish_reason, request.num_cached_tokens)


def assert_empty(processor):
    assert [
        value for value in vars(processor).values() if isinstance(value, dict | list) and value
    ] == []


def test_outputs_are_cumulative_snapshots():
    processor = OutputProcessor(READER)
    (request,) = start(processor)
    request.num_cached_tokens = 1
    first, second = in_bytes("hi")
    one, _ = feed(processor, request, [first])
    two, _ = feed(processor, request, [second])
    assert processor.process([]) == ([], [])
    assert processor.process([TokenDelta("r", [])]) == ([], [])  # nothing new
    assert one == RequestOutput(
        "r", [1, 2], 1, False, [CompletionOutput(0, "h", [first], None, None)], "prompt"
    )
    assert two == RequestOutput(
        "r", [1, 2], 1, False, [CompletionOutput(0, "hi", [first, second], None, None)], "prompt"
    )


@pytest.mark.parametrize(
    ("params", "tokens", "reason", "text"),
    [
        ({"max_tokens": 1}, in_bytes("a"), "length", "a"),
        # what was held back is shown
        ({"max_tokens": 3, "stop": ("aX",)}, in_bytes("aba"), "length", "aba"),
        ({"max_tokens": 1}, raw_bytes(b"\xe6"), "length", "\N{REPLACEMENT CHARACTER}"),
        ({}, [*in_bytes("ab"), EOS_ID], "stop", "ab"),
        ({"ignore_eos": True, "max_tokens": 3}, [*in_bytes("ab"), EOS_ID], "length", "ab"),
        ({"stop_token_ids": tuple(in_bytes("!"))}, in_bytes("ab!"), "stop", "ab"),
        ({"stop": ("b",)}, in_bytes("ab"), "stop", "a"),
        # both at once: the text was cut, so stop
        ({"stop": ("b",), "max_tokens": 2}, in_bytes("ab"), "stop", "a"),
    ],
)
def test_trap_33_finish_reasons_pass_through(params, tokens, reason, text):
    processor = OutputProcessor(READER)
    (request,) = start(processor, **params)
    before, stopped = feed(processor, request, tokens[:-1])
    assert before is None or not before.finished
    assert not stopped
    output, stopped = feed(processor, request, tokens[-1:])
    assert output.finished
    assert [replace(choice, stop_reason=None) for choice in output.outputs] == [
        CompletionOutput(0, text, tokens, reason, None)
    ]
    assert stopped == ([] if request.is_finished else ["r"])
    assert_empty(processor)
    whole = OutputProcessor(READER)  # all tokens in one step
    start(whole, **params)
    assert whole.process([delta_of(request, tokens)]) == ([output], stopped)
    assert_empty(whole)


@pytest.mark.parametrize(
    ("params", "tokens", "reason"),
    [
        ({"stop": ("b!", "c")}, in_bytes("abc"), "c"),
        ({"stop_token_ids": tuple(in_bytes("!"))}, in_bytes("ab!"), in_bytes("!")[0]),
        ({}, [*in_bytes("ab"), EOS_ID], None),
        ({"max_tokens": 1}, in_bytes("a"), None),
    ],
)
def test_an_output_tells_what_ended_it(params, tokens, reason):
    processor = OutputProcessor(READER)
    (request,) = start(processor, **params)
    output, _ = feed(processor, request, tokens)
    assert output.finished
    assert output.outputs[0].stop_reason == reason


def test_choices_are_collected_and_the_request_finishes_with_the_last():
    processor = OutputProcessor(READER)
    children = start(processor, n=3, stop=("!",), max_tokens=5)
    for child, num_cached_tokens in zip(children, [0, 1, 2], strict=True):
        child.num_cached_tokens = num_cached_tokens
    output, stopped = feed(processor, children[1], in_bytes("b!"))
    assert stopped == ["1_r"]
    assert [(c.index, c.text, c.finish_reason) for c in output.outputs] == [
        (0, "", None),
        (1, "b", "stop"),
        (2, "", None),
    ]
    assert not output.finished
    feed(processor, children[0], in_bytes("aaaaa"))
    output, _ = feed(processor, children[2], in_bytes("cc"))
    assert [(c.text, c.finish_reason) for c in output.outputs] == [
        ("aaaaa", "length"),
        ("b", "stop"),
        ("cc", None),
    ]
    assert (output.finished, output.num_cached_tokens) == (False, 0)
    output, stopped = feed(processor, children[2], in_bytes("c!"))
    assert output.finished
    assert stopped == ["2_r"]
    assert_empty(processor)


def test_a_step_gives_one_output_for_all_choices_of_a_request():
    processor = OutputProcessor(READER)
    (other,) = start(processor, "other")
    children = start(processor, n=2, stop=("!",))
    outputs, stopped = processor.process(
        [
            delta_of(children[0], in_bytes("a!b")),
            delta_of(other, in_bytes("c")),
            TokenDelta("gone", [SampledToken(1, None)]),
            delta_of(children[1], in_bytes("d")),
        ]
    )
    assert stopped == ["0_r"]
    assert [
        (output.request_id, [choice.text for choice in output.outputs]) for output in outputs
    ] == [
        ("r", ["a", "d"]),
        ("other", ["c"]),
    ]


@pytest.mark.parametrize(
    ("finish_reason", "text", "token_ids", "reason"),
    [
        (None, "a", "ab!", "stop"),
        ("length", "a", "ab!", "stop"),
        # the stop string comes before the token that ends the request
        ("stop", "a", "ab!", "stop"),
    ],
)
def test_what_follows_a_stop_string_in_a_delta_is_dropped(finish_reason, text, token_ids, reason):
    processor = OutputProcessor(READER)
    start(processor, stop=("b!",), logprobs=0)
    tokens = [SampledToken(token_id, None) for token_id in [*in_bytes("ab!cd"), EOS_ID]]
    (output,), stopped = processor.process([TokenDelta("r", tokens, finish_reason)])
    assert output.outputs == [
        CompletionOutput(0, text, in_bytes(token_ids), reason, [{}] * 3, stop_reason="b!")
    ]
    assert stopped == (["r"] if finish_reason is None else [])
    assert_empty(processor)


def test_a_finish_without_a_token_shows_what_was_held_back():
    processor = OutputProcessor(READER)
    (request,) = start(processor, stop=("bX",))
    before, _ = feed(processor, request, in_bytes("ab"))
    assert processor.process([TokenDelta("r", [], "length")]) == (
        [
            replace(
                before,
                finished=True,
                outputs=[CompletionOutput(0, "ab", in_bytes("ab"), "length", None)],
            )
        ],
        [],
    )
    assert before.outputs[0].text == "a"
    assert_empty(processor)


CUT = "ab👍 the end\n\n é"


@given(
    st.lists(st.integers(1, 5), min_size=1),
    st.sampled_from([(), ("end",), ("\n\n\n", " th"), ("zz", "é")]),
)
@fast
def test_outputs_do_not_depend_on_how_tokens_are_cut_into_deltas_nor_on_when_they_are_read(
    sizes, stop
):
    token_ids, at_once, late, joined = in_bytes(CUT), [], [], ["", [], 0]
    one_by_one, several, in_deltas = (
        OutputProcessor(READER),
        OutputProcessor(READER),
        OutputProcessor(READER),
    )
    for processor in (one_by_one, several):
        (request,) = start(processor, stop=stop, logprobs=0)
    start(in_deltas, stop=stop, logprobs=0, output_kind="delta")
    texts = {}
    for token_id in token_ids:
        outputs, _ = one_by_one.process([delta_of(request, [token_id])])
        texts |= {len(output.outputs[0].token_ids): output.outputs[0] for output in outputs}
    while token_ids:
        size = sizes[len(token_ids) % len(sizes)]
        for output in several.process([delta_of(request, token_ids[:size])])[0]:
            late.append(output)
            at_once.append(copy.deepcopy(output))
        for output in in_deltas.process([delta_of(request, token_ids[:size])])[0]:
            (new,) = output.outputs
            joined = [
                joined[0] + new.text,
                joined[1] + new.token_ids,
                joined[2] + len(new.logprobs),
            ]
        token_ids = token_ids[size:]
    assert late == at_once
    for output in late:
        (choice,) = output.outputs
        assert choice == texts[len(choice.token_ids)]
    assert joined == [choice.text, choice.token_ids, len(choice.logprobs)]


def test_logprobs_are_collected_with_their_text():
    processor = OutputProcessor(READER)
    (request,) = start(processor, logprobs=1)
    a, b = in_bytes("ab")
    output, _ = feed(processor, request, [a], {a: Logprob(-0.5, 2), b: Logprob(-0.1, 1)})
    assert output.outputs[0].logprobs == [{a: Logprob(-0.5, 2, "a"), b: Logprob(-0.1, 1, "b")}]
    silent = OutputProcessor(None)
    (request,) = start(silent, logprobs=0)
    output, _ = feed(silent, request, [7], {7: Logprob(-1.0, 1)})
    assert output.outputs == [CompletionOutput(0, "", [7], None, [{7: Logprob(-1.0, 1)}])]


def test_deltas_join_to_the_whole():
    whole, processor = OutputProcessor(READER), OutputProcessor(READER)
    asked = {"n": 2, "max_tokens": 6, "stop": ("!",), "logprobs": 0}
    start(whole, **asked)
    children = start(processor, output_kind="delta", **asked)
    texts, token_ids, num_logprobs = ["", ""], [[], []], [0, 0]
    for tokens in zip(in_bytes("a👍b"), in_bytes("hello!"), strict=True):
        for child, token_id in zip(children, tokens, strict=True):
            delta, _ = feed(processor, child, [token_id], {token_id: Logprob(0.0, 1)})
            ((output,), _) = whole.process(
                [delta_of(child, [token_id], {token_id: Logprob(0.0, 1)})]
            )
            (choice,) = delta.outputs  # the other one has nothing new
            texts[choice.index] += choice.text
            token_ids[choice.index] += choice.token_ids
            num_logprobs[choice.index] += len(choice.logprobs)
            assert delta.finished == output.finished
    assert texts == [choice.text for choice in output.outputs] == ["a👍b", "hello"]
    assert token_ids == [choice.token_ids for choice in output.outputs]
    assert num_logprobs == [6, 6]


def test_a_delta_may_carry_only_the_finish():
    processor = OutputProcessor(READER)
    (request,) = start(processor, output_kind="delta")
    feed(processor, request, in_bytes("ab"))
    ((delta,), _) = processor.process([TokenDelta("r", [SampledToken(EOS_ID, None)], "stop")])
    assert delta.outputs == [CompletionOutput(0, "", [EOS_ID], "stop", None)]


def test_the_last_delta_of_an_abort_tells_who_was_aborted():
    told = []
    processor = OutputProcessor(READER)
    children = start(processor, n=2, output_kind="delta", on_output=told.append)
    feed(processor, children[0], in_bytes("a"))
    feed(processor, children[1], [*in_bytes("b"), EOS_ID])
    processor.abort("r")
    assert [[choice.index for choice in output.outputs] for output in told] == [[0], [1], [1], [0]]
    assert told[-1].finished
    assert told[-1].outputs == [CompletionOutput(0, "", [], "abort", None)]


def test_of_final_only_there_is_one_output_when_the_last_choice_has_ended():
    told = []
    processor = OutputProcessor(READER)
    children = start(processor, n=2, output_kind="final_only", max_tokens=2, on_output=told.append)
    assert feed(processor, children[0], in_bytes("ab")) == (None, [])
    assert feed(processor, children[1], in_bytes("c")) == (None, [])
    output, _ = feed(processor, children[1], in_bytes("d"))
    assert output.finished
    assert [choice.text for choice in output.outputs] == ["ab", "cd"]
    assert told == [output]
    assert_empty(processor)


def test_abort_names_the_unfinished_choices_and_forgets_the_request():
    processor = OutputProcessor(READER)
    children = start(processor, n=3, max_tokens=1)
    feed(processor, children[1], in_bytes("a"))
    assert all(processor.has_request(name) for name in ("r", "0_r", "1_r", "2_r"))
    assert processor.abort("r") == ["0_r", "2_r"]
    assert processor.abort("r") == processor.abort("never seen") == []
    assert not any(processor.has_request(name) for name in ("r", "0_r", "1_r", "2_r"))
    assert_empty(processor)


def test_trap_36_a_token_after_the_end_leaves_nothing_behind():
    processor = OutputProcessor(READER)
    (request,) = start(processor, stop=("b",))
    output, stopped = feed(processor, request, in_bytes("ab"))
    assert stopped == ["r"]
    assert feed(processor, request, in_bytes("cd")) == (None, [])  # the scheduler was a step ahead
    assert_empty(processor)
    assert output.outputs[0].token_ids == in_bytes("ab")


def test_trap_36_a_choice_that_runs_on_gets_no_more_tokens():
    processor = OutputProcessor(READER)
    children = start(processor, n=2, stop=("b",))
    output, _ = feed(processor, children[0], in_bytes("abcd"))
    assert output.outputs[0] == CompletionOutput(
        0, "a", in_bytes("ab"), "stop", None, stop_reason="b"
    )


def test_trap_36_1000_requests_leave_every_map_empty():
    processor = OutputProcessor(READER)
    ends = [in_bytes("a!"), [*in_bytes("a"), EOS_ID], in_bytes("abc"), None]
    for i in range(1000):
        children = start(processor, f"r{i}", n=1 + i % 2, stop=("!",), max_tokens=3)
        for child in children:
            feed(processor, child, ends[i % 4] or in_bytes("a"))
        if ends[i % 4] is None:
            assert processor.abort(f"r{i}") == [child.request_id for child in children]
    assert_empty(processor)


def test_an_id_is_free_again_after_the_end():
    processor = OutputProcessor(READER)
    for text in ("one", "two"):
        (request,) = start(processor, max_tokens=3)
        output, _ = feed(processor, request, in_bytes(text))
        assert (output.outputs[0].text, output.finished) == (text, True)


# --- what a step costs ----------------------------------------------------------------------------


def bytes_of_a_step(processor, children, token_ids):
    """The most memory that a step and its output hold above what was held before, in bytes."""
    peaks = []
    tracemalloc.start()
    for token_id in token_ids:
        deltas = [delta_of(child, [token_id], {token_id: Logprob(-1.0, 1)}) for child in children]
        before, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        (output,), _ = processor.process(deltas)
        peaks.append(tracemalloc.get_traced_memory()[1] - before)
        assert [len(choice.token_ids) for choice in output.outputs] == [1, 1]
    tracemalloc.stop()
    return statistics.median(peaks)  # now and then a list that grows moves to a larger place


def test_a_step_copies_only_what_is_new():
    processor = OutputProcessor(READER)
    children = start(
        processor,
        n=2,
        logprobs=0,
        max_tokens=10**6,
        stop=("never", "no play, and"),
        output_kind="delta",
    )
    token_ids = in_bytes("all work and no play ")
    bytes_of_a_step(processor, children, token_ids)  # what is made once
    short = bytes_of_a_step(processor, children, token_ids)
    for child in children:
        processor.process([delta_of(child, token_ids * 200)])
    long = bytes_of_a_step(processor, children, token_ids)
    assert 0 < long < short + 1000  # the ids of an answer alone would be 33,600
    for child in children:
        detokenizer = processor._parents[child.request_id].choices[child.request_id].detokenizer
        assert detokenizer._held == ""  # all that is kept of the text beside what is shown


class ByteReader:
    """Another reader: a token is a byte, and 256 ends a turn."""

    def encode(self, text, *, add_special_tokens):
        return [*text.encode(), *([256] if add_special_tokens else [])]

    def decode(self, token_ids, *, skip_special_tokens):
        kept = [i for i in token_ids if i != 256 or not skip_special_tokens]
        return b"".join(map(self.token_bytes, kept)).decode(errors="replace")

    def token_bytes(self, token_id):
        return b"<end>" if token_id == 256 else bytes([token_id])

    def is_special(self, token_id):
        return token_id == 256


def test_another_reader_of_tokens_takes_the_place_of_transformers():
    from mini_vllm import LLM

    llm = LLM("tiny", device="cpu", num_kv_blocks=64)
    engine, reader, text = llm.engine, ByteReader(), "à la carte"
    engine.input_processor.text_reader = engine.output_processor.tokenizer = reader
    (output,) = llm.generate(
        [text], SamplingParams(max_tokens=12, logprobs=0, allowed_token_ids=(*"日".encode(), 256))
    )
    assert output.prompt_token_ids == reader.encode(text, add_special_tokens=True)
    (choice,) = output.outputs
    assert choice.text == reader.decode(choice.token_ids, skip_special_tokens=True)
    shown = [
        logprobs[i].decoded_token
        for i, logprobs in zip(choice.token_ids, choice.logprobs, strict=True)
    ]
    assert shown == [reader.token_bytes(i).decode(errors="replace") for i in choice.token_ids]
