//! The engine: carries channels between this host and others.
//!
//! From outside in: [`Agent`] starts a thread that reads the directory, one that takes connections
//! (`accept`), one that looks at the pool (`watch`) and one that asks why others do not connect
//! (`probe`). For each other host there is a `host`, and
//! within it one `session` after another. A message goes out by `session/sending/`, and comes in by
//! `session/receiving/`; `flows` lets tasks send and receive themselves.

mod accept;
mod addresses;
mod call;
mod context;
mod facts;
mod flows;
mod hello;
mod host;
mod hosts;
mod job_pipes;
mod jobs;
mod kept_connections;
mod link;
mod local;
mod lock;
mod options;
mod parts;
mod probe;
mod random;
mod session;
mod tasks;
mod watch;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

use hythe_flows::Listener;

use self::context::{Context, Group};
pub use self::hosts::HOSTS_MAX;
use self::hosts::Hosts;
pub use self::options::AgentOptions;
use crate::open_files;
use crate::{Calls, Carrier, ClusterError, Directory, DirectoryStatus, HostName, Rights, Status};

/// How often the thread of the directory looks whether it is to stop.
const NAP: Duration = Duration::from_millis(200);

/// A running agent. It stops when dropped: sessions end, participants leave.
#[derive(Debug)]
pub struct Agent {
    context: Arc<Context>,
    hosts: Arc<Hosts>,
    threads: Vec<JoinHandle<()>>,
    /// Of connections and of hosts that are dialled.
    carrying: Arc<Group>,
}

impl Agent {
    /// Starts an agent: it connects to the hosts that `directory` shows, by `carrier`.
    ///
    /// # Errors
    /// The pool has no place for one more participant; a thread cannot be started; the file `flows`
    /// of the pool cannot be made.
    pub fn start(
        options: AgentOptions,
        carrier: Arc<dyn Carrier>,
        directory: Arc<dyn Directory>,
    ) -> Result<Self, ClusterError> {
        let context = Arc::new(Context::new(options, carrier)?);
        let mut agent = Self {
            hosts: Arc::default(),
            threads: Vec::new(),
            carrying: Arc::default(),
            context,
        };
        let listener = Listener::open(&agent.context.options.pool.path())?;
        let context = Arc::clone(&agent.context);
        agent.spawn("hythe-host-flows", move || tasks::run(&context, &listener))?;
        let (context, hosts) = (Arc::clone(&agent.context), Arc::clone(&agent.hosts));
        agent.spawn("hythe-host-jobs", move || job_pipes::run(&context, &hosts))?;
        let (context, hosts) = (Arc::clone(&agent.context), Arc::clone(&agent.hosts));
        agent.spawn("hythe-host-watch", move || watch::run(&context, &hosts))?;
        let (context, hosts) = (Arc::clone(&agent.context), Arc::clone(&agent.hosts));
        agent.spawn("hythe-host-probe", move || probe::run(&context, &hosts))?;
        let (context, hosts) = (Arc::clone(&agent.context), Arc::clone(&agent.hosts));
        let carrying = Arc::clone(&agent.carrying);
        agent.spawn("hythe-host-accept", move || {
            accept::run(&context, &hosts, &carrying);
        })?;
        let (context, hosts) = (Arc::clone(&agent.context), Arc::clone(&agent.hosts));
        let carrying = Arc::clone(&agent.carrying);
        agent.spawn("hythe-host-directory", move || {
            follow(&*directory, &context, &hosts, &carrying);
        })?;
        Ok(agent)
    }

    fn spawn(
        &mut self,
        name: &str,
        body: impl FnOnce() + Send + 'static,
    ) -> Result<(), ClusterError> {
        self.threads.push(hythe_sys::wait::spawn(name, body)?);
        Ok(())
    }

    /// How it is; of calls and directory says whoever brings them.
    #[must_use]
    pub fn status(&self) -> Status {
        let options = &self.context.options;
        let hosts = self.hosts.all();
        Status {
            host: options.host.clone(),
            pool: options.pool.path().display().to_string(),
            pid: std::process::id(),
            trusted: options.trusted.clone(),
            refused_connections: self.context.refused.load(Ordering::Relaxed),
            calls: Calls::default(),
            no_files_left: open_files::shortage(),
            directory: DirectoryStatus::default(),
            hosts: hosts.iter().map(|host| host.status()).collect(),
            open: None,
        }
    }

    /// The numbers of the hosts of the realm, 1 to 4,095, in the numbers of tasks. Without one a
    /// host has no jobs that reach others.
    pub fn set_host_numbers(&self, numbers: BTreeMap<HostName, u32>) {
        self.context.jobs.set_numbers(numbers);
    }

    /// Does something that breaks the connections with a host, unless tasks of this host or of that
    /// one use any: those do not go on over others, as streams do. None begins to before it is
    /// done, so it is to be quick. `None`: tasks use some.
    pub fn without_tasks<T>(&self, host: &HostName, act: impl FnOnce() -> T) -> Option<T> {
        let known = self.hosts.all();
        match known.iter().find(|known| known.record.name == *host) {
            Some(known) => {
                let record = &known.record;
                record
                    .own_job_pipes
                    .while_both_empty(&record.job_pipes, act)
            }
            None => Some(act()),
        }
    }

    /// What other hosts may do here from now on.
    pub fn set_rights(&self, rights: Rights) {
        self.context.set_rights(rights);
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.context.stop();
        for host in self.hosts.all() {
            host.stop();
        }
        for thread in self.threads.drain(..) {
            hythe_sys::wait::for_end_of(thread);
        }
        // A session that began while the others ended.
        for host in self.hosts.all() {
            host.stop();
        }
        self.carrying.wait_until_empty();
        self.context.job_pipes.wait_until_empty();
        self.context.own_job_pipes.wait_until_empty();
    }
}

/// Follows the directory until the agent stops.
fn follow(directory: &dyn Directory, context: &Arc<Context>, hosts: &Hosts, carrying: &Arc<Group>) {
    while !context.stops() {
        match directory.next(NAP) {
            Ok(None) => {}
            Ok(Some(event)) => hosts.apply(context, carrying, event),
            Err(reason) => {
                tracing::error!(reason, "the directory has come to its end");
                return;
            }
        }
    }
}
