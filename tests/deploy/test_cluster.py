"""`make cluster` and `make cluster-load`, as the README has them, with the programs under test in the place of what make would build."""

import json
import os
import re
import signal
import socket
import unittest
from pathlib import Path

from support import PATIENCE, ROOT, Made

class Cluster(Made):
    def cluster(self, arguments="--port 0"):
        """A running cluster: its ready line, and how Ctrl-C ends it."""
        return self.started("cluster", f"CLUSTER_ARGS={arguments}")

    def load(self, *more):
        result = self.make("cluster-load", "CLUSTER_LOAD_ARGS=" + " ".join(["--duration 2s --json", *more]))
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        return json.loads(result.stdout)

    def test_three_nodes_fetch_each_key_once(self):
        with self.cluster() as (ready, child):
            self.assertEqual([node["name"] for node in ready["nodes"]], ["larder-1", "larder-2", "larder-3"])
            load = self.load()
            self.assertEqual((load["requests"], load["errors"]), (500, 0))
            self.assertEqual(load["all"]["fetched"], 100)
            # Each has its keys, and each asks the others.
            for node in load["nodes"]:
                self.assertGreater(node["fetched"], 0)
                self.assertGreater(node["from_owner"], 0)
            self.assertAlmostEqual(sum(node["share"] for node in load["nodes"]), 1, places=3)
            self.assertEqual(self.load()["all"]["fetched"], 0)

            table = self.make("cluster-load", "CLUSTER_LOAD_ARGS=--duration 1s --keys 200").stdout
            self.assertIn("100 fetches for 200 keys.", table)
            self.assertRegex(table, r"\nlarder-2 +\d+ % +\d+ +\d+ +\d+\n")

            # A node is killed: clients do not notice, and it is seen.
            os.kill(ready["nodes"][1]["pid"], signal.SIGKILL)
            load = self.load()
            self.assertEqual(load["errors"], 0)
            self.assertEqual([node["up"] for node in load["nodes"]], [True, False, True])

            pids = [node["pid"] for node in ready["nodes"]]
            os.killpg(child.pid, signal.SIGINT)
            # make waits for what it has started, and then ends of the signal itself.
            self.assertIn(child.wait(timeout=PATIENCE), (0, -signal.SIGINT))
            self.assertEqual([pid for pid in pids if Path(f"/proc/{pid}").exists()], [])
            self.assertFalse((self.target / "cluster.json").exists())

    def test_a_taken_port_is_named(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            result = self.make("cluster", f"CLUSTER_ARGS=--port {port}")
            self.assertNotEqual(result.returncode, 0)
            self.assertIn(f"port {port} is taken; choose others with --port", result.stderr)

    def test_a_load_without_a_cluster_says_what_to_type(self):
        result = self.make("cluster-load")
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("start one with make cluster", result.stderr)

    def test_the_readme_has_the_two_lines(self):
        lines = re.findall(r"^(make cluster\S*)", (ROOT / "README.md").read_text(), re.M)
        self.assertEqual(lines, ["make cluster", "make cluster-load"])


if __name__ == "__main__":
    unittest.main()
