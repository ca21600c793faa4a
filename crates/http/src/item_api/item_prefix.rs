//! The paths of the item API below its prefix, which is a setting.

use larder_proto::http::target;

/// The prefix in the table of routes and in `openapi.json`; the default of `item-prefix`.
pub(crate) const TABLE_PREFIX: &str = "/cache/v1";

/// A path of a request, as the table of routes has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ItemPath<'p> {
    /// Not below the prefix.
    Other(&'p str),
    /// The API's paths: the rest of the path, which begins with `/`.
    Below(&'p str),
    /// It would be one of the API's, but the prefix is another one, or off.
    Elsewhere,
}

pub(crate) fn of_path<'p>(path: &'p str, prefix: Option<&str>) -> ItemPath<'p> {
    let below = |prefix: &str| path.strip_prefix(prefix).filter(|rest| rest.is_empty() || rest.starts_with('/'));
    match prefix {
        Some(prefix) if below(prefix).is_some() => ItemPath::Below(below(prefix).unwrap_or_default()),
        Some(TABLE_PREFIX) => ItemPath::Other(path),
        _ if below(TABLE_PREFIX).is_some() => ItemPath::Elsewhere,
        _ => ItemPath::Other(path),
    }
}

/// The API's path that a client means by a path which is none: with empty segments, `.`, `..`
/// or escapes. GCache redirects clients to it.
pub(crate) fn meant_path(path: &str, prefix: Option<&str>) -> Option<String> {
    let mut scratch = Vec::new();
    let decoded = target::decode_path(path.as_bytes(), &mut scratch).ok()?;
    let mut segments = Vec::new();
    for segment in std::str::from_utf8(decoded).ok()?.split('/') {
        match segment {
            "" | "." => {}
            ".." => drop(segments.pop()),
            segment => segments.push(segment),
        }
    }
    let clean = format!("/{}", segments.join("/"));
    let is_meant = clean != path && matches!(of_path(&clean, prefix), ItemPath::Below("/item" | "/keys"));
    is_meant.then_some(clean)
}

impl ItemPath<'_> {
    /// The path in the table of routes; `None`: there is nothing at this path.
    pub(crate) fn in_table(&self) -> Option<&str> {
        match self {
            ItemPath::Other(path) => Some(path),
            // The two that exist, with and without a slash at the end.
            ItemPath::Below("/item" | "/item/") => Some("/cache/v1/item"),
            ItemPath::Below("/keys" | "/keys/") => Some("/cache/v1/keys"),
            ItemPath::Below(_) | ItemPath::Elsewhere => None,
        }
    }

    pub(crate) fn is_item(&self) -> bool {
        matches!(self, ItemPath::Below(_))
    }

    /// Whether it ends with a slash that it should not have.
    pub(crate) fn has_slash(&self) -> bool {
        matches!(self, ItemPath::Below(rest) if rest.ends_with('/'))
    }
}
