"""What holds for every test of the repository."""

import os

# No test asks a model hub for anything: the bundled model and folders made by the tests are enough. Tokenizers must not
# start threads of their own, which warn (and can hang) when a test forks. Set before transformers is imported.
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

# The matrices of the tests are tiny: a second thread costs more than it brings, and on a busy machine far more. Set
# before torch is imported.
os.environ.setdefault("OMP_NUM_THREADS", "1")

pytest_plugins = ["labkit.plugin"]  # grades the labs; the project's own tests do not notice it
