//! Who has which UDP port: the socket tables under `/proc/net`, read as text.
//!
//! `receiver` asks whether the program that it started listens yet, what still
//! waits in its socket, and what the kernel dropped there.

use std::fs;

/// One UDP socket as the kernel lists it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Socket {
    /// The port it is bound to.
    pub(crate) port: u16,
    /// Bytes received and not read yet, as the kernel accounts for them.
    pub(crate) waiting_bytes: u64,
    /// Which socket it is; also named by the links in `/proc/PID/fd`.
    pub(crate) inode: u64,
    /// Packets that the kernel dropped at this socket.
    pub(crate) drops: u64,
}

/// All UDP sockets bound to `port`, of either address family.
pub(crate) fn sockets_on(port: u16) -> Vec<Socket> {
    ["/proc/net/udp", "/proc/net/udp6"]
        .iter()
        .filter_map(|table| fs::read_to_string(table).ok()) // no IPv6, no table
        .flat_map(|table| table.lines().filter_map(parse).collect::<Vec<_>>())
        .filter(|socket| socket.port == port)
        .collect()
}

/// The sockets that process `pid` has open, by inode.
pub(crate) fn inodes_of(pid: u32) -> Vec<u64> {
    let Ok(descriptors) = fs::read_dir(format!("/proc/{pid}/fd")) else {
        return Vec::new();
    };
    let links = descriptors.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    links
        .filter_map(|link| parse_link(link.to_str()?))
        .collect()
}

fn parse_link(link: &str) -> Option<u64> {
    link.strip_prefix("socket:[")?
        .strip_suffix(']')?
        .parse()
        .ok()
}

/// A line of the table: number, local and remote address, state, queues, timer, retransmissions,
/// owner, time-out, inode, references, pointer, drops (Linux, `udp4_format_sock`).
fn parse(line: &str) -> Option<Socket> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let port = fields.get(1)?.rsplit_once(':')?.1;
    let waiting = fields.get(4)?.split_once(':')?.1;
    Some(Socket {
        port: u16::from_str_radix(port, 16).ok()?,
        waiting_bytes: u64::from_str_radix(waiting, 16).ok()?,
        inode: fields.get(9)?.parse().ok()?,
        drops: fields.get(12)?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;

    #[test]
    fn line_of_the_table_reads_as_it_should() {
        let line = "  337: 0100007F:138C 00000000:0000 07 00000000:00000900 00:00000000 00000000 \
                    0 0 2105 2 0000000000000000 17";
        let expected = Socket {
            port: 5004,
            waiting_bytes: 0x900,
            inode: 2105,
            drops: 17,
        };
        assert_eq!(parse(line), Some(expected));
        assert_eq!(
            parse("  sl  local_address rem_address   st tx_queue rx_queue tr"),
            None
        );
        assert_eq!(parse(""), None);
    }

    #[test]
    fn socket_of_this_process_is_found_with_what_waits_in_it() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(socket) = UdpSocket::bind(address) else {
                continue;
            };
            let local = socket.local_addr().unwrap();
            let found = sockets_on(local.port());
            let own = inodes_of(std::process::id());
            assert!(
                found.iter().any(|socket| own.contains(&socket.inode)),
                "{found:?} {own:?}"
            );
            socket.send_to(&[0; 100], local).unwrap();
            assert!(
                sockets_on(local.port())
                    .iter()
                    .any(|socket| socket.waiting_bytes > 0)
            );
        }
    }
}
