//! SIGBUS, for programs that have a handler of their own: what `hythe::faults` offers. Never called
//! by anybody else.

use core::ffi::{c_int, c_void};

use hythe::faults;

use crate::ffi_guard::cross;

/// Installs no handler for SIGBUS, for a program that has its own and keeps it: to be called before
/// the first pool is opened or made. That handler calls hythe_sigbus_settle(); without it, a pool
/// whose file is cut away ends the program. Any thread.
#[unsafe(no_mangle)]
pub extern "C" fn hythe_sigbus_leave_to_program() -> c_int {
    cross(|| {
        faults::leave_sigbus_to_the_program();
        Ok(0)
    })
}

/// Settles a fault, in a handler for SIGBUS that was installed with SA_SIGINFO, of a signal whose
/// si_code is positive: `address` is its si_addr. 1: it was in a file of a pool, which is lost from
/// now on (HYTHE_EPOOLLOST); return from the handler, and the access is done again, on zeroes. 0:
/// it was not. Async-signal-safe: it takes no lock, allocates nothing, and leaves no message.
#[unsafe(no_mangle)]
pub extern "C" fn hythe_sigbus_settle(address: *const c_void) -> c_int {
    c_int::from(faults::settle(address as usize))
}
