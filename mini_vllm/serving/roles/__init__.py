"""Prefill and decode apart: what a router tells the two servers, and what they answer."""
