//! Reads and writes through one group, with a source whose answers the tests script.
mod coherence_modes;
mod fetches_and_writes;
mod peer_simulation;
mod random_interleavings;
mod scripted_source;
