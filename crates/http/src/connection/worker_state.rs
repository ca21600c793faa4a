//! What the HTTP connections of one worker share: their deadlines, the buffers of the fast path,
//! answers that take long to make, and connections to the primary.
use super::connection_deadlines::ConnectionDeadlines;
use crate::messages::{response_body::ResponseBody, response_writer};
use bytes::Bytes;
use http::Response;
use larder_base::outbound::HttpClient;
use larder_core::app::Worker;
use larder_engine::Millis;
use larder_proto::{http::text::Date, output::Output};
use larder_redis::{CommandAccess, connection::BufferPool};
use std::{
    cell::{OnceCell, RefCell},
    rc::Rc,
    sync::Arc,
};

/// What the HTTP connections of one worker share.
#[derive(Debug, Default)]
pub struct HttpWorkerState {
    pub(crate) deadlines: Rc<ConnectionDeadlines>,
    pub(crate) turn_buffers: RefCell<TurnBuffers>,
    pub(crate) primary: HttpClient,
    pub(crate) contents: KeptAnswer,
    pub(crate) hot_keys: KeptAnswer,
    pub(crate) redis: RedisSessions,
}

/// What the sessions of Redis over HTTP share.
#[derive(Debug, Default)]
pub(crate) struct RedisSessions {
    pub(crate) pool: Rc<BufferPool>,
    access: OnceCell<[Arc<CommandAccess>; 2]>,
}

impl RedisSessions {
    /// What clients may do: the same as those of `redis`, except that it takes a login to
    /// administer the server.
    pub(crate) fn access(&self, worker: &Worker, has_logged_in: bool) -> &Arc<CommandAccess> {
        let settings = &worker.app.settings;
        let made = || [CommandAccess::without_admin(settings), CommandAccess::of_listeners(settings).swap_remove(0)];
        &self.access.get_or_init(made)[usize::from(has_logged_in)]
    }
}

/// Input and output of the connection whose turn it is. They hold nothing between turns, so they
/// stay in the core's cache and an idle connection occupies no buffer.
#[derive(Debug)]
pub(crate) struct TurnBuffers {
    pub(crate) input: Box<[u8]>,
    pub(crate) output: Output,
    /// The body of an answer whose head needs its length.
    pub(crate) text: Vec<u8>,
    pub(crate) date: Date,
}

/// Bytes of input per turn. The general path takes a head that does not fit.
pub(crate) const INPUT: usize = 16 * 1024;

impl Default for TurnBuffers {
    fn default() -> Self {
        TurnBuffers { input: vec![0; INPUT].into(), output: Output::default(), text: Vec::new(), date: Date::default() }
    }
}

const KEPT_TIME: Millis = 1000;

/// The latest answer of a route whose answers take milliseconds to make. It stands for a second: the
/// open pages of a console ask the same in the same moment, and other requests of the worker would
/// wait for all of them.
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
        let stands = |kept: &&Answer| kept.of == of && (kept.at..kept.at + KEPT_TIME).contains(&now);
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
