//! Location of a store, from arguments.

use crate::failure::Failure;
use bytesize::ByteSize;
use oboro_store::Location;
use std::path::Path;

/// Returns the location of a store: a directory, or a URL with a directory for its cache.
pub(super) fn location(
    data: &Path,
    cache: Option<&Path>,
    cache_size: Option<ByteSize>,
) -> Result<Location, Failure> {
    let url = data.to_str().filter(|data| data.contains("://"));
    match (url, cache) {
        (None, None) => Ok(Location::from(data)),
        (None, Some(_)) => Err(Failure::input(
            "--cache is for object storage; give its URL with --data, or leave --cache out",
        )),
        (Some(_), None) => Err(Failure::input(
            "object storage needs a local directory for uploads in progress and cached data; give one with --cache",
        )),
        (Some(url), Some(cache)) => Ok(Location::Objects {
            url: url.to_owned(),
            cache: cache.into(),
            cache_bytes: cache_size.map_or(u64::MAX, |size| size.as_u64()),
        }),
    }
}
