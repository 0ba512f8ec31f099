"""`lab run 08`: the bundled model in one process, and on ranks that have parts of it; the tokens must be the same.

The ranks live in one process, in NumPy: what a rank has, and how the ranks add up, is asked of the learner's parts.
"""

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from labkit.cli.payoff import MakeEngine, Trace, watch
from labkit.ranks.executor import PerRank, RankedExecutor
from mini_vllm.light.numpy_executor import NumpyExecutor

QUESTIONS = ("What is a KV block?", "What is preemption?", "What is a prefix hit?")
NUM_TOKENS = 60  # of an answer, at most


def on_ranks(out: Console, make: MakeEngine, question: str | None, options: dict[str, Any]) -> Trace:
    """The same questions in one process and on ranks, and what each rank has and sends."""
    asked = QUESTIONS if question is None else (question,)
    _, _, old = answer(make(**options | {"executor_cls": NumpyExecutor}), asked)
    executor, texts, trace = answer(make(**options), asked)
    for text, each in zip(texts, asked, strict=True):
        out.print(f"{each}\n  {text.strip()}\n", markup=False)
    out.print(table_of(executor))
    ops = executor.ranked
    sums = ops.num_sums
    out.print(f"\nThe ranks added up {sums:,} times, by a ring, and have the same bits after each sum.")
    same = old["outputs"] == trace["outputs"]
    out.print(
        "The tokens are those of one process.\n" if same else "WRONG: one process has other tokens.\n", markup=False
    )
    return trace


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
    for head in ("", "weights", "KV numbers a token", "bytes sent"):
        table.add_column(head, justify="right" if head else "left")
    for rank in range(executor.num_ranks):
        weights = sum(own(each, rank).size for each in executor.weights.values())
        caches = sum(own(each, rank).shape[1] for each in executor.kv_caches)
        table.add_row(f"rank {rank}", f"{weights:,}", f"{caches:,}", f"{executor.ranked.num_bytes[rank]:,}")
    return table


def own(x: Any, rank: int) -> Any:
    """What a rank has of it; all of it if it is whole."""
    return x[rank] if isinstance(x, PerRank) else x
