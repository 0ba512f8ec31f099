STORY = "Numbers go through bfloat16, in which most models are served. In float32 sixteen bits of each are lost."
CONCEPT = "What is stored is what was computed, bit for bit, whatever the dtype."
EDITS = [
    (
        "from torch import Tensor",
        """import torch
from torch import Tensor""",
    ),
    (
        """                value_cache[block_id, offset] = value[token]
""",
        """                value_cache[block_id, offset] = value[token].to(torch.bfloat16)
""",
    ),
]
