"""Speculative decoding: drafts are proposed cheaply, and the model verifies several of them in one
step.

    scheduler    when drafts are verified, what they cost, and what is taken back when they were
                 wrong
    proposers    drafts without a model, and how many a request asks for
    verify       which drafts were right

The draft model and rejection sampling are in worker/draft_model.py. What a request gets is, in
exact arithmetic:

    temperature 0                  the tokens that it gets without drafts
    ngram or suffix, any other     the same. Their drafts have probability 1, so min(1, p / q) is p:
                                   a draft is accepted if it is the token that the noise of its
                                   place draws anyway (verify.accept)
    draft_model, any other         tokens of the same distribution. A seed gives the same tokens
                                   again where the same places have drafts; budgets, preemptions and
                                   other requests may change that

In bf16 the logits of a larger batch differ in the last bits, so that near ties can fall otherwise,
as without drafts. Source: vllm/v1/spec_decode; Leviathan et al. 2023 (arXiv 2211.17192); Chen et
al. 2023 (arXiv 2302.01318).
"""

SPECULATIVE = ("ngram", "suffix", "draft_model")  # what an engine can be asked for
MATCHES = ("first", "last")  # of several places where "ngram" finds the last tokens
