//! Of which commands whole replies may be kept: those that the server calls `readonly`, that do not
//! wait, and whose reply follows from their arguments and the value of one key. The server's own
//! table says most of it; what it does not say is listed here.

/// Commands whose replies are never kept, although the server's table would let them pass (that of
/// version 7 or of an older one, which has no tips). `*` stands for any rest of a name.
const NEVER: &[(&str, &str)] = &[
    // Time: the reply changes while the key does not.
    ("ttl", "time"),
    ("pttl", "time"),
    ("expiretime", "time"),
    ("pexpiretime", "time"),
    ("httl", "time"),
    ("hpttl", "time"),
    ("hexpiretime", "time"),
    ("hpexpiretime", "time"),
    ("xpending", "time: how long entries are idle"),
    ("xinfo*", "time: how long consumers are idle"),
    // Random replies.
    ("randomkey", "chance"),
    ("srandmember", "chance"),
    ("hrandfield", "chance"),
    ("zrandmember", "chance"),
    ("vrandmember", "chance"),
    ("vsim", "chance: an approximation"),
    ("vlinks", "chance: an approximation"),
    // State of the server, which changes without the key or is changed by the command.
    ("object*", "state: idle time, access counts, encodings"),
    ("debug*", "state"),
    ("memory*", "state: the allocator"),
    ("pfdebug", "state"),
    ("vinfo", "state"),
    ("dump", "state: the format is the server version's"),
    ("touch", "state: it is called for what it does"),
    ("scan", "state: cursors"),
    ("sscan", "state: cursors"),
    ("hscan", "state: cursors"),
    ("zscan", "state: cursors"),
    ("pfcount", "state: it may write"),
    // They depend on more than the named key.
    ("sort_ro", "other keys: BY and GET"),
    ("sort", "other keys: BY and GET"),
    ("eval*", "a script may do anything"),
    ("fcall*", "a script may do anything"),
];

/// Modules whose commands touch only the keys that they name. Other modules are unknown.
const MODULES: &[&str] = &["json.", "bf.", "cf.", "cms.", "topk.", "tdigest."];
/// Suffixes of module commands that show state instead of a value (for subcommands, suffixes of the
/// parent).
const MODULE_STATE: &[&str] = &["info", "debug", "scandump", "resp"];

/// May replies to this command, `readonly` and not blocking, be kept? The name is in lower case, a
/// subcommand's behind `|`; `module`: it is a module's.
pub(super) fn is_cacheable(name: &str, module: bool) -> bool {
    let listed = |pattern: &str| match pattern.strip_suffix('*') {
        Some(begin) => name.starts_with(begin),
        None => name == pattern,
    };
    if NEVER.iter().any(|(pattern, _)| listed(pattern)) {
        return false;
    }
    let parent = name.split('|').next().unwrap_or_default();
    let of_module = module || name.contains('.');
    !of_module || touches_named_keys(name) && !MODULE_STATE.iter().any(|state| parent.ends_with(state))
}

/// Whether this command of a module touches no other keys than its arguments name.
pub(super) fn touches_named_keys(name: &str) -> bool {
    MODULES.iter().any(|module| name.starts_with(module))
}

/// Whether the tip says that the same value may give different replies. (A different order does no
/// harm.)
pub(super) fn is_nondeterministic(tip: &[u8]) -> bool {
    tip.eq_ignore_ascii_case(b"nondeterministic_output")
}
