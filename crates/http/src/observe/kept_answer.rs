//! The latest answer of a route whose answers take milliseconds to make. It stands for a second: the
//! open pages of a console ask the same in the same moment, and other requests of the worker would
//! wait for all of them.
use crate::messages::{response_body::ResponseBody, response_writer};
use bytes::Bytes;
use http::Response;
use larder_engine::Millis;
use std::cell::RefCell;

const KEPT: Millis = 1000;

/// An answer, of one worker.
#[derive(Debug, Default)]
pub(crate) struct KeptAnswer(RefCell<Option<Answer>>);

#[derive(Debug)]
struct Answer {
    at: Millis,
    /// What was asked, and the state that the answer is about.
    of: (usize, u64),
    body: Bytes,
}

impl KeptAnswer {
    /// The answer to the same question about the same state, or a new one.
    pub(crate) fn or_make(
        &self,
        of: (usize, u64),
        now: Millis,
        make: impl FnOnce() -> String,
    ) -> Response<ResponseBody> {
        let mut kept = self.0.borrow_mut();
        let stands = |kept: &&Answer| kept.of == of && (kept.at..kept.at + KEPT).contains(&now);
        let body = match kept.as_ref().filter(stands) {
            Some(kept) => kept.body.clone(),
            None => {
                let body = Bytes::from(make());
                *kept = Some(Answer { at: now, of, body: body.clone() });
                body
            }
        };
        response_writer::json(ResponseBody::full(body))
    }
}
