//! Who belongs to a realm: beginning one, taking hosts in, putting them out.
//!
//! A host is taken in over a remote shell: it makes its key and asks (`join`), the authority signs,
//! it puts what it gets in its place (`install`) and starts its agent. The key never leaves it.

mod join;
mod remote;

use std::net::{Ipv6Addr, SocketAddr};
use std::num::NonZeroU16;
use std::time::Duration;

use hythe_cluster::HostName;

pub use self::join::{Bundle, Joining, install, join};
use self::remote::RemoteShell;
use crate::HostdError;
use crate::hosts_directory::HostsDirectory;
use crate::realm::{Authority, Grant, Identity, NewHost, file};
use crate::tls::DEFAULT_PORT;

/// A host to take in.
#[derive(Clone, Debug)]
pub struct Addition {
    /// As the remote shell is told it: `[USER@]HOST`.
    pub target: String,
    /// Its name in the realm; `None`: that of the target, up to the first dot.
    pub name: Option<HostName>,
    /// Where its agent is reached; none: where the remote shell reaches it.
    pub addresses: Vec<String>,
    /// Processes that it takes.
    pub slots: Option<u32>,
    /// What it may do on the other hosts, and they there; none: read and write all channels.
    pub grants: Vec<Grant>,
    /// How long it may take to take it in and to start its agent.
    pub timeout: Duration,
}

/// Begins a realm, whose first host is this one.
///
/// # Errors
/// It belongs to one; what the system says.
pub fn init(
    directory: &HostsDirectory,
    name: Option<HostName>,
    addresses: &[String],
) -> Result<String, HostdError> {
    let name = name.map_or_else(own_name, Ok)?;
    let own = NewHost {
        name: name.clone(),
        addresses: checked(addresses)?,
        slots: None,
        grants: all_channels(),
    };
    let identity = Authority::begin(directory, own)?;
    Ok(format!(
        "realm {} begun; this host is {name}. Start its agent: hythe host start",
        identity.realm()
    ))
}

/// Takes hosts in, and starts their agents; says of each what became of it. One that is in the
/// realm is passed over, where `several` are wanted: what failed may be mended and tried again.
///
/// # Errors
/// Of each host that could not be taken in, or whose agent does not run; the others are.
pub fn add_all(
    directory: &HostsDirectory,
    additions: &[Addition],
    several: bool,
    mut say: impl FnMut(String) -> Result<(), HostdError>,
) -> Result<(), HostdError> {
    let mut failed = Vec::new();
    for addition in additions {
        match add(directory, addition) {
            Ok(said) => say(said)?,
            Err(HostdError::NameTaken { name, .. }) if several => {
                say(format!("host {name} is in the realm already"))?;
            }
            Err(error) => failed.push(error),
        }
    }
    match failed.len() {
        0 => Ok(()),
        1 => Err(failed.remove(0)),
        _ => Err(HostdError::Several(failed)),
    }
}

/// Takes a host in, and starts its agent.
///
/// # Errors
/// It cannot be reached, has no `hythe-hostd` or another version, has an identity already; its name
/// is taken: [`HostdError::NotAdded`]. Its agent does not start: [`HostdError::NotStarted`].
pub fn add(directory: &HostsDirectory, addition: &Addition) -> Result<String, HostdError> {
    let host = bare_host(&addition.target);
    let host = host.trim_start_matches('[').trim_end_matches(']');
    if addition.target.starts_with('-') || host.is_empty() {
        let target = hythe_terminal::escaped(&addition.target).to_string();
        return Err(HostdError::Remote(format!(
            "`{target}` is no host: write [USER@]HOST, as ssh is told it"
        )));
    }
    let name = match &addition.name {
        Some(name) => name.clone(),
        None => host.split('.').next().unwrap_or(host).parse()?,
    };
    Authority::open(directory)?.check_free(&name)?;
    let target = without_brackets(&addition.target);
    let shell = RemoteShell::to(&target, addition.timeout);
    take_in(directory, addition, &name, &shell).map_err(|reason| HostdError::NotAdded {
        name: name.clone(),
        reason: Box::new(reason),
    })?;
    let said: String = { shell.ask(&["start"], &[]) }.map_err(|reason| HostdError::NotStarted {
        name: name.clone(),
        reason: Box::new(reason),
        start: shell.typed("start"),
    })?;
    Ok(format!("host {name} is in the realm; its agent: {said}"))
}

/// Signs the key of a host, and puts certificate and list in their place there.
fn take_in(
    directory: &HostsDirectory,
    addition: &Addition,
    name: &HostName,
    shell: &RemoteShell<'_>,
) -> Result<(), HostdError> {
    let addresses = match addition.addresses.is_empty() {
        true => vec![with_port(bare_host(&addition.target))],
        false => checked(&addition.addresses)?,
    };
    let realm = Identity::load(directory)?.realm().to_owned();
    let words = ["join", "--name", name.as_str(), "--realm", &realm];
    let joining: Joining = shell.ask(&words, &[])?;
    check_version(&addition.target, &joining.version)?;
    let grants = match addition.grants.is_empty() {
        true => all_channels(),
        false => addition.grants.clone(),
    };
    let new = NewHost {
        name: name.clone(),
        addresses,
        slots: addition.slots,
        grants,
    };
    let certificate = Authority::open(directory)?.add(&joining.request, new)?;
    let bundle = bundle(directory, certificate)?;
    let installed: Result<String, HostdError> = shell.ask(&["install"], &bundle.to_bytes()?);
    if let Err(error) = installed {
        // As if it had never been: the name is free again.
        Authority::open(directory)?.remove(name)?;
        return Err(error);
    }
    Ok(())
}

/// Puts a host out: its certificate is revoked.
///
/// # Errors
/// There is none of that name; the key of the realm is elsewhere.
pub fn remove(directory: &HostsDirectory, name: &HostName) -> Result<String, HostdError> {
    let mut authority = Authority::open(directory)?;
    if Identity::load(directory)?.name() == name {
        return Err(HostdError::OwnHost { name: name.clone() });
    }
    authority.remove(name)?;
    Ok(format!(
        "the certificate of {name} is revoked: the hosts that are connected know it at once, the \
         others as soon as they connect"
    ))
}

fn bundle(directory: &HostsDirectory, certificate: String) -> Result<Bundle, HostdError> {
    let read = |name| {
        let text = directory.read_text(name)?;
        text.ok_or_else(|| directory.damaged(name, "it is missing"))
    };
    Ok(Bundle {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        certificate,
        authority: read(file::AUTHORITY_CERTIFICATE)?,
        document: read(file::DOCUMENT)?,
    })
}

fn all_channels() -> Vec<Grant> {
    vec![Grant {
        pattern: "*".to_owned(),
        rights: "read,write".to_owned(),
    }]
}

fn check_version(what: &str, theirs: &str) -> Result<(), HostdError> {
    let ours = env!("CARGO_PKG_VERSION");
    match theirs == ours {
        true => Ok(()),
        false => Err(HostdError::OtherVersion {
            what: format!("hythe-hostd of {what}"),
            theirs: theirs.to_owned(),
            ours: ours.to_owned(),
        }),
    }
}

/// Without the user.
fn bare_host(target: &str) -> &str {
    target.rsplit_once('@').map_or(target, |(_, host)| host)
}

/// As ssh takes it: an IPv6 address has no brackets there.
fn without_brackets(target: &str) -> String {
    let (user, host) = match target.rsplit_once('@') {
        Some((user, host)) => (format!("{user}@"), host),
        None => (String::new(), target),
    };
    let address = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'));
    format!("{user}{}", address.unwrap_or(host))
}

/// Addresses as they are typed, with ports.
fn checked(addresses: &[String]) -> Result<Vec<String>, HostdError> {
    let is_address = |text: &str| {
        let is_name = |host: &str| !host.is_empty() && !host.contains([':', '[', ']', ' ', '/']);
        let parts = text.rsplit_once(':');
        let is_port = |port: &str| port.parse::<NonZeroU16>().is_ok();
        match text.parse::<SocketAddr>() {
            Ok(address) => address.port() != 0,
            Err(_) => parts.is_some_and(|(host, port)| is_name(host) && is_port(port)),
        }
    };
    let one = |text: &String| {
        let address = with_port(text);
        is_address(&address).then_some(address).ok_or_else(|| {
            HostdError::Agent(format!(
                "`{}` is no address: write HOST or HOST:PORT, where HOST is a name, an IPv4 \
                 address or [IPv6]",
                hythe_terminal::escaped(text)
            ))
        })
    };
    addresses.iter().map(one).collect()
}

fn with_port(address: &str) -> String {
    let inner = address
        .strip_prefix('[')
        .and_then(|inner| inner.strip_suffix(']'));
    let is_ipv6 = |text: &str| text.parse::<Ipv6Addr>().is_ok();
    match inner {
        Some(inner) if is_ipv6(inner) => format!("{address}:{DEFAULT_PORT}"),
        _ if is_ipv6(address) => format!("[{address}]:{DEFAULT_PORT}"),
        _ if !address.contains(':') => format!("{address}:{DEFAULT_PORT}"),
        _ => address.to_owned(),
    }
}

fn own_name() -> Result<HostName, HostdError> {
    let system = rustix::system::uname();
    let node = system.nodename().to_string_lossy().to_lowercase();
    Ok(node.split('.').next().unwrap_or_default().parse()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_ports() {
        for (given, expected) in [
            ("192.0.2.1", "192.0.2.1:7450"),
            ("192.0.2.1:9", "192.0.2.1:9"),
            ("2001:db8::1", "[2001:db8::1]:7450"),
            ("[2001:db8::1]", "[2001:db8::1]:7450"),
            ("[2001:db8::1]:9", "[2001:db8::1]:9"),
            ("camera", "camera:7450"),
        ] {
            assert_eq!(with_port(given), expected);
            let typed = checked(&[given.to_owned()]).expect("an address");
            assert_eq!(typed, [expected]);
        }
        for bad in [
            "",
            ":9",
            "camera:",
            "camera:x",
            "camera:0",
            "192.0.2.1:0",
            "[2001:db8::1]:0",
            "a b",
            "[camera]",
            "[2001:db8::1]:x",
            "a:1:2",
        ] {
            assert!(checked(&[bad.to_owned()]).is_err(), "{bad}");
        }
        assert_eq!(bare_host("root@camera.lan"), "camera.lan");
        for (given, expected) in [
            ("me@[2001:db8::1]", "me@2001:db8::1"),
            ("[2001:db8::1]", "2001:db8::1"),
            ("root@camera.lan", "root@camera.lan"),
        ] {
            assert_eq!(without_brackets(given), expected);
        }
    }
}
