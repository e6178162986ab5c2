//! `hythe_task`: this process as a task of a job, which sends messages to others by their numbers.
//! Never does more than the facade's `Task`.

use core::ffi::{c_char, c_int, c_void};
use std::mem::MaybeUninit;
use std::sync::Once;
use std::time::Duration;

use hythe::PoolOptions;
use hythe::tasks::{Task, TaskError, TaskId, TaskOptions, Wanted};

use crate::bytes::readable;
use crate::code;
use crate::ffi_guard::{
    Handle, Process, Refusal, cross, empty_place, end, name, open, open_mut, optional_name, place,
};
use crate::origin::Origin;
use crate::sized::{self, Extensible};
use crate::task_message::{self, hythe_task_message};

/// Instead of a tag: a message with any.
pub const HYTHE_ANY_TAG: i64 = -1;

/// Options of a task. Initialise them with hythe_task_options_init(); what is zero has its default.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct hythe_task_options {
    /// sizeof(struct hythe_task_options).
    pub size: usize,
    /// How many bytes are kept in this process's memory for tasks that do not receive. 0: 1 GiB.
    pub kept_bytes: u64,
    /// How long closing the task waits until others have received what it sent. 0: until they have,
    /// or have ended.
    pub linger_ns: u64,
    /// Not 0: this program trusts every program of the pool, and reads messages in place.
    pub trust_peers: u32,
    /// Zero.
    pub reserved: u32,
    /// How many bytes are kept in this process's memory of messages that have come and were not
    /// received yet, and 256 for each of them. 0: 1 GiB.
    pub passed_by_bytes: u64,
}

// SAFETY: as the trait says; an even number of `u32` stands before a `u64`, which ends it.
unsafe impl Extensible for hythe_task_options {
    const NOUN: &'static str = "task options";
}

/// This process as a task of a job. One thread at a time, any thread.
#[derive(Debug)]
pub struct hythe_task {
    pub(crate) origin: Origin,
    pub(crate) task: Task,
}

impl Handle for hythe_task {
    const NOUN: &'static str = "task";

    fn process(&self) -> Option<Process> {
        Some(self.origin.process)
    }
}

impl From<TaskError> for Refusal {
    fn from(error: TaskError) -> Self {
        let code = match error {
            TaskError::Node(error) => return error.into(),
            TaskError::Program { .. } | TaskError::NoProgram { .. } => code::HYTHE_ENOPROGRAM,
            TaskError::TooManyTasks { .. } | TaskError::TooManyJobs => code::HYTHE_ETABLEFULL,
            TaskError::NoSuchTask { .. } | TaskError::NoSuchPlace { .. } => code::HYTHE_ENOTASK,
            TaskError::NotATask { .. } | TaskError::NoJob => code::HYTHE_ENOJOB,
            TaskError::Ended { .. } => code::HYTHE_EENDED,
            TaskError::KeptTooMuch { .. } | TaskError::InboxFull { .. } => code::HYTHE_EKEPT,
            TaskError::NotInGroup { .. } | TaskError::Group { .. } => code::HYTHE_EGROUP,
            TaskError::Late { .. } => code::HYTHE_ELATE,
            TaskError::Runner { .. } => code::HYTHE_ERUNNER,
            TaskError::File { .. } => code::HYTHE_EFILE,
            _ => code::HYTHE_EOTHER,
        };
        Self::new(code, error.to_string())
    }
}

/// Initialises options: `hythe_task_options_init(&options, sizeof options)`. Any thread.
///
/// # Safety
/// `options` points to `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hythe_task_options_init(
    options: *mut hythe_task_options,
    size: usize,
) -> c_int {
    // SAFETY: the caller's word.
    cross(|| unsafe { sized::begin(options, size) }.map(|()| 0))
}

/// Joins the pool of the job, as the task that hythe run or another task has started. `options` may
/// be NULL. The result is the caller's, until hythe_task_close(). HYTHE_ENOJOB: nobody has started
/// this process as a task. Any thread; does not block.
///
/// # Safety
/// `options` are initialised.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hythe_task_join(
    options: *const hythe_task_options,
    task: Option<&mut MaybeUninit<*mut hythe_task>>,
) -> c_int {
    // SAFETY: the caller's word.
    unsafe { begin(options, task, |options| Ok(Task::join_with(options)?)) }
}

/// Makes this process, which nobody started as a task, one of the job `hythe run --stay` of a pool;
/// NULL: of the default pool. The job neither ends it nor waits for it. `options` may be NULL. The
/// result is the caller's, until hythe_task_close(). HYTHE_ENOJOB: there is none. Any thread; does
/// not block.
///
/// # Safety
/// `pool` is NULL or text, `options` are initialised.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hythe_task_enrol(
    pool: *const c_char,
    options: *const hythe_task_options,
    task: Option<&mut MaybeUninit<*mut hythe_task>>,
) -> c_int {
    let enrol = |options: &TaskOptions| {
        // SAFETY: the caller's word.
        let pool = unsafe { optional_name(pool, "name of the pool") }?;
        let pool = PoolOptions::new(pool.unwrap_or("default"));
        Ok(Task::enrol(&pool, options)?)
    };
    // SAFETY: the caller's word.
    unsafe { begin(options, task, enrol) }
}

/// Leaves the job: this task has ended for all others, and the process goes on. Waits as
/// hythe_task_close() does. Consumes `task`.
#[unsafe(no_mangle)]
pub extern "C" fn hythe_task_leave(task: Option<Box<hythe_task>>) -> c_int {
    if task.as_deref().is_none_or(|task| open(Some(task)).is_err()) {
        let refused = cross(|| open(task.as_deref()).map(|_| 0));
        end(task);
        return refused;
    }
    cross(|| {
        let task = task.ok_or_else(|| crate::ffi_guard::missing("task"))?;
        task.task.leave()?;
        Ok(0)
    })
}

/// Closes a task, or does nothing for NULL. Waits until others have received what it sent, or have
/// ended, for at most `linger_ns` of its options; what comes meanwhile is dropped. A program that
/// exits without it waits as long. Consumes `task`.
#[unsafe(no_mangle)]
pub extern "C" fn hythe_task_close(task: Option<Box<hythe_task>>) {
    end(task);
}

/// The number of this task, by which others reach it; 0: not a task. Does not block.
#[unsafe(no_mangle)]
pub extern "C" fn hythe_task_id(task: Option<&hythe_task>) -> u32 {
    number_of(task, |task| Some(task.id()))
}

/// Its rank among those that were started with it, from 0 on. Does not block.
#[unsafe(no_mangle)]
pub extern "C" fn hythe_task_rank(task: Option<&hythe_task>) -> c_int {
    cross(|| Ok(open(task)?.task.rank().cast_signed()))
}

/// How many were started with it. Does not block.
#[unsafe(no_mangle)]
pub extern "C" fn hythe_task_size(task: Option<&hythe_task>) -> c_int {
    cross(|| Ok(open(task)?.task.size().cast_signed()))
}

/// The number of the task that spawned it; 0: the job began with it. Does not block.
#[unsafe(no_mangle)]
pub extern "C" fn hythe_task_parent(task: Option<&hythe_task>) -> u32 {
    number_of(task, Task::parent)
}

/// The number of the task of this rank that was started with it; 0: there is none. Does not block.
#[unsafe(no_mangle)]
pub extern "C" fn hythe_task_sibling(task: Option<&hythe_task>, rank: u32) -> u32 {
    number_of(task, |task| task.siblings().get(rank as usize).copied())
}

/// Sends a message to a task, also to one that has not joined yet. Does not wait for its receiver:
/// what it has no place for is kept in this process's memory, up to the limit of the options.
/// HYTHE_EENDED, HYTHE_EKEPT.
///
/// # Safety
/// `count` bytes from `bytes` on may be read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hythe_task_send(
    task: Option<&hythe_task>,
    to: u32,
    tag: u32,
    bytes: *const c_void,
    count: usize,
) -> c_int {
    cross(|| {
        let task = &open(task)?.task;
        // SAFETY: the caller's word.
        let bytes = unsafe { readable(bytes, count) }?;
        task.send(id(to)?, tag, bytes)?;
        Ok(0)
    })
}

/// Receives the first message from task `from`, or from any if that is 0, with this tag, or with
/// any if that is HYTHE_ANY_TAG. Returns 1 and the message, which is the caller's until
/// hythe_task_message_release(), or 0 if none came. HYTHE_EENDED: `from` has ended, and has sent no
/// more. HYTHE_EKEPT: it is not among those that came and were not received yet, of which no more
/// are kept. Blocks for at most `timeout_ns`.
#[unsafe(no_mangle)]
pub extern "C" fn hythe_task_receive(
    task: Option<&mut hythe_task>,
    from: u32,
    tag: i64,
    timeout_ns: u64,
    message: Option<&mut MaybeUninit<*mut hythe_task_message>>,
) -> c_int {
    cross(|| {
        let place = empty_place(message)?;
        let task = open_mut(task)?;
        let wanted = wanted(from, tag)?;
        let received = task
            .task
            .receive(wanted, Duration::from_nanos(timeout_ns))?;
        let Some(received) = received else {
            return Ok(0);
        };
        place.write(task_message::give(task.origin, received));
        Ok(1)
    })
}

/// Looks whether there is such a message, as hythe_task_receive() would take it. Returns 1, with
/// its sender, tag and length where these places are not NULL, or 0. HYTHE_EKEPT as there. Does not
/// block.
#[unsafe(no_mangle)]
pub extern "C" fn hythe_task_probe(
    task: Option<&mut hythe_task>,
    from: u32,
    tag: i64,
    source: Option<&mut MaybeUninit<u32>>,
    found_tag: Option<&mut MaybeUninit<u32>>,
    length: Option<&mut MaybeUninit<usize>>,
) -> c_int {
    cross(|| {
        let found = open_mut(task)?.task.probe(wanted(from, tag)?)?;
        let (sender, its_tag, bytes) = match found {
            Some((sender, tag, bytes)) => (sender.number(), tag, bytes),
            None => (0, 0, 0),
        };
        source.map(|place| place.write(sender));
        found_tag.map(|place| place.write(its_tag));
        length.map(|place| place.write(bytes));
        Ok(c_int::from(found.is_some()))
    })
}

/// Has a task ended? Returns 1 or 0; 1 also for one that never was. Does not block.
#[unsafe(no_mangle)]
pub extern "C" fn hythe_task_has_ended(task: Option<&hythe_task>, which: u32) -> c_int {
    cross(|| Ok(c_int::from(open(task)?.task.has_ended(id(which)?)?)))
}

/// From now on hythe_task_take_end() tells the end of a task, also if it has ended already. Does
/// not block.
#[unsafe(no_mangle)]
pub extern "C" fn hythe_task_notify_end(task: Option<&mut hythe_task>, which: u32) -> c_int {
    cross(|| {
        open_mut(task)?.task.notify_end(id(which)?)?;
        Ok(0)
    })
}

/// Takes the end of a task that was asked for, each once. Returns 1 and its number in `*which`, or
/// 0 if none has ended. Blocks for at most `timeout_ns`.
#[unsafe(no_mangle)]
pub extern "C" fn hythe_task_take_end(
    task: Option<&mut hythe_task>,
    timeout_ns: u64,
    which: Option<&mut MaybeUninit<u32>>,
) -> c_int {
    cross(|| {
        let place = place(which, "place for the task")?;
        place.write(0);
        let task = &mut open_mut(task)?.task;
        let ended = task.take_end(Duration::from_nanos(timeout_ns))?;
        place.write(ended.map_or(0, TaskId::number));
        Ok(c_int::from(ended.is_some()))
    })
}

/// Sends a signal to a task of the pool, and to all processes of its group. HYTHE_ENOTASK. Does not
/// block.
#[unsafe(no_mangle)]
pub extern "C" fn hythe_task_kill(task: Option<&hythe_task>, which: u32, signal: c_int) -> c_int {
    cross(|| {
        hythe::tasks::kill(open(task)?.task.pool(), id(which)?, signal)?;
        Ok(0)
    })
}

/// Waits until nothing is kept for others any more. Returns 1, or 0 if `timeout_ns` has passed.
/// Blocks for at most that.
#[unsafe(no_mangle)]
pub extern "C" fn hythe_task_flush(task: Option<&hythe_task>, timeout_ns: u64) -> c_int {
    cross(|| {
        let task = &open(task)?.task;
        Ok(c_int::from(task.flush(Duration::from_nanos(timeout_ns))))
    })
}

/// Changes how many bytes are kept for others at most. What is kept already is sent all the same.
/// Does not block.
#[unsafe(no_mangle)]
pub extern "C" fn hythe_task_set_kept_bytes_max(
    task: Option<&hythe_task>,
    kept_bytes: u64,
) -> c_int {
    cross(|| {
        let most = usize::try_from(kept_bytes).unwrap_or(usize::MAX);
        open(task)?.task.set_kept_bytes_max(most);
        Ok(0)
    })
}

/// Changes how many bytes are kept of messages that have come and were not received yet. What is
/// kept already stays. Does not block.
#[unsafe(no_mangle)]
pub extern "C" fn hythe_task_set_passed_by_bytes_max(
    task: Option<&hythe_task>,
    passed_by_bytes: u64,
) -> c_int {
    cross(|| {
        let most = usize::try_from(passed_by_bytes).unwrap_or(usize::MAX);
        open(task)?.task.set_passed_by_bytes_max(most);
        Ok(0)
    })
}

/// Waits until `count` members of a group of the job have come to this call; all of them ask for
/// the same number. HYTHE_EENDED: fewer than that are left, and hythe_last_error() names the one
/// that has ended; HYTHE_ELATE; HYTHE_EGROUP: this task is no member. Blocks for at most
/// `timeout_ns`.
///
/// # Safety
/// `group` is text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hythe_task_barrier(
    task: Option<&mut hythe_task>,
    group: *const c_char,
    count: u32,
    timeout_ns: u64,
) -> c_int {
    cross(|| {
        let task = &mut open_mut(task)?.task;
        // SAFETY: the caller's word.
        let group = unsafe { name(group, "name of the group") }?;
        task.barrier(group, count, Duration::from_nanos(timeout_ns))?;
        Ok(0)
    })
}

/// What C names by a number.
pub(crate) fn id(number: u32) -> Result<TaskId, Refusal> {
    let none = || Refusal::argument(format!("{number:#x} is the number of no task"));
    TaskId::from_number(number).ok_or_else(none)
}

fn wanted(from: u32, tag: i64) -> Result<Wanted, Refusal> {
    let mut wanted = Wanted::any();
    if from != 0 {
        wanted = wanted.from(id(from)?);
    }
    match u32::try_from(tag) {
        Ok(tag) => Ok(wanted.tag(tag)),
        Err(_) if tag == HYTHE_ANY_TAG => Ok(wanted),
        Err(_) => Err(Refusal::argument(format!(
            "{tag} is no tag: they have 32 bits, and HYTHE_ANY_TAG is any"
        ))),
    }
}

fn number_of(task: Option<&hythe_task>, which: impl FnOnce(&Task) -> Option<TaskId>) -> u32 {
    number(|| Ok(which(&open(task)?.task)))
}

/// What C gets of a task that there may be; 0: there is none, or an error.
pub(crate) fn number(which: impl FnOnce() -> Result<Option<TaskId>, Refusal>) -> u32 {
    let mut number = 0;
    cross(|| {
        number = which()?.map_or(0, TaskId::number);
        Ok(0)
    });
    number
}

/// Gives the caller the task that `start` makes of its options.
///
/// # Safety
/// As [`read`].
unsafe fn begin(
    options: *const hythe_task_options,
    task: Option<&mut MaybeUninit<*mut hythe_task>>,
    start: impl FnOnce(&TaskOptions) -> Result<Task, Refusal>,
) -> c_int {
    cross(|| {
        let place = empty_place(task)?;
        // SAFETY: the caller's word.
        let (options, trusts) = unsafe { read(options) }?;
        let task = start(&options)?;
        linger_at_exit();
        let origin = Origin::new(trusts);
        place.write(Box::into_raw(Box::new(hythe_task { origin, task })));
        Ok(0)
    })
}

/// A program that exits without hythe_task_close() still delivers what it has sent.
fn linger_at_exit() {
    static REGISTERED: Once = Once::new();
    REGISTERED.call_once(|| {
        // SAFETY: the function has the signature that is asked for, and stays.
        let refused = unsafe { libc::atexit(linger) };
        // No memory for the entry: what is not taken then is lost.
        let _ = refused;
    });
}

extern "C" fn linger() {
    cross(|| {
        hythe::tasks::linger_at_exit();
        Ok(0)
    });
}

/// The caller's options, and whether it trusts its peers; NULL is all defaults.
///
/// # Safety
/// As [`sized::read`].
unsafe fn read(options: *const hythe_task_options) -> Result<(TaskOptions, bool), Refusal> {
    let wanted = TaskOptions::default();
    // SAFETY: the caller's word.
    let Some(given) = unsafe { sized::read(options) }? else {
        return Ok((wanted, false));
    };
    let wanted = match given.kept_bytes {
        0 => wanted,
        bytes => wanted.kept_bytes(usize::try_from(bytes).unwrap_or(usize::MAX)),
    };
    let wanted = match given.passed_by_bytes {
        0 => wanted,
        bytes => wanted.passed_by_bytes(usize::try_from(bytes).unwrap_or(usize::MAX)),
    };
    let wanted = match given.linger_ns {
        0 => wanted,
        linger_ns => wanted.linger(Duration::from_nanos(linger_ns)),
    };
    Ok((wanted, given.trust_peers != 0))
}
