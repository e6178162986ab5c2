//! A host of a test: a pool, an agent, a carrier and a directory.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hythe_cluster::{Agent, AgentOptions, HostName, HostState, HostStatus, Rights};
use hythe_node::{MemberKind, Node, Pool, PoolOptions, hop};

use super::carrier::{LOOPBACK, TcpCarrier};
use super::directory::StaticDirectory;
use super::{Root, eventually};

/// Whoever asks.
pub(crate) const ALL: &str = "* * read\n* * write\n";
/// On a machine that is busy with other tests a host is silent for seconds.
pub(crate) const LEASE: Duration = Duration::from_secs(30);

/// A host of a test.
#[derive(Debug)]
pub(crate) struct TestHost {
    /// Dropped first.
    pub(crate) agent: Option<Agent>,
    pub(crate) name: HostName,
    pub(crate) pool: Pool,
    pub(crate) carrier: Arc<TcpCarrier>,
    pub(crate) directory: Arc<StaticDirectory>,
    /// Interfaces whose links are trusted.
    pub(crate) trusted: Vec<String>,
    pub(crate) allows_frames: bool,
    /// What is started as a part of a job of another host.
    pub(crate) task_command: PathBuf,
    root: Root,
}

impl TestHost {
    pub(crate) fn new(name: &str) -> Self {
        Self::with(name, ALL, LEASE)
    }

    pub(crate) fn with(name: &str, rights: &str, lease: Duration) -> Self {
        let mut host = Self::without_agent(name);
        host.start(rights, lease);
        host
    }

    /// With the tables of a small device.
    pub(crate) fn small(name: &str) -> Self {
        let mut host = Self::without_agent_in(name, PoolOptions::small);
        host.start(ALL, LEASE);
        host
    }

    pub(crate) fn without_agent(name: &str) -> Self {
        Self::without_agent_in(name, |options| options.bytes(16 << 20))
    }

    fn without_agent_in(name: &str, options: fn(PoolOptions) -> PoolOptions) -> Self {
        let root = Root::new();
        let options = options(PoolOptions::new("test").root(root.path()));
        let name: HostName = name.parse().expect("a name");
        Self {
            agent: None,
            pool: Pool::open_or_create(&options).expect("made"),
            carrier: TcpCarrier::new(&name),
            directory: StaticDirectory::new(),
            trusted: Vec::new(),
            allows_frames: true,
            task_command: PathBuf::from("/no/such/command"),
            name,
            root,
        }
    }

    /// Where its pool is, for a process that opens it.
    pub(crate) fn root(&self) -> &std::path::Path {
        self.root.path()
    }

    pub(crate) fn start(&mut self, rights: &str, lease: Duration) {
        let options = AgentOptions::new(self.name.clone(), self.pool.clone())
            .rights(Rights::parse(rights).expect("rules"))
            .lease(lease)
            .trusted(self.trusted.clone())
            .allows_frames(self.allows_frames)
            .task_command(self.task_command.clone());
        let (carrier, directory) = (self.carrier.clone(), self.directory.clone());
        let agent = Agent::start(options, carrier, directory);
        self.agent = Some(agent.expect("started"));
    }

    /// As [`small`](Self::small), and it trusts its links.
    pub(crate) fn small_trusting(name: &str) -> Self {
        let mut host = Self::without_agent_in(name, PoolOptions::small);
        host.trusted = vec![LOOPBACK.to_owned()];
        host.start(ALL, LEASE);
        host
    }

    /// One that trusts its links.
    pub(crate) fn trusting(name: &str) -> Self {
        let mut host = Self::without_agent(name);
        host.trusted = vec![LOOPBACK.to_owned()];
        host.start(ALL, LEASE);
        host
    }

    /// Both hear of each other.
    pub(crate) fn meet(&self, other: &Self) {
        self.directory.show(&other.name, other.carrier.address());
        other.directory.show(&self.name, self.carrier.address());
    }

    pub(crate) fn join(&self, name: &str) -> Node {
        Node::join(&self.pool, name).expect("joins")
    }

    /// A node whose ports know flows.
    pub(crate) fn join_with_flows(&self, name: &str) -> Node {
        let flows = Arc::new(hythe_flows::Flows::new());
        hop::join(&self.pool, name, &[flows]).expect("joins")
    }

    pub(crate) fn status_of(&self, other: &str) -> Option<HostStatus> {
        let status = self.agent.as_ref().expect("runs").status();
        let mut hosts = status.hosts.into_iter();
        hosts.find(|host| host.host.as_str() == other)
    }

    pub(crate) fn is_connected_to(&self, other: &str) -> bool {
        let status = self.status_of(other);
        status.is_some_and(|status| status.state == HostState::Connected)
    }

    /// Every slot is free, nobody is left but `members` and the agent, and all adds up.
    pub(crate) fn is_settled(&self, members: usize) -> bool {
        let seen = self.pool.snapshot();
        let audit = &seen.audit;
        let others = seen.members.iter();
        let others = others.filter(|member| member.kind != MemberKind::HostAgent);
        others.count() == members && audit.mismatches.is_empty() && audit.free == audit.slots
    }

    pub(crate) fn assert_settled(&self, members: usize) {
        eventually("the ledger sums up", || self.is_settled(members));
    }
}

/// Two hosts that are connected.
pub(crate) fn pair() -> (TestHost, TestHost) {
    let (a, b) = (TestHost::new("a"), TestHost::new("b"));
    a.meet(&b);
    eventually("both are connected", || {
        a.is_connected_to("b") && b.is_connected_to("a")
    });
    (a, b)
}
