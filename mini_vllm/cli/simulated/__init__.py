"""The options of mini-vllm simulate: engines, tiers behind them, and roles."""
