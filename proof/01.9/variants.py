# === two_passes
"""Computes the scores twice, first for their maximum, and loops over the positions by block and offset."""


def decode_source():
    """Two passes."""
    return r"""
static float dot(const float *a, const float *b, int64_t n) {
    double sum = 0;
    while (n-- > 0) sum += (double)a[n] * b[n];
    return sum;
}

static void attend(const Decode *d, const int32_t *table, int32_t length, int64_t kv_head, const float *query,
                   float *output) {
    const int64_t size = d->block_size * d->head_dim;
    float maximum = -INFINITY;
    double total = 0;
    for (int64_t c = 0; c < d->head_dim; c++) output[c] = 0;
    for (int pass = 0; pass < 2; pass++)
        for (int64_t column = 0, left = length; left > 0; column++, left -= d->block_size) {
            const int64_t at = (table[column] * d->num_kv_heads + kv_head) * size;
            for (int64_t i = 0; i < left && i < d->block_size; i++) {
                float score = d->scale * dot(query, d->key_cache + at + i * d->head_dim, d->head_dim);
                if (pass == 0) {
                    if (score > maximum) maximum = score;
                    continue;
                }
                const float weight = expf(score - maximum), *value = d->value_cache + at + i * d->head_dim;
                total += weight;
                for (int64_t c = 0; c < d->head_dim; c++) output[c] += weight * value[c];
            }
        }
    for (int64_t c = 0; length && c < d->head_dim; c++) output[c] /= total;
}

void decode(const Decode *d) {
    const int64_t group = d->num_heads / d->num_kv_heads;
    for (int64_t s = 0; s < d->num_seqs; s++)
        for (int64_t h = 0; h < d->num_heads; h++) {
            int64_t at = (s * d->num_heads + h) * d->head_dim;
            attend(d, d->block_tables + s * d->max_blocks, d->seq_lens[s], h / group, d->query + at, d->output + at);
        }
}
"""


# === vectors
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
