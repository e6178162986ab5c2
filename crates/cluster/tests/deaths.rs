//! An agent is killed by SIGKILL at each step of joining, sending, acknowledging and leaving, on
//! either host: both ledgers sum up, and an agent that is started again carries on.
//!
//! Its steps are those of its carrier: a connection made or taken, something sent, something
//! received. The victim is this test program again.

#[path = "../../memory/tests/again/mod.rs"]
mod again;
mod support;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::SocketAddr;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, ChildStdout, Stdio};

use hythe_cluster::{Agent, AgentOptions, HostName, Rights};
use hythe_node::{Pool, PoolOptions, Publisher, PublisherOptions, Subscriber, SubscriberOptions};
use support::carrier::TcpCarrier;
use support::directory::StaticDirectory;
use support::eventually;
use support::host::{ALL, LEASE, TestHost};

const NAME: &str = "HYTHE_TEST_HOST";
const ROOT: &str = "HYTHE_TEST_ROOT";
const PEER: &str = "HYTHE_TEST_PEER";
const ADDRESS: &str = "HYTHE_TEST_ADDRESS";
const STEP: &str = "HYTHE_TEST_STEP";

/// A few more than it takes to begin a session and a stream and to carry some messages. Those at
/// the end visit a session at work.
const STEPS: std::ops::RangeInclusive<u64> = 1..=80;
/// Taken before the victim is told to leave.
const MESSAGES: u32 = 5;

/// Plays the victim, if this process is one.
#[test]
fn plays_its_role() {
    let Ok(name) = std::env::var(NAME) else {
        return;
    };
    let variable = |name| std::env::var(name).expect("set");
    let name: HostName = name.parse().expect("a name");
    let options = PoolOptions::new("test").root(variable(ROOT).as_ref());
    let pool = Pool::open(&options).expect("the test has made it");
    let (carrier, directory) = (TcpCarrier::new(&name), StaticDirectory::new());
    println!("role: {}", carrier.address());
    std::io::stdout().flush().expect("the test listens");
    carrier.die_before(variable(STEP).parse().expect("a number"));
    let peer: HostName = variable(PEER).parse().expect("a name");
    let address: SocketAddr = variable(ADDRESS).parse().expect("an address");
    directory.show(&peer, address);
    let options = AgentOptions::new(name, pool).rights(Rights::parse(ALL).expect("rules"));
    let agent = Agent::start(options.lease(LEASE), carrier, directory).expect("started");
    let _ = std::io::stdin().read(&mut [0]);
    drop(agent);
}

/// An agent in a process of its own, killed with the value.
struct Victim {
    child: Child,
    /// Open, so that what the test program prints at its end is no error.
    _output: BufReader<ChildStdout>,
}

impl Victim {
    /// For `own`, to meet `peer`, to whom it is shown.
    fn start(own: &TestHost, peer: &TestHost, step: u64) -> Self {
        let mut child = again::command()
            .args(["--exact", "plays_its_role", "--nocapture"])
            .env(NAME, own.name.as_str())
            .env(ROOT, own.root())
            .env(PEER, peer.name.as_str())
            .env(ADDRESS, peer.carrier.address().to_string())
            .env(STEP, step.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("started");
        let mut output = BufReader::new(child.stdout.take().expect("piped"));
        let mut lines = output.by_ref().lines().map_while(Result::ok);
        let address = lines.find_map(|line| {
            let (_, address) = line.split_once("role: ")?;
            address.parse().ok()
        });
        let address: SocketAddr = address.expect("it says where it is");
        peer.directory.show(&own.name, address);
        Self {
            child,
            _output: output,
        }
    }

    fn has_died(&mut self) -> bool {
        self.child.try_wait().expect("own child").is_some()
    }

    /// Has it leave. Did it die over it?
    fn end(mut self) -> bool {
        drop(self.child.stdin.take());
        let status = self.child.wait().expect("own child");
        let is_killed = status.signal() == Some(9);
        assert!(is_killed || status.success(), "{status}");
        is_killed
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A publisher on one host, a subscriber on the other.
struct Ends {
    publisher: Publisher,
    subscriber: Subscriber,
}

impl Ends {
    fn send(&mut self) {
        let lease = self.publisher.lease(64).expect("a slot");
        // An error is a host that went meanwhile.
        let _ = self.publisher.publish(lease, 64);
    }

    fn take(&mut self) -> u32 {
        let mut taken = 0;
        while self.subscriber.try_take().expect("sound").is_some() {
            taken += 1;
        }
        taken
    }

    /// Sends and takes until enough has arrived, or the victim is dead.
    fn run_beside(&mut self, victim: &mut Victim) {
        let mut taken = 0;
        eventually("messages arrive, or the agent is dead", || {
            self.send();
            taken += self.take();
            taken >= MESSAGES || victim.has_died()
        });
    }
}

/// Kills the agent of `own` at one step after the other.
fn sweep(own: TestHost, peer: TestHost, own_sends: bool) {
    let (from, to) = if own_sends {
        (&own, &peer)
    } else {
        (&peer, &own)
    };
    let publisher = from
        .join("local")
        .publisher("news", &PublisherOptions::default());
    let subscriber = to
        .join("local")
        .subscriber("news", &SubscriberOptions::default());
    let mut ends = Ends {
        publisher: publisher.expect("opened"),
        subscriber: subscriber.expect("opened"),
    };
    let mut deaths = 0;
    for step in STEPS.chain([0]) {
        let mut victim = Victim::start(&own, &peer, step);
        ends.run_beside(&mut victim);
        let has_died = victim.end();
        deaths += u32::from(has_died);
        assert!(
            step > 0 || !has_died,
            "an agent that is started again works"
        );
        eventually("both ledgers sum up", || {
            ends.take();
            let _ = ends.publisher.subscribers();
            !peer.is_connected_to(own.name.as_str()) && own.is_settled(1) && peer.is_settled(1)
        });
    }
    println!("{deaths} deaths");
    assert!(deaths > 10, "{deaths} deaths were visited");
    drop(ends);
    for mut host in [own, peer] {
        host.agent = None;
        host.assert_settled(0);
    }
}

#[test]
fn the_agent_of_the_sender_is_killed_at_each_step() {
    sweep(TestHost::without_agent("a"), TestHost::new("b"), true);
}

#[test]
fn the_agent_of_the_receiver_is_killed_at_each_step() {
    sweep(TestHost::without_agent("b"), TestHost::new("a"), false);
}
