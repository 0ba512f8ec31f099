"""The models that mini_vllm runs (registry.py), and how a checkpoint is read, without torch up to
its weights.
"""
