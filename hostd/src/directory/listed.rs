//! Where the hosts of the realm's list should be, and what of it has not been told yet.
//!
//! The caller keeps their number within what an agent connects to. Never resolves a name.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use hythe_cluster::{DirectoryEvent, HostName};

/// Addresses of a host, or why there are none; `None`: it is in the list no more.
type Addresses = Option<Result<Vec<SocketAddr>, String>>;

/// The hosts.
#[derive(Debug, Default)]
pub(super) struct Listed(BTreeMap<HostName, Entry>);

#[derive(Debug)]
struct Entry {
    addresses: Addresses,
    is_told: bool,
}

impl Listed {
    /// So it is now.
    pub(super) fn set(&mut self, host: HostName, addresses: Addresses) {
        let known = self.0.get(&host).map(|entry| &entry.addresses);
        if known.unwrap_or(&None) != &addresses {
            let is_told = false;
            self.0.insert(host, Entry { addresses, is_told });
        }
    }

    /// The next thing to tell.
    pub(super) fn take(&mut self) -> Option<DirectoryEvent> {
        let (host, entry) = self.0.iter_mut().find(|(_, entry)| !entry.is_told)?;
        entry.is_told = true;
        let host = host.clone();
        Some(match entry.addresses.clone() {
            Some(addresses) => DirectoryEvent::Listed { host, addresses },
            None => {
                self.0.remove(&host);
                DirectoryEvent::Unlisted { host }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_changes_is_told_once() {
        let name = |text: &str| -> HostName { text.parse().expect("a name") };
        let address = SocketAddr::from(([10, 0, 0, 1], 7450));
        let mut listed = Listed::default();
        listed.set(name("a"), Some(Ok(vec![address])));
        listed.set(name("b"), Some(Err("no such name".to_owned())));
        listed.set(name("c"), None);
        let told: Vec<_> = std::iter::from_fn(|| listed.take()).collect();
        let addresses = Ok(vec![address]);
        let host = name("a");
        assert_eq!(told[0], DirectoryEvent::Listed { host, addresses });
        assert!(matches!(
            told[1],
            DirectoryEvent::Listed {
                addresses: Err(_),
                ..
            }
        ));
        assert_eq!(told.len(), 2, "c was never there");
        listed.set(name("a"), Some(Ok(vec![address])));
        assert_eq!(listed.take(), None, "as before");
        listed.set(name("a"), None);
        let host = name("a");
        assert_eq!(listed.take(), Some(DirectoryEvent::Unlisted { host }));
        assert_eq!(listed.take(), None);
        assert_eq!(listed.0.len(), 1);
    }
}
