//! The command line: `larder` (which is `larder serve`), `larder config …`, `larder snapshot …`,
//! `larder store …`, `larder table …`, `larder cassandra …`, `larder copy`, and the client `larder get|set|del`.
//!
//! The exit codes of all of them are one table (`exit_codes`).
mod cassandra_commands;
mod client_commands;
mod command_line;
mod convert_command;
mod copy_command;
mod copy_ends;
mod examples;
mod exit_codes;
mod input_args;
mod output;
mod progress_bar;
mod served_table;
mod shell_files;
mod snapshot_commands;
mod store_commands;
mod table_commands;

pub use command_line::main;
