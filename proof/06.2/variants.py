# === counts_nulls
"""Tables are made block by block, and the end of the nulls is found by halving."""

from bisect import bisect_left

from mini_vllm.offload.hybrid.groups import SlidingWindow as ReferenceSlidingWindow


class SlidingWindow(ReferenceSlidingWindow):
    def num_skipped_tokens(self, num_computed_tokens):
        first_seen = num_computed_tokens - (self.window - 1)
        return first_seen if first_seen > 0 else 0

    def next_skip(self, num_skipped_blocks):
        last_token = (num_skipped_blocks + 1) * self.block_size - 1
        return last_token + self.window


def begin_tables(groups, computed_blocks, num_hit_tokens, pool):
    tables = []
    for number, kind in enumerate(groups):
        num_skipped, table = kind.num_skipped_blocks(num_hit_tokens), []
        hits = computed_blocks[number] if computed_blocks else ()
        for place, block in enumerate(hits):
            if place < num_skipped or block is pool.null_block:
                table.append(pool.null_block)
            else:
                pool.touch([block])
                table.append(block)
        while len(table) < num_skipped:
            table.append(pool.null_block)
        tables.append(table)
    return tables


def drop_skipped(groups, tables, num_settled, pool):
    for kind, table in zip(groups, tables):
        end = min(kind.num_skipped_blocks(num_settled), len(table))
        start = bisect_left(table, True, 0, end, key=lambda block: block is not pool.null_block)
        pool.free_blocks([table[place] for place in range(start, end)])
        for place in range(start, end):
            table[place] = pool.null_block


# === from_the_end
"""Blocks are taken out from the last skipped one on, and freed when all are known."""

from mini_vllm.offload.hybrid.groups import SlidingWindow as ReferenceSlidingWindow


class SlidingWindow(ReferenceSlidingWindow):
    def num_skipped_tokens(self, num_computed_tokens):
        return max(num_computed_tokens + 1, self.window) - self.window

    def next_skip(self, num_skipped_blocks):
        return self.block_size * num_skipped_blocks + self.block_size + self.window - 1


def begin_tables(groups, computed_blocks, num_hit_tokens, pool):
    tables = []
    for kind, hits in zip(groups, computed_blocks or [()] * len(groups)):
        first = kind.num_skipped_blocks(num_hit_tokens)
        table = [pool.null_block] * first + list(hits[first:])
        pool.touch(filter(lambda block: block.block_id, table))
        tables.append(table)
    return tables


def drop_skipped(groups, tables, num_settled, pool):
    for kind, table in zip(groups, tables):
        gone, place = [], min(kind.num_skipped_blocks(num_settled), len(table)) - 1
        while place >= 0 and table[place].block_id:
            gone.append(table[place])
            table[place] = pool.null_block
            place -= 1
        if gone:
            pool.free_blocks(gone[::-1])
