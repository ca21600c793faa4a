//! `larder cassandra schema`: the table that a cluster needs.
use super::output::{complain, print};
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use larder_config::SourceUrl;
use larder_source::{apply_cassandra_schema, cassandra_schema};
use std::process::ExitCode;

pub(super) fn command() -> Command {
    Command::new("cassandra")
        .about("Prepare a Cassandra or ScyllaDB cluster")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(
            Command::new("schema")
                .about("Print the statements that make the keyspace and the table of a source")
                .arg(
                    Arg::new("url")
                        .value_name("URL")
                        .required(true)
                        .value_parser(value_parser!(SourceUrl))
                        .help("The source: cassandra://HOST/KEYSPACE?table=TABLE"),
                )
                .arg(
                    Arg::new("apply")
                        .long("apply")
                        .action(ArgAction::SetTrue)
                        .help("Run them on the cluster instead; what is there stays as it is"),
                )
                .arg(
                    Arg::new("replication")
                        .long("replication")
                        .value_name("N")
                        .default_value("3")
                        .value_parser(value_parser!(u16).range(1..))
                        .help("Copies of each row in a keyspace that is made, in the data centre `dc` of the URL or in each"),
                ),
        )
}

pub(super) fn run(matches: &ArgMatches) -> ExitCode {
    let Some((_, matches)) = matches.subcommand() else { return ExitCode::FAILURE };
    let Some(SourceUrl::Cassandra(url)) = matches.get_one::<SourceUrl>("url") else {
        complain("the URL is not that of a cluster: write cassandra://HOST/KEYSPACE");
        return ExitCode::from(super::exit_codes::USAGE);
    };
    if url.columns.is_some() {
        complain("the URL names the columns of another table: leave out key and columns");
        return ExitCode::from(super::exit_codes::USAGE);
    }
    let replication = *matches.get_one::<u16>("replication").expect("it has a default");
    if matches.get_flag("apply") {
        return match apply_cassandra_schema(url, replication) {
            Ok(()) => print(&format!("The table {}.{} is there.\n", url.keyspace, url.table)),
            Err(error) => {
                complain(error);
                ExitCode::FAILURE
            }
        };
    }
    print(&cassandra_schema(url, replication).map(|statement| format!("{statement};\n")).concat())
}
