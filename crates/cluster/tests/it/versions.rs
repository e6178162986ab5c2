//! A host of another version: refused on either side, with both versions and what to do.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;

use crate::support::carrier::dial;
use crate::support::host::TestHost;
use crate::support::liar::LIAR;
use crate::support::{BOUND, eventually};
use hythe_cluster::frame::{Preamble, VERSION};

/// As one of another version begins.
fn foreign(version: u32) -> [u8; 16] {
    let mut preamble = Preamble::to_bytes();
    preamble[8..12].copy_from_slice(&version.to_le_bytes());
    preamble
}

fn assert_named(host: &TestHost, of: &str, version: u32) {
    let reason = || host.status_of(of).map_or_else(String::new, |it| it.reason);
    let (theirs, ours) = (
        format!("version {version} "),
        format!("this one {VERSION}: install the same release"),
    );
    eventually(&theirs, || {
        let reason = reason();
        reason.contains(&theirs) && reason.contains(&ours)
    });
    assert!(!host.is_connected_to(of));
}

#[test]
fn who_calls_with_another_version_is_refused_and_that_is_said() {
    let host = TestHost::new("b");
    for version in [VERSION - 1, VERSION + 1, u32::MAX] {
        let mut stream = dial(LIAR, host.carrier.address()).expect("connects");
        stream.set_read_timeout(Some(BOUND)).expect("set");
        stream.write_all(&foreign(version)).expect("sent");
        // It says which version it has, and why it hangs up.
        let mut said = Vec::new();
        stream.read_to_end(&mut said).expect("closed");
        assert_eq!(said[..16], Preamble::to_bytes());
        assert!(String::from_utf8_lossy(&said).contains("install the same release"));
        assert_named(&host, LIAR, version);
    }
}

#[test]
fn who_answers_with_another_version_is_refused_and_that_is_said() {
    let host = TestHost::new("b");
    let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
    let other = "z".parse().expect("a name");
    host.directory
        .show(&other, listener.local_addr().expect("bound"));
    for version in [VERSION - 1, VERSION + 1] {
        let (mut stream, _) = listener.accept().expect("it dials");
        stream.set_read_timeout(Some(BOUND)).expect("set");
        let mut length = [0];
        stream.read_exact(&mut length).expect("a name");
        let mut name = vec![0; length[0].into()];
        stream.read_exact(&mut name).expect("a name");
        stream.read_exact(&mut [0; 16]).expect("a preamble");
        stream.write_all(&foreign(version)).expect("sent");
        assert_named(&host, "z", version);
    }
}
