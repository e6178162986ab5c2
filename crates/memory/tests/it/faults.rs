//! Files that are cut away under a mapping: zeroes and a flag in this process; everybody else's
//! faults as before.
//!
//! What ends a process, or needs one that has opened nothing yet, is played by this test program
//! again, asked by [`ROLE`].

// Miri maps no files, delivers no signals and starts no processes.
#![cfg(not(any(loom, miri)))]
#![allow(
    unsafe_code,
    reason = "a mapping that is not ours, and handlers that were there before"
)]

use crate::again;
use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hythe_memory::{Access, Mapped, Memory, TrustPeers, faults};
use hythe_testing::let_time_pass;

const ROLE: &str = "HYTHE_TEST_ROLE";
const PAGE: usize = 4096;

/// A file of some pages in shared memory, nameless.
fn pages(count: usize) -> File {
    let made = rustix::fs::memfd_create("faults", rustix::fs::MemfdFlags::CLOEXEC).expect("memfd");
    let file = File::from(made);
    file.set_len((count * PAGE) as u64).expect("length");
    file
}

fn mapped(file: &File, count: usize, access: Access) -> Mapped {
    Mapped::file(file, 0, count * PAGE, access).expect("mapped")
}

#[test]
fn cut_file_reads_as_zeroes_and_is_said_to_be_lost() {
    let file = pages(3);
    let memory = mapped(&file, 3, Access::Write);
    let before = faults::losses();
    memory.store(2 * PAGE, 7, Ordering::Relaxed);
    assert!(!memory.is_lost());
    file.set_len(PAGE as u64).expect("cut");
    assert_eq!(memory.load(2 * PAGE, Ordering::Relaxed), 0);
    assert!(memory.is_lost());
    assert!(faults::losses() > before);
    memory.store(2 * PAGE, 9, Ordering::Relaxed);
    assert_eq!(memory.load(2 * PAGE, Ordering::Relaxed), 9, "private now");
    memory.wait(2 * PAGE, 9, Duration::from_millis(1));
    memory.wake(2 * PAGE);
    let decision = TrustPeers::i_trust_every_writer_of_this_pool();
    assert_eq!(memory.trusted(decision, PAGE, PAGE), [0; PAGE]);
    // Also the part that is still there: nobody meets half of a pool.
    assert_eq!(memory.clone().load(0, Ordering::Relaxed), 0);
}

#[test]
fn store_or_a_copy_into_a_cut_file_goes_nowhere() {
    let file = pages(2);
    let (first, second) = (
        mapped(&file, 2, Access::Write),
        mapped(&file, 2, Access::Write),
    );
    file.set_len(0).expect("cut");
    first.add(PAGE, 1, Ordering::Relaxed);
    assert!(first.is_lost());
    assert!(!second.is_lost(), "nobody has touched it");
    second.write(PAGE - 4, &[1; 8]);
    assert!(second.is_lost());
    assert_eq!(file.metadata().expect("metadata").len(), 0);
}

#[test]
fn read_only_mappings_stay_read_only() {
    let file = pages(1);
    let memory = mapped(&file, 1, Access::Read);
    file.set_len(0).expect("cut");
    assert_eq!(memory.load(0, Ordering::Relaxed), 0);
    assert!(memory.is_lost());
}

#[test]
fn kernel_meets_the_cut_first() {
    let file = pages(2);
    let memory = mapped(&file, 2, Access::Write);
    let source = File::open("/proc/self/exe").expect("own program");
    file.set_len(0).expect("cut");
    let refused = rustix::fd::AsFd::as_fd(&source);
    let refused = memory.read_file(refused, 0, 0, 100).expect_err("cut away");
    assert_eq!(refused.raw_os_error(), Some(libc::EFAULT));
    assert!(memory.is_lost());
}

#[test]
fn many_threads_may_meet_the_cut_at_once() {
    let file = pages(64);
    let memory = mapped(&file, 64, Access::Write);
    file.set_len(0).expect("cut");
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let memory = &memory;
            scope.spawn(move || {
                (0..64).for_each(|page| {
                    memory.store(page * PAGE + thread * 4, 1, Ordering::Relaxed);
                });
            });
        }
    });
    assert!(memory.is_lost());
}

#[test]
fn places_are_given_back_and_counted() {
    let file = pages(1);
    for _ in 0..2 * faults::MAPPINGS_MAX {
        drop(mapped(&file, 1, Access::Read));
    }
    assert!(!mapped(&file, 1, Access::Read).is_lost());
}

/// Runs this program again in a role; how it ended.
fn play(role: &str) -> ExitStatus {
    let mut command = again::command();
    command.args(["--exact", "faults::plays_its_role", "--nocapture"]);
    command.env(ROLE, role).status().expect("started")
}

#[test]
fn faults_of_others_still_kill() {
    assert_eq!(play("foreign fault").signal(), Some(libc::SIGBUS));
    assert_eq!(play("sent by hand").signal(), Some(libc::SIGBUS));
}

#[test]
fn earlier_handler_gets_what_is_not_ours() {
    assert_eq!(play("earlier handler").code(), Some(0));
}

#[test]
fn program_may_settle_its_faults_itself() {
    assert_eq!(play("own handler").code(), Some(0));
    assert_eq!(play("own handler forgotten").signal(), Some(libc::SIGBUS));
}

#[test]
fn more_files_than_the_table_has_are_refused() {
    assert_eq!(play("too many").code(), Some(0));
}

/// A page without a byte behind it, that is nobody's mapping.
fn foreign_page() -> *mut u8 {
    let file = pages(1);
    // SAFETY: a null hint never replaces an existing mapping.
    let base = unsafe {
        rustix::mm::mmap(
            std::ptr::null_mut(),
            PAGE,
            rustix::mm::ProtFlags::READ | rustix::mm::ProtFlags::WRITE,
            rustix::mm::MapFlags::SHARED,
            &file,
            0,
        )
    };
    file.set_len(0).expect("cut");
    base.expect("mapped").cast()
}

fn touch(page: *mut u8) {
    // SAFETY: the page is mapped; that the access faults is what is tried.
    unsafe { page.write_volatile(1) };
}

static SEEN: AtomicUsize = AtomicUsize::new(0);

/// The handler of a program: repairs its own page, or lets ours be settled.
extern "C" fn handler(_: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel hands a valid record to a handler installed with SA_SIGINFO.
    let record: &libc::siginfo_t = unsafe { &*info };
    // SAFETY: a SIGBUS of the kernel carries an address.
    let address = unsafe { record.si_addr() } as usize;
    SEEN.fetch_add(1, Ordering::SeqCst);
    if faults::settle(address) {
        return;
    }
    let (read, write) = (rustix::mm::ProtFlags::READ, rustix::mm::ProtFlags::WRITE);
    let flags = rustix::mm::MapFlags::PRIVATE | rustix::mm::MapFlags::FIXED;
    let page = (address & !(PAGE - 1)) as *mut _;
    // SAFETY: the page that faulted is this program's own.
    let repaired = unsafe { rustix::mm::mmap_anonymous(page, PAGE, read | write, flags) };
    assert!(repaired.is_ok());
}

fn install_handler() {
    // SAFETY: zeroes are a valid action.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler as *const () as usize;
    action.sa_flags = libc::SA_SIGINFO;
    // SAFETY: the action is complete.
    let installed =
        unsafe { libc::sigaction(libc::SIGBUS, &raw const action, std::ptr::null_mut()) };
    assert_eq!(installed, 0);
}

fn cut_and_look() {
    let file = pages(1);
    let memory = mapped(&file, 1, Access::Write);
    file.set_len(0).expect("cut");
    assert_eq!(memory.load(0, Ordering::Relaxed), 0);
    assert!(memory.is_lost());
}

/// Not a test of its own.
#[test]
fn plays_its_role() {
    let Ok(role) = std::env::var(ROLE) else {
        return;
    };
    match role.as_str() {
        "foreign fault" => {
            cut_and_look();
            touch(foreign_page());
        }
        "sent by hand" => {
            cut_and_look();
            let own = rustix::process::getpid();
            // The handler of Rust's runtime, which is the earlier one, takes the first for a fault
            // that will come again.
            for _ in 0..100 {
                rustix::process::kill_process(own, rustix::process::Signal::BUS).expect("sent");
                let_time_pass(Duration::from_millis(100), "a signal is delivered");
            }
        }
        "earlier handler" => {
            install_handler();
            cut_and_look();
            assert_eq!(SEEN.load(Ordering::SeqCst), 0, "ours is settled before");
            touch(foreign_page());
            assert_eq!(SEEN.load(Ordering::SeqCst), 1);
        }
        "own handler" => {
            faults::leave_sigbus_to_the_program();
            install_handler();
            cut_and_look();
            assert_eq!(SEEN.load(Ordering::SeqCst), 1);
        }
        "own handler forgotten" => {
            faults::leave_sigbus_to_the_program();
            cut_and_look();
        }
        "too many" => {
            let file = pages(1);
            let kept: Vec<Mapped> = (0..faults::MAPPINGS_MAX)
                .map(|_| mapped(&file, 1, Access::Read))
                .collect();
            let refused = Mapped::file(&file, 0, PAGE, Access::Read).expect_err("full");
            assert!(refused.to_string().contains("limit"), "{refused}");
            drop(kept);
            cut_and_look();
        }
        other => panic!("no such role: {other}"),
    }
}
