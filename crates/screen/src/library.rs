//! Shared libraries, opened at run time. What was opened stays: functions of it are called until
//! the process ends.

use std::ffi::{CStr, CString, c_void};
use std::ptr::NonNull;

use crate::error::ScreenError;

/// A library that was opened.
#[derive(Clone, Copy)]
pub(crate) struct Library {
    name: &'static str,
    handle: NonNull<c_void>,
}

impl Library {
    /// Opens the library of this name where the loader finds it.
    pub(crate) fn open(name: &'static str) -> Result<Self, ScreenError> {
        let refused = |reason: String| ScreenError::NoLibrary {
            library: name,
            reason,
        };
        let path = CString::new(name).map_err(|error| refused(error.to_string()))?;
        // SAFETY: a string that ends; the initialisers of a library of the system are trusted as
        // those are that this program is linked with.
        let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        match NonNull::new(handle) {
            Some(handle) => Ok(Self { name, handle }),
            None => Err(refused(loader_message())),
        }
    }

    /// Where a function of this name is.
    pub(crate) fn function(self, name: &CStr) -> Result<NonNull<c_void>, ScreenError> {
        // SAFETY: the handle is of `dlopen` and is never closed; the string ends.
        let found = unsafe { libc::dlsym(self.handle.as_ptr(), name.as_ptr()) };
        NonNull::new(found).ok_or_else(|| ScreenError::NoFunction {
            library: self.name,
            function: name.to_string_lossy().into_owned(),
        })
    }
}

/// Why the last call on this thread failed.
fn loader_message() -> String {
    // SAFETY: takes nothing; the text it returns is this thread's until its next call.
    let text = unsafe { libc::dlerror() };
    if text.is_null() {
        return "no reason given".to_owned();
    }
    // SAFETY: not null, so a string that ends, and nothing is loaded before it is copied.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_is_named() {
        let Err(error) = Library::open("libhythe-is-not-there.so.7") else {
            panic!("there is such a library");
        };
        assert!(error.to_string().contains("libhythe-is-not-there.so.7"));
    }
}
