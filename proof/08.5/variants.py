# === cut_first
"""The blocks are cut into pieces first, and written by index."""

from labkit.ranks.routing import NO_EXPERT


def grouped_product(x, weights, aligned, top_k, out, product):
    entries = iter(aligned.pairs)
    size = len(aligned.pairs) // len(aligned.experts) if aligned.experts else 0
    pieces = [[next(entries) for _ in range(size)] for _ in aligned.experts]
    work = [(piece, expert) for piece, expert in zip(pieces, aligned.experts) if expert != NO_EXPERT]  # noqa: B905
    for piece, expert in reversed(work):
        inputs = []
        for pair in piece:
            inputs.append(list(x[pair // top_k]) if 0 <= pair < len(out) else None)
        zeros = [0.0 for _ in x[piece[0] // top_k]]
        found = product([row or zeros for row in inputs], weights[expert])
        for place, pair in enumerate(piece):
            if inputs[place] is not None:
                out[pair] = found[place]


def finalise(outputs, weights):
    return [token(outputs[t * len(own) : (t + 1) * len(own)], own) for t, own in enumerate(weights)]


def token(rows, own):
    sums = []
    for column in zip(*rows):  # noqa: B905
        so_far = 0.0
        for weight, number in zip(own, column):  # noqa: B905
            so_far = so_far + weight * number
        sums.append(so_far)
    return sums


# === by_programs
"""A program for each block, as a kernel has it."""

from functools import partial, reduce


def program(number, x, weights, aligned, top_k, out, product):
    expert = aligned.experts[number]
    if expert < 0:
        return
    size = len(aligned.pairs) // len(aligned.experts)
    own = range(number * size, number * size + size)
    is_real = {place: 0 <= aligned.pairs[place] < len(out) for place in own}
    width = next(len(x[aligned.pairs[place] // top_k]) for place in own if is_real[place])
    tile = [x[aligned.pairs[place] // top_k] if is_real[place] else [0.0] * width for place in own]
    for place, row in zip(own, product(tile, weights[expert])):  # noqa: B905
        if is_real[place]:
            out[aligned.pairs[place]] = row


def grouped_product(x, weights, aligned, top_k, out, product):
    run = partial(program, x=x, weights=weights, aligned=aligned, top_k=top_k, out=out, product=product)
    for number in range(len(aligned.experts)):
        run(number)


def finalise(outputs, weights):
    found = []
    for t, own in enumerate(weights):
        rows = [[w * number for number in outputs[t * len(own) + j]] for j, w in enumerate(own)]
        found.append(reduce(lambda a, b: [p + q for p, q in zip(a, b)], rows, [0.0] * len(rows[0])))  # noqa: B905
    return found
