//! An API server of Kubernetes that knows pods: TLS, tokens of accounts, lists in pages, and
//! watches that go on from a version.
use super::certificates::Authority;
use percent_encoding::percent_decode_str;
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead, BufReader, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    path::PathBuf,
    sync::{Arc, Condvar, Mutex, MutexGuard},
    thread::spawn,
};
use tokio_rustls::rustls::{ServerConnection, StreamOwned};

/// Pods on a page, whatever the limit of the request.
const PAGE: usize = 2;

/// What the server knows, and how it behaves.
#[derive(Default)]
pub struct State {
    pods: BTreeMap<String, Value>,
    version: u64,
    /// Of each version after `oldest`.
    events: Vec<(u64, Value)>,
    /// Events up to this one are forgotten: 410.
    oldest: u64,
    pub token: String,
    /// Whether the account may list and watch pods.
    pub is_allowed: bool,
    /// No request is answered.
    pub is_down: bool,
    /// A version that is too old is told by an event and not by the status.
    pub says_gone_in_an_event: bool,
    open: Vec<TcpStream>,
    /// The version up to which a watcher was told everything.
    pub told: u64,
    /// The targets of all requests that were answered with 200 or 410, and those statuses.
    pub answered: Vec<(u16, String)>,
}

pub struct KubernetesServer {
    pub address: SocketAddr,
    state: Arc<(Mutex<State>, Condvar)>,
    authority: Authority,
}

type Connection = StreamOwned<ServerConnection, TcpStream>;

impl KubernetesServer {
    pub fn start() -> KubernetesServer {
        let authority = Authority::new();
        let files = authority.issue("api", &["127.0.0.1"]);
        let (tls, listener) = (files.server(), TcpListener::bind("127.0.0.1:0").unwrap());
        let state = State { token: "first".to_owned(), is_allowed: true, version: 7, oldest: 7, ..State::default() };
        let server = KubernetesServer {
            address: listener.local_addr().unwrap(),
            state: Arc::new((Mutex::new(state), Condvar::new())),
            authority,
        };
        server.write_account("token", "first");
        server.write_account("namespace", "shop");
        let state = server.state.clone();
        spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                {
                    let mut state = state.0.lock().unwrap();
                    if state.is_down {
                        continue;
                    }
                    state.open.push(stream.try_clone().unwrap());
                }
                let (tls, state) = (ServerConnection::new(tls.clone()).unwrap(), state.clone());
                // An end of the connection is the end of the thread.
                spawn(move || serve(StreamOwned::new(tls, stream), &state));
            }
        });
        server
    }

    /// The folder that a pod finds its account in.
    pub fn account(&self) -> PathBuf {
        self.authority.dir().to_owned()
    }
    pub fn write_account(&self, file: &str, text: &str) {
        fs::write(self.account().join(file), text).unwrap();
    }

    /// What it knows and does.
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.0.lock().unwrap()
    }
    /// A pod with the label `app`; a change is told to those who watch.
    pub fn set(&self, name: &str, app: &str, ip: &str, is_ready: bool) {
        let ready = if is_ready { "True" } else { "False" };
        let pod = json!({
            "metadata": {"name": name, "namespace": "shop", "labels": {"app": app}, "managedFields": [{"manager": "kubelet"}]},
            "spec": {"containers": [{"name": "larder"}]},
            "status": {"phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}],
                "conditions": [{"type": "Initialized", "status": "True"}, {"type": "Ready", "status": ready}]},
        });
        let mut state = self.state();
        let kind = if state.pods.contains_key(name) { "MODIFIED" } else { "ADDED" };
        let pod = state.add(kind, pod);
        state.pods.insert(name.to_owned(), pod);
        self.state.1.notify_all();
    }
    pub fn delete(&self, name: &str) {
        let mut state = self.state();
        let pod = state.pods.remove(name).unwrap();
        state.add("DELETED", pod);
        self.state.1.notify_all();
    }
    /// Tells those who watch that nothing has happened up to a later version. That version.
    pub fn bookmark(&self) -> u64 {
        let mut state = self.state();
        state.add("BOOKMARK", json!({"kind": "Pod", "metadata": {"creationTimestamp": null}, "status": {}}));
        self.state.1.notify_all();
        state.version
    }
    /// Closes all connections.
    pub fn cut(&self) {
        for stream in self.state().open.drain(..) {
            // The other side may have done so.
            let _ = stream.shutdown(Shutdown::Both);
        }
        self.state.1.notify_all();
    }
    /// Answers no request from now on, or all again.
    pub fn set_down(&self, is_down: bool) {
        self.state().is_down = is_down;
        if is_down {
            self.cut();
        }
    }
    /// Forgets all events.
    pub fn forget(&self) {
        let mut state = self.state();
        state.oldest = state.version;
        state.events.clear();
    }
    /// Requests whose target has this in it, answered so.
    pub fn count(&self, status: u16, part: &str) -> usize {
        self.state().answered.iter().filter(|(was, target)| *was == status && target.contains(part)).count()
    }
}

impl State {
    fn add(&mut self, kind: &str, mut object: Value) -> Value {
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        self.events.push((self.version, json!({"type": kind, "object": object})));
        object
    }
}

fn serve(connection: Connection, state: &(Mutex<State>, Condvar)) -> Option<()> {
    let mut connection = BufReader::new(connection);
    loop {
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            if connection.read_line(&mut line).ok()? == 0 {
                return None;
            }
            match line.trim_end() {
                "" => break,
                line => lines.push(line.to_owned()),
            }
        }
        let target = lines[0].strip_prefix("GET ")?.strip_suffix(" HTTP/1.1")?.to_owned();
        let (path, query) = target.split_once('?')?;
        assert_eq!(path, "/api/v1/namespaces/shop/pods");
        let decoded = |text| percent_decode_str(text).decode_utf8_lossy().into_owned();
        let query: BTreeMap<&str, String> = query
            .split('&')
            .filter_map(|pair| pair.split_once('='))
            .map(|(name, text)| (name, decoded(text)))
            .collect();
        let app = query["labelSelector"].strip_prefix("app=").expect("a selector of this test");
        let authorization = format!("authorization: Bearer {}", state.0.lock().unwrap().token);
        let has_shown = lines.iter().any(|line| line.eq_ignore_ascii_case(&authorization));
        let out = connection.get_mut();
        if !has_shown {
            refuse(out, 401, "Unauthorized")?;
        } else if !state.0.lock().unwrap().is_allowed {
            refuse(
                out,
                403,
                "pods is forbidden: User \"system:serviceaccount:shop:larder\" cannot list resource \"pods\"",
            )?;
        } else if query.contains_key("watch") {
            watch(out, state, app, &target, query["resourceVersion"].parse().ok()?)?;
        } else {
            let page = page(&mut state.0.lock().unwrap(), app, &target, query.get("continue").map(String::as_str));
            answer(out, 200, &page)?;
        }
    }
}

fn answer(out: &mut Connection, status: u16, body: &Value) -> Option<()> {
    let body = body.to_string();
    let len = body.len();
    write!(out, "HTTP/1.1 {status} x\r\ncontent-type: application/json\r\ncontent-length: {len}\r\n\r\n{body}").ok()?;
    out.flush().ok()
}
fn refuse(out: &mut Connection, code: u16, message: &str) -> Option<()> {
    answer(out, code, &status(code, message))
}
fn status(code: u16, message: &str) -> Value {
    json!({"kind": "Status", "status": "Failure", "message": message, "code": code})
}

fn has_label(object: &Value, app: &str) -> bool {
    object["metadata"]["labels"]["app"] == app
}

fn page(state: &mut State, app: &str, target: &str, after: Option<&str>) -> Value {
    let all = || state.pods.iter().filter(|(_, pod)| has_label(pod, app));
    let rest: Vec<_> = all().filter(|(name, _)| after.is_none_or(|after| name.as_str() > after)).collect();
    let items: Vec<&Value> = rest.iter().take(PAGE).map(|(_, pod)| *pod).collect();
    let next = rest.get(PAGE).and(rest.get(PAGE - 1)).map_or("", |(name, _)| name.as_str());
    let version = state.version.to_string();
    let page = json!({"kind": "PodList", "metadata": {"resourceVersion": version, "continue": next}, "items": items});
    state.answered.push((200, target.to_owned()));
    page
}

/// Events after a version, each in two chunks, until the connection is cut.
fn watch(
    out: &mut Connection,
    (state, changed): &(Mutex<State>, Condvar),
    app: &str,
    target: &str,
    mut version: u64,
) -> Option<()> {
    let mut now = state.lock().unwrap();
    let is_gone = version < now.oldest;
    if is_gone && !now.says_gone_in_an_event {
        now.answered.push((410, target.to_owned()));
        drop(now);
        return refuse(out, 410, "too old resource version");
    }
    let in_event = is_gone.then(|| json!({"type": "ERROR", "object": status(410, "too old resource version")}));
    now.answered.push((if is_gone { 410 } else { 200 }, target.to_owned()));
    drop(now);
    out.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n").ok()?;
    out.flush().ok()?;
    if let Some(event) = in_event {
        chunks(out, &event)?;
        out.write_all(b"0\r\n\r\n").ok()?;
        return out.flush().ok();
    }
    loop {
        let mut now = state.lock().unwrap();
        let event = loop {
            if now.is_down || now.open.is_empty() {
                return None;
            }
            if let Some(event) = now.events.iter().find(|(of, _)| *of > version) {
                break event.clone();
            }
            now = changed.wait(now).unwrap();
        };
        drop(now);
        version = event.0;
        if event.1["type"] == "BOOKMARK" || has_label(&event.1["object"], app) {
            chunks(out, &event.1)?;
        }
        state.lock().unwrap().told = version;
    }
}

fn chunks(out: &mut Connection, event: &Value) -> Option<()> {
    let line = format!("{event}\n");
    for part in [&line[..line.len() / 2], &line[line.len() / 2..]] {
        write!(out, "{:x}\r\n{part}\r\n", part.len()).ok()?;
        out.flush().ok()?;
    }
    Some(())
}
