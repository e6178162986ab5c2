//! What Xlib does where its connection breaks.
//!
//! By itself it ends the process by `exit` from within whatever call it was in, and nothing that
//! the program has made is cleaned up. Handlers take the place of that.

use std::ffi::{c_int, c_void};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::library::Library;

const LIBRARY: &str = "libX11.so.6";

/// The connection broke.
static IS_LOST: AtomicBool = AtomicBool::new(false);

/// `XIOErrorHandler`.
type ConnectionHandler = unsafe extern "C" fn(*mut c_void) -> c_int;
/// `XErrorHandler`.
type RequestHandler = unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int;

/// Has the connection to the display been lost?
pub(crate) fn is_lost() -> bool {
    IS_LOST.load(Ordering::Acquire)
}

/// From now on a lost connection stops only the thread that uses it. Where there is no Xlib there
/// is nothing to do: SDL opens the same library, or none.
pub(crate) fn survive() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let Ok(library) = Library::open(LIBRARY) else {
            return;
        };
        let connection = library.function(c"XSetIOErrorHandler");
        let request = library.function(c"XSetErrorHandler");
        let (Ok(connection), Ok(request)) = (connection, request) else {
            return;
        };
        // SAFETY: the type that Xlib.h declares for this name, without the result, which is a
        // pointer that nobody uses.
        let set_connection = unsafe {
            std::mem::transmute::<*mut c_void, unsafe extern "C" fn(ConnectionHandler)>(
                connection.as_ptr(),
            )
        };
        // SAFETY: as above.
        let set_request = unsafe {
            std::mem::transmute::<*mut c_void, unsafe extern "C" fn(RequestHandler)>(
                request.as_ptr(),
            )
        };
        // SAFETY: a function of the type that Xlib calls, which lives as long as the program.
        unsafe { set_connection(connection_lost) };
        // SAFETY: as above.
        unsafe { set_request(request_refused) };
    });
}

/// Does not return: where it does, Xlib calls `exit`. The lock of the connection stays taken, and
/// nobody else uses it.
extern "C" fn connection_lost(_display: *mut c_void) -> c_int {
    IS_LOST.store(true, Ordering::Release);
    loop {
        std::thread::park();
    }
}

/// A request was refused, such as one about a window that has just gone: the next picture is
/// another request.
extern "C" fn request_refused(_display: *mut c_void, _error: *mut c_void) -> c_int {
    0
}
