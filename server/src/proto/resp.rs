//! RESP2 and RESP3, both sides: borrowed commands in, replies out; and reply parsing for upstream connections.
