//! An agent in a process of its own, which is this test program again, and dies where it is told.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::SocketAddr;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, ChildStdout, Stdio};

use hythe_cluster::{Agent, AgentOptions, HostName, Rights};
use hythe_memory::kill_points;
use hythe_node::{Pool, PoolOptions};

use crate::again;
use crate::support::carrier::TcpCarrier;
use crate::support::directory::StaticDirectory;
use crate::support::host::{ALL, LEASE, TestHost};

const NAME: &str = "HYTHE_TEST_HOST";
const ROOT: &str = "HYTHE_TEST_ROOT";
const PEER: &str = "HYTHE_TEST_PEER";
const ADDRESS: &str = "HYTHE_TEST_ADDRESS";
const DEATH: &str = "HYTHE_TEST_DEATH";

/// Where an agent dies: in front of what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Death {
    /// Nowhere.
    Never,
    /// A step of its carrier: a connection made or taken, something sent, something received.
    Step(u64),
    /// A store into its pool, by whatever thread.
    Store(u32),
    /// A store into its pool after it was told to leave.
    StoreOfLeaving(u32),
}

impl Death {
    fn to_text(self) -> String {
        match self {
            Self::Never => "never 0".to_owned(),
            Self::Step(number) => format!("step {number}"),
            Self::Store(number) => format!("store {number}"),
            Self::StoreOfLeaving(number) => format!("leaving {number}"),
        }
    }

    fn from_environment() -> Self {
        let text = std::env::var(DEATH).expect("set");
        let (what, number) = text.split_once(' ').expect("two words");
        let number: u32 = number.parse().expect("a number");
        match what {
            "step" => Self::Step(number.into()),
            "store" => Self::Store(number),
            "leaving" => Self::StoreOfLeaving(number),
            _ => Self::Never,
        }
    }
}

/// Plays the victim, if this process is one.
pub(crate) fn play() {
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
    let peer: HostName = variable(PEER).parse().expect("a name");
    let address: SocketAddr = variable(ADDRESS).parse().expect("an address");
    directory.show(&peer, address);
    let death = Death::from_environment();
    match death {
        Death::Step(step) => carrier.die_before(step),
        Death::Store(store) => kill_points::arm_process(store),
        Death::Never | Death::StoreOfLeaving(_) => kill_points::arm_process(0),
    }
    let options = AgentOptions::new(name, pool).rights(Rights::parse(ALL).expect("rules"));
    let agent = Agent::start(options.lease(LEASE), carrier, directory).expect("started");
    let _ = std::io::stdin().read(&mut [0]);
    let stores = kill_points::process_stores();
    match death {
        Death::StoreOfLeaving(store) => kill_points::arm_process(store),
        Death::Never => kill_points::arm_process(0),
        Death::Step(_) | Death::Store(_) => {}
    }
    drop(agent);
    println!("stores: {stores} {}", kill_points::process_stores());
}

/// An agent in a process of its own, killed with the value.
pub(crate) struct Victim {
    child: Child,
    output: BufReader<ChildStdout>,
}

/// How a victim came through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Killed,
    /// Its stores until it was told to leave, and from then on.
    Left(u32, u32),
}

impl Victim {
    /// For `own`, to meet `peer`, to whom it is shown.
    #[track_caller]
    pub(crate) fn start(own: &TestHost, peer: &TestHost, death: Death) -> Self {
        let mut child = again::command()
            .args([
                "--exact",
                &hythe_testing::in_module("plays_its_role"),
                "--nocapture",
            ])
            .env(NAME, own.name.as_str())
            .env(ROOT, own.root())
            .env(PEER, peer.name.as_str())
            .env(ADDRESS, peer.carrier.address().to_string())
            .env(DEATH, death.to_text())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("started");
        let mut output = BufReader::new(child.stdout.take().expect("piped"));
        let address = said(&mut output, "role: ").expect("it says where it is");
        let address: SocketAddr = address.parse().expect("an address");
        peer.directory.show(&own.name, address);
        Self { child, output }
    }

    pub(crate) fn has_died(&mut self) -> bool {
        self.child.try_wait().expect("own child").is_some()
    }

    /// Has it leave.
    pub(crate) fn end(mut self) -> End {
        drop(self.child.stdin.take());
        let stores = said(&mut self.output, "stores: ");
        let status = self.child.wait().expect("own child");
        if status.signal() == Some(9) {
            return End::Killed;
        }
        assert!(status.success(), "{status}");
        let stores = stores.expect("it says");
        let (before, leaving) = stores.trim().split_once(' ').expect("two numbers");
        let number = |text: &str| text.parse().expect("a number");
        End::Left(number(before), number(leaving))
    }
}

/// The rest of the line that begins so, somewhere in it: the test program prints, too.
fn said(output: &mut BufReader<ChildStdout>, what: &str) -> Option<String> {
    let mut lines = output.by_ref().lines().map_while(Result::ok);
    lines.find_map(|line| Some(line.split_once(what)?.1.to_owned()))
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
