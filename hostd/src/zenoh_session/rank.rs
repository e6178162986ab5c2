//! Which of two hosts makes the Zenoh connection between them: the one with the greater rank.
//!
//! Two at once become two links of one Zenoh transport, of which each side uses another: what is
//! queued on one that ends is lost, and messages come over a second one before Zenoh has a place
//! for them. The rank follows
//! from the name alone, so both sides know who dials before they have met. The identifier of a
//! session begins with it: where hosts find each other by scouting, Zenoh's own rule
//! (`greater-zid`) then has the same outcome as ours where addresses are given.

use std::cmp::Ordering;

use hythe_cluster::HostName;
use zenoh::config::ZenohId;

/// Of the 16 bytes of an identifier, in the order in which Zenoh compares them.
const RANK_BYTES: usize = 8;

/// Whether `own` makes the connection with `other`, and not the other way about.
pub(crate) fn dials(own: &HostName, other: &HostName) -> bool {
    match rank(own).cmp(&rank(other)) {
        Ordering::Equal => own > other,
        order => order == Ordering::Greater,
    }
}

/// An identifier for a new session of a host, as Zenoh's configuration has it: another one each
/// time, of which the first half is the host's rank.
pub(super) fn session_id(host: &HostName) -> String {
    let mut bytes = ZenohId::default().to_le_bytes();
    bytes[..RANK_BYTES].copy_from_slice(&rank(host));
    // Zenoh takes no leading zeroes.
    bytes[bytes.len() - 1] |= 0x10;
    format!("{:x}", u128::from_le_bytes(bytes))
}

/// FNV-1a with 64 bits: spreads the dialling evenly over hosts with similar names.
fn rank(host: &HostName) -> [u8; RANK_BYTES] {
    let bytes = host.as_str().bytes();
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    hash.to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Vec<HostName> {
        let names = (0..20).map(|number| format!("camera-{number}"));
        names.map(|name| name.parse().expect("a name")).collect()
    }

    #[test]
    fn one_of_two_dials_whether_given_or_scouted() {
        let id = |host: &HostName| -> ZenohId { session_id(host).parse().expect("an identifier") };
        let mut dialling = 0;
        for own in &names() {
            assert!(!dials(own, own));
            for other in names().iter().filter(|other| *other != own) {
                assert_ne!(dials(own, other), dials(other, own));
                // Zenoh's rule.
                assert_eq!(id(own) > id(other), dials(own, other));
                dialling += usize::from(dials(own, other));
            }
        }
        assert_eq!(dialling, 20 * 19 / 2);
    }

    #[test]
    fn each_session_has_an_identifier_of_its_own() {
        for host in &names() {
            assert_ne!(session_id(host), session_id(host));
        }
    }
}
