/* RMSNorm, with the residual's sum before it: one pass over memory where torch's operators make six. */

#include "numerics.h"

enum { PARALLEL = 1 << 15 }; /* numbers from which a second thread pays */

/* What Python calls with: num_tokens groups of `rows` rows of `size` numbers; rows of a group lie side by side, and
   groups of x x_stride elements apart. residual: 0, or like output, and then residual += x comes first. */
typedef struct {
    void *output, *residual;
    const void *x, *weight;
    int64_t num_tokens, rows, size, x_stride, num_threads;
    float eps;
} Norm;

/* What a store and a load make of x. */
INLINE vec rounded(vec x, Dtype dtype) {
    if (dtype == FLOAT32) return x;
    uvec bits = (uvec)x;
    if (dtype == BFLOAT16) return (vec)where(x != x, bits, (bits + 0x7fff + ((bits >> 16) & 1)) & 0xffff0000);
    float numbers[LANES];
    store(numbers, 0, x, dtype);
    return load(numbers, 0, dtype);
}

INLINE void norm_kernel(const Norm *norm, int64_t row, Dtype dtype) {
    const int64_t size = norm->size, to = row * size;
    const void *x = norm->residual ? norm->residual : norm->x;
    const int64_t from = row / norm->rows * norm->x_stride + row % norm->rows * size, at = norm->residual ? to : from;
    vec squares = {0};
    for (int64_t i = 0; i < size; i += LANES) {
        vec numbers = load_some(x, at + i, size - i, dtype);
        if (norm->residual) {
            numbers = rounded(numbers + load_some(norm->x, from + i, size - i, dtype), dtype);
            store_some(norm->residual, to + i, size - i, numbers, dtype);
        }
        squares += numbers * numbers;
    }
    const float factor = 1 / __builtin_sqrtf(sum_of(squares) / size + norm->eps);
    for (int64_t i = 0; i < size; i += LANES) {
        vec numbers = rounded(load_some(x, at + i, size - i, dtype) * factor, dtype);
        store_some(norm->output, to + i, size - i, numbers * load_some(norm->weight, i, size - i, dtype), dtype);
    }
}

#define KERNELS(NAME, DTYPE)                                                                                           \
    void rms_norm_##NAME(const Norm *norm) {                                                                           \
        const int64_t rows = norm->num_tokens * norm->rows;                                                            \
        _Pragma("omp parallel for num_threads(norm->num_threads) if (rows * norm->size >= PARALLEL)")                  \
        for (int64_t row = 0; row < rows; row++) norm_kernel(norm, row, DTYPE);                                        \
    }
KERNELS(float32, FLOAT32)
KERNELS(bfloat16, BFLOAT16)
KERNELS(float16, FLOAT16)
