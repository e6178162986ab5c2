//! A core that is only words, and what Linux does with it: in one thread, so that a seed, or the
//! bytes of a fuzzer, decide all of it.
//!
//! The core acts behind each word that Linux stores into the link, in the middle of its steps, and
//! between its calls. Used by the tests `words` and by the fuzz target `link_words`.

#[path = "../../../../pool/tests/it/hostile_peer/choices.rs"]
pub mod choices;
pub mod core;
#[path = "../../../../pool/tests/it/hostile_peer/words.rs"]
pub mod words;

use std::cell::RefCell;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering as Counting};
use std::time::Duration;

use choices::Choices;
use core::{CoreFault, ENDPOINTS, FakeCore, LINK_BYTES, PORTS, REGION_BYTES, SLOT_BYTES, SLOTS};
use hythe_abi::link::EndpointKind;
use hythe_memory::{Access, Mapped};
use hythe_node::hop::{self, HopNode as _, HopPool as _};
use hythe_node::{
    ChannelKind, Client, ClientOptions, CoreBinding, CoreRegionPlan, EventId, Lease, LinkPlace,
    Listener, MemberIndex, Node, Notifier, PendingReply, Pool, PoolOptions, Publisher,
    PublisherOptions, RegionGeometry, RegionIndex, Sample, SlotClass, Subscriber,
    SubscriberOptions,
};
use hythe_rtcore::{LinkTimeouts, control};

thread_local! {
    /// The core of this thread, and its choices.
    static CORE: RefCell<Option<(FakeCore, Choices)>> = const { RefCell::new(None) };
}

/// Behind each store of Linux into a link.
fn core_acts() {
    CORE.with(|core| {
        if let Ok(mut core) = core.try_borrow_mut()
            && let Some((core, choices)) = &mut *core
        {
            core.act(choices);
        }
    });
}

fn with_core<T>(act: impl FnOnce(&mut FakeCore, &mut Choices) -> T) -> T {
    CORE.with(|core| {
        let mut core = core.borrow_mut();
        let (core, choices) = core.as_mut().expect("a scene is on");
        act(core, choices)
    })
}

/// How long a call may wait.
const BRIEF: Duration = Duration::from_millis(1);
const CANARY: [u8; 1000] = [0xA5; 1000];

/// A participant with ports of every kind.
pub struct User {
    ping: Option<Publisher>,
    pong: Option<Subscriber>,
    knock: Option<Notifier>,
    answer: Option<Listener>,
    ask: Option<Client>,
    asked: Vec<PendingReply>,
    samples: Vec<Sample>,
    messages: u32,
    node: Node,
}

impl User {
    pub fn join(pool: &Pool, number: u32) -> Self {
        let timeouts = LinkTimeouts::default()
            .attach(BRIEF)
            .window(BRIEF)
            .flush(BRIEF)
            .detach(BRIEF);
        let name = format!("user {number}");
        Self {
            ping: None,
            pong: None,
            knock: None,
            answer: None,
            ask: None,
            asked: Vec::new(),
            samples: Vec::new(),
            messages: 0,
            node: hythe_rtcore::join_with(pool, &name, timeouts).expect("joins"),
        }
    }

    /// One call of one port, or a port that is opened or closed. What it returns is its own
    /// matter: that it returns, is the test's.
    pub fn step(&mut self, what: u32, choice: u32) {
        let node = &self.node;
        match what {
            0 if self.ping.is_none() => {
                let options = PublisherOptions::default().send_timeout(BRIEF);
                self.ping = node.publisher("in", &options).ok();
            }
            1 if self.pong.is_none() => {
                let options = SubscriberOptions::default().depth(1 + choice % 3);
                self.pong = node.subscriber("out", &options).ok();
            }
            2 if self.knock.is_none() => self.knock = node.notifier("knock").ok(),
            3 if self.answer.is_none() => self.answer = node.listener("answer").ok(),
            4 if self.ask.is_none() => {
                let options = ClientOptions::default().send_timeout(BRIEF).outstanding(3);
                self.ask = node.client("ask", &options).ok();
            }
            0..=4 if choice.is_multiple_of(16) => self.close(what),
            0 => self.publish(choice),
            1 => self.take(choice),
            2 => {
                let event = EventId::new((choice % 40) as u8).expect("an event");
                let _ = self.knock.as_mut().map(|knock| knock.notify(event));
            }
            3 => {
                let heard = self.answer.as_mut().and_then(|port| port.try_take().ok());
                self.messages += u32::from(heard.is_some_and(|events| !events.is_empty()));
            }
            4 => self.ask(choice),
            5 => self.samples.truncate(choice as usize % 3),
            _ => self.wait_for_any(),
        }
    }

    fn close(&mut self, what: u32) {
        match what {
            0 => self.ping = None,
            1 => self.pong = None,
            2 => self.knock = None,
            3 => self.answer = None,
            _ => {
                self.asked.clear();
                self.ask = None;
            }
        }
    }

    fn publish(&mut self, choice: u32) {
        let Some(ping) = &mut self.ping else { return };
        // Forwarded to the core that it came from, or made here.
        if choice.is_multiple_of(4)
            && let Some(sample) = self.samples.pop()
        {
            let _ = ping.forward(sample);
            return;
        }
        if let Ok(lease) = ping.lease(choice as usize % 100) {
            let _ = ping.publish(lease, choice as usize % 100);
        }
    }

    fn take(&mut self, choice: u32) {
        let Some(pong) = &mut self.pong else { return };
        let taken = match choice % 8 {
            0 => pong.take(BRIEF),
            _ => pong.try_take(),
        };
        if let Ok(Some(sample)) = taken {
            let _ = sample.to_vec();
            self.messages += 1;
            self.samples.push(sample);
        }
        self.samples.truncate(4);
    }

    fn ask(&mut self, choice: u32) {
        let Some(ask) = &mut self.ask else { return };
        if choice.is_multiple_of(2) {
            if let Ok(lease) = ask.lease(8)
                && let Ok(request) = ask.request(lease, 8)
            {
                self.asked.push(request);
            }
        } else if let Some(request) = self.asked.pop() {
            match choice % 4 {
                1 => ask.abandon(request),
                _ => {
                    let reply = ask.wait(request, BRIEF);
                    self.messages += u32::from(reply.is_ok_and(|reply| reply.is_some()));
                }
            }
        } else {
            drop(ask.take(Duration::ZERO));
        }
    }

    fn wait_for_any(&mut self) {
        let Ok(mut set) = self.node.wait_set() else {
            return;
        };
        if let Some(pong) = &mut self.pong {
            let _ = set.attach(pong);
        }
        if let Some(answer) = &mut self.answer {
            let _ = set.attach(answer);
        }
        drop(set.wait(BRIEF));
    }
}

/// A pool, a core of words, and its users.
pub struct Scene {
    users: Vec<User>,
    agent: Node,
    pool: Pool,
    region: RegionGeometry,
    /// A buffer of Linux's own region, which the core has nothing to do with.
    untouched: Lease,
    fault: CoreFault,
    messages: u32,
    _folder: Folder,
}

/// What came of it.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    /// What the core lied.
    pub lies: u32,
    /// What Linux counted of that.
    pub violations: u64,
    /// What the core took from its queues.
    pub entries: u32,
    /// Messages, replies and events that reached Linux's ports.
    pub messages: u32,
}

/// Removed when dropped.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Scene {
    pub fn new(choices: Choices, fault: CoreFault) -> Self {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let number = MADE.fetch_add(1, Counting::Relaxed);
        let name = format!("hythe-words-{}-{number}", std::process::id());
        let root = PathBuf::from("/dev/shm").join(name);
        // The agent, the users, the core as a whole and each of its ports.
        let mut limits = hythe_pool::Geometry::small_limits();
        limits.participants = 4 + ENDPOINTS.len() as u32 * PORTS;
        let options = PoolOptions::new("words").root(&root);
        let options = options.limits(limits).bytes(4 << 20);
        let pool = Pool::open_or_create(&options).expect("a pool");
        let agent = Node::join(&pool, "agent-words").expect("joins");
        let classes = [SlotClass {
            slot_bytes: SLOT_BYTES,
            count: SLOTS,
            first: 0,
            offset: 0,
        }];
        let plan = CoreRegionPlan {
            name: "words",
            bytes: REGION_BYTES,
            classes: &classes,
            link: LinkPlace {
                bytes: LINK_BYTES,
                offset: 0,
            },
            segments: None,
        };
        let region = agent
            .add_core_region(&plan, REGION_BYTES)
            .expect("a region");
        let link = pool.map_link(region).expect("a link");
        let slots = map(&pool, region);
        let mut core = FakeCore::new(link, slots, region.0);
        core.fault = fault;
        CORE.with(|place| *place.borrow_mut() = Some((core, choices)));
        hythe_rtcore::call_at_each_store(core_acts);
        bind(&agent, region);
        let mut untouched = agent.lease(CANARY.len()).expect("a free slot");
        untouched.write(0, &CANARY);
        let users = (0..2).map(|number| User::join(&pool, number)).collect();
        Self {
            users,
            agent,
            region: pool.region(region).expect("the region"),
            pool,
            untouched,
            fault,
            messages: 0,
            _folder: Folder(root),
        }
    }

    /// Plays so many steps.
    pub fn run(mut self, steps: u32) -> Outcome {
        for step in 0..steps {
            let (user, what, choice, is_exhausted) = with_core(|core, choices| {
                core.stores = 0;
                (0..3).for_each(|_| core.act(choices));
                if choices.below(200) == 0 {
                    core.change_life(choices);
                }
                let user = choices.below(2) as usize;
                let drawn = (user, choices.below(8), choices.below(1 << 16));
                (drawn.0, drawn.1, drawn.2, choices.is_exhausted())
            });
            self.users[user].step(what, choice);
            if choice % 32 == 0 {
                let status = control::status(&self.pool, "words").expect("it runs");
                assert!(status.endpoints.len() <= ENDPOINTS.len());
            }
            self.check(step);
            if is_exhausted {
                break;
            }
        }
        self.end()
    }

    /// Free, held and queued are all; and in order Linux answers for all that the core has.
    fn check(&self, step: u32) {
        let audit = self.pool.snapshot().audit;
        assert_eq!(audit.mismatches, [], "step {step}");
        assert_eq!(audit.free + audit.held + audit.queued, audit.slots);
        if self.fault != CoreFault::Honest {
            return;
        }
        let has = with_core(|core, _| core.references());
        for (slot, has) in (0..).zip(has) {
            let held = self.held(slot);
            assert!(
                held >= has,
                "step {step}, slot {slot}: {held} of {has} accounted for"
            );
        }
    }

    /// References of a slot that the core's rows answer for.
    fn held(&self, slot: u32) -> u32 {
        let ledger = self.pool.control().ledger();
        let slot = hythe_pool::LedgerSlot(self.region.ledger_base + slot);
        let rows = self.rows();
        rows.iter().map(|&row| ledger.held_by(row, slot)).sum()
    }

    /// The core's rows: those of all its ports.
    fn rows(&self) -> Vec<MemberIndex> {
        let members = self.pool.control().tables().members();
        let of_core = members.filter(|member| member.kind == hythe_node::MemberKind::CoreEndpoint);
        of_core.map(|member| member.index).collect()
    }

    /// The core is gone: whatever it had is taken back, and nothing is lost.
    fn end(mut self) -> Outcome {
        with_core(|core, _| core.is_silent = true);
        self.messages = self.users.iter().map(|user| user.messages).sum();
        self.users.clear();
        let tables = self.pool.control().tables();
        let rows = self.rows();
        let counted = rows.iter().map(|&row| tables.core_counters(row).violations);
        let counted: u64 = counted.sum();
        for slot in self.region.ledger_base..self.region.ledger_base + self.region.slots {
            let slot = hythe_pool::LedgerSlot(slot);
            for &row in &rows {
                let held = self.pool.control().ledger().held_by(row, slot);
                let taken = self.agent.act(|member, control| {
                    held > 0
                        && member.reclaim(control, row, slot, held).expect("no damage")
                        && member.release(control, slot, held).is_ok()
                });
                assert_eq!(taken.expect("ours"), held > 0);
            }
        }
        let mut untouched = [0; CANARY.len()];
        self.untouched.read(0, &mut untouched);
        assert!(untouched == CANARY);
        drop(self.untouched);
        let audit = self.pool.snapshot().audit;
        assert_eq!(audit.mismatches, []);
        assert_eq!(audit.free, audit.slots, "lost: {:?}", audit.holders);
        let (lies, entries) = with_core(|core, _| (core.lies, core.entries));
        CORE.with(|place| *place.borrow_mut() = None);
        Outcome {
            lies,
            violations: counted,
            entries,
            messages: self.messages,
        }
    }
}

/// Puts the core's endpoints behind channels, as an agent does.
fn bind(agent: &Node, region: RegionIndex) {
    let identity = hythe_node::own_identity();
    let join = |name: &str| hop::join_core(agent.pool(), identity, name).expect("a row");
    join("words");
    for (index, (name, direction, kind)) in ENDPOINTS.into_iter().enumerate() {
        let row = join(&format!("words/{name}"));
        let kind = match kind {
            EndpointKind::Messages => ChannelKind::PublishSubscribe,
            EndpointKind::Requests => ChannelKind::RequestReply,
            EndpointKind::Events => ChannelKind::Event,
        };
        let channel = agent.open_channel(kind, name, None).expect("a channel");
        let binding = CoreBinding {
            region,
            endpoint: index as u32,
            direction,
            row,
            agent: agent.participant().index(),
        };
        let bound = agent.act(|member, control| member.bind_core(control, channel.index, binding));
        bound.expect("ours");
    }
}

fn map(pool: &Pool, region: RegionIndex) -> Mapped {
    let path = pool.path().join(format!("region.{}", region.0));
    let file = std::fs::File::options().read(true).write(true).open(path);
    let file = file.expect("its file");
    Mapped::file(file, 0, REGION_BYTES as usize, Access::Write).expect("mapped")
}
