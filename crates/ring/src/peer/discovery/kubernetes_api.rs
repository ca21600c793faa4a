//! The API server of Kubernetes as a pod reaches it: TLS with the cluster's own authority, and the
//! token of the pod's service account (<https://kubernetes.io/docs/tasks/run-application/access-api-from-pod/>). One connection, one request at a time.
use bytes::Bytes;
use http::{HeaderValue, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Empty};
use hyper::{body::Incoming, client::conn::http1::SendRequest};
use larder_base::{
    outbound::{connect_tcp, speak_http1},
    tls::ClientTls,
};
use larder_config::TlsClientSettings;
use serde::Deserialize;
use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};
use tokio::time::timeout;

/// For the connection, and for the head of a response.
const PATIENCE: Duration = Duration::from_secs(10);
/// Bytes of a response that says what is wrong.
const LARGEST_STATUS: usize = 64 << 10;

/// Where the API server is, and the folder with what this pod shows it.
pub(super) struct ApiServer {
    host: String,
    port: u16,
    account: PathBuf,
}

/// Why there is no answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ApiError {
    /// 410 Gone: the version is older than what the server remembers. Only a new list helps.
    Outdated,
    /// A text for people.
    Failed(String),
}

impl From<String> for ApiError {
    fn from(reason: String) -> ApiError {
        ApiError::Failed(reason)
    }
}

impl ApiServer {
    /// # Errors
    /// The account's files cannot be read; a text for people.
    pub(super) fn new((host, port): (String, u16), account: &Path) -> Result<ApiServer, String> {
        let server = ApiServer { host, port, account: account.to_owned() };
        server.tls()?;
        server.token()?;
        Ok(server)
    }

    pub(super) fn namespace(&self) -> Result<String, String> {
        self.read("namespace")
    }

    fn read(&self, name: &str) -> Result<String, String> {
        let file = self.account.join(name);
        let text = fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
        match text.trim() {
            "" => Err(format!("{}: it is empty", file.display())),
            text => Ok(text.to_owned()),
        }
    }
    fn token(&self) -> Result<HeaderValue, String> {
        let token = self.read("token")?;
        let mut value = HeaderValue::from_str(&format!("Bearer {token}"))
            .map_err(|_| format!("{}: it is not a token", self.account.join("token").display()))?;
        value.set_sensitive(true);
        Ok(value)
    }
    fn tls(&self) -> Result<ClientTls, String> {
        let settings = TlsClientSettings { ca: Some(self.account.join("ca.crt")), ..TlsClientSettings::default() };
        ClientTls::new(&settings, &self.host, &[b"http/1.1"])
    }

    /// Opens a connection. Kubernetes replaces token and authority while the pod runs, so both are
    /// read again.
    pub(super) async fn connect(&self) -> Result<ApiConnection, String> {
        let (tls, token) = (self.tls()?, self.token()?);
        let connecting = async {
            let stream = connect_tcp(&self.host, self.port, Some(&tls)).await.map_err(|error| error.to_string())?;
            speak_http1(stream).await.map_err(|error| error.to_string())
        };
        let connected = timeout(PATIENCE, connecting).await.unwrap_or_else(|_| Err("no connection in time".to_owned()));
        let sender = connected.map_err(|reason| format!("{self}: {reason}"))?;
        let host = HeaderValue::from_str(&format!("{}:{}", self.host, self.port)).ok();
        Ok(ApiConnection { sender, token, host, name: self.to_string() })
    }
}

impl std::fmt::Display for ApiServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Kubernetes API server {}:{}", self.host, self.port)
    }
}

pub(super) struct ApiConnection {
    sender: SendRequest<Empty<Bytes>>,
    token: HeaderValue,
    host: Option<HeaderValue>,
    name: String,
}

/// What the server says with an error: an object of kind `Status`.
#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct StatusObject {
    pub(super) code: u16,
    pub(super) message: String,
}

impl ApiConnection {
    /// `GET`: the body of a response 200.
    pub(super) async fn get(&mut self, path: &str) -> Result<Incoming, ApiError> {
        let mut request = Request::new(Empty::new());
        *request.uri_mut() = path.parse().map_err(|_| format!("`{path}` is not a path"))?;
        let headers = request.headers_mut();
        headers.insert(header::AUTHORIZATION, self.token.clone());
        headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
        headers.extend(self.host.clone().map(|host| (header::HOST, host)));
        let sending = async {
            self.sender.ready().await?;
            self.sender.send_request(request).await
        };
        let response = match timeout(PATIENCE, sending).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => return Err(self.failed(error).into()),
            Err(_) => return Err(self.failed("no answer in time").into()),
        };
        match response.status() {
            StatusCode::OK => Ok(response.into_body()),
            StatusCode::GONE => Err(ApiError::Outdated),
            status => Err(self.failed(explained(status, response).await).into()),
        }
    }

    pub(super) async fn whole(&self, mut body: Incoming, largest: usize) -> Result<Vec<u8>, String> {
        let mut whole = Vec::new();
        while let Some(frame) = timeout(PATIENCE, body.frame()).await.map_err(|_| self.failed("no answer in time"))? {
            let Ok(data) = frame.map_err(|error| self.failed(error))?.into_data() else { continue };
            if whole.len() + data.len() > largest {
                return Err(self.failed(format_args!("an answer of more than {largest} bytes")));
            }
            whole.extend_from_slice(&data);
        }
        Ok(whole)
    }

    /// The reason with the server's name.
    pub(super) fn failed(&self, reason: impl std::fmt::Display) -> String {
        format!("{}: {reason}", self.name)
    }
}

async fn explained(status: StatusCode, response: Response<Incoming>) -> String {
    let body = http_body_util::Limited::new(response.into_body(), LARGEST_STATUS);
    let body = timeout(PATIENCE, body.collect()).await;
    let message = match body {
        Ok(Ok(body)) => serde_json::from_slice(&body.to_bytes()).unwrap_or_else(|_| StatusObject::default()).message,
        _ => String::new(),
    };
    let hint = match status {
        StatusCode::FORBIDDEN => ": the service account needs the rights to list and watch pods",
        StatusCode::UNAUTHORIZED => ": the service account's token is not taken",
        _ => "",
    };
    format!("{status}: {message}{hint}")
}
