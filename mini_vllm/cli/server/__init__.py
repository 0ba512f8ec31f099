"""What of `mini-vllm serve` is of one feature: tenants, and the roles of prefill and decode."""
