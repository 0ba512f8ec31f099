"""The pictures of phase 6."""

from mini_vllm.block_pool import BlockPool
from mini_vllm.offload.hybrid.groups import FullAttention, SlidingWindow
from mini_vllm.offload.hybrid.tables import drop_skipped
from tools.book.drawing import BLUE, INK, MUTED, NARROW, PALE, WHITE, Drawing

BLOCK_SIZE, WINDOW = 4, 6
SHOWN = (8, 13, 25)  # tokens that are computed
PLACES = 7


def tables(narrow: bool = False) -> Drawing:
    """The tables of a request in two groups, while its text gets longer."""
    d = Drawing(
        NARROW if narrow else 760,
        300,
        "A table for each group",
        "A request has a block table for each group of layers. The table of full attention keeps all blocks. In the "
        "table of a window null blocks stand in front, as many as the window has left behind, and it holds two "
        "blocks after 25 tokens, as after 13.",
    )
    groups, left = (FullAttention(BLOCK_SIZE), SlidingWindow(BLOCK_SIZE, WINDOW)), 78 if narrow else 190
    cell = min(46.0, (d.width - left - 14) / PLACES)
    y = 14.0
    for num_tokens in SHOWN:
        num_blocks, pool = num_tokens // BLOCK_SIZE + 1, BlockPool(40)
        rows = [pool.get_new_blocks(num_blocks) for _ in groups]
        drop_skipped(groups, rows, num_tokens, pool)
        d.text(14, y + 16, f"{num_tokens} tokens" if narrow else f"{num_tokens} tokens computed", bold=True, size=13)
        for name, row in zip(("full", "window") if narrow else ("full attention", "a window of 6"), rows, strict=True):
            y += 28
            d.text(14, y + 15, name, size=13, fill=MUTED)
            for place, block in enumerate(row):
                is_null = block is pool.null_block
                d.rect(left + place * cell, y, cell, 22, PALE if is_null else BLUE)
                words, ink = ("0", INK) if is_null else (str(block.block_id), WHITE)
                d.text(left + (place + 0.5) * cell, y + 15, words, size=12, anchor="middle", fill=ink)
        y += 44
    d.end(d.paragraph(14, y, "A number is a block of 4 tokens; 0 is the null block, which nobody reads."))
    return d


PICTURES = {"phase-06-kv-tiers/tables": tables}
