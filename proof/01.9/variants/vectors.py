"""Vectors of the compiler, four numbers at a time and the rest one by one, and a mean that is always finished; from the
last position to the first."""


def decode_source():
    """Vectors of four."""
    return r"""
typedef float quad __attribute__((vector_size(16)));

static quad load(const float *from) {
    quad x;
    __builtin_memcpy(&x, from, sizeof x);
    return x;
}

void decode(const Decode *d) {
    const int64_t size = d->head_dim, whole = size - size % 4, group = d->num_heads / d->num_kv_heads;
    for (int64_t row = d->num_seqs * d->num_heads; row-- > 0;) {
        const float *query = d->query + row * size;
        float *mean = d->output + row * size, maximum = -INFINITY, total = 0;
        __builtin_memset(mean, 0, size * sizeof(float));
        const int32_t *table = d->block_tables + row / d->num_heads * d->max_blocks;
        for (int64_t p = d->seq_lens[row / d->num_heads] - 1; p >= 0; p--) {
            uint64_t at = table[p / d->block_size];
            at = at * d->num_kv_heads + row % d->num_heads / group;
            at = (at * d->block_size + p % d->block_size) * size;
            const float *key = d->key_cache + at, *value = d->value_cache + at;
            quad sums = {0};
            for (int64_t c = 0; c < whole; c += 4) sums += load(query + c) * load(key + c);
            float score = sums[0] + sums[1] + sums[2] + sums[3];
            for (int64_t c = whole; c < size; c++) score += query[c] * key[c];
            score *= d->scale;
            if (score > maximum) total *= expf(maximum - score), maximum = score;
            float weight = expf(score - maximum), share = weight / (total + weight);
            total += weight;
            for (int64_t c = 0; c < size; c++) mean[c] += share * (value[c] - mean[c]);
        }
    }
}
"""
