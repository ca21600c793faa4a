//! The command line: `larder` (which is `larder serve`), `larder config …`, `larder snapshot …`, `larder store …`, `larder table …`, and the client `larder get|set|del`.
//!
//! Exit codes: 0 done; 1 the server ended in an error, or the key is absent; 2 the command line or the configuration is wrong (with
//! every problem on standard error); 3 the client could not get an answer.
mod client_commands;
mod command_line;
mod convert_command;
mod output;
mod snapshot_commands;
mod store_commands;
mod table_commands;

pub use command_line::main;
