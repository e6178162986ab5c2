//! Programs without a certificate of the realm, at the port of the discovery.

use std::io::Write as _;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use crate::network::agent::eventually;
use crate::network::peer::{PORT, Peer};
use crate::network::realm::Realm;
use crate::network::{Lan, Namespace, enter, is_skipped};
use hythe_testing::let_time_pass;
use tls_listener::HANDSHAKES_MAX;

/// Addresses that strangers have, and connections that each of them keeps.
const STRANGERS: u8 = 4;
const KEPT: usize = 100;
/// Made before anybody of the realm comes.
const MADE_MIN: usize = 2_000;
/// Beside handshakes: connections with the friend, and files that an agent opens for a moment.
const OTHER_FILES: usize = 24;
/// Where nobody accepts, a stranger tries again.
const CONNECT: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(1);

/// They say nothing, something else, and the beginning of a handshake.
const WORDS: [&[u8]; 3] = [b"", b"GET / HTTP/1.0\r\n\r\n", &[0x16, 3, 1, 2, 0, 1]];

/// Without a bound it keeps every one of them, and those who failed for a tenth of a second each.
#[test]
fn flood_of_strangers_costs_few_files_and_keeps_no_friend_out() {
    if is_skipped() {
        return;
    }
    let (realm, lan) = (Realm::new(), Lan::new(1));
    ["a", "b"].iter().for_each(|host| realm.add(host));
    let ((a_space, a_plug), (b_space, b_plug)) = (lan.host(1), lan.host(2));
    let options = ["--no-scouting".to_owned()];
    let mut a = Peer::start(&a_space, &realm, "a", &options);
    let (pid, before) = (a.id(), files(a.id()));
    let most_allowed = before + HANDSHAKES_MAX + OTHER_FILES;
    let port: SocketAddr = format!("{}:{PORT}", a_plug.address()).parse().expect("one");
    let places: Vec<_> = (10..10 + STRANGERS).map(|host| lan.host(host)).collect();
    let (made, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
    let most = std::thread::scope(|threads| {
        // Also where this fails.
        let _ends = Ends(&is_over);
        for (space, _) in &places {
            threads.spawn(|| flood(space, port, &made, &is_over));
        }
        let watch = threads.spawn(|| {
            let mut most = 0;
            while !is_over.load(Ordering::Relaxed) {
                most = most.max(files(pid));
                let_time_pass(PAUSE, "between two counts");
            }
            most
        });
        eventually("strangers have come", || {
            made.load(Ordering::Relaxed) >= MADE_MIN
        });
        let kept = files(pid);
        assert!(kept <= most_allowed, "{kept} of {most_allowed}");
        // It dials: the other one is not told where it is.
        let to_a = format!("--peer={port}");
        let list = [options[0].clone(), to_a];
        let mut b = Peer::start(&b_space, &realm, "b", &list);
        a.until_seen("b", b_plug);
        b.until_seen("a", a_plug);
        is_over.store(true, Ordering::Relaxed);
        watch.join().expect("it watched")
    });
    assert!(most <= most_allowed, "{most} of {most_allowed}");
    eventually("they are closed", || files(pid) <= before + OTHER_FILES);
}

/// Ends the flood, also where the test fails.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Connects again and again, and leaves each connection only when it has many.
fn flood(space: &Namespace, port: SocketAddr, made: &AtomicUsize, is_over: &AtomicBool) {
    enter(space.id());
    let mut kept = std::collections::VecDeque::with_capacity(KEPT);
    for words in WORDS.iter().cycle() {
        if is_over.load(Ordering::Relaxed) {
            return;
        }
        let Ok(mut stream) = TcpStream::connect_timeout(&port, CONNECT) else {
            continue;
        };
        // It may have been refused already.
        let _ = stream.write_all(words);
        made.fetch_add(1, Ordering::Relaxed);
        if kept.len() == KEPT {
            kept.pop_front();
        }
        kept.push_back(stream);
        let_time_pass(PAUSE, "the pace of a stranger");
    }
}

/// That a process has open.
fn files(pid: u32) -> usize {
    let files = std::fs::read_dir(format!("/proc/{pid}/fd")).expect("it runs");
    files.count()
}
