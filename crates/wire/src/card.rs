//! The file of a pool's region that frames are sent from, as the service takes it from a process.
//!
//! The service never looks at its bytes: it registers them with the kernel, which pins the pages.
//! So a file that is cut or punched later harms only who did that. What this module never does: it
//! takes no file whose pages something else than this machine's memory would have to bring, and
//! none of a user that is not served: whoever has a socket can read and write all of it.

use std::io;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};

use hythe_xdp::{CHUNK_BYTES, OtherFile};
use rustix::fs::{FileType, fcntl_get_seals, fstat, fstatfs};

/// As much memory is pinned for one at most.
const BYTES_MAX: u64 = 64 << 20;
/// `f_type` of tmpfs (linux/magic.h).
const TMPFS: u64 = 0x0102_1994;
/// `f_type` of hugetlbfs.
const HUGETLBFS: u64 = 0x9584_58F6;

/// A file whose pages the kernel may keep.
#[derive(Debug)]
pub(crate) struct Card {
    /// Kept open: no other file is this one then.
    file: OwnedFd,
    identity: CardIdentity,
    /// Whole pages.
    bytes: usize,
    /// Of the file: on hugetlbfs larger than a chunk.
    page_bytes: usize,
}

/// Which file it is, whoever has it open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CardIdentity {
    device: u64,
    inode: u64,
}

impl Card {
    /// The first `bytes` of a file that a process has passed, with the pages that they are in. It
    /// has to be this user's.
    ///
    /// # Errors
    /// Which of its properties is not as it has to be.
    pub(crate) fn checked(file: OwnedFd, bytes: u64, user: u32) -> io::Result<Self> {
        // First, as only the kernel's own memory has seals: a file of a process (FUSE), or of
        // another machine, could have whoever looks at it wait for good.
        fcntl_get_seals(&file).map_err(|_| not_in_memory())?;
        let (found, system) = (fstat(&file)?, fstatfs(&file)?);
        let chunk = CHUNK_BYTES as u64;
        let page_bytes = match system.f_type as u64 & 0xFFFF_FFFF {
            TMPFS => Some(chunk),
            HUGETLBFS => u64::try_from(system.f_bsize).ok(),
            _ => None,
        };
        let is_file = FileType::from_raw_mode(found.st_mode) == FileType::RegularFile;
        let Some(page_bytes) = page_bytes.filter(|_| is_file) else {
            return Err(not_in_memory());
        };
        if found.st_uid != user {
            let owner = found.st_uid;
            return Err(refused(format!("it is of user {owner}, not {user}")));
        }
        let is_whole = (1..=BYTES_MAX).contains(&bytes)
            && bytes.is_multiple_of(chunk)
            && u64::try_from(found.st_size).is_ok_and(|size| bytes <= size);
        if !is_whole {
            let size = found.st_size;
            let why = format!("{bytes} of its {size} bytes are asked for, and {BYTES_MAX} is most");
            return Err(refused(why));
        }
        // A file on hugetlbfs has whole pages, so these are in it.
        let bytes = bytes.next_multiple_of(page_bytes.max(1));
        if bytes > BYTES_MAX {
            let why = format!("its pages of {page_bytes} bytes are larger than {BYTES_MAX}");
            return Err(refused(why));
        }
        Ok(Self {
            file,
            identity: CardIdentity {
                device: found.st_dev,
                inode: found.st_ino,
            },
            bytes: usize::try_from(bytes).map_err(|_| io::ErrorKind::OutOfMemory)?,
            page_bytes: usize::try_from(page_bytes).map_err(|_| io::ErrorKind::OutOfMemory)?,
        })
    }

    pub(crate) const fn identity(&self) -> CardIdentity {
        self.identity
    }

    /// Can all be sent from this that would be from the other?
    pub(crate) fn has(&self, other: &Self) -> bool {
        self.identity == other.identity && self.bytes >= other.bytes
    }

    /// Where it is, as the service sees it: for people.
    pub(crate) fn name(&self) -> String {
        let link = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        let path = std::fs::read_link(link);
        path.map_or_else(
            |_| "a file".to_owned(),
            |path| path.to_string_lossy().into_owned(),
        )
    }

    /// What is to be mapped.
    pub(crate) fn range(&self) -> OtherFile<'_> {
        OtherFile {
            file: self.file.as_fd(),
            bytes: self.bytes,
            page_bytes: self.page_bytes,
        }
    }
}

pub(crate) fn not_in_memory() -> io::Error {
    refused("it is no file on a tmpfs or hugetlbfs".to_owned())
}

fn refused(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, why)
}

#[cfg(test)]
mod tests {
    use rustix::mount::{
        FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsconfig_set_string, fsmount,
        fsopen,
    };

    use super::*;

    fn checked(file: OwnedFd, bytes: u64) -> io::Result<Card> {
        Card::checked(file, bytes, hythe_sys::identity::effective_user())
    }

    #[test]
    fn only_whole_chunks_of_a_file_in_memory_are_taken() {
        let file = || hythe_xdp::sealed("card", 4 * CHUNK_BYTES).expect("memory");
        let taken = |bytes| checked(file(), bytes).is_ok();
        assert!(taken(4096) && taken(4 * 4096));
        for bytes in [0, 4095, 5 * 4096, u64::MAX] {
            assert!(!taken(bytes), "{bytes}");
        }
        let other = |path| OwnedFd::from(std::fs::File::open(path).expect("there"));
        for path in ["/dev/zero", "/proc/self/maps", "/"] {
            checked(other(path), 4096).expect_err(path);
        }
        let one = checked(file(), 4096).expect("taken");
        let more = checked(one.file.try_clone().expect("copied"), 8192).expect("taken");
        assert_eq!(one.identity(), more.identity());
        assert!(more.has(&one) && one.has(&one) && !one.has(&more));
        let another = checked(file(), 4096).expect("taken");
        assert!(!one.has(&another) && !another.has(&one));
    }

    /// The root of a file system whose server says nothing, and that server.
    fn silent_file() -> io::Result<(OwnedFd, OwnedFd)> {
        let server = OwnedFd::from(
            std::fs::File::options()
                .read(true)
                .write(true)
                .open("/dev/fuse")?,
        );
        let system = fsopen("fuse", FsOpenFlags::FSOPEN_CLOEXEC)?;
        let number = server.as_raw_fd().to_string();
        for (key, value) in [
            ("fd", &*number),
            ("rootmode", "40000"),
            ("user_id", "0"),
            ("group_id", "0"),
        ] {
            fsconfig_set_string(&system, key, value)?;
        }
        fsconfig_create(&system)?;
        let (flags, attributes) = (FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty());
        Ok((fsmount(&system, flags, attributes)?, server))
    }

    #[test]
    fn file_whose_file_system_says_nothing_is_not_waited_for() {
        let (file, server) = match silent_file() {
            Ok(both) => both,
            Err(error) => return eprintln!("SKIPPED: no file system of a process: {error}"),
        };
        let (to, from) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || to.send(checked(file, 4096).is_err()));
        // It only ends a test that has failed.
        let is_refused = from.recv_timeout(std::time::Duration::from_secs(60));
        // Whoever waits for it goes on.
        drop(server);
        thread.join().expect("no panic").expect("heard");
        assert_eq!(is_refused, Ok(true));
    }

    #[test]
    fn no_file_of_another_user_is_taken() {
        let file = hythe_xdp::sealed("card", CHUNK_BYTES).expect("memory");
        let another = hythe_sys::identity::effective_user() + 1;
        Card::checked(file, 4096, another).expect_err("it is not theirs");
    }
}
