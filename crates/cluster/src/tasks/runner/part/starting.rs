//! What the runner wants started. Where the program is and where its tasks begin is found out
//! beside the part's loop, one after the other: a file system or the agent may take long. The part
//! does all else meanwhile, and says that they are not started before the runner gives it up.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::super::errands::{Errand, Errands};
use super::super::part_protocol::message::{FromPart, Start};
use super::super::program;
use super::super::remote::STARTING;
use super::super::running::signal_for_waiting;
use super::PartOptions;
use crate::HostName;
use crate::tasks::agent_link;
use crate::tasks::agent_message::AgentRequest;
use crate::tasks::error::TaskError;
use crate::tasks::id::TaskId;

/// How long finding that out may take: the answer has to be there within [`STARTING`].
const LOOKING: Duration = STARTING.saturating_sub(Duration::from_secs(1));
/// What tasks print and is passed on before the next answer; the rest waits for that. The runner
/// keeps it where nobody takes it, and not much more.
const PRINTED_BYTES_MAX: usize = 1 << 20;

/// All that is to be started.
#[derive(Debug)]
pub(super) struct Starts {
    /// In the order in which they were asked for.
    wanted: Vec<Wanted>,
    looking: Option<(Errand<Found>, Instant)>,
    errands: Errands,
    printed_bytes: usize,
}

/// Tasks that are started together.
#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) start: Start,
    /// What they get then: of each the last signal, unless one kills.
    pub(super) signals: BTreeMap<TaskId, Signal>,
}

/// What is known before tasks are started.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) path: PathBuf,
    pub(super) directory: Option<PathBuf>,
}

impl Starts {
    pub(super) fn new() -> Result<Self, TaskError> {
        Ok(Self {
            wanted: Vec::new(),
            looking: None,
            errands: Errands::new()?,
            printed_bytes: 0,
        })
    }

    /// Readable when something has been found out.
    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        self.errands.as_fd()
    }

    /// How long that may take yet.
    pub(super) fn left(&self) -> Option<Duration> {
        let (_, since) = self.looking.as_ref()?;
        Some(LOOKING.saturating_sub(since.elapsed()))
    }

    /// May more of what tasks print be passed on?
    pub(super) const fn lets_print(&self) -> bool {
        self.printed_bytes < PRINTED_BYTES_MAX
    }

    /// So much was passed on at once.
    pub(super) fn note_printed(&mut self, bytes: usize) {
        if !self.wanted.is_empty() {
            // As the runner counts a message.
            self.printed_bytes += bytes + size_of::<FromPart>();
        }
    }

    /// Tasks that are to be started.
    pub(super) fn count(&self) -> usize {
        let starts = self.wanted.iter();
        starts.map(|wanted| wanted.start.tasks.len()).sum()
    }

    /// Is one of them to get input?
    pub(super) fn want_input(&self) -> bool {
        self.wanted.iter().any(|wanted| wanted.start.has_input)
    }

    pub(super) fn push(&mut self, start: Start) {
        let signals = BTreeMap::new();
        self.wanted.push(Wanted { start, signals });
    }

    /// One of them is to get a signal. False: there is no such task.
    pub(super) fn signal(&mut self, task: TaskId, signal: Signal) -> bool {
        // A number that was given back may have been given again.
        let mut newest = self.wanted.iter_mut().rev();
        let found = newest.find(|wanted| wanted.start.tasks.iter().any(|(id, _)| *id == task));
        let Some(found) = found else { return false };
        let to_come = found.signals.remove(&task);
        if let Some(signal) = signal_for_waiting(to_come, signal) {
            found.signals.insert(task, signal);
        }
        true
    }

    /// The first of them, and what was found out for it. `None`: nothing has been.
    pub(super) fn next(
        &mut self,
        directory: &Path,
        options: &PartOptions,
    ) -> Option<(Wanted, Result<Found, TaskError>)> {
        self.errands.clear();
        let first = self.wanted.first()?;
        let result = match &self.looking {
            None => match self.begin(&first.start, directory, options) {
                Ok(errand) => {
                    self.looking = Some((errand, Instant::now()));
                    return None;
                }
                Err(error) => Err(error),
            },
            Some((errand, since)) => match errand.result() {
                Some(result) => result,
                None if since.elapsed() >= LOOKING => Err(too_long(&options.host)),
                None => return None,
            },
        };
        self.looking = None;
        self.printed_bytes = 0;
        Some((self.wanted.remove(0), result))
    }

    /// All of them, which are not to be started any more.
    pub(super) fn take_all(&mut self) -> Vec<Wanted> {
        self.looking = None;
        std::mem::take(&mut self.wanted)
    }

    fn begin(
        &self,
        start: &Start,
        directory: &Path,
        options: &PartOptions,
    ) -> Result<Errand<Found>, TaskError> {
        let (start, directory) = (start.clone(), directory.to_owned());
        let (host, from) = (options.host.clone(), options.from.clone());
        let look = move || {
            let may = |program: &str| ask_permission(&directory, &host, &from, program);
            look(&start, host.as_str(), may)
        };
        // Those that were given up are not over.
        let begun = self.errands.start(look)?;
        begun.ok_or_else(|| too_long(&options.host))
    }
}

fn too_long(host: &HostName) -> TaskError {
    TaskError::Elsewhere {
        reason: format!(
            "host {host}: where the program is was not found out within {} s: the agent there, or \
             a file system, does not answer",
            LOOKING.as_secs()
        ),
    }
}

/// The rule for this program is asked each time: it may be another than the first.
fn ask_permission(
    directory: &Path,
    host: &HostName,
    from: &HostName,
    program: &str,
) -> Result<(), TaskError> {
    let request = AgentRequest::MaySpawn {
        host: from.clone(),
        program: program.to_owned(),
    };
    match agent_link::ask(directory, &request)? {
        Some(_) => Ok(()),
        None => Err(TaskError::Agent {
            reason: format!("no agent runs on host {host}"),
        }),
    }
}

fn look(
    start: &Start,
    host: &str,
    may: impl Fn(&str) -> Result<(), TaskError>,
) -> Result<Found, TaskError> {
    let name = start.words.first().cloned().unwrap_or_default();
    let name = OsString::from_vec(name);
    let on_host = start.on_host.clone().unwrap_or_default();
    let mut path = match on_host.find(|path| may(&path.to_string_lossy())) {
        Ok(path) => path,
        Err(refused) => {
            may(&name.to_string_lossy())?;
            program::find(&name, host).map_err(|error| refused.unwrap_or(error))?
        }
    };
    let directory = match on_host.directory(host)? {
        Some(directory) => Some(directory),
        None => directory_of(start, host)?,
    };
    if let Some(directory) = directory.as_ref().filter(|_| path.is_relative()) {
        path = directory.join(path);
    }
    Ok(Found { path, directory })
}

/// Where they begin: where the runner is, if there is such a directory here, else at home.
fn directory_of(start: &Start, host: &str) -> Result<Option<PathBuf>, TaskError> {
    match &start.directory {
        Some(path) if path.is_dir() => Ok(Some(path.clone())),
        Some(path) if start.needs_directory => Err(TaskError::Program {
            host: host.to_owned(),
            path: path.clone(),
            source: ErrorKind::NotADirectory.into(),
        }),
        _ => Ok(std::env::var_os("HOME").map(PathBuf::from)),
    }
}
