//! The guard that every call passes: there is a session, nobody else uses it, panics stop, errors
//! become PVM's numbers and, unless the program wants none, lines on standard error.

use std::ffi::{CStr, c_char, c_int};
use std::io::Write as _;
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{
    AtomicBool, AtomicI32, AtomicU32, AtomicU64, AtomicUsize, Ordering, compiler_fence,
};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use std::time::Duration;

use hythe_pvm::code::Code;
use hythe_pvm::native::Native;
use hythe_pvm::options::Opt;

use crate::data::Begun;

/// What `pvm_addmhf` registers.
pub(crate) type Handler = extern "C-unwind" fn(c_int) -> c_int;
pub(crate) type Session = hythe_pvm::session::Session<Handler>;

/// The task that this process is; none before its first call, and after `pvm_exit`.
static SESSION: Mutex<Option<Session>> = Mutex::new(None);
/// How many forks lie between the process that joined and this one.
static FORKS: AtomicU32 = AtomicU32::new(0);
static JOINED_AFTER: AtomicU32 = AtomicU32::new(0);
static LAST_ERROR: AtomicI32 = AtomicI32::new(0);
/// `PvmAutoErr`, for where the session cannot be asked.
static AUTO_ERROR: AtomicI32 = AtomicI32::new(1);
/// The connection to the machine; negative: there is none. A forked child closes its copy, so that
/// the machine sees the end of the task.
static LINK: AtomicI32 = AtomicI32::new(-1);
/// Which socket that is: the program may have closed it, and opened a file of its own since.
static LINK_DEVICE: AtomicU64 = AtomicU64::new(0);
static LINK_INODE: AtomicU64 = AtomicU64::new(0);

/// The thread that has let the session go while the machine's reply is to come; 0: there is none.
static PARKED: AtomicUsize = AtomicUsize::new(0);
/// How often other threads look whether it has come.
const LOOK: Duration = Duration::from_millis(1);

thread_local! {
    static IS_INSIDE: AtomicBool = const { AtomicBool::new(false) };
}

/// This thread is in a call: from before it waits for the session until it has let it go. A signal
/// handler that runs anywhere between does not wait for its own thread.
struct Inside;

impl Inside {
    fn enter() -> Option<Self> {
        let was_inside = IS_INSIDE.with(|inside| inside.swap(true, Ordering::Relaxed));
        // Set before the lock is taken, as a handler on this thread sees it.
        compiler_fence(Ordering::SeqCst);
        match was_inside {
            true => None,
            false => Some(Self),
        }
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        // The lock is free before.
        compiler_fence(Ordering::SeqCst);
        IS_INSIDE.with(|inside| inside.store(false, Ordering::Relaxed));
    }
}

/// This thread waits for a reply of the machine. Its signal handlers may use the session meanwhile;
/// other threads wait, as for any call.
pub(crate) struct Parked;

impl Parked {
    /// While the session is held.
    pub(crate) fn new() -> Self {
        PARKED.store(this_thread(), Ordering::Relaxed);
        Self
    }
}

impl Drop for Parked {
    fn drop(&mut self) {
        PARKED.store(0, Ordering::Relaxed);
    }
}

/// A number that no other thread has; not 0.
fn this_thread() -> usize {
    IS_INSIDE.with(|inside| std::ptr::from_ref(inside).addr())
}

/// The session, once no call of another thread uses it.
fn lock() -> MutexGuard<'static, Option<Session>> {
    loop {
        let session = SESSION.lock().unwrap_or_else(PoisonError::into_inner);
        let parked = PARKED.load(Ordering::Relaxed);
        if parked == 0 || parked == this_thread() {
            return session;
        }
        drop(session);
        std::thread::sleep(LOOK);
    }
}

/// The session, while one thread uses it.
pub(crate) struct Held {
    // Dropped first.
    session: MutexGuard<'static, Option<Session>>,
    _inside: Inside,
}

impl Held {
    /// Waits for other threads.
    ///
    /// # Errors
    /// [`Code::SYSTEM`]: this thread is in a call already, which a signal has interrupted.
    pub(crate) fn take() -> Result<Self, Code> {
        let inside = Inside::enter().ok_or(Code::SYSTEM)?;
        let session = lock();
        let mut held = Self {
            session,
            _inside: inside,
        };
        if JOINED_AFTER.load(Ordering::Relaxed) != FORKS.load(Ordering::Relaxed)
            && let Some(parents) = held.session.take()
        {
            // Its threads and connections are the parent's; the one to the machine is closed.
            std::mem::forget(parents);
        }
        Ok(held)
    }

    /// The session, which begins with the first call.
    ///
    /// # Errors
    /// [`Code::SYSTEM`]: this process is no task of a machine.
    pub(crate) fn session(&mut self) -> Result<&mut Session, Code> {
        if self.session.is_none() {
            count_forks();
            let machine = Native::join()?;
            let variable = |name: &str| std::env::var(name).ok();
            let session = Session::new(Box::new(machine), variable);
            note_auto_error(&session);
            note_link(session.connection());
            JOINED_AFTER.store(FORKS.load(Ordering::Relaxed), Ordering::Relaxed);
            crate::data::begin(&Begun {
                task: session.task().number(),
                parent: session.parent().unwrap_or(0),
                context: session.context(),
                format: hythe_pvm::buffer::NATIVE_FORMAT,
            });
            *self.session = Some(session);
            leave_at_exit();
        }
        self.session.as_mut().ok_or(Code::SYSTEM)
    }

    /// The session, if there is one.
    pub(crate) fn existing(&mut self) -> Option<&mut Session> {
        self.session.as_mut()
    }

    /// Leaves the machine. What was sent goes out first.
    pub(crate) fn end(&mut self) {
        if let Some(session) = self.session.take() {
            LINK.store(-1, Ordering::Relaxed);
            drop(session);
        }
    }
}

/// Runs the inside of a function of this name on the session.
///
/// Unwind safety: after a panic the session is as its last completed step left it.
pub(crate) fn call(name: &str, inside: impl FnOnce(&mut Session) -> Result<c_int, Code>) -> c_int {
    guarded(name, || inside(Held::take()?.session()?))
}

/// The same for one that takes and releases the session by itself.
pub(crate) fn guarded(name: &str, inside: impl FnOnce() -> Result<c_int, Code>) -> c_int {
    match catch_unwind(AssertUnwindSafe(inside)) {
        Ok(Ok(done)) => done,
        Ok(Err(code)) => fail(name, code),
        Err(_) => fail(name, Code::SYSTEM),
    }
}

/// Calls a function that the program has given to the one of this name. One that is left by a C++
/// exception ends the program with a word: nobody above can know of it.
pub(crate) fn call_back<T>(given_to: &'static str, function: impl FnOnce() -> T) -> T {
    struct Leaving(&'static str);

    impl Drop for Leaving {
        fn drop(&mut self) {
            let text = format!(
                "libpvm [pid{}]: the function given to {}() was left by an exception; it must return\n",
                std::process::id(),
                self.0
            );
            // Nobody may read it.
            let _ = std::io::stderr().write_all(text.as_bytes());
            std::process::abort();
        }
    }

    let leaving = Leaving(given_to);
    let returned = function();
    std::mem::forget(leaving);
    returned
}

/// Keeps an error, and says it as the program wants.
pub(crate) fn fail(name: &str, code: Code) -> c_int {
    keep_error(code.number());
    let wanted = AUTO_ERROR.load(Ordering::Relaxed);
    if wanted > 0 {
        say(&format!("{name}(): {code}"));
    }
    match wanted {
        // What `PvmAutoErr` is documented to do.
        2 => std::process::exit(1),
        3 => std::process::abort(),
        _ => code.number(),
    }
}

/// The number of the last error; 0: there was none.
pub(crate) fn last_error() -> c_int {
    LAST_ERROR.load(Ordering::Relaxed)
}

/// A line on standard error, as PVM writes it.
pub(crate) fn say(text: &str) {
    let task = Held::take().ok().and_then(|mut held| {
        let session = held.existing()?;
        Some(session.task())
    });
    let who = match task {
        Some(task) => task.to_string(),
        None => format!("pid{}", std::process::id()),
    };
    // Nobody may read it.
    let _ = writeln!(std::io::stderr(), "libpvm [{who}]: {text}");
}

/// The program has set what errors do.
pub(crate) fn note_auto_error(session: &Session) {
    AUTO_ERROR.store(session.options.value(Opt::AUTO_ERROR), Ordering::Relaxed);
}

/// Keeps an error for `pvm_perror`, and says nothing.
pub(crate) fn keep_error(number: c_int) {
    LAST_ERROR.store(number, Ordering::Relaxed);
    crate::data::keep_error(number);
}

/// Text that C passes, also in other encodings than UTF-8; `None`: there is none.
///
/// # Safety
/// `text` is NULL or points to text that ends with a zero.
pub(crate) unsafe fn text(text: *const c_char) -> Option<String> {
    if text.is_null() {
        return None;
    }
    // SAFETY: it is not NULL; the rest is the caller's word.
    let text = unsafe { CStr::from_ptr(text) };
    Some(text.to_string_lossy().into_owned())
}

/// Writes a result where the caller wants it, if it does.
///
/// # Safety
/// `place` is NULL or valid for a write.
pub(crate) unsafe fn put<T>(place: *mut T, value: T) {
    if !place.is_null() {
        // SAFETY: it is not NULL; the rest is the caller's word.
        unsafe { place.write(value) };
    }
}

fn count_forks() {
    static COUNTING: Once = Once::new();
    COUNTING.call_once(|| {
        // SAFETY: the function is one for a child: it touches atomic words and
        // closes a descriptor, nothing else.
        let refused = unsafe { libc::pthread_atfork(None, None, Some(forked)) };
        // No memory for the entry: then a child is not told from its parent.
        let _ = refused;
    });
}

extern "C" fn forked() {
    FORKS.fetch_add(1, Ordering::Relaxed);
    PARKED.store(0, Ordering::Relaxed);
    let link = LINK.swap(-1, Ordering::Relaxed);
    let noted = (
        LINK_DEVICE.load(Ordering::Relaxed),
        LINK_INODE.load(Ordering::Relaxed),
    );
    if link >= 0 && socket_of(link) == Some(noted) {
        // SAFETY: the session that owns it is the parent's, and forgotten here, not dropped.
        unsafe { libc::close(link) };
    }
}

fn note_link(connection: Option<c_int>) {
    let socket = connection.and_then(|link| Some((link, socket_of(link)?)));
    let (link, (device, inode)) = socket.unwrap_or((-1, (0, 0)));
    LINK_DEVICE.store(device, Ordering::Relaxed);
    LINK_INODE.store(inode, Ordering::Relaxed);
    LINK.store(link, Ordering::Relaxed);
}

/// Device and inode of what is open. One for a forked child: a system call, nothing else.
#[allow(
    clippy::useless_conversion,
    reason = "the words of `stat` are narrower on some machines"
)]
fn socket_of(descriptor: c_int) -> Option<(u64, u64)> {
    let mut found = MaybeUninit::<libc::stat>::uninit();
    // SAFETY: the place takes what the call writes.
    if unsafe { libc::fstat(descriptor, found.as_mut_ptr()) } != 0 {
        return None;
    }
    // SAFETY: the call has succeeded, so it has written all of it.
    let found = unsafe { found.assume_init() };
    Some((found.st_dev.into(), found.st_ino.into()))
}

/// A program that ends without `pvm_exit` still has sent what it sent.
fn leave_at_exit() {
    static REGISTERED: Once = Once::new();
    REGISTERED.call_once(|| {
        // SAFETY: the function has the signature that is asked for, and stays.
        let refused = unsafe { libc::atexit(leave) };
        // No memory for the entry: what is not taken then is lost.
        let _ = refused;
    });
}

extern "C" fn leave() {
    guarded("exit", || {
        if let Ok(mut held) = Held::take() {
            held.end();
        }
        Ok(0)
    });
}
