"""Speculative decoding: drafts are proposed cheaply, and the model verifies several of them in one step.

    scheduler    when drafts are verified, what they cost, and what is taken back when they were wrong
    proposers    drafts without a model, and how many a request asks for
    kv_cache     EAGLE's ways with the prefix cache

Source: vllm/v1/spec_decode; Leviathan et al. 2023 (arXiv 2211.17192); Chen et al. 2023 (arXiv 2302.01318).
"""

SPECULATIVE = ("ngram", "suffix", "draft_model")  # what an engine can be asked for
