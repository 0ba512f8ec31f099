"""Two servers on this machine, and a router in front of them: `make cluster ROUTER=vllm-router` or `ROUTER=smg`.

`python examples/routers.py vllm-router --how apart` has one server compute prompts and the other one decode;
`--how events` has both publish what they have cached, by which the router chooses.

vllm-router (https://github.com/vllm-project/router) and smg, the successor of SGLang's router, are programs of other
people. They send a prompt to the server that has most of it in its cache, and leave out a server that does not answer.
Nothing of mini_vllm is between them and the servers. Ctrl-C ends all processes.

vllm-router asks a server for the tokens of a prompt (POST /v1/chat/completions/render) and for its load (GET
/get_load). smg compares texts, so it needs neither, and it
refuses prompts of token ids.
"""

import argparse
import json
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType

HERE = "127.0.0.1"
SERVE = [sys.executable, "-c", "from mini_vllm.cli import main; main()", "serve"]
# The first threshold says by how many requests one server may be ahead: a small one keeps both at work. The other ones
# say how soon a server that does not answer is left out.
BY_PREFIX = [
    *("--policy", "cache_aware", "--cache-threshold", "0.3", "--balance-abs-threshold", "8"),
    *("--health-check-interval-secs", "1", "--health-failure-threshold", "1", "--cb-failure-threshold", "1"),
]
LOOK_AGAIN = ("--worker-startup-check-interval", "1")  # by default a router looks for its servers every 30 seconds
ROUTERS = ("vllm-router", "smg")


class Cluster:
    """Servers that are alike, and a router.

    `with Cluster("smg") as cluster:` waits until all answer, and ends all at its end.

    router: the command. options: of the router, by default BY_PREFIX. folder: for the logs.
    """

    def __init__(
        self, router: str, num_servers: int = 2, options: Sequence[str] | None = None, folder: Path = Path()
    ) -> None:
        name = Path(router).name
        self.router = router
        self._options = BY_PREFIX if options is None else options
        self._launch = ["launch"] if name == "smg" else []
        self._folder = folder
        ports = free_ports(num_servers + 2)
        self.servers = [f"http://{HERE}:{port}" for port in ports[2:]]
        self.url = f"http://{HERE}:{ports[0]}"
        self._metrics_port = str(ports[1])
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> "Cluster":
        try:
            for number, url in enumerate(self.servers):
                self._start(url, f"server{number}", [*SERVE, "--num-kv-blocks", "400", *self.of_server(number)])
            for url in self.servers:
                self._wait_for(url)
            urls = [*self.of_router(), "--prometheus-port", self._metrics_port, *LOOK_AGAIN]
            self._start(self.url, "router", [self.router, *self._launch, *urls, *self._options])
            self._wait_for(self.url)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for url in [*self._processes]:
            self.end(url)

    def of_server(self, number: int) -> list[str]:
        """The options of a server."""
        return []

    def of_router(self) -> list[str]:
        """The options by which the router knows the servers."""
        return ["--worker-urls", *self.servers]

    def end(self, url: str, how: signal.Signals = signal.SIGTERM) -> None:
        """End the process that listens there."""
        process = self._processes.pop(url)
        process.send_signal(how)
        with suppress(subprocess.TimeoutExpired):
            process.wait(60)
            return
        process.kill()
        process.wait()

    def _start(self, url: str, name: str, command: list[str]) -> None:
        address = ["--host", HERE, "--port", url.rpartition(":")[2]]
        with (self._folder / f"{name}.log").open("wb") as log:
            self._processes[url] = subprocess.Popen([*command, *address], stdout=log, stderr=log)

    def _wait_for(self, url: str) -> None:
        """Until it lists a model. Raises RuntimeError if its process ends first."""
        while True:
            with suppress(OSError), urllib.request.urlopen(f"{url}/v1/models", timeout=5) as answer:
                if json.load(answer)["data"]:
                    return
            if (status := self._processes[url].poll()) is not None:
                raise RuntimeError(f"{self._processes[url].args!r} has ended with status {status}")
            time.sleep(0.2)


class Apart(Cluster):
    """One server computes prompts, the other one decodes, and vllm-router tells them."""

    def __init__(self, router: str, folder: Path = Path()) -> None:
        super().__init__(router, options=[], folder=folder)
        self._kv_port = str(*free_ports(1))

    def of_server(self, number: int) -> list[str]:
        return ["--role", "decode"] if number else ["--role", "prefill", "--kv-port", self._kv_port]

    def of_router(self) -> list[str]:
        prefiller, decoder = self.servers
        return ["--vllm-pd-disaggregation", "--prefill", prefiller, "--decode", decoder]


class ByEvents(Cluster):
    """vllm-router hears from each server which blocks it has."""

    def __init__(self, router: str, folder: Path = Path()) -> None:
        super().__init__(router, options=["--policy", "kv_aware", "--kv-event-model", "tiny"], folder=folder)
        self._endpoints = [f"tcp://{HERE}:{port}" for port in free_ports(2 * len(self.servers))]

    def of_server(self, number: int) -> list[str]:
        endpoint, replay = self._endpoints[2 * number :][:2]
        return ["--kv-events-config", json.dumps({"endpoint": endpoint, "replay_endpoint": replay})]

    def of_router(self) -> list[str]:
        found = super().of_router()
        for number, url in enumerate(self.servers):
            endpoint, replay = self._endpoints[2 * number :][:2]
            found += ["--kv-event-source", f"{url}={endpoint}", "--kv-event-replay-source", f"{url}={replay}"]
        return found


HOW = {"alike": Cluster, "apart": Apart, "events": ByEvents}


def free_ports(number: int) -> list[int]:
    """Ports of this machine on which nothing listens."""
    sockets = [socket.socket() for _ in range(number)]
    for each in sockets:
        each.bind((HERE, 0))
    ports = [int(each.getsockname()[1]) for each in sockets]
    for each in sockets:
        each.close()
    return ports


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("router", choices=ROUTERS, help="a command that is on the PATH")
    parser.add_argument("--how", choices=HOW, default="alike", help="what the servers are to each other")
    given = parser.parse_args()
    name = given.router
    router = shutil.which(name) or sys.exit(f"{name} is not here: pip install {name}, in an environment of its own")
    with HOW[given.how](str(router)) as cluster:
        body = {"model": "tiny", "messages": [{"role": "user", "content": "What is a KV block?"}]}
        print(f"{name} is at {cluster.url}/v1, in front of {' and '.join(cluster.servers)}. Ask it:")
        print(f"curl {cluster.url}/v1/chat/completions -H 'Content-Type: application/json' -d '{json.dumps(body)}'")
        with suppress(KeyboardInterrupt):
            signal.pause()


if __name__ == "__main__":
    main()
