"""The shard of a model whose experts are whole, each on some of the ranks; all else is cut."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from torch import Tensor

from mini_vllm.config import EngineConfig
from mini_vllm.errors import InvalidParameterError, is_number, shown
from mini_vllm.parallel.experts.placement import Placement, place_experts, rank_loads, spread_evenly
from mini_vllm.parallel.shard import Shard

Loads = Mapping[int, Sequence[float]]
"""By layer, by expert: how many tokens it got."""


@dataclass(frozen=True, slots=True)
class ExpertShard(Shard):
    """loads: by which the experts are placed; a layer without any has them spread evenly."""

    loads: Loads = field(default_factory=dict)
    num_redundant_experts: int = 0

    def placement(self, layer: int, num_experts: int) -> Placement:
        """The experts of every rank. Errors: InvalidParameterError for loads of another number of
        experts, and as in place_experts().
        """
        loads = self.loads.get(layer)
        if loads is None and not self.num_redundant_experts:
            return spread_evenly(num_experts, self.size)
        loads = loads or [0.0] * num_experts
        if len(loads) != num_experts:
            raise InvalidParameterError(
                f"expert_loads: layer {layer} has {num_experts} experts, and loads for {len(loads)}"
            )
        return place_experts(loads, self.size, self.num_redundant_experts)

    def balancedness(self, loads: Loads) -> float:
        """How evenly the ranks would share these loads, in (0, 1]: what a rank gets on average, by
        what the one with most gets, in the sum over the layers. Source: EplbState in
        vllm/distributed/eplb/eplb_state.py.
        """
        means, largest = 0.0, 0.0
        for layer, numbers in loads.items():
            found = rank_loads(numbers, self.placement(layer, len(numbers)))
            means, largest = means + sum(found) / self.size, largest + max(found)
        return means / largest if largest else 1.0

    def combine(self, x: Tensor) -> Tensor:
        """The sum of x [T, H] over all ranks, in their order, so that it does not depend on T.

        Each rank adds up its part of the rows, and gets the rest. vLLM's AgRsAll2AllManager gathers
        the tokens before, too; here attention has given all of them to all ranks.
        """
        rows = -(-len(x) // self.size)
        padded = x.new_zeros(rows * self.size, x.shape[1])
        padded[: len(x)] = x
        first, *rest = self.communicator.all_to_all(padded.view(self.size, rows, -1))
        for part in rest:
            first = first + part
        return self.communicator.all_gather(first).flatten(0, 1)[: len(x)]


def shard_of(config: EngineConfig) -> Shard:
    """The first shard, which holds no less than any other one.

    Raises InvalidParameterError for loads that cannot be read.
    """
    size = config.tensor_parallel_size
    if not config.enable_expert_parallel:
        return Shard(0, size)
    loads = read_loads(Path(config.expert_loads)) if config.expert_loads else {}
    return ExpertShard(0, size, loads=loads, num_redundant_experts=config.num_redundant_experts)


def read_loads(file: Path) -> Loads:
    """The loads that write_loads() has written. {} where there is no such file yet.

    Raises InvalidParameterError for a file that cannot be read, or that has something else.
    """
    try:
        found = json.loads(file.read_bytes())
        loads = {int(layer): list(numbers) for layer, numbers in found.items()}
        if [*map(str, map(abs, loads))] != [*found] or not all(loads.values()):
            raise ValueError("a layer is a number like '0', and has experts")
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError, AttributeError, TypeError) as error:
        raise InvalidParameterError(
            f"expert_loads {shown(str(file))} cannot be read as loads: {shown(str(error))}"
        ) from error
    for layer, numbers in loads.items():
        for number in numbers:
            if not is_number(number, 0, 1e18):
                raise InvalidParameterError(
                    f"expert_loads {shown(str(file))}: layer {layer} has {shown(number)}, allowed "
                    "is a number in [0, 1e18]"
                )
    return loads


def write_loads(file: Path, loads: Loads) -> None:
    """Put loads into a file, at once or not at all."""
    beside = file.with_name(f"{file.name}.{os.getpid()}")
    beside.write_text(json.dumps(loads))
    beside.replace(file)
