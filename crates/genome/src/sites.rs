//! Digest of a panel's sites, which an operator can publish and a client can store.

use std::io::{BufWriter, Write};

/// Largest number of sites of a panel.
pub const MAX_SITES: u32 = 1 << 24;

/// BLAKE3 digest of `"oboro v1 sites"` and of each site, in order. A site is the length of its chromosome's name
/// (4 bytes, 0 in an alignment), the name, and the position (8 bytes).
pub fn sites_digest<'s>(sites: impl IntoIterator<Item = (Option<&'s str>, u64)>) -> [u8; 32] {
    // The hash is fastest on large inputs.
    let mut out = BufWriter::with_capacity(1 << 16, blake3::Hasher::new());
    let mut put = |bytes: &[u8]| out.write_all(bytes).expect("a hash takes any bytes");
    put(b"oboro v1 sites");
    for (chromosome, position) in sites {
        let name = chromosome.unwrap_or_default().as_bytes();
        put(&(name.len() as u32).to_le_bytes());
        put(name);
        put(&position.to_le_bytes());
    }
    let hasher = out.into_inner().expect("a hash takes any bytes");
    *hasher.finalize().as_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_site_counts_and_so_does_their_order() {
        let of = |sites: &[(Option<&'static str>, u64)]| sites_digest(sites.iter().copied());
        let all = [
            of(&[]),
            of(&[(Some("7"), 100), (Some("7"), 200)]),
            of(&[(Some("7"), 200), (Some("7"), 100)]),
            of(&[(Some("7"), 100), (Some("8"), 200)]),
            of(&[(Some("7"), 100), (Some("7"), 201)]),
            of(&[(Some("7"), 100)]),
            of(&[(None, 100), (None, 200)]),
        ];
        for (i, x) in all.iter().enumerate() {
            assert!(all[..i].iter().all(|y| y != x));
        }
    }

    #[test]
    fn golden_vector() {
        // The first bytes of b3sum of "oboro v1 sites", 1, 0, 0, 0, "7", 100 in 8 bytes, 1, 0, 0, 0, "7", 200 in 8
        // bytes.
        let digest = sites_digest([(Some("7"), 100), (Some("7"), 200)]);
        assert_eq!(digest[..4], [51, 24, 144, 17]);
    }
}
