# === with_counters
"""Counts first, then one walk over the layers; the longest text by doubling and halving."""

from collections import Counter

from mini_vllm.errors import InvalidParameterError
from mini_vllm.offload.hybrid.groups import SlidingWindow as ReferenceSlidingWindow


class SlidingWindow(ReferenceSlidingWindow):
    def most_blocks(self, num_tokens, num_batched_tokens):
        tokens_in_sight = self.window - 1 + num_batched_tokens
        held = (tokens_in_sight + self.block_size - 1) // self.block_size + 1
        whole = (num_tokens + self.block_size - 1) // self.block_size
        return min(whole, held)


def strided_groups(kv_specs):
    if len({spec.bytes_per_token for spec in kv_specs}) > 1:
        raise InvalidParameterError("layers of different sizes")
    counts = Counter(kv_specs)
    least, most = min(counts.values()), max(counts.values())
    size = most if most < 1.5 * least else least
    first, num_groups, total = {}, {}, 0
    for spec in counts:
        first[spec], num_groups[spec] = total, -(-counts[spec] // size)
        total += num_groups[spec]
    turn, groups = Counter(), []
    for spec in kv_specs:
        groups.append(first[spec] + turn[spec] % num_groups[spec])
        turn[spec] += 1
    return tuple(groups)


def tensors_of_layers(layer_groups, num_layers):
    groups = layer_groups or [0] * num_layers
    return tuple(list(groups[:layer]).count(groups[layer]) for layer in range(num_layers))


def blocks_alone(groups, num_tokens, num_batched_tokens):
    total = 0
    for group in groups:
        total += group.most_blocks(num_tokens, num_batched_tokens)
    return total


def tokens_alone(groups, num_blocks, num_batched_tokens):
    fits, too_many = 0, 1
    while blocks_alone(groups, too_many, num_batched_tokens) <= num_blocks:
        fits, too_many = too_many, 2 * too_many
        if too_many > 1 << 32:
            return fits
    while too_many - fits > 1:
        middle = (fits + too_many) // 2
        if blocks_alone(groups, middle, num_batched_tokens) <= num_blocks:
            fits = middle
        else:
            too_many = middle
    return fits


# === by_blocks
"""The longest text ends at the end of a block, so only numbers of blocks are tried."""

from mini_vllm.errors import InvalidParameterError
from mini_vllm.offload.hybrid.groups import SlidingWindow as ReferenceSlidingWindow


class SlidingWindow(ReferenceSlidingWindow):
    def most_blocks(self, num_tokens, num_batched_tokens):
        reach = -(-(self.window + num_batched_tokens - 1) // self.block_size)
        return min(reach + 1, -(-num_tokens // self.block_size))


def strided_groups(kv_specs):
    sizes = sorted({spec.bytes_per_token for spec in kv_specs})
    if sizes[1:]:
        raise InvalidParameterError(f"layers of {sizes} bytes a token")
    kinds = sorted(set(kv_specs), key=kv_specs.index)
    layers = {kind: [i for i, spec in enumerate(kv_specs) if spec == kind] for kind in kinds}
    lengths = [len(each) for each in layers.values()]
    size = max(lengths) if 2 * max(lengths) < 3 * min(lengths) else min(lengths)
    groups = {}
    for kind in kinds:
        num = -(-len(layers[kind]) // size)
        base = len(set(groups.values()))
        for n in range(num):
            groups |= dict.fromkeys(layers[kind][n::num], base + n)
    return tuple(groups[i] for i in range(len(kv_specs)))


def tensors_of_layers(layer_groups, num_layers):
    places, seen = [], {}
    for group in layer_groups or [0] * num_layers:
        places.append(seen.setdefault(group, 0))
        seen[group] += 1
    return tuple(places)


def blocks_alone(groups, num_tokens, num_batched_tokens):
    return sum(map(lambda group: group.most_blocks(num_tokens, num_batched_tokens), groups))


def tokens_alone(groups, num_blocks, num_batched_tokens):
    low, high = 0, min(num_blocks, (1 << 31) // min(group.block_size for group in groups)) + 1
    size = min(group.block_size for group in groups)
    step = size  # every group's block is a multiple of some smaller ones only if sizes agree: then count in blocks
    if {group.block_size for group in groups} != {size}:
        step, high = 1, high * max(group.block_size for group in groups)
    while high - low > 1:
        middle = (low + high) // 2
        if blocks_alone(groups, middle * step, num_batched_tokens) <= num_blocks:
            low = middle
        else:
            high = middle
    return low * step
