//! Where a stream goes, as people write it: `rtp://HOST:PORT`, with `?ttl=N&interface=NAME` for
//! multicast. An IPv6 address may name its interface as its zone: `rtp://[fe80::1%eth0]:PORT`
//! (RFC 4007, section 11), also with `%25` (RFC 6874).

use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::str::FromStr;

use url::{Host, Url};

use crate::MediaError;
use crate::ports::rtcp_address;

/// The address of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamAddress {
    /// Name or address of the host, or a multicast group.
    pub host: String,
    /// The port of RTP; RTCP has the next.
    pub port: u16,
    /// How many routers a multicast packet may pass; `None`: the system's default, which is to stay
    /// on the link.
    pub ttl: Option<u8>,
    /// The interface for multicast, and for IPv6 addresses that mean something on one link only.
    pub interface: Option<String>,
}

impl StreamAddress {
    /// The address to send to. Names are looked up, which may take as long as the system's resolver
    /// waits.
    ///
    /// # Errors
    ///
    /// [`MediaError::Address`] for a name without address or an interface that is not there,
    /// [`MediaError::Destination`] for a port that leaves RTCP none.
    pub fn resolve(&self) -> Result<SocketAddr, MediaError> {
        let refused = |reason: String| MediaError::Address {
            address: self.to_string(),
            reason,
        };
        let found = (self.host.as_str(), self.port).to_socket_addrs();
        let first = found.map_err(|error| refused(error.to_string()))?.next();
        let mut address = first.ok_or_else(|| refused("the name has no address".into()))?;
        if let (SocketAddr::V6(v6), Some(name)) = (&mut address, &self.interface)
            && is_of_one_link(v6.ip())
        {
            v6.set_scope_id(interface_index(name).map_err(refused)?);
        }
        rtcp_address(address)?;
        if !address.ip().is_multicast() {
            self.require_unicast(&address).map_err(refused)?;
        }
        Ok(address)
    }

    /// Refuses what means nothing for the address of a host.
    fn require_unicast(&self, address: &SocketAddr) -> Result<(), String> {
        if let Some(ttl) = self.ttl {
            return Err(format!("ttl={ttl} is for multicast groups: leave it out"));
        }
        let is_link_local = matches!(address.ip(), IpAddr::V6(ip) if ip.is_unicast_link_local());
        match &self.interface {
            Some(name) if !is_link_local => Err(format!(
                "interface={name} is for multicast groups and link-local addresses, and the \
                 routing table finds the way to others: leave it out"
            )),
            _ => Ok(()),
        }
    }
}

impl fmt::Display for StreamAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let port = self.port;
        match self.host.parse() {
            Ok(IpAddr::V6(host)) => write!(formatter, "rtp://[{host}]:{port}")?,
            _ => write!(formatter, "rtp://{}:{port}", self.host)?,
        }
        let mut mark = '?';
        if let Some(ttl) = self.ttl {
            write!(formatter, "{mark}ttl={ttl}")?;
            mark = '&';
        }
        match &self.interface {
            Some(interface) => write!(formatter, "{mark}interface={interface}"),
            None => Ok(()),
        }
    }
}

impl FromStr for StreamAddress {
    type Err = MediaError;

    fn from_str(text: &str) -> Result<Self, MediaError> {
        parse(text).map_err(|reason| MediaError::Address {
            address: text.to_owned(),
            reason,
        })
    }
}

fn parse(text: &str) -> Result<StreamAddress, String> {
    let (text, zone) = without_zone(text);
    let url = Url::parse(&text).map_err(|error| error.to_string())?;
    if url.scheme() != "rtp" {
        return Err(format!("the scheme is {}, not rtp", url.scheme()));
    }
    let host = match url.host().ok_or("it names no host")? {
        Host::Domain(name) => name.to_owned(),
        Host::Ipv4(address) => address.to_string(),
        Host::Ipv6(address) => address.to_string(),
    };
    let is_bare = matches!(url.path(), "" | "/") && url.username().is_empty();
    if !is_bare || url.fragment().is_some() {
        return Err("only host, port and ?ttl=N&interface=NAME are understood".into());
    }
    let mut parsed = StreamAddress {
        host,
        port: url.port().ok_or("it names no port")?,
        ttl: None,
        interface: zone,
    };
    for (name, value) in url.query_pairs() {
        match &*name {
            "ttl" => parsed.ttl = Some(parse_ttl(&value)?),
            "interface" if !value.is_empty() => {
                if let Some(zone) = parsed.interface.filter(|zone| **zone != *value) {
                    return Err(format!(
                        "it names two interfaces, %{zone} and {name}={value}"
                    ));
                }
                parsed.interface = Some(value.into_owned());
            }
            _ => return Err(format!("{name}={value} is not ttl=N or interface=NAME")),
        }
    }
    Ok(parsed)
}

fn parse_ttl(text: &str) -> Result<u8, String> {
    text.parse()
        .map_err(|_| format!("ttl={text} is not a number from 0 to 255"))
}

/// Link-local unicast, and multicast of the scopes interface and link (RFC 4291, 2.5.6 and 2.7).
pub(crate) fn is_of_one_link(address: &Ipv6Addr) -> bool {
    let first = address.segments()[0];
    first & 0xffc0 == 0xfe80 || matches!(first & 0xff0f, 0xff01 | 0xff02)
}

/// Refuses an address that is another one on each link, and has no interface that says which.
pub(crate) fn require_interface(address: SocketAddr) -> Result<(), MediaError> {
    match address {
        SocketAddr::V6(v6) if v6.scope_id() == 0 && is_of_one_link(v6.ip()) => {
            Err(MediaError::NoInterface { address })
        }
        _ => Ok(()),
    }
}

/// A URL without the zone of its IPv6 address, which URLs do not have, and the zone.
pub(crate) fn without_zone(url: &str) -> (String, Option<String>) {
    let taken_apart = || {
        let (front, rest) = url.split_once("://[")?;
        let (host, behind) = rest.split_once(']')?;
        let (address, zone) = host.split_once('%')?;
        let encoded = zone.strip_prefix("25").filter(|zone| !zone.is_empty());
        let zone = encoded.unwrap_or(zone).to_owned();
        Some((format!("{front}://[{address}]{behind}"), Some(zone)))
    };
    taken_apart().unwrap_or_else(|| (url.to_owned(), None))
}

/// The index of an interface, by its name or that number.
pub(crate) fn interface_index(name: &str) -> Result<u32, String> {
    if let Ok(number @ 1..) = name.parse() {
        return Ok(number);
    }
    let socket = rustix::net::socket(
        rustix::net::AddressFamily::INET6,
        rustix::net::SocketType::DGRAM,
        None,
    );
    let index = socket.and_then(|socket| rustix::net::netdevice::name_to_index(&socket, name));
    index.map_err(|error| format!("the interface {name}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_read_back() {
        for text in [
            "rtp://127.0.0.1:5004",
            "rtp://[::1]:5004",
            "rtp://camera.local:6000",
            "rtp://239.1.2.3:5004?ttl=4",
            "rtp://[ff15::1]:5004?ttl=0&interface=eth0",
            "rtp://239.1.2.3:5004?interface=lo",
        ] {
            let address: StreamAddress = text.parse().unwrap();
            assert_eq!(address.to_string(), text);
        }
    }

    #[test]
    fn what_cannot_be_meant_is_refused_with_the_reason() {
        for (text, reason) in [
            ("127.0.0.1:5004", "relative URL"),
            ("udp://127.0.0.1:5004", "the scheme is udp"),
            ("rtp://127.0.0.1", "no port"),
            ("rtp://127.0.0.1:70000", "port"),
            ("rtp://h:5004?ttl=300", "ttl=300"),
            ("rtp://h:5004?tll=3", "tll=3"),
            ("rtp://h:5004?interface=", "interface="),
            ("rtp://h:5004/stream", "only host, port"),
            ("rtp://[fe80::1%eth0]:5004?interface=eth1", "two interfaces"),
        ] {
            let error = text.parse::<StreamAddress>().unwrap_err().to_string();
            assert!(error.contains(reason) && error.contains(text), "{error}");
        }
    }

    #[test]
    fn zones_are_taken_out_of_urls() {
        for (url, without, zone) in [
            (
                "rtsp://[fe80::1%eth0]:8554/x",
                "rtsp://[fe80::1]:8554/x",
                "eth0",
            ),
            ("rtsp://[fe80::1%25eth0]/x", "rtsp://[fe80::1]/x", "eth0"),
            ("rtp://[fe80::1%2]:5004", "rtp://[fe80::1]:5004", "2"),
            ("rtp://[fe80::1%25]:5004", "rtp://[fe80::1]:5004", "25"),
        ] {
            assert_eq!(
                without_zone(url),
                (without.to_owned(), Some(zone.to_owned()))
            );
        }
        for url in [
            "rtsp://[::1]/a%20b",
            "rtsp://h/[a%b]",
            "rtsp://h",
            "rtsp://[::1",
        ] {
            assert_eq!(without_zone(url), (url.to_owned(), None));
        }
    }

    #[test]
    fn resolving_checks_port_and_interface() {
        let resolve = |text: &str| text.parse::<StreamAddress>().unwrap().resolve();
        let loopback = "127.0.0.1:5004".parse().unwrap();
        assert_eq!(resolve("rtp://127.0.0.1:5004").unwrap(), loopback);
        assert!(matches!(
            resolve("rtp://127.0.0.1:5005"),
            Err(MediaError::Destination { .. })
        ));
        for (text, option) in [
            ("rtp://127.0.0.1:5004?ttl=3", "ttl=3"),
            ("rtp://[::1]:5004?interface=lo", "interface=lo"),
            ("rtp://127.0.0.1:5004?interface=lo", "interface=lo"),
        ] {
            let error = resolve(text).unwrap_err().to_string();
            assert!(
                error.contains(&format!("{option} is for multicast")),
                "{error}"
            );
        }
        assert!(resolve("rtp://239.1.2.3:5004?ttl=3&interface=lo").is_ok());
        let error = resolve("rtp://[fe80::1]:5004?interface=nosuch0").unwrap_err();
        assert!(error.to_string().contains("nosuch0"), "{error}");
        for url in [
            "rtp://[fe80::1]:5004?interface=lo",
            "rtp://[fe80::1%lo]:5004",
            "rtp://[fe80::1%251]:5004",
        ] {
            let SocketAddr::V6(address) = resolve(url).unwrap() else {
                panic!("an IPv6 address");
            };
            assert_eq!(address.scope_id(), 1, "{url}");
        }
    }
}
