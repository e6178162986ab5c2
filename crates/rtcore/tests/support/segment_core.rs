//! A core that runs `p1`, asked to use segments (`rtos/apps/p1/README.md`), and the Linux side of
//! the same pool.

use std::sync::atomic::{AtomicI32, Ordering};

use hythe_memory::Access;
use hythe_node::rpc::Caller;
use hythe_node::{Client, ClientOptions, Node, NodeError};
use hythe_rtcore::segment::{Attached, BoardSegments, Segments};
use hythe_rtcore::{Board, Core, CoreOptions};
use hythe_sys::system_v::CREATE;

use super::{LONG, World, boards, eventually, kill};

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
        let client = node.client("core/calls", &ClientOptions::default());
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

fn bytes_of(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn words_of(bytes: &[u8]) -> Vec<u32> {
    let words = bytes.chunks_exact(4);
    words
        .map(|word| u32::from_le_bytes(word.try_into().expect("a word")))
        .collect()
}

/// A pool with a core that uses segments, and the Linux side of them.
pub struct Fixture {
    pub on_core: SegmentCore,
    pub segments: Segments,
    pub node: Node,
    pub core: Core,
    pub world: World,
}

impl Fixture {
    pub fn start(board: &Board) -> Self {
        let world = World::new();
        let options = CoreOptions::default().start_bound(LONG).restarts(1000);
        let core = Core::start(&world.pool, board, &options.app("p1")).expect("core");
        let node = hythe_rtcore::join(&world.pool, "tester").expect("joins");
        let on_core = SegmentCore::open(&node);
        let segments = Segments::open(&world.pool, None).expect("an area");
        let mut fixture = Self {
            on_core,
            segments,
            node,
            core,
            world,
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
        let pid = self.core.status().pid;
        kill(pid);
        let next = self
            .core
            .wait_until(LONG, |status| status.pid != pid && status.pid != 0);
        assert!(next, "the core is started again");
        self.await_services();
    }

    /// Removes what is left, stops the core, and finds every slot free and the area empty.
    pub fn finish(self) {
        let Self {
            on_core,
            segments,
            node,
            core,
            world,
        } = self;
        drop((on_core, node));
        core.stop().expect("stopped");
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
