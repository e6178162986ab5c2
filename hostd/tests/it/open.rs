//! A channel that is open: a Zenoh program outside the realm reads and writes it, and nothing else.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::network::agent::{Host, LONG, eventually, first, pair, programs};
use crate::network::{Lan, is_skipped};
use hythe_cluster::OpenStatus;
use hythe_node::{Node, Publisher, PublisherOptions, Subscriber, SubscriberOptions};

const LOOPBACK: &str = "tcp/127.0.0.1:7452";

/// A Zenoh program that knows nothing of Hythe.
struct Outside {
    process: Child,
    input: Option<ChildStdin>,
    /// What it has said.
    lines: Arc<Mutex<Vec<String>>>,
}

impl Outside {
    fn start(host: &Host, endpoint: &str, key: &str) -> Self {
        let program = programs().join("examples/outside");
        let mut command = host.space.command(program.to_str().expect("text"));
        command.args([endpoint, key]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().expect("nsenter");
        let output = BufReader::new(process.stdout.take().expect("piped"));
        let lines: Arc<Mutex<Vec<String>>> = Arc::default();
        let said = Arc::clone(&lines);
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                said.lock().expect("sound").push(line);
            }
        });
        let program = Self {
            input: process.stdin.take(),
            process,
            lines,
        };
        eventually("it is connected", || program.count("ready") == 1);
        program
    }

    fn count(&self, line: &str) -> usize {
        let lines = self.lines.lock().expect("sound");
        lines.iter().filter(|said| *said == line).count()
    }

    fn lines(&self) -> Vec<String> {
        self.lines.lock().expect("sound").clone()
    }

    fn put(&mut self, key: &str, text: &str) {
        let input = self.input.as_mut().expect("open");
        writeln!(input, "{key} {text}").expect("it reads");
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        drop(self.input.take());
        // It may have ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A program on a host, with both ends of a channel.
struct Program {
    publisher: Publisher,
    frames: Subscriber,
    /// For as long as it is used.
    _node: Node,
}

impl Program {
    fn new(host: &Host, channel: &str) -> Self {
        let node = host.join(&format!("program of {channel}"));
        let frames = node.subscriber(channel, &SubscriberOptions::default());
        let publisher = node.publisher(channel, &PublisherOptions::default());
        Self {
            frames: frames.expect("subscribed"),
            publisher: publisher.expect("published"),
            _node: node,
        }
    }

    fn publish(&mut self, text: &str) {
        let mut lease = self.publisher.lease(text.len()).expect("a slot");
        lease.write(0, text.as_bytes());
        self.publisher
            .publish(lease, text.len())
            .expect("published");
    }

    /// The next message that is not its own.
    fn take(&mut self, own: &str, timeout: Duration) -> Option<String> {
        loop {
            let frame = self.frames.take(timeout).expect("sound")?;
            let text = String::from_utf8(frame.to_vec()).expect("text");
            if text != own {
                return Some(text);
            }
        }
    }
}

fn open_status(host: &Host) -> Option<OpenStatus> {
    host.status().expect("an agent runs").open
}

#[test]
fn outside_program_uses_open_channel_only() {
    if is_skipped() {
        return;
    }
    let lan = Lan::new(31);
    let a = first(&lan);
    assert_eq!(open_status(&a), None, "nothing is open by itself");
    let (mut frames, mut secret) = (Program::new(&a, "frames"), Program::new(&a, "secret"));
    let refusal = a.refusal(&["allow", "--open", "*"]);
    assert!(refusal.contains("wildcard"), "{refusal}");
    let said = a.said(&["allow", "--open", "frames"]);
    assert!(said.contains("hythe/open/frames"), "{said}");
    let open = open_status(&a).expect("it was told");
    assert_eq!(open.address, LOOPBACK);
    assert_eq!(open.channels[0].key, "hythe/open/frames");
    eventually("it is met there", || {
        a.space
            .command("bash")
            .args(["-c", "exec 3<>/dev/tcp/127.0.0.1/7452"])
            .stderr(Stdio::null())
            .status()
            .expect("run")
            .success()
    });
    let mut outside = Outside::start(&a, LOOPBACK, "**");
    eventually("it reads", || {
        secret.publish("not for all");
        frames.publish("from hythe");
        outside.count("hythe/open/frames from hythe") > 0
    });
    outside.put("hythe/open/secret", "not asked for");
    outside.put("hythe/open/frames", "from zenoh");
    let taken = frames.take("from hythe", LONG);
    assert_eq!(taken.as_deref(), Some("from zenoh"));
    let quiet = Duration::from_millis(200);
    assert_eq!(secret.take("not for all", quiet), None);
    let others = |line: &String| !matches!(&**line, "ready" | "hythe/open/frames from hythe");
    let others: Vec<String> = outside.lines().into_iter().filter(others).collect();
    assert_eq!(others, Vec::<String>::new(), "it reads what is not open");
    // Longer than the largest slot: counted, and what comes behind it is taken. Where a busy
    // machine takes so much too slowly, Zenoh gives the connection up, and makes another.
    eventually("what comes behind it is taken", || {
        outside.put("hythe/open/frames", "*20000000");
        outside.put("hythe/open/frames", "behind it");
        let taken = frames.take("from hythe", Duration::from_secs(10));
        taken.as_deref() == Some("behind it")
    });
    eventually("both are counted", || {
        let counts = open_status(&a).expect("open").channels.remove(0);
        counts.taken >= 2 && counts.not_taken >= 1 && counts.sent > 0
    });
    a.said(&["allow", "--close", "frames"]);
    assert_eq!(open_status(&a), None);
    eventually("nobody listens any more", || {
        let mut look = a.space.command("bash");
        look.args(["-c", "exec 3<>/dev/tcp/127.0.0.1/7452"]);
        !look.stderr(Stdio::null()).status().expect("run").success()
    });
    drop((frames, secret));
    let pool = a.join("looking").pool().clone();
    eventually("all is given back", || {
        let audit = pool.snapshot().audit;
        audit.free == audit.slots && audit.mismatches.is_empty()
    });
}

#[test]
fn message_arrives_once_where_both_hosts_open_channel() {
    if is_skipped() {
        return;
    }
    let lan = Lan::new(32);
    let [a, b] = pair(&lan);
    let here = format!("{}:7452", a.plug.address());
    for (host, option) in [(&a, "--open-listen"), (&b, "--open-peer")] {
        host.stop();
        host.said(&["allow", "--open", "frames"]);
        host.said(&["start", option, &here]);
    }
    eventually("a and b are connected", || {
        a.is_connected_with("b") && b.is_connected_with("a")
    });
    let (mut sender, node) = (Program::new(&a, "frames"), b.join("receiver"));
    let receiver = node.subscriber("frames", &SubscriberOptions::default());
    let mut receiver = receiver.expect("subscribed");
    let endpoint = format!("tcp/{here}");
    let mut outside = Outside::start(&a, &endpoint, "hythe/open/frames");
    eventually("it reads", || {
        sender.publish("first");
        outside.count("hythe/open/frames first") > 0
    });
    eventually("b is reached from outside", || {
        outside.put("hythe/open/frames", "over both");
        let mut frames = std::iter::from_fn(|| receiver.try_take().expect("sound"));
        frames.any(|frame| frame.to_vec() == b"over both")
    });
    // By its own subscriber, that of b, and both ports for programs outside.
    let reached = sender.publisher.wait_for_subscribers(3, LONG);
    assert!(reached.expect("sound"), "b is no subscriber");
    const COUNT: usize = 20;
    for number in 0..COUNT {
        sender.publish(&format!("number {number}"));
    }
    let mut numbers = Vec::new();
    // What comes twice has come by then, or soon.
    let patience = |numbers: &Vec<String>| match numbers.len() < COUNT {
        true => LONG,
        false => Duration::from_secs(2),
    };
    while let Some(frame) = receiver.take(patience(&numbers)).expect("sound") {
        let text = String::from_utf8(frame.to_vec()).expect("text");
        numbers.extend(text.strip_prefix("number ").map(str::to_owned));
    }
    let expected: Vec<String> = (0..COUNT).map(|number| number.to_string()).collect();
    assert_eq!(numbers, expected, "in order, each once");
}
