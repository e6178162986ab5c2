//! `hythe_node`: this process taking part in a pool. Never does more than the facade's `Node`.

use core::ffi::{c_char, c_int};
use std::mem::MaybeUninit;

use hythe::Node;

use crate::code::{HYTHE_EARGUMENT, HYTHE_EFORKED};
use crate::ffi_guard::{Handle, Process, cross, empty_place, end, name, open};
use crate::lease::{self, hythe_lease};
use crate::origin::Origin;
use crate::pool::hythe_pool;

/// A participant: this process in a pool. Any number of threads may use it at once.
#[derive(Debug)]
pub struct hythe_node {
    pub(crate) origin: Origin,
    pub(crate) node: Node,
}

impl Handle for hythe_node {
    const NOUN: &'static str = "node";

    fn process(&self) -> Option<Process> {
        Some(self.origin.process)
    }
}

/// Joins a pool under a name, which others see in `hythe list` and `hythe who`. The result is the
/// caller's, until hythe_node_leave(). Starts one thread, which watches for the death of peers. Any
/// thread; does not block.
///
/// # Safety
/// `name` is text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hythe_node_join(
    pool: Option<&hythe_pool>,
    name: *const c_char,
    node: Option<&mut MaybeUninit<*mut hythe_node>>,
) -> c_int {
    cross(|| {
        let place = empty_place(node)?;
        let pool = open(pool)?;
        // SAFETY: the caller's word.
        let name = unsafe { self::name(name, "name of the node") }?;
        let joined = hythe_node {
            node: Node::join(&pool.pool, name)?,
            origin: Origin::new(pool.trusts),
        };
        place.write(Box::into_raw(Box::new(joined)));
        Ok(0)
    })
}

/// Leaves the pool, or does nothing for NULL. Ports, leases and samples of the node stay valid: the
/// process stays a participant until the last of them is closed or released. Consumes `node`.
#[unsafe(no_mangle)]
pub extern "C" fn hythe_node_leave(node: Option<Box<hythe_node>>) {
    end(node);
}

/// This participant's number in its pool. Any thread.
#[unsafe(no_mangle)]
pub extern "C" fn hythe_node_index(node: Option<&hythe_node>) -> c_int {
    cross(|| Ok(c_int::from(open(node)?.node.index().0)))
}

/// Returns 0 if every file of the pool that this process has accessed is still whole, else
/// HYTHE_EPOOLLOST. For programs that read or write in place: after a loss they read zeroes. All
/// other calls check this themselves. Any thread; does not block.
#[unsafe(no_mangle)]
pub extern "C" fn hythe_node_check_pool(node: Option<&hythe_node>) -> c_int {
    cross(|| {
        open(node)?.node.pool().check_whole()?;
        Ok(0)
    })
}

/// Ends the waits of this node's ports and wait sets that are under way, each with
/// HYTHE_EINTERRUPTED, or the next one that begins if there are none. For Ctrl-C: a signal alone
/// ends no wait. What has come is taken first, and calls with a time-out of 0 take no notice.
/// Several interrupts before a wait are one. Where other threads wait as well, theirs may be all
/// that it ends: such a program sets a flag of its own first. A publisher that waits for a full
/// queue ends that as if its send timeout were over, and leaves the interrupt for the next wait.
///
/// Any thread, and a signal handler, as long as the node is joined: it allocates nothing, takes no
/// lock and leaves no message. HYTHE_EARGUMENT for NULL, HYTHE_EFORKED.
#[unsafe(no_mangle)]
pub extern "C" fn hythe_node_interrupt(node: Option<&hythe_node>) -> c_int {
    // Not behind the guard of the other calls: the message of a refusal is allocated.
    let Some(node) = node else {
        return HYTHE_EARGUMENT;
    };
    if !node.origin.process.is_own() {
        return HYTHE_EFORKED;
    }
    node.node.interrupt();
    0
}

/// Leases a buffer for at most `bytes` of payload. The result is the caller's, until it is
/// published or released. HYTHE_ETOOLARGE, HYTHE_EPOOLFULL. Any thread; waits for a free buffer for
/// at most 100 ms.
#[unsafe(no_mangle)]
pub extern "C" fn hythe_node_lease(
    node: Option<&hythe_node>,
    bytes: usize,
    lease: Option<&mut MaybeUninit<*mut hythe_lease>>,
) -> c_int {
    lease::lend(lease, || {
        let node = open(node)?;
        Ok((node.origin, node.node.lease(bytes)?))
    })
}
