//! The thread that keeps a core: starts its process, passes its rings on, and cleans up after it.
//!
//! The process is bound to this thread: it dies when the thread does. One `poll` waits for all that
//! can happen: the process ends, it says something, it rings, or the agent is told to stop.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender};
use std::time::{Duration, Instant};

use hythe_abi::RegionIndex;
use hythe_abi::core_services::{ENDPOINT, MESSAGES_ENDPOINT};
use hythe_node::hop::{self, HopNode as _, HopPool as _};
use hythe_node::{MemberKind, Node};
use hythe_pool::{CoreCounters, Identity};
use rustix::event::{PollFd, PollFlags};

use crate::boot::{self, Endpoint};
use crate::counters::SeenRows;
use crate::cpu_share::CpuShare;
use crate::doorbell::{self, Doorbell, Entrance, Rung};
use crate::link::LinkMap;
use crate::link::health::Health;
use crate::log::Log;
use crate::process::{self, Process};
use crate::rings::Rings;
use crate::services::{Customer, Services};
use crate::status::{CoreOptions, CoreState, CoreStatus, Reported};
use crate::watched::{Ended, Watched, poll_for, rest_watching};
use crate::{Board, CoreError, counters, reclaim, services};

/// How long a dead core's rows may take to be recovered before the agent goes on without waiting
/// for it.
const RECOVERY_BOUND: Duration = Duration::from_secs(1);
/// How long the poll of a running core sleeps at most.
const LONG: Duration = Duration::from_secs(1);
/// A core that died is started again a little later each time.
const RESTART_STEP: Duration = Duration::from_millis(100);

/// What the thread needs.
pub(crate) struct Supervisor {
    pub(crate) node: Node,
    /// The core's.
    pub(crate) name: String,
    pub(crate) board: Board,
    pub(crate) options: CoreOptions,
    pub(crate) region: RegionIndex,
    pub(crate) pool: PathBuf,
    pub(crate) log: Log,
    pub(crate) stop: OwnedFd,
    pub(crate) shared: Arc<Reported>,
    /// What was counted in earlier lives of the core.
    pub(crate) counted: CoreCounters,
}

/// A core that has answered.
struct Up {
    link: LinkMap,
    doorbell: Doorbell,
    endpoints: Vec<Endpoint>,
    health: Health,
}

impl Supervisor {
    /// Runs the core until it is told to stop, or it died more often than it may. Says once when it
    /// is up or will not be.
    pub(crate) fn run(mut self, started: Sender<Result<(), CoreError>>) {
        let mut started = Some(started);
        let mut restarts = 0;
        let outcome = loop {
            let (ended, was_up) = self.live(&mut started);
            match ended {
                None => break None,
                Some(_) if was_up && restarts < self.options.restarts => {
                    restarts += 1;
                    self.shared.change(|status| status.restarts = restarts);
                    self.log.note("starting the core again");
                    if self.sleep(RESTART_STEP * restarts.min(20)) {
                        break None;
                    }
                }
                Some(error) => {
                    if let (true, CoreError::Died { how, .. }) = (was_up, &error) {
                        self.log.note_death(how, restarts);
                    }
                    break Some(error);
                }
            }
        };
        // The pool is left before anybody learns that it is over.
        drop(self.node);
        let down = outcome.as_ref().map(ToString::to_string);
        if let Some(started) = started.take()
            && let Some(error) = outcome
        {
            // Whoever started us waits for this.
            let _ = started.send(Err(error));
            self.shared.end(down, None);
        } else {
            self.shared.end(down, outcome);
        }
    }

    /// One life of the core. `None`: it was told to stop. True: it had been up.
    fn live(
        &mut self,
        started: &mut Option<Sender<Result<(), CoreError>>>,
    ) -> (Option<CoreError>, bool) {
        let mut was_up = false;
        let (mut seen, mut channels) = (SeenRows::default(), Vec::new());
        let (mut process, identity, mut services) = (None, &mut None, None);
        let ended = match self.start(&mut process, identity) {
            Err(ended) => ended,
            Ok(Up {
                link,
                doorbell,
                endpoints,
                health,
            }) => {
                was_up = true;
                if let Some(started) = started.take() {
                    // Whoever started us waits for this.
                    let _ = started.send(Ok(()));
                }
                services = self.services_of(&endpoints, process.as_ref());
                let (ended, rows) = self.serve(
                    process.as_ref(),
                    (&link, health),
                    &doorbell,
                    (&endpoints, services.as_mut()),
                );
                let bound = endpoints.iter().map(|endpoint| endpoint.channel);
                (seen, channels) = (rows, bound.collect());
                // From here on no port takes the core for alive.
                link.begin_session(0);
                ended
            }
        };
        let how = process.map(|mut process| {
            if matches!(ended, Ended::Died) {
                process.reap()
            } else {
                process.end()
            }
        });
        let how = how.unwrap_or_else(|| "before it had a process".to_owned());
        // What it had is free only now: until its process ended it may have used it.
        if let Some((services, lines)) = services {
            services.end();
            lines.try_iter().for_each(|line| self.log.note(&line));
        }
        let log = self.log.excerpt();
        self.log.note(&format!("the core ended: {how}"));
        if let Some(identity) = identity.take() {
            self.leave_rows(identity);
        }
        if was_up {
            self.counted = seen.sum(self.node.pool(), &channels);
        }
        let error = match ended {
            Ended::Stopped => None,
            Ended::Failed(error) => Some(error),
            Ended::Died => Some(CoreError::Died {
                board: self.name.clone(),
                how,
                log,
            }),
        };
        let reason = error.as_ref().map(ToString::to_string);
        self.shared.change(|status| {
            *status = CoreStatus {
                state: CoreState::Down,
                reason,
                ..status.clone()
            };
        });
        (error, was_up)
    }

    fn start(
        &mut self,
        place: &mut Option<Process>,
        identity: &mut Option<Identity>,
    ) -> Result<Up, Ended> {
        let (board, memory) = (self.name.clone(), self.board.shared()?);
        let (plan, kind) = (&memory.link, memory.doorbell);
        let deadline = Instant::now() + self.options.start_bound;
        if let Err(why) = services::begin_without_core(self.node.pool(), &board) {
            self.log.note(&why);
        }
        let link = LinkMap::fill(
            self.node.pool(),
            self.region,
            (plan.endpoints, plan.ports, plan.capacity),
        )?;
        link.forget_queues();
        let session = self.node.pool().control().new_session();
        link.begin_session(session);
        let entrance = Entrance::open(&self.pool, self.region.0, &board)?;
        let app = self
            .options
            .app
            .as_deref()
            .unwrap_or(self.board.default_app());
        let places = process::Places {
            image: &self.board.image(app),
            pool: Some(process::PoolPlaces {
                folder: &self.pool,
                region: self.region,
                doorbell: &entrance.path,
            }),
            record: self.options.record.as_deref(),
            outlives_agent: self.options.outlives_agent && self.board.has_eventfds(),
        };
        let process = process::start_process(&self.board, &places)?;
        let process = place.insert(process);
        self.log
            .note(&format!("started process {}", process.identity.pid));
        *identity = Some(process.identity);
        // The core as a whole: what a later agent sees of a core whose agent died before it had
        // endpoints.
        let row = hop::join_core(self.node.pool(), process.identity, &board)?;
        counters::carry(&self.node, row, &self.counted);
        let mut watched = Watched {
            board: &board,
            bound: self.options.start_bound,
            stop: &self.stop,
            log: &mut self.log,
        };
        let mut doorbell = boot::connect(&mut watched, process, (&entrance, kind), deadline)?;
        drop(entrance);
        boot::meet(&mut watched, process, &doorbell, &link, session, deadline)?;
        // Before anybody finds the core and asks.
        doorbell.offer(&self.pool, &link)?;
        let names = boot::Names {
            core: &board,
            has_own_channels: self.options.name.is_some(),
        };
        let endpoints = boot::bind(&self.node, &names, process, &link)?;
        // Before anybody else can have written there.
        let health = Health::begin(self.node.pool(), &link, session);
        let pid = process.identity.pid;
        self.shared.change(|status| {
            status.state = CoreState::Up;
            status.reason = None;
            status.pid = pid;
            status.endpoints = endpoints
                .iter()
                .map(|endpoint| endpoint.name.clone())
                .collect();
        });
        Ok(Up {
            link,
            doorbell,
            endpoints,
            health,
        })
    }

    /// Passes rings on until the core's life ends.
    fn serve(
        &mut self,
        process: Option<&Process>,
        (link, health): (&LinkMap, Health),
        doorbell: &Doorbell,
        (endpoints, services): (&[Endpoint], Option<&mut (Services, Receiver<String>)>),
    ) -> (Ended, SeenRows) {
        let Some(process) = process else {
            return (Ended::Died, SeenRows::default());
        };
        let (node, over) = (&self.node, AtomicBool::new(false));
        let mut watched = Watched {
            board: &self.name,
            bound: self.options.start_bound,
            stop: &self.stop,
            log: &mut self.log,
        };
        let row = counters::row_of_core(node, &self.name, process.identity);
        let trusts = self.options.wakes_at_every_ring;
        let (mut services, lines) = services
            .map(|(services, lines)| (services, &*lines))
            .unzip();
        let index = services.as_ref().map(|services| services.index());
        std::thread::scope(|scope| {
            scope.spawn(|| doorbell::pass_on(node, link, doorbell, (&over, trusts)));
            let reclaimer =
                scope.spawn(|| reclaim::run(node, (link, row, health), endpoints, &over));
            let serving = services.take().map(|services| {
                let over = &over;
                scope.spawn(move || services.run(link, over))
            });
            let rings = Rings::begin(node, link, endpoints, row, trusts);
            let ended = listen(&mut watched, process, doorbell, rings, lines);
            over.store(true, Ordering::Release);
            reclaimer.thread().unpark();
            hop::wake(node.pool(), node.index());
            if let Some((serving, index)) = serving.zip(index) {
                serving.thread().unpark();
                hop::wake(node.pool(), index);
                // What one that panicked held stays reserved until the core is dead.
                let _ = serving.join();
            }
            // One that panicked has seen nothing.
            (ended, reclaimer.join().unwrap_or_default())
        })
    }

    /// Services for the core, if its program asks its agent for any.
    fn services_of(
        &mut self,
        endpoints: &[Endpoint],
        process: Option<&Process>,
    ) -> Option<(Services, Receiver<String>)> {
        let channel = |called| {
            let mut own = endpoints.iter().filter(|endpoint| endpoint.is_for_agent);
            own.find_map(|endpoint| endpoint.name.ends_with(called).then_some(&*endpoint.name))
        };
        let identity = process?.identity;
        let customer = Customer {
            name: &self.name,
            identity,
            channel: channel(ENDPOINT)?,
            messages: channel(MESSAGES_ENDPOINT),
            row: counters::row_of_core(&self.node, &self.name, identity),
        };
        let begun = Services::begin(self.node.pool(), customer);
        begun
            .inspect_err(|error| {
                let line = format!("its services do not run: {error}");
                self.log.note(&line);
            })
            .ok()
    }

    /// Takes the endpoints from behind their channels, and waits until the watchers of the pool
    /// have emptied and freed the rows of a core that is dead. What a port still uses then is freed
    /// when the port has noticed.
    fn leave_rows(&self, dead: Identity) {
        let control = self.node.pool().control();
        let rows = || {
            control
                .tables()
                .members()
                .filter(|member| member.kind == MemberKind::CoreEndpoint && member.identity == dead)
        };
        let of_dead = |row| rows().any(|member| member.index == row);
        let bound = control
            .tables()
            .channels()
            .filter(|channel| channel.core.is_some_and(|core| of_dead(core.row)));
        for channel in bound.collect::<Vec<_>>() {
            // Refused to a forked copy only, which has no such thread.
            let _ = self
                .node
                .act(|member, control| member.unbind_core(control, channel.index));
        }
        let deadline = Instant::now() + RECOVERY_BOUND;
        while rows().next().is_some() && Instant::now() < deadline {
            // A port that waits on a channel lets go of the core when it is woken.
            boot::wake_all(&self.node);
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// True: told to stop meanwhile.
    fn sleep(&self, nap: Duration) -> bool {
        let mut asked = [PollFd::new(&self.stop, PollFlags::IN)];
        hythe_sys::wait::ready(&mut asked, nap)[0]
    }
}

/// Wakes whoever is attached to the core when it rings, and is not rung by it directly.
fn listen(
    watched: &mut Watched<'_>,
    process: &Process,
    doorbell: &Doorbell,
    mut rings: Rings<'_>,
    lines: Option<&Receiver<String>>,
) -> Ended {
    let mut open = true;
    let mut share = CpuShare::begin();
    loop {
        let rung = open.then(|| PollFd::from_borrowed_fd(doorbell.as_fd(), PollFlags::IN));
        let mut is_useful = false;
        if let Some(lines) = lines {
            lines.try_iter().for_each(|line| watched.log.note(&line));
        }
        match poll_for(watched, process, rung, LONG) {
            Err(ended) => return ended,
            Ok(false) => {}
            Ok(true) => match doorbell.drain() {
                Rung::Times(times) => is_useful = rings.heard(times),
                Rung::No => {}
                Rung::Closed => open = false,
            },
        }
        if let Some(rest) = share.rest(is_useful)
            && let Err(ended) = rest_watching(watched, process, rest)
        {
            return ended;
        }
    }
}
