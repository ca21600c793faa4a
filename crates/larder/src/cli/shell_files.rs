//! Files for the shell and for `man`, made from the definition of the command line.
use super::{
    exit_codes::USAGE,
    output::{complain, print, print_bytes},
};
use clap::{Arg, ArgMatches, Command, ValueEnum as _, value_parser};
use clap_complete::Shell;
use larder_config::{flag_args, with_candidates};
use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

/// `completions` and `man`.
pub(super) fn commands() -> [Command; 2] {
    let shell =
        Arg::new("shell").value_name("SHELL").required(true).value_parser(value_parser!(Shell)).help("The shell");
    let folder = Arg::new("folder")
        .long("out")
        .value_name("DIR")
        .value_parser(value_parser!(PathBuf))
        .help("Write one page per command into this directory instead of larder(1) to standard output");
    [
        Command::new("completions")
            .about("Print the completion script for a shell")
            .arg(shell)
            .after_help("bash: larder completions bash > /etc/bash_completion.d/larder"),
        Command::new("man").about("Print the manual page").arg(folder).after_help("larder man | man -l -"),
    ]
}

/// `larder completions SHELL`, for this command line.
pub(super) fn completions(matches: &ArgMatches, larder: Command) -> ExitCode {
    let shell = *matches.get_one::<Shell>("shell").expect("clap demands it");
    let mut out = Vec::new();
    // Without a command, the flags are those of `serve`.
    let mut larder = offered(larder.args(flag_args()));
    clap_complete::generate(shell, &mut larder, "larder", &mut out);
    let script = String::from_utf8(out).expect("clap_complete writes text");
    print(&match shell {
        // With two colons, zsh takes every further word for a key: also the flags.
        Shell::Zsh => script.replace("'*::key --", "'*:key --"),
        // For fish, clap_complete leaves out the values of positional arguments.
        Shell::Fish => {
            let shells: Vec<_> = Shell::value_variants().iter().map(ToString::to_string).collect();
            let of = "complete -c larder -n \"__fish_larder_using_subcommand completions\"";
            format!("{script}{of} -f -a \"{}\"\n", shells.join(" "))
        }
        _ => script,
    })
}

/// The command with what shells offer for its values, and its subcommands with theirs.
fn offered(command: Command) -> Command {
    command.mut_args(with_candidates).mut_subcommands(offered)
}

/// `larder man`, of this command line.
pub(super) fn man(matches: &ArgMatches, larder: Command) -> ExitCode {
    match matches.get_one::<PathBuf>("folder") {
        None => {
            let mut out = Vec::new();
            clap_mangen::Man::new(larder).render(&mut out).expect("a vector takes everything");
            print_bytes(&out)
        }
        Some(folder) => match pages(larder, folder) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                complain(format_args!("{}: {error}", folder.display()));
                ExitCode::from(USAGE)
            }
        },
    }
}

fn pages(larder: Command, folder: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(folder)?;
    clap_mangen::generate_to(larder, folder)
}
