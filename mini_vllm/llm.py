"""LLM, at the place where vLLM's users look for it: mini_vllm/engine/llm.py."""

from mini_vllm.engine.llm import LLM as LLM
