//! What becomes of a mapping whose file was cut away under it: zeroes, and a flag, instead of the
//! death of the process.
//!
//! A page of a mapped file that has no byte behind it (the file was truncated; it is sparse and the
//! file system full) kills whoever touches it by SIGBUS. One handler for the process, installed
//! with the first mapping of a file, looks the address up in a table of our mappings. If it is in
//! one of them, the whole mapping is replaced by private zeroed memory, marked as lost, and the
//! access is done again. Any other fault goes to the handler that was there before.
//!
//! Called by [`crate::Mapped`] and by the kernel. The handler is async-signal-safe: it takes no
//! lock, allocates nothing, and calls `mmap`. It never decides what a loss means: whoever acts on
//! the memory asks [`crate::Mapped::is_lost`] when it is done.

#![allow(
    unsafe_code,
    reason = "this is the island: signal handlers, and mapping over lost pages"
)]

use core::mem::MaybeUninit;
use core::sync::atomic::{
    AtomicBool, AtomicI32, AtomicU32, AtomicUsize, Ordering, compiler_fence, fence,
};
use std::io;
use std::sync::Once;

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};

/// Files that one process can have mapped at a time: 32 pools with a control file, 8 regions and 7
/// links each. The table is static (32 KiB), because a signal handler reads it.
pub const MAPPINGS_MAX: usize = 512;

/// One mapping of a file. Guarded by `version`: odd while it changes; a mapping that somebody
/// touches does not change.
#[derive(Debug)]
pub(crate) struct Place {
    version: AtomicU32,
    /// 0: the place is free.
    base: AtomicUsize,
    end: AtomicUsize,
    writable: AtomicBool,
    lost: AtomicBool,
}

static PLACES: [Place; MAPPINGS_MAX] = [const { Place::free() }; MAPPINGS_MAX];
/// Mappings of this process that were ever lost. Zero nearly always, so that one look spares all
/// others.
static LOSSES: AtomicU32 = AtomicU32::new(0);
/// The program settles its faults itself.
static LEFT_ALONE: AtomicBool = AtomicBool::new(false);
static INSTALLED: Once = Once::new();
/// What was installed before us. Written before our handler is, read by it only.
static PREVIOUS_HANDLER: AtomicUsize = AtomicUsize::new(libc::SIG_DFL);
static PREVIOUS_FLAGS: AtomicI32 = AtomicI32::new(0);

/// For programs that have a SIGBUS handler of their own: none is installed from now on. Call it
/// before the first pool is opened, and call [`settle`] from that handler. Without it, a pool that
/// is cut away kills the program.
pub fn leave_sigbus_to_the_program() {
    LEFT_ALONE.store(true, Ordering::Relaxed);
}

/// Settles a fault (`si_addr` of a SIGBUS) inside a mapped file of a pool: the mapping is lost from
/// now on and reads as zeroes. False: the address is not ours. Async-signal-safe; for SIGBUS
/// handlers of programs, see [`leave_sigbus_to_the_program`].
#[must_use]
pub fn settle(address: usize) -> bool {
    PLACES
        .iter()
        .filter(|place| place.holds(address))
        .any(Place::lose)
}

/// How many mappings of this process were lost so far. One relaxed load.
#[inline]
#[must_use]
pub fn losses() -> u32 {
    LOSSES.load(Ordering::Relaxed)
}

/// Counts a loss that no page shows, as [`losses`] does: the files of a pool were removed, for
/// instance. Asked from now on, those who look closer find out which.
pub fn count_loss() {
    LOSSES.fetch_add(1, Ordering::SeqCst);
}

impl Place {
    const fn free() -> Self {
        Self {
            version: AtomicU32::new(0),
            base: AtomicUsize::new(0),
            end: AtomicUsize::new(0),
            writable: AtomicBool::new(false),
            lost: AtomicBool::new(false),
        }
    }

    /// Notes a mapping, so that faults in it are settled, and sees to the handler.
    pub(crate) fn note(base: usize, bytes: usize, writable: bool) -> io::Result<&'static Self> {
        if !LEFT_ALONE.load(Ordering::Relaxed) {
            INSTALLED.call_once(install);
        }
        let page = rustix::param::page_size();
        let end = base + bytes.next_multiple_of(page);
        let place = PLACES.iter().find(|place| place.claim(base, end, writable));
        place.ok_or_else(|| {
            io::Error::other(format!(
                "this process has {MAPPINGS_MAX} files of pools mapped, which is the limit; close some pools"
            ))
        })
    }

    fn claim(&self, base: usize, end: usize, writable: bool) -> bool {
        let version = self.version.load(Ordering::Acquire);
        let taken = version % 2 == 1 || self.base.load(Ordering::Relaxed) != 0;
        if taken || !self.begin(version) {
            return false;
        }
        self.base.store(base, Ordering::Relaxed);
        self.end.store(end, Ordering::Relaxed);
        self.writable.store(writable, Ordering::Relaxed);
        self.lost.store(false, Ordering::Relaxed);
        // Pairs with the acquire loads in `holds` and `claim`.
        self.version
            .store(version.wrapping_add(2), Ordering::Release);
        true
    }

    fn begin(&self, version: u32) -> bool {
        let odd = version.wrapping_add(1);
        let begun =
            self.version
                .compare_exchange(version, odd, Ordering::Acquire, Ordering::Relaxed);
        // The odd number comes before what changes. Pairs with the fence in `holds`.
        fence(Ordering::Release);
        begun.is_ok()
    }

    /// Forgets a mapping: before it is unmapped, so that nothing is ever mapped over what comes
    /// there next.
    pub(crate) fn forget(&self) {
        let version = self.version.load(Ordering::Acquire);
        // Only its owner changes a place that is taken.
        let begun = self.begin(version);
        debug_assert!(begun, "a place has one owner");
        self.base.store(0, Ordering::Relaxed);
        self.end.store(0, Ordering::Relaxed);
        self.version
            .store(version.wrapping_add(2), Ordering::Release);
    }

    fn holds(&self, address: usize) -> bool {
        let version = self.version.load(Ordering::Acquire);
        let (base, end) = (
            self.base.load(Ordering::Relaxed),
            self.end.load(Ordering::Relaxed),
        );
        // What was read belongs to one version. Pairs with the fence in `begin`.
        fence(Ordering::Acquire);
        let same = self.version.load(Ordering::Relaxed) == version;
        version.is_multiple_of(2) && same && base != 0 && address >= base && address < end
    }

    /// Replaces the mapping by zeroed memory of this process. May be done again: what is lost stays
    /// lost.
    pub(crate) fn lose(&self) -> bool {
        // Before the zeroes can be seen, so that who meets them and then looks at the flag finds it
        // set.
        if !self.lost.swap(true, Ordering::SeqCst) {
            LOSSES.fetch_add(1, Ordering::SeqCst);
        }
        compiler_fence(Ordering::SeqCst);
        let (base, end) = (
            self.base.load(Ordering::Relaxed),
            self.end.load(Ordering::Relaxed),
        );
        let mut protection = ProtFlags::READ;
        if self.writable.load(Ordering::Relaxed) {
            protection |= ProtFlags::WRITE;
        }
        let flags = MapFlags::PRIVATE | MapFlags::FIXED | MapFlags::NORESERVE;
        // SAFETY: the range is exactly that of a mapping of ours, which is there as long as the
        // place is taken: the caller's access to it, or its owner's, is going on. All access to it
        // is through raw pointers, which stay valid.
        let mapped = unsafe { mmap_anonymous(base as *mut _, end - base, protection, flags) };
        mapped.is_ok()
    }

    #[inline]
    pub(crate) fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Relaxed)
    }
}

fn install() {
    let mut previous = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: no new action is given, and the place for the old one is ours.
    let asked = unsafe { libc::sigaction(libc::SIGBUS, core::ptr::null(), previous.as_mut_ptr()) };
    if asked != 0 {
        return;
    }
    // SAFETY: the system call filled it, and zeroes are a valid action besides.
    let previous = unsafe { previous.assume_init() };
    PREVIOUS_FLAGS.store(previous.sa_flags, Ordering::SeqCst);
    PREVIOUS_HANDLER.store(previous.sa_sigaction, Ordering::SeqCst);
    // SAFETY: zeroes are a valid action: no flags, nothing blocked.
    let mut ours: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
    ours.sa_sigaction = on_sigbus as *const () as usize;
    // On the other stack where there is one: the handler before us may need it.
    ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    // SAFETY: the action is complete, and its handler has the signature that SA_SIGINFO asks for.
    let installed =
        unsafe { libc::sigaction(libc::SIGBUS, &raw const ours, core::ptr::null_mut()) };
    debug_assert_eq!(installed, 0, "SIGBUS can be caught");
}

type InfoHandler = extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void);
type PlainHandler = extern "C" fn(libc::c_int);

extern "C" fn on_sigbus(
    signal: libc::c_int,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    // SAFETY: the kernel hands a valid record to a handler installed with SA_SIGINFO.
    let record: &libc::siginfo_t = unsafe { &*info };
    let code = record.si_code;
    // A positive code: the kernel's, for a fault; the address is meant then.
    if code > 0 {
        // SAFETY: a SIGBUS of the kernel carries an address.
        let address = unsafe { record.si_addr() };
        if settle(address as usize) {
            return;
        }
    }
    pass_on(signal, info, context, code);
}

/// Not ours: what would have happened without us.
fn pass_on(
    signal: libc::c_int,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
    code: libc::c_int,
) {
    let previous = PREVIOUS_HANDLER.load(Ordering::SeqCst);
    if previous == libc::SIG_IGN && code <= 0 {
        return;
    }
    if previous == libc::SIG_DFL || previous == libc::SIG_IGN {
        // SAFETY: the default action of a signal can always be set; a fault then happens again, and
        // ends the process.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
        if code <= 0 {
            // SAFETY: raising a signal in this thread; it is delivered when this handler returns.
            unsafe { libc::raise(signal) };
        }
        return;
    }
    if PREVIOUS_FLAGS.load(Ordering::SeqCst) & libc::SA_SIGINFO != 0 {
        // SAFETY: `sigaction` gave this address as a handler of this signature.
        let handler: InfoHandler = unsafe { core::mem::transmute(previous) };
        handler(signal, info, context);
    } else {
        // SAFETY: as above.
        let handler: PlainHandler = unsafe { core::mem::transmute(previous) };
        handler(signal);
    }
}
