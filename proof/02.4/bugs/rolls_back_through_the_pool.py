STORY = (
    "Hits are held before it is sure that the rest fits, and are freed again if not: they move to the back of"
    " the queue."
)
CONCEPT = "A refusal leaves no trace: no order, no count, no name, no table, no counter."
EDITS = [
    (
        """            num_needed = self.num_blocks_needed(request, num_slots, computed_blocks)
            num_free = pool.num_free_blocks
            if num_needed > num_free:
                return None
            pool.touch(computed_blocks)
            new_blocks = pool.get_new_blocks(num_needed - (num_free - pool.num_free_blocks))
""",
        """            num_new = -(-num_slots // block_size) - len(self.get_block_ids(request.request_id)) - len(computed_blocks)
            pool.touch(computed_blocks)
            if num_new > pool.num_free_blocks:
                pool.free_blocks(list(computed_blocks))
                return None
            new_blocks = pool.get_new_blocks(max(num_new, 0))
""",
    ),
]
