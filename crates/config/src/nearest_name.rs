//! "Did you mean …?"

/// The candidate nearest to `name` by edit distance, if near enough to be what was meant (about a
/// third of its length).
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let name = name.to_ascii_lowercase().replace('_', "-");
    let distance =
        |candidate: &str| strsim::damerau_levenshtein(&name, &candidate.to_ascii_lowercase().replace('_', "-"));
    let near = candidates.into_iter().map(|c| (distance(c), c)).min_by_key(|(distance, _)| *distance)?;
    let (distance, candidate) = near;
    let allowed = match candidate.len() {
        0..=3 => 1,
        4..=8 => 2,
        len => (len / 3).min(4),
    };
    (distance <= allowed).then_some(candidate)
}

/// The name that Larder uses, of one that many other programs use.
pub(super) fn usual_name(text: &str) -> &str {
    if text.eq_ignore_ascii_case("warning") { "warn" } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_and_far() {
        let names = ["max-memory", "max-keys", "ttl", "http", "source-connections"];
        for (typed, meant) in [
            ("max-memry", Some("max-memory")),
            ("max_memory", Some("max-memory")),
            ("MAX-KEY", Some("max-keys")),
            ("tll", Some("ttl")),
            ("htpp", Some("http")),
            ("source-conection", Some("source-connections")),
            ("colour", None),
            ("abc", None),
            ("", None),
        ] {
            assert_eq!(nearest(typed, names), meant, "{typed}");
        }
    }
}
