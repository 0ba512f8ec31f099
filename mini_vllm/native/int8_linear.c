/* A linear layer whose weight is int8: output = (x W^T) * scale.

A decode step reads every weight once, so its time is that of the memory, and here a weight is one byte until it is in a
register. Four channels at a time are widened into a buffer that stays in the cache. Then tiles of up to four rows of x
times these channels are computed, whose sixteen sums stay in registers. Sums are float32, whatever x holds.

4 * LANES weights are loaded as LANES words, and the bytes of a word are shifted out, from the low end as in memory. So
one vector holds every fourth weight, and the inputs are put into the same order once. Where x is bfloat16 and the
processor multiplies pairs of these, a vector holds two of the four: an int8 is exact in bfloat16.

Source: torch's own operator is _weight_int8pack_mm; vLLM takes oneDNN's. */

#include "numerics.h"

enum { TILE = 4, STEP = 4 * LANES };
enum { AHEAD = 8 }; /* channels from a weight to the one that is fetched meanwhile; the hardware does not look so far */

/* What Python calls with: x [num_rows, size_in], values [size_out, size_in], scale [size_out], output [num_rows,
   size_out]; scratch memory is inputs [num_rows, size_in] and weights [num_threads, TILE, size_in]. size_in is a
   multiple of STEP. */
typedef struct {
    void *output;
    const void *x;
    const int8_t *values;
    const float *scale;
    uint32_t *inputs, *weights;
    int64_t num_rows, size_in, size_out, num_threads;
} Linear;

/* Vectors that STEP inputs become: 2 of pairs of bfloat16, or 4 of float32, which are widened faster. */
INLINE int parts_of(int64_t num_rows, Dtype dtype) {
#ifdef __AVX512BF16__
    if (dtype == BFLOAT16 && num_rows > 2) return 2;
#endif
    (void)num_rows, (void)dtype;
    return 4;
}

/* sum + inputs * weights */
INLINE vec add_products(vec sum, uvec inputs, uvec weights, const int parts) {
    if (parts == 4) return sum + (vec)inputs * (vec)weights;
#ifdef __AVX512BF16__
    __asm__("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(inputs), "v"(weights));
#endif
    return sum;
}

/* A row of x in the order in which the weights come. */
INLINE void order_inputs(const Linear *l, int64_t row, Dtype dtype) {
    const int parts = parts_of(l->num_rows, dtype);
    uint32_t *to = l->inputs + row * l->size_in;
    for (int64_t i = 0; i < l->size_in; i += STEP, to += parts * LANES) {
        uint32_t words[STEP];
        if (parts == 2) memcpy(words, (const uint16_t *)l->x + row * l->size_in + i, 2 * STEP);
        else
            for (int k = 0; k < STEP; k += LANES)
                store(words, k, load(l->x, row * l->size_in + i + k, dtype), FLOAT32);
        for (int k = 0; k < parts * LANES; k++) to[k % parts * LANES + k / parts] = words[k];
    }
}

INLINE uvec byte_of(uvec words, int i) {
    return (uvec)__builtin_convertvector((ivec)(words << (24 - 8 * i)) >> 24, vec);
}

INLINE uvec widen(uvec words, int part, const int parts) {
    if (parts == 4) return byte_of(words, part);
    return byte_of(words, 2 * part) >> 16 | byte_of(words, 2 * part + 1);
}

INLINE uvec fetch(const int8_t *values, int64_t size_in) {
    uvec words;
    memcpy(&words, values, sizeof words);
    __builtin_prefetch(values + AHEAD * size_in);
    return words;
}

/* The weights of `channels` channels, widened into the buffer. */
INLINE void fill(const Linear *l, int64_t channel, uint32_t *weights, const int channels, const int parts) {
    const int8_t *values = l->values + channel * l->size_in;
    for (int64_t i = 0; i < l->size_in; i += STEP)
        for (int c = 0; c < channels; c++) {
            uvec words = fetch(values + c * l->size_in + i, l->size_in);
            for (int part = 0; part < parts; part++) {
                uvec wide = widen(words, part, parts);
                memcpy(weights + (i / STEP * parts + part) * channels * LANES + c * LANES, &wide, sizeof wide);
            }
        }
}

/* `rows` rows from `row` on times the channels from `channel` on; is_filled: their weights are in the buffer. */
INLINE void multiply(const Linear *l, int64_t row, int64_t channel, const uint32_t *weights, const int is_filled,
                     const int rows, const int channels, const int parts, Dtype dtype) {
    vec sum[TILE][TILE] = {0};
    const int64_t size_in = l->size_in;
    const int8_t *values = l->values + channel * size_in;
    const uint32_t *inputs = l->inputs + row * size_in;
    for (int64_t i = 0; i < size_in; i += STEP, inputs += parts * LANES) {
        uvec words[TILE];
        for (int c = 0; c < channels && !is_filled; c++) words[c] = fetch(values + c * size_in + i, size_in);
        for (int part = 0; part < parts; part++) {
            uvec w[TILE], x;
            for (int c = 0; c < channels; c++)
                if (is_filled) memcpy(&w[c], weights + (part * channels + c) * LANES, sizeof w[c]);
                else w[c] = widen(words[c], part, parts);
            for (int r = 0; r < rows; r++) {
                memcpy(&x, inputs + r * size_in + part * LANES, sizeof x);
                for (int c = 0; c < channels; c++) sum[r][c] = add_products(sum[r][c], x, w[c], parts);
            }
        }
        weights += parts * channels * LANES;
    }
    float products[TILE * TILE] = {0};
    uint32_t rounded[TILE * TILE];
    for (int r = 0; r < rows; r++)
        for (int c = 0; c < channels; c++) products[r * TILE + c] = sum_of(sum[r][c]) * l->scale[channel + c];
    for (int i = 0; i < TILE * TILE; i += LANES) store(rounded, i, load(products, i, FLOAT32), dtype);
    for (int64_t r = 0, size = size_of(dtype); r < rows; r++)
        memcpy((char *)l->output + ((row + r) * l->size_out + channel) * size, (char *)rounded + r * TILE * size,
               channels * size);
}

/* All rows times TILE channels. What one tile uses once need not go through the buffer. */
INLINE void multiply_rows(const Linear *l, int64_t channel, uint32_t *weights, Dtype dtype) {
    const int parts = parts_of(TILE, dtype);
    int64_t row = 0;
    switch (l->num_rows) {
    case 1: return multiply(l, 0, channel, weights, 0, 1, TILE, 4, dtype);
    case 2: return multiply(l, 0, channel, weights, 0, 2, TILE, 4, dtype);
    case 3: return multiply(l, 0, channel, weights, 0, 3, TILE, parts, dtype);
    case 4: return multiply(l, 0, channel, weights, 0, 4, TILE, parts, dtype);
    }
    fill(l, channel, weights, TILE, parts);
    for (; row + TILE <= l->num_rows; row += TILE) multiply(l, row, channel, weights, 1, TILE, TILE, parts, dtype);
    for (; row < l->num_rows; row++) multiply(l, row, channel, weights, 1, 1, TILE, parts, dtype);
}

/* Each thread has a share of the channels, one behind the other, and a buffer of its own. */
#define KERNELS(NAME, DTYPE)                                                                                           \
    void int8_linear_##NAME(const Linear *l) {                                                                         \
        const int64_t share = ((l->size_out + l->num_threads - 1) / l->num_threads + TILE - 1) / TILE * TILE;          \
        _Pragma("omp parallel num_threads(l->num_threads)") {                                                          \
            _Pragma("omp for")                                                                                         \
            for (int64_t row = 0; row < l->num_rows; row++) order_inputs(l, row, DTYPE);                               \
            _Pragma("omp for")                                                                                         \
            for (int64_t thread = 0; thread < l->num_threads; thread++) {                                              \
                uint32_t *weights = l->weights + thread * TILE * l->size_in;                                           \
                int64_t channel = thread * share, end = MIN(channel + share, l->size_out);                             \
                for (; channel + TILE <= end; channel += TILE) multiply_rows(l, channel, weights, DTYPE);              \
                for (; channel < end; channel++)                                                                       \
                    for (int64_t row = 0; row < l->num_rows; row++)                                                    \
                        multiply(l, row, channel, weights, 0, 1, 1, parts_of(l->num_rows, DTYPE), DTYPE);              \
            }                                                                                                          \
        }                                                                                                              \
    }
KERNELS(float32, FLOAT32)
KERNELS(bfloat16, BFLOAT16)
KERNELS(float16, FLOAT16)
