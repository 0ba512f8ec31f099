# === by_sorting
"""The best pair comes first when all are sorted, NaN before numbers and large before small."""

from math import gcd, inf

from labkit.ranks.heads import VOCAB_PADDING
from mini_vllm.errors import InvalidParameterError


def refuse(condition, text):
    if condition:
        raise InvalidParameterError(text)


def query_heads(num_heads, rank, size):
    refuse(num_heads % size != 0, f"{num_heads} heads, {size} ranks")
    return range(num_heads)[rank * (num_heads // size) :][: num_heads // size]


def kv_heads(num_kv_heads, rank, size):
    refuse(num_kv_heads % size != 0 and size % num_kv_heads != 0, f"{num_kv_heads} KV heads, {size} ranks")
    if num_kv_heads < size:
        copies = size // num_kv_heads
        return range(rank // copies, rank // copies + 1)
    return query_heads(num_kv_heads, rank, size)


def vocab_rows(vocab_size, rank, size):
    step = VOCAB_PADDING // gcd(VOCAB_PADDING, size)
    share = step
    while share * size < vocab_size:
        share += step
    return range(rank * share, rank * share + share)


def embed(token_ids, table, rank):
    own = dict(enumerate(table, start=rank * len(table)))
    return [own.get(token_id, [0.0] * len(table[0])) for token_id in token_ids]


def order(pair):
    value, token_id = pair
    return (0, 0, token_id) if value != value else (1, -value, token_id)


def best_of(logits, rank, vocab_size):
    pairs = [(value, rank * len(logits) + place) for place, value in enumerate(logits)]
    pairs = [pair for pair in pairs if pair[1] < vocab_size]
    return min(pairs, key=order) if pairs else (-inf, vocab_size)


def best_of_all(pairs):
    return sorted(pairs, key=order)[0][1]


# === in_plain_loops
"""Each of them is a loop that adds up where it is."""

from math import inf, isnan

from mini_vllm.errors import InvalidParameterError


def query_heads(num_heads, rank, size):
    share, rest = divmod(num_heads, size)
    if rest:
        raise InvalidParameterError("the query heads")
    return list(range(rank * share, rank * share + share))


def kv_heads(num_kv_heads, rank, size):
    if size > num_kv_heads:
        ranks_of_a_head, rest = divmod(size, num_kv_heads)
        share = 1
        first = rank // ranks_of_a_head
    else:
        share, rest = divmod(num_kv_heads, size)
        first = rank * share
    if rest:
        raise InvalidParameterError("the KV heads")
    return [first + place for place in range(share)]


def vocab_rows(vocab_size, rank, size):
    total = 64 * -(-vocab_size // 64)
    while total % size:
        total += 64
    return list(range(total))[total // size * rank : total // size * (rank + 1)]


def embed(token_ids, table, rank):
    rows = []
    for token_id in token_ids:
        owner, place = divmod(token_id, len(table))
        rows.append(list(table[place]) if owner == rank else [0.0 for _ in table[place]])
    return rows


def best_of(logits, rank, vocab_size):
    found, token_id = None, rank * len(logits)
    for value in logits:
        if token_id == vocab_size:
            break
        if found is None and token_id < vocab_size:
            found = (value, token_id)
        elif found is not None and not isnan(found[0]) and (isnan(value) or value > found[0]):
            found = (value, token_id)
        token_id += 1
    return found or (-inf, vocab_size)


def best_of_all(pairs):
    for value, token_id in pairs:
        if isnan(value):
            return token_id
    best = max(value for value, _ in pairs)
    return [token_id for value, token_id in pairs if value == best][0]
