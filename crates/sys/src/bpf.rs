//! Programs and maps of the kernel's BPF machine, as far as a program on a network interface (XDP)
//! needs them (`bpf(2)`).
//!
//! The carrier `xdp` of the host hop calls it. Needs `CAP_BPF` and `CAP_NET_ADMIN`. What holds
//! between calls: the descriptors that the values own; a program is attached for as long as its
//! [`Link`] lives, and goes with the process. Instructions are assembled elsewhere: the kernel's
//! verifier judges them, not this module.

#![allow(
    unsafe_code,
    reason = "this crate is the island for system calls that rustix does not have"
)]

use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

// Commands, kinds and flags: `linux/bpf.h` and `linux/if_link.h`, of which libc has none.
const MAP_CREATE: libc::c_int = 0;
const MAP_UPDATE: libc::c_int = 2;
const MAP_DELETE: libc::c_int = 3;
const PROGRAM_LOAD: libc::c_int = 5;
const INFORMATION: libc::c_int = 15;
const LINK_CREATE: libc::c_int = 28;
const LINK_DETACH: libc::c_int = 34;
const PROGRAM_XDP: u32 = 6;
const ATTACH_XDP: u32 = 37;
const FLAG_GENERIC: u32 = 1 << 1;
const FLAG_DRIVER: u32 = 1 << 2;
/// What the verifier says of a program that it refuses; the rest is cut.
const LOG_BYTES: usize = 16 << 10;
/// `struct bpf_link_info` begins with kind, number and program, then has the interface of XDP.
const LINK_INFORMATION_WORDS: usize = 8;

/// What kind of map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum MapKind {
    /// Keys of any bytes.
    Hash = 1,
    /// By index, `AF_XDP` sockets; a value is the number of a descriptor.
    Sockets = 17,
}

/// A map, which programs share with who made it.
#[derive(Debug)]
pub struct Map {
    file: OwnedFd,
    key_bytes: usize,
    value_bytes: usize,
}

/// How a program is attached to an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attachment {
    /// Before the packet has a kernel's buffer: the driver must support it.
    Driver,
    /// Behind that: any interface.
    Generic,
}

/// A program attached to an interface. Dropped, it is attached no more.
#[derive(Debug)]
pub struct Link(OwnedFd);

#[derive(Default)]
#[repr(C)]
struct CreateMap {
    kind: u32,
    key_bytes: u32,
    value_bytes: u32,
    entries: u32,
    flags: u32,
}

#[derive(Default)]
#[repr(C)]
struct Element {
    map: u32,
    reserved: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[derive(Default)]
#[repr(C)]
struct LoadProgram {
    kind: u32,
    instructions: u32,
    first: u64,
    licence: u64,
    log_level: u32,
    log_bytes: u32,
    log: u64,
    kernel: u32,
    flags: u32,
    name: [u8; 16],
    interface: u32,
    attach: u32,
}

#[derive(Default)]
#[repr(C)]
struct CreateLink {
    program: u32,
    interface: u32,
    attach: u32,
    flags: u32,
}

#[derive(Default)]
#[repr(C)]
struct Information {
    file: u32,
    bytes: u32,
    into: u64,
}

impl Map {
    /// Makes a map for so many entries.
    ///
    /// # Errors
    /// No permission; no memory; a kernel without this kind of map.
    pub fn create(
        kind: MapKind,
        (key_bytes, value_bytes): (u32, u32),
        entries: u32,
    ) -> io::Result<Self> {
        let mut attributes = CreateMap {
            kind: kind as u32,
            key_bytes,
            value_bytes,
            entries,
            flags: 0,
        };
        // SAFETY: the command takes these attributes and keeps no pointer.
        let file = unsafe { call(MAP_CREATE, &mut attributes) }?;
        // SAFETY: the command makes a descriptor.
        let file = unsafe { own(file) };
        Ok(Self {
            file,
            key_bytes: key_bytes as usize,
            value_bytes: value_bytes as usize,
        })
    }

    /// Adds an entry, or changes it.
    ///
    /// # Errors
    /// The map is full; the value is no socket that it could take.
    ///
    /// # Panics
    /// If the key or the value is not as long as the map's are.
    pub fn set(&self, key: &[u8], value: &[u8]) -> io::Result<()> {
        assert_eq!(value.len(), self.value_bytes, "bytes of a value");
        let mut attributes = self.element(key);
        attributes.value = value.as_ptr() as u64;
        // SAFETY: the kernel reads as many bytes of key and value as the map was made for, which is
        // what both slices have; it keeps no pointer.
        unsafe { call(MAP_UPDATE, &mut attributes) }.map(drop)
    }

    /// Removes an entry.
    ///
    /// # Errors
    /// There is none.
    ///
    /// # Panics
    /// If the key is not as long as the map's are.
    pub fn remove(&self, key: &[u8]) -> io::Result<()> {
        let mut attributes = self.element(key);
        // SAFETY: as in `set`, without a value.
        unsafe { call(MAP_DELETE, &mut attributes) }.map(drop)
    }

    fn element(&self, key: &[u8]) -> Element {
        assert_eq!(key.len(), self.key_bytes, "bytes of a key");
        Element {
            map: number(self.file.as_fd()),
            key: key.as_ptr() as u64,
            ..Element::default()
        }
    }
}

impl AsFd for Map {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Loads a program for an interface: 64 bits for each instruction, as `struct bpf_insn` has them.
///
/// # Errors
/// No permission; a kernel that does not know an instruction; what the verifier refuses, with its
/// words.
pub fn load_xdp(name: &str, instructions: &[u64]) -> io::Result<OwnedFd> {
    let mut log = vec![0_u8; LOG_BYTES];
    let mut attributes = LoadProgram {
        kind: PROGRAM_XDP,
        // Fits: the kernel takes a million at most.
        instructions: instructions.len() as u32,
        first: instructions.as_ptr() as u64,
        licence: c"MIT".as_ptr() as u64,
        log_level: 1,
        log_bytes: LOG_BYTES as u32,
        log: log.as_mut_ptr() as u64,
        attach: ATTACH_XDP,
        ..LoadProgram::default()
    };
    // One byte less: it ends with a zero.
    for (into, from) in attributes.name.iter_mut().take(15).zip(name.bytes()) {
        *into = from;
    }
    // SAFETY: the kernel reads so many instructions and the licence up to its zero, and writes at
    // most so many bytes of the log; all live through the call, and it keeps no pointer.
    let loaded = unsafe { call(PROGRAM_LOAD, &mut attributes) };
    match loaded {
        // SAFETY: the command makes a descriptor.
        Ok(file) => Ok(unsafe { own(file) }),
        Err(error) => {
            let said = log.split(|byte| *byte == 0).next().unwrap_or_default();
            let said = String::from_utf8_lossy(said);
            let last = said
                .lines()
                .rev()
                .find(|line| !line.starts_with("processed"));
            Err(match last {
                None => error,
                Some(last) => io::Error::new(error.kind(), format!("{error}: {last}")),
            })
        }
    }
}

impl Link {
    /// Attaches a program to the interface of this index.
    ///
    /// # Errors
    /// Another program is attached; the driver does not support it, or not with this MTU; no
    /// permission; no such interface.
    pub fn attach(program: impl AsFd, interface: u32, how: Attachment) -> io::Result<Self> {
        let mut attributes = CreateLink {
            program: number(program.as_fd()),
            interface,
            attach: ATTACH_XDP,
            flags: match how {
                Attachment::Driver => FLAG_DRIVER,
                Attachment::Generic => FLAG_GENERIC,
            },
        };
        // SAFETY: the command takes these attributes, which have no pointer.
        let file = unsafe { call(LINK_CREATE, &mut attributes) }?;
        // SAFETY: the command makes a descriptor.
        Ok(Self(unsafe { own(file) }))
    }

    /// The index of the interface; `None`: that is gone, or the kernel does not say.
    #[must_use]
    pub fn interface(&self) -> Option<u32> {
        let mut words = [0_u32; LINK_INFORMATION_WORDS];
        let mut attributes = Information {
            file: number(self.0.as_fd()),
            bytes: size_of_val(&words) as u32,
            into: words.as_mut_ptr() as u64,
        };
        // SAFETY: the kernel writes at most `bytes` bytes to `words`, which lives through the call.
        unsafe { call(INFORMATION, &mut attributes) }.ok()?;
        // Kind, number and program, padded to 16 bytes; then the interface.
        Some(words[4]).filter(|index| *index != 0)
    }
}

fn number(file: BorrowedFd<'_>) -> u32 {
    // Descriptors are not negative.
    file.as_raw_fd() as u32
}

/// Takes a program from its interface whose link somebody has open, as `bpftool link detach` does:
/// for tests of what becomes of that one.
///
/// # Errors
/// No permission; it is no link.
pub fn detach(link: impl AsFd) -> io::Result<()> {
    let mut attributes = number(link.as_fd());
    // SAFETY: the command takes one word, a descriptor that is open while borrowed.
    unsafe { call(LINK_DETACH, &mut attributes) }.map(drop)
}

/// # Safety
/// The attributes are those of the command, and its pointers are as long as it takes them to be.
unsafe fn call<T>(command: libc::c_int, attributes: &mut T) -> io::Result<libc::c_int> {
    // SAFETY: the caller says so; the kernel takes what lies behind the size as zero.
    let result = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            command,
            std::ptr::from_mut(attributes),
            size_of::<T>(),
        )
    };
    match libc::c_int::try_from(result) {
        Ok(result) if result >= 0 => Ok(result),
        _ => Err(io::Error::last_os_error()),
    }
}

/// # Safety
/// The number is that of a new descriptor that nobody else owns.
unsafe fn own(file: libc::c_int) -> OwnedFd {
    // SAFETY: the caller says so.
    unsafe { OwnedFd::from_raw_fd(file) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without the right to it, which is said.
    fn permitted<T>(made: io::Result<T>) -> Option<T> {
        match made {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                eprintln!("SKIPPED: BPF needs CAP_BPF and CAP_NET_ADMIN");
                None
            }
            made => Some(made.expect("made")),
        }
    }

    #[test]
    fn map_takes_as_many_entries_as_it_was_made_for() {
        let Some(map) = permitted(Map::create(MapKind::Hash, (12, 4), 2)) else {
            return;
        };
        map.set(&[1; 12], &[1; 4]).expect("taken");
        map.set(&[2; 12], &[2; 4]).expect("taken");
        map.set(&[1; 12], &[3; 4]).expect("changed");
        map.set(&[3; 12], &[3; 4]).expect_err("full");
        map.remove(&[1; 12]).expect("was there");
        map.remove(&[1; 12]).expect_err("is not there");
        map.set(&[3; 12], &[3; 4]).expect("taken");
    }

    #[test]
    fn verifier_says_why_it_refuses() {
        // Only `exit`: its result was never written.
        if permitted(Map::create(MapKind::Hash, (4, 4), 1)).is_none() {
            return;
        }
        let error = load_xdp("test", &[0x95]).expect_err("refused");
        assert!(error.to_string().contains("R0"), "{error}");
        // `mov r0, 2; exit`.
        load_xdp("test", &[0xb7 | 2 << 32, 0x95]).expect("loaded");
    }

    #[test]
    fn program_that_another_tool_takes_away_is_missed() {
        if permitted(Map::create(MapKind::Hash, (4, 4), 1)).is_none() {
            return;
        }
        let Some(_network) = permitted(crate::namespaces::Network::unshare()) else {
            return;
        };
        // Its first interface is always the loopback.
        let program = load_xdp("test", &[0xb7 | 2 << 32, 0x95]).expect("loaded");
        let link = Link::attach(&program, 1, Attachment::Generic).expect("attached");
        assert_eq!(link.interface(), Some(1));
        let mut taken = number(link.0.as_fd());
        // SAFETY: the command takes one number, of a link (`BPF_LINK_DETACH`).
        unsafe { call(34, &mut taken) }.expect("taken away");
        assert_eq!(link.interface(), None);
        Link::attach(&program, 1, Attachment::Generic).expect("the place is free");
    }
}
