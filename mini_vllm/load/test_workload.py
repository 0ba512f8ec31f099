"""Arrival traces: the public formats, line by line, and arrivals drawn at random."""

import json
import statistics
from itertools import count, islice, pairwise
from random import Random

import pytest

from mini_vllm.errors import InvalidParameterError
from mini_vllm.load.workload import (
    DATASETS,
    TraceRequest,
    lognormal_lengths,
    read_azure,
    read_mooncake,
    read_trace,
    scale_rate,
    synthetic,
)

HEADER = "TIMESTAMP,ContextTokens,GeneratedTokens\n"
AZURE = [
    HEADER,
    "2023-11-16 18:15:46.6805900,374,44\n",
    "\n",
    "2023-11-16 18:15:50.9305900,396,0\n",
]
MOONCAKE = [
    '{"timestamp": 500, "input_length": 600, "output_length": 5, "hash_ids": [0, 1]}\n',
    '{"timestamp": 3000, "input_length": 1024, "output_length": 7, "hash_ids": [0, 2]}\n',
]


def test_azure_times_count_from_the_first_arrival_and_no_prompt_is_shared() -> None:
    first, second = read_azure(AZURE)
    assert first == TraceRequest(0.0, 374, 44)
    assert second.arrival_time == pytest.approx(4.25, abs=1e-5)
    assert second[1:] == (396, 1, (), None)  # every request generates a token


def test_mooncake_milliseconds_and_hash_ids() -> None:
    assert list(read_mooncake(MOONCAKE)) == [
        TraceRequest(0.0, 600, 5, (0, 1)),
        TraceRequest(2.5, 1024, 7, (0, 2)),
    ]


def test_the_format_is_found_by_the_first_line() -> None:
    assert list(read_trace(AZURE)) == list(read_azure(AZURE))
    assert list(read_trace(MOONCAKE)) == list(read_mooncake(MOONCAKE))


def test_a_trace_is_read_as_it_is_asked_for() -> None:
    endless = (
        json.dumps({"timestamp": i, "input_length": 1, "output_length": 1, "hash_ids": []})
        for i in count()
    )
    assert [request.arrival_time for request in islice(read_trace(endless), 3)] == [
        0.0,
        0.001,
        0.002,
    ]


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("2023-11-16 18:15:47,374\n", "ValueError"),
        ("yesterday,374,44\n", "yesterday"),
        ("2023-11-16 18:15:47,0,44\n", "at least 1 and 0, got 0 and 44"),
        ("2023-11-16 18:15:47,3,-1\n", "got 3 and -1"),
        ("2023-11-16 18:15:47,3.5,1\n", "3.5"),
        ("2023-11-16 18:15:45,3,1\n", "in order of time"),
    ],
)
def test_a_bad_azure_line_is_named(line: str, what: str) -> None:
    with pytest.raises(InvalidParameterError, match=f"^line 4: .*{what}"):
        list(read_azure([*AZURE[:3], line]))


@pytest.mark.parametrize(
    "line",
    [
        "{",
        "[]",
        '{"timestamp": 3000, "input_length": 600, "output_length": 1}',
        '{"timestamp": 3000, "input_length": 600, "output_length": 1, "hash_ids": []}',
        '{"timestamp": 3000, "input_length": 600, "output_length": 1, "hash_ids": [0, 1, 2]}',
        '{"timestamp": 3000, "input_length": 600, "output_length": 1, "hash_ids": ["a"]}',
        '{"timestamp": 3000, "input_length": 600.5, "output_length": 1, "hash_ids": [1]}',
        '{"timestamp": NaN, "input_length": 600, "output_length": 1, "hash_ids": [1, 2]}',
        '{"timestamp": 400, "input_length": 600, "output_length": 1, "hash_ids": [1, 2]}',
    ],
)
def test_a_bad_mooncake_line_is_named(line: str) -> None:
    with pytest.raises(InvalidParameterError, match=r"^line 3: "):
        list(read_mooncake([*MOONCAKE, line]))


TALK = {
    "conversations": [{"value": "what is it that a block holds"}, {"value": "it holds keys of it"}]
}
SHORT = {"conversations": [{"value": "what is it that a block holds"}, {"value": "keys"}]}
ALONE = {"conversations": [{"value": "what is it that a block holds"}]}
LONG = {"conversations": [{"value": "a " * 1025}, {"value": "it holds keys of it"}]}


@pytest.mark.parametrize(
    ("name", "lines", "wanted"),
    [
        ("custom", ["a b c\n", "\r\n", "{d}"], [("a b c", 3, 0), ("{d}", 1, 0)]),
        (
            "custom",
            ['{"prompt": "a b", "output_tokens": 7}\n', "\n", '{"prompt": "c", "more": 1}\n'],
            [("a b", 2, 7), ("c", 1, 0)],
        ),
        (
            "sharegpt",
            [json.dumps([SHORT, TALK, ALONE, LONG, TALK], indent=1)],
            [(TALK["conversations"][0]["value"], 7, 5)] * 2,
        ),
    ],
)
def test_prompts_of_a_dataset_arrive_at_once(
    name: str, lines: list[str], wanted: list[tuple[str, int, int]]
) -> None:
    found = list(DATASETS[name](lines))
    assert [(each.prompt, each.input_length, each.output_length) for each in found] == wanted
    assert {each.arrival_time for each in found} == {0.0}


@pytest.mark.parametrize(
    ("name", "lines", "what"),
    [
        ("custom", ['{"prompt": "a"}', "", '{"prompt": 3}'], "line 3: .*text as prompt"),
        ("custom", ['{"prompt": "a"}', '{"text": "a"}'], "line 2: .*text as prompt"),
        ("custom", ['{"prompt": "a"}', '["a"]'], "line 2: .*text as prompt"),
        ("custom", ['{"prompt": "a"}', '{"prompt": "a"'], "line 2: no JSON"),
        ("custom", ['{"prompt": "a", "output_tokens": true}'], "line 1: .*output_tokens"),
        ("custom", ['{"prompt": "a", "output_tokens": -1}'], "line 1: .*output_tokens"),
        ("sharegpt", [json.dumps([TALK, {"id": 1}])], "conversation 2: KeyError 'conversations'"),
        (
            "sharegpt",
            [json.dumps([{"conversations": [{"value": 3}]}])],
            "conversation 1: .*3 is no text",
        ),
        ("sharegpt", [json.dumps([{"conversations": 3}])], "conversation 1: TypeError"),
        ("sharegpt", ["["], "Expecting value"),
    ],
)
def test_what_is_wrong_in_a_dataset_is_named(name: str, lines: list[str], what: str) -> None:
    with pytest.raises(ValueError, match=f"^{what}"):
        list(DATASETS[name](lines))


def test_other_columns_are_refused() -> None:
    with pytest.raises(
        InvalidParameterError, match=r"line 1: the columns must be TIMESTAMP.*got 'a,b'"
    ):
        list(read_trace(["a,b\n", "1,2\n"]))
    with pytest.raises(InvalidParameterError, match="line 1"):
        list(read_trace([]))


@pytest.mark.parametrize(
    "burstiness", [1.0, *(pytest.param(b, marks=pytest.mark.slow) for b in (0.25, 4.0))]
)
def test_gaps_have_the_rate_and_the_burstiness(burstiness: float) -> None:
    trace = list(synthetic(8.0, 10_000, lambda rng: (1, 1), burstiness=burstiness, seed=1))
    gaps = [b.arrival_time - a.arrival_time for a, b in pairwise(trace)]
    assert statistics.mean(gaps) == pytest.approx(1 / 8, rel=0.05)
    assert statistics.stdev(gaps) / statistics.mean(gaps) == pytest.approx(
        burstiness**-0.5, rel=0.05
    )


@pytest.mark.parametrize("burstiness", [0.25, 1.0])
@pytest.mark.parametrize("num_requests", [1, 10, 1000])
def test_every_seed_has_the_load_that_is_asked_for(burstiness: float, num_requests: int) -> None:
    for seed in range(3):
        trace = list(
            synthetic(
                8.0, num_requests, lognormal_lengths(9, 9, 1.0), burstiness=burstiness, seed=seed
            )
        )
        assert trace[-1].arrival_time == pytest.approx(num_requests / 8.0)
        assert trace[0].arrival_time > 0
        twice = list(
            synthetic(
                16.0, num_requests, lognormal_lengths(9, 9, 1.0), burstiness=burstiness, seed=seed
            )
        )
        assert [r[1:] for r in twice] == [r[1:] for r in trace]
        assert [r.arrival_time for r in twice] == pytest.approx([r.arrival_time / 2 for r in trace])


def test_the_seed_decides() -> None:
    def draw(seed: int) -> list[TraceRequest]:
        return list(synthetic(1.0, 20, lognormal_lengths(100, 10, 1.0), seed=seed))

    assert draw(1) == draw(1) != draw(2)


def test_lengths_have_the_means_and_the_spread() -> None:
    draw, rng = lognormal_lengths(1000, 200, 0.5), Random(0)
    for lengths, mean in zip(
        zip(*(draw(rng) for _ in range(20_000)), strict=True), (1000, 200), strict=True
    ):
        assert statistics.mean(lengths) == pytest.approx(mean, rel=0.03)
        assert statistics.stdev(lengths) / mean == pytest.approx(0.5, rel=0.05)
    assert lognormal_lengths(7, 1)(rng) == (7, 1)


def test_scaling_the_rate_moves_arrivals_only() -> None:
    assert [r.arrival_time for r in scale_rate(read_mooncake(MOONCAKE), 2.5)] == [0.0, 1.0]


@pytest.mark.parametrize("bad", [0.0, -1.0, float("nan"), float("inf")])
def test_bad_figures_are_refused_at_once(bad: float) -> None:
    for make in (
        lambda: scale_rate([], bad),
        lambda: synthetic(bad, 1, lognormal_lengths(1, 1)),
        lambda: synthetic(1.0, 1, lognormal_lengths(1, 1), burstiness=bad),
    ):
        with pytest.raises(InvalidParameterError, match=str(bad)):
            make()
    with pytest.raises(InvalidParameterError, match=r"got 1, 0\.5, 0"):
        lognormal_lengths(1, 0.5, 0)
