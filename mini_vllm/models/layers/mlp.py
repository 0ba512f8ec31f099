"""The gated feed-forward block, SwiGLU (Shazeer 2020)."""

from torch import Tensor, nn

from mini_vllm.models.layers.fused import silu_mul
from mini_vllm.models.layers.linear import ColumnParallelLinear, RowParallelLinear
from mini_vllm.models.weights import WeightLoader


class GatedMLP(nn.Module):
    """down(silu(gate(x)) * up(x)), with gate and up in one matrix product. reduce: as in
    RowParallelLinear. is_fused: whether the checkpoint has gate and up in one matrix.
    """

    def __init__(
        self,
        loader: WeightLoader,
        hidden_size: int,
        intermediate_size: int,
        *,
        bias: bool = False,
        reduce: bool = True,
        is_fused: bool = False,
    ) -> None:
        super().__init__()
        gate_up = {"gate_proj": intermediate_size, "up_proj": intermediate_size}
        if is_fused:
            gate_up = {"gate_up_proj": 2 * intermediate_size}
        self.gate_up_proj = ColumnParallelLinear(loader, gate_up, hidden_size, bias=bias)
        down = {"down_proj": hidden_size}
        self.down_proj = RowParallelLinear(
            loader, down, intermediate_size, bias=bias, reduce=reduce
        )

    def forward(self, x: Tensor) -> Tensor:
        """[T, hidden_size] to the same shape."""
        return self.down_proj(silu_mul(self.gate_up_proj(x)))  # type: ignore[no-any-return]
