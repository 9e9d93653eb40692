//! Helpers of this crate's tests, besides the datasets of the format's tests.

use crate::{Access, Store};
use oboro_format::Bundle;

pub(crate) use oboro_format::testing::*;

/// Uploads the missing segments under the name "a".
pub(crate) fn send(store: &Store, bundle: &Bundle) {
    send_as(&store.access(), "a", bundle);
}

/// As [`send`], for any caller and name.
pub(crate) fn send_as(access: &Access, name: &str, bundle: &Bundle) {
    let status = access.begin_upload(name, &bundle.manifest().encode());
    let upload = access.of_upload(name).unwrap();
    let segments = status.unwrap().segments;
    for segment in segments.iter().filter(|segment| !segment.complete) {
        let bytes = std::fs::read(bundle.segment_path(segment.index)).unwrap();
        let mut receiver = upload
            .receive_segment(
                bundle.manifest().dataset,
                bundle.manifest().root(),
                segment.index,
                segment.bytes_received,
            )
            .unwrap();
        receiver
            .write(&bytes[segment.bytes_received as usize..])
            .unwrap();
        receiver.finish().unwrap();
    }
}
