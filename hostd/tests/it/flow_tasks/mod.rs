//! Tasks of two hosts that send to each other, and what their agents say of it.

#![allow(dead_code, reason = "each test file uses a part of it")]

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use hythe_cluster::{ChannelStatus, Direction};
use hythe_testing::Polling;

use crate::network::Lan;
use crate::network::agent::{Host, eventually, pair, programs};

const CHANNEL: &str = "numbers";
/// As `examples/task` has them.
const LENGTHS: [usize; 10] = [0, 1, 64, 1_200, 1_500, 9_000, 65_536, 0, 300_000, 1 << 20];
/// Longer than the machine is busy, shorter than a test.
const LEASE: &str = "5";
/// What has not come by then went to a subscriber that was killed.
const LOST: Duration = Duration::from_secs(1);

/// `examples/task` on a host.
pub(crate) struct Task {
    process: Child,
    input: Option<ChildStdin>,
    lines: Arc<Mutex<Vec<String>>>,
    /// Messages that a publisher was asked for: the number of the next.
    pub(crate) sent: u32,
}

impl Task {
    fn start(host: &Host, role: &str) -> Self {
        let program = programs().join("examples/task");
        let mut command = host.space.command(program.to_str().expect("text"));
        command.env("HYTHE_ROOT", host.path("pools"));
        command.args([role, CHANNEL]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().expect("nsenter");
        let output = process.stdout.take().expect("piped");
        let lines = Arc::<Mutex<Vec<String>>>::default();
        let read = Arc::clone(&lines);
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                read.lock().expect("sound").push(line);
            }
        });
        Self {
            input: process.stdin.take(),
            process,
            lines,
            sent: 0,
        }
    }

    pub(crate) fn subscriber(host: &Host) -> Self {
        let task = Self::start(host, "subscribe");
        eventually("it has subscribed", || !task.lines().is_empty());
        task
    }

    pub(crate) fn publisher(host: &Host) -> Self {
        Self::start(host, "publish")
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        self.lines.lock().expect("sound").clone()
    }

    /// What a subscriber has: numbers in order, none twice, each as long as it should be. One that
    /// is too short to have a number is the next, if that is so short.
    pub(crate) fn numbers(&self) -> Vec<u32> {
        let lines = self.lines();
        let got = lines.iter().filter_map(|line| line.strip_prefix("got "));
        let mut numbers: Vec<u32> = Vec::new();
        for line in got {
            let (number, length) = line.split_once(' ').expect("two words");
            let length: usize = length.parse().expect("a length");
            let length_of = |number: u32| LENGTHS[number as usize % LENGTHS.len()];
            let last = numbers.last().copied();
            match number.parse() {
                Ok(number) => {
                    assert_eq!(length, length_of(number), "message {number}");
                    assert!(
                        last.is_none_or(|last| last < number),
                        "{number} behind {last:?}"
                    );
                    numbers.push(number);
                }
                Err(_) => {
                    let next = last.map(|last| last + 1);
                    numbers.extend(next.filter(|next| length_of(*next) == length));
                }
            }
        }
        numbers
    }

    /// How many a subscriber has.
    pub(crate) fn got(&self) -> u32 {
        let lines = self.lines();
        lines.iter().filter(|line| line.starts_with("got ")).count() as u32
    }

    /// Messages that a subscriber counts as missing.
    pub(crate) fn missed(&self) -> u32 {
        let lines = self.lines();
        let missed = lines.iter().filter_map(|line| line.strip_prefix("missed "));
        missed
            .map(|count| count.parse::<u32>().expect("a count"))
            .sum()
    }

    pub(crate) fn ask_for(&mut self, count: u32, pause_ms: u32) {
        let input = self.input.as_mut().expect("open");
        self.sent += count;
        writeln!(input, "{count} {pause_ms}").expect("it reads");
    }

    /// So many more messages of a publisher, and waits until it has sent them.
    pub(crate) fn send(&mut self, count: u32, pause_ms: u32) {
        let before = self.lines().len();
        self.ask_for(count, pause_ms);
        eventually("all are sent", || self.lines().len() > before);
    }

    pub(crate) fn kill(mut self) {
        self.process.kill().expect("it lives");
        self.process.wait().expect("its end");
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Two hosts whose agents trust the link.
pub(crate) fn trusting(lan: &Lan) -> [Host; 2] {
    trusting_with(lan, &[])
}

/// The same, started with more options.
pub(crate) fn trusting_with(lan: &Lan, more: &[&str]) -> [Host; 2] {
    let hosts = pair(lan);
    for host in &hosts {
        host.stop();
    }
    for host in &hosts {
        start_with(host, more);
    }
    until_connected(&hosts);
    hosts
}

pub(crate) fn start(host: &Host) {
    start_with(host, &[]);
}

pub(crate) fn start_with(host: &Host, more: &[&str]) {
    let interface = host.plug.interface();
    let words = ["start", "--lease", LEASE, "--trusted", &interface];
    let words = [&words, more].concat();
    // One that was killed may not be gone yet.
    eventually("its agent runs", || host.run(&words).status.success());
}

pub(crate) fn until_connected([a, b]: &[Host; 2]) {
    eventually("a and b are connected", || {
        a.is_connected_with("b") && b.is_connected_with("a")
    });
}

/// What a host says of the channel.
pub(crate) fn channel(host: &Host, other: &str, direction: Direction) -> Option<ChannelStatus> {
    let channels = host.status_of(other)?.session?.channels;
    let mut channels = channels.into_iter();
    channels.find(|one| one.channel == CHANNEL && one.direction == direction)
}

/// Flows at both ends.
pub(crate) fn flows([a, b]: &[Host; 2]) -> [u32; 2] {
    let count = |found: Option<ChannelStatus>| found.map_or(0, |channel| channel.flows);
    [
        count(channel(a, "b", Direction::Sending)),
        count(channel(b, "a", Direction::Receiving)),
    ]
}

/// Sends until messages go by a flow. That both agents have one is not enough: its publisher goes
/// on by them until it has heard of it, and a flow of which an agent dies before that ends.
pub(crate) fn until_it_flows(hosts: &[Host; 2], publisher: &mut Task, subscriber: &Task) {
    eventually("there is a flow", || {
        publisher.send(1, 0);
        flows(hosts) == [1, 1]
    });
    let by_agent = || channel(&hosts[0], "b", Direction::Sending).map(|one| one.messages);
    eventually("messages go by it", || {
        let (before, first) = (by_agent(), publisher.sent);
        publisher.send(20, 1);
        let has_come = || {
            let numbers = subscriber.numbers();
            numbers.last().is_some_and(|last| *last > first)
        };
        let (since, mut polling) = (Instant::now(), Polling::new("a message"));
        while !has_come() && since.elapsed() < LOST {
            polling.pause();
        }
        has_come() && flows(hosts) == [1, 1] && before.is_some() && by_agent() == before
    });
}

/// All that was sent has come.
pub(crate) fn assert_all(subscriber: &Task, count: u32) {
    eventually("all have come", || {
        subscriber.numbers().last() == Some(&(count - 1))
    });
    assert_eq!(subscriber.missed(), 0);
    // The first two are too short to have a number.
    assert_eq!(subscriber.numbers(), (2..count).collect::<Vec<u32>>());
    assert_eq!(subscriber.got(), count);
}
