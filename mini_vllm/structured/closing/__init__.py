"""JSON that ends within max_tokens: a gate that takes the place of GrammarGate."""
