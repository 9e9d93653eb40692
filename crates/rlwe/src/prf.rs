//! Pseudo-random function for everything that is derived from a master key.
//!
//! `PRF(key, label, fields) = HMAC-SHA-256(key, "oboro v1 " ‖ label ‖ 0x00 ‖ fields)`, each field preceded by its
//! length (4 bytes, little-endian): the encoding of inputs is injective.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use zeroize::Zeroizing;

pub(crate) type Output = Zeroizing<[u8; 32]>;

pub(crate) fn prf(key: &[u8; 32], label: &str, fields: &[&[u8]]) -> Output {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of any length");
    mac.update(b"oboro v1 ");
    mac.update(label.as_bytes());
    mac.update(&[0]);
    for field in fields {
        let length = u32::try_from(field.len()).expect("fields are short");
        mac.update(&length.to_le_bytes());
        mac.update(field);
    }
    Zeroizing::new(mac.finalize().into_bytes().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_do_not_run_into_each_other() {
        let key = [1; 32];
        let all = [
            prf(&key, "a", &[b"bc", b"d"]),
            prf(&key, "a", &[b"b", b"cd"]),
            prf(&key, "a", &[b"bcd"]),
            prf(&key, "ab", &[b"c", b"d"]),
            prf(&[2; 32], "a", &[b"bc", b"d"]),
        ];
        for (i, x) in all.iter().enumerate() {
            assert!(all[..i].iter().all(|y| y != x));
        }
    }

    #[test]
    fn golden_vector() {
        // Python: hmac.new(bytes([7])*32, b"oboro v1 test\0\x02\0\0\0ab\0\0\0\0", "sha256").hexdigest()[:16]
        assert_eq!(
            prf(&[7; 32], "test", &[b"ab", b""])[..8],
            [0x7b, 0x5e, 0x80, 0xeb, 0x97, 0xad, 0x35, 0x40]
        );
    }
}
