//! What the commands of `hythe` show of another host, and what they carry there.

use std::io::Read as _;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use crate::network::agent::{Host, LONG, eventually, patient_pair};
use crate::network::{Lan, is_skipped};
use hythe_cluster::command::{Reply, Request};
use hythe_node::{ClientOptions, PublisherOptions, ServerOptions, SubscriberOptions};
use hythe_testing::Polling;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

/// `hythe`, which the workspace builds: `make test-hosts` names it.
fn hythe() -> Option<String> {
    let program = std::env::var("HYTHE_COMMAND").ok();
    if program.is_none() {
        eprintln!("SKIPPED (no HYTHE_COMMAND; `make test-hosts` builds it): commands on two hosts");
    }
    program.filter(|_| !is_skipped())
}

/// A command that runs; killed with the value.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Running {
    fn signal(&self, signal: Signal) {
        send(self.0.id(), signal);
    }

    /// Its end, and what it printed; one that stands still is killed.
    fn output(mut self) -> Vec<u8> {
        let mut printed = self.0.stdout.take().expect("piped");
        let reading = std::thread::spawn(move || {
            let mut output = Vec::new();
            printed.read_to_end(&mut output).expect("read");
            output
        });
        let (since, mut polling) = (Instant::now(), Polling::new("its end"));
        let ended = loop {
            let ended = self.0.try_wait().expect("its end");
            if ended.is_some() || since.elapsed() > LONG {
                break ended;
            }
            polling.pause();
        };
        // Dropped, it is killed: then all it said is read.
        drop(self);
        let output = reading.join().expect("no panic");
        let said = String::from_utf8_lossy(&output);
        let ended = ended.unwrap_or_else(|| panic!("it stands still after {LONG:?}: {said}"));
        assert!(ended.success(), "{ended:?}: {said}");
        output
    }
}

fn send(process: u32, signal: Signal) {
    let process = Pid::from_raw(process.try_into().expect("a process"));
    kill_process(process.expect("a process"), signal).expect("it lives");
}

/// `hythe` on a host.
fn command(host: &Host, hythe: &str, words: &[&str]) -> Command {
    let mut command = host.space.command(hythe);
    command.env("HYTHE_HOSTS_DIR", host.path("hosts"));
    command.env("HYTHE_ROOT", host.path("pools")).args(words);
    command.stdin(Stdio::null());
    command
}

fn start(host: &Host, hythe: &str, words: &[&str]) -> Running {
    let mut command = command(host, hythe, words);
    Running(command.stdout(Stdio::piped()).spawn().expect("nsenter"))
}

fn said(host: &Host, hythe: &str, words: &[&str]) -> String {
    let output = command(host, hythe, words).output().expect("nsenter");
    assert!(output.status.success(), "{words:?}: {output:?}");
    String::from_utf8(output.stdout).expect("text")
}

fn document(host: &Host, hythe: &str, words: &[&str]) -> Value {
    let said = said(host, hythe, &[words, &["--json"]].concat());
    serde_json::from_str(&said).expect("one document")
}

/// What `hythe list` says of a channel's ends on other hosts.
fn remote_ends(host: &Host, hythe: &str, channel: &str) -> Value {
    let list = document(host, hythe, &["list"]);
    let channels = list["channels"].as_array().expect("a list");
    let found = channels.iter().find(|found| found["name"] == channel);
    found.map_or(Value::Null, |found| found["remote_ends"].clone())
}

fn ends(kind: &str, count: u32, carries: &str) -> Value {
    json!({"host": "b", "kind": kind, "count": count, "type": carries})
}

#[test]
fn list_shows_ends_of_another_host() {
    let Some(hythe) = hythe() else { return };
    let lan = Lan::new(1);
    let [a, b] = patient_pair(&lan);
    let there = b.join("there");
    let send = PublisherOptions::default();
    let publisher = there.publisher("only sent", &send).expect("opened");
    let receive = SubscriberOptions::default();
    let subscribers = [(); 2].map(|()| there.subscriber("frames", &receive).expect("opened"));
    let server = there.server("sums", &ServerOptions::default());
    let client = there.client("sums", &ClientOptions::default());
    let listener = there.listener("alarm");
    let raw = "raw bytes";
    for (channel, expected) in [
        ("only sent", json!([ends("publisher", 1, raw)])),
        ("frames", json!([ends("subscriber", 2, raw)])),
        (
            "sums",
            json!([ends("client", 1, raw), ends("server", 1, raw)]),
        ),
        ("alarm", json!([ends("listener", 1, "no payload")])),
    ] {
        eventually(channel, || remote_ends(&a, &hythe, channel) == expected);
    }
    let text = said(&a, &hythe, &["list"]);
    assert!(text.contains("  2 subscribers on host b\n"), "{text}");
    // An agent that stands still: the command says so, and ends.
    let Some(Reply::Status { status }) = a.ask(&Request::Status) else {
        panic!("the agent answers");
    };
    send_and_list(&a, &hythe, status.pid);
    drop((publisher, server, client, listener));
    let left = json!([ends("subscriber", 2, raw)]);
    eventually("the others go", || {
        remote_ends(&a, &hythe, "only sent") == Value::Null
            && remote_ends(&a, &hythe, "frames") == left
    });
    drop(subscribers);
}

fn send_and_list(host: &Host, hythe: &str, agent: u32) {
    send(agent, Signal::STOP);
    let list = command(host, hythe, &["list", "--json"]).output();
    send(agent, Signal::CONT);
    let list = list.expect("nsenter");
    assert!(list.status.success(), "{list:?}");
    let list: Value = serde_json::from_slice(&list.stdout).expect("one document");
    let reason = list["hosts_unknown"].as_str().expect("a reason");
    assert!(reason.contains("does not answer within"), "{reason}");
}

#[test]
fn published_messages_are_recorded_and_have_rate() {
    let Some(hythe) = hythe() else { return };
    let lan = Lan::new(1);
    let [a, b] = patient_pair(&lan);
    let (lines, recording) = (a.path("lines"), b.path("recording"));
    let expected: String = (1..=500).map(|number| format!("{number}\n")).collect();
    std::fs::write(&lines, &expected).expect("written");
    let (lines, recording) = (
        lines.to_str().expect("text"),
        recording.to_str().expect("text"),
    );
    let count = ["--count", "500", "--depth", "1000"];
    let record = [&["record", "data", "-o", recording][..], &count].concat();
    let recorder = start(&b, &hythe, &record);
    let subscriber = start(
        &b,
        &hythe,
        &[&["sub", "data", "--raw"][..], &count].concat(),
    );
    // Both are there before the first message goes.
    let both = json!([ends("subscriber", 2, "raw bytes")]);
    eventually("both subscribe", || remote_ends(&a, &hythe, "data") == both);
    said(
        &a,
        &hythe,
        &[
            "pub", "data", lines, "--lines", "--wait", "60", "--linger", "1",
        ],
    );
    let arrived = String::from_utf8(subscriber.output()).expect("text");
    assert_eq!(arrived, expected.replace('\n', ""));
    recorder.output();
    // Played on one host, heard on the other.
    let again = start(
        &a,
        &hythe,
        &[&["sub", "again", "--raw"][..], &count].concat(),
    );
    let one = json!([{"host": "a", "kind": "subscriber", "count": 1, "type": "raw bytes"}]);
    eventually("it subscribes", || remote_ends(&b, &hythe, "again") == one);
    said(
        &b,
        &hythe,
        &["replay", recording, "--channel", "again", "--wait", "60"],
    );
    assert_eq!(String::from_utf8(again.output()).expect("text"), arrived);
    rates(&a, &b, &hythe, lines);
}

/// One message, of a command that waits for nobody.
#[test]
fn early_message_reaches_waiting_subscriber() {
    let Some(hythe) = hythe() else { return };
    let lan = Lan::new(1);
    let [a, b] = patient_pair(&lan);
    let file = a.path("line");
    for round in 0..5 {
        let channel = format!("once {round}");
        let words = ["sub", &channel, "--raw", "--count", "1"];
        let subscriber = start(&b, &hythe, &words);
        eventually("host a knows that it is wanted", || {
            a.channels().contains(&channel)
        });
        std::fs::write(&file, &channel).expect("written");
        let words = ["pub", &channel, file.to_str().expect("text")];
        let published = document(&a, &hythe, &words);
        assert_eq!(published["delivered"], 1, "{published}");
        assert_eq!(subscriber.output(), channel.as_bytes());
    }
}

/// `hz` and `top` on the host where they arrive.
fn rates(a: &Host, b: &Host, hythe: &str, lines: &str) {
    let _subscriber = start(b, hythe, &["sub", "busy"]);
    let words = [
        "pub", "busy", lines, "--lines", "--repeat", "0", "--rate", "500",
    ];
    let _publisher = start(a, hythe, &words);
    eventually("top shows what comes from the host", || {
        let top = document(b, hythe, &["top", "--interval", "0.3"]);
        let channels = top["channels"].as_array().expect("a list");
        let rate = channels.iter().find(|row| row["name"] == "busy");
        let rate = rate.and_then(|row| row["messages_per_second"].as_f64());
        let participants = top["participants"].as_array().expect("a list");
        let has_host = participants.iter().any(|row| row["name"] == "host a");
        has_host && rate > Some(0.0)
    });
    eventually("hz shows what comes from the host", || {
        let rates = document(
            b,
            hythe,
            &["hz", "busy", "--interval", "0.3", "--count", "1"],
        );
        // It passes no port of the host: it goes from process to process.
        let taken = &rates["rates"][0]["taken"];
        taken["messages_per_second"].as_f64() > Some(0.0)
    });
}

#[test]
fn who_command_shows_holds_of_host_with_ages() {
    let Some(hythe) = hythe() else { return };
    let lan = Lan::new(1);
    let [a, b] = patient_pair(&lan);
    let file = a.path("line");
    std::fs::write(&file, [1; 1000]).expect("written");
    let block = ["--policy", "block", "--block", "60", "--depth", "2"];
    let subscriber = start(
        &b,
        &hythe,
        &[&["sub", "slow", "--raw"][..], &block].concat(),
    );
    let one = json!([ends("subscriber", 1, "raw bytes")]);
    eventually("it subscribes", || remote_ends(&a, &hythe, "slow") == one);
    subscriber.signal(Signal::STOP);
    let words = [
        "pub",
        "slow",
        file.to_str().expect("text"),
        "--repeat",
        "0",
        "--rate",
        "200",
    ];
    let publisher = start(&a, &hythe, &words);
    let held_ms = || {
        let who = document(&a, &hythe, &["who"]);
        let holders = who["holders"].as_array().expect("a list").clone();
        let is_host = |holder: &&Value| {
            let name = holder["holder"].as_str().expect("text");
            name.starts_with("host b ")
        };
        holders.iter().find(is_host)?["longest_ms"].as_u64()
    };
    eventually("host b holds for a second", || held_ms() > Some(1000));
    drop(publisher);
    subscriber.signal(Signal::CONT);
    eventually("host b holds nothing", || held_ms().is_none());
}
