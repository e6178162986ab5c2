//! Each system call that the library makes, refused by seccomp: with EPERM, as a container's
//! profile does, and with ENOSYS, as a kernel that lacks it; from the start, or from the moment on
//! when the process has joined. What comes of it is a typed error or another way to the same end,
//! never a hang, a panic or a crash.
//!
//! Each case is a process of its own, this program again with [`CASE`]: it opens a pool, joins,
//! publishes, subscribes, waits, asks and answers, and leaves. A process that has not ended after
//! [`DEAD_MAN`] hangs.
#![cfg(target_pointer_width = "64")]

use crate::support;

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::process::{Child, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::support::Root;
use crate::support::refusing::{Whose, refuse};
use hythe_node::{
    ClientOptions, EventId, Interest, Node, NodeError, Pool, PoolOptions, PublisherOptions,
    ServerOptions, SubscriberOptions,
};
use hythe_testing::{Polling, in_module, until_thread_is_in_call};

/// The environment variable that makes [`lives_with_a_refusal`] do something: a call, an error, and
/// when.
const CASE: &str = "HYTHE_TEST_REFUSED";
/// It only ends tests that have failed.
const DEAD_MAN: Duration = Duration::from_secs(60);
/// Processes at one time.
const AT_ONCE: usize = 4;
/// Exit status of a case in which a thread panicked, and of one that could not be confined.
const PANICKED: i32 = 70;
const UNCONFINED: i32 = 71;
const SHORT: Duration = Duration::from_millis(20);

/// What the library asks of the kernel, by itself, the standard library and the C library. Not
/// here: `rseq`, without which the C library ends the process when it starts a thread. To see the
/// calls of the case that is refused nothing: `HYTHE_TEST_REFUSED=none:1:start HYTHE_ROOT=...
/// strace -f` and the test program.
const CALLS: &[(&str, libc::c_long)] = &[
    ("accept4", libc::SYS_accept4),
    ("bind", libc::SYS_bind),
    ("brk", libc::SYS_brk),
    ("clone", libc::SYS_clone),
    ("clone3", libc::SYS_clone3),
    ("close", libc::SYS_close),
    ("connect", libc::SYS_connect),
    ("dup", libc::SYS_dup),
    ("epoll_create1", libc::SYS_epoll_create1),
    ("epoll_ctl", libc::SYS_epoll_ctl),
    ("epoll_pwait", libc::SYS_epoll_pwait),
    ("epoll_pwait2", libc::SYS_epoll_pwait2),
    ("eventfd2", libc::SYS_eventfd2),
    ("faccessat", libc::SYS_faccessat),
    ("fallocate", libc::SYS_fallocate),
    ("fchmod", libc::SYS_fchmod),
    ("fchmodat", libc::SYS_fchmodat),
    ("fchown", libc::SYS_fchown),
    ("fchownat", libc::SYS_fchownat),
    ("fcntl", libc::SYS_fcntl),
    ("flock", libc::SYS_flock),
    ("fstat", libc::SYS_fstat),
    ("fstatfs", libc::SYS_fstatfs),
    ("ftruncate", libc::SYS_ftruncate),
    ("futex", libc::SYS_futex),
    ("getcwd", libc::SYS_getcwd),
    ("getdents64", libc::SYS_getdents64),
    ("getegid", libc::SYS_getegid),
    ("geteuid", libc::SYS_geteuid),
    ("getgroups", libc::SYS_getgroups),
    ("getpid", libc::SYS_getpid),
    ("getrandom", libc::SYS_getrandom),
    ("getsockopt", libc::SYS_getsockopt),
    ("gettid", libc::SYS_gettid),
    ("getuid", libc::SYS_getuid),
    ("kill", libc::SYS_kill),
    ("linkat", libc::SYS_linkat),
    ("listen", libc::SYS_listen),
    ("lseek", libc::SYS_lseek),
    ("madvise", libc::SYS_madvise),
    ("membarrier", libc::SYS_membarrier),
    ("mkdirat", libc::SYS_mkdirat),
    ("mlock", libc::SYS_mlock),
    ("mlock2", libc::SYS_mlock2),
    ("mmap", libc::SYS_mmap),
    ("mprotect", libc::SYS_mprotect),
    ("mremap", libc::SYS_mremap),
    ("munmap", libc::SYS_munmap),
    ("nanosleep", libc::SYS_nanosleep),
    ("clock_nanosleep", libc::SYS_clock_nanosleep),
    ("newfstatat", libc::SYS_newfstatat),
    ("openat", libc::SYS_openat),
    ("openat2", libc::SYS_openat2),
    ("pidfd_open", libc::SYS_pidfd_open),
    ("pidfd_send_signal", libc::SYS_pidfd_send_signal),
    ("ppoll", libc::SYS_ppoll),
    ("prctl", libc::SYS_prctl),
    ("pread64", libc::SYS_pread64),
    ("preadv", libc::SYS_preadv),
    ("prlimit64", libc::SYS_prlimit64),
    ("read", libc::SYS_read),
    ("readlinkat", libc::SYS_readlinkat),
    ("recvfrom", libc::SYS_recvfrom),
    ("renameat", libc::SYS_renameat),
    ("renameat2", libc::SYS_renameat2),
    ("rt_sigaction", libc::SYS_rt_sigaction),
    ("rt_sigprocmask", libc::SYS_rt_sigprocmask),
    ("sched_getaffinity", libc::SYS_sched_getaffinity),
    ("sched_yield", libc::SYS_sched_yield),
    ("set_robust_list", libc::SYS_set_robust_list),
    ("sigaltstack", libc::SYS_sigaltstack),
    ("socket", libc::SYS_socket),
    ("statfs", libc::SYS_statfs),
    ("statx", libc::SYS_statx),
    ("sysinfo", libc::SYS_sysinfo),
    ("uname", libc::SYS_uname),
    ("unlinkat", libc::SYS_unlinkat),
    ("write", libc::SYS_write),
    #[cfg(target_arch = "x86_64")]
    ("access", libc::SYS_access),
    #[cfg(target_arch = "x86_64")]
    ("chmod", libc::SYS_chmod),
    #[cfg(target_arch = "x86_64")]
    ("epoll_wait", libc::SYS_epoll_wait),
    #[cfg(target_arch = "x86_64")]
    ("lstat", libc::SYS_lstat),
    #[cfg(target_arch = "x86_64")]
    ("mkdir", libc::SYS_mkdir),
    #[cfg(target_arch = "x86_64")]
    ("open", libc::SYS_open),
    #[cfg(target_arch = "x86_64")]
    ("poll", libc::SYS_poll),
    #[cfg(target_arch = "x86_64")]
    ("readlink", libc::SYS_readlink),
    #[cfg(target_arch = "x86_64")]
    ("rename", libc::SYS_rename),
    #[cfg(target_arch = "x86_64")]
    ("rmdir", libc::SYS_rmdir),
    #[cfg(target_arch = "x86_64")]
    ("stat", libc::SYS_stat),
    #[cfg(target_arch = "x86_64")]
    ("unlink", libc::SYS_unlink),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    Start,
    Joined,
}

struct Case {
    call: &'static str,
    error: i32,
    when: When,
}

impl Case {
    fn all() -> Vec<Self> {
        let mut cases = Vec::new();
        for &(call, _) in CALLS {
            for error in [libc::EPERM, libc::ENOSYS] {
                for when in [When::Start, When::Joined] {
                    cases.push(Self { call, error, when });
                }
            }
        }
        cases
    }

    fn words(&self) -> String {
        format!("{}:{}:{:?}", self.call, self.error, self.when)
    }

    fn start(&self, root: &Root) -> Child {
        support::again::command()
            .args([
                "--exact",
                &in_module("lives_with_a_refusal"),
                "--nocapture",
                "--test-threads=1",
            ])
            .env(CASE, self.words())
            .env("HYTHE_ROOT", root.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("started")
    }

    /// `Err`: it hung, or ended otherwise than it should.
    fn run(&self) -> Result<(), String> {
        let root = Root::new();
        let mut child = self.start(&root);
        let (start, mut polling) = (Instant::now(), Polling::new("the end of the child"));
        let ended = loop {
            match child.try_wait().expect("own child") {
                Some(status) => break Some(status),
                None if start.elapsed() > DEAD_MAN => break None,
                None => polling.pause(),
            }
        };
        if ended.is_none() {
            child.kill().expect("own child");
            child.wait().expect("own child");
        }
        let mut said = String::new();
        let output = child
            .stdout
            .take()
            .map(|mut from| from.read_to_string(&mut said));
        let errors = child
            .stderr
            .take()
            .map(|mut from| from.read_to_string(&mut said));
        let _ = (output, errors);
        match ended.map(|status| (status.code(), status)) {
            Some((Some(0), _)) => Ok(()),
            Some((Some(UNCONFINED), _)) => {
                eprintln!("SKIPPED (needs seccomp): {}", self.words());
                Ok(())
            }
            Some((_, status)) => Err(format!("{}: {status}: {said}", self.words())),
            None => Err(format!("{}: hangs: {said}", self.words())),
        }
    }
}

#[test]
fn refused_call_is_an_error_or_goes_another_way() {
    if support::again::is_emulated() {
        eprintln!("SKIPPED (an emulator makes its own calls): refused system calls");
        return;
    }
    let cases = Mutex::new(Case::all());
    let failures = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(case) = { cases.lock().expect("no panic").pop() } {
                    if let Err(failure) = case.run() {
                        failures.lock().expect("no panic").push(failure);
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().expect("no panic");
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Does nothing without [`CASE`]. With it, it ends the process.
#[test]
fn lives_with_a_refusal() {
    let Ok(case) = std::env::var(CASE) else {
        return;
    };
    std::panic::set_hook(Box::new(|panic| {
        tell(&format!("panic: {panic}"));
        end(PANICKED);
    }));
    let mut words = case.split(':');
    let mut word = || words.next().expect("three words");
    let (call, error) = (word(), word().parse().expect("a number"));
    let call = CALLS.iter().find(|(name, _)| *name == call);
    let confine = |whose| {
        if let Some((_, number)) = call
            && let Err(error) = refuse(*number, error, whose)
        {
            tell(&format!("{error}"));
            end(UNCONFINED);
        }
    };
    match word() {
        "Start" => {
            confine(Whose::Own);
            live(&|| {});
        }
        _ => live(&|| {
            // A thread that has not got through its first steps in the C library needs pages
            // there, and cannot report a refusal.
            until_thread_is_in_call(std::process::id(), "hythe-watcher", libc::SYS_ppoll);
            confine(Whose::All);
        }),
    }
    end(0);
}

/// Without the end of the test, which would wait and print.
fn end(status: i32) -> ! {
    std::process::exit(status)
}

/// As far as it is possible.
fn tell(text: &str) {
    let _ = std::io::stderr().write_all(text.as_bytes());
    let _ = std::io::stderr().write_all(b"\n");
}

/// Each step may fail, with a typed error; the next is tried all the same.
fn live(joined: &dyn Fn()) {
    let options = PoolOptions::new("test").bytes(16 << 20);
    let Some(pool) = done("open the pool", Pool::open_or_create(&options)) else {
        return;
    };
    let Some(node) = done("join", Node::join(&pool, "one")) else {
        return;
    };
    joined();
    // The other one opens the pool for itself.
    let other = done("open the pool again", Pool::open(&options));
    let other = other.and_then(|pool| done("join again", Node::join(&pool, "other")));
    messages(&node, other.as_ref().unwrap_or(&node));
    waits(&node);
    requests(&node, other.as_ref().unwrap_or(&node));
    let file = File::open("/proc/self/exe");
    if let (Ok(file), Some(mut lease)) = (file, done("lease for a file", node.lease(4096))) {
        let read = lease.read_file(file.as_fd(), 0, 0, 4096);
        done("read a file", read.map_err(|error| error.to_string()));
    }
    drop(other);
    drop(node);
    tell("left");
    done("remove", Pool::remove_by_force(&options));
}

fn done<T, E: std::fmt::Display>(what: &str, outcome: Result<T, E>) -> Option<T> {
    match outcome {
        Ok(value) => Some(value),
        Err(error) => {
            tell(&format!("{what}: {error}"));
            None
        }
    }
}

fn messages(from: &Node, to: &Node) -> Option<()> {
    let opened = to.subscriber("messages", &SubscriberOptions::default());
    let mut subscriber = done("subscribe", opened)?;
    let opened = from.publisher("messages", &PublisherOptions::default());
    let mut publisher = done("open a publisher", opened)?;
    for bytes in [8, 100_000] {
        let mut lease = done("lease", publisher.lease(bytes))?;
        lease.write(0, b"message!");
        done("publish", publisher.publish(lease, bytes));
    }
    for _ in 0..3 {
        done("take", subscriber.take(SHORT));
    }
    Some(())
}

fn waits(node: &Node) -> Option<()> {
    let event = EventId::new(3)?;
    let mut listener = done("listen", node.listener("events"))?;
    let mut notifier = done("open a notifier", node.notifier("events"))?;
    done("notify", notifier.notify(event));
    done("hear", listener.wait(SHORT));
    done("hear nothing", listener.wait(SHORT));
    let mut wait_set = done("make a wait set", node.wait_set())?;
    let (reader, mut writer) = done("make a pipe", std::io::pipe())?;
    done(
        "attach a file",
        wait_set.attach_fd(&reader, Interest::Readable),
    );
    done("attach a port", wait_set.attach(&mut listener));
    done("wait", wait_set.wait(SHORT));
    done("write", writer.write_all(b"x"));
    done("notify", notifier.notify(event));
    done("wait for both", wait_set.wait(SHORT));
    Some(())
}

fn requests(from: &Node, to: &Node) -> Option<()> {
    let mut server = done("serve", to.server("requests", &ServerOptions::default()))?;
    let opened = from.client("requests", &ClientOptions::default());
    let mut client = done("open a client", opened)?;
    let lease = done("lease a request", client.lease(8))?;
    let pending = done("send a request", client.request(lease, 8))?;
    let request: Result<_, NodeError> = server.take(SHORT);
    if let Some(request) = done("take a request", request)?
        && let Some(answer) = done("lease a reply", server.lease(8))
    {
        done("reply", request.reply(answer, 8));
    }
    done("wait for the reply", client.wait(pending, SHORT));
    Some(())
}
