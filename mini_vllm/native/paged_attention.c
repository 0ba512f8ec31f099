/* Attention over a paged KV cache on a CPU: the kernels of paged_attention.py and write_kv.py in C.

attention_kernel is what a program of the Triton kernel is: one tile of the step (tiles.py) and one KV head. Rows of a
tile are queries times the heads of a group. There are two ways to lay the numbers into vectors:

    one query (a decode)   A vector holds channels of one key: attend_query. Memory sets the pace.
    many rows              A vector holds one channel of LANES rows: attend_rows. A key's channel is then one number
                           for all of them, so neither keys nor values are transposed, and the maximum or the sum over
                           keys is one of whole vectors. Arithmetic sets the pace.

Caches lie as [num_blocks, num_kv_heads, block_size, head_dim], so the keys of a head in a block are side by side. Sums
are float32, whatever the cache holds. A dtype is a constant where it is used, as a tl.constexpr is: functions marked
INLINE become a part of the kernel for this dtype.

Sources: FlashAttention-2 (Dao 2023) for the loop, flash-decoding (Dao et al. 2023) for the split, Goto and van de Geijn
2008 for a matrix product in registers. vLLM: cpu_attention_with_kv_cache (csrc/cpu/cpu_attn.cpp), over this layout. */

#include "numerics.h"

enum { ROWS = 64, VECS = ROWS / LANES }; /* rows that are computed together */
enum { KEYS = 64 };                      /* keys of a step of the online softmax */
enum { GROUP = 8 };                      /* heads that attend_query takes */
enum { MAX_HEAD_DIM = 256 };             /* as in metadata.py */
enum { TILE_COLUMNS = 8, MERGE_COLUMNS = 4 }; /* as in tiles.py */

/* --- a step's work ---------------------------------------------------------------------------------------------- */

/* What a layer is called with; c_backend.py fills it in. query and output [T, num_heads, head_dim], rows of the query
   query_stride elements apart. sinks [num_heads], or 0 for none. window: 0 for none. batch_invariant: one query is computed as many are. */
typedef struct {
    void *output;
    const void *query, *key_cache, *value_cache;
    const int32_t *block_tables, *chunk_tiles, *short_tiles, *merges; /* [B, table_stride], and what tiles.py makes */
    float *partial;      /* [n, num_kv_heads, partial_rows, head_dim] */
    float *partial_sums; /* [n, num_kv_heads, partial_rows, 2]: maximum and normaliser */
    const float *sinks;
    int64_t query_stride, table_stride, num_chunk_tiles, num_short_tiles, num_merges, partial_rows;
    int64_t num_kv_heads, group_size, head_dim, block_size, window, num_threads, batch_invariant;
    float scale; /* times log2(e), so that exp2 serves */
} Plan;

/* Queries [0, num_queries) of a request, whose first stands at first_position, over the keys [begin, end). */
typedef struct {
    const int32_t *block_table;
    int64_t kv_head, first_row, num_queries, first_position, begin, end, partial; /* partial: -1 for none */
} Tile;

/* The keys or values of a head from position `start` on: their first element in the cache, and how many of them, `end`
   at most, lie side by side there. */
INLINE int64_t find(const Plan *plan, const Tile *tile, int64_t start, int64_t end, int64_t *count) {
    int64_t block_id = tile->block_table[start / plan->block_size], offset = start % plan->block_size;
    *count = MIN(end - start, plan->block_size - offset);
    return ((block_id * plan->num_kv_heads + tile->kv_head) * plan->block_size + offset) * plan->head_dim;
}

/* Where a row of the tile begins among queries whose rows are `stride` elements apart. */
INLINE int64_t place_of(const Plan *plan, const Tile *tile, int64_t row, int64_t stride) {
    int64_t query = tile->first_row + row / plan->group_size;
    return query * stride + (tile->kv_head * plan->group_size + row % plan->group_size) * plan->head_dim;
}

/* A finished row: the mean of the values goes to the output, or, as a part of it, to the partial results. */
INLINE void store_row(const Plan *plan, const Tile *tile, int64_t row, const float *weighted_sum, float maximum,
                      float normaliser, Dtype dtype) {
    int64_t head_dim = plan->head_dim;
    int64_t place = (tile->partial * plan->num_kv_heads + tile->kv_head) * plan->partial_rows + row;
    int64_t at = place_of(plan, tile, row, plan->num_kv_heads * plan->group_size * head_dim);
    float factor = normaliser == 0 ? 0 : 1 / normaliser;
    if (plan->sinks && tile->partial < 0 && normaliser != 0) { /* a sink counts once, and has no value */
        float sink = plan->sinks[tile->kv_head * plan->group_size + row % plan->group_size] * LOG2E;
        float shift = MAX(maximum, sink), keys = exp2_of(all(maximum - shift))[0];
        factor = keys / (normaliser * keys + exp2_of(all(sink - shift))[0]);
    }
    for (int64_t d = 0; d < head_dim; d += LANES) {
        vec mean = load(weighted_sum, d, FLOAT32) * factor;
        if (tile->partial < 0) store_some(plan->output, at + d, head_dim - d, mean, dtype);
        else store_some(plan->partial, place * head_dim + d, head_dim - d, mean, FLOAT32);
    }
    if (tile->partial >= 0) plan->partial_sums[2 * place] = maximum, plan->partial_sums[2 * place + 1] = normaliser;
}

/* --- one query: a vector holds channels of one key --------------------------------------------------------------- */

typedef struct {
    float query[GROUP][MAX_HEAD_DIM], weighted_sum[GROUP][MAX_HEAD_DIM];
    float scores[GROUP][KEYS]; /* then the weights */
    float maximum[GROUP], normaliser[GROUP];
} Query;

/* `count` keys or values of a head, side by side from cache[at] on; column: of the first one in the scores. What is
   read next lies from ahead_cache[ahead] on. */
typedef struct {
    const void *cache, *ahead_cache;
    int64_t at, ahead, count, column;
} Run;

/* Have a key of what is read next on its way from memory. */
INLINE void prefetch(const Run *run, int64_t key, int64_t head_dim, Dtype dtype) {
    const char *from = (const char *)run->ahead_cache + (run->ahead + key * head_dim) * size_of(dtype);
    for (int64_t i = 0; i < head_dim * size_of(dtype); i += 64) __builtin_prefetch(from + i);
}

/* Scores of a run of keys for `rows` rows from `row` on. */
INLINE void score(Query *q, int64_t row, const int rows, const Run *run, int64_t head_dim, Dtype dtype) {
    for (int64_t key = 0; key < run->count; key++) {
        prefetch(run, key, head_dim, dtype);
        vec sum[4] = {0};
        for (int64_t d = 0; d < head_dim; d += LANES) {
            vec channels = load(run->cache, run->at + key * head_dim + d, dtype);
            for (int r = 0; r < rows; r++) sum[r] += load(q->query[row + r], d, FLOAT32) * channels;
        }
        for (int r = 0; r < rows; r++) q->scores[row + r][run->column + key] = sum_of(sum[r]);
    }
}

/* Take the scores of n keys into the online softmax of a row: the scores become weights. */
INLINE void weigh(Query *q, int64_t row, int64_t n, int64_t head_dim) {
    float *scores = q->scores[row], *weighted_sum = q->weighted_sum[row];
    for (int64_t i = n; i % LANES; i++) scores[i] = -INFINITE;
    vec largest = all(q->maximum[row]), sum = {0};
    for (int64_t i = 0; i < n; i += LANES) largest = larger(load(scores, i, FLOAT32), largest);
    float maximum = largest[0];
    for (int i = 1; i < LANES; i++) maximum = MAX(maximum, largest[i]);
    float shift = maximum == -INFINITE ? 0 : maximum; /* -inf minus -inf would be NaN */
    for (int64_t i = 0; i < n; i += LANES) {
        vec weights = exp2_of(load(scores, i, FLOAT32) - shift);
        store(scores, i, weights, FLOAT32);
        sum += weights;
    }
    vec correction = exp2_of(all(q->maximum[row] - shift));
    for (int64_t d = 0; d < head_dim; d += LANES)
        store(weighted_sum, d, load(weighted_sum, d, FLOAT32) * correction, FLOAT32);
    q->normaliser[row] = q->normaliser[row] * correction[0] + sum_of(sum);
    q->maximum[row] = maximum;
}

/* weighted_sum += weights times a run of values, for `rows` rows and as many channels as there are registers. */
INLINE void add_values(Query *q, int64_t row, const int rows, const Run *run, int64_t head_dim, Dtype dtype) {
    int64_t d = 0;
#define CHANNELS(WIDTH)                                                                                                \
    for (; rows * WIDTH <= SUMS && d + WIDTH * LANES <= head_dim; d += WIDTH * LANES) {                                \
        vec sum[4][WIDTH];                                                                                             \
        for (int r = 0; r < rows; r++) memcpy(sum[r], &q->weighted_sum[row + r][d], sizeof sum[r]);                    \
        for (int64_t key = 0; key < run->count; key++) {                                                               \
            prefetch(run, key, head_dim, dtype);                                                                       \
            for (int i = 0; i < WIDTH; i++) {                                                                          \
                vec channels = load(run->cache, run->at + key * head_dim + d + i * LANES, dtype);                      \
                for (int r = 0; r < rows; r++) sum[r][i] += q->scores[row + r][run->column + key] * channels;          \
            }                                                                                                          \
        }                                                                                                              \
        for (int r = 0; r < rows; r++) memcpy(&q->weighted_sum[row + r][d], sum[r], sizeof sum[r]);                    \
    }
    CHANNELS(8) CHANNELS(4) CHANNELS(2) CHANNELS(1)
}

/* A tile of one query: the heads of a group, four at a time, then two, then one. */
INLINE void attend_query(const Plan *plan, const Tile *tile, Dtype dtype) {
    Query q;
    const void *keys = plan->key_cache, *values = plan->value_cache;
    int64_t head_dim = plan->head_dim, group_size = plan->group_size, row, count, ignored;
    for (row = 0; row < group_size; row++) {
        int64_t at = place_of(plan, tile, row, plan->query_stride);
        for (int64_t d = 0; d < head_dim; d += LANES) {
            store(q.query[row], d, load(plan->query, at + d, dtype) * plan->scale, FLOAT32);
            store(q.weighted_sum[row], d, all(0), FLOAT32);
        }
        q.maximum[row] = -INFINITE, q.normaliser[row] = 0;
    }
#define EACH_ROW(CALL)                                                                                                 \
    for (row = 0; row + 4 <= group_size; row += 4) CALL(&q, row, 4, &run, head_dim, dtype);                            \
    for (; row + 2 <= group_size; row += 2) CALL(&q, row, 2, &run, head_dim, dtype);                                   \
    for (; row < group_size; row++) CALL(&q, row, 1, &run, head_dim, dtype);
    for (int64_t start = tile->begin; start < tile->end; start += KEYS) {
        int64_t stop = MIN(start + KEYS, tile->end);
        for (int64_t key = start; key < stop; key += count) {
            int64_t at = find(plan, tile, key, stop, &count);
            Run run = {keys, values, at, at, count, key - start};
            EACH_ROW(score)
        }
        for (row = 0; row < group_size; row++) weigh(&q, row, stop - start, head_dim);
        for (int64_t key = start; key < stop; key += count) {
            int64_t ahead = find(plan, tile, MIN(key + KEYS, tile->end - 1), tile->end, &ignored);
            int64_t at = find(plan, tile, key, stop, &count);
            Run run = {values, keys, at, ahead, count, key - start};
            EACH_ROW(add_values)
        }
    }
    for (row = 0; row < group_size; row++)
        store_row(plan, tile, row, q.weighted_sum[row], q.maximum[row], q.normaliser[row], dtype);
}

/* --- many rows: a vector holds one channel of LANES rows ---------------------------------------------------------- */

typedef struct {
    vec query[MAX_HEAD_DIM][VECS], weighted_sum[MAX_HEAD_DIM][VECS];
    vec scores[KEYS][VECS]; /* then the weights */
    vec maximum[VECS], normaliser[VECS], correction[VECS];
    float cached[KEYS * MAX_HEAD_DIM]; /* a step's keys, then its values: [keys, head_dim] */
} Rows;

/* c[m] = c[m] * factor + sum over k of a[m * m_stride + k * k_stride] * b[k], for `strip` m and `panel` vectors from i
   on, whose sums are all in registers. Without a factor c is set to the sum. */
INLINE void multiply(vec (*c)[VECS], const float *a, int64_t m_stride, int64_t k_stride, vec (*b)[VECS], int64_t depth,
                     const vec *factor, int64_t i, const int strip, const int panel) {
    vec sum[STRIP][4] = {0};
    for (int64_t k = 0; k < depth; k++)
        for (int m = 0; m < strip; m++)
            for (int j = 0; j < panel; j++) sum[m][j] += a[m * m_stride + k * k_stride] * b[k][i + j];
    for (int m = 0; m < strip; m++)
        for (int j = 0; j < panel; j++) c[m][i + j] = (factor ? c[m][i + j] * factor[i + j] : all(0)) + sum[m][j];
}

/* The same for num_rows m and the first `width` vectors. */
static void matmul(vec (*c)[VECS], int64_t num_rows, const float *a, int64_t m_stride, int64_t k_stride,
                   vec (*b)[VECS], int64_t depth, const vec *factor, int64_t width) {
#define PANEL_OF(N)                                                                                                    \
    case N:                                                                                                            \
        if (strip == 1) multiply(c + m, a + m * m_stride, m_stride, k_stride, b, depth, factor, i, 1, N);              \
        else multiply(c + m, a + m * m_stride, m_stride, k_stride, b, depth, factor, i, STRIP, N);                     \
        break;
    for (int64_t i = 0; i < width; i += PANEL)
        for (int64_t m = 0, strip; m < num_rows; m += strip) {
            strip = num_rows - m < STRIP ? 1 : STRIP;
            switch (MIN(PANEL, width - i)) { PANEL_OF(1) PANEL_OF(2) PANEL_OF(3) PANEL_OF(4) }
        }
}

/* The keys or values [start, stop) as float32, one behind the other. */
INLINE void gather(float *to, const void *cache, const Plan *plan, const Tile *tile, int64_t start, int64_t stop,
                   Dtype dtype) {
    for (int64_t count, size, key = start; key < stop; key += count, to += size) {
        int64_t from = find(plan, tile, key, stop, &count);
        size = count * plan->head_dim;
        for (int64_t i = 0; i < size; i += LANES)
            store_some(to, i, size - i, load_some(cache, from + i, size - i, dtype), FLOAT32);
    }
}

/* Hide what the rows from `row` on must not see of the keys [start, stop). */
static void hide_unseen(Rows *r, const Plan *plan, const Tile *tile, int64_t row, int64_t start, int64_t stop) {
    for (int i = 0; i < VECS; i++) {
        ivec position, first;
        for (int lane = 0; lane < LANES; lane++) {
            position[lane] = tile->first_position + (row + i * LANES + lane) / plan->group_size;
            first[lane] = plan->window ? position[lane] - plan->window + 1 : 0;
        }
        for (int32_t key = start; key < stop; key++) {
            vec *scores = &r->scores[key - start][i];
            *scores = (vec)where((position >= key) & (first <= key), (uvec)*scores, (uvec)all(-INFINITE));
        }
    }
}

/* Take the scores of n keys into the online softmax of all rows: the scores become weights. */
static void weigh_rows(Rows *r, int64_t n, int64_t width) {
    for (int64_t i = 0; i < width; i++) {
        vec maximum = r->maximum[i], sum = {0};
        for (int64_t key = 0; key < n; key++) maximum = larger(r->scores[key][i], maximum);
        vec shift = (vec)where(maximum == -INFINITE, (uvec)all(0), (uvec)maximum); /* -inf minus -inf would be NaN */
        for (int64_t key = 0; key < n; key++) sum += r->scores[key][i] = exp2_of(r->scores[key][i] - shift);
        r->correction[i] = exp2_of(r->maximum[i] - shift);
        r->normaliser[i] = r->normaliser[i] * r->correction[i] + sum;
        r->maximum[i] = maximum;
    }
}

/* Rows [row, row + num_rows) of a tile, ROWS at most. Returns whether all results are finite. */
static int attend_rows(const Plan *plan, const Tile *tile, int64_t row, int64_t num_rows, Dtype dtype) {
    Rows r;
    float numbers[MAX_HEAD_DIM];
    int64_t head_dim = plan->head_dim, width = (num_rows + LANES - 1) / LANES;
    memset(r.query, 0, head_dim * sizeof r.query[0]); /* lanes of no row stay 0 */
    memset(r.weighted_sum, 0, head_dim * sizeof r.query[0]);
    for (int i = 0; i < VECS; i++) r.maximum[i] = all(-INFINITE), r.normaliser[i] = all(0);
    for (int64_t i = 0; i < num_rows; i++) {
        int64_t at = place_of(plan, tile, row + i, plan->query_stride);
        for (int64_t d = 0; d < head_dim; d += LANES)
            store(numbers, d, load_some(plan->query, at + d, head_dim - d, dtype) * plan->scale, FLOAT32);
        for (int64_t d = 0; d < head_dim; d++) ((float *)r.query[d])[i] = numbers[d];
    }
    int64_t first_of_last = plan->window ? tile->first_position + tile->num_queries - plan->window : 0;
    for (int64_t start = tile->begin; start < tile->end; start += KEYS) {
        int64_t stop = MIN(start + KEYS, tile->end);
        gather(r.cached, plan->key_cache, plan, tile, start, stop, dtype);
        matmul(r.scores, stop - start, r.cached, head_dim, 1, r.query, head_dim, 0, width);
        if (stop - 1 > tile->first_position || start < first_of_last) hide_unseen(&r, plan, tile, row, start, stop);
        weigh_rows(&r, stop - start, width);
        gather(r.cached, plan->value_cache, plan, tile, start, stop, dtype);
        matmul(r.weighted_sum, head_dim, r.cached, 1, head_dim, r.scores, stop - start, r.correction, width);
    }
    float spoilt = 0;
    for (int64_t i = 0; i < num_rows; i++) {
        for (int64_t d = 0; d < head_dim; d++) numbers[d] = ((float *)r.weighted_sum[d])[i];
        for (int64_t d = 0; d < head_dim; d++) spoilt += numbers[d] * 0;
        store_row(plan, tile, row + i, numbers, ((float *)r.maximum)[i], ((float *)r.normaliser)[i], dtype);
    }
    return spoilt == 0;
}

/* --- the kernels -------------------------------------------------------------------------------------------------- */

/* A row of tiles.py's table, all queries of it and the heads of one group. */
INLINE void attention_kernel(const Plan *plan, const int32_t *columns, int64_t kv_head, Dtype dtype) {
    const int32_t *block_table = plan->block_tables + columns[3] * plan->table_stride;
    Tile tile = {block_table, kv_head, columns[0], columns[1], columns[2], columns[4], columns[5], columns[6]};
    int64_t group_size = plan->group_size, num_rows = tile.num_queries * group_size;
    if (tile.num_queries == 1 && !plan->batch_invariant && group_size <= GROUP && plan->head_dim % LANES == 0)
        return attend_query(plan, &tile, dtype); /* it sees all keys of the tile */
    int is_finite = 1;
    for (int64_t row = 0; row < num_rows; row += ROWS)
        is_finite &= attend_rows(plan, &tile, row, MIN(ROWS, num_rows - row), dtype);
    /* 0 * NaN is NaN: a token that is no number has spoilt those before it, whose blocks other requests may share. So
       each query is computed again, over the keys that it sees and no others. */
    for (int64_t query = 0; !is_finite && query < tile.num_queries; query++) {
        Tile one = tile;
        int64_t position = tile.first_position + query, end = (query + 1) * group_size;
        one.end = MIN(tile.end, position + 1);
        if (plan->window) one.begin = MAX(tile.begin, position + 1 - plan->window);
        for (int64_t row = query * group_size; row < end; row += ROWS)
            attend_rows(plan, &one, row, MIN(ROWS, end - row), dtype);
    }
}

/* One row of a request whose keys were split: the mean of its partial results, weighted by what each span weighs. */
INLINE void merge_kernel(const Plan *plan, const int32_t *columns, int64_t kv_head, int64_t row, Dtype dtype) {
    Tile tile = {.kv_head = kv_head, .first_row = columns[0], .partial = -1};
    if (row >= columns[1] * plan->group_size) return;
    int64_t stride = plan->num_kv_heads * plan->partial_rows, head_dim = plan->head_dim;
    int64_t first = (columns[2] * plan->num_kv_heads + kv_head) * plan->partial_rows + row;
    float weighted_sum[MAX_HEAD_DIM] = {0}, maximum = -INFINITE, normaliser = 0;
    for (int64_t i = 0; i < columns[3]; i++) maximum = MAX(maximum, plan->partial_sums[2 * (first + i * stride)]);
    for (int64_t i = 0, place = first; i < columns[3]; i++, place += stride) {
        const float *sums = plan->partial_sums + 2 * place, *partial = plan->partial + place * head_dim;
        float weight = sums[1] == 0 ? 0 : exp2_of(all(sums[0] - maximum))[0] * sums[1]; /* 0: it saw nothing */
        normaliser += weight;
        for (int64_t d = 0; d < head_dim; d++) weighted_sum[d] += weight == 0 ? 0 : weight * partial[d];
    }
    store_row(plan, &tile, row, weighted_sum, maximum, normaliser, dtype);
}

/* What a call to write is called with. query, key, value [T, heads, head_dim], rows *_stride elements apart; cos and
   signed_sin [T, head_dim]; slot_mapping [T], where -1 is stored nowhere. Without cos nothing is turned. */
typedef struct {
    void *rotated, *key_cache, *value_cache;
    const void *query, *key, *value, *cos, *signed_sin;
    const int64_t *slot_mapping;
    int64_t query_stride, key_stride, value_stride;
    int64_t num_tokens, num_heads, num_kv_heads, head_dim, block_size, num_threads;
} Write;

/* Turn a head of a token: its halves (a, b) become (a cos - b sin, b cos + a sin). */
INLINE void turn(const Write *w, void *to, int64_t to_at, const void *from, int64_t at, int64_t token, Dtype dtype) {
    int64_t half = w->head_dim / 2, angle = token * w->head_dim;
    for (int64_t d = 0, n = half; d < half; d += LANES, n -= LANES) {
        vec a = load_some(from, at + d, n, dtype), b = load_some(from, at + half + d, n, dtype);
        vec cos = load_some(w->cos, angle + d, n, dtype), sin = load_some(w->signed_sin, angle + half + d, n, dtype);
        store_some(to, to_at + d, n, a * cos - b * sin, dtype);
        store_some(to, to_at + half + d, n, b * cos + a * sin, dtype);
    }
}

/* One token: turn its query, turn its key into the cache, copy its value there. */
INLINE void write_kernel(const Write *w, int64_t token, Dtype dtype) {
    int64_t head_dim = w->head_dim, slot = w->slot_mapping[token], size = size_of(dtype);
    int64_t query = token * w->query_stride, rotated = token * w->num_heads * head_dim;
    for (int64_t head = 0; w->cos && head < w->num_heads; head++)
        turn(w, w->rotated, rotated + head * head_dim, w->query, query + head * head_dim, token, dtype);
    for (int64_t head = 0; slot >= 0 && head < w->num_kv_heads; head++) {
        int64_t key = token * w->key_stride + head * head_dim, value = token * w->value_stride + head * head_dim;
        int64_t to = (slot / w->block_size * w->num_kv_heads + head) * w->block_size + slot % w->block_size;
        to *= head_dim;
        if (w->cos) turn(w, w->key_cache, to, w->key, key, token, dtype);
        else memcpy((char *)w->key_cache + to * size, (const char *)w->key + key * size, head_dim * size);
        memcpy((char *)w->value_cache + to * size, (const char *)w->value + value * size, head_dim * size);
    }
}

/* What Python calls. The compiler is told the dtype: -DDTYPE=BFLOAT16. attention leaves rows of no request alone. */
void attention(const Plan *plan) {
    const int64_t heads = plan->num_kv_heads, rows = heads * plan->partial_rows, chunks = plan->num_chunk_tiles;
#pragma omp parallel num_threads(plan->num_threads)
    {
#pragma omp for schedule(dynamic)
        for (int64_t i = 0; i < (chunks + plan->num_short_tiles) * heads; i++) {
            int64_t tile = i / heads;
            const int32_t *table = tile < chunks ? plan->chunk_tiles : plan->short_tiles - chunks * TILE_COLUMNS;
            attention_kernel(plan, table + tile * TILE_COLUMNS, i % heads, DTYPE);
        }
#pragma omp for
        for (int64_t i = 0; i < plan->num_merges * rows; i++)
            merge_kernel(plan, plan->merges + i / rows * MERGE_COLUMNS, i % rows / plan->partial_rows,
                         i % plan->partial_rows, DTYPE);
    }
}

void write_kv(const Write *w) {
#pragma omp parallel for num_threads(w->num_threads) if (w->num_tokens >= 4)
    for (int64_t token = 0; token < w->num_tokens; token++) write_kernel(w, token, DTYPE);
}
