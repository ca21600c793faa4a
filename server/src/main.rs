//! `larder`: arguments, configuration, rooms, run, drain.
fn main() {}
