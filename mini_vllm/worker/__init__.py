"""Where a step is computed: the runner, the memory of the KV cache, the sampler."""
