"""Mistral (Jiang et al. 2023): Llama whose tokens may see only a sliding window of the past.

A token still hears of older ones, from layer to layer: after k layers, from k windows back. Later
releases (7B v0.3, Nemo) set the window to null and are then Llama without options. Ministral has
the window in some layers only.
"""

from mini_vllm.models.decoder import DecoderModel


class MistralForCausalLM(DecoderModel):
    """The same window, or none, in every layer; with layer_types (Ministral), in those it names.

    No biases.

    sliding_window counts the token itself: with 4096, it sees itself and 4095 before it.
    """


MinistralForCausalLM = MistralForCausalLM  # what its config.json calls it
