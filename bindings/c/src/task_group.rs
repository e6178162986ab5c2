//! `hythe_task_group`: what all members of a group of tasks do together. Never does more than the
//! facade's `Group`.

use core::ffi::{c_char, c_int, c_void};
use std::mem::MaybeUninit;
use std::time::Duration;

use hythe::tasks::{Group, ReducedValue, Task};

use crate::bytes::{readable, writable};
use crate::code;
use crate::ffi_guard::{
    Handle, Process, Refusal, count, cross, empty_place, end, name, open, open_mut,
};
use crate::origin::Origin;
use crate::task::{hythe_task, id, number};

/// Values of hythe_task_group_reduce(): int32_t.
pub const HYTHE_INT32: u32 = 1;
/// int64_t.
pub const HYTHE_INT64: u32 = 2;
/// uint32_t.
pub const HYTHE_UINT32: u32 = 3;
/// uint64_t.
pub const HYTHE_UINT64: u32 = 4;
/// float.
pub const HYTHE_FLOAT: u32 = 5;
/// double.
pub const HYTHE_DOUBLE: u32 = 6;

/// What hythe_task_group_reduce() makes of two values: their sum; integers wrap.
pub const HYTHE_SUM: u32 = 1;
/// Their product; integers wrap.
pub const HYTHE_PRODUCT: u32 = 2;
/// The lesser.
pub const HYTHE_MIN: u32 = 3;
/// The greater.
pub const HYTHE_MAX: u32 = 4;

/// A group of tasks, with the members that it had when it was opened. All of them take the same
/// steps in the same order. One thread at a time, any thread.
#[derive(Debug)]
pub struct hythe_task_group {
    origin: Origin,
    group: Group,
}

impl Handle for hythe_task_group {
    const NOUN: &'static str = "group of tasks";

    fn process(&self) -> Option<Process> {
        Some(self.origin.process)
    }
}

/// All tasks that were started with this one, by rank. The result is the caller's, until
/// hythe_task_group_close(). Does not block.
#[unsafe(no_mangle)]
pub extern "C" fn hythe_task_group_of_siblings(
    task: Option<&hythe_task>,
    group: Option<&mut MaybeUninit<*mut hythe_task_group>>,
) -> c_int {
    make(task, group, |task| Ok(task.task.sibling_group()))
}

/// Takes part in a group of the job, which is made if there is none: with the least number that is
/// free in it. The result is the caller's, until hythe_task_group_close(), which does not leave the
/// group. Does not block.
///
/// # Safety
/// `name` is text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hythe_task_group_join(
    task: Option<&hythe_task>,
    name: *const c_char,
    group: Option<&mut MaybeUninit<*mut hythe_task_group>>,
) -> c_int {
    make(task, group, |task| {
        // SAFETY: the caller's word.
        let name = unsafe { self::name(name, "name of the group") }?;
        Ok(task.task.join_group(name)?)
    })
}

/// A group of the job, as it is now. The result is the caller's, until hythe_task_group_close().
/// Does not block.
///
/// # Safety
/// `name` is text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hythe_task_group_open(
    task: Option<&hythe_task>,
    name: *const c_char,
    group: Option<&mut MaybeUninit<*mut hythe_task_group>>,
) -> c_int {
    make(task, group, |task| {
        // SAFETY: the caller's word.
        let name = unsafe { self::name(name, "name of the group") }?;
        Ok(task.task.group(name)?)
    })
}

/// Leaves a group. HYTHE_EGROUP: this task is no member. Does not block.
///
/// # Safety
/// `name` is text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hythe_task_group_leave(
    task: Option<&hythe_task>,
    name: *const c_char,
) -> c_int {
    cross(|| {
        // SAFETY: the caller's word.
        let name = unsafe { self::name(name, "name of the group") }?;
        open(task)?.task.leave_group(name)?;
        Ok(0)
    })
}

/// Closes a group, or does nothing for NULL; the task stays a member. Consumes `group`.
#[unsafe(no_mangle)]
pub extern "C" fn hythe_task_group_close(group: Option<Box<hythe_task_group>>) {
    end(group);
}

/// How many members it has. Does not block.
#[unsafe(no_mangle)]
pub extern "C" fn hythe_task_group_size(group: Option<&hythe_task_group>) -> c_int {
    cross(|| Ok(count(open(group)?.group.size())))
}

/// The number of a task in the group, from 0 on. HYTHE_EGROUP: it is no member. Does not block.
#[unsafe(no_mangle)]
pub extern "C" fn hythe_task_group_instance(group: Option<&hythe_task_group>, task: u32) -> c_int {
    cross(|| {
        let group = &open(group)?.group;
        let instance = group.instance(id(task)?);
        let instance = instance.ok_or_else(|| {
            let text = format!("this task is not in group `{}`", group.name());
            Refusal::new(code::HYTHE_EGROUP, text)
        })?;
        Ok(instance.cast_signed())
    })
}

/// The task with this number in the group; 0: there is none. Does not block.
#[unsafe(no_mangle)]
pub extern "C" fn hythe_task_group_task(group: Option<&hythe_task_group>, instance: u32) -> u32 {
    number(|| Ok(open(group)?.group.task(instance)))
}

/// Waits until all members have come to this call. HYTHE_EENDED: one has ended, which
/// hythe_last_error() names; HYTHE_ELATE. Blocks for at most `timeout_ns`.
#[unsafe(no_mangle)]
pub extern "C" fn hythe_task_group_barrier(
    group: Option<&hythe_task_group>,
    task: Option<&mut hythe_task>,
    timeout_ns: u64,
) -> c_int {
    step(group, task, timeout_ns, |group, task, timeout| {
        group.barrier(task, timeout)?;
        Ok(0)
    })
}

/// Gives all members the `count` bytes that member `root` has; at the others they are overwritten.
/// HYTHE_ERESULT: the root gave another number of bytes. As hythe_task_group_barrier() at members
/// that wait for the root. Blocks for at most `timeout_ns`.
///
/// # Safety
/// `count` bytes from `bytes` on may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hythe_task_group_broadcast(
    group: Option<&hythe_task_group>,
    task: Option<&mut hythe_task>,
    root: u32,
    bytes: *mut c_void,
    count: usize,
    timeout_ns: u64,
) -> c_int {
    step(group, task, timeout_ns, |group, task, timeout| {
        // SAFETY: the caller's word.
        let bytes = unsafe { writable(bytes, count) }?;
        let given = group.broadcast(task, root, bytes, timeout)?;
        copy(&given, bytes)
    })
}

/// Gives each member `count` bytes of those that member `root` has from `from` on, in the order of
/// their numbers; at the others `from` does not count. As hythe_task_group_broadcast().
///
/// # Safety
/// `count` bytes from `into` on may be written; at the root as many for each member may be read
/// from `from` on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hythe_task_group_scatter(
    group: Option<&hythe_task_group>,
    task: Option<&mut hythe_task>,
    root: u32,
    from: *const c_void,
    into: *mut c_void,
    count: usize,
    timeout_ns: u64,
) -> c_int {
    step(group, task, timeout_ns, |group, task, timeout| {
        let is_root = group.task(root) == Some(task.id());
        let all = if is_root { total(group, count)? } else { 0 };
        // SAFETY: the caller's word.
        let from = unsafe { readable(from, all) }?;
        let parts: Vec<&[u8]> = match count {
            0 => vec![&[]; group.size()],
            _ => from.chunks_exact(count).collect(),
        };
        let given = group.scatter(task, root, &parts, timeout)?;
        // SAFETY: the caller's word. It is borrowed when `from` is not used any more.
        let into = unsafe { writable(into, count) }?;
        copy(&given, into)
    })
}

/// Gives member `root` the `count` bytes of each, one behind the other from `into` on, in the order
/// of their numbers; at the others `into` does not count, and they do not wait. At the root as
/// hythe_task_group_barrier(), and HYTHE_ERESULT: a member gave another number of bytes.
///
/// # Safety
/// `count` bytes from `from` on may be read; at the root as many for each member may be written
/// from `into` on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hythe_task_group_gather(
    group: Option<&hythe_task_group>,
    task: Option<&mut hythe_task>,
    root: u32,
    from: *const c_void,
    into: *mut c_void,
    count: usize,
    timeout_ns: u64,
) -> c_int {
    step(group, task, timeout_ns, |group, task, timeout| {
        // SAFETY: the caller's word.
        let from = unsafe { readable(from, count) }?;
        let gathered = group.gather(task, root, from, timeout)?;
        let all = if gathered.is_empty() {
            0
        } else {
            total(group, count)?
        };
        // SAFETY: the caller's word. It is borrowed when `from` is not used any more.
        let into = unsafe { writable(into, all) }?;
        if count > 0 {
            let places = into.chunks_exact_mut(count);
            for (given, place) in gathered.iter().zip(places) {
                copy(given, place)?;
            }
        }
        Ok(0)
    })
}

/// Gives member `root` what `reduction` makes of the values of all, in the order of their
/// numbers, from `into` on; at the others `into` does not count, and they do not wait. As
/// hythe_task_group_gather().
///
/// # Safety
/// As many values from `from` on may be read, and at the root as many from `into` on written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hythe_task_group_reduce(
    group: Option<&hythe_task_group>,
    task: Option<&mut hythe_task>,
    root: u32,
    reduction: hythe_task_reduction,
    from: *const c_void,
    into: *mut c_void,
    timeout_ns: u64,
) -> c_int {
    step(group, task, timeout_ns, |group, task, timeout| {
        let bytes = bytes_of(&reduction)?;
        // SAFETY: the caller's word.
        let from = unsafe { readable(from, bytes) }?;
        let step = Reduction {
            group,
            task,
            root,
            timeout,
        };
        let reduced = step.reduce(&reduction, from)?;
        let is_root = !reduced.is_empty();
        // SAFETY: the caller's word. It is borrowed when `from` is not used any more.
        let into = unsafe { writable(into, if is_root { bytes } else { 0 }) }?;
        copy(&reduced, into)
    })
}

/// What hythe_task_group_reduce() reduces.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct hythe_task_reduction {
    /// HYTHE_INT32 to HYTHE_DOUBLE.
    pub value_type: u32,
    /// HYTHE_SUM to HYTHE_MAX.
    pub operation: u32,
    /// How many values each member has.
    pub count: usize,
}

struct Reduction<'a> {
    group: &'a Group,
    task: &'a mut Task,
    root: u32,
    timeout: Duration,
}

macro_rules! combined {
    ($value:ty, $operation:expr, $sum:expr, $product:expr) => {
        match $operation {
            HYTHE_SUM => $sum as fn($value, $value) -> $value,
            HYTHE_PRODUCT => $product,
            HYTHE_MIN => <$value>::min,
            HYTHE_MAX => <$value>::max,
            other => {
                return Err(Refusal::argument(format!(
                    "{other} is no operation: HYTHE_SUM to HYTHE_MAX are"
                )));
            }
        }
    };
    (integer $value:ty, $operation:expr) => {
        combined!(
            $value,
            $operation,
            <$value>::wrapping_add,
            <$value>::wrapping_mul
        )
    };
    (real $value:ty, $operation:expr) => {
        combined!($value, $operation, |a, b| a + b, |a, b| a * b)
    };
}

impl Reduction<'_> {
    fn reduce(self, wanted: &hythe_task_reduction, from: &[u8]) -> Result<Vec<u8>, Refusal> {
        let operation = wanted.operation;
        match wanted.value_type {
            HYTHE_INT32 => self.of(from, combined!(integer i32, operation)),
            HYTHE_INT64 => self.of(from, combined!(integer i64, operation)),
            HYTHE_UINT32 => self.of(from, combined!(integer u32, operation)),
            HYTHE_UINT64 => self.of(from, combined!(integer u64, operation)),
            HYTHE_FLOAT => self.of(from, combined!(real f32, operation)),
            _ => self.of(from, combined!(real f64, operation)),
        }
    }

    fn of<T: Copy + ReducedValue>(
        self,
        from: &[u8],
        combine: fn(T, T) -> T,
    ) -> Result<Vec<u8>, Refusal> {
        // Of this machine, which is little endian as all that Hythe runs on.
        let values = T::from_all(from);
        let Self {
            group,
            task,
            root,
            timeout,
        } = self;
        let reduced = group.reduce(task, root, &values, combine, timeout)?;
        Ok(reduced.into_iter().flat_map(T::to_bytes).collect())
    }
}

fn bytes_of(wanted: &hythe_task_reduction) -> Result<usize, Refusal> {
    let each = match wanted.value_type {
        HYTHE_INT32 | HYTHE_UINT32 | HYTHE_FLOAT => 4,
        HYTHE_INT64 | HYTHE_UINT64 | HYTHE_DOUBLE => 8,
        other => {
            return Err(Refusal::argument(format!(
                "{other} is no type of values: HYTHE_INT32 to HYTHE_DOUBLE are"
            )));
        }
    };
    let bytes = wanted.count.checked_mul(each);
    bytes.ok_or_else(|| Refusal::argument(format!("{} values are too many", wanted.count)))
}

/// What all members do together.
fn step(
    group: Option<&hythe_task_group>,
    task: Option<&mut hythe_task>,
    timeout_ns: u64,
    body: impl FnOnce(&Group, &mut Task, Duration) -> Result<c_int, Refusal>,
) -> c_int {
    cross(|| {
        let (group, task) = (&open(group)?.group, open_mut(task)?);
        body(group, &mut task.task, Duration::from_nanos(timeout_ns))
    })
}

fn total(group: &Group, count: usize) -> Result<usize, Refusal> {
    let all = count.checked_mul(group.size());
    all.ok_or_else(|| Refusal::argument(format!("{count} bytes for each member are too many")))
}

fn copy(given: &[u8], into: &mut [u8]) -> Result<c_int, Refusal> {
    if given.len() != into.len() {
        let text = format!("{} bytes came, and {} are taken", given.len(), into.len());
        return Err(Refusal::new(code::HYTHE_ERESULT, text));
    }
    into.copy_from_slice(given);
    Ok(0)
}

fn make(
    task: Option<&hythe_task>,
    place: Option<&mut MaybeUninit<*mut hythe_task_group>>,
    group: impl FnOnce(&hythe_task) -> Result<Group, Refusal>,
) -> c_int {
    cross(|| {
        let place = empty_place(place)?;
        let task = open(task)?;
        let made = hythe_task_group {
            origin: task.origin,
            group: group(task)?,
        };
        place.write(Box::into_raw(Box::new(made)));
        Ok(0)
    })
}
