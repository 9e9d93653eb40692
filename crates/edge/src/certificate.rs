//! Parsing of X.509 certificates: subject, caller name and expiry.

use crate::token_file::check_name;
use time::{Duration, OffsetDateTime};
use x509_cert::TbsCertificate;
use x509_cert::der::asn1::ObjectIdentifier;
use x509_cert::der::{Decode, Error};
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::{DirectoryString, GeneralName};

/// Object identifier of the common name attribute (RFC 4519, 2.3).
const COMMON_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.3");

/// Fields of a parsed certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Certificate {
    /// Serial number in hexadecimal digits.
    pub(crate) serial: String,
    /// Subject, for the log.
    pub(crate) subject: String,
    /// Name of the caller, if it is a valid one.
    pub(crate) caller: Option<String>,
    /// First moment at which it is no longer valid.
    pub(crate) expires: OffsetDateTime,
}

impl Certificate {
    /// Parses a certificate in DER.
    ///
    /// # Errors
    /// Malformed DER.
    pub(crate) fn read(der: &[u8]) -> Result<Self, Error> {
        let certificate = x509_cert::Certificate::from_der(der)?;
        let certificate = certificate.tbs_certificate();
        let serial = certificate.serial_number().as_bytes();
        let last = certificate.validity().not_after.to_unix_duration();
        let last = i64::try_from(last.as_secs()).unwrap_or(i64::MAX);
        // DER years end at 9999, as those of the type.
        let last = OffsetDateTime::from_unix_timestamp(last);
        let last = last.unwrap_or(time::PrimitiveDateTime::MAX.assume_utc());
        Ok(Self {
            serial: serial.iter().map(|byte| format!("{byte:02x}")).collect(),
            subject: certificate.subject().to_string(),
            caller: caller(certificate).filter(|name| check_name(name).is_ok()),
            // The last second is included.
            expires: last.saturating_add(Duration::SECOND),
        })
    }
}

/// Returns the common name, or the first DNS name if the subject has no common name.
fn caller(certificate: &TbsCertificate) -> Option<String> {
    let attributes = certificate.subject().iter();
    let mut common_names = attributes.filter(|it| it.oid == COMMON_NAME);
    match (common_names.next(), common_names.next()) {
        (None, _) => {
            let names = certificate.get_extension::<SubjectAltName>();
            let (_, SubjectAltName(names)) = names.ok()??;
            names.into_iter().find_map(|name| match name {
                GeneralName::DnsName(name) => Some(name.to_string()),
                _ => None,
            })
        }
        (Some(one), None) => {
            let name = one.value.decode_as::<DirectoryString>().ok()?;
            Some(name.value().into_owned())
        }
        // Ambiguous: another program may pick another of these names.
        (Some(_), Some(_)) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, SanType};
    use std::net::{IpAddr, Ipv4Addr};

    fn read(common_names: &[&str], dns_names: &[&str]) -> Certificate {
        let mut subject = CertificateParams::default();
        subject.distinguished_name = DistinguishedName::new();
        // rcgen has one value of a type: the same type under another name makes two.
        let kinds = [DnType::CommonName, DnType::CustomDnType(vec![2, 5, 4, 3])];
        for (kind, name) in kinds.into_iter().zip(common_names) {
            subject.distinguished_name.push(kind, *name);
        }
        let address = SanType::IpAddress(IpAddr::V4(Ipv4Addr::LOCALHOST));
        let names = dns_names
            .iter()
            .map(|&it| SanType::DnsName(it.try_into().unwrap()));
        subject.subject_alt_names = [address].into_iter().chain(names).collect();
        subject.serial_number = Some(vec![0x0a, 0xff].into());
        subject.not_after = rcgen::date_time_ymd(2040, 1, 2);
        let key = KeyPair::generate().unwrap();
        let certificate = subject.self_signed(&key).unwrap();
        Certificate::read(certificate.der()).unwrap()
    }

    #[test]
    fn a_common_name_counts_and_otherwise_the_first_dns_name() {
        for (common_names, dns_names, caller) in [
            (&["ward-3"][..], &["lab.example"][..], Some("ward-3")),
            (&[], &["lab.example", "other.example"], Some("lab.example")),
            (&[], &["*.example", "other.example"], None),
            (&[], &[], None),
            (&["the ward"], &["lab.example"], None),
            (&["a\nb"], &[], None),
            (&["ward", "lab"], &["lab.example"], None),
        ] {
            let read = read(common_names, dns_names);
            assert_eq!(read.caller.as_deref(), caller, "{common_names:?}");
        }
    }

    #[test]
    fn number_and_end_are_read_and_other_bytes_refused() {
        let read = read(&["ward"], &[]);
        assert_eq!((&*read.serial, &*read.subject), ("0aff", "CN=ward"));
        let last = rcgen::date_time_ymd(2040, 1, 2);
        assert_eq!(read.expires, last + Duration::SECOND);
        for bytes in [&b""[..], b"0", &[0x30, 0x03, 0x02, 0x01, 0x01]] {
            assert!(Certificate::read(bytes).is_err());
        }
    }
}
