"""iperf3 between the two sides of a network."""

import json
import subprocess

from promises import installed


class IperfServer:
    """`iperf3 -s` on the server's side, for one test after another."""

    def __init__(self, network, port=5201):
        self._network = network
        self.port = port

    def __enter__(self):
        self._process = self._network.server.popen(
            [installed("iperf3"), "--server", "--forceflush", "--port", self.port], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True)
        for line in self._process.stdout:
            if "listening" in line:
                return self
        raise AssertionError("iperf3 does not listen")

    def __exit__(self, *_):
        self._process.kill()
        self._process.wait()
        self._process.stdout.close()

    def start(self, *options, address=None):
        """A client against it; `result` waits for its end."""
        return self._network.client.popen(
            [installed("iperf3"), "--client", address or self._network.server.address, "--port", self.port, "--json", *options],
            stdout=subprocess.PIPE, text=True)

    def run(self, *options, address=None):
        return self.result(self.start(*options, address=address))

    @staticmethod
    def result(process, timeout=60):
        text, _ = process.communicate(timeout=timeout)
        result = json.loads(text)
        assert "error" not in result, result["error"]
        return result


def received_rate(result):
    """Bits in a second that arrived, by the receiver's own account."""
    return result["end"]["sum_received"]["bits_per_second"]
