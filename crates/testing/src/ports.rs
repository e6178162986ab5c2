//! Ports for tests that hand a number to another program, which binds it later.
//!
//! A port that the kernel chose (`bind` to port 0) is free again as soon as its socket is closed,
//! and any other test may get it before the program does. So these ports lie outside of those that
//! the kernel chooses from, and each is reserved among all test processes of its network namespace
//! by a Unix socket with an abstract name. The kernel frees that name when the process ends,
//! however it ends. Nothing binds a port only to look whether it is free.

use std::io;
use std::ops::Range;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as UnixAddress, UnixListener};
use std::sync::Mutex;

const FIRST: u16 = 20_000;
/// One past the last, where the kernel chooses from a range as usual (it begins at 32,768).
const END: u16 = 32_000;
/// The last even one.
const LAST: u16 = u16::MAX - 1;
/// Fewer are not enough for the tests that run at once.
const PORTS_MIN: usize = 1000;
/// Where a process begins to look: those that run at once have process ids near each other.
const PORTS_PER_PROCESS: u32 = 100;

/// The first of `count` ports in a row that no other program has. It is even.
///
/// They are of UDP and TCP, on all addresses of this host, in the network namespace of the calling
/// thread, and are reserved until this process ends.
///
/// # Panics
///
/// If there are none left.
#[must_use]
pub fn reserve_ports(count: u16) -> u16 {
    let range = range_outside(&local_port_range().unwrap_or(END..END));
    let length = u32::from(range.end - range.start);
    let offset = std::process::id().wrapping_mul(PORTS_PER_PROCESS) % length;
    let found = reserve_from(range.start + (offset as u16 & !1), &range, count);
    found.unwrap_or_else(|| {
        panic!("no {count} free ports in a row in {range:?}; `ss -anp` lists who has them")
    })
}

/// The first of `count` ports of `range`, looked for from `begin` on, and then before it.
fn reserve_from(begin: u16, range: &Range<u16>, count: u16) -> Option<u16> {
    static RESERVED: Mutex<Vec<UnixListener>> = Mutex::new(Vec::new());
    let candidates = (begin..range.end).chain(range.start..begin).step_by(2);
    for first in candidates.filter(|first| range.end - first >= count) {
        let names = (first..first + count).map(reserve);
        let Ok(names) = names.collect::<io::Result<Vec<_>>>() else {
            continue;
        };
        if (first..first + count).all(is_free) {
            let mut reserved = RESERVED.lock().expect("nothing panics with it");
            reserved.extend(names);
            return Some(first);
        }
    }
    None
}

/// Takes the name that stands for a port. It fails while another holds it, in this process or not.
fn reserve(port: u16) -> io::Result<UnixListener> {
    let name = format!("hythe-test-port-{port}");
    UnixListener::bind_addr(&UnixAddress::from_abstract_name(name)?)
}

/// No socket has it, of a program that knows nothing of reservations or that a test left behind.
/// By the kernel's tables: a socket bound to try it would itself be in the way, and not only while
/// it is open here, since a process that another thread starts then has a copy until its `exec`.
fn is_free(port: u16) -> bool {
    // Number, then local address and port in hexadecimal.
    let end = format!(":{port:04X}");
    let has = |line: &str| {
        let local = line.split_whitespace().nth(1);
        local.is_some_and(|local| local.ends_with(&end))
    };
    let tables = ["udp", "udp6", "tcp", "tcp6"];
    tables.iter().all(|table| {
        let table = std::fs::read_to_string(format!("/proc/thread-self/net/{table}"));
        !table.unwrap_or_default().lines().any(has)
    })
}

/// The ports that the kernel chooses from for sockets of this network namespace.
fn local_port_range() -> Option<Range<u16>> {
    let text = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").ok()?;
    let mut ends = text.split_whitespace().map(|end| end.parse().ok());
    Some(ends.next()??..ends.next()??)
}

/// Ports for tests, none of `local`. Where too few are outside, they are the usual ones all the
/// same: the kernel may then give one to a socket that is bound to port 0.
fn range_outside(local: &Range<u16>) -> Range<u16> {
    let below = FIRST..END.min(local.start & !1);
    let above = FIRST.max(local.end.saturating_add(2) & !1)..LAST;
    [below, above]
        .into_iter()
        .find(|range| range.len() >= PORTS_MIN)
        .unwrap_or(FIRST..END)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::net::{TcpListener, UdpSocket};
    use std::process::{Command, Stdio};

    #[test]
    fn several_are_in_a_row_and_no_others() {
        let first = reserve_ports(5);
        assert!(first.is_multiple_of(2));
        for port in first..first + 5 {
            let error = reserve(port).expect_err("it is reserved");
            assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
        }
        // Odd, so nobody else's begin there.
        reserve(first + 5).expect("not asked for");
    }

    #[test]
    fn port_of_another_program_is_passed_over() {
        let _alone = crate::STARTING.lock();
        let port = reserve_ports(1);
        assert!(is_free(port));
        let udp = UdpSocket::bind(("127.0.0.1", port)).expect("reserved");
        assert!(!is_free(port));
        drop(udp);
        let _tcp = TcpListener::bind(("127.0.0.1", port)).expect("reserved");
        assert!(!is_free(port));
    }

    const BEGIN: &str = "HYTHE_TEST_RESERVES_PORTS_FROM";
    /// How many the other process looks for.
    const LOOKS: usize = 100;

    /// A look that binds takes the port for a moment, and its owner finds it taken (`AddrInUse`).
    #[test]
    fn other_process_gets_other_ports_without_disturbing() {
        let _alone = crate::STARTING.lock();
        let port = reserve_ports(1);
        let child = Command::new(std::env::current_exe().expect("known"))
            .args(["ports::tests::process_reserves_ports", "--exact"])
            .args(["--nocapture", "--test-threads=1"])
            .env(BEGIN, port.to_string())
            .stdout(Stdio::piped())
            .spawn()
            .expect("started");
        let looking = std::thread::spawn(|| child.wait_with_output().expect("own child"));
        while !looking.is_finished() {
            UdpSocket::bind(("127.0.0.1", port)).expect("nobody else's");
            TcpListener::bind(("127.0.0.1", port)).expect("nobody else's");
        }
        let output = looking.join().expect("ended");
        let text = String::from_utf8_lossy(&output.stdout);
        let theirs = text
            .lines()
            .filter_map(|line| line.strip_prefix("reserved "));
        let theirs: HashSet<u16> = theirs.map(|port| port.parse().expect("a port")).collect();
        assert!(output.status.success() && theirs.len() == LOOKS, "{text}");
        assert!(!theirs.contains(&port));
        // They are free again with the process; another test may have got some meanwhile.
        assert!(theirs.iter().any(|port| reserve(*port).is_ok()));
    }

    /// The other process: it looks at its parent's port first, each time.
    #[test]
    fn process_reserves_ports() {
        let Ok(begin) = std::env::var(BEGIN) else {
            return;
        };
        let begin = begin.parse().expect("a port");
        println!();
        for _ in 0..LOOKS {
            let port = reserve_from(begin, &(FIRST..LAST), 1).expect("free");
            println!("reserved {port}");
        }
    }

    #[test]
    fn ports_lie_outside_of_those_that_the_kernel_chooses_from() {
        assert_eq!(range_outside(&(32_768..60_999)), FIRST..END);
        assert_eq!(range_outside(&(25_001..60_999)), FIRST..25_000);
        assert_eq!(range_outside(&(10_000..30_000)), 30_002..LAST);
        assert_eq!(range_outside(&(1024..65_535)), FIRST..END);
    }
}
