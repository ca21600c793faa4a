//! What the HTTP connections of one worker share: their deadlines, the buffers of the fast path,
//! and answers that take long to make.
use super::connection_deadlines::ConnectionDeadlines;
use crate::{nodes::primary_connections::PrimaryConnections, observe::kept_answer::KeptAnswer};
use larder_proto::{http::text::Date, output::Output};
use std::{cell::RefCell, rc::Rc};

/// What the HTTP connections of one worker share.
#[derive(Debug, Default)]
pub struct HttpWorkerState {
    pub(crate) deadlines: Rc<ConnectionDeadlines>,
    pub(crate) turn_buffers: RefCell<TurnBuffers>,
    pub(crate) primary: PrimaryConnections,
    pub(crate) contents: KeptAnswer,
    pub(crate) hot_keys: KeptAnswer,
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
