"""From token ids to vectors."""

import torch.nn.functional as F
from torch import Tensor, nn

from mini_vllm.models.weights import WeightLoader


class Embedding(nn.Module):
    """A table with one row per token of the vocabulary."""

    def __init__(self, loader: WeightLoader, vocab_size: int, hidden_size: int) -> None:
        super().__init__()
        self.weight = loader.load({"weight": (vocab_size, hidden_size)})

    def forward(self, input_ids: Tensor) -> Tensor:
        """[T] int64 to [T, hidden_size]."""
        return F.embedding(input_ids, self.weight)
