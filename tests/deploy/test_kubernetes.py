"""The manifests and the chart: valid for each release of Kubernetes that they are for, whole, and alike."""

import copy
import os
import re
import subprocess
import tempfile
import unittest
from pathlib import Path

import kubernetes_validate
import yaml
from support import DEPLOY, image_settings, refusal, render, rendered

MANIFESTS, CHART = DEPLOY / "k8s", DEPLOY / "helm/larder"
# From the release that has `preStop.sleep` to the newest that there are schemas of.
RELEASES = [f"1.{minor}" for minor in range(30, 1 + int(kubernetes_validate.latest_version().split(".")[1]))]

# Each value of the chart with another than its default.
EVERYTHING = {
    "replicas": 5,
    "image": {"repository": "registry.example/larder", "tag": "1.2.3", "pullPolicy": "Always"},
    "imagePullSecrets": [{"name": "registry"}],
    "source": {"url": "rediss://cache:6379?insecure=true", "passwordSecret": {"name": "redis", "key": "word"}},
    "settings": {"max-keys": 100000000, "ttl": "10s", "forward-admin": True},
    "peers": {"discovery": "pods", "secret": {"name": "larder-peers", "key": "word"}},
    "service": {"type": "NodePort", "httpPort": 80, "redisPort": 6379},
    "resources": {"limits": {"memory": "1Gi"}},
    "podDisruptionBudget": {"enabled": True, "maxUnavailable": "25%"},
    "autoscaling": {"enabled": True, "minReplicas": 2, "maxReplicas": 4, "cpuUtilization": 50},
    "networkPolicy": {"enabled": True, "clients": [], "metricsNamespace": "", "source": []},
    "preStopSeconds": 10,
    "terminationGracePeriodSeconds": 60,
    "podAnnotations": {"team": "shop"},
    "nodeSelector": {"disk": "ssd"},
    "tolerations": [{"key": "cache", "operator": "Exists"}],
    "affinity": {"nodeAffinity": {}},
}


def chart(values=None, release="larder"):
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        yaml.safe_dump(values or {}, file)
        file.flush()
        return rendered("helm-template", CHART, release, file.name)


def manifests(*components):
    """The kustomization, with components switched on."""
    with tempfile.TemporaryDirectory() as folder:
        base = os.path.relpath(MANIFESTS, Path(folder).resolve())
        # What a user uncomments must be what is there.
        text = (MANIFESTS / "kustomization.yaml").read_text()
        assert all(f"# - {component}\n" in text for component in components), text
        users = {"resources": [base], "components": [f"{base}/{component}" for component in components]}
        (Path(folder) / "kustomization.yaml").write_text(yaml.safe_dump(users))
        return rendered("kustomize", folder)


def hint():
    """What the kustomization leaves to its user."""
    return [yaml.safe_load((MANIFESTS / "horizontalpodautoscaler.yaml").read_text())]


def find(objects, kind, name=None):
    found = [o for o in objects if o["kind"] == kind and name in (None, o["metadata"]["name"])]
    assert len(found) == 1, f"{len(found)} objects {kind} {name or ''}"
    return found[0]


def selects(selector, labels):
    return bool(selector) and selector.items() <= labels.items()


def variables(container, pod="larder-1", namespace="shop"):
    """A container's variables as Kubernetes sets them: $(NAME) stands for one that is defined before it."""
    known, fields = {}, {"metadata.name": pod, "metadata.namespace": namespace, "status.podIP": "10.1.2.3"}
    for variable in container["env"]:
        source = variable.get("valueFrom", {})
        if "secretKeyRef" in source:
            value = "{name}/{key}".format(**source["secretKeyRef"])
        else:
            value = variable.get("value") or fields[source["fieldRef"]["fieldPath"]]
        known[variable["name"]] = re.sub(r"\$\((\w+)\)", lambda match: known.get(match[1], match[0]), value)
    return known


class Sidecar(unittest.TestCase):
    """A Larder in each pod of an application: docs/sidecar.md."""

    def setUp(self):
        self.deployment = yaml.safe_load((MANIFESTS / "sidecar.yaml").read_text())
        self.pod = self.deployment["spec"]["template"]["spec"]
        self.larder, = self.pod["initContainers"]

    def test_every_release_takes_it(self):
        for release in RELEASES:
            kubernetes_validate.validate(self.deployment, release, strict=True)

    def test_larder_outlives_the_application_and_is_open_to_its_pod_alone(self):
        self.assertEqual(self.larder["restartPolicy"], "Always")
        listeners = [argument for argument in self.larder["args"] if argument.startswith(("--redis=", "--http="))]
        self.assertEqual(listeners, ["--redis=127.0.0.1:6380", "--http=off"])
        self.assertEqual(self.pod["containers"][0]["env"], [{"name": "REDIS_URL", "value": "redis://127.0.0.1:6380"}])

    def test_larder_takes_its_arguments(self):
        command = [os.environ["LARDER_BIN"], "config", "check", *self.larder["args"][1:]]
        subprocess.run(command, check=True, capture_output=True, env={})


class Deployed:
    """What holds for all that is deployed, in one way or the other: the classes below."""

    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.objects = cls.make()
        cls.pod = find(cls.objects, "StatefulSet")["spec"]["template"]
        cls.container = cls.pod["spec"]["containers"][0]

    def test_every_release_takes_them(self):
        for release in RELEASES:
            for item in self.objects:
                kubernetes_validate.validate(item, release, strict=True)

    def test_a_misspelt_field_is_found(self):
        broken = copy.deepcopy(find(self.objects, "StatefulSet"))
        broken["spec"]["template"]["spec"]["securityContex"] = {}
        with self.assertRaises(kubernetes_validate.ValidationError):
            kubernetes_validate.validate(broken, RELEASES[0], strict=True)

    def test_selectors_meet_the_pods(self):
        labels = self.pod["metadata"]["labels"]
        for service in (o for o in self.objects if o["kind"] == "Service"):
            self.assertTrue(selects(service["spec"]["selector"], labels))
        self.assertTrue(selects(find(self.objects, "StatefulSet")["spec"]["selector"]["matchLabels"], labels))
        self.assertTrue(selects(find(self.objects, "PodDisruptionBudget")["spec"]["selector"]["matchLabels"], labels))
        self.assertTrue(selects(find(self.objects, "NetworkPolicy")["spec"]["podSelector"]["matchLabels"], labels))
        spread = self.pod["spec"]["topologySpreadConstraints"][0]["labelSelector"]["matchLabels"]
        self.assertTrue(selects(spread, labels))

    def test_what_is_named_is_there(self):
        ports = {port["name"] for port in self.container["ports"]}
        for service in (o for o in self.objects if o["kind"] == "Service"):
            self.assertLessEqual({port["targetPort"] for port in service["spec"]["ports"]}, ports)
        find(self.objects, "ServiceAccount", self.pod["spec"]["serviceAccountName"])
        headless = find(self.objects, "Service", find(self.objects, "StatefulSet")["spec"]["serviceName"])
        self.assertEqual(headless["spec"]["clusterIP"], "None")
        for scaler in (o for o in self.objects if o["kind"] == "HorizontalPodAutoscaler"):
            find(self.objects, scaler["spec"]["scaleTargetRef"]["kind"], scaler["spec"]["scaleTargetRef"]["name"])

    def test_the_pods_are_locked_down(self):
        self.assertTrue(self.pod["spec"]["securityContext"]["runAsNonRoot"])
        self.assertEqual(self.pod["spec"]["securityContext"]["seccompProfile"], {"type": "RuntimeDefault"})
        locked = {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        self.assertEqual(self.container["securityContext"], locked)
        self.assertIs(self.pod["spec"]["enableServiceLinks"], False)

    def test_probes_ask_the_admin_port(self):
        paths = {kind: self.container[kind]["httpGet"] for kind in ("startupProbe", "livenessProbe", "readinessProbe")}
        self.assertEqual({probe["port"] for probe in paths.values()}, {"admin"})
        self.assertEqual([probe["path"] for probe in paths.values()], ["/healthz", "/healthz", "/readyz"])

    def test_ports_are_those_of_the_image(self):
        ports = {f"LARDER_{port['name'].upper()}": f":{port['containerPort']}" for port in self.container["ports"] if port.get("protocol") != "UDP"}
        self.assertLessEqual(ports.items(), image_settings().items())

    def test_larder_takes_the_settings(self):
        settings = {name: value for name, value in variables(self.container).items() if name.startswith("LARDER_")}
        self.assertEqual(refusal(self.container["args"], settings), "")

    def test_there_is_time_to_drain(self):
        before = self.container["lifecycle"]["preStop"]["sleep"]["seconds"]
        # Larder's own `grace` is 10 s.
        self.assertGreater(self.pod["spec"]["terminationGracePeriodSeconds"], before + 10)

    def test_peers_find_each_other(self):
        known = variables(self.container)
        kind, _, where = known["LARDER_PEERS"].partition(":")
        own, _, port = known["LARDER_PEER_SELF"].rpartition(":")
        self.assertEqual(f":{port}", image_settings()["LARDER_HTTP"])
        headless = find(self.objects, "StatefulSet")["spec"]["serviceName"]
        if kind == "gossip":
            self.assertEqual((where, own), (f"{headless}:7946", "10.1.2.3"))
            ports = find(self.objects, "Service", headless)["spec"]["ports"]
            self.assertIn({"name": "gossip", "port": 7946, "protocol": "UDP", "targetPort": "gossip"}, ports)
            self.assertIn({"name": "gossip", "containerPort": 7946, "protocol": "UDP"}, self.container["ports"])
        elif kind == "dns":
            self.assertEqual((where, own), (f"{headless}:8080", "10.1.2.3"))
        elif kind != "pods":
            name, count = find(self.objects, "StatefulSet")["metadata"]["name"], find(self.objects, "StatefulSet")["spec"]["replicas"]
            pods = [f"{name}-{number}.{headless}:8080" for number in range(count)]
            self.assertEqual(known["LARDER_PEERS"].split(","), pods)
            self.assertEqual(variables(self.container, pod=f"{name}-1")["LARDER_PEER_SELF"], pods[1])
        else:
            self.assertEqual((kind, own), ("pods", "10.1.2.3"))
            selector, _, port = where.rpartition(":")
            wanted = dict(label.split("=") for label in selector.split(","))
            self.assertTrue(selects(wanted, self.pod["metadata"]["labels"]))
            self.assertEqual(f":{port}", image_settings()["LARDER_HTTP"])

    def test_no_right_is_given_that_is_not_needed(self):
        pods = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]}]
        asks = variables(self.container)["LARDER_PEERS"].startswith("pods:")
        self.assertIs(self.pod["spec"]["automountServiceAccountToken"], asks)
        rights = [o for o in self.objects if "Role" in o["kind"]]
        self.assertEqual(len(rights), 2 if asks else 0)
        if asks:
            role, binding = find(self.objects, "Role"), find(self.objects, "RoleBinding")
            self.assertEqual(role["rules"], pods)
            self.assertEqual(binding["roleRef"]["name"], role["metadata"]["name"])
            self.assertEqual(binding["subjects"][0]["name"], self.pod["spec"]["serviceAccountName"])
        # To whom it may talk includes the API only then.
        egress = find(self.objects, "NetworkPolicy")["spec"]["egress"]
        self.assertIs(any("to" not in rule for rule in egress), asks)

    def test_peers_may_talk_to_peers(self):
        policy = find(self.objects, "NetworkPolicy")["spec"]
        gossips = variables(self.container)["LARDER_PEERS"].startswith("gossip:")
        for rules, side, port, gossip in ((policy["ingress"], "from", "http", "gossip"), (policy["egress"], "to", 8080, 7946)):
            wanted = [{"port": port}] + [{"port": gossip, "protocol": "UDP"}] * gossips
            among = [
                rule["ports"]
                for rule in rules
                for other in rule.get(side, [])
                if selects(other.get("podSelector", {}).get("matchLabels"), self.pod["metadata"]["labels"])
            ]
            self.assertEqual(among, [wanted])
            self.assertEqual("7946" in str(policy["egress"]), gossips)


class Manifests(Deployed, unittest.TestCase):
    make = staticmethod(lambda: manifests())


class ManifestsWithDiscoveryByDns(Deployed, unittest.TestCase):
    make = staticmethod(lambda: manifests("discovery-by-dns") + hint())


class ManifestsWithDiscoveryByGossip(Deployed, unittest.TestCase):
    make = staticmethod(lambda: manifests("discovery-by-gossip") + hint())


class ManifestsWithDiscoveryByPods(Deployed, unittest.TestCase):
    make = staticmethod(lambda: manifests("discovery-by-pods") + hint())


class ChartByDefault(Deployed, unittest.TestCase):
    make = staticmethod(chart)


class ChartWithDiscoveryByDns(Deployed, unittest.TestCase):
    make = staticmethod(lambda: chart({"peers": {"discovery": "dns"}, "autoscaling": {"enabled": True}}))


class ChartWithDiscoveryByGossip(Deployed, unittest.TestCase):
    make = staticmethod(lambda: chart({"peers": {"discovery": "gossip"}, "autoscaling": {"enabled": True}}, "shop"))


class ChartWithEveryValueChanged(Deployed, unittest.TestCase):
    make = staticmethod(lambda: chart(EVERYTHING, "shop"))


class ChartWithCassandra(Deployed, unittest.TestCase):
    make = staticmethod(lambda: chart(yaml.safe_load((CHART / "cassandra.yaml").read_text())))

    def test_the_source_is_a_cluster_that_the_policy_lets_reach(self):
        self.assertEqual(find(self.objects, "StatefulSet")["spec"]["replicas"], 3)
        source = variables(self.container)["LARDER_SOURCE"]
        host, port = re.fullmatch(r"cassandra://shop-superuser@([\w.-]+):(\d+)/shop\?dc=dc1&password-file=/run/secrets/source/password", source).groups()
        namespace = {"kubernetes.io/metadata.name": host.partition(".")[2]}
        allowed = [
            (to["namespaceSelector"]["matchLabels"], [rule["port"] for rule in policy["ports"]])
            for policy in find(self.objects, "NetworkPolicy")["spec"]["egress"]
            for to in policy.get("to", [])
            if "cassandra.datastax.com/cluster" in to.get("podSelector", {}).get("matchLabels", {})
        ]
        self.assertEqual(allowed, [(namespace, [int(port)])])


class Chart(unittest.TestCase):
    maxDiff = None

    def test_lint_finds_nothing_but_the_missing_icon(self):
        self.assertEqual(render("helm-lint", CHART), "[INFO] Chart.yaml: icon is recommended\n")

    def test_values_that_the_chart_does_not_have_are_refused(self):
        for values in ({"replica": 4}, {"peers": {"discovery": "srv"}}, {"source": {"url": "redis"}}, {"replicas": 0}):
            with self.subTest(values), self.assertRaisesRegex(ValueError, next(iter(values))):
                chart(values)

    def test_every_value_has_an_effect(self):
        """What is changed in EVERYTHING, alone, changes what is rendered."""
        default = chart()
        self.assertEqual(EVERYTHING.keys(), yaml.safe_load((CHART / "values.yaml").read_text()).keys())
        for name, value in EVERYTHING.items():
            with self.subTest(name):
                # Alone it is refused: see the next test.
                values = {"peers": {"discovery": "dns"}} if name == "autoscaling" else {}
                self.assertNotEqual(chart({**values, name: value}), chart(values) if values else default)

    def test_a_set_of_names_does_not_scale_by_itself(self):
        with self.assertRaisesRegex(ValueError, "autoscaling.enabled needs peers.discovery dns, gossip or pods"):
            chart({"autoscaling": {"enabled": True}})

    def test_numbers_stay_as_they_were_written(self):
        known = variables(find(chart(EVERYTHING), "StatefulSet")["spec"]["template"]["spec"]["containers"][0])
        wanted = {"LARDER_MAX_KEYS": "100000000", "LARDER_TTL": "10s", "LARDER_FORWARD_ADMIN": "true"}
        self.assertLessEqual(wanted.items(), known.items())
        self.assertEqual(known["LARDER_PEER_SECRET"], "larder-peers/word")
        self.assertEqual(known["LARDER_SOURCE"], "rediss://cache:6379?insecure=true&password-file=/run/secrets/source/word")

    def test_its_defaults_are_the_manifests(self):
        def plain(objects):
            """By kind and name, without what Helm adds to labels."""
            kept = {f"{o['kind']} {o['metadata']['name']}": copy.deepcopy(o) for o in objects}

            def strip(node):
                if isinstance(node, dict):
                    for name in ("labels", "matchLabels", "selector"):
                        if isinstance(node.get(name), dict):
                            node[name] = {k: v for k, v in node[name].items() if k not in helm}
                    list(map(strip, node.values()))
                elif isinstance(node, list):
                    list(map(strip, node))

            strip(kept)
            container = kept["StatefulSet larder"]["spec"]["template"]["spec"]["containers"][0]
            container["env"].sort(key=lambda variable: variable["name"])
            # The manifests name no version.
            container["image"] = container["image"].partition(":")[0]
            # The default.
            kept["Service larder"]["spec"].pop("type", None)
            return kept

        helm = ("app.kubernetes.io/instance", "app.kubernetes.io/version", "app.kubernetes.io/managed-by", "helm.sh/chart")
        self.assertEqual(plain(chart()), plain(manifests()))


if __name__ == "__main__":
    unittest.main()
