"""deploy/compose: as its tools read it, and its services run together as processes, each on an address of the loopback."""

import contextlib
import json
import os
import re
import subprocess
import tempfile
import time
import unittest
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

import yaml
from support import DEPLOY, LARDER, ROOT, image_settings, refusal, rendered, require, run, running

FOLDER = DEPLOY / "compose"
PROMETHEUS = DEPLOY / "prometheus"
GRAFANA = DEPLOY / "grafana"
# Metrics that a node has only with a disk store, a primary, snapshots or TLS, none of which compose starts.
ELSEWHERE = re.compile(r"larder_(store|replication|snapshot|tls_certificate|source_node)_")
KEYS = range(1, 101)
PATIENCE = 60  # seconds


def dashboard():
    return json.loads((GRAFANA / "dashboards/larder.json").read_text())


def queries():
    """What the panels ask, with the legend of each."""
    targets = [target for panel in dashboard()["panels"] for target in panel["targets"]]
    return [(target["expr"].replace("$group", "default").replace("$__rate_interval", "30s"), target["legendFormat"]) for target in targets]


def alerts():
    return yaml.safe_load((PROMETHEUS / "alerts.yaml").read_text())["groups"][0]["rules"]


def services(file="compose.yaml"):
    return rendered("compose", FOLDER / file)[0]["services"]


class Described:
    """What holds for each compose file: the classes below."""

    @classmethod
    def setUpClass(cls):
        cls.services = services(cls.file)
        cls.nodes = {name: service for name, service in cls.services.items() if name.startswith("larder-")}

    def test_mounted_files_are_there(self):
        mounts = [mount for service in self.services.values() for mount in service.get("volumes", [])]
        sources = [Path(mount["source"]) for mount in mounts if mount["type"] == "bind"]
        self.assertEqual(len(sources), self.files)
        self.assertEqual([path for path in sources if not path.exists()], [])

    def test_the_nodes_are_built_from_the_dockerfile(self):
        for service in self.nodes.values():
            self.assertEqual(Path(service["build"]["context"]).resolve(), ROOT)
            self.assertIn(f"AS {service['build']['target']}\n", (ROOT / "Dockerfile").read_text())

    def test_larder_takes_the_settings(self):
        self.assertEqual(len(self.nodes), 3)
        for service in self.nodes.values():
            self.assertEqual(refusal(["serve"], service["environment"]), "")

    def test_docker_compose_1_29_can_read_it(self):
        # It knows no name of the project and no optional file, and refuses a file with either. The file of the root says what it needs.
        text = (FOLDER / self.file).read_text()
        document = yaml.safe_load(text)
        self.assertEqual({key for key in document if not key.startswith("x-")} - {"services", "volumes", "networks", "version"}, set())
        for service in document["services"].values():
            files = service.get("env_file", [])
            self.assertTrue(isinstance(files, str) or all(isinstance(file, str) for file in files), files)
        self.assertIn("Docker Compose 2.24 or later", (ROOT / "docker-compose.yaml").read_text())

    def test_nginx_knows_every_node(self):
        upstreams = re.findall(r"server (\S+:\d+)", (FOLDER / "nginx.conf").read_text())
        self.assertEqual(upstreams, [f"{name}:8080" for name in sorted(self.nodes)])
        self.assertEqual(image_settings()["LARDER_HTTP"], ":8080")

    def test_nothing_is_published_to_other_machines(self):
        published = [port for service in self.services.values() for port in service.get("ports", [])]
        self.assertEqual(len(published), 3)
        self.assertEqual({port["host_ip"] for port in published}, {"127.0.0.1"})


class CassandraFile(Described, unittest.TestCase):
    file, files = "cassandra.yaml", 1

    def test_the_nodes_differ_in_what_they_publish_only(self):
        for service in self.nodes.values():
            self.assertEqual({**service, "ports": None}, {**self.nodes["larder-1"], "ports": None})

    def test_the_source_is_the_cluster_and_the_table_is_made_first(self):
        cluster = sorted(name for name in self.services if name.startswith("cassandra-"))
        self.assertEqual(len(cluster), 3)
        source = f"cassandra://{','.join(cluster)}/shop"
        command = self.services["schema"]["command"]
        self.assertEqual(command, ["cassandra", "schema", "--apply", source])
        # Without --apply the command needs no cluster.
        printed = run(LARDER, *[word for word in command if word != "--apply"])
        self.assertEqual(printed.returncode, 0, printed.stderr)
        # As many copies as there are nodes.
        self.assertIn(f"'replication_factor': {len(cluster)}", printed.stdout)
        for service in self.nodes.values():
            self.assertEqual(service["environment"]["LARDER_SOURCE"], source)
            self.assertEqual(service["depends_on"]["schema"]["condition"], "service_completed_successfully")

    def test_the_nodes_of_the_cluster_join_one_after_the_other(self):
        cluster = sorted(name for name in self.services if name.startswith("cassandra-"))
        for name, after in zip([*cluster[1:], "schema"], cluster, strict=True):
            self.assertEqual(self.services[name]["depends_on"].keys(), {after})
            self.assertEqual(self.services[name]["depends_on"][after]["condition"], "service_healthy")
        for name in cluster:
            self.assertEqual(self.services[name]["environment"]["CASSANDRA_SEEDS"], cluster[0])
            self.assertIn("healthcheck", self.services[name])
        volumes = [self.services[name]["volumes"][0]["source"] for name in cluster]
        self.assertEqual(len(set(volumes)), len(cluster))


class Files(Described, unittest.TestCase):
    file, files = "compose.yaml", 6

    def test_the_nodes_differ_in_their_name_only(self):
        self.assertEqual(len(self.nodes), 3)
        peers = [f"{name}:8080" for name in sorted(self.nodes)]
        nodes = services()
        for name in self.nodes:
            settings = nodes[name]["environment"]
            self.assertEqual(settings["LARDER_PEERS"].split(","), peers)
            self.assertEqual(settings.pop("LARDER_PEER_SELF"), f"{name}:8080")
        self.assertEqual([nodes[name] for name in self.nodes], [nodes["larder-1"]] * 3)

    def test_prometheus_knows_every_node(self):
        scraped = yaml.safe_load((PROMETHEUS / "prometheus.yaml").read_text())["scrape_configs"][0]["static_configs"][0]
        self.assertEqual(scraped["targets"], [f"{name}:8081" for name in sorted(self.nodes)])
        self.assertEqual(image_settings()["LARDER_ADMIN"], ":8081")

    def test_promtool_takes_the_configuration(self):
        result = run(require("promtool"), "check", "config", "prometheus.yaml", cwd=PROMETHEUS)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    def test_every_alert_fires_when_it_should(self):
        result = run(require("promtool"), "test", "rules", "alerts-test.yaml", cwd=PROMETHEUS)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        tests = yaml.safe_load((PROMETHEUS / "alerts-test.yaml").read_text())["tests"]
        fired = {test["alertname"] for case in tests for test in case["alert_rule_test"] if test["exp_alerts"]}
        self.assertEqual({rule["alert"] for rule in alerts()}, fired)

    def test_panels_and_alerts_name_metrics_that_exist(self):
        # Held to the program's table by `cargo test -p larder --test acceptance reference`.
        page = (ROOT / "docs/reference/metrics.md").read_text()
        known = set(re.findall(r"^\| `(\w+)` \| (?:counter|gauge) \|", page, re.M)) | {"up"}
        known |= {name + part for name in re.findall(r"^\| `(\w+)` \| histogram \|", page, re.M) for part in ("_bucket", "_sum", "_count")}
        self.assertGreater(len(known), 100)
        for query in [query for query, _ in queries()] + [rule["expr"] for rule in alerts()]:
            names = set(re.findall(r"\b(?:up|larder_\w+|process_\w+)\b", query))
            self.assertTrue(names, query)
            self.assertEqual(names - known, set(), query)

    def test_grafana_finds_the_dashboard(self):
        provider = yaml.safe_load((GRAFANA / "dashboards.yaml").read_text())["providers"][0]
        mounts = {mount["target"]: Path(mount["source"]).name for mount in self.services["grafana"]["volumes"]}
        self.assertEqual(mounts[provider["options"]["path"]], "dashboards")
        panels = dashboard()["panels"]
        self.assertEqual(len({panel["id"] for panel in panels}), len(panels))
        places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels]
        self.assertEqual(len(set(places)), len(panels))


class Running(unittest.TestCase):
    """What the services are to each other by name they are here by address; nothing else is changed but paths of files."""

    @classmethod
    def setUpClass(cls):
        services_started = contextlib.ExitStack()
        cls.addClassCleanup(services_started.close)
        services_started.enter_context(start_services(cls))

    def test_1_clients_read_through_any_node(self):
        for key in KEYS:
            redis("SET", f"user:{key}", f"name {key}", host=self.address["redis"])
        served = set()
        for _ in range(3):
            for key in KEYS:
                answer, node = self.ask(f"/lookup?key=user:{key}")
                self.assertEqual(json.loads(answer)["value"], f"name {key}")
                served.add(node)
        self.assertEqual(served, {f"{self.address[name]}:8080" for name in self.nodes})

    def test_2_each_key_was_fetched_once_for_all(self):
        fetches = self.query("sum(larder_source_fetches_total)", lambda found: found and float(found[0]["value"][1]) >= len(KEYS))
        self.assertEqual(float(fetches[0]["value"][1]), len(KEYS))

    def test_3_prometheus_reaches_every_node(self):
        up = self.query("up", lambda found: [sample["value"][1] for sample in found] == ["1"] * 3)
        self.assertEqual({sample["metric"]["job"] for sample in up}, {"larder"})

    def test_4_every_panel_shows_something(self):
        asked = [(query, legend) for query, legend in queries() if not ELSEWHERE.search(query)]
        self.assertGreater(len(asked), 20)
        for query, legend in asked:
            # Timed HTTP requests are those that were not answered at once: one is needed in the time that is looked at.
            self.ask("/lookup?key=absent" + str(time.monotonic_ns()))
            # A command, and one that fails.
            redis("-p", "6380", "GET", "user:1", host=self.address["larder-1"])
            redis("-p", "6380", "GET", host=self.address["larder-1"])
            with self.subTest(query):
                self.assertTrue(self.query(query, lambda found: any(s["value"][1] != "NaN" for s in found)))
                label = re.findall(r"\{\{(\w+)\}\}", legend)
                for sample in self.query(query, bool):
                    self.assertLessEqual(set(label), sample["metric"].keys())

    def test_5_every_alert_looks_at_what_is_there(self):
        groups = json.loads(get(f"{self.prometheus}/api/v1/rules"))["data"]["groups"]
        rules = [rule for group in groups for rule in group["rules"]]
        self.assertGreater(len(rules), 5)
        for rule in rules:
            if ELSEWHERE.search(rule["query"]):
                continue
            for series in re.findall(r"[a-z_]+\{[^}]*\}|(?:larder|process)_[a-z_]+", rule["query"]):
                with self.subTest(series):
                    self.assertTrue(self.query(series, bool))
            self.assertIn(rule["state"], ("inactive", "pending"))

    def test_6_clients_do_not_reach_what_peers_say(self):
        for path in ("/_groupcache/default/user:1", "/larder.peers.v1.Peers/Get"):
            with self.subTest(path), self.assertRaises(urllib.error.HTTPError) as refused:
                self.ask(path)
            self.assertEqual(refused.exception.code, 404)
            # By nginx, not by a node.
            self.assertNotIn("X-Served-By", refused.exception.headers)

    def test_7_a_node_may_leave(self):
        leaving = self.processes["larder-2"]
        leaving.terminate()
        self.assertEqual(leaving.wait(timeout=40), 0)
        for key in KEYS:
            answer, node = self.ask(f"/lookup?key=user:{key}")
            self.assertEqual(json.loads(answer)["value"], f"name {key}")
            self.assertNotEqual(node, f"{self.address['larder-2']}:8080")

    def ask(self, path):
        """The body that nginx gives, and the node that nginx had it from."""
        try:
            with urllib.request.urlopen(f"http://{self.address['nginx']}:8080{path}", timeout=10) as answer:
                # Of several that were tried the last.
                return answer.read(), answer.headers["X-Served-By"].rpartition(", ")[2]
        except urllib.error.HTTPError as error:
            if error.code == 404 and error.headers["X-Served-By"]:
                return error.read(), error.headers["X-Served-By"]
            raise

    def query(self, expression, holds):
        """What Prometheus says, once it holds."""
        url = f"{self.prometheus}/api/v1/query?{urllib.parse.urlencode({'query': expression})}"
        return wait(expression, lambda: json.loads(get(url))["data"]["result"], holds)


def wait(what, look, holds):
    end = time.monotonic() + PATIENCE
    while True:
        try:
            found = look()
            if holds(found):
                return found
        except OSError as error:
            found = error
        if time.monotonic() > end:
            raise AssertionError(f"{what}: after {PATIENCE} s still {found}")
        time.sleep(0.1)


def get(url):
    with urllib.request.urlopen(url, timeout=10) as answer:
        return answer.read().decode()


def redis(*words, host):
    result = run(require("redis-cli"), "-h", host, *words)
    if result.returncode:
        raise OSError(result.stdout + result.stderr)
    return result.stdout.strip()


@contextlib.contextmanager
def start_services(test):
    described = services()
    test.nodes = sorted(name for name in described if name.startswith("larder-"))
    # A net of the loopback for this process, so that ports are as written and free.
    net = f"127.{64 + os.getpid() // 250 % 128}.{1 + os.getpid() % 250}"
    test.address = {name: f"{net}.{number}" for number, name in enumerate(sorted(described), 1)}
    test.prometheus = f"http://{test.address['prometheus']}:9090"

    def translated(text):
        return re.sub(rf"\b({'|'.join(test.address)})(?=:\d)", lambda match: test.address[match[1]], text)

    def write(name, text):
        (folder / name).write_text(translated(text))

    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        folder = Path(folder)
        log = stack.enter_context((folder / "log").open("w+"))
        # Said when something fails to start.
        stack.push(lambda kind, *_: kind and print((folder / "log").read_text()[-8000:]))
        test.processes = {}

        def start(name, *command, **options):
            options = {"cwd": folder, "stdout": log, "stderr": log, **options}
            test.processes[name] = stack.enter_context(running(*command, **options))

        start("redis", *described["redis"]["command"], "--bind", test.address["redis"])
        wait("redis", lambda: redis("PING", host=test.address["redis"]), "PONG".__eq__)
        for name in test.nodes:
            settings = {**image_settings(), **described[name]["environment"]}
            for listener in ("LARDER_HTTP", "LARDER_REDIS", "LARDER_ADMIN"):
                settings[listener] = test.address[name] + settings[listener]
            settings = {variable: translated(value) for variable, value in settings.items()}
            start(name, LARDER, "serve", env=settings, stdout=subprocess.PIPE, text=True)
            assert json.loads(test.processes[name].stdout.readline())["ready"]

        paths = "".join(f"    {kind}_temp_path {folder};\n" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        text = (FOLDER / "nginx.conf").read_text().replace("http {\n", "http {\n" + paths)
        write("nginx.conf", text.replace("listen 80;", f"listen {test.address['nginx']}:8080;"))
        nginx = [require("nginx"), "-e", "stderr", "-p", folder, "-c", "nginx.conf", "-g", "daemon off; pid nginx.pid;"]
        checked = run(*nginx, "-t", cwd=folder)
        assert checked.returncode == 0, checked.stderr
        start("nginx", *nginx)
        wait("nginx", lambda: get(f"http://{test.address['nginx']}:8080/healthz"), bool)

        write("prometheus.yaml", (PROMETHEUS / "prometheus.yaml").read_text().replace("_interval: 5s", "_interval: 1s"))
        write("alerts.yaml", (PROMETHEUS / "alerts.yaml").read_text())
        listen = f"--web.listen-address={test.address['prometheus']}:9090"
        start("prometheus", require("prometheus"), "--config.file=prometheus.yaml", f"--storage.tsdb.path={folder}/data", listen)
        wait("prometheus", lambda: get(f"{test.prometheus}/-/ready"), bool)
        yield


if __name__ == "__main__":
    unittest.main()
