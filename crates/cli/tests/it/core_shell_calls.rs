//! `rpc`, `segments`, `peek` and `objects` of `hythe core shell`: what they print, and each
//! refusal.

use std::time::Duration;

use crate::support::Root;
use hythe::sync::{Deadline, MessageQueue, MessageQueueOptions, Semaphore, SemaphoreOptions};
use hythe::{Node, Pool, PoolOptions};
use serde_json::Value;

const HOSTED: &str = "hosted";
const BYTES: u32 = 5000;

/// A core that runs `p1` in the background, stopped with this value.
struct P1 {
    root: Root,
}

impl P1 {
    fn start() -> Self {
        let root = Root::new();
        root.ok(&["core", "run", HOSTED, "--app", "p1", "--detach"]);
        Self { root }
    }

    /// The result of the last of these commands.
    fn last(&self, commands: &str) -> Value {
        let commands = format!("open; run; {commands}");
        let document = self.root.json(&["core", "shell", HOSTED, "-c", &commands]);
        assert_eq!(document["ok"], true, "{document}");
        let steps = document["steps"].as_array().expect("a list");
        steps.last().expect("a step")["result"].clone()
    }

    fn failed(&self, command: &str, code: i32, words: &[&str]) {
        let commands = format!("open; run; {command}");
        let ended = self.root.run(&["core", "shell", HOSTED, "-c", &commands]);
        ended.failed_naming(code, words);
    }

    /// Has the core make a segment of its own.
    fn make(&self) -> u32 {
        let words = [0, BYTES, 0o1600].map(u32::to_le_bytes).concat();
        let words: String = words.iter().map(|byte| format!("{byte:02x}")).collect();
        let made = self.last(&format!("rpc 20 {words}"));
        assert_eq!(made["result_bytes"], 4, "{made}");
        let id = made["result"].as_str().expect("hexadecimal");
        u32::from_str_radix(id, 16).expect("an id").swap_bytes()
    }
}

impl Drop for P1 {
    fn drop(&mut self) {
        let _ = self.root.run(&["core", "stop", HOSTED]);
        let _ = self.root.run(&["pool", "remove"]);
    }
}

#[test]
fn method_is_called_in_hexadecimal() {
    let p1 = P1::start();
    let called = p1.last("rpc 1 61 6263");
    assert_eq!(
        (
            &called["method"],
            &called["argument_bytes"],
            &called["result"]
        ),
        (&1.into(), &3.into(), &"636261".into())
    );
    assert!(
        called["round_trip_ns"]
            .as_u64()
            .is_some_and(|time| time > 0)
    );
    let none = p1.last("shutdown; rpc 0x1");
    assert_eq!(
        (&none["result"], &none["result_bytes"]),
        (&"".into(), &0.into())
    );
    let commands = ["core", "shell", HOSTED, "-c", "open; run; rpc 1 6162"];
    let text = p1.root.ok(&commands);
    assert!(text.contains("method 1 returned 2 bytes after"), "{text}");
    assert!(text.ends_with(": 6261\n"), "{text}");
    p1.failed("rpc 99", 1, &["no method 99"]);
    p1.failed("rpc 3 07000000", 1, &["failed with its error 7"]);
    p1.failed("rpc 0", 2, &["no number of a method", "`rpc METHOD [HEX]`"]);
    p1.failed("rpc 1 6", 2, &["`6` is not hexadecimal"]);
}

#[test]
fn program_without_methods_is_named() {
    let root = Root::new();
    let run = |commands| root.run(&["core", "shell", HOSTED, "-c", commands]);
    run("open; run decoder; rpc 1").failed_naming(1, &["no endpoint `core/calls`", "`run p1`"]);
    run("open; rpc 1").failed_naming(2, &["`rpc` is not possible while opened"]);
    assert!(root.traces().is_empty(), "{:?}", root.traces());
}

#[test]
fn byte_of_a_segment_has_two_addresses() {
    let p1 = P1::start();
    let empty = p1.last("segments");
    assert_eq!(empty["boards"][0]["segments"], Value::Array(Vec::new()));
    let id = p1.make();
    let listed = p1.last("shutdown; segments");
    let board = &listed["boards"][0];
    assert_eq!(board["board"], HOSTED);
    let made = &board["segments"][0];
    assert_eq!(
        (&made["id"], &made["made_on"], &made["size_bytes"]),
        (&id.into(), &"core".into(), &BYTES.into())
    );
    let last = BYTES - 1;
    assert_eq!(p1.last(&format!("peek {id} {last}"))["value"], 0);
    let peeked = p1.last(&format!("peek {id} {last} 165"));
    assert_eq!((&peeked["id"], &peeked["value"]), (&id.into(), &165.into()));
    let address = |of: &str| {
        let text = peeked[of].as_str().and_then(|text| text.strip_prefix("0x"));
        u64::from_str_radix(text.expect("an address"), 16).expect("an address")
    };
    let (here, there) = (address("linux_address"), address("core_address"));
    assert!(here != there && here % 4096 == there % 4096, "{peeked}");
    // Of a page that begins at the segment's start.
    assert_eq!(there % 4096, u64::from(last) % 4096);
    let text = p1.root.ok(&[
        "core",
        "shell",
        HOSTED,
        "-c",
        &format!("open; run; peek {id} {last}"),
    ]);
    assert!(
        text.contains(&format!("byte {last} of segment {id} is 0xa5: at 0x")),
        "{text}"
    );
    p1.failed(&format!("peek {id} {BYTES}"), 2, &["has 5000 bytes"]);
    p1.failed("peek 2147483647 0", 1, &["no segment", "2147483647"]);
    p1.failed("peek 1", 2, &["`peek ID OFFSET [BYTE]`"]);
}

#[test]
fn semaphores_and_queues_are_listed_with_what_they_count() {
    let p1 = P1::start();
    assert_eq!(p1.last("objects")["objects"], Value::Array(Vec::new()));
    let commands = ["core", "shell", HOSTED, "-c", "open; run; objects"];
    assert!(p1.root.ok(&commands).contains("there are no semaphores"));
    let options = PoolOptions::new("default").root(&p1.root.pools());
    let node = Node::join(&Pool::open(&options).expect("a pool"), "user").expect("joins");
    let two = SemaphoreOptions::default().create(2);
    let semaphore = Semaphore::open(&node, "/free", &two).expect("made");
    let soon = || Deadline::after(Duration::from_secs(60));
    semaphore.wait(soon()).expect("taken");
    let queue = MessageQueueOptions::default().create(4, 100);
    let queue = MessageQueue::open(&node, "/work", &queue).expect("made");
    queue.send_copy(b"first", 3, soon()).expect("sent");
    let listed = p1.last("shutdown; objects");
    let [free, work] = &listed["objects"].as_array().expect("a list")[..] else {
        panic!("{listed}");
    };
    let of = |object: &Value, fields: [&str; 4]| fields.map(|field| object[field].clone());
    assert_eq!(
        of(free, ["name", "kind", "value", "held"]),
        ["/free".into(), "semaphore".into(), 1.into(), Value::from(1)]
    );
    assert_eq!(
        of(work, ["name", "kind", "messages", "accepted"]),
        ["/work".into(), "queue".into(), 1.into(), Value::from(1)]
    );
    assert_eq!(
        (&free["messages"], &work["held"]),
        (&Value::Null, &Value::Null)
    );
    let text = p1.root.ok(&commands);
    for word in ["ABANDONED", "/free", "semaphore", "/work", "queue"] {
        assert!(text.contains(word), "no `{word}` in {text}");
    }
}
