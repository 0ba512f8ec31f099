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
