/* Vectors that the kernels in C share: float32 numbers in the registers of this processor, and their way from and to
memory, where they are float32, bfloat16 or float16.

They are the compiler's own vectors (GCC and Clang: vector_size), so one source serves every processor. Functions marked
INLINE become a part of their caller, where dtype is a constant. */

#include <stdint.h>

#if defined(__AVX512F__)
enum { LANES = 16, STRIP = 6, PANEL = 4, SUMS = 16 }; /* 32 registers of 16 numbers */
#elif defined(__AVX__)
enum { LANES = 8, STRIP = 6, PANEL = 2, SUMS = 8 }; /* 16 registers of 8 numbers */
#else
enum { LANES = 4, STRIP = 4, PANEL = 2, SUMS = 8 };
#endif

typedef float vec __attribute__((vector_size(4 * LANES)));
typedef float quad __attribute__((vector_size(16)));
typedef uint32_t uvec __attribute__((vector_size(4 * LANES)));
typedef int32_t ivec __attribute__((vector_size(4 * LANES)));
typedef uint16_t hvec __attribute__((vector_size(2 * LANES)));
typedef enum { FLOAT32, BFLOAT16, FLOAT16 } Dtype;

#define INLINE static inline __attribute__((always_inline))
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))
#define LOG2E 1.44269504f
#define INFINITE __builtin_inff()
#define memcpy __builtin_memcpy /* the headers of a C library are not needed, and may not be installed */
#define memset __builtin_memset

INLINE uvec where(ivec condition, uvec a, uvec b) { return ((uvec)condition & a) | (~(uvec)condition & b); }
INLINE vec all(float x) { return (vec){0} + x; }
INLINE vec larger(vec a, vec b) { return (vec)where(a > b, (uvec)a, (uvec)b); } /* b where either is NaN */
INLINE int64_t size_of(Dtype dtype) { return dtype == FLOAT32 ? 4 : 2; }

/* LANES numbers from an array of any dtype, from element `at` on. */
INLINE vec load(const void *array, int64_t at, Dtype dtype) {
    if (dtype == FLOAT32) {
        vec x;
        memcpy(&x, (const float *)array + at, sizeof x);
        return x;
    }
    hvec half;
    memcpy(&half, (const uint16_t *)array + at, sizeof half);
    uvec bits = __builtin_convertvector(half, uvec);
    if (dtype == BFLOAT16) return (vec)(bits << 16);
    uvec magnitude = (bits & 0x7fff) << 13;
    uvec moved = (uvec)((vec)magnitude * 0x1p112f); /* the exponent's bias from 15 to 127, of subnormals, too */
    uvec special = (uvec)(magnitude >= (31u << 23)) & (255u << 23); /* infinity and NaN */
    return (vec)(moved | special | (bits & 0x8000) << 16);
}

/* The other way, to the nearest, ties to even. */
INLINE void store(void *array, int64_t at, vec x, Dtype dtype) {
    if (dtype == FLOAT32) {
        memcpy((float *)array + at, &x, sizeof x);
        return;
    }
    uvec bits = (uvec)x, sign = (bits >> 16) & 0x8000, magnitude = bits & 0x7fffffff;
    uvec half;
    if (dtype == BFLOAT16) {
        half = (magnitude + 0x7fff + ((bits >> 16) & 1)) >> 16;
    } else {
        uvec normal = ((magnitude + 0xfff + ((bits >> 13) & 1)) >> 13) - (112 << 10);
        uvec subnormal = (uvec)((vec)magnitude + 0.5f) - (126u << 23); /* the unit of 0.5f is fp16's smallest number */
        half = where(magnitude < (113u << 23), subnormal, normal);
        half = where(half > 0x7c00, half * 0 + 0x7c00, half);
    }
    half = where(x != x, half * 0 + 0x7fff, half); /* NaN of either */
    hvec narrow = __builtin_convertvector(half | sign, hvec);
    memcpy((uint16_t *)array + at, &narrow, sizeof narrow);
}

/* The same for the last numbers of an array, count of them; what is behind them is neither read nor written. */
INLINE vec load_some(const void *array, int64_t at, int64_t count, Dtype dtype) {
    if (count >= LANES) return load(array, at, dtype);
    float tail[LANES] = {0};
    memcpy(tail, (const char *)array + at * size_of(dtype), count * size_of(dtype));
    return load(tail, 0, dtype);
}

INLINE void store_some(void *array, int64_t at, int64_t count, vec x, Dtype dtype) {
    if (count >= LANES) return store(array, at, x, dtype);
    float tail[LANES];
    store(tail, 0, x, dtype);
    memcpy((char *)array + at * size_of(dtype), tail, count * size_of(dtype));
}

/* 2 to the x for x <= 0; 0 from -127 on. Taylor's polynomial of 2 to the f, |f| <= 0.5, is off by 2e-7 at most. */
INLINE vec exp2_of(vec x) {
    x = (vec)where(x < -127.0f, (uvec)all(-127.0f), (uvec)x);
    vec whole = x + 0x1.8p23f; /* its last bits are the nearest integer */
    vec f = x - (whole - 0x1.8p23f);
    vec power = f * 1.5403530e-4f + 1.3333558e-3f;
    power = power * f + 9.6181291e-3f;
    power = power * f + 5.5504109e-2f;
    power = power * f + 2.4022651e-1f;
    power = power * f + 6.9314718e-1f;
    power = power * f + 1.0f;
    return power * (vec)(((uvec)whole << 23) + (127u << 23));
}

INLINE float sum_of(vec x) {
    union { vec whole; quad parts[LANES / 4]; } u = {x};
    quad sum = u.parts[0];
    for (int i = 1; i < LANES / 4; i++) sum += u.parts[i];
    return (sum[0] + sum[2]) + (sum[1] + sum[3]);
}
