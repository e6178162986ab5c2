//! Cores whose agent has died: most die with it, some go on without it.
//!
//! An agent that starts, and whoever stops a core, ends such a core first: until it is dead it may
//! write to its slots, and nobody can take over the memory of its emulator. Waits are bounded.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use hythe_abi::RegionIndex;
use hythe_node::hop::HopPool as _;
use hythe_node::{Liveness, MemberInfo, MemberKind, Pool};
use rustix::fs::{major as fs_major, minor as fs_minor};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::CoreError;
use crate::error::system;
use crate::link::LinkMap;

/// How long the core of an agent that died may take to die, too.
pub(crate) const BOUND: Duration = Duration::from_secs(5);
/// How long it may take after SIGTERM, before SIGKILL.
const TERM_BOUND: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(10);

/// A row of the board's core, while its process lives.
pub(crate) fn find(pool: &Pool, board: &str) -> Option<MemberInfo> {
    let prefix = format!("{board}/");
    pool.control().tables().members().find(|member| {
        member.kind == MemberKind::CoreEndpoint
            && (member.name == board || member.name.starts_with(&prefix))
            && pool.liveness(member) != Liveness::Dead
    })
}

/// Ends the board's core, which has no agent any more. False: there was none.
pub(crate) fn end(pool: &Pool, board: &str, bound: Duration) -> Result<bool, CoreError> {
    let (begun, mut found) = (Instant::now(), false);
    let mut told: Option<(u32, Signal)> = None;
    while let Some(core) = find(pool, board) {
        found = true;
        let wanted = if begun.elapsed() < TERM_BOUND {
            Signal::TERM
        } else {
            Signal::KILL
        };
        let pid = core.identity.pid;
        if told != Some((pid, wanted)) {
            tell(pool, (&core, board), wanted)?;
            told = Some((pid, wanted));
        }
        if begun.elapsed() > bound {
            return Err(CoreError::AlreadyRunning {
                board: board.to_owned(),
                by: format!("its core lives on without an agent, as process {pid}"),
            });
        }
        std::thread::sleep(LOOK);
    }
    if found {
        withdraw(pool, board);
    }
    Ok(found)
}

/// Sends a signal to the core's process, where its number means the same here. Whoever may write
/// the pool's tables may have put any number there: it is sent to no process but one that has
/// mapped what the core shares, and that is no participant itself.
fn tell(pool: &Pool, (core, board): (&MemberInfo, &str), signal: Signal) -> Result<(), CoreError> {
    let identity = core.identity;
    let pid = i32::try_from(identity.pid).ok().and_then(Pid::from_raw);
    let Some(pid) =
        pid.filter(|_| identity.pid_namespace == hythe_node::own_identity().pid_namespace)
    else {
        return Ok(());
    };
    let process = format!("/proc/{}", identity.pid);
    // The descriptor first: if the process behind it still is the core, it stays so.
    let opened = match pidfd_open(pid, PidfdFlags::empty()) {
        Err(rustix::io::Errno::SRCH) => return Ok(()),
        opened => opened.map_err(system("open", &process))?,
    };
    if pool.liveness(core) == Liveness::Alive && is_core_process(pool, board, identity.pid) {
        // It may have ended this moment.
        match pidfd_send_signal(&opened, signal) {
            Ok(()) | Err(rustix::io::Errno::SRCH) => {}
            Err(error) => return Err(system("stop", &process)(error)),
        }
    }
    Ok(())
}

fn is_core_process(pool: &Pool, board: &str, pid: u32) -> bool {
    let mut members = pool.control().tables().members();
    let is_participant =
        members.any(|member| member.kind.is_process() && member.identity.pid == pid);
    let Some(region) = region_of(pool, board).filter(|_| !is_participant) else {
        return false;
    };
    let shared = pool.path().join(format!("region.{}", region.0));
    let maps = fs::read_to_string(format!("/proc/{pid}/maps"));
    let (Ok(shared), Ok(maps)) = (fs::metadata(shared), maps) else {
        return false;
    };
    // proc_pid_maps(5): address, permissions, offset, device, inode.
    let (major, minor) = (fs_major(shared.dev()), fs_minor(shared.dev()));
    let device = format!("{major:02x}:{minor:02x}");
    let inode = shared.ino().to_string();
    maps.lines().any(|line| {
        let mut fields = line.split_whitespace().skip(3);
        fields.next() == Some(&device) && fields.next() == Some(&inode)
    })
}

fn region_of(pool: &Pool, board: &str) -> Option<RegionIndex> {
    let regions = pool.snapshot().regions;
    let mut of_board = regions
        .iter()
        .filter(|region| region.name == board && region.link.is_some());
    of_board.next().map(|region| region.index)
}

/// From here on no port takes the core for alive, as when its agent has ended it.
fn withdraw(pool: &Pool, board: &str) {
    let region = region_of(pool, board);
    if let Some(link) = region.and_then(|region| LinkMap::open(pool, region).ok()) {
        link.begin_session(0);
    }
}
