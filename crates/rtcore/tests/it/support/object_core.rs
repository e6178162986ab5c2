//! A core that runs `p1`, asked to use semaphores and queues (`rtos/apps/p1/README.md`).

use hythe_node::Node;

use super::segment_core::{SegmentCore, bytes_of, words_of};

const SEM_OPEN: u32 = 40;
const SEM_CALL: u32 = 41;
const UNLINK: u32 = 42;
const MQ_OPEN: u32 = 43;
const MQ_SEND: u32 = 44;
const MQ_RECEIVE: u32 = 45;
const MQ_CALL: u32 = 46;

pub const O_RDONLY: u32 = 0;
pub const O_WRONLY: u32 = 1;
pub const O_RDWR: u32 = 2;
pub const O_CREAT: u32 = 0x40;
pub const O_EXCL: u32 = 0x80;
pub const O_NONBLOCK: u32 = 0x800;
pub const RECOVER: u32 = 0x1_0000;

/// Error numbers as the core gets them.
pub const EBADF: i32 = -9;
pub const EAGAIN: i32 = -11;
pub const EBUSY: i32 = -16;
pub const EMFILE: i32 = -24;
pub const ENAMETOOLONG: i32 = -36;
pub const EOVERFLOW: i32 = -75;
pub const EMSGSIZE: i32 = -90;
pub const ENOBUFS: i32 = -105;
pub const ETIMEDOUT: i32 = -110;
pub const EOWNERDEAD: i32 = -130;

/// The methods of `p1` that use semaphores and queues.
pub struct ObjectCore(pub SegmentCore);

/// What `mq_getattr` says, and how often a callback was called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    pub flags: u32,
    pub limits: [u32; 2],
    pub queued: u32,
    pub notified: u32,
}

/// A result of the core's.
pub type OnCore<T> = Result<T, i32>;

fn checked(result: u32) -> OnCore<u32> {
    match result.cast_signed() {
        error if error < 0 => Err(error),
        _ => Ok(result),
    }
}

/// The message of so many bytes from that seed, as the core makes it.
pub fn message(bytes: usize, seed: u32) -> Vec<u8> {
    (0..bytes as u32)
        .map(|i| seed.wrapping_add(i * 7).wrapping_add(i >> 8) as u8)
        .collect()
}

/// As the core hashes it.
pub fn hash(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811C_9DC5, |hash, byte| {
        (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
    })
}

impl ObjectCore {
    pub fn open(node: &Node) -> Self {
        Self(SegmentCore::open(node))
    }

    fn ask(&mut self, method: u32, words: &[u32], name: &str) -> Vec<u32> {
        let argument = [&bytes_of(words), name.as_bytes()].concat();
        words_of(&self.0.call(method, &argument).expect("a result"))
    }

    pub fn sem_open(&mut self, name: &str, flags: u32, value: u32) -> OnCore<u32> {
        let said = self.ask(SEM_OPEN, &[flags, 0o600, value], name);
        checked(said[0]).map(|_| said[1])
    }

    fn sem(&mut self, sem: u32, what: u32, timeout_ms: u32) -> OnCore<u32> {
        let said = self.ask(SEM_CALL, &[sem, what, timeout_ms], "");
        checked(said[0]).map(|_| said[1])
    }

    pub fn sem_close(&mut self, sem: u32) -> OnCore<()> {
        self.sem(sem, 0, 0).map(drop)
    }

    pub fn sem_wait(&mut self, sem: u32, timeout_ms: u32) -> OnCore<()> {
        self.sem(sem, 1, timeout_ms).map(drop)
    }

    pub fn sem_post(&mut self, sem: u32) -> OnCore<()> {
        self.sem(sem, 2, 0).map(drop)
    }

    pub fn sem_value(&mut self, sem: u32) -> OnCore<u32> {
        self.sem(sem, 3, 0)
    }

    pub fn sem_recover(&mut self, sem: u32) -> OnCore<u32> {
        self.sem(sem, 4, 0)
    }

    pub fn unlink(&mut self, is_queue: bool, name: &str) -> OnCore<()> {
        checked(self.ask(UNLINK, &[is_queue.into()], name)[0]).map(drop)
    }

    /// Its place, and what it holds at most.
    pub fn mq_open(&mut self, name: &str, flags: u32, limits: [u32; 2]) -> OnCore<(u32, [u32; 2])> {
        let said = self.ask(MQ_OPEN, &[flags, 0o600, limits[0], limits[1]], name);
        checked(said[0]).map(|_| (said[1], [said[2], said[3]]))
    }

    /// A [`message`].
    pub fn mq_send(
        &mut self,
        queue: u32,
        (bytes, seed): (usize, u32),
        priority: u32,
        timeout_ms: u32,
    ) -> OnCore<()> {
        let words = [queue, priority, timeout_ms, bytes as u32, seed];
        checked(self.ask(MQ_SEND, &words, "")[0]).map(drop)
    }

    /// Length, priority and [`hash`].
    pub fn mq_receive(
        &mut self,
        queue: u32,
        capacity: usize,
        timeout_ms: u32,
    ) -> OnCore<(usize, u32, u32)> {
        let said = self.ask(MQ_RECEIVE, &[queue, capacity as u32, timeout_ms], "");
        checked(said[0]).map(|bytes| (bytes as usize, said[1], said[2]))
    }

    pub fn mq(&mut self, queue: u32, what: Mq) -> OnCore<Attributes> {
        let (what, argument) = match what {
            Mq::Close => (0, 0),
            Mq::Attributes => (5, 0),
            Mq::Flags(flags) => (6, flags),
            Mq::Notify(true) => (7, 0),
            Mq::Notify(false) => (8, 0),
            Mq::Dispatch(timeout_ms) => (9, timeout_ms),
        };
        let said = self.ask(MQ_CALL, &[queue, what, argument], "");
        checked(said[0]).map(|_| Attributes {
            flags: said[1],
            limits: [said[2], said[3]],
            queued: said[4],
            notified: said[5],
        })
    }
}

/// Calls of a queue that are no message.
#[derive(Clone, Copy, Debug)]
pub enum Mq {
    Close,
    Attributes,
    Flags(u32),
    Notify(bool),
    Dispatch(u32),
}
