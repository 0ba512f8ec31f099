"""The GPU side of bench_attention.py: one layer's attention over a paged cache, and the small kernels around it.

    python benchmarks/bench_attention.py --device cuda [--quick | --sweep] [--block-size 16] [--results DIR]

Each figure stands beside what the same GPU does at best, measured in the same run: bytes that must move (K and V once,
queries and output) as a share of a copy's bandwidth, operations as a share of a large matrix product's rate. Beside it
stand three peers, and a ratio is their time over ours: torch's scaled_dot_product_attention (flash) over keys and
values that lie contiguous and never were paged; the same after a gather of the pages, which is what paging costs a
program without a paged kernel; flex_attention, compiled, contiguous. The rungs flashinfer and cutedsl stand beside them
where their packages are. device.py says how the clock works. A result that
is wrong gets no time: all are held against float32 on a few rows, and against each other on every row.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from device import DTYPE, LAYOUTS, REPEATS, TOLERANCE, Device, Layout, Yardsticks, deviation
from small_kernels import small_kernel_table
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.bias import causal_lower_right
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

from mini_vllm.attention import AttentionBackend, AttentionMetadata, AttentionSpec, PackedRequest, get_backend

MEMORY_SHARE = 0.4  # of what is free, for K and V; the peers hold them once or twice more
FLEX_SECONDS = 120.0  # flex_attention compiles again for every shape
SDPA, GATHERED, FLEX = "SDPA", "SDPA + gather", "flex"
RUNGS = ("flashinfer", "cutedsl")  # of ours, that stand on a package of their own
PEERS = (SDPA, GATHERED, FLEX, *RUNGS)
WRONG = -1.0


class Group(NamedTuple):
    """Requests of one kind: tokens in the cache, and new ones."""

    num_requests: int
    cached: int
    new: int

    @property
    def context(self) -> int:
        return self.cached + self.new


class Case(NamedTuple):
    """One packed batch."""

    name: str
    kind: str  # decode, prefill or mixed
    groups: tuple[Group, ...]

    @property
    def num_tokens(self) -> int:
        return sum(group.num_requests * group.new for group in self.groups)

    @property
    def num_keys(self) -> int:
        return sum(group.num_requests * group.context for group in self.groups)

    def num_blocks(self, block_size: int) -> int:
        return sum(group.num_requests * -(-group.context // block_size) for group in self.groups)

    def num_bytes(self, layout: Layout) -> int:
        """What must move: K and V once, queries and output."""
        numbers = 2 * self.num_keys * layout.num_kv_heads + 2 * self.num_tokens * layout.num_heads
        return numbers * layout.head_dim * DTYPE.itemsize

    def num_operations(self, layout: Layout) -> int:
        """Two matrix products over every visible pair of query and key."""
        pairs = sum(g.num_requests * (g.new * g.cached + g.new * (g.new + 1) // 2) for g in self.groups)
        return 4 * layout.head_dim * layout.num_heads * pairs


class Scale(NamedTuple):
    """How much is measured."""

    layouts: tuple[Layout, ...]
    batches: tuple[int, ...]
    contexts: tuple[int, ...]
    chunk: int
    after: int  # tokens in the cache before the chunk
    mixed: tuple[Group, ...]
    token_counts: tuple[int, ...]  # of the small kernels
    flex: tuple[str, ...]  # the cases for which flex_attention is compiled

    def cases(self) -> Iterator[Case]:
        for batch in self.batches:
            for context in self.contexts:
                yield Case(f"decode {batch} x {context}", "decode", (Group(batch, context - 1, 1),))
        for batch in (1, 4):
            for cached in (0, self.after):
                name = f"prefill {batch} x {self.chunk}" + (f" after {cached}" if cached else "")
                yield Case(name, "prefill", (Group(batch, cached, self.chunk),))
        yield self.mixed_case

    @property
    def mixed_case(self) -> Case:
        decodes, chunk = self.mixed
        return Case(f"{decodes.num_requests} x {decodes.context} + chunk of {chunk.new}", "mixed", self.mixed)


MIXED = (Group(64, 2047, 1), Group(1, 0, 512))
FLEX_CASES = ("decode 1 x 32768", "decode 64 x 2048", "prefill 1 x 2048", "prefill 1 x 2048 after 8192")
FULL = Scale(
    LAYOUTS, (1, 8, 64, 128, 256), (128, 512, 2048, 8192, 32_768), 2048, 8192, MIXED, (1, 64, 256, 2048), FLEX_CASES
)
QUICK = Scale(LAYOUTS[:1], (1, 64), (512, 2048, 32_768), 2048, 8192, MIXED, (1, 256), ())
TINY_LAYOUTS = (Layout("tiny", 4, 2, 16, 32, 48), Layout("tiny, one head", 1, 1, 32, 16, 16))
TINY = Scale(
    TINY_LAYOUTS, (1, 2), (32, 64, 2048), 33, 32, (Group(2, 39, 1), Group(1, 0, 33)), (1, 5),
    ("decode 1 x 64", "prefill 1 x 33 after 32"),
)  # fmt: skip


# --- the data ---------------------------------------------------------------------------------------------------------


@dataclass
class Pool:
    """A paged cache of random numbers, and its blocks in a random order, for the host and for the device."""

    key: Tensor
    value: Tensor
    order: Tensor
    block_ids: list[int]

    @classmethod
    def make(cls, layout: Layout, num_blocks: int, block_size: int, device: torch.device) -> "Pool":
        shape = (num_blocks, block_size, layout.num_kv_heads, layout.head_dim)
        key, value = (torch.empty(shape, dtype=DTYPE, device=device).normal_() for _ in range(2))
        order = torch.randperm(num_blocks, generator=torch.Generator().manual_seed(0))
        return cls(key, value, order.to(device), order.tolist())

    @property
    def block_size(self) -> int:
        return self.key.shape[1]


@dataclass
class Batch:
    """A case with data: what our kernels get, and per group what the peers get."""

    case: Case
    layout: Layout
    pool: Pool
    requests: list[PackedRequest]
    metadata: AttentionMetadata
    query: Tensor  # [T, num_heads, head_dim]
    tables: list[Tensor]  # per group, [num_requests, blocks of a request]
    plans: dict[AttentionBackend, Any] = field(default_factory=dict)

    @classmethod
    def make(cls, case: Case, layout: Layout, pool: Pool) -> "Batch":
        requests, tables, at = [], [], 0
        for group in case.groups:
            width = -(-group.context // pool.block_size)
            end = at + group.num_requests * width
            tables.append(pool.order[at:end].view(group.num_requests, width))
            requests += [
                PackedRequest(pool.block_ids[i : i + width], group.cached, group.new) for i in range(at, end, width)
            ]
            at = end
        device = pool.key.device
        metadata = AttentionMetadata.pack(requests, pool.block_size, device)
        query = torch.randn(case.num_tokens, layout.num_heads, layout.head_dim, device=device).to(DTYPE)
        return cls(case, layout, pool, requests, metadata, query, tables)

    @property
    def spec(self) -> AttentionSpec:
        layout = self.layout
        return AttentionSpec(
            layout.num_heads, layout.num_kv_heads, layout.head_dim, layout.head_dim**-0.5, dtype=self.query.dtype
        )

    def attend(self, backend: AttentionBackend) -> Tensor:
        """Ours, as a layer calls it; a step is planned by its first layer here."""
        if self.plans.get(backend) is None:
            self.plans[backend] = backend.plan(self.metadata, self.spec)
        return backend.attend(self.query, self.pool.key, self.pool.value, self.plans[backend])

    def queries(self) -> list[Tensor]:
        """Per group [num_requests, new, num_heads, head_dim]."""
        parts = self.query.split([group.num_requests * group.new for group in self.case.groups])
        return [
            part.unflatten(0, (group.num_requests, group.new))
            for part, group in zip(parts, self.case.groups, strict=True)
        ]

    def gather(self) -> list[tuple[Tensor, Tensor]]:
        """Per group keys and values [num_requests, context, num_kv_heads, head_dim], copied out of their pages."""
        return [
            (copy_pages(self.pool.key, table, group.context), copy_pages(self.pool.value, table, group.context))
            for table, group in zip(self.tables, self.case.groups, strict=True)
        ]


def copy_pages(cache: Tensor, table: Tensor, context: int) -> Tensor:
    pages = cache.index_select(0, table.flatten())
    return pages.view(len(table), -1, *cache.shape[2:])[:, :context]


# --- the peers, over contiguous keys and values; outputs come per group, [num_requests, new, num_heads, head_dim] -----


def run_sdpa(batch: Batch, contiguous: list[tuple[Tensor, Tensor]]) -> list[Tensor]:
    backend = SDPBackend.FLASH_ATTENTION if batch.query.is_cuda else SDPBackend.MATH
    outputs = []
    for query, (key, value), group in zip(batch.queries(), contiguous, batch.case.groups, strict=True):
        is_chunk = group.new > 1
        mask = causal_lower_right(group.new, group.context) if is_chunk and group.cached else None
        with sdpa_kernel(backend):
            output = F.scaled_dot_product_attention(
                query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2), attn_mask=mask,
                is_causal=is_chunk and mask is None, scale=batch.spec.scale, enable_gqa=True,
            )  # fmt: skip
        outputs.append(output.transpose(1, 2))
    return outputs


def make_flex(batch: Batch) -> Callable[[list[tuple[Tensor, Tensor]]], list[Tensor]]:
    """flex_attention compiled for the shape of a batch of one group."""
    (group,) = batch.case.groups
    cached = group.cached

    def causal(batch_index: Tensor, head: Tensor, query_index: Tensor, key_index: Tensor) -> Tensor:
        return query_index + cached >= key_index

    device = batch.query.device
    mask = create_block_mask(causal, None, None, group.new, group.context, device=device)
    torch.compiler.reset()  # or the limit of recompilations is reached
    compiled = torch.compile(flex_attention, dynamic=False) if device.type == "cuda" else flex_attention

    def run(contiguous: list[tuple[Tensor, Tensor]]) -> list[Tensor]:
        ((key, value),) = contiguous
        query = batch.queries()[0].transpose(1, 2)
        output = compiled(
            query, key.transpose(1, 2), value.transpose(1, 2), block_mask=mask, scale=batch.spec.scale, enable_gqa=True
        )
        return [output.transpose(1, 2)]

    return run


# --- right or wrong ---------------------------------------------------------------------------------------------------


def sampled_deviation(batch: Batch, outputs: list[Tensor], contiguous: list[tuple[Tensor, Tensor]]) -> float:
    """Against plain attention in float32, in the first and last row of the first and last request of each group."""
    worst = 0.0
    for output, query, (key, value), group in zip(outputs, batch.queries(), contiguous, batch.case.groups, strict=True):
        for request in {0, group.num_requests - 1}:
            for row in {0, group.new - 1}:
                seen = group.cached + row + 1
                heads = query[request, row].float().unflatten(0, (batch.layout.num_kv_heads, -1))
                scores = torch.einsum("kgd,lkd->kgl", heads, key[request, :seen].float()) * batch.spec.scale
                expected = torch.einsum("kgl,lkd->kgd", scores.softmax(-1), value[request, :seen].float())
                worst = max(worst, deviation(output[request, row], expected.flatten(0, 1)))
    return worst


# --- one case ---------------------------------------------------------------------------------------------------------


@dataclass
class Row:
    """What came out of a case; a peer that could not run is missing, WRONG stands for a result that is."""

    case: Case
    layout: Layout
    seconds: float
    peers: dict[str, float] = field(default_factory=dict)

    @property
    def is_right(self) -> bool:
        return self.seconds != WRONG

    def share_of_copy(self, yardsticks: Yardsticks) -> float:
        return self.case.num_bytes(self.layout) / self.seconds / yardsticks.copy

    def share_of_matmul(self, yardsticks: Yardsticks) -> float:
        return self.case.num_operations(self.layout) / self.seconds / yardsticks.matmul

    def targets(self, yardsticks: Yardsticks) -> Iterator[tuple[str, bool]]:
        """The targets that apply, and whether they are reached."""
        group = self.case.groups[0]
        if self.case.kind == "decode" and group.num_requests >= 64 and group.context >= 2048:
            yield "85 % of the copy", self.is_right and self.share_of_copy(yardsticks) >= 0.85
        if self.case.kind == "decode" and group.num_requests == 1 and group.context >= 32_768:
            yield "60 % of the copy", self.is_right and self.share_of_copy(yardsticks) >= 0.60
        if self.case.kind == "prefill" and group.new >= 2048 and self.layout.head_dim == 128:
            yield "55 % of the matmul", self.is_right and self.share_of_matmul(yardsticks) >= 0.55
        if GATHERED in self.peers and self.peers[GATHERED] != WRONG:
            yield "not slower than SDPA + gather", self.is_right and self.seconds <= self.peers[GATHERED]


def first_line(error: Exception) -> str:
    text = str(error).strip() or repr(error)
    return f"{type(error).__name__}: {text.splitlines()[0][:160]}"


class Bench:
    """The device, and what a run remembers: peers that refused and why, and the time that flex may still take."""

    def __init__(self, device: Device, scale: Scale, block_size: int) -> None:
        self.device = device
        self.scale = scale
        self.block_size = block_size
        self.refusals: dict[str, str] = {}
        self.left_out: list[str] = []
        self.flex_seconds = FLEX_SECONDS

    def attempt(self, name: str, measure: Callable[[], float]) -> float | None:
        """What a peer takes; None if it cannot, and why is printed the first time."""
        try:
            return measure()
        except Exception as error:  # a peer must not end the run, whatever it has
            if name not in self.refusals:
                self.refusals[name] = first_line(error)
                print(f"    {name}: n/a ({first_line(error)})", flush=True)
            return None

    def measure(self, case: Case, layout: Layout, pool: Pool) -> Row:
        """Ours and the peers on one case."""
        batch, backend = Batch.make(case, layout, pool), get_backend("triton", self.device.torch)
        ours = partial(batch.attend, backend)
        output = ours()
        contiguous = batch.gather()
        parts = output.split([query.shape[0] * query.shape[1] for query in batch.queries()])
        by_group = [part.view(query.shape) for part, query in zip(parts, batch.queries(), strict=True)]
        is_right = sampled_deviation(batch, by_group, contiguous) <= TOLERANCE
        row = Row(case, layout, self.device.seconds(ours) if is_right else WRONG)

        def peer(run: Callable[[], list[Tensor]]) -> float:
            """Time of a peer, unless it is wrong. If it is right in the sampled rows and differs elsewhere, we are."""
            outputs = run()
            if not sampled_deviation(batch, outputs, contiguous) <= TOLERANCE:
                return WRONG
            if not all(deviation(a, b) <= TOLERANCE for a, b in zip(by_group, outputs, strict=True)):
                row.seconds = WRONG
            del outputs
            return self.device.seconds(run)

        peers: dict[str, Callable[[], float]] = {
            SDPA: lambda: peer(lambda: run_sdpa(batch, contiguous)),
            GATHERED: lambda: peer(lambda: run_sdpa(batch, batch.gather())),
        }
        for name in RUNGS:
            peers[name] = partial(self.time_rung, name, batch, peer)
        if case.name in self.scale.flex and self.flex_seconds > 0:
            peers[FLEX] = lambda: self.time_flex(batch, contiguous, peer)
        for name, measure in peers.items():
            seconds = self.attempt(name, measure)
            if seconds is not None:
                row.peers[name] = seconds
        return row

    def time_rung(self, name: str, batch: Batch, peer: Callable[[Callable[[], list[Tensor]]], float]) -> float:
        backend = get_backend(name, self.device.torch, DTYPE)
        backend.check([batch.spec])
        lengths = [query.shape[0] * query.shape[1] for query in batch.queries()]
        shapes = [query.shape for query in batch.queries()]
        return peer(lambda: [
            part.view(shape) for part, shape in zip(batch.attend(backend).split(lengths), shapes, strict=True)
        ])  # fmt: skip

    def time_flex(
        self,
        batch: Batch,
        contiguous: list[tuple[Tensor, Tensor]],
        peer: Callable[[Callable[[], list[Tensor]]], float],
    ) -> float:
        start = time.perf_counter()
        try:
            run = make_flex(batch)
            return peer(lambda: run(contiguous))
        finally:
            self.flex_seconds -= time.perf_counter() - start

    def measure_all(self, yardsticks: Yardsticks) -> Iterator[Row]:
        """Every case of every layout that fits into memory. Layouts with the same KV heads share one cache."""
        pool, heads = None, None
        for layout in self.scale.layouts:
            per_block = 2 * self.block_size * layout.num_kv_heads * layout.head_dim * DTYPE.itemsize
            if heads != (layout.num_kv_heads, layout.head_dim):
                pool, heads = None, (layout.num_kv_heads, layout.head_dim)
                room = int(self.device.free_bytes() * MEMORY_SHARE) // per_block
                fitting = [case for case in self.scale.cases() if case.num_blocks(self.block_size) <= room]
                num_blocks = max(case.num_blocks(self.block_size) for case in fitting)
                pool = Pool.make(layout, num_blocks, self.block_size, self.device.torch)
            assert pool is not None
            print(f"\n{layout.name}: {layout.num_heads} query heads, {layout.num_kv_heads} KV heads, {layout.head_dim}")
            for case in self.scale.cases():
                if case not in fitting:
                    size = case.num_blocks(self.block_size) * per_block / (1 << 30)
                    self.left_out.append(f"{layout.name}, {case.name}: K and V take {size:.3g} GiB")
                    print(f"  {case.name:28} left out, K and V take {size:.3g} GiB", flush=True)
                    continue
                try:
                    row = self.measure(case, layout, pool)
                except Exception as error:  # ours does not run here: say so, and go on with the next case
                    self.left_out.append(f"{layout.name}, {case.name}: FAILED, {first_line(error)}")
                    print(f"  {case.name:28} FAILED, {first_line(error)}", flush=True)
                    continue
                print("  " + one_line(row, yardsticks), flush=True)
                yield row

    def measure_host(self) -> list[str]:
        """Table lines: the host's time for one attend, for the plan and for the metadata of a step."""
        layout, context = self.scale.layouts[0], self.scale.contexts[0]
        lines = [
            "| batch | attend, µs a layer | plan, µs a step | AttentionMetadata.pack, µs a step |",
            "|---|---|---|---|",
        ]
        print("\nhost: µs of attend, plan, pack", flush=True)
        decodes = [Case(f"decode {n} x {context}", "decode", (Group(n, context - 1, 1),)) for n in self.scale.batches]
        for case in (*decodes, self.scale.mixed_case):
            pool = Pool.make(layout, case.num_blocks(self.block_size), self.block_size, self.device.torch)
            batch, backend = Batch.make(case, layout, pool), get_backend("triton", self.device.torch)
            calls = (
                partial(batch.attend, backend),
                partial(backend.plan, batch.metadata, batch.spec),
                partial(AttentionMetadata.pack, batch.requests, self.block_size, self.device.torch),
            )
            microseconds = [f"{self.device.enqueue_seconds(call) * 1e6:.0f}" for call in calls]
            lines.append(f"| {case.name} | {' | '.join(microseconds)} |")
            print(f"  {lines[-1]}", flush=True)
        return lines


# --- the report -------------------------------------------------------------------------------------------------------


def peer_cells(row: Row) -> list[str]:
    """Their time over ours; n/a for a peer that did not run, WRONG where theirs is."""
    cells = []
    for name in PEERS:
        seconds = row.peers.get(name)
        is_ratio = seconds is not None and seconds != WRONG and row.is_right
        cells.append(f"{seconds / row.seconds:.2f}" if is_ratio else "WRONG" if seconds == WRONG else "n/a")
    return cells


def figure_cells(row: Row, yardsticks: Yardsticks) -> list[str]:
    if not row.is_right:
        return ["WRONG", "", "", "", ""]
    gigabytes, teraflops = row.case.num_bytes(row.layout) / 1e9, row.case.num_operations(row.layout) / 1e12
    return [
        f"{row.seconds * 1e6:,.1f}",
        f"{gigabytes / row.seconds:,.0f}",
        f"{row.share_of_copy(yardsticks):.0%}",
        f"{teraflops / row.seconds:,.1f}",
        f"{row.share_of_matmul(yardsticks):.0%}",
    ]


def target_cell(row: Row, yardsticks: Yardsticks) -> str:
    return ", ".join(f"{text}: {'reached' if reached else 'MISSED'}" for text, reached in row.targets(yardsticks))


def one_line(row: Row, yardsticks: Yardsticks) -> str:
    microseconds, gigabytes, of_copy, teraflops, of_matmul = figure_cells(row, yardsticks)
    peers = " ".join(f"{cell:>6}" for cell in peer_cells(row))
    figures = f"{microseconds:>10} µs {gigabytes:>6} GB/s {of_copy:>4} {teraflops:>6} TFLOP/s {of_matmul:>4}"
    return f"{row.case.name:30}{figures}  x {peers}  {target_cell(row, yardsticks)}"


def case_table(rows: list[Row], yardsticks: Yardsticks) -> list[str]:
    lines = [
        f"| batch | µs | GB/s | of the copy | TFLOP/s | of the matmul | {' | '.join(PEERS)} | targets |",
        "|---" * (7 + len(PEERS)) + "|",
    ]
    for row in rows:
        cells = [row.case.name, *figure_cells(row, yardsticks), *peer_cells(row), target_cell(row, yardsticks)]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def target_lines(rows: list[Row], yardsticks: Yardsticks) -> list[str]:
    """How many targets were reached, by kind, and each that was missed."""
    verdicts = [(text, reached, row) for row in rows for text, reached in row.targets(yardsticks)]
    lines = []
    for text in sorted({text for text, *_ in verdicts}):
        each = [reached for name, reached, _ in verdicts if name == text]
        lines.append(f"- {text}: {'reached' if all(each) else 'MISSED'} ({sum(each)} of {len(each)})")
    lines += [f"    - missed by {row.layout.name}, {row.case.name}: {text}" for text, ok, row in verdicts if not ok]
    wrong = [f"- WRONG: {row.layout.name}, {row.case.name}" for row in rows if not row.is_right]
    return [*lines, *wrong]


def write_report(
    args: argparse.Namespace, bench: Bench, rows: list[Row], tables: list[list[str]], yardsticks: Yardsticks
) -> str:
    small, host = tables
    lines = [
        "# Attention over a paged cache on a GPU",
        "",
        f"{date.today()}, {bench.device.describe()}. bfloat16, blocks of {bench.block_size} tokens in random order. "
        f"At best this GPU does: {yardsticks}. Medians of {REPEATS} runs with cold caches; a CUDA graph is replayed, "
        "so the host's time is not in them. The last columns are the peers' time over ours; flex_attention, which "
        "compiles for every shape, is tried on a few.",
        "",
        f"    python benchmarks/bench_attention.py {' '.join(sys.argv[1:])}".rstrip(),
        "",
        "## Targets",
        "",
        *target_lines(rows, yardsticks),
        "",
        "![share of the copy's bandwidth against context](attention_cuda.png)",
    ]
    for layout in bench.scale.layouts:
        heads = f"{layout.num_heads} query heads, {layout.num_kv_heads} KV heads, head_dim {layout.head_dim}"
        lines += ["", f"## {layout.name}: {heads}", ""]
        lines += case_table([row for row in rows if row.layout == layout], yardsticks)
    lines += ["", "## Small kernels", "", *small]
    lines += ["", "## The host", "", "Time to enqueue, the device not waited for.", "", *host]
    notes = [f"- left out: {text}" for text in bench.left_out]
    notes += [f"- {name}: n/a ({reason})" for name, reason in bench.refusals.items()]
    return "\n".join([*lines, "", *notes]).rstrip() + "\n"


def plot_shares(rows: list[Row], yardsticks: Yardsticks, layouts: tuple[Layout, ...], file: Path) -> None:
    """Share of the copy's bandwidth against context, a line a batch, a panel a layout."""
    import matplotlib as mpl

    mpl.use("agg")
    from matplotlib import pyplot
    from PIL import Image

    figure, axes = pyplot.subplots(
        1, len(layouts), figsize=(4 * len(layouts), 3.2), layout="constrained", sharey=True, squeeze=False
    )
    decodes = [row for row in rows if row.case.kind == "decode" and row.is_right]
    for axis, layout in zip(axes[0], layouts, strict=True):
        for batch in sorted({row.case.groups[0].num_requests for row in decodes}):
            of_batch = [r for r in decodes if r.layout == layout and r.case.groups[0].num_requests == batch]
            contexts = [row.case.groups[0].context for row in of_batch]
            shares = [100 * row.share_of_copy(yardsticks) for row in of_batch]
            axis.plot(contexts, shares, "o-", markersize=3, label=f"{batch}")
        axis.set_xscale("log", base=2)
        axis.set_title(layout.name, fontsize=10)
        axis.set_xlabel("context")
        axis.grid(alpha=0.3)
    axes[0][0].set_ylim(bottom=0)  # for all of them
    axes[0][0].set_ylabel("% of the copy's bandwidth")
    axes[0][-1].legend(title="decodes", fontsize=8)
    figure.savefig(file, dpi=90, metadata={"Software": None})
    with Image.open(file) as image:
        few_colours = image.convert("RGB").quantize(64)
    few_colours.save(file, optimize=True)  # a page loads a quarter of the bytes


def set_up(args: argparse.Namespace) -> tuple[Device, Scale, Yardsticks]:
    """The device, what to measure on it, and what it can do at best. A dry run: tiny shapes in Triton's interpreter."""
    if args.dry_run:
        get_backend("triton", torch.device("cpu"))  # says what is missing unless TRITON_INTERPRET=1 is set
        args.results = Path(tempfile.mkdtemp())
    torch.manual_seed(0)
    device = Device("cpu" if args.dry_run else "cuda")
    yardsticks = device.yardsticks()
    print(f"{device.describe()}\n{yardsticks}")
    return device, TINY if args.dry_run else QUICK if args.quick else FULL, yardsticks


@torch.inference_mode()
def main(args: argparse.Namespace) -> None:
    """Measure, print as it goes, write the report."""
    start = time.perf_counter()
    device, scale, yardsticks = set_up(args)
    print(f"last columns: the time of {', '.join(PEERS)} over ours")
    bench = Bench(device, scale, args.block_size)
    rows = list(bench.measure_all(yardsticks))
    small = small_kernel_table(device, scale.layouts, scale.token_counts, args.block_size, yardsticks)
    text = write_report(args, bench, rows, [small, bench.measure_host()], yardsticks)
    print("\nTargets:\n" + "\n".join(target_lines(rows, yardsticks)))
    print(f"{time.perf_counter() - start:.0f} s", flush=True)
    if not args.quick:
        args.results.mkdir(parents=True, exist_ok=True)
        (args.results / "attention_cuda.md").write_text(text)
        plot_shares(rows, yardsticks, scale.layouts, args.results / "attention_cuda.png")
        print(f"written: {args.results / 'attention_cuda.md'}")
