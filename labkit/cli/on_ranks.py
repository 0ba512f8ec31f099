"""`lab run 08`: the bundled model in one process, and on ranks that have parts of it; the tokens must be the same.

The ranks live in one process, in NumPy: what a rank has, and how the ranks add up, is asked of the learner's parts.
"""

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from labkit.cli.payoff import MakeEngine, Trace, watch
from labkit.ranks.executor import PerRank, RankedExecutor
from labkit.ranks.mixture import NUM_EXPERTS, NUM_REDUNDANT, TOP_K, Experts, TwoRanksOfExperts
from mini_vllm.light.numpy_executor import NumpyExecutor
from mini_vllm.parallel.experts.placement import rank_loads, spread_evenly

QUESTIONS = ("What is a KV block?", "What is preemption?", "What is a prefix hit?")
NUM_TOKENS = 60  # of an answer, at most
MOST_ERROR = 1e-4  # of sums in another order, in float32


def on_ranks(out: Console, make: MakeEngine, question: str | None, options: dict[str, Any]) -> Trace:
    """The same questions in one process and on ranks, and what each rank has and sends."""
    asked = QUESTIONS if question is None else (question,)
    _, _, old = answer(make(**options | {"executor_cls": NumpyExecutor}), asked)
    executor, texts, trace = answer(make(**options), asked)
    for text, each in zip(texts, asked, strict=True):
        out.print(f"{each}\n  {text.strip()}\n", markup=False)
    out.print(table_of(executor))
    sums = executor.ranked.num_sums
    out.print(f"\nThe ranks added up {sums:,} times, by a ring, and have the same bits after each sum.")
    out.print(whether_same(old, trace))
    mixture, _, mixed = answer(make(**options | {"executor_cls": TwoRanksOfExperts}), asked)
    out.print(
        f"The same model as a mixture: each MLP is {NUM_EXPERTS} experts and {NUM_REDUNDANT} copies, and a token goes"
        f" to {TOP_K} of them. They are placed by what the first step chose:\n"
    )
    out.print(table_of_experts(mixture.experts))
    error = max(layer.error for layer in mixture.experts)
    if error > MOST_ERROR:
        out.print(f"\nWRONG: the outputs of the experts differ from those of the MLP by {error:.0%}.")
    else:
        out.print(f"\nThe outputs of the experts differ from those of the MLP by less than {MOST_ERROR:.2%}.")
    out.print(whether_same(old, mixed))
    return trace


def whether_same(one: Trace, other: Trace) -> str:
    same = one["outputs"] == other["outputs"]
    return "The tokens are those of one process.\n" if same else "WRONG: one process has other tokens.\n"


def answer(llm: Any, questions: Sequence[str]) -> tuple[Any, list[str], Trace]:
    """The executor, the answers, and the trace."""
    from mini_vllm import SamplingParams

    recorder = watch(llm)
    asked = [[{"role": "user", "content": question}] for question in questions]
    outputs = llm.chat(asked, SamplingParams(temperature=0.0, max_tokens=NUM_TOKENS))
    return llm.engine.executor, [output.outputs[0].text for output in outputs], recorder.to_trace("lab run")


def table_of(executor: RankedExecutor) -> Table:
    """What each rank has, and what it has sent."""
    table = Table(box=None, pad_edge=False)
    for head in ("", "weights", "KV numbers a token", "bytes sent", "by the formula"):
        table.add_column(head, justify="right" if head else "left")
    for rank in range(executor.num_ranks):
        weights = sum(own(each, rank).size for each in executor.weights.values())
        caches = sum(own(each, rank).shape[1] for each in executor.kv_caches)
        sent = (executor.ranked.num_bytes[rank], executor.ranked.num_bytes_told[rank])
        table.add_row(f"rank {rank}", *(f"{number:,}" for number in (weights, caches, *sent)))
    return table


def table_of_experts(layers: Sequence[Experts]) -> Table:
    """Where the experts of each layer are, and how many pairs each rank has computed; what it were without copies."""
    table, num_ranks = Table(box=None, pad_edge=False), layers[0].num_ranks
    for head in ("", "experts", "pairs", "if spread evenly"):
        table.add_column(head, justify="right" if head not in ("", "experts") else "left")
    for number, layer in enumerate(layers):
        evenly = rank_loads(layer.loads, spread_evenly(NUM_EXPERTS, num_ranks))
        for rank, experts in enumerate(layer.own):
            names = " ".join(map(str, experts))
            row = (names, f"{layer.num_pairs[rank]:,}", f"{round(evenly[rank]):,}")
            table.add_row(f"layer {number}, rank {rank}", *row)
    return table


def own(x: Any, rank: int) -> Any:
    """What a rank has of it; all of it if it is whole."""
    return x[rank] if isinstance(x, PerRank) else x
