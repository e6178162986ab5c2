//! System V shared memory: segments that the kernel keeps, by key and id.
//!
//! The calls do not go through the C library's functions: a library may take the place of those in
//! a program, and itself stands on this module.

#![allow(
    unsafe_code,
    reason = "this is the island: system calls that rustix does not have"
)]

use core::ffi::{c_int, c_void};
use std::io;
use std::mem::MaybeUninit;
use std::os::unix::fs::MetadataExt as _;
use std::ptr::NonNull;

/// No space is reserved for its pages.
pub const NO_RESERVE: i32 = libc::SHM_NORESERVE;
/// The key of a segment that only its id names.
pub const PRIVATE: i32 = libc::IPC_PRIVATE;
/// Make it if there is none.
pub const CREATE: i32 = libc::IPC_CREAT;
/// Refuse one that there is.
pub const EXCLUSIVE: i32 = libc::IPC_EXCL;
/// On huge pages; bits 26 to 31 say of which size.
pub const HUGE_PAGES: i32 = libc::SHM_HUGETLB;
/// For [`Attachment::new`]: reading only.
pub const READ_ONLY: i32 = libc::SHM_RDONLY;

/// Of shmat(2): an address is rounded down to a page's.
pub const ROUND_DOWN: i32 = libc::SHM_RND;
/// Of shmat(2): what is mapped at the address is replaced.
pub const REPLACE: i32 = libc::SHM_REMAP;
/// Of shmat(2): what stands there may be executed.
pub const EXECUTE: i32 = libc::SHM_EXEC;

/// `SHM_DEST` of linux/shm.h, in a segment's mode: it goes with its last attachment.
const DESTROYED: u32 = 0o1000;
/// Commands of linux/shm.h that look by place in the kernel's table.
const STAT_BY_INDEX: c_int = 13;
const TABLE: c_int = 14;

/// What the kernel says of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// Its key; 0 for a private one, and for one that was removed.
    pub key: i32,
    /// Its size.
    pub bytes: usize,
    /// Permissions: nine bits.
    pub mode: u32,
    /// Its owner.
    pub user: u32,
    /// Its owner's group.
    pub group: u32,
    /// Its maker.
    pub creator_user: u32,
    /// Its maker's group.
    pub creator_group: u32,
    /// How many times it is attached.
    pub attached: u64,
    /// The process that made it.
    pub creator: i32,
    /// The process that attached or detached it last.
    pub last_process: i32,
    /// When it was changed or made last, in seconds since 1970; also the next two, 0: never.
    pub changed: i64,
    /// When it was attached last.
    pub attach_time: i64,
    /// When it was detached last.
    pub detach_time: i64,
    /// It was removed, and goes with its last attachment.
    pub is_removed: bool,
}

/// Makes a segment or finds one; its id.
///
/// # Errors
/// What `shmget` says.
pub fn open(key: i32, bytes: usize, flags: i32) -> io::Result<i32> {
    number(calls::get(key, bytes, flags))
}

/// What the kernel says of a new segment on huge pages, for who has none to give: its refusal, else
/// that there is no memory of that kind.
#[must_use]
pub fn refusal_of_huge_pages(bytes: usize, flags: i32) -> io::Error {
    match open(PRIVATE, bytes, flags | CREATE) {
        Ok(id) => {
            // Made to be asked for, and of this process alone.
            let _ = remove(id);
            io::Error::from_raw_os_error(libc::ENOMEM)
        }
        Err(refused) => refused,
    }
}

/// What the kernel says of a segment.
///
/// # Errors
/// What `shmctl` says: `EINVAL` and `EIDRM`: there is none; `EACCES`: it may not be read.
pub fn status(id: i32) -> io::Result<Status> {
    Ok(Status::of(&record(id, libc::IPC_STAT)?.1))
}

/// Changes owner, group and permissions.
///
/// # Errors
/// What `shmctl` says.
pub fn change(id: i32, user: u32, group: u32, mode: u32) -> io::Result<()> {
    // Nothing else is read, and who may not read the segment may own it all the same.
    // SAFETY: a record of integers only.
    let mut record = unsafe { MaybeUninit::<libc::shmid_ds>::zeroed().assume_init() };
    record.shm_perm.uid = user;
    record.shm_perm.gid = group;
    record.shm_perm.mode = mode as _;
    // SAFETY: the record is a whole one, and only read.
    number(unsafe { calls::control(id, libc::IPC_SET, &raw mut record) }).map(drop)
}

/// Removes a segment: at once, or with its last attachment.
///
/// # Errors
/// What `shmctl` says.
pub fn remove(id: i32) -> io::Result<()> {
    // SAFETY: this command takes no record.
    number(unsafe { calls::control(id, libc::IPC_RMID, core::ptr::null_mut()) }).map(drop)
}

/// All segments that this process may read, with their ids.
#[must_use]
pub fn list() -> Vec<(i32, Status)> {
    // SHM_INFO fills a record that is smaller, and says how long the table is.
    let last = record(0, TABLE).map_or(-1, |(last, _)| last);
    let found = (0..=last).filter_map(|index| record(index, STAT_BY_INDEX).ok());
    found
        .map(|(id, record)| (id, Status::of(&record)))
        .collect()
}

/// Has none of its pages ever been touched? One that cannot be looked at counts as touched.
#[must_use]
pub fn is_untouched(id: i32) -> bool {
    // The only place where the kernel tells it. Columns: key, id, …, bytes in memory, bytes swapped
    // out.
    let all = std::fs::read_to_string("/proc/sysvipc/shm").unwrap_or_default();
    let mut rows = all.lines().map(|row| row.split_ascii_whitespace());
    rows.any(|mut row| {
        let is_its = row.nth(1).is_some_and(|found| found.parse() == Ok(id));
        is_its && row.next_back() == Some("0") && row.next_back() == Some("0")
    })
}

/// The IPC namespace, in which ids and keys mean something: its inode, or 1 where the kernel has
/// none or does not tell.
#[must_use]
pub fn namespace() -> u64 {
    std::fs::metadata("/proc/self/ns/ipc").map_or(1, |found| found.ino())
}

/// A segment attached to this process. A forked child has it, too, and the kernel counts it.
#[derive(Debug)]
pub struct Attachment {
    at: NonNull<c_void>,
}

// SAFETY: an address range of the process, which any thread may give up.
unsafe impl Send for Attachment {}
// SAFETY: nothing in it changes, and it gives no access to the range.
unsafe impl Sync for Attachment {}

impl Attachment {
    /// Attaches a segment where there is space for it. Its bytes are not touched.
    ///
    /// # Errors
    /// What `shmat` says.
    pub fn new(id: i32, flags: i32) -> io::Result<Self> {
        // SAFETY: without an address it replaces no mapping, whatever else the flags say.
        let at = unsafe { calls::attach(id, core::ptr::null(), flags & READ_ONLY) };
        if at as usize == usize::MAX {
            return Err(io::Error::last_os_error());
        }
        let at = NonNull::new(at).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { at })
    }
}

impl Drop for Attachment {
    fn drop(&mut self) {
        // SAFETY: the address of an attachment that this value alone owns.
        let detached = unsafe { calls::detach(self.at.as_ptr()) };
        // Refused by a seccomp filter: it stays until the process ends.
        let _ = detached;
    }
}

/// The C libraries name it differently.
#[allow(
    deprecated,
    reason = "the name that is there will be mended in the crate"
)]
const fn key_of(rights: &libc::ipc_perm) -> i32 {
    #[cfg(target_env = "musl")]
    return rights.__ipc_perm_key;
    #[cfg(not(target_env = "musl"))]
    return rights.__key;
}

impl Status {
    #[allow(clippy::useless_conversion, reason = "some have 32 bits elsewhere")]
    fn of(record: &libc::shmid_ds) -> Self {
        let mode = u32::from(record.shm_perm.mode);
        Self {
            key: key_of(&record.shm_perm),
            bytes: record.shm_segsz,
            mode: mode & 0o777,
            user: record.shm_perm.uid,
            group: record.shm_perm.gid,
            creator_user: record.shm_perm.cuid,
            creator_group: record.shm_perm.cgid,
            attached: u64::from(record.shm_nattch),
            creator: record.shm_cpid,
            last_process: record.shm_lpid,
            changed: i64::from(record.shm_ctime),
            attach_time: i64::from(record.shm_atime),
            detach_time: i64::from(record.shm_dtime),
            is_removed: mode & DESTROYED != 0,
        }
    }
}

fn record(id: i32, command: c_int) -> io::Result<(i32, libc::shmid_ds)> {
    let mut record = MaybeUninit::<libc::shmid_ds>::zeroed();
    // SAFETY: the record has the size that the kernel fills, or more.
    let answer = number(unsafe { calls::control(id, command, record.as_mut_ptr()) })?;
    // SAFETY: zeroed, and of integers only.
    Ok((answer, unsafe { record.assume_init() }))
}

fn number(answer: c_int) -> io::Result<i32> {
    if answer == -1 {
        return Err(io::Error::last_os_error());
    }
    Ok(answer)
}

/// The calls as they are, with `errno`: for who takes the place of the C library's functions.
pub mod calls {
    use super::{c_int, c_void};
    use numbers::{IPC_64, SYS_shmat, SYS_shmctl, SYS_shmdt, SYS_shmget};

    /// Each has a number of its own. The version of the record is said where older ones are known.
    #[cfg(not(target_arch = "x86"))]
    mod numbers {
        pub(super) use libc::{SYS_shmat, SYS_shmctl, SYS_shmdt, SYS_shmget};
        pub(super) const IPC_64: libc::c_int = if cfg!(target_arch = "arm") { 0x100 } else { 0 };
    }

    /// Since Linux 5.1, which the crate does not know; only this version of the record.
    #[cfg(target_arch = "x86")]
    #[allow(non_upper_case_globals, reason = "as the others are named")]
    mod numbers {
        pub(super) const SYS_shmget: libc::c_long = 395;
        pub(super) const SYS_shmctl: libc::c_long = 396;
        pub(super) const SYS_shmat: libc::c_long = 397;
        pub(super) const SYS_shmdt: libc::c_long = 398;
        pub(super) const IPC_64: libc::c_int = 0;
    }

    // Ids and indexes have 31 bits.

    /// shmget(2).
    #[must_use]
    pub fn get(key: c_int, bytes: usize, flags: c_int) -> c_int {
        // SAFETY: it takes numbers only.
        unsafe { libc::syscall(SYS_shmget, key, bytes, flags) as c_int }
    }

    /// shmctl(2).
    ///
    /// # Safety
    /// `record` is what the command wants.
    pub unsafe fn control(id: c_int, command: c_int, record: *mut libc::shmid_ds) -> c_int {
        // SAFETY: the caller gives the record that the command wants.
        unsafe { libc::syscall(SYS_shmctl, id, command | IPC_64, record) as c_int }
    }

    /// shmat(2).
    ///
    /// # Safety
    /// Nobody uses a mapping that the address and the flags replace.
    pub unsafe fn attach(id: c_int, at: *const c_void, flags: c_int) -> *mut c_void {
        // SAFETY: the caller answers for what is replaced.
        unsafe { libc::syscall(SYS_shmat, id, at, flags) as *mut c_void }
    }

    /// shmdt(2).
    ///
    /// # Safety
    /// Nobody uses what is attached there any more.
    pub unsafe fn detach(at: *const c_void) -> c_int {
        // SAFETY: the caller answers for what is attached there.
        unsafe { libc::syscall(SYS_shmdt, at) as c_int }
    }
}
