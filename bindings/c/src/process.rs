//! This process as a participant, for calls that name no node: semaphores and message queues.
//!
//! It joins the pool of the environment with the first of them, under the program's name, and
//! leaves with its end. A forked child joins anew, under the name and a `'`.

use core::ffi::{CStr, c_char, c_int, c_uint};

use hythe::sync::{Deadline, SyncError};
use hythe::{Node, Pool, PoolOptions};
use hythe_sys::environment;
use hythe_sys::fork::ForkSafe;

use crate::errno::{self, Numbered};
use crate::ffi_guard::Process;

static NODE: ForkSafe<Option<(Process, Node)>> = ForkSafe::new(None);

/// The node of this process.
pub(crate) fn node() -> Result<Node, SyncError> {
    let mut place = NODE.lock();
    let mut mark = "";
    if let Some((process, node)) = &*place {
        if process.is_own() {
            return Ok(node.clone());
        }
        mark = "'";
    }
    let pool = environment::text("HYTHE_POOL");
    let pool = Pool::open_or_create(&PoolOptions::new(pool.as_deref().unwrap_or("default")))?;
    let node = Node::join(&pool, &format!("{}{mark}", program()))?;
    // That of a parent acts on nothing when it goes; but who knows which thread was in it.
    std::mem::forget(place.replace((Process::own(), node.clone())));
    Ok(node)
}

/// Runs the inside of a public function; an error becomes errno, and a message.
pub(crate) fn cross<T>(refused: T, inside: impl FnOnce() -> Result<T, SyncError>) -> T {
    errno::cross(refused, inside)
}

/// The program's name, as much as a participant's may have.
fn program() -> String {
    let own = std::env::current_exe().unwrap_or_default();
    let name = own.file_name().unwrap_or_default().to_string_lossy();
    let name: String = name.chars().filter(|c| !c.is_control()).take(15).collect();
    if name.is_empty() {
        "process".to_owned()
    } else {
        name
    }
}

/// Which bits of a mode a new object does not get. The kernel tells it to a file alone without
/// changing it.
pub(crate) fn mask() -> c_uint {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    line.and_then(|octal| c_uint::from_str_radix(octal.trim(), 8).ok())
        .unwrap_or(0o022)
}

impl Numbered for SyncError {
    fn number(&self) -> c_int {
        self.errno()
    }
}

/// # Safety
/// `name` is a string, or NULL.
pub(crate) unsafe fn name<'a>(name: *const c_char) -> Result<&'a str, SyncError> {
    if name.is_null() {
        return Err(system("reading a name", libc::EINVAL));
    }
    // SAFETY: the caller's word.
    let name = unsafe { CStr::from_ptr(name) };
    name.to_str()
        .map_err(|_| system("reading a name that is not UTF-8", libc::EINVAL))
}

/// An absolute time. `NULL`: no end.
pub(crate) fn deadline(time: Option<&libc::timespec>) -> Result<Deadline, SyncError> {
    let Some(time) = time else {
        return Ok(Deadline::Never);
    };
    #[allow(
        clippy::useless_conversion,
        reason = "the fields are narrower where pointers are"
    )]
    let found = Deadline::from_timespec(time.tv_sec.into(), time.tv_nsec.into());
    found.ok_or_else(|| system("reading a time of no nanoseconds", libc::EINVAL))
}

pub(crate) fn system(action: &'static str, number: c_int) -> SyncError {
    SyncError::System {
        action,
        source: std::io::Error::from_raw_os_error(number),
    }
}
