//! A core that runs `p1`, asked to use segments (`rtos/apps/p1/README.md`), and the Linux side of
//! the same pool.

use std::io::Read as _;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use hythe_memory::Access;
use hythe_node::rpc::Caller;
use hythe_node::{Client, ClientOptions, Node, NodeError};
use hythe_rtcore::segment::{Attached, BoardSegments, Segments};
use hythe_rtcore::{Board, Core, CoreOptions};
use hythe_sys::system_v::CREATE;

use super::{LONG, Other, World, boards, eventually, kill, role};

const GET: u32 = 20;
const ATTACH: u32 = 21;
const DETACH: u32 = 22;
const READ: u32 = 23;
const WRITE: u32 = 24;
const CONTROL: u32 = 25;
const CHECK: u32 = 26;

/// Commands of shmctl(2).
pub const IPC_RMID: u32 = 0;
pub const IPC_SET: u32 = 1;
pub const IPC_STAT: u32 = 2;
pub const SHM_RDONLY: u32 = 0o10000;

/// Error numbers as the core gets them.
pub const EPERM: i32 = -1;
pub const ENOENT: i32 = -2;
pub const ENOMEM: i32 = -12;
pub const EACCES: i32 = -13;
pub const EFAULT: i32 = -14;
pub const EEXIST: i32 = -17;
pub const EINVAL: i32 = -22;
pub const ENOSPC: i32 = -28;

/// The methods of `p1` that use segments.
pub struct SegmentCore {
    pub client: Client,
}

/// What the core has attached.
#[derive(Clone, Copy, Debug)]
pub struct OnCore {
    pub place: u32,
    pub address: u64,
    pub bytes: u32,
}

/// What `IPC_STAT` says to the core.
#[derive(Clone, Copy, Debug)]
pub struct Said {
    pub key: i32,
    pub uid: u32,
    pub gid: u32,
    pub mode: u32,
    pub made_on: u32,
    pub page: u32,
    pub bytes: u64,
    pub attached: u32,
    pub attached_core: u32,
    pub creator: u32,
}

impl SegmentCore {
    pub fn open(node: &Node) -> Self {
        Self::open_on(node, "core/calls")
    }

    pub fn open_on(node: &Node, channel: &str) -> Self {
        let client = node.client(channel, &ClientOptions::default());
        Self {
            client: client.expect("a client"),
        }
    }

    pub fn call(&mut self, method: u32, argument: &[u8]) -> Result<Vec<u8>, NodeError> {
        let result = Caller::new(&mut self.client).call(method, argument, LONG)?;
        Ok(result.to_vec())
    }

    fn words(&mut self, method: u32, words: &[u32]) -> Vec<u32> {
        let result = self.call(method, &bytes_of(words)).expect("a result");
        words_of(&result)
    }

    /// Makes, attaches, detaches and removes segments, and attaches the `kept` one, until a call
    /// fails because the core or its agent has gone. Neither has one to fail that went between two
    /// rounds: the first round behind `gone` is the last.
    pub fn churn(&mut self, kept: i32, bytes: u32, gone: &AtomicBool) {
        let made = [0, bytes, CREATE.cast_unsigned() | 0o600];
        while !gone.load(Ordering::Relaxed) {
            let mut call = |method, words: &[u32]| {
                let result = self.call(method, &bytes_of(words)).ok()?;
                let words = words_of(&result);
                (words[0].cast_signed() >= 0).then_some(words)
            };
            let done = (|| {
                let id = call(GET, &made)?[0];
                let first = call(ATTACH, &[id, 0])?[1];
                let second = call(ATTACH, &[kept.cast_unsigned(), 0])?[1];
                call(CONTROL, &[id, IPC_RMID, 0, 0, 0])?;
                call(DETACH, &[first])?;
                call(DETACH, &[second])
            })();
            if done.is_none() {
                return;
            }
        }
    }

    /// The id, or a negative error number.
    pub fn get(&mut self, key: i32, bytes: u32, flags: i32) -> Result<i32, i32> {
        let words = [key.cast_unsigned(), bytes, flags.cast_unsigned()];
        let result = self.words(GET, &words)[0].cast_signed();
        if result < 0 { Err(result) } else { Ok(result) }
    }

    pub fn attach(&mut self, id: i32, flags: u32) -> Result<OnCore, i32> {
        let words = self.words(ATTACH, &[id.cast_unsigned(), flags]);
        match words[0].cast_signed() {
            0 => Ok(OnCore {
                place: words[1],
                address: u64::from(words[3]) << 32 | u64::from(words[2]),
                bytes: words[4],
            }),
            error => Err(error),
        }
    }

    pub fn detach(&mut self, attached: OnCore) -> i32 {
        self.words(DETACH, &[attached.place])[0].cast_signed()
    }

    pub fn read(&mut self, from: OnCore, offset: u32, bytes: u32) -> Vec<u8> {
        let words = bytes_of(&[from.place, offset, bytes]);
        self.call(READ, &words).expect("bytes")
    }

    pub fn write(&mut self, into: OnCore, offset: u32, bytes: &[u8]) {
        let argument = [&bytes_of(&[into.place, offset]), bytes].concat();
        assert_eq!(self.call(WRITE, &argument).expect("written"), b"");
    }

    /// Result of `hythe_shm_check()` for a range from so many bytes behind the first one on.
    pub fn check(&mut self, attached: OnCore, offset: i64, bytes: u32, flags: u32) -> i32 {
        let offset = offset.cast_unsigned();
        let words = [
            attached.place,
            offset as u32,
            (offset >> 32) as u32,
            bytes,
            flags,
        ];
        self.words(CHECK, &words)[0].cast_signed()
    }

    pub fn status(&mut self, id: i32) -> Result<Said, i32> {
        let words = self.control(id, IPC_STAT, [0; 3])?;
        Ok(Said {
            key: words[0].cast_signed(),
            uid: words[1],
            gid: words[2],
            mode: words[5],
            made_on: words[6],
            page: words[7],
            bytes: u64::from(words[9]) << 32 | u64::from(words[8]),
            attached: words[16],
            attached_core: words[17],
            creator: words[18],
        })
    }

    /// Owner, group and mode.
    pub fn set(&mut self, id: i32, rights: [u32; 3]) -> Result<(), i32> {
        self.control(id, IPC_SET, rights).map(drop)
    }

    pub fn remove(&mut self, id: i32) -> Result<(), i32> {
        self.control(id, IPC_RMID, [0; 3]).map(drop)
    }

    pub fn control(&mut self, id: i32, command: u32, rights: [u32; 3]) -> Result<Vec<u32>, i32> {
        let [user, group, mode] = rights;
        let mut words = self.words(CONTROL, &[id.cast_unsigned(), command, user, group, mode]);
        match words.remove(0).cast_signed() {
            0 => Ok(words),
            error => Err(error),
        }
    }
}

pub fn bytes_of(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

pub fn words_of(bytes: &[u8]) -> Vec<u32> {
    let words = bytes.chunks_exact(4);
    words
        .map(|word| u32::from_le_bytes(word.try_into().expect("a word")))
        .collect()
}

/// The agent of these tests: a process of its own. Each test program has it as the test `agent`.
pub fn be_agent() {
    let Some((pool, board)) = role("agent") else {
        return;
    };
    let options = CoreOptions::default().start_bound(LONG).restarts(1000);
    let core = Core::start(&pool, &board, &options.app("p1")).expect("core");
    let mut input = Vec::new();
    std::io::stdin().read_to_end(&mut input).expect("told");
    core.stop().expect("stopped");
}

/// A child that one test forks has what all tests of this process have attached, and the kernel
/// counts it: so one test at a time.
static ALONE: Mutex<()> = Mutex::new(());

/// A pool with a core that uses segments, and the Linux side of them.
pub struct Fixture {
    pub on_core: SegmentCore,
    pub segments: Segments,
    pub node: Node,
    pub agent: Other,
    pub world: World,
    pub board: Board,
    _alone: MutexGuard<'static, ()>,
}

impl Fixture {
    #[track_caller]
    pub fn start(board: &Board) -> Self {
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let world = World::new();
        let agent = Other::start("agent", &world, board);
        eventually("the core is up", || core_pid(&world, board) != 0);
        let node = hythe_rtcore::join(&world.pool, "tester").expect("joins");
        let on_core = SegmentCore::open(&node);
        let segments = Segments::open(&world.pool, None).expect("an area");
        let mut fixture = Self {
            on_core,
            segments,
            node,
            agent,
            world,
            board: board.clone(),
            _alone: alone,
        };
        fixture.await_services();
        fixture
    }

    /// The agent's server may come a moment after the core is up.
    pub fn await_services(&mut self) {
        eventually("the core's agent serves it", || {
            let asked = self
                .on_core
                .call(CONTROL, &bytes_of(&[u32::MAX, 2, 0, 0, 0]));
            asked.is_ok_and(|said| words_of(&said)[0].cast_signed() == EINVAL)
        });
    }

    /// Makes a segment on Linux.
    pub fn make(&self, key: i32, bytes: usize) -> i32 {
        let made = self.segments.get(key, bytes, CREATE | 0o600);
        made.expect("made")
    }

    pub fn attach(&self, id: i32) -> Attached {
        let attached = self.segments.attach(id, Access::Write, None);
        attached.expect("attached")
    }

    pub fn listed(&self) -> BoardSegments {
        self.segments.list().expect("listed").remove(0)
    }

    pub fn ids(&self) -> Vec<i32> {
        let listed = self.listed().segments;
        listed.iter().map(|found| found.id).collect()
    }

    pub fn free_bytes(&self) -> u64 {
        self.listed().free_bytes
    }

    /// Kills the core, and waits until the next one is served.
    pub fn kill_core(&mut self) {
        let pid = core_pid(&self.world, &self.board);
        kill(pid);
        self.await_core_after(pid);
    }

    /// Kills the agent, and with it the core; another agent starts another core.
    #[track_caller]
    pub fn kill_agent(&mut self) {
        let pid = core_pid(&self.world, &self.board);
        self.agent.child.kill().expect("killed");
        self.start_next_agent(pid);
    }

    /// The agent was killed, and with it the core of this process id.
    #[track_caller]
    pub fn start_next_agent(&mut self, pid: u32) {
        // A second agent is refused while the first lives.
        self.agent.child.wait().expect("reaped");
        self.agent = Other::start("agent", &self.world, &self.board);
        self.await_core_after(pid);
    }

    pub fn core_pid(&self) -> u32 {
        core_pid(&self.world, &self.board)
    }

    /// Waits until another core than that is served.
    pub fn await_core_after(&mut self, pid: u32) {
        eventually("another core is up", || {
            ![0, pid].contains(&core_pid(&self.world, &self.board))
        });
        self.await_services();
    }

    /// What the core says, and its agent.
    pub fn log(&self) -> String {
        let path = self.world.pool.path();
        std::fs::read_to_string(path.join(format!("log.{}", self.board.name()))).expect("a log")
    }

    /// Stops the core, removes what is left, and finds every slot free and the area empty.
    pub fn finish(self) {
        let Self {
            on_core,
            segments,
            node,
            mut agent,
            world,
            ..
        } = self;
        drop((on_core, node));
        agent.close_input();
        assert!(agent.child.wait().expect("reaped").success());
        let listed = segments.list().expect("listed").remove(0);
        for left in &listed.segments {
            assert_eq!(left.attached_core, 0, "a core that has ended: {left:?}");
            segments.remove(left.id).expect("removed");
        }
        let listed = segments.list().expect("listed").remove(0);
        assert_eq!(listed.free_bytes, listed.area_bytes, "{listed:?}");
        world.assert_clean();
    }
}

/// The core's process; 0: there is none at this moment.
fn core_pid(world: &World, board: &Board) -> u32 {
    let status = hythe_rtcore::control::status(&world.pool, board.name());
    status.map_or(0, |status| match status.endpoints.len() {
        0 => 0,
        _ => status.core_pid,
    })
}

/// Boards that can run `p1` here and have segments.
pub fn p1_boards() -> Vec<Board> {
    let runs = |board: &Board| {
        let missing = board.missing("p1");
        if !missing.is_empty() {
            eprintln!("SKIPPED on board {}: {}", board.name(), missing.join("; "));
        }
        missing.is_empty()
    };
    boards().into_iter().filter(runs).collect()
}

/// A key that no other test of this machine has.
pub fn key() -> i32 {
    static NEXT: AtomicI32 = AtomicI32::new(1);
    let number = NEXT.fetch_add(1, Ordering::Relaxed) << 22;
    0x4000_0000 | number ^ std::process::id().cast_signed() & 0x3F_FFFF
}
