STORY = (
    "The number of fresh blocks is what the price says, also for the part that hits make up, when a hit is "
    "held already."
)
CONCEPT = "Each hit counts by itself, held or free: behind the hits the table is new, as long as it must be."
EDITS = [
    (
        "pool.get_new_blocks(num_needed - (num_free - pool.num_free_blocks))",
        "pool.get_new_blocks(num_needed - len(computed_blocks) if computed_blocks and computed_blocks[0].ref_cnt == 1 else num_needed - (num_free - pool.num_free_blocks))",
    ),
]
