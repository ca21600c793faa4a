//! Nodes that are pods of Kubernetes, found through an API server of the test's.
use super::{
    addressed_node::AddressedNode,
    common::{Port, wait_until},
    discovery::port_of_three_hosts,
    kubernetes_server::KubernetesServer,
    larder::{binary, command},
};
use std::{fs, fs::File, process::Command, thread::sleep, time::Duration};
use tempfile::TempDir;

/// A fleet of processes at 127.0.0.1 to 127.0.0.3, each of which is a pod.
struct Pods {
    server: KubernetesServer,
    port: Port,
    logs: TempDir,
}

impl Pods {
    fn new() -> Pods {
        Pods { server: KubernetesServer::start(), port: port_of_three_hosts(), logs: tempfile::tempdir().unwrap() }
    }
    fn ip(number: usize) -> String {
        format!("127.0.0.{number}")
    }
    fn set(&self, number: usize, is_ready: bool) {
        self.server.set(&format!("larder-{number}"), "larder", &Pods::ip(number), is_ready);
    }
    /// Starts a node as a container of its pod is started.
    fn start(&self, number: usize) -> AddressedNode {
        let mut command = Command::new(binary());
        let address = self.server.address;
        command
            .env_clear()
            .env("KUBERNETES_SERVICE_HOST", address.ip().to_string())
            .env("KUBERNETES_SERVICE_PORT", address.port().to_string())
            .env("POD_IP", Pods::ip(number))
            .env("LARDER_PEERS_SERVICE_ACCOUNT", self.server.account())
            .env("LARDER_PEERS_REFRESH", "800ms")
            .env("LARDER_INSECURE", "true")
            .stderr(File::create(self.log(number)).unwrap());
        let peers = format!("pods:app=larder:{}", self.port.number);
        AddressedNode::spawn(command, &format!("{}:{}", Pods::ip(number), self.port.number), &peers)
    }
    fn log(&self, number: usize) -> std::path::PathBuf {
        self.logs.path().join(number.to_string())
    }
    fn said(&self, number: usize, text: &str) -> usize {
        fs::read_to_string(self.log(number)).unwrap().matches(text).count()
    }
    fn names(&self, numbers: &[usize]) -> Vec<String> {
        numbers.iter().map(|number| format!("{}:{}", Pods::ip(*number), self.port.number)).collect()
    }
    /// Waits until the nodes have these pods on their rings.
    fn agree(&self, nodes: &[AddressedNode], numbers: &[usize]) {
        let expected = self.names(numbers);
        wait_until(&format!("pods {numbers:?} to be the ring"), || nodes.iter().all(|node| node.names() == expected));
    }
}

#[test]
fn ready_pods_form_a_ring_and_one_that_is_not_ready_any_more_leaves() {
    let pods = Pods::new();
    pods.set(1, true);
    pods.set(2, true);
    pods.set(3, false);
    pods.server.set("other", "another program", "127.0.0.9", true);
    let mut nodes: Vec<AddressedNode> = [1, 2].map(|number| pods.start(number)).into();
    for node in &nodes {
        assert_eq!(node.names(), pods.names(&[1, 2]), "known before the first request");
    }
    nodes.push(pods.start(3));
    assert_eq!(nodes[2].names(), pods.names(&[1, 2, 3]), "a node is on its own ring");
    pods.set(3, true);
    pods.agree(&nodes, &[1, 2, 3]);
    assert!(nodes.iter().all(|node| node.peers()["epoch"] == nodes[0].peers()["epoch"]));
    // Each answers every key, and its owner has fetched it.
    for key in 0..20 {
        let values: Vec<String> = nodes.iter().map(|node| node.get(&format!("/v1/kv/{key:x}-key"))).collect();
        assert!(values.iter().all(|value| *value == values[0]), "{values:?}");
    }
    let others = &nodes[..2];
    let is_of_third = |path: &String| {
        let owner = format!("\"owner\":\"{}\"", pods.names(&[3])[0]);
        nodes[0].get(&format!("/v1/peers?key={}", path.trim_start_matches("/v1/kv/"))).contains(&owner)
    };
    let path = (0..).map(|number| format!("/v1/kv/{number:x}-mine")).find(is_of_third).unwrap();
    let before = nodes[2].get(&path);
    pods.set(3, false);
    pods.agree(others, &[1, 2]);
    // The third is not told.
    nodes[0].ask("DELETE", &path.replace("kv/", "keys?key="));
    assert_ne!(nodes[0].get(&path), before);
    assert_eq!(nodes[2].get(&path), before);
    pods.set(3, true);
    pods.agree(&nodes, &[1, 2, 3]);
    wait_until("the pod that was away to forget its copies", || nodes[2].get(&path) != before);
    pods.server.delete("larder-3");
    pods.agree(others, &[1, 2]);
    pods.server.set("another", "another program", &Pods::ip(3), true);
    // No pod is ready: their source is gone. Nothing shows that this was seen, so this waits for longer
    // than a pod stays.
    pods.set(1, false);
    pods.set(2, false);
    sleep(Duration::from_secs(2));
    pods.agree(others, &[1, 2]);
    pods.set(2, true);
    pods.agree(&others[1..], &[2]);
}

#[test]
fn a_watch_that_is_cut_off_goes_on_and_one_that_is_too_old_begins_again() {
    let pods = Pods::new();
    (1..=3).for_each(|number| pods.set(number, true));
    let nodes = [pods.start(1)];
    assert_eq!(nodes[0].names(), pods.names(&[1, 2, 3]), "from two pages");
    let lists = || pods.server.count(200, "limit=") - pods.server.count(200, "continue=");
    let watches = |version: u64| pods.server.count(200, &format!("resourceVersion={version}&"));
    wait_until("a watch", || watches(10) == 1);
    assert_eq!((lists(), pods.server.count(200, "continue=")), (1, 1));

    // What happened without a watcher is told afterwards.
    pods.server.set_down(true);
    pods.server.delete("larder-3");
    pods.server.set_down(false);
    pods.agree(&nodes, &[1, 2]);
    assert_eq!(lists(), 1);

    // A bookmark moves the version on, so what is forgotten before it does not matter.
    let version = pods.server.bookmark();
    pods.set(2, false);
    pods.agree(&nodes, &[1]);
    pods.set(2, true);
    pods.agree(&nodes, &[1, 2]);
    let version_after = pods.server.bookmark();
    assert_eq!(version_after, version + 3);
    wait_until("the bookmark to be sent", || pods.server.state().told == version_after);
    pods.server.forget();
    pods.server.cut();
    wait_until("a watch from the bookmark", || watches(version_after) == 1);
    assert_eq!((lists(), pods.server.count(410, "")), (1, 0));

    for says_gone_in_an_event in [false, true] {
        let (lists_before, gone_before) = (lists(), pods.server.count(410, ""));
        pods.server.state().says_gone_in_an_event = says_gone_in_an_event;
        pods.server.set_down(true);
        pods.set(3, true);
        pods.server.delete("larder-2");
        pods.server.forget();
        pods.server.set_down(false);
        pods.agree(&nodes, &[1, 3]);
        assert_eq!((lists() - lists_before, pods.server.count(410, "") - gone_before), (1, 1));
        pods.server.delete("larder-3");
        pods.set(2, true);
        pods.agree(&nodes, &[1, 2]);
    }
}

#[test]
fn without_an_answer_the_last_pods_stay_and_the_log_says_why() {
    let pods = Pods::new();
    (1..=3).for_each(|number| pods.set(number, true));
    let nodes = [pods.start(1)];
    pods.agree(&nodes, &[1, 2, 3]);
    pods.server.set_down(true);
    wait_until("a word in the log", || pods.said(1, "peers cannot be looked up") == 1);
    assert_eq!(nodes[0].names(), pods.names(&[1, 2, 3]));
    pods.server.delete("larder-2");
    // Kubernetes has replaced the token meanwhile.
    pods.server.write_account("token", "second");
    pods.server.state().token = "second".to_owned();
    pods.server.set_down(false);
    pods.agree(&nodes, &[1, 3]);
    // An old one is not taken.
    pods.server.state().token = "third".to_owned();
    pods.server.cut();
    wait_until("another word in the log", || pods.said(1, "the service account's token is not taken") == 1);
    pods.set(2, true);
    pods.server.write_account("token", "third\n");
    pods.agree(&nodes, &[1, 2, 3]);
}

#[test]
fn without_rights_a_node_is_alone_and_says_what_is_missing() {
    let pods = Pods::new();
    pods.server.state().is_allowed = false;
    (1..=2).for_each(|number| pods.set(number, true));
    let nodes = [pods.start(1)];
    assert_eq!(nodes[0].names(), pods.names(&[1]));
    for said in ["403 Forbidden: pods is forbidden", "the service account needs the rights to list and watch pods"] {
        wait_until(said, || pods.said(1, said) == 1);
    }
    pods.server.state().is_allowed = true;
    pods.agree(&nodes, &[1, 2]);
}

#[test]
fn a_server_of_another_authority_is_not_asked() {
    let (pods, other) = (Pods::new(), KubernetesServer::start());
    pods.set(2, true);
    fs::copy(other.account().join("ca.crt"), pods.server.account().join("ca.crt")).unwrap();
    let node = pods.start(1);
    assert_eq!(node.names(), pods.names(&[1]));
    assert_eq!((pods.said(1, "peers cannot be looked up"), pods.server.count(200, "")), (1, 0));
}

#[test]
fn what_a_pod_lacks_stops_the_start() {
    let server = KubernetesServer::start();
    let account = server.account().display().to_string();
    let refusal = |variables: &[(&str, &str)], args: &[&str]| {
        let peers = ["--http", "127.0.0.1:0", "--redis", "off", "--admin", "off", "--peers", "pods:app=larder"];
        let output = command()
            .args(peers)
            .args(["--peer-self", "127.0.0.1:1"])
            .args(args)
            .envs(variables.iter().copied())
            .output()
            .unwrap();
        assert!(!output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    let account_args = ["--peers-service-account", &*account];
    let error = refusal(&[], &account_args);
    assert!(error.contains("KUBERNETES_SERVICE_HOST is not set"), "{error}");
    let (ip, port) = (server.address.ip().to_string(), server.address.port().to_string());
    let variables = [("KUBERNETES_SERVICE_HOST", &*ip), ("KUBERNETES_SERVICE_PORT", &*port)];
    for file in ["namespace", "token", "ca.crt"] {
        fs::remove_file(server.account().join(file)).unwrap();
        let error = refusal(&variables, &account_args);
        let path = format!("{account}/{file}");
        assert!(error.contains(&path) && error.contains("peers-service-account"), "{error}");
    }
}
