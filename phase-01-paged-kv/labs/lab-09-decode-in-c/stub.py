"""Lab 01.9: Decode in C, against its contract (60 minutes). What must hold is in contract.md."""

from labkit import todo


def decode_source() -> str:
    """The kernel in C. The text begins behind these lines, which stand before it:

        #include <stdint.h>
        #define INFINITY __builtin_inff()
        float expf(float);

        typedef struct {
            float *output;                        // [num_seqs, num_heads, head_dim]
            const float *query;                   // the same
            const float *key_cache, *value_cache; // [num_blocks, num_kv_heads, block_size, head_dim]
            const int32_t *block_tables;          // [num_seqs, max_blocks]
            const int32_t *seq_lens;              // [num_seqs]
            int64_t num_seqs, num_heads, num_kv_heads, head_dim, block_size, max_blocks;
            float scale;
        } Decode;

    It has a function `void decode(const Decode *d)`, which fills d->output.
    """
    todo("01.9")
