"""gpt-oss: attention with sinks, experts with biases, their weights in four bits.

model       which layers see what, and the sinks
experts     the router, and a clamped MLP with biases
mxfp4       weights of four bits, and a scale for each 32 of them
"""
