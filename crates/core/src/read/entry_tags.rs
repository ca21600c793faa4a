//! The limits of tags, for all who take them from clients and sources.
use larder_engine::Attributes;

/// Whether these can be the tags of an entry; if not, which limit they are over.
///
/// # Errors
/// A sentence that names the limit.
pub fn check_tags<T: AsRef<[u8]>>(tags: &[T]) -> Result<(), String> {
    if tags.len() > Attributes::MAX_TAGS {
        return Err(too_many_tags());
    }
    match tags.iter().all(|tag| (1..=Attributes::MAX_TAG).contains(&tag.as_ref().len())) {
        true => Ok(()),
        false => Err(format!("a tag has 1 to {} bytes", Attributes::MAX_TAG)),
    }
}

/// What is said of an entry with too many tags.
pub fn too_many_tags() -> String {
    format!("an entry has at most {} tags", Attributes::MAX_TAGS)
}
