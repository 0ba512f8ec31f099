"""Two replicas of the bundled model on this machine, behind Ray Serve: `make ray`. Ctrl-C or `kill` ends them."""

import argparse
import json
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

HERE = "127.0.0.1"
# Ray's processes import what this one imports.
sys.path.insert(0, str(Path(__file__).parent))
os.environ["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=8000)
    port = parser.parse_args().port
    import ray
    from ray import serve

    ray.init(include_dashboard=False, _node_ip_address=HERE, log_to_driver=False, num_cpus=2)
    for number in (signal.SIGINT, signal.SIGTERM):  # a shell's background job ignores Ctrl-C
        signal.signal(number, signal.default_int_handler)
    try:
        serve.start(http_options={"host": HERE, "port": port})
        from app import app

        serve.run(app, name="mini_vllm")
        body = {"model": "tiny", "messages": [{"role": "user", "content": "What is a KV block?"}]}
        url = f"http://{HERE}:{port}/v1/chat/completions"
        print(f"Two replicas answer at {url}. Ask them:")
        print(f"curl {url} -H 'Content-Type: application/json' -d '{json.dumps(body)}'", flush=True)
        with suppress(KeyboardInterrupt):
            signal.pause()
    finally:
        serve.shutdown()
        ray.shutdown()


if __name__ == "__main__":
    main()
