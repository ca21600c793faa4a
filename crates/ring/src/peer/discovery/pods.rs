//! Nodes that are pods of Kubernetes: a list of those that a label selector chooses, then every
//! change of them as it happens.
//!
//! ```text
//! list ── the pods, and a version ──► watch from that version ── events, each with a later version ──► ready pods ──► ring
//!   ▲                                   │ cut off, or at its end: again from the last version
//!   └── 410 Gone: that version is too old ─┘
//! ```
//!
//! Decision 0058.
use super::{
    found_nodes::{FoundNodes, unique},
    kubernetes_api::{ApiConnection, ApiError, ApiServer},
    pod_objects::{Pod, PodEvent, read_event, read_page},
    ready_pods::ReadyPods,
};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use larder_config::{PeerNode, PodSelector};
use larder_source::jittered;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// Pods that a page of a list has. One with all that Kubernetes writes into it has some 10 kB.
const PAGE: usize = 250;
/// Bytes of a page, and of an event.
const LARGEST_PAGE: usize = 64 << 20;
const LARGEST_EVENT: usize = 4 << 20;
/// Pods that are known at a time.
const MOST: usize = 4096;
/// How long the server is asked to watch. Afterwards it is asked again, from where it was.
const WATCH: Duration = Duration::from_secs(120);
/// How much later than that this side gives up.
const WATCH_OVERDUE: Duration = Duration::from_secs(30);
/// Before the first attempt after a failure; each later one waits twice as long.
const FIRST_WAIT: Duration = Duration::from_millis(200);
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// Follows the pods of the settings.
pub(super) struct PodWatch {
    found: FoundNodes,
    server: ApiServer,
    /// The path of the pods, with the selector.
    path: String,
    pods: ReadyPods,
    /// What a watch goes on from; `None`: a list is needed first.
    version: Option<String>,
    this: ThisPod,
}

/// Where this node is, as far as its own watch says.
#[derive(PartialEq, Eq)]
enum ThisPod {
    /// It was not ready yet.
    Coming,
    OnRing,
    /// The others did not tell it what was removed since.
    OffRing,
}

impl PodWatch {
    /// # Errors
    /// No API server is known, or this pod has no account there; a text for people.
    pub(super) fn new(found: FoundNodes, pods: &PodSelector) -> Result<PodWatch, String> {
        let settings = &found.peers.settings;
        // Kubernetes sets both in every pod.
        let variable = |name| std::env::var(name).ok().filter(|text| !text.is_empty());
        let host = variable("KUBERNETES_SERVICE_HOST")
            .ok_or("peers: `pods:` needs an API server of Kubernetes: KUBERNETES_SERVICE_HOST is not set")?;
        let port = match variable("KUBERNETES_SERVICE_PORT") {
            Some(port) => port.parse().map_err(|_| format!("KUBERNETES_SERVICE_PORT: `{port}` is not a port"))?,
            None => 443,
        };
        let account =
            |reason| format!("{reason} (peers-service-account: does the pod mount the token of its account?)");
        let server = ApiServer::new((host, port), &settings.service_account).map_err(account)?;
        let namespace = server.namespace().map_err(account)?;
        let escaped = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
        let path = format!("/api/v1/namespaces/{}/pods?labelSelector={}", escaped(&namespace), escaped(&pods.labels));
        let pods = ReadyPods::new(pods.port, settings.refresh);
        Ok(PodWatch { found, server, path, pods, version: None, this: ThisPod::Coming })
    }

    /// Lists the pods once.
    pub(super) async fn look_up(&mut self) {
        let listed = async { self.list(&mut self.server.connect().await?).await };
        match listed.await {
            Ok(list) => self.take_list(list),
            Err(error) => self.failed(error),
        }
    }

    pub(super) async fn keep_looking(mut self) {
        let mut wait = FIRST_WAIT;
        loop {
            match self.follow().await {
                Ok(true) => wait = FIRST_WAIT,
                Ok(false) => {}
                Err(error) => self.failed(error),
            }
            let until = Instant::now() + jittered(wait);
            while Instant::now() < until {
                self.wait_until(until).await;
            }
            wait = LONGEST_WAIT.min(wait * 2);
        }
    }

    fn failed(&mut self, error: ApiError) {
        match error {
            ApiError::Outdated => self.version = None,
            ApiError::Failed(reason) => self.found.take(Err(reason)),
        }
    }

    /// Lists if need be, then watches to the end of the watch. Whether anything came.
    async fn follow(&mut self) -> Result<bool, ApiError> {
        let mut connection = self.server.connect().await?;
        if self.version.is_none() {
            let list = self.list(&mut connection).await?;
            self.take_list(list);
        }
        let patience = jittered(WATCH);
        let version = utf8_percent_encode(self.version.as_deref().unwrap_or_default(), NON_ALPHANUMERIC);
        let (path, seconds) = (&self.path, patience.as_secs());
        let path =
            format!("{path}&watch=true&allowWatchBookmarks=true&resourceVersion={version}&timeoutSeconds={seconds}");
        let body = connection.get(&path).await?;
        let nodes = self.nodes();
        self.found.take(Ok(nodes));
        self.watch(&connection, body, Instant::now() + patience + WATCH_OVERDUE).await
    }

    /// All pods, page by page, and the version of the list.
    async fn list(&self, connection: &mut ApiConnection) -> Result<(Vec<Pod>, String), ApiError> {
        let (mut pods, mut path) = (Vec::new(), format!("{}&limit={PAGE}", self.path));
        loop {
            let body = connection.get(&path).await?;
            let body = connection.whole(body, LARGEST_PAGE).await?;
            let page = read_page(&body).map_err(|reason| connection.failed(reason))?;
            pods.extend(page.pods);
            if pods.len() > MOST {
                return Err(connection.failed(format_args!("more than {MOST} pods are selected")).into());
            }
            if page.next.is_empty() {
                return Ok((pods, page.version));
            }
            path = format!("{}&limit={PAGE}&continue={}", self.path, utf8_percent_encode(&page.next, NON_ALPHANUMERIC));
        }
    }

    fn take_list(&mut self, (pods, version): (Vec<Pod>, String)) {
        self.note_this_pod();
        self.version = Some(version);
        self.pods.replace(pods, Instant::now());
        let nodes = self.nodes();
        self.found.take(Ok(nodes));
    }

    /// Takes events until the watch ends. Whether there was one.
    async fn watch(
        &mut self,
        connection: &ApiConnection,
        mut body: Incoming,
        deadline: Instant,
    ) -> Result<bool, ApiError> {
        let (mut line, mut had_any) = (Vec::new(), false);
        loop {
            let data = tokio::select! {
                frame = body.frame() => match frame {
                    // Cut off, or the server's time for it is over. The next attempt says what is wrong, if anything is.
                    None | Some(Err(_)) => return Ok(had_any),
                    Some(Ok(frame)) => frame.into_data().unwrap_or_default(),
                },
                () = self.wait_until(deadline) => match Instant::now() < deadline {
                    true => continue,
                    false => return Ok(had_any),
                },
            };
            for part in data.split_inclusive(|byte| *byte == b'\n') {
                if line.len() + part.len() > LARGEST_EVENT {
                    return Err(connection.failed(format_args!("an event of more than {LARGEST_EVENT} bytes")).into());
                }
                line.extend_from_slice(part);
                if line.ends_with(b"\n") {
                    let event = read_event(&line).map_err(|reason| connection.failed(reason))?;
                    line.clear();
                    had_any = true;
                    self.take_event(event).map_err(|error| match error {
                        ApiError::Failed(reason) => connection.failed(reason).into(),
                        ApiError::Outdated => ApiError::Outdated,
                    })?;
                }
            }
        }
    }

    fn take_event(&mut self, event: PodEvent) -> Result<(), ApiError> {
        self.note_this_pod();
        let now = Instant::now();
        self.version = Some(match event {
            PodEvent::Is(pod, version) => {
                self.pods.is(pod, now);
                version
            }
            PodEvent::Gone(name, version) => {
                self.pods.gone(&name, now);
                version
            }
            PodEvent::Bookmark(version) => version,
            PodEvent::Outdated => return Err(ApiError::Outdated),
            PodEvent::Failed(reason) => return Err(ApiError::Failed(reason)),
        });
        self.show();
        Ok(())
    }

    /// Waits until then, or until a pod leaves the ring.
    async fn wait_until(&mut self, until: Instant) {
        let leaves = self.pods.next_leaves(Instant::now());
        sleep_until(leaves.map_or(until, |leaves| leaves.min(until))).await;
        self.show();
    }

    /// Puts the nodes on the ring, whether or not the server answers just now.
    fn show(&mut self) {
        let nodes = self.nodes();
        self.found.peers.replace(nodes);
    }

    fn nodes(&mut self) -> Vec<PeerNode> {
        self.note_this_pod();
        unique(&self.pods.nodes(Instant::now()), self.found.peers.this())
    }

    /// Notes whether the others may have this pod off their rings. Call it also before a change of
    /// pods: they see a change earlier or later than this node. So the pod counts as off the
    /// rings once half of the time has passed for which one that is not ready stays.
    fn note_this_pod(&mut self) {
        let peers = &self.found.peers;
        let soon = Instant::now() + peers.settings.refresh / 2;
        let is_there = unique(&self.pods.nodes(soon), peers.this()).iter().any(|node| node.address == *peers.this());
        match (is_there, &self.this) {
            (true, ThisPod::Coming) => self.this = ThisPod::OnRing,
            (false, ThisPod::OnRing) => self.this = ThisPod::OffRing,
            (true, ThisPod::OffRing) => {
                tracing::warn!("this pod was not ready and off the rings of the others: it forgets its copies");
                peers.forget_copies();
                self.this = ThisPod::OnRing;
            }
            _ => {}
        }
    }
}
