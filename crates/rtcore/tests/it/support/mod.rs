//! What the tests of this folder share: boards that can run here, pools of their own, and an echo
//! over a core.

#![allow(
    dead_code,
    unreachable_pub,
    reason = "each test program uses a part of it"
)]

pub mod asker;
pub mod control;
pub mod link_memory;
pub mod object_core;
pub mod segment_core;

pub use hythe_testing::eventually;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use hythe_node::{
    Node, NodeError, Pool, PoolOptions, Publisher, PublisherOptions, Sample, Subscriber,
    SubscriberOptions,
};
use hythe_rtcore::{Board, Core, CoreOptions};
use hythe_testing::Polling;
use rustix::process::{Pid, Signal, kill_process};

/// What the program `decoder` offers: a core is up when all have their channels.
pub const DECODER_ENDPOINTS: usize = 9;
/// Longer than anything here takes on a loaded machine.
pub const LONG: Duration = Duration::from_secs(120);

/// Those that `make test` takes; the others take part in slow tests.
const QUICK: [&str; 2] = ["hosted", "mps2-an386"];

/// The boards of the quick tests that can run here; why another cannot is said aloud.
pub fn boards() -> Vec<Board> {
    QUICK.into_iter().filter_map(board).collect()
}

/// Every other board whose core shares memory, that can run here. From the folders in the
/// repository, so that one which was not built is said aloud, too.
pub fn other_boards() -> Vec<Board> {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../rtos/boards");
    let entries = std::fs::read_dir(sources).expect("the boards' folders");
    let folders = entries.map(|entry| entry.expect("an entry").path());
    let mut sources: Vec<Board> = folders
        .filter(|folder| folder.join("board.toml").is_file())
        .map(|folder| Board::read(&folder).expect("a board"))
        .filter(|board| board.link().is_some() && !QUICK.contains(&board.name()))
        .collect();
    sources.sort_by(|a, b| a.name().cmp(b.name()));
    sources
        .iter()
        .filter_map(|source| board(source.name()))
        .collect()
}

/// A board, if it can run here.
pub fn board(name: &str) -> Option<Board> {
    let board = Board::find(name).or_else(|_| Board::read(&built().join(name)));
    let missing = match &board {
        Ok(board) => board.missing(board.default_app()),
        Err(error) => vec![error.to_string()],
    };
    if missing.is_empty() {
        return board.ok();
    }
    eprintln!("SKIPPED on board {name}: {}", missing.join("; "));
    None
}

/// Where `cargo xtask boards` puts them unless told otherwise.
fn built() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/boards")
}

/// A pool of its own, removed when dropped.
pub struct World {
    pub options: PoolOptions,
    pub root: PathBuf,
    pub pool: Pool,
    spins: bool,
}

impl World {
    pub fn new() -> Self {
        Self::make(true)
    }

    /// One in which every wait sleeps: spinning first, a fast round trip ends before the sleep.
    pub fn that_never_spins() -> Self {
        Self::make(false)
    }

    fn make(spins: bool) -> Self {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let root = PathBuf::from(format!(
            "/dev/shm/hythe-test-{}-{number}",
            std::process::id()
        ));
        let mut options = PoolOptions::new("rtcore").root(&root).bytes(12 << 20);
        if !spins {
            options = options.spin(Duration::ZERO);
        }
        let pool = Pool::open_or_create(&options).expect("pool");
        Self {
            options,
            root,
            pool,
            spins,
        }
    }

    /// Every slot is free and every sum holds.
    pub fn assert_clean(&self) {
        let audit = self.settled();
        assert_eq!(audit.mismatches, [], "{audit:?}");
        assert_eq!(audit.free, audit.slots, "still held: {:?}", audit.holders);
    }

    /// The audit, once all slots are free; or as it is at last.
    pub fn settled(&self) -> hythe_node::Audit {
        let (start, mut polling) = (Instant::now(), Polling::new("all slots are free"));
        loop {
            let audit = self.pool.snapshot().audit;
            if audit.free == audit.slots || start.elapsed() > LONG {
                return audit;
            }
            polling.pause();
        }
    }

    /// Names of the files in the pool's directory.
    pub fn files(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.pool.path()).expect("directory");
        let names = entries.map(|entry| entry.expect("entry").file_name());
        let mut names: Vec<_> = names
            .map(|name| name.to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }
}

impl Drop for World {
    fn drop(&mut self) {
        // With the kernel's segments of those that a test left; its directory, wherever that got.
        let _ = Pool::remove_by_force(&self.options);
        let _ = std::fs::remove_dir_all(&self.root);
    }
}

/// A node with a port on either end of the echo.
pub struct Echo {
    pub node: Node,
    pub ping: Publisher,
    pub pong: Subscriber,
}

impl Echo {
    pub fn open(pool: &Pool, name: &str) -> Result<Self, NodeError> {
        let node = hythe_rtcore::join(pool, name)?;
        let pong = node.subscriber("pong", &SubscriberOptions::default().depth(4))?;
        let ping = node.publisher("ping", &PublisherOptions::default())?;
        Ok(Self { node, ping, pong })
    }

    /// Sends a payload through the core and takes it again.
    pub fn round_trip(&mut self, payload: &[u8]) -> Sample {
        self.send(payload).expect("published");
        self.pong.take(LONG).expect("taken").expect("an echo")
    }

    /// As [`Echo::round_trip`], from ports that do not know yet that there is a new core: a message
    /// that is sent before the subscriber has met it is one that nobody listens for, and comes back
    /// to us unread.
    pub fn round_trip_anew(&mut self, payload: &[u8]) -> Sample {
        let start = Instant::now();
        loop {
            assert!(start.elapsed() < LONG, "no echo of a new core");
            let met = self.send(payload).is_ok();
            let back = self.pong.take(Duration::from_millis(200)).expect("taken");
            if let Some(back) = back.filter(|back| met && back.to_vec() == payload) {
                return back;
            }
        }
    }

    pub fn send(&mut self, payload: &[u8]) -> Result<(), NodeError> {
        let mut lease = self.ping.lease(payload.len())?;
        lease.write(0, payload);
        self.ping.publish(lease, payload.len()).map(|_| ())
    }
}

/// Bytes that differ from place to place and from message to message.
pub fn pattern(bytes: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    (0..bytes).map(|_| next()).collect()
}

/// A process that is not ours to wait for: ends it by its id.
pub fn kill(pid: u32) {
    signal(pid, Signal::KILL);
}

/// Sends a signal to a process by its id.
pub fn signal(pid: u32, signal: Signal) {
    let process = Pid::from_raw(pid.try_into().expect("a pid")).expect("not 0");
    kill_process(process, signal).expect("sent");
    // On a busy machine it runs on until its turn comes.
    if signal == Signal::STOP {
        eventually("it is stopped", || state(pid).starts_with('T'));
    }
}

/// Does the process exist, other than as a zombie?
pub fn exists(pid: u32) -> bool {
    let state = state(pid);
    !state.is_empty() && !state.starts_with('Z')
}

/// Its letter in `/proc`, with what stands behind that; empty: there is no such process.
fn state(pid: u32) -> String {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit(')').next().unwrap_or_default();
    state.trim_start().to_owned()
}

/// Another process of this test program, in a role; killed when dropped.
pub struct Other {
    pub child: Child,
}

impl Other {
    /// Starts the test `role` of this program, which [`role`] then lets go on.
    #[track_caller]
    pub fn start(role: &str, world: &World, board: &Board) -> Self {
        Self::start_with(role, world, board, None)
    }

    /// As [`Other::start`], with a variable in its environment.
    #[track_caller]
    pub fn start_with(
        role: &str,
        world: &World,
        board: &Board,
        variable: Option<(&str, u64)>,
    ) -> Self {
        let program = std::env::current_exe().expect("this program");
        let child = Command::new(program)
            .args([&hythe_testing::in_module(role), "--exact"])
            .args(["--nocapture", "--test-threads=1"])
            .env("HYTHE_TEST_ROLE", role)
            .env("HYTHE_TEST_ROOT", &world.root)
            .env("HYTHE_TEST_BOARD", board.name())
            .envs((!world.spins).then_some(("HYTHE_SPIN_US", "0")))
            .envs(variable.map(|(name, value)| (name, value.to_string())))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(if variable.is_some() {
                Stdio::null()
            } else {
                Stdio::inherit()
            })
            .spawn()
            .expect("another process");
        Self { child }
    }

    /// Ends its standard input.
    pub fn close_input(&mut self) {
        drop(self.child.stdin.take());
    }

    pub fn kill(mut self) {
        self.child.kill().expect("killed");
        self.child.wait().expect("waited");
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// In a process started for this role: its pool, and the board.
pub fn role(name: &str) -> Option<(Pool, Board)> {
    if std::env::var("HYTHE_TEST_ROLE").ok()? != name {
        return None;
    }
    let root = std::env::var_os("HYTHE_TEST_ROOT").expect("root");
    let pool = Pool::open(&PoolOptions::new("rtcore").root(Path::new(&root))).expect("pool");
    let name = std::env::var("HYTHE_TEST_BOARD").expect("board");
    Some((pool, board(&name).expect("board")))
}

pub fn start(world: &World, board: &Board) -> Core {
    Core::start(
        &world.pool,
        board,
        &CoreOptions::default().start_bound(LONG),
    )
    .expect("core")
}
