"""Forwards that are recorded once and replayed: a decode step then costs the host one call.

modes.py        which steps are recorded, and how much of a forward: the names are vLLM's
dispatcher.py   the makeup of a batch to the key of a recording
recording.py    what records: a CUDA graph, or a list of closures on a CPU
attention.py    attention that can be recorded, and attention at which a recording breaks
graphs.py       the recordings of one model: can_use, pad, replay, destroy
runner.py       the model runner and the executor that use them
"""

from mini_vllm.worker.graphs.dispatcher import BatchDescriptor as BatchDescriptor
from mini_vllm.worker.graphs.dispatcher import CudagraphDispatcher as CudagraphDispatcher
from mini_vllm.worker.graphs.graphs import Graphs as Graphs
from mini_vllm.worker.graphs.modes import AttentionCGSupport as AttentionCGSupport
from mini_vllm.worker.graphs.modes import CUDAGraphMode as CUDAGraphMode
from mini_vllm.worker.graphs.recording import MovedBufferError as MovedBufferError
