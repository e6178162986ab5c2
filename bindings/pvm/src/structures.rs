//! Structures of `pvm3.h`.

use std::ffi::{c_char, c_int};

/// `struct pvmhostinfo` of `pvm3.h`.
#[repr(C)]
pub(crate) struct HostInfo {
    pub(crate) host: c_int,
    pub(crate) name: *mut c_char,
    pub(crate) architecture: *mut c_char,
    pub(crate) speed: c_int,
    pub(crate) format: c_int,
}

/// `struct pvmtaskinfo` of `pvm3.h`.
#[repr(C)]
pub(crate) struct TaskInfo {
    pub(crate) task: c_int,
    pub(crate) parent: c_int,
    pub(crate) host: c_int,
    pub(crate) flags: c_int,
    pub(crate) program: *mut c_char,
    pub(crate) pid: c_int,
}

/// `struct pvmminfo` of `pvm3.h`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct MessageInfo {
    pub(crate) length: c_int,
    pub(crate) context: c_int,
    pub(crate) tag: c_int,
    pub(crate) wait_id: c_int,
    pub(crate) encoding: c_int,
    pub(crate) checksum: c_int,
    pub(crate) source: c_int,
    pub(crate) destination: c_int,
}

/// `struct pvmmboxinfo` of `pvm3.h`.
#[repr(C)]
pub(crate) struct MailboxInfo {
    pub(crate) name: *mut c_char,
    pub(crate) entries: c_int,
    pub(crate) indices: *mut c_int,
    pub(crate) owners: *mut c_int,
    pub(crate) flags: *mut c_int,
}
