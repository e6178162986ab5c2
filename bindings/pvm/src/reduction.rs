//! What all members of a group do with data: `pvm_reduce`, `pvm_gather`, `pvm_scatter`.

use std::ffi::{c_char, c_int, c_void};
use std::time::Duration;

use hythe_pvm::buffer::{Buffer, Kind};
use hythe_pvm::code::Code;
use hythe_pvm::session::{Operation, reduce};
use hythe_pvm::tid::Tid;

use crate::groups::group;
use crate::guard::{Held, call_back, guarded, put};
use crate::sending::{TEXT, bytes_of, memory};
use crate::waiting::{Waiting, wait_on};

/// A function that combines the second array into the first.
type Combine = extern "C-unwind" fn(*mut c_int, *mut c_void, *mut c_void, *mut c_int, *mut c_int);

/// How often a wait looks whether who is waited for has ended.
const LOOK: Duration = Duration::from_millis(100);

/// Which step this is, and this task's part in it.
struct Step {
    members: Vec<(c_int, Tid)>,
    root: Tid,
    own: Tid,
    tag: c_int,
    kind: Kind,
    count: usize,
    bytes: usize,
}

impl Step {
    /// # Safety
    /// `name` is NULL or points to text that ends with a zero.
    unsafe fn begin(
        name: *const c_char,
        root: c_int,
        tag: c_int,
        count: c_int,
        data_type: c_int,
    ) -> Result<Self, Code> {
        // SAFETY: passed on.
        let name = unsafe { group(name) }?;
        let kind = match data_type {
            TEXT => Kind::Byte,
            _ => Kind::from_data_type(data_type).ok_or(Code::BAD_PARAMETER)?,
        };
        if count <= 0 || tag < 0 || kind.bytes() == 0 {
            return Err(Code::BAD_PARAMETER);
        }
        let bytes = bytes_of(count, data_type)?;
        let mut held = Held::take()?;
        let session = held.session()?;
        let (members, root) = session.meeting(&name, root)?;
        Ok(Self {
            members,
            root,
            own: session.task(),
            tag,
            kind,
            // As many as bytes at most.
            count: bytes / kind.bytes(),
            bytes,
        })
    }

    fn send(&self, to: Tid, bytes: &[u8]) -> Result<(), Code> {
        Held::take()?.session()?.send_step(to, self.tag, bytes)
    }

    /// What a member has sent for this step, as it would lie in this task's memory: as many items
    /// as its own part. A member that has ended sends nothing any more.
    fn receive(&self, from: Tid) -> Result<Buffer, Code> {
        let mut waiting = Waiting::default();
        loop {
            let mut message = match self.look(&mut waiting, from, LOOK)? {
                Some(message) => message,
                None if waiting.take()?.session()?.has_ended(from.number())? => {
                    // What it sent before its end is there by now.
                    let last = self.look(&mut waiting, from, Duration::ZERO)?;
                    last.ok_or(Code::NO_TASK)?
                }
                None => continue,
            };
            message.make_native(self.kind, self.count)?;
            return Ok(message);
        }
    }

    fn look(
        &self,
        waiting: &mut Waiting,
        from: Tid,
        timeout: Duration,
    ) -> Result<Option<Buffer>, Code> {
        wait_on(waiting, Some(timeout), |session| {
            session.take_step(from, self.tag)
        })
    }
}

#[unsafe(no_mangle)]
extern "C" fn pvm_reduce(
    combine: Option<Combine>,
    data: *mut c_void,
    count: c_int,
    data_type: c_int,
    tag: c_int,
    name: *const c_char,
    root: c_int,
) -> c_int {
    guarded("pvm_reduce", || {
        // SAFETY: the caller passes NULL or text that ends with a zero.
        let step = unsafe { Step::begin(name, root, tag, count, data_type) }?;
        let combine = combine.ok_or(Code::BAD_PARAMETER)?;
        // SAFETY: the caller says that so many items lie there.
        let own = unsafe { memory(data.cast(), step.bytes) }?;
        if step.own != step.root {
            step.send(step.root, own)?;
            return Ok(0);
        }
        for (_, member) in &step.members {
            if *member == step.own {
                continue;
            }
            let message = step.receive(*member)?;
            // As it would lie in an array of the program's, and the function may write it.
            let mut other = aligned(message.body());
            let (mut kind, mut items, mut outcome) = (data_type, count, 0);
            let other = other.as_mut_ptr().cast();
            call_back("pvm_reduce", || {
                combine(&raw mut kind, data, other, &raw mut items, &raw mut outcome);
            });
            if outcome < 0 {
                return Err(Code::from_number(outcome).unwrap_or(Code::BAD_PARAMETER));
            }
        }
        Ok(0)
    })
}

#[unsafe(no_mangle)]
extern "C" fn pvm_gather(
    result: *mut c_void,
    data: *const c_void,
    count: c_int,
    data_type: c_int,
    tag: c_int,
    name: *const c_char,
    root: c_int,
) -> c_int {
    guarded("pvm_gather", || {
        // SAFETY: the caller passes NULL or text that ends with a zero.
        let step = unsafe { Step::begin(name, root, tag, count, data_type) }?;
        // SAFETY: the caller says that so many items lie there.
        let own = unsafe { memory(data.cast(), step.bytes) }?;
        if step.own != step.root {
            step.send(step.root, own)?;
            return Ok(0);
        }
        for (place, (_, member)) in step.members.iter().enumerate() {
            let message;
            let part = match *member == step.own {
                true => own,
                false => {
                    message = step.receive(*member)?;
                    message.body()
                }
            };
            let result = result.cast::<u8>().wrapping_add(place * step.bytes);
            // SAFETY: the caller says that there is a place for as many parts as members.
            unsafe { write(result, part) }?;
        }
        Ok(0)
    })
}

#[unsafe(no_mangle)]
extern "C" fn pvm_scatter(
    result: *mut c_void,
    data: *const c_void,
    count: c_int,
    data_type: c_int,
    tag: c_int,
    name: *const c_char,
    root: c_int,
) -> c_int {
    guarded("pvm_scatter", || {
        // SAFETY: the caller passes NULL or text that ends with a zero.
        let step = unsafe { Step::begin(name, root, tag, count, data_type) }?;
        if step.own != step.root {
            let message = step.receive(step.root)?;
            // SAFETY: the caller says that there is a place for so many items.
            unsafe { write(result.cast(), message.body()) }?;
            return Ok(0);
        }
        for (place, (_, member)) in step.members.iter().enumerate() {
            let part = data.cast::<u8>().wrapping_add(place * step.bytes);
            // SAFETY: the caller says that there are as many parts as members.
            let part = unsafe { memory(part, step.bytes) }?;
            match *member == step.own {
                // SAFETY: the caller says that there is a place for so many items.
                true => unsafe { write(result.cast(), part) }?,
                false => step.send(*member, part)?,
            }
        }
        Ok(0)
    })
}

/// Copies to where the caller wants it; both may be the same place.
///
/// # Safety
/// `to` is NULL or valid for writes of so many bytes.
unsafe fn write(to: *mut u8, bytes: &[u8]) -> Result<(), Code> {
    if to.is_null() && !bytes.is_empty() {
        return Err(Code::BAD_PARAMETER);
    }
    // SAFETY: the place is valid for so many bytes, and `copy` allows for an overlap.
    unsafe { std::ptr::copy(bytes.as_ptr(), to, bytes.len()) };
    Ok(())
}

/// Bytes at an address that any number may have.
fn aligned(bytes: &[u8]) -> Vec<u128> {
    let mut words = vec![0_u128; bytes.len().div_ceil(size_of::<u128>())];
    for (word, part) in words.iter_mut().zip(bytes.chunks(size_of::<u128>())) {
        let mut whole = [0; size_of::<u128>()];
        whole[..part.len()].copy_from_slice(part);
        *word = u128::from_ne_bytes(whole);
    }
    words
}

macro_rules! predefined {
    ($($name:ident, $operation:expr;)*) => {
        $(
            /// Combines the second array into the first.
            #[unsafe(no_mangle)]
            #[allow(non_snake_case, reason = "the name is PVM's")]
            extern "C" fn $name(
                data_type: *const c_int,
                values: *mut c_void,
                other: *const c_void,
                count: *const c_int,
                outcome: *mut c_int,
            ) {
                let done = guarded(stringify!($name), || {
                    // SAFETY: the caller passes what `pvm_reduce` passes.
                    unsafe { combine($operation, data_type, values, other, count) }
                });
                // SAFETY: the caller passes NULL or a place for a result.
                unsafe { put(outcome, done) };
            }
        )*
    };
}

predefined! {
    PvmMax, Operation::Maximum;
    PvmMin, Operation::Minimum;
    PvmSum, Operation::Sum;
    PvmProduct, Operation::Product;
}

/// # Safety
/// The numbers are NULL or can be read; `values` and `other` have so many items, and do not
/// overlap.
unsafe fn combine(
    operation: Operation,
    data_type: *const c_int,
    values: *mut c_void,
    other: *const c_void,
    count: *const c_int,
) -> Result<c_int, Code> {
    if data_type.is_null() || count.is_null() || values.is_null() || other.is_null() {
        return Err(Code::BAD_PARAMETER);
    }
    // SAFETY: it is not NULL; the rest is the caller's word.
    let data_type = unsafe { data_type.read() };
    // SAFETY: as above.
    let count = unsafe { count.read() };
    let kind = Kind::from_data_type(data_type).ok_or(Code::BAD_PARAMETER)?;
    let bytes = bytes_of(count, data_type)?;
    // SAFETY: the caller says that so many items lie there, and that nobody else uses them.
    let values = unsafe { std::slice::from_raw_parts_mut(values.cast::<u8>(), bytes) };
    // SAFETY: the caller says that so many items lie there.
    let other = unsafe { memory(other.cast(), bytes) }?;
    reduce(operation, kind, values, other).map(|()| 0)
}
