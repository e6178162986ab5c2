//! Tasks of two hosts that send to each other themselves, over a link that both users trust: the
//! agent as it is shipped, each host in a network namespace.

mod network;

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hythe_cluster::{ChannelStatus, Direction};
use network::agent::{Host, eventually, pair, programs};
use network::served::Served;
use network::{Lan, is_skipped};
use rustix::process::Signal;

const CHANNEL: &str = "numbers";
/// As `examples/task` has them.
const LENGTHS: [usize; 10] = [0, 1, 64, 1_200, 1_500, 9_000, 65_536, 0, 300_000, 1 << 20];
/// Longer than the machine is busy, shorter than a test.
const LEASE: &str = "5";

/// `examples/task` on a host.
struct Task {
    process: Child,
    input: Option<ChildStdin>,
    lines: Arc<Mutex<Vec<String>>>,
    /// Messages that a publisher was asked for: the number of the next.
    sent: u32,
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

    fn subscriber(host: &Host) -> Self {
        let task = Self::start(host, "subscribe");
        eventually("it has subscribed", || !task.lines().is_empty());
        task
    }

    fn publisher(host: &Host) -> Self {
        Self::start(host, "publish")
    }

    fn lines(&self) -> Vec<String> {
        self.lines.lock().expect("sound").clone()
    }

    /// What a subscriber has: numbers in order, none twice, each as long as it should be. One that
    /// is too short to have a number is the next, if that is so short.
    fn numbers(&self) -> Vec<u32> {
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
    fn got(&self) -> u32 {
        let lines = self.lines();
        lines.iter().filter(|line| line.starts_with("got ")).count() as u32
    }

    /// Messages that a subscriber counts as missing.
    fn missed(&self) -> u32 {
        let lines = self.lines();
        let missed = lines.iter().filter_map(|line| line.strip_prefix("missed "));
        missed
            .map(|count| count.parse::<u32>().expect("a count"))
            .sum()
    }

    fn ask_for(&mut self, count: u32, pause_ms: u32) {
        let input = self.input.as_mut().expect("open");
        self.sent += count;
        writeln!(input, "{count} {pause_ms}").expect("it reads");
    }

    /// So many more messages of a publisher, and waits until it has sent them.
    fn send(&mut self, count: u32, pause_ms: u32) {
        let before = self.lines().len();
        self.ask_for(count, pause_ms);
        eventually("all are sent", || self.lines().len() > before);
    }

    fn kill(mut self) {
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
fn trusting(lan: &Lan) -> [Host; 2] {
    let hosts = pair(lan);
    for host in &hosts {
        host.stop();
    }
    for host in &hosts {
        start(host);
    }
    until_connected(&hosts);
    hosts
}

fn start(host: &Host) {
    start_with(host, "udp");
}

fn start_with(host: &Host, carrier: &str) {
    let interface = host.plug.interface();
    let options = [
        "--lease",
        LEASE,
        "--carrier",
        carrier,
        "--trusted",
        &interface,
    ];
    let words: Vec<&str> = std::iter::once("start").chain(options).collect();
    // One that was killed may not be gone yet.
    eventually("its agent runs", || host.run(&words).status.success());
}

fn until_connected([a, b]: &[Host; 2]) {
    eventually("a and b are connected", || {
        a.is_connected_with("b") && b.is_connected_with("a")
    });
}

/// What a host says of the channel.
fn channel(host: &Host, other: &str, direction: Direction) -> Option<ChannelStatus> {
    let channels = host.status_of(other)?.session?.channels;
    let mut channels = channels.into_iter();
    channels.find(|one| one.channel == CHANNEL && one.direction == direction)
}

/// Flows at both ends.
fn flows([a, b]: &[Host; 2]) -> [u32; 2] {
    let count = |found: Option<ChannelStatus>| found.map_or(0, |channel| channel.flows);
    [
        count(channel(a, "b", Direction::Sending)),
        count(channel(b, "a", Direction::Receiving)),
    ]
}

/// Sends until there is a flow, and what is sent then arrives.
fn until_it_flows(hosts: &[Host; 2], publisher: &mut Task, subscriber: &Task) {
    eventually("there is a flow", || {
        publisher.send(1, 0);
        flows(hosts) == [1, 1]
    });
    let first = publisher.sent;
    publisher.send(20, 1);
    eventually("what is sent arrives", || {
        subscriber
            .numbers()
            .last()
            .is_some_and(|last| *last > first)
    });
}

/// All that was sent has come.
fn assert_all(subscriber: &Task, count: u32) {
    eventually("all have come", || {
        subscriber.numbers().last() == Some(&(count - 1))
    });
    assert_eq!(subscriber.missed(), 0);
    // The first two are too short to have a number.
    assert_eq!(subscriber.numbers(), (2..count).collect::<Vec<u32>>());
    assert_eq!(subscriber.got(), count);
}

#[test]
fn messages_of_all_sizes_come_once_and_in_order() {
    if is_skipped() {
        return;
    }
    let lan = Lan::new(41);
    let hosts = trusting(&lan);
    let [a, b] = &hosts;
    let subscriber = Task::subscriber(b);
    let mut publisher = Task::publisher(a);
    until_it_flows(&hosts, &mut publisher, &subscriber);
    for bytes in [1_500, 1_280, 9_000] {
        for host in &hosts {
            lan.set_mtu(&host.space, host.plug, bytes);
        }
        let before = channel(a, "b", Direction::Sending).expect("there");
        let count = if bytes == 1_500 { 1_000 } else { 100 };
        publisher.send(count, 0);
        assert_all(&subscriber, publisher.sent);
        let after = channel(a, "b", Direction::Sending).expect("there");
        assert_eq!(
            (after.carrier.as_str(), after.flows),
            ("udp", 1),
            "{after:?}"
        );
        assert_eq!(after.messages, before.messages, "by the agent");
    }
    let link = a
        .status_of("b")
        .expect("known")
        .session
        .expect("connected")
        .link;
    assert_eq!(link.interface, Some(a.plug.interface()));
    assert_eq!((link.why_no_flows.as_str(), link.sending), ("", 1));
    assert_eq!(a.status().expect("it runs").trusted, [a.plug.interface()]);
}

#[test]
fn a_second_subscriber_has_the_messages_go_by_the_agent() {
    if is_skipped() {
        return;
    }
    let lan = Lan::new(42);
    let hosts = trusting(&lan);
    let [a, b] = &hosts;
    let first = Task::subscriber(b);
    let mut publisher = Task::publisher(a);
    until_it_flows(&hosts, &mut publisher, &first);
    for _ in 0..2 {
        let second = Task::subscriber(b);
        eventually("the flow has ended", || {
            publisher.send(1, 0);
            flows(&hosts) == [0, 0]
        });
        publisher.send(100, 0);
        assert_all(&first, publisher.sent);
        eventually("all have come", || {
            second.numbers().last() == Some(&(publisher.sent - 1))
        });
        assert_eq!(second.missed(), 0);
        drop(second);
        until_it_flows(&hosts, &mut publisher, &first);
        assert_all(&first, publisher.sent);
    }
}

#[test]
fn flows_begin_anew_whoever_is_killed() {
    if is_skipped() {
        return;
    }
    let lan = Lan::new(43);
    let hosts = trusting(&lan);
    let [a, b] = &hosts;
    let subscriber = Task::subscriber(b);
    let mut publisher = Task::publisher(a);
    until_it_flows(&hosts, &mut publisher, &subscriber);
    // The subscriber, in the middle of messages.
    publisher.ask_for(300, 1);
    std::thread::sleep(Duration::from_millis(100));
    subscriber.kill();
    let subscriber = Task::subscriber(b);
    until_it_flows(&hosts, &mut publisher, &subscriber);
    // The publisher, in the middle of messages. Another has other numbers.
    publisher.ask_for(300, 1);
    std::thread::sleep(Duration::from_millis(100));
    publisher.kill();
    drop(subscriber);
    let subscriber = Task::subscriber(b);
    let mut publisher = Task::publisher(a);
    until_it_flows(&hosts, &mut publisher, &subscriber);
    for host in &hosts {
        let node = host.join("audit");
        let seen = node.pool().snapshot();
        assert!(seen.audit.mismatches.is_empty(), "{:?}", seen.audit);
    }
}

/// Neither agent is in the way of a flow, nor does it need one to go on.
#[test]
fn flows_go_on_without_an_agent_that_is_killed_and_another_takes_over() {
    if is_skipped() {
        return;
    }
    let lan = Lan::new(49);
    let hosts = trusting(&lan);
    let [a, b] = &hosts;
    let subscriber = Task::subscriber(b);
    let mut publisher = Task::publisher(a);
    until_it_flows(&hosts, &mut publisher, &subscriber);
    for (host, other, name) in [(a, b, "a"), (b, a, "b")] {
        publisher.ask_for(100, 1);
        host.signal(Signal::KILL);
        // The other agent knows that it is gone, and says what goes on.
        eventually("the session is over", || !other.is_connected_with(name));
        let reason = other.status_of(name).expect("known").reason;
        assert!(reason.contains("1 flow goes on without"), "{reason}");
        publisher.send(100, 1);
        // All of it, though there is no agent.
        assert_all(&subscriber, publisher.sent);
        publisher.ask_for(300, 1);
        start(host);
        until_connected(&hosts);
        until_it_flows(&hosts, &mut publisher, &subscriber);
        assert_all(&subscriber, publisher.sent);
    }
    // One after the other, before the hosts have met again.
    publisher.ask_for(200, 1);
    hosts.iter().for_each(|host| host.signal(Signal::KILL));
    hosts.iter().for_each(start);
    until_connected(&hosts);
    until_it_flows(&hosts, &mut publisher, &subscriber);
    assert_all(&subscriber, publisher.sent);
    for host in &hosts {
        let node = host.join("audit");
        let seen = node.pool().snapshot();
        assert!(seen.audit.mismatches.is_empty(), "{:?}", seen.audit);
    }
}

#[test]
fn a_flow_of_which_an_end_is_killed_at_any_moment_leaves_nothing_behind() {
    if is_skipped() {
        return;
    }
    let lan = Lan::new(47);
    let hosts = trusting(&lan);
    let [a, b] = &hosts;
    // While it is asked for, agreed on, left for, and used.
    for (round, moment_ms) in [0, 1, 2, 4, 8, 16, 32, 64, 128, 256]
        .into_iter()
        .enumerate()
    {
        let subscriber = Task::subscriber(b);
        let mut publisher = Task::publisher(a);
        publisher.ask_for(1_000, 1);
        std::thread::sleep(Duration::from_millis(moment_ms));
        match round % 2 {
            0 => subscriber.kill(),
            _ => publisher.kill(),
        }
    }
    let subscriber = Task::subscriber(b);
    let mut publisher = Task::publisher(a);
    until_it_flows(&hosts, &mut publisher, &subscriber);
    let first = subscriber.numbers().last().copied().expect("some");
    publisher.send(100, 0);
    eventually("all have come", || {
        subscriber.numbers().last() == Some(&(publisher.sent - 1))
    });
    let numbers = subscriber.numbers();
    assert!(numbers.ends_with(&(first..publisher.sent).collect::<Vec<u32>>()));
    drop((publisher, subscriber));
    for host in &hosts {
        let node = host.join("audit");
        eventually("no slot is held any more", || {
            let audit = node.pool().snapshot().audit;
            assert!(audit.mismatches.is_empty(), "{:?}", audit.mismatches);
            audit.held + audit.queued == 0
        });
    }
    let link = |host: &Host, other: &str| {
        let session = host.status_of(other).expect("known").session;
        session.expect("connected").link
    };
    eventually("no flow is left", || {
        let (sends, receives) = (link(a, "b"), link(b, "a"));
        sends.sending + sends.pending + receives.receiving + receives.pending == 0
    });
}

#[test]
fn a_cut_that_is_shorter_than_the_lease_loses_nothing_and_a_longer_one_heals() {
    if is_skipped() {
        return;
    }
    let lan = Lan::new(44);
    let hosts = trusting(&lan);
    let [a, b] = &hosts;
    let subscriber = Task::subscriber(b);
    let mut publisher = Task::publisher(a);
    until_it_flows(&hosts, &mut publisher, &subscriber);
    publisher.ask_for(500, 2);
    std::thread::sleep(Duration::from_millis(100));
    lan.set_passing(b.plug, false);
    std::thread::sleep(Duration::from_millis(500));
    lan.set_passing(b.plug, true);
    eventually("all are sent", || {
        subscriber.numbers().last() == Some(&(publisher.sent - 1))
    });
    // On a busy machine the cut may have been longer, and the session over.
    if a.status_of("b").expect("known").sessions == 1 {
        assert_all(&subscriber, publisher.sent);
    }
    publisher.ask_for(100, 20);
    lan.set_passing(b.plug, false);
    eventually("the session is over", || {
        !a.is_connected_with("b") && !b.is_connected_with("a")
    });
    lan.set_passing(b.plug, true);
    until_connected(&hosts);
    until_it_flows(&hosts, &mut publisher, &subscriber);
}

#[test]
fn an_interface_that_goes_down_and_up_again_loses_nothing() {
    if is_skipped() {
        return;
    }
    let lan = Lan::new(48);
    let hosts = trusting(&lan);
    let [a, b] = &hosts;
    let subscriber = Task::subscriber(b);
    let mut publisher = Task::publisher(a);
    until_it_flows(&hosts, &mut publisher, &subscriber);
    for host in &hosts {
        let interface = host.plug.interface();
        publisher.ask_for(300, 2);
        std::thread::sleep(Duration::from_millis(50));
        host.space.run(&format!("ip link set {interface} down"));
        std::thread::sleep(Duration::from_millis(500));
        host.space.run(&format!("ip link set {interface} up"));
        eventually("all have come", || {
            subscriber.numbers().last() == Some(&(publisher.sent - 1))
        });
    }
    // On a busy machine it may have been down for longer than the lease.
    if a.status_of("b").expect("known").sessions == 1 {
        assert_all(&subscriber, publisher.sent);
        assert_eq!(flows(&hosts), [1, 1]);
    }
}

#[test]
fn an_interface_that_is_renamed_is_trusted_no_more_until_it_has_its_name_again() {
    if is_skipped() {
        return;
    }
    let lan = Lan::new(46);
    let hosts = trusting(&lan);
    let [a, b] = &hosts;
    let name = a.plug.interface();
    let rename = |from: &str, to: &str| {
        let words = ["link", "set", from, "name", to];
        let status = a.space.command("ip").args(words).status();
        status.expect("iproute2").success()
    };
    if !rename(&name, "other") {
        eprintln!("SKIPPED: this kernel renames no interface that is up");
        return;
    }
    assert!(rename("other", &name));
    let subscriber = Task::subscriber(b);
    let mut publisher = Task::publisher(a);
    until_it_flows(&hosts, &mut publisher, &subscriber);
    assert_all(&subscriber, publisher.sent);
    assert!(rename(&name, "other"));
    eventually("there is no flow", || flows(&hosts) == [0, 0]);
    let link = || {
        let session = a.status_of("b").expect("known").session;
        session.expect("connected").link
    };
    assert_eq!(link().why_no_flows, "the link at other is not trusted here");
    // By the agents.
    publisher.send(50, 0);
    assert_all(&subscriber, publisher.sent);
    assert_eq!(flows(&hosts), [0, 0]);
    assert!(rename("other", &name));
    until_it_flows(&hosts, &mut publisher, &subscriber);
    assert_all(&subscriber, publisher.sent);
    assert_eq!(a.status_of("b").expect("known").sessions, 1);
}

#[test]
fn a_flow_goes_by_xdp_where_its_interface_is_served_and_else_by_udp() {
    if is_skipped() {
        return;
    }
    let lan = Lan::new(45);
    let hosts = pair(&lan);
    let [a, b] = &hosts;
    let mut served = Served::start(b);
    for host in &hosts {
        host.stop();
    }
    for host in &hosts {
        start_with(host, "xdp");
    }
    until_connected(&hosts);
    let subscriber = Task::subscriber(b);
    let mut publisher = Task::publisher(a);
    until_it_flows(&hosts, &mut publisher, &subscriber);
    let receiving = || channel(b, "a", Direction::Receiving).expect("there");
    eventually("its process has said", || receiving().carrier == "xdp");
    assert_eq!(receiving().why_not_better, "");
    // Both hosts have interfaces of one name, and the service is the other's.
    let sending = channel(a, "b", Direction::Sending).expect("there");
    assert_eq!(sending.carrier, "udp");
    // Of a virtual interface the kernel copies, too.
    assert_eq!((sending.flow_copies, receiving().flow_copies), (1, 3));
    assert!(
        sending.why_not_better.contains("another network"),
        "{sending:?}"
    );
    publisher.send(500, 0);
    assert_all(&subscriber, publisher.sent);
    // Neither does this carrier need an agent to go on.
    b.signal(Signal::KILL);
    eventually("the session is over", || !a.is_connected_with("b"));
    publisher.send(100, 1);
    assert_all(&subscriber, publisher.sent);
    start_with(b, "xdp");
    until_connected(&hosts);
    until_it_flows(&hosts, &mut publisher, &subscriber);
    eventually("it goes by xdp again", || receiving().carrier == "xdp");
    assert_all(&subscriber, publisher.sent);
    served.end();
    eventually("its process has said", || receiving().carrier == "udp");
    // What it heard first, or when it asked again.
    let why = receiving().why_not_better;
    assert!(
        why.contains("ended") || why.contains("No such file"),
        "{why}"
    );
    assert_eq!(receiving().flow_copies, 2);
    publisher.send(200, 0);
    assert_all(&subscriber, publisher.sent);
    assert_eq!(flows(&hosts), [1, 1]);
    // Another one serves: the same flow goes by that.
    let mut served = Served::start(b);
    eventually("it is there again", || receiving().carrier == "xdp");
    publisher.send(200, 0);
    assert_all(&subscriber, publisher.sent);
    assert_eq!(flows(&hosts), [1, 1]);
    served.end();
}
