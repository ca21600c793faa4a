//! `larder get|set|del KEY [VALUE]`: one request to any Larder or Redis, over HTTP or the Redis
//! protocol; `larder peers`: the ring; `larder config diff`; `larder health|status|top`: a running
//! server; `larder advise`: what another size would do for it.
mod advise;
mod client_request;
mod config_diff;
mod get_set_del;
mod over_http;
mod over_redis;
mod server_status;
mod show_peers;
mod status_table;
mod terminal_keys;
mod tls_args;

pub(super) use advise::{command as advise_command, run as run_advise};
pub(super) use config_diff::{command as config_diff_command, run as run_config_diff};
pub(super) use get_set_del::{URL_VARIABLE, commands, run};
pub(super) use server_status::{commands as server_commands, run_health, run_status, run_top};
pub(super) use show_peers::{command as peers_command, run as run_peers};
