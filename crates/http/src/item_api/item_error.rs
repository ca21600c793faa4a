//! The errors of the item API: `{"code":…,"reason":"…"}`.
use crate::messages::{
    problem_json::{self, Problem},
    response_body::ResponseBody,
    response_writer::{JSON, insert_own_type},
};
use http::{HeaderValue, Method, Response, StatusCode, header};
use larder_proto::http::{json, text::Sink};
use std::time::Duration;

/// GCache's codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ErrorCode {
    NoEndpoint = 1,
    BadRequest = 2,
    NoKey = 10,
    NoValue = 11,
    BadTtl = 12,
    BadMask = 13,
    NotFound = 21,
    CannotSet = 22,
}

impl ErrorCode {
    /// GCache's words for it.
    fn reason(self) -> &'static str {
        match self {
            ErrorCode::NoEndpoint => "endpoint not found",
            ErrorCode::BadRequest => "cannot decode request",
            ErrorCode::NoKey => "no key provided",
            ErrorCode::NoValue => "no value provided",
            ErrorCode::BadTtl => "bad key TTL",
            ErrorCode::BadMask => "bad key mask",
            ErrorCode::NotFound => "value not found",
            ErrorCode::CannotSet => "cannot save provided data",
        }
    }
}

#[derive(Debug)]
pub(super) struct ItemError {
    status: StatusCode,
    code: ErrorCode,
    /// What GCache does not have and so has no words for: a limit, a source that fails.
    detail: Option<String>,
    retry_after: Option<Duration>,
}

impl From<ErrorCode> for ItemError {
    fn from(code: ErrorCode) -> ItemError {
        ItemError { status: StatusCode::BAD_REQUEST, code, detail: None, retry_after: None }
    }
}

impl ItemError {
    pub(super) fn of(code: ErrorCode, detail: impl Into<String>) -> ItemError {
        ItemError { detail: Some(detail.into()), ..code.into() }
    }

    /// A read that failed. It keeps its status: the value may exist, so this must not look like an
    /// absent one.
    pub(super) fn read_failed(problem: &Problem) -> ItemError {
        ItemError { status: problem.status(), ..ItemError::failed(ErrorCode::NotFound, problem) }
    }

    /// The rules of the user do not allow it.
    pub(super) fn forbidden(problem: &Problem) -> ItemError {
        ItemError { status: problem.status(), ..ItemError::failed(ErrorCode::BadRequest, problem) }
    }

    /// A write that was refused is a 400, as every refusal of this API; one that may be tried again
    /// keeps its status.
    pub(super) fn write_failed(problem: &Problem) -> ItemError {
        let status = match problem.status() {
            StatusCode::SERVICE_UNAVAILABLE => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::BAD_REQUEST,
        };
        ItemError { status, ..ItemError::failed(ErrorCode::CannotSet, problem) }
    }

    fn failed(code: ErrorCode, problem: &Problem) -> ItemError {
        ItemError { retry_after: problem.retry_after(), ..ItemError::of(code, problem.sentence()) }
    }

    #[cfg(test)]
    pub(super) fn code(&self) -> ErrorCode {
        self.code
    }

    /// Writes the whole document. An error that has a header beside it is left to
    /// [`ItemError::into_response`].
    pub(super) fn write(self, text: &mut Vec<u8>) -> Result<StatusCode, ItemError> {
        if self.retry_after.is_some() {
            return Err(self);
        }
        text.clear();
        self.put_text(text);
        Ok(self.status)
    }

    fn put_text(&self, out: &mut Vec<u8>) {
        out.put(b"{\"code\":");
        out.put(itoa::Buffer::new().format(self.code as u8).as_bytes());
        out.put(b",\"reason\":");
        match &self.detail {
            None => json::write(out, self.code.reason().as_bytes()),
            Some(detail) => json::write(out, format!("{}: {detail}", self.code.reason()).as_bytes()),
        }
        out.put(b"}\n");
    }

    pub(super) fn into_response(self) -> Response<ResponseBody> {
        let mut body = Vec::new();
        self.put_text(&mut body);
        let mut response = Response::new(ResponseBody::full(body));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        insert_own_type(headers, JSON);
        if let Some(wait) = self.retry_after {
            headers.insert(header::RETRY_AFTER, problem_json::retry_after(wait));
        }
        response
    }
}

/// The answer to a request below the prefix that the router or the reader of bodies refused.
pub(crate) fn error_response(method: &Method, problem: Problem) -> Response<ResponseBody> {
    let is_read = matches!(*method, Method::GET | Method::HEAD);
    match problem.status() {
        StatusCode::NOT_FOUND => {
            let error = ItemError { status: StatusCode::NOT_FOUND, ..ErrorCode::NoEndpoint.into() };
            error.into_response()
        }
        StatusCode::METHOD_NOT_ALLOWED => {
            let mut response = Response::new(ResponseBody::empty());
            *response.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
            if let Some(allow) = problem.allow() {
                response.headers_mut().insert(header::ALLOW, allow.clone());
            }
            response
        }
        StatusCode::SERVICE_UNAVAILABLE if is_read => ItemError::read_failed(&problem).into_response(),
        StatusCode::SERVICE_UNAVAILABLE | StatusCode::PAYLOAD_TOO_LARGE if !is_read => {
            ItemError::write_failed(&problem).into_response()
        }
        status => {
            let error = ItemError { status, ..ItemError::failed(ErrorCode::BadRequest, &problem) };
            error.into_response()
        }
    }
}

/// `/item/` leads to `/item`. The query goes along.
pub(crate) fn redirect(path: &str, query: &[u8]) -> Response<ResponseBody> {
    let mut target = path.trim_end_matches('/').as_bytes().to_vec();
    if !query.is_empty() {
        target.push(b'?');
        target.extend_from_slice(query);
    }
    let mut response = Response::new(ResponseBody::empty());
    *response.status_mut() = StatusCode::MOVED_PERMANENTLY;
    if let Ok(target) = HeaderValue::from_bytes(&target) {
        response.headers_mut().insert(header::LOCATION, target);
    }
    response
}
