//! Who listens at a TCP port, as the kernel's tables tell.
//!
//! The socket is found in `/proc/net`, and the process that has it by its descriptors, which root
//! sees of all and everybody else of their own processes. Never connects to it.

use std::fmt;
use std::fs;
use std::path::Path;

use hythe_terminal::escaped;

use super::kernel;

/// The state of a listening socket (`include/net/tcp_states.h`).
const LISTENING: &str = "0A";

/// Who has a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// A process that can be seen.
    Process {
        /// Its number.
        pid: u32,
        /// Its name.
        name: String,
    },
    /// A process of this user, whose descriptors cannot be seen.
    User(String),
}

impl fmt::Display for Owner {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Process { pid, name } => write!(formatter, "{} ({pid})", escaped(name)),
            Self::User(user) => write!(formatter, "a program of user {}", escaped(user)),
        }
    }
}

/// Who listens at a port of this network namespace, if anybody does.
pub(super) fn owner(port: u16) -> Option<Owner> {
    let mut tables = ["/proc/net/tcp", "/proc/net/tcp6"].into_iter();
    let (user, inode) = tables.find_map(|table| listener(&kernel::read(table)?, port))?;
    let process = process_with(&format!("socket:[{inode}]"));
    Some(process.unwrap_or(Owner::User(user)))
}

/// The user and the inode of the socket that listens at a port, in a table of the kernel's.
fn listener(table: &str, port: u16) -> Option<(String, String)> {
    table.lines().skip(1).find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (_, local) = fields.get(1)?.rsplit_once(':')?;
        let is_it = u16::from_str_radix(local, 16) == Ok(port) && *fields.get(3)? == LISTENING;
        is_it.then_some((fields.get(7)?.to_string(), fields.get(9)?.to_string()))
    })
}

/// The process that has a descriptor of this file.
fn process_with(file: &str) -> Option<Owner> {
    let processes = fs::read_dir("/proc").ok()?;
    processes.flatten().find_map(|process| {
        let pid = process.file_name().to_str()?.parse().ok()?;
        let path = process.path();
        let mut descriptors = fs::read_dir(path.join("fd")).ok()?.flatten();
        let has_it = descriptors.any(|descriptor| {
            fs::read_link(descriptor.path()).is_ok_and(|target| target == Path::new(file))
        });
        let name = has_it.then(|| fs::read_to_string(path.join("comm")).unwrap_or_default())?;
        let name = name.trim().to_owned();
        Some(Owner::Process { pid, name })
    })
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn port_of_this_process_is_this_processs() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            // A host without IPv6 has no such address.
            let Ok(listener) = TcpListener::bind(address) else {
                continue;
            };
            let port = listener.local_addr().expect("bound").port();
            // A child that another test starts has the socket, too, between its fork and its exec.
            let deadline = Instant::now() + Duration::from_secs(10);
            loop {
                let found = owner(port);
                if matches!(found, Some(Owner::Process { pid, .. }) if pid == std::process::id()) {
                    break;
                }
                assert!(Instant::now() < deadline, "{found:?} has {address}");
            }
        }
    }

    #[test]
    fn only_a_listener_is_looked_for() {
        let table = "  sl  local_address rem_address   st\n\
             0: 0100007F:1D1A 0100007F:9C40 01 0:0 0:0 0 33 0 7 1\n\
             1: 00000000:1D1A 00000000:0000 0A 0:0 0:0 0 1000 0 8 1\n";
        let found = ("1000".to_owned(), "8".to_owned());
        assert_eq!(listener(table, 7450), Some(found));
        assert_eq!(listener(table, 7451), None);
        assert_eq!(listener("", 7450), None);
    }
}
