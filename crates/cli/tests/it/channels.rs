//! `hythe pub`, `sub`, `hz`, `who` between processes that live, end, and are killed.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use crate::support::{Root, Running, eventually};
use rustix::process::Signal;
use serde_json::Value;

/// Bytes without a pattern that a wrong order or a missing piece could hide in.
fn noise(bytes: usize) -> Vec<u8> {
    let mut state = 0x2545_F491_4F6C_DD1D_u64;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    std::iter::repeat_with(next).take(bytes).collect()
}

fn subscribed(root: &Root, arguments: &[&str]) -> Running {
    let running = root.start(arguments);
    eventually("it subscribes", || root.subscribers(arguments[1]) == 1);
    running
}

/// All is free and nobody is there.
fn is_idle(root: &Root) -> bool {
    let shown = root.json(&["pool", "show"]);
    assert_eq!(shown["mismatches"], Value::Array(Vec::new()));
    shown["slots"]["free"] == shown["slots"]["total"] && shown["tables"][0]["used"] == 0
}

#[test]
fn payload_arrives_as_it_was() {
    let root = Root::new();
    let payload = noise(300_000);
    let subscriber = subscribed(
        &root,
        &["sub", "data", "--count", "1", "--timeout", "100", "--raw"],
    );
    let published = root.feed(&["pub", "data", "--json"], &payload);
    assert_eq!(published.code, Some(0), "{}", published.errors);
    let document: Value = serde_json::from_slice(&published.output).expect("one document");
    assert_eq!(
        (
            &document["messages"],
            &document["delivered"],
            &document["dropped"]
        ),
        (&1.into(), &1.into(), &0.into())
    );
    assert_eq!(document["payload_bytes"], payload.len());
    let received = subscriber.end();
    assert_eq!(received.code, Some(0), "{}", received.errors);
    assert!(
        received.output == payload,
        "{} bytes arrived changed",
        received.output.len()
    );
    assert!(is_idle(&root));
    root.ok(&["pool", "remove"]);
    assert!(root.traces().is_empty());
}

#[test]
fn input_is_cut_and_repeated_as_asked_for() {
    let root = Root::new();
    let payload = noise(10_000);
    let file = root.path().join("payload");
    fs::write(&file, &payload).expect("own");
    let file = file.to_str().expect("plain");
    let ways: &[(&[&str], u64, Vec<u8>)] = &[
        (&[file], 1, payload.clone()),
        (&[file, "--repeat", "3"], 3, payload.repeat(3)),
        (&[file, "--size", "4096"], 3, payload.clone()),
        (
            &[file, "--size", "4096", "--repeat", "2"],
            6,
            payload.repeat(2),
        ),
        (&["-", "--size", "3000"], 4, payload.clone()),
        (&["-", "--repeat", "2"], 2, payload.repeat(2)),
        (&["-", "--size", "100K"], 1, payload.clone()),
    ];
    for (arguments, messages, expected) in ways {
        let count = messages.to_string();
        let subscriber = subscribed(
            &root,
            &[
                "sub",
                "data",
                "--count",
                &count,
                "--timeout",
                "100",
                "--raw",
            ],
        );
        let published = root.feed(&[&["pub", "data", "--json"], *arguments].concat(), &payload);
        assert_eq!(
            published.code,
            Some(0),
            "{arguments:?}: {}",
            published.errors
        );
        let document: Value = serde_json::from_slice(&published.output).expect("one document");
        assert_eq!(document["messages"], *messages, "{arguments:?}");
        let received = subscriber.end();
        assert_eq!(received.code, Some(0), "{arguments:?}: {}", received.errors);
        assert!(
            received.output == *expected,
            "{arguments:?}: {} bytes arrived changed",
            received.output.len()
        );
    }
}

#[test]
fn lines_and_empty_messages_are_messages() {
    let root = Root::new();
    let subscriber = subscribed(
        &root,
        &["sub", "data", "--count", "4", "--timeout", "100", "--json"],
    );
    assert_eq!(
        root.feed(&["pub", "data", "--lines"], b"one\n\nthree").code,
        Some(0)
    );
    assert_eq!(root.feed(&["pub", "data"], b"").code, Some(0));
    let received = subscriber.end();
    assert_eq!(received.code, Some(0), "{}", received.errors);
    let document: Value = serde_json::from_slice(&received.output).expect("one document");
    let payloads: Vec<&str> = document["messages"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|one| one["hex"].as_str())
        .collect();
    // Two publishers: whose message comes first is not said.
    let (empty, full): (Vec<&str>, Vec<&str>) =
        payloads.iter().partition(|payload| payload.is_empty());
    assert_eq!((empty.len(), full), (2, vec!["6f6e65", "7468726565"]));
    assert_eq!(
        (&document["count"], &document["payload_bytes"]),
        (&4.into(), &8.into())
    );
}

#[test]
fn repeated_lines_of_a_file_start_anew() {
    let root = Root::new();
    let file = root.path().join("lines");
    fs::write(&file, "a\nbb\n").expect("own");
    let subscriber = subscribed(&root, &["sub", "data", "--count", "4", "--timeout", "100"]);
    root.ok(&[
        "pub",
        "data",
        file.to_str().expect("plain"),
        "--lines",
        "--repeat",
        "2",
    ]);
    let received = subscriber.end();
    assert_eq!(
        received.text(),
        "#0 1 B \"a\"\n#1 2 B \"bb\"\n#2 1 B \"a\"\n#3 2 B \"bb\"\n"
    );
}

/// Seconds that `hythe pub` took for six messages at five a second, which are due over one second.
fn seconds_of_six(root: &Root, arguments: &[&str]) -> f64 {
    let all = [&["pub", "paced", "--rate", "5"], arguments].concat();
    let published = root.json(&all);
    assert_eq!(published["messages"], 6, "{published}");
    published["seconds"].as_f64().expect("seconds")
}

#[test]
fn rate_is_kept_also_over_rounds_and_lines() {
    let root = Root::new();
    let file = root.path().join("payload");
    let path = file.to_str().expect("plain");
    for (content, arguments) in [
        ("x", vec![path, "--repeat", "6"]),
        ("a\nb\n", vec![path, "--repeat", "3", "--lines"]),
        ("abcd", vec![path, "--repeat", "3", "--size", "2"]),
    ] {
        fs::write(&file, content).expect("own");
        // A wait too many for each round makes it take longer every time; a busy machine does not.
        eventually("six messages keep their rate", || {
            let seconds = seconds_of_six(&root, &arguments);
            assert!(seconds >= 1.0, "{arguments:?} took {seconds} s");
            seconds < 1.35
        });
    }
}

#[test]
fn end_of_the_input_costs_no_wait() {
    let root = Root::new();
    let file = root.path().join("payload");
    fs::write(&file, "one line\n").expect("own");
    let path = file.to_str().expect("plain");
    for more in [&["--lines"][..], &["--size", "64"], &[]] {
        // One message, and the next would be due in 1,000 s: the bound of the test is far below.
        let arguments = [&["pub", "slow", path, "--rate", "0.001"], more].concat();
        assert_eq!(root.json(&arguments)["messages"], 1);
        let from_pipe = [&["pub", "slow", "--rate", "0.001", "--json"], more].concat();
        let ended = root.feed(&from_pipe, b"one line\n");
        assert_eq!(ended.code, Some(0), "{more:?}: {}", ended.errors);
    }
}

#[test]
fn what_arrives_is_shown_in_each_form() {
    let root = Root::new();
    let shown = |form: &[&str]| {
        let subscriber = subscribed(
            &root,
            &[&["sub", "data", "--count", "1", "--timeout", "100"], form].concat(),
        );
        assert_eq!(root.feed(&["pub", "data"], b"good\tmorning").code, Some(0));
        subscriber.end().text()
    };
    assert_eq!(shown(&[]), "#0 12 B \"good\\tmorning\"\n");
    assert_eq!(shown(&["--raw"]), "good\tmorning");
    let hex = shown(&["--hex"]);
    assert!(
        hex.contains("00000000  67 6f 6f 64 09 6d") && hex.contains("good.morning"),
        "{hex}"
    );
    let document: Value = serde_json::from_str(&shown(&["--json"])).expect("one document");
    assert_eq!(
        document["messages"][0],
        serde_json::json!({"number": 0, "bytes": 12, "hex": "676f6f64096d6f726e696e67"})
    );
}

#[test]
fn document_truncates_large_message_unless_asked() {
    let root = Root::new();
    let payload = noise(1 << 20);
    let shown = |form: &[&str]| {
        let sub = ["sub", "data", "--count", "1", "--timeout", "100", "--json"];
        let subscriber = subscribed(&root, &[&sub[..], form].concat());
        assert_eq!(root.feed(&["pub", "data"], &payload).code, Some(0));
        let text = subscriber.end().text();
        let document: Value = serde_json::from_str(&text).expect("one document");
        (text.len(), document["messages"][0].clone())
    };
    let hex = |bytes: &[u8]| -> String { bytes.iter().map(|byte| format!("{byte:02x}")).collect() };
    let (length, message) = shown(&[]);
    assert!(length < 2000, "{length} bytes");
    assert_eq!(message["bytes"], 1 << 20);
    assert_eq!(message["truncated"], true);
    assert_eq!(message["hex"], hex(&payload[..256]));
    assert_eq!(message["sha256"].as_str().map(str::len), Some(64));
    let (_, all) = shown(&["--hex"]);
    assert_eq!(all["hex"], hex(&payload));
    assert_eq!(all.get("truncated"), None);
}

#[test]
fn who_waits_on_a_channel_that_nobody_publishes_is_told_once() {
    let root = Root::new();
    let waiting = subscribed(&root, &["sub", "slip", "--count", "1"]);
    waiting.wait_until_said("nobody publishes on channel `slip`");
    // It waits on.
    assert_eq!(root.feed(&["pub", "slip"], b"at last").code, Some(0));
    let ended = waiting.end();
    assert_eq!(ended.code, Some(0), "{}", ended.errors);
    assert_eq!(ended.text(), "#0 7 B \"at last\"\n");
    assert_eq!(ended.errors.matches("nobody publishes").count(), 1);
}

#[test]
fn many_messages_reach_a_subscriber_that_blocks_its_publisher() {
    let root = Root::new();
    let payload = noise(3_000_000);
    let subscriber = subscribed(
        &root,
        &[
            "sub",
            "data",
            "--count",
            "3000",
            "--timeout",
            "20",
            "--raw",
            "--depth",
            "4",
            "--block",
            "20",
        ],
    );
    let arguments = [
        "pub",
        "data",
        "--size",
        "1000",
        "--send-timeout",
        "20",
        "--json",
    ];
    let published = root.feed(&arguments, &payload);
    let document: Value = serde_json::from_slice(&published.output).expect("one document");
    assert_eq!(
        (&document["delivered"], &document["dropped"]),
        (&3000.into(), &0.into())
    );
    assert!(subscriber.end().output == payload);
    assert!(is_idle(&root));
}

#[test]
fn killed_subscriber_gives_back_what_it_held() {
    let root = Root::new();
    // A subscriber that cannot print keeps what it has taken, and does not take what waits.
    let mut command = root.command(&["sub", "data", "--raw", "--depth", "8"]);
    command.stderr(Stdio::null());
    let mut child = command.spawn().expect("started");
    eventually("it subscribes", || root.subscribers("data") == 1);
    // Keeps the pool alive, so that somebody is there to see the death.
    let witness = subscribed(&root, &["sub", "other"]);
    let published = root.feed(&["pub", "data", "--size", "100K"], &noise(900_000));
    assert_eq!(published.code, Some(0), "{}", published.errors);
    let in_use = |root: &Root| {
        let slots = &root.json(&["pool", "show"])["slots"];
        slots["held"].as_u64().unwrap_or(0) + slots["queued"].as_u64().unwrap_or(0)
    };
    eventually("it is stuck with buffers", || in_use(&root) > 0);
    let who = root.json(&["who"]);
    let name = format!("hythe sub (pid {})", child.id());
    let holders = who["holders"].as_array().expect("a list");
    assert!(
        holders.iter().any(|holder| holder["holder"]
            .as_str()
            .is_some_and(|text| text.contains(&name))),
        "{who}"
    );
    assert!(root.ok(&["who"]).contains(&name));
    child.kill().expect("own child");
    child.wait().expect("own child");
    eventually("all comes back", || in_use(&root) == 0);
    assert_eq!(root.json(&["who"])["buffers"], Value::Array(Vec::new()));
    let list = root.json(&["list"]);
    assert_eq!(
        list["participants"].as_array().map(Vec::len),
        Some(1),
        "{list}"
    );
    witness.interrupt();
    witness.end().succeeded();
    eventually("nobody is there", || is_idle(&root));
}

#[test]
fn too_large_and_full_name_numbers_and_holders() {
    let root = Root::new();
    root.ok(&["pool", "create", "--exact", "--class", "3840x4"]);
    let file = root.path().join("large");
    fs::write(&file, noise(4000)).expect("own");
    root.run(&["pub", "data", file.to_str().expect("plain")])
        .failed(1, &["4000 bytes do not fit", "3840", "--class 4000x4"]);
    root.feed(&["pub", "data"], &noise(4000))
        .failed(1, &["3840", "--size", "--class"]);
    root.feed(&["pub", "data", "--lines"], &[b'a'; 40_000])
        .failed(1, &["3840"]);
}

/// Whatever the depth that it asks for: it gets half of the slots, and the others get everything.
#[test]
fn stopped_subscriber_blocks_no_other_port() {
    let root = Root::new();
    root.ok(&["pool", "create", "--size", "32M"]);
    let stopped = stuck_subscriber(&root);
    let message = noise(1 << 20);
    let file = root.path().join("message");
    fs::write(&file, &message).expect("own");
    let file = file.to_str().expect("plain");
    let lively = root.start(&["sub", "data", "--count", "40", "--raw", "--block", "60"]);
    eventually("both subscribe", || root.subscribers("data") == 2);
    let arguments = [
        "pub",
        "data",
        file,
        "--repeat",
        "40",
        "--send-timeout",
        "60",
    ];
    let said = root.json(&arguments);
    let half = said["delivered"].as_u64().expect("a number") - 40;
    assert_eq!(said["messages"], 40);
    assert_eq!(said["dropped"], 40 - half, "{said}");
    assert!((1..40).contains(&half), "{said}");
    assert_eq!(lively.end().output, message.repeat(40));
    end(stopped);
}

/// Stopped by the system: it holds its place and takes nothing.
fn stuck_subscriber(root: &Root) -> std::process::Child {
    let child = root
        .command(&["sub", "data", "--depth", "64"])
        .stdout(Stdio::null())
        .spawn()
        .expect("started");
    eventually("it subscribes", || root.subscribers("data") == 1);
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, Signal::STOP).expect("own child");
    child
}

fn end(mut child: std::process::Child) {
    child.kill().expect("own child");
    child.wait().expect("own child");
}

#[test]
fn blocking_subscriber_that_does_not_take_is_named() {
    let root = Root::new();
    let child = root
        .command(&["sub", "data", "--depth", "2", "--block", "0.2"])
        .stdout(Stdio::null())
        .spawn()
        .expect("started");
    eventually("it subscribes", || root.subscribers("data") == 1);
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), Signal::STOP)
        .expect("own child");
    let name = format!("hythe sub (pid {})", child.id());
    // Its own bound is longer than what the publisher allows strangers, and shorter than this.
    for (send_timeout, waited) in [("0.1", "for 100 ms"), ("30", "for 200 ms")] {
        let arguments = [
            "pub",
            "data",
            "--lines",
            "--send-timeout",
            send_timeout,
            "--json",
        ];
        let blocked = root.feed(&arguments, b"1\n2\n3\n4\n");
        assert_eq!(blocked.code, Some(0), "{}", blocked.errors);
        for word in ["channel `data`", waited, &name] {
            assert!(blocked.errors.contains(word), "{}", blocked.errors);
        }
        assert_eq!(blocked.errors.matches(&name).count(), 1, "said once");
        let document: Value = serde_json::from_slice(&blocked.output).expect("one document");
        assert_eq!(document["messages"], 4);
        let (delivered, dropped) = (&document["delivered"], &document["dropped"]);
        assert_eq!(delivered.as_u64().zip(dropped.as_u64()), Some((2, 2)));
        // The next publisher has a queue of its own.
    }
    end(child);
}

#[test]
fn waits_end_with_a_reason() {
    let root = Root::new();
    root.run(&["sub", "data", "--count", "2", "--timeout", "0.2"])
        .failed(1, &["0 of 2 messages", "`data`", "0.2 s"]);
    assert_eq!(root.run(&["sub", "data", "--timeout", "0.1"]).code, Some(0));
    root.feed(&["pub", "data", "--wait", "0.2"], b"x")
        .failed(1, &["`data` has no subscriber", "hythe sub data"]);
    let unheard = root.feed(&["pub", "data"], b"x");
    assert_eq!(unheard.code, Some(0));
    assert!(
        unheard.errors.contains("nobody received it"),
        "{}",
        unheard.errors
    );
    let cut_short = root.run(&["sub", "data", "--count", "2", "--timeout", "0.2", "--json"]);
    assert_eq!(cut_short.code, Some(1));
    let document: Value =
        serde_json::from_slice(&cut_short.output).expect("one document, though it failed");
    assert_eq!(document["count"], 0);
    assert!(is_idle(&root));
}

#[test]
fn publisher_waits_for_its_first_subscriber() {
    let root = Root::new();
    let mut command = root.command(&["pub", "data", "--wait", "20"]);
    command.stdin(Stdio::piped());
    let mut publisher = Running::new(command);
    publisher
        .child
        .stdin
        .take()
        .expect("piped")
        .write_all(b"late")
        .expect("read");
    eventually("it takes part", || {
        root.run(&["list"]).text().contains("hythe pub")
    });
    let received = root.run(&["sub", "data", "--count", "1", "--timeout", "100", "--raw"]);
    assert_eq!(received.text(), "late");
    publisher.end().succeeded();
}

#[test]
fn interrupted_commands_leave_the_pool() {
    let root = Root::new();
    for signal in [Signal::INT, Signal::TERM] {
        let subscriber = subscribed(&root, &["sub", "data", "--json"]);
        // One waits for its input, one is in the middle of a slow rate.
        let mut waiting = root.command(&["pub", "data"]);
        waiting.stdin(Stdio::piped());
        let mut waiting = Running::new(waiting);
        let input = waiting.child.stdin.take();
        let slow = root.start(&[
            "pub",
            "data",
            "/etc/hostname",
            "--repeat",
            "0",
            "--rate",
            "0.5",
        ]);
        let rates = root.start(&["hz", "data"]);
        eventually("all take part", || {
            root.json(&["list"])["participants"]
                .as_array()
                .map(Vec::len)
                == Some(3)
        });
        // Who looks at rates takes no part: it may not have come so far yet.
        eventually("it listens for signals", || catches(&rates, signal));
        for running in [&waiting, &slow, &rates, &subscriber] {
            running.signal(signal);
        }
        for running in [waiting, slow, rates] {
            let ended = running.end();
            assert_eq!(ended.code, Some(0), "{}", ended.errors);
        }
        let ended = subscriber.end();
        assert_eq!(ended.code, Some(0), "{}", ended.errors);
        serde_json::from_slice::<Value>(&ended.output)
            .expect("one document, though it was interrupted");
        drop(input);
        assert!(is_idle(&root));
    }
}

/// Has it a handler for the signal?
fn catches(running: &Running, signal: Signal) -> bool {
    let path = format!("/proc/{}/status", running.child.id());
    let status = std::fs::read_to_string(path).expect("own child");
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let caught = u64::from_str_radix(caught.expect("Linux").trim(), 16).expect("a mask");
    caught >> (signal.as_raw() - 1) & 1 == 1
}

#[test]
fn reader_that_has_seen_enough_ends_it_cleanly() {
    let root = Root::new();
    root.ok(&["pool", "create", "--size", "16M"]);
    let mut command = root.command(&["sub", "data"]);
    command.stdout(Stdio::piped());
    let mut child = command.spawn().expect("started");
    eventually("it subscribes", || root.subscribers("data") == 1);
    let publisher = root.start(&[
        "pub",
        "data",
        "/etc/hostname",
        "--repeat",
        "0",
        "--rate",
        "50",
    ]);
    let mut first = String::new();
    let mut output = BufReader::new(child.stdout.take().expect("piped"));
    output.read_line(&mut first).expect("a line");
    assert!(first.starts_with("#0 "), "{first}");
    drop(output);
    eventually("it ends", || child.try_wait().expect("own child").is_some());
    assert_eq!(child.wait().expect("own child").code(), Some(0));
    publisher.interrupt();
    publisher.end().succeeded();
    let mut said = String::new();
    std::io::Read::read_to_string(&mut child.stderr.take().expect("piped"), &mut said)
        .expect("read");
    assert_eq!(said, "", "a closed pipe is no error");
}

#[test]
fn rates_are_those_of_the_ports() {
    let root = Root::new();
    let subscriber = subscribed(&root, &["sub", "data", "--raw"]);
    let publisher = root.start(&[
        "pub",
        "data",
        "/etc/hostname",
        "--repeat",
        "0",
        "--rate",
        "200",
    ]);
    eventually("both are there", || {
        root.json(&["list"])["participants"]
            .as_array()
            .map(Vec::len)
            == Some(2)
    });
    let document = root.json(&["hz", "data", "--interval", "0.5", "--count", "2"]);
    let rates = document["rates"].as_array().expect("a list");
    assert_eq!((rates.len(), &document["intervals"]), (2, &2.into()));
    for rate in rates {
        assert_eq!(
            (&rate["published"]["ports"], &rate["taken"]["ports"]),
            (&1.into(), &1.into())
        );
        assert!(rate["published"]["messages"].as_u64() > Some(0), "{rate}");
        let hertz = rate["published"]["messages_per_second"]
            .as_f64()
            .expect("a number");
        // No more than was asked for, apart from one catching up.
        assert!(hertz > 0.0 && hertz < 2000.0, "{rate}");
    }
    let line = root.ok(&["hz", "data", "--interval", "0.1", "--count", "1"]);
    assert!(
        line.contains("by 1 publisher") && line.contains("by 1 subscriber"),
        "{line}"
    );
    // It only looked: nobody joined, nothing was taken away.
    assert_eq!(
        root.json(&["list"])["participants"]
            .as_array()
            .map(Vec::len),
        Some(2)
    );
    for running in [publisher, subscriber] {
        running.interrupt();
        running.end().succeeded();
    }
}

#[test]
fn list_shows_ports_and_what_they_counted() {
    let root = Root::new();
    let child = stuck_subscriber(&root);
    let publisher = root.start(&[
        "pub",
        "data",
        "/etc/hostname",
        "--repeat",
        "0",
        "--rate",
        "500",
    ]);
    let port = |kind: &str| {
        let list = root.json(&["list"]);
        let ports = list["channels"][0]["ports"]
            .as_array()
            .expect("a list")
            .clone();
        ports
            .into_iter()
            .find(|port| port["kind"] == kind)
            .unwrap_or_default()
    };
    eventually("the queue is full and messages pass by", || {
        port("publisher")["dropped"].as_u64() > Some(0)
    });
    let subscriber = port("subscriber");
    assert_eq!(
        (&subscriber["waiting"], &subscriber["depth"]),
        (&64.into(), &64.into())
    );
    assert_eq!(subscriber["pid"], child.id());
    let text = root.ok(&["list"]);
    for word in [
        "channel data carries raw bytes",
        "publisher",
        "subscriber",
        "DROPPED",
        "alive",
    ] {
        assert!(text.contains(word), "no `{word}` in {text}");
    }
    publisher.interrupt();
    publisher.end().succeeded();
    end(child);
}

#[test]
fn logs_go_to_standard_error() {
    let root = Root::new();
    root.ok(&["pool", "create", "--size", "16M"]);
    let child = stuck_subscriber(&root);
    end(child);
    // The first to come back recovers the dead, and says so when asked to.
    let mut command = root.command(&["pub", "data", "/etc/hostname", "-v", "--json"]);
    command.env("NO_COLOR", "1");
    let ended = Running::new(command).end();
    assert_eq!(ended.code, Some(0), "{}", ended.errors);
    assert!(
        ended.errors.contains("recovered a dead participant"),
        "{}",
        ended.errors
    );
    serde_json::from_slice::<Value>(&ended.output).expect("one document");
}
