"""Which rung computes the experts of a layer."""

import torch.nn.functional as F
from torch import Tensor, nn

from mini_vllm.models.layers.fused import on_gpu

ALIGNMENT = 16  # bytes, of which grouped_mm wants a row to be a multiple


class Experts(nn.Module):
    """A layer of experts with the weights gate_up and down."""

    gate_up: nn.Parameter | nn.ModuleList
    down: nn.Parameter | nn.ModuleList
    is_fixed = False
    """Whether products are F.linear alone: batch_invariant gives these a fixed order of sums, and
    grouped_mm chooses its order by the number of rows.
    """

    def pick_rung(self, x: Tensor) -> str:
        """The fastest that can run."""
        if not isinstance(self.gate_up, Tensor) or not isinstance(self.down, Tensor):
            return "loop"
        if on_gpu(x):
            return "triton"
        sizes = (self.gate_up.shape[2], self.down.shape[2])
        fits = all(size * x.element_size() % ALIGNMENT == 0 for size in sizes)
        return "grouped_mm" if fits and hasattr(F, "grouped_mm") and not self.is_fixed else "loop"

    def fix(self) -> None:
        """Take the rung whose sums can be fixed from now on."""
        self.is_fixed = True


def fix_sums(model: nn.Module) -> None:
    """Let the experts of a model on a CPU, if it has any, compute by F.linear alone."""
    for layer in model.modules():
        if isinstance(layer, Experts):
            layer.fix()
