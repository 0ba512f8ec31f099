STORY = (
    "touch() takes the free blocks of a hit from the front of the queue, as many as there are. They are "
    "others if the hit is not the front."
)
CONCEPT = "A prefix hit holds a free block again: it leaves the queue from the middle, with its content."
EDITS = [
    (
        """                self.free_queue.remove(block)
""",
        """                self.free_queue.popleft()
""",
    ),
]
