//! A command as rules see it.
use larder_config::Categories;

/// The command that a client wants to run.
#[derive(Debug, Clone, Copy)]
pub struct CommandRequest<'a> {
    /// Its place in the catalog; `None`: it is not there.
    pub place: Option<usize>,
    /// In lower case; a subcommand is `parent|name`.
    pub name: &'a str,
    /// Its ACL categories; `None`: they are not known.
    pub categories: Option<Categories>,
    /// The argument behind the name (`0` of `SELECT 0`), by which a rule `+select|0` decides.
    pub first_argument: Option<&'a [u8]>,
}
