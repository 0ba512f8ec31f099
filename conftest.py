"""What holds for every test of the repository."""

import os

# No test asks a model hub for anything: the bundled model and folders made by the tests are enough. Tokenizers must not
# start threads of their own, which warn (and can hang) when a test forks. Set before transformers is imported.
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

# Two pytest-xdist workers on two cores: more threads than one each would only fight. Set before torch is imported.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")
