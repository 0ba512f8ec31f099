"""Preemption by swap, where layers have groups: each group keeps what its next token sees."""
