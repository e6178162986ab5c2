//! A `hythe` without a C library of the system publishes and subscribes, to its like and to the one
//! that is built here.
//!
//! `make test-targets` builds it and sets [`STATIC`]; without it this test is skipped aloud.

use crate::support;
use std::process::Command;

use crate::support::{Root, Running, eventually};

/// The environment variable with the path of the program.
const STATIC: &str = "HYTHE_STATIC_PROGRAM";

#[test]
fn static_program_publishes_and_subscribes() {
    let Ok(program) = std::env::var(STATIC) else {
        eprintln!("SKIPPED (no {STATIC}; `make test-targets` builds it): a static hythe");
        return;
    };
    let own = support::HYTHE;
    for (publisher, subscriber) in [(&*program, &*program), (&program, own), (own, &program)] {
        let root = Root::new();
        root.ok(&["pool", "create", "--size", "16M"]);
        let run = |program: &str, arguments: &[&str]| {
            Running::new(root.command_by(Command::new(program), arguments))
        };
        let message = root.path().join("message");
        let bytes: Vec<u8> = (0..100_000_u32).map(|at| (at * 7) as u8).collect();
        std::fs::write(&message, &bytes).expect("room");
        // The publisher waits for it, so that the load of the machine decides nothing.
        let taking = ["sub", "data", "--count", "3", "--raw", "--block", "60"];
        let subscribed = run(subscriber, &taking);
        eventually("it subscribes", || root.subscribers("data") == 1);
        let message = message.to_str().expect("plain");
        let giving = [
            "pub",
            "data",
            message,
            "--repeat",
            "3",
            "--send-timeout",
            "60",
        ];
        let published = run(publisher, &giving).end();
        assert_eq!(published.code, Some(0), "{publisher}: {}", published.errors);
        let heard = subscribed.end();
        assert_eq!(heard.code, Some(0), "{subscriber}: {}", heard.errors);
        assert!(
            heard.output == bytes.repeat(3),
            "{publisher} to {subscriber}"
        );
    }
}
