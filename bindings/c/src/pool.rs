//! `hythe_pool`: a pool, open in this process. Never takes part in it: that is `hythe_node`.

use core::ffi::{c_char, c_int};
use std::mem::MaybeUninit;
use std::path::Path;
use std::time::Duration;

use hythe::{Pool, PoolOptions};

use crate::ffi_guard::{Handle, Process, Refusal, cross, empty_place, end, name, optional_name};
use crate::sized::{self, Extensible};

/// For `spin_ns`: a wait sleeps at once.
pub const HYTHE_NO_SPIN: u64 = 0xFFFF_FFFF_FFFF_FFFFu64;

/// Classes of slots that a pool can have, the usual ones included.
pub const HYTHE_SLOT_CLASSES_MAX: usize = 8;

/// Slots of one size.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct hythe_slot_class {
    /// Bytes of the largest payload.
    pub payload_bytes: u64,
    /// How many slots.
    pub count: u32,
    /// Zero.
    pub reserved: u32,
}

/// Which pool, and how to make it. Initialise it with hythe_pool_options_init(); what is zero has
/// its default.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct hythe_pool_options {
    /// sizeof(struct hythe_pool_options).
    pub size: usize,
    /// The pool's name: "NAME", or "UID/NAME" for another user's. Never NULL.
    pub name: *const c_char,
    /// Directory of all pools. NULL: the environment's HYTHE_ROOT, else /dev/shm/hythe.
    pub root: *const c_char,
    /// Group of the pool's files, by name or number, if it has to be made. NULL: the maker's.
    pub group: *const c_char,
    /// Where a hugetlbfs is mounted that its slots shall lie in, if it has to be made. NULL:
    /// ordinary pages.
    pub huge_pages: *const c_char,
    /// Size of the whole pool in bytes, if it has to be made. 0: the least of 64 MiB, an eighth of
    /// the memory (of the machine, or what control groups let this process have) and half of what
    /// is free. More than there is: HYTHE_ENOROOM.
    pub bytes: u64,
    /// The longest that a wait looks before it sleeps. 0: what pays on this machine. HYTHE_NO_SPIN:
    /// none.
    pub spin_ns: u64,
    /// Permissions of the pool's files, if it has to be made: 0640 and 0660 let the group read, or
    /// write. 0: 0600.
    pub mode: u32,
    /// Not 0: touch every page now (those of a core's region when a port meets that core), so that
    /// no first touch is paid on the data path.
    pub prefault: u32,
    /// Not 0: lock the pool into memory, and a core's region when a port meets that core.
    pub lock: u32,
    /// Not 0: every process that may write this pool is trusted not to change a payload after it
    /// gave it away. Only then hythe_sample_data() gives a pointer to it; without, payload is
    /// copied out. Right for a pool whose participants are all one's own programs.
    pub trust_peers: u32,
    /// Not 0: control tables for a small device, if it has to be made: at most 8 processes take
    /// part, and 2 MiB are enough.
    pub small: u32,
    /// Zero.
    pub reserved: u32,
    /// Classes of slots beside the usual ones, if it has to be made: those with a count. The usual
    /// ones share what these leave; without `bytes` the pool is as much larger.
    pub classes: [hythe_slot_class; HYTHE_SLOT_CLASSES_MAX],
}

// SAFETY: as the trait says; `hythe_slot_class` ends with two `u32` behind a `u64`.
unsafe impl Extensible for hythe_pool_options {
    const NOUN: &'static str = "pool options";
}

/// A pool, open in this process. Any number of threads may use it at once.
#[derive(Debug)]
pub struct hythe_pool {
    process: Process,
    pub(crate) pool: Pool,
    pub(crate) trusts: bool,
}

impl Handle for hythe_pool {
    const NOUN: &'static str = "pool";

    fn process(&self) -> Option<Process> {
        Some(self.process)
    }
}

struct Wanted {
    options: PoolOptions,
    trusts: bool,
}

/// # Safety
/// As [`sized::read`]; names in it are NULL or text.
unsafe fn read(options: *const hythe_pool_options) -> Result<Wanted, Refusal> {
    // SAFETY: the caller's word.
    let given = unsafe { sized::read(options) }?;
    let given = given.ok_or_else(|| crate::ffi_guard::missing("pool options"))?;
    // SAFETY: the caller's word.
    let mut options = PoolOptions::new(unsafe { name(given.name, "name of the pool") }?);
    // SAFETY: the caller's word.
    if let Some(root) = unsafe { optional_name(given.root, "root of the pool") }? {
        options = options.root(Path::new(root));
    }
    if given.bytes > 0 {
        let refuse = |_| Refusal::argument(format!("a pool cannot have {} bytes", given.bytes));
        options = options.bytes(usize::try_from(given.bytes).map_err(refuse)?);
    }
    for class in given.classes.iter().filter(|class| class.count > 0) {
        let bytes = class.payload_bytes;
        let refuse = |_| Refusal::argument(format!("a slot cannot have {bytes} bytes"));
        options = options.class(usize::try_from(bytes).map_err(refuse)?, class.count);
    }
    if given.small != 0 {
        options = options.small();
    }
    if given.mode > 0 {
        options = options.mode(given.mode);
    }
    // SAFETY: the caller's word.
    if let Some(group) = unsafe { optional_name(given.group, "group of the pool") }? {
        let refuse = || Refusal::argument(format!("there is no group {group}"));
        options = options.group(hythe::group_id(group).ok_or_else(refuse)?);
    }
    // SAFETY: the caller's word.
    if let Some(mount) = unsafe { optional_name(given.huge_pages, "place of huge pages") }? {
        options = options.huge_pages(Path::new(mount));
    }
    options = match given.spin_ns {
        0 => options,
        HYTHE_NO_SPIN => options.spin(Duration::ZERO),
        limit_ns => options.spin(Duration::from_nanos(limit_ns)),
    };
    Ok(Wanted {
        options: options.prefault(given.prefault != 0).lock(given.lock != 0),
        trusts: given.trust_peers != 0,
    })
}

fn opened(pool: Pool, trusts: bool) -> *mut hythe_pool {
    Box::into_raw(Box::new(hythe_pool {
        process: Process::own(),
        pool,
        trusts,
    }))
}

/// Initialises options: `hythe_pool_options_init(&options, sizeof options)`. Any thread.
///
/// # Safety
/// `options` points to `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hythe_pool_options_init(
    options: *mut hythe_pool_options,
    size: usize,
) -> c_int {
    // SAFETY: the caller's word.
    cross(|| unsafe { sized::begin(options, size) }.map(|()| 0))
}

/// Opens a pool, or makes it if there is none. One of another layout version that no process uses
/// is made anew, if it is the caller's and has no semaphores, queues or segments; else
/// HYTHE_ENOTPOOL, and hythe_last_error() names what is in the way. The result is the caller's,
/// until hythe_pool_close(). May take as long as the system needs to reserve the memory. Any
/// thread.
///
/// # Safety
/// `options` are initialised.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hythe_pool_open_or_create(
    options: *const hythe_pool_options,
    pool: Option<&mut MaybeUninit<*mut hythe_pool>>,
) -> c_int {
    cross(|| {
        let pool = empty_place(pool)?;
        // SAFETY: the caller's word.
        let wanted = unsafe { read(options) }?;
        let found = Pool::open_or_create(&wanted.options)?;
        pool.write(opened(found, wanted.trusts));
        Ok(0)
    })
}

/// Opens a pool that is there. HYTHE_ENOPOOL: it is not. Otherwise as hythe_pool_open_or_create().
///
/// # Safety
/// `options` are initialised.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hythe_pool_open(
    options: *const hythe_pool_options,
    pool: Option<&mut MaybeUninit<*mut hythe_pool>>,
) -> c_int {
    cross(|| {
        let pool = empty_place(pool)?;
        // SAFETY: the caller's word.
        let wanted = unsafe { read(options) }?;
        pool.write(opened(Pool::open(&wanted.options)?, wanted.trusts));
        Ok(0)
    })
}

/// Makes a pool. Returns 1, or 0 if there is one of that name, which stays as it is. Any thread.
///
/// # Safety
/// `options` are initialised.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hythe_pool_create(options: *const hythe_pool_options) -> c_int {
    cross(|| {
        // SAFETY: the caller's word.
        let wanted = unsafe { read(options) }?;
        Ok(c_int::from(Pool::create(&wanted.options)?))
    })
}

/// Removes a pool. HYTHE_EINUSE: somebody takes part in it, unless `force` is not 0; those who do
/// keep their memory and meet nobody new. Any thread.
///
/// # Safety
/// `options` are initialised.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hythe_pool_remove(
    options: *const hythe_pool_options,
    force: c_int,
) -> c_int {
    cross(|| {
        // SAFETY: the caller's word.
        let wanted = unsafe { read(options) }?;
        match force {
            0 => Pool::remove(&wanted.options)?,
            _ => Pool::remove_by_force(&wanted.options)?,
        }
        Ok(0)
    })
}

/// Closes a pool, or does nothing for NULL. Nodes that joined over it stay, and what they opened.
/// Consumes `pool`.
#[unsafe(no_mangle)]
pub extern "C" fn hythe_pool_close(pool: Option<Box<hythe_pool>>) {
    end(pool);
}
