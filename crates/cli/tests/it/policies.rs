//! `hythe sub --policy --depth --history`, `hythe pub --history --linger`, `hythe pool create
//! --limit`.

use crate::support::{Root, eventually};
use serde_json::Value;

#[test]
fn late_subscriber_is_given_what_was_kept() {
    let root = Root::new();
    let lines = root.path().join("lines");
    std::fs::write(&lines, "one\ntwo\nthree\n").expect("own");
    let lines = lines.to_str().expect("plain");
    let publisher = root.start(&[
        "pub",
        "past",
        lines,
        "--lines",
        "--history",
        "2",
        "--linger",
        "60",
    ]);
    eventually("all is published, and the last two are kept", || {
        let shown = root.run(&["who", "--json"]);
        let shown: Value = serde_json::from_slice(&shown.output).unwrap_or_default();
        let holders = shown["holders"].as_array().cloned().unwrap_or_default();
        let list: Value =
            serde_json::from_slice(&root.run(&["list", "--json"]).output).unwrap_or_default();
        let messages = &list["channels"][0]["ports"][0]["messages"];
        holders.len() == 1 && *messages == 3
    });
    let late = root.run(&[
        "sub",
        "past",
        "--history",
        "5",
        "--count",
        "2",
        "--timeout",
        "20",
    ]);
    assert_eq!(late.code, Some(0), "{}", late.errors);
    assert_eq!(late.text(), "#0 3 B \"two\"\n#1 5 B \"three\"\n");
    let none = root.run(&["sub", "past", "--count", "1", "--timeout", "0.3"]);
    assert_eq!(none.code, Some(1), "history came unasked: {}", none.text());
    publisher.interrupt();
    let ended = publisher.end();
    assert!(ended.text().contains("3 messages"), "{}", ended.text());
}

#[test]
fn stopped_subscriber_finds_the_newest() {
    let root = Root::new();
    let subscriber = root.start(&[
        "sub",
        "data",
        "--policy",
        "evict-oldest",
        "--depth",
        "2",
        "--count",
        "2",
        "--timeout",
        "20",
    ]);
    eventually("it subscribes", || root.subscribers("data") == 1);
    let list = root.json(&["list"]);
    let port = &list["channels"][0]["ports"][0];
    assert_eq!(
        (&port["when_full"], &port["depth"]),
        (&"evict-oldest".into(), &2.into())
    );
    assert!(root.ok(&["list"]).contains("evict-oldest"));
    subscriber.signal(rustix::process::Signal::STOP);
    let published = root.feed(&["pub", "data", "--lines", "--json"], b"a\nb\nc\nd\ne");
    assert_eq!(published.code, Some(0), "{}", published.errors);
    let published: Value = serde_json::from_slice(&published.output).expect("one document");
    assert_eq!(
        (&published["delivered"], &published["evicted"]),
        (&5.into(), &3.into())
    );
    subscriber.signal(rustix::process::Signal::CONT);
    let received = subscriber.end();
    assert_eq!(
        received.text(),
        "#0 (3 missed before) 1 B \"d\"\n#1 1 B \"e\"\n",
        "{}",
        received.errors
    );
}

#[test]
fn what_does_not_fit_together_is_refused_with_what_would() {
    let root = Root::new();
    root.run(&["sub", "data", "--policy", "evict-oldest", "--block", "1"])
        .failed(2, &["--policy block"]);
    root.run(&["pool", "create", "--limit", "slots=3"])
        .failed(2, &["participants, channels, ports"]);
    root.run(&["pool", "create", "--limit", "participants=255"])
        .failed(1, &["limit of participants is 255", "from 1 to 254"]);
    root.ok(&[
        "pool",
        "create",
        "tiny",
        "--exact",
        "--class",
        "1Kx16",
        "--limit",
        "participants=1",
        "--limit",
        "queue-segments=4100",
    ]);
    root.run(&["--pool", "tiny", "sub", "data", "--depth", "128"])
        .failed(1, &["128 messages is too deep", "64 are possible"]);
    let running = root.start(&["--pool", "tiny", "sub", "data"]);
    eventually("it takes part", || {
        let list: Value =
            serde_json::from_slice(&root.run(&["--pool", "tiny", "list", "--json"]).output)
                .unwrap_or_default();
        list["channels"][0]["ports"][0]["depth"] == 32
    });
    root.run(&["--pool", "tiny", "pub", "data"]).failed(
        1,
        &[
            "no free participant",
            "all 1 are in use",
            "hythe sub (pid",
            "--limit",
        ],
    );
    running.interrupt();
    running.end();
}
