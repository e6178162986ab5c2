//! The liveliness token of a host: a key expression that tells who is there and where.
//!
//! `hythe/live/NAME/SESSION.SERIAL/ADDRESSES`. The session tells two agents apart that carry the
//! same name one after the other, the serial tells apart the tokens of one session. A token
//! proves nothing: any host of the realm can declare any.

use std::net::SocketAddr;

use hythe_cluster::HostName;

/// What all tokens begin with.
pub(super) const PREFIX: &str = "hythe/live";
/// Addresses that a token is believed to have; more are ignored. Two networks, each with IPv4 and
/// two kinds of IPv6, and as many to spare.
pub(super) const ADDRESSES_MAX: usize = 12;
/// Stands for no address.
const NOWHERE: &str = "-";

/// A token, read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) host: HostName,
    /// Session, serial and addresses as they stand in the key: what names this token.
    pub(super) rest: String,
    pub(super) addresses: Vec<SocketAddr>,
}

impl Token {
    /// What tells it from all others.
    pub(super) fn key(&self) -> (HostName, String) {
        (self.host.clone(), self.rest.clone())
    }
}

/// The key expression of this host's token.
pub(super) fn key(host: &HostName, session: &str, serial: u64, addresses: &[SocketAddr]) -> String {
    let listed: Vec<String> = addresses
        .iter()
        .take(ADDRESSES_MAX)
        .map(ToString::to_string)
        .collect();
    let listed = match listed.is_empty() {
        true => NOWHERE.to_owned(),
        false => listed.join(","),
    };
    format!("{}{serial}/{listed}", of_session(host, session))
}

/// What the keys of a host's tokens begin with.
pub(super) fn of_host(host: &HostName) -> String {
    format!("{PREFIX}/{host}/")
}

/// What the keys of a session's tokens begin with.
pub(super) fn of_session(host: &HostName, session: &str) -> String {
    format!("{PREFIX}/{host}/{session}.")
}

/// Reads the key expression of a token; `None` if it is none.
pub(super) fn parse(key: &str) -> Option<Token> {
    let (name, rest) = key
        .strip_prefix(PREFIX)?
        .strip_prefix('/')?
        .split_once('/')?;
    let host = name.parse().ok()?;
    let (_session, listed) = rest.split_once('/')?;
    let addresses = match listed {
        NOWHERE => Vec::new(),
        listed => {
            let parsed = listed.split(',').take(ADDRESSES_MAX).map(str::parse);
            parsed.collect::<Result<_, _>>().ok()?
        }
    };
    Some(Token {
        host,
        rest: rest.to_owned(),
        addresses,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_is_read_as_it_was_written() {
        let host: HostName = "cam-1.lan".parse().expect("a name");
        let addresses = ["10.0.0.1:7410", "[fd77::1]:7410"].map(|text| text.parse().expect("one"));
        for addresses in [&addresses[..], &[]] {
            let token = parse(&key(&host, "a1", 7, addresses)).expect("a token");
            assert_eq!(
                (token.host, token.addresses),
                (host.clone(), addresses.to_vec())
            );
        }
    }

    #[test]
    fn what_is_no_token_is_none() {
        for key in [
            "hythe/live",
            "hythe/live/a",
            "hythe/live/a/1",
            "hythe/live/A/1/-",
            "hythe/live/a/1/10.0.0.1",
            "hythe/live/a/1/10.0.0.1:1,",
            "hythe/live/a/1/-/-",
            "other/live/a/1/-",
        ] {
            assert_eq!(parse(key), None, "{key}");
        }
    }

    #[test]
    fn addresses_beyond_the_limit_are_ignored() {
        let host: HostName = "a".parse().expect("a name");
        let many: Vec<SocketAddr> = (1..100)
            .map(|port| SocketAddr::from(([10, 0, 0, 1], port)))
            .collect();
        let token = parse(&key(&host, "1", 0, &many)).expect("a token");
        assert_eq!(token.addresses, many[..ADDRESSES_MAX]);
        let listed: Vec<String> = many.iter().map(ToString::to_string).collect();
        let token = parse(&format!("hythe/live/a/1/{}", listed.join(","))).expect("a token");
        assert_eq!(token.addresses, many[..ADDRESSES_MAX]);
    }
}
