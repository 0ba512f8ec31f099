"""`lab run 06`: what groups of layers save, and an engine that is started again and finds its blocks on the disk.

The bundled model has no window. So its weights get one in three of four layers, which changes none of these texts: a
conversation is held with a block table for each group, and once more with one table for all layers. Then it is held
with an engine that has main memory and a disk behind it, and a second engine, which finds the folder, goes on with it.
"""

import json
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

from labkit.cli.payoff import MakeEngine, Trace, watch
from mini_vllm.kv_cache import KVCacheManager
from mini_vllm.observe.listener import StepListener
from mini_vllm.request import Request
from mini_vllm.scheduler_interface import Step

WINDOW = 32  # tokens, of three layers in four
BLOCK_SIZE = 8
QUESTIONS = (
    "What is a KV block?",
    "What is preemption?",
    "What is a prefix hit?",
    "What is prefill?",
    "What is decode?",
)
NUM_TOKENS = 60  # of an answer, at most
ROOM = {"num_kv_blocks": 400, "max_num_batched_tokens": 64, "block_size": BLOCK_SIZE}  # nothing is preempted
TIERS = {"kv_offload_bytes": 1 << 22, "max_num_seqs": 2}


class OneTable(KVCacheManager):
    """The plain manager: a block has the keys and values of all layers, and all blocks stay."""


class MostHeld(StepListener):
    """The most blocks that the requests of an engine held, and the hits of its prefix cache."""

    def __init__(self, kv: KVCacheManager) -> None:
        self.kv = kv
        self.num_blocks = 0

    def after_update(
        self, step: Step, sampled_token_ids: Mapping[str, Sequence[int]], finished: Iterable[Request], **_: bool
    ) -> None:
        if not finished:
            self.num_blocks = max(self.num_blocks, self.kv.num_usable_blocks - self.kv.num_free_blocks)


class Run(NamedTuple):
    """What an engine said, what it held, and what happened."""

    tokens: list[list[int]]
    texts: list[str]
    num_bytes: int
    trace: Trace


def groups_and_tiers(out: Console, make: MakeEngine, question: str | None, options: dict[str, Any]) -> Trace:
    """Both parts. The trace is that of the engine that was started again."""
    asked = QUESTIONS if question is None else (question,)
    plain = {name: value for name, value in options.items() if name not in TIERS}
    with TemporaryDirectory(prefix="lab-run-") as folder:
        show_groups(out, make, asked, plain, Path(folder))
        return show_restart(out, make, asked, options | TIERS | {"kv_offload_path": f"{folder}/blocks"})


# --- groups -----------------------------------------------------------------------------------------------------------


def show_groups(
    out: Console, make: MakeEngine, questions: Sequence[str], options: dict[str, Any], folder: Path
) -> None:
    """A conversation that gets longer: with a table for each group, and with one table."""
    options = options | ROOM | {"model": with_window(folder / "windows")}
    runs = {"one table for all layers": talk(make(kv_cache_manager_cls=OneTable, **options), questions)}
    llm = make(**options)
    runs["a table for each group"] = talk(llm, questions)
    groups = llm.engine.scheduler.kv_cache_manager.groups
    out.print(
        f"The bundled model with a window in three of its four layers. Its groups: {', '.join(map(str, groups))}.\n"
    )
    for question, text in zip(questions, runs["a table for each group"].texts, strict=True):
        out.print(f"{question}\n  {text.strip()}\n", markup=False)
    table = Table(box=None, pad_edge=False)
    for head in ("a conversation, in the end", "KiB of keys and values held"):
        table.add_column(head, justify="left" if head.startswith("a") else "right")
    for name, run in runs.items():
        table.add_row(name, f"{run.num_bytes / 1024:,.0f}")
    out.print(table)
    tokens = [run.tokens for run in runs.values()]
    out.print("\nThe tokens are the same.\n" if tokens[0] == tokens[1] else "\nWRONG: with groups the tokens differ.\n")


def with_window(folder: Path) -> str:
    """A checkpoint with the weights of the bundled model, and a window in all layers but the last."""
    from mini_vllm.models.checkpoint import resolve_model

    shutil.copytree(resolve_model("tiny"), folder)
    file = folder / "config.json"
    config = json.loads(file.read_text(encoding="utf-8"))
    kinds = ["sliding_attention"] * (config["num_hidden_layers"] - 1) + ["full_attention"]
    config |= {"layer_types": kinds, "sliding_window": WINDOW, "use_sliding_window": True}
    file.write_text(json.dumps(config), encoding="utf-8")
    return str(folder)


def talk(llm: Any, questions: Sequence[str], answers: Sequence[str] = ()) -> Run:
    """Each question behind all answers before it. answers: those of the first questions, which are there already."""
    from mini_vllm import SamplingParams

    kv, recorder, tokens, texts = llm.engine.scheduler.kv_cache_manager, watch(llm), [], list(answers)
    held = MostHeld(kv)
    llm.engine.listeners.append(held)
    for number in range(len(answers), len(questions)):
        turns = zip(questions, texts, strict=False)
        before = [(("user", question), ("assistant", text)) for question, text in turns]
        roles = [*(each for turn in before for each in turn), ("user", questions[number])]
        conversation = [{"role": role, "content": text} for role, text in roles]
        [output] = llm.chat([conversation], SamplingParams(temperature=0.0, max_tokens=NUM_TOKENS))
        tokens.append(list(output.outputs[0].token_ids))
        texts.append(output.outputs[0].text)
    num_bytes = held.num_blocks * llm.engine.kv_cache_plan.bytes_per_block
    return Run(tokens, texts, num_bytes, recorder.to_trace("lab run"))


# --- tiers ------------------------------------------------------------------------------------------------------------


def show_restart(out: Console, make: MakeEngine, questions: Sequence[str], options: dict[str, Any]) -> Trace:
    """The conversation with an engine that has nothing on its disk, and its last question to one that starts then."""
    table = Table(box=None, pad_edge=False)
    for head in ("in blocks", "stored", "written", "read", "loaded", "failed reads", "tokens computed"):
        table.add_column(head, justify="left" if head == "in blocks" else "right")
    runs: list[Run] = []
    for name in ("the conversation", "its last question, started again"):
        llm = make(**options)
        runs.append(run := talk(llm, questions, runs[0].texts[:-1] if runs else ()))
        stats = llm.engine.scheduler.kv_cache_manager.connector.stats
        llm.engine.shutdown()
        row = (stats.num_stored, stats.num_written, stats.num_read, stats.num_loaded, stats.num_failed_reads)
        table.add_row(name, *map(str, (*row, num_computed(run.trace))))
    out.print("The same conversation with main memory and a disk behind the device. Then an engine that starts:\n")
    out.print(table)
    same = runs[0].tokens[-1] == runs[1].tokens[-1]
    out.print("\nThe last answer is the same.\n" if same else "\nWRONG: the last answer is another one.\n")
    return runs[1].trace


def num_computed(trace: Trace) -> int:
    """How many tokens all steps have computed."""
    return sum(n for step in trace["steps"] for _, n in step["sched"])
