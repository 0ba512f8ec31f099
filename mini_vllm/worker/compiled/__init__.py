"""A model that is compiled between its attentions (torch.compile).

Eager torch calls one operator after the other, and each reads and writes memory: a norm reads what
the addition before it wrote. A compiler makes one kernel of what lies between two products.
Attention stays as it is: it is one operator, which finds the step in a context, so the whole
forward is one graph. Two graphs are made when the engine starts: one for a single token, and one
for any larger number. Source: VllmBackend in vllm/compilation/backends.py;
unified_attention_with_output in vllm/model_executor/layers/attention/attention.py is such an
operator.
"""

from mini_vllm.worker.compiled.executor import CompiledExecutor as CompiledExecutor
from mini_vllm.worker.compiled.executor import with_compiled as with_compiled
from mini_vllm.worker.compiled.model import CompiledModel as CompiledModel
