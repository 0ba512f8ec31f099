"""KV cache beyond the device: blocks that leave it and come back."""
