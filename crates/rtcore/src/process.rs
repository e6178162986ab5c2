//! The process of a core: a program on this machine, or an emulator.

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use hythe_abi::RegionIndex;
use hythe_pool::Identity;
use rustix::event::{PollFd, PollFlags};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::error::system;
use crate::manifest::BoardKind;
use crate::{Board, CoreError};

/// How long a core may take to end after SIGTERM, before SIGKILL.
const TERM_BOUND: Duration = Duration::from_secs(2);

/// The process of a core. Ended and reaped when dropped.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    pidfd: OwnedFd,
    pub(crate) identity: Identity,
}

/// What a board's arguments name.
pub(crate) struct Places<'p> {
    pub(crate) image: &'p Path,
    /// None: the core shares no memory with Linux.
    pub(crate) pool: Option<PoolPlaces<'p>>,
    /// Where the emulator records, if it shall.
    pub(crate) record: Option<&'p Path>,
    /// It goes on when the agent dies.
    pub(crate) outlives_agent: bool,
}

/// Where the shared memory is.
pub(crate) struct PoolPlaces<'p> {
    pub(crate) folder: &'p Path,
    pub(crate) region: RegionIndex,
    pub(crate) doorbell: &'p Path,
}

/// Starts the board's process. The calling thread must live as long as the core shall, unless that
/// outlives its agent.
pub(crate) fn start_process(board: &Board, places: &Places<'_>) -> Result<Process, CoreError> {
    let fill = |text: &str| fill_in(board, text, places);
    let run = &board.manifest.run;
    let program = fill(&run.command)?;
    let mut command = Command::new(&program);
    let recording = board.repeatable().filter(|_| places.record.is_some());
    let more = recording.into_iter().flat_map(|recording| &recording.args);
    let alone = run.alone.as_ref().filter(|_| places.pool.is_none());
    let arguments = alone.map_or(&run.args, |alone| &alone.args);
    for argument in arguments.iter().chain(more) {
        command.arg(fill(argument)?);
    }
    // A process group of its own: a terminal's interrupt is for the agent, which then ends the core
    // in order.
    command
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    if !places.outlives_agent {
        hythe_sys::spawn::die_with_parent(&mut command);
    }
    let mut child = command.spawn().map_err(system("start", &program))?;
    match watch(&child) {
        Ok((pidfd, identity)) => Ok(Process {
            child,
            pidfd,
            identity,
        }),
        Err(error) => {
            // It cannot be watched, so it shall not run.
            let _ = child.kill();
            let _ = child.wait();
            Err(system("watch", &program)(error))
        }
    }
}

fn watch(child: &Child) -> std::io::Result<(OwnedFd, Identity)> {
    let gone = || std::io::Error::from(rustix::io::Errno::SRCH);
    let pid = i32::try_from(child.id())
        .ok()
        .and_then(Pid::from_raw)
        .ok_or_else(gone)?;
    let pidfd = pidfd_open(pid, PidfdFlags::empty())?;
    let identity = hythe_node::identity_of(child.id()).ok_or_else(gone)?;
    Ok((pidfd, identity))
}

/// Puts paths in place of `{image}`, `{doorbell}`, `{record}` and the names of shared files.
fn fill_in(board: &Board, text: &str, places: &Places<'_>) -> Result<String, CoreError> {
    let run = &board.manifest.run;
    let mut filled = text.to_owned();
    let mut put = |name: &str, path: &Path| {
        let placeholder = format!("{{{name}}}");
        if !filled.contains(&placeholder) {
            return Ok(());
        }
        let refuse = |reason| CoreError::Path {
            board: run_name(board),
            path: path.to_owned(),
            reason,
        };
        let text = path.to_str().ok_or_else(|| refuse("it is not UTF-8"))?;
        if run.kind == BoardKind::Qemu && text.contains(',') {
            return Err(refuse("QEMU's options are separated by commas"));
        }
        filled = filled.replace(&placeholder, text);
        Ok(())
    };
    put("image", places.image)?;
    if let Some(pool) = &places.pool {
        put("doorbell", pool.doorbell)?;
    }
    if let Some(record) = places.record {
        put("record", record)?;
    }
    let Some((shared, pool)) = board.manifest.shared.as_ref().zip(places.pool.as_ref()) else {
        return Ok(filled);
    };
    let path = |what: &str| pool.folder.join(format!("{what}.{}", pool.region.0));
    put(&shared.region.file, &path("region"))?;
    if shared.link.file != shared.region.file {
        put(&shared.link.file, &path("link"))?;
    }
    Ok(filled)
}

fn run_name(board: &Board) -> String {
    board.name().to_owned()
}

impl Process {
    pub(crate) fn pidfd(&self) -> &OwnedFd {
        &self.pidfd
    }

    /// What it says: standard output and standard error.
    pub(crate) fn voices(&self) -> impl Iterator<Item = std::os::fd::BorrowedFd<'_>> {
        let out = self.child.stdout.as_ref().map(AsFd::as_fd);
        out.into_iter()
            .chain(self.child.stderr.as_ref().map(AsFd::as_fd))
    }

    /// Ends it: politely, then not. Returns how it ended.
    pub(crate) fn end(&mut self) -> String {
        let _ = pidfd_send_signal(&self.pidfd, Signal::TERM);
        let deadline = Instant::now() + TERM_BOUND;
        while !self.has_ended(Duration::from_millis(50)) {
            if Instant::now() > deadline {
                let _ = pidfd_send_signal(&self.pidfd, Signal::KILL);
                break;
            }
        }
        self.reap()
    }

    /// Waits for a process that has ended, or was killed, and says how it ended.
    pub(crate) fn reap(&mut self) -> String {
        self.reap_well().1
    }

    /// The same; true: with exit code 0.
    pub(crate) fn reap_well(&mut self) -> (bool, String) {
        match self.child.wait() {
            Ok(status) => (status.success(), status.to_string()),
            Err(error) => (false, format!("in an unknown way ({error})")),
        }
    }

    fn has_ended(&self, within: Duration) -> bool {
        let mut asked = [PollFd::new(&self.pidfd, PollFlags::IN)];
        hythe_sys::wait::ready(&mut asked, within)[0]
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Ended already in the ordinary course; then this does nothing.
        if !matches!(self.child.try_wait(), Ok(Some(_))) {
            self.end();
        }
    }
}
