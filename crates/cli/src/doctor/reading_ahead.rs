//! What `hythe preload` finds out and decides by: which files are opened, which pages are there,
//! how short memory is, who reads first.
//!
//! Everything is tried as `hythe preload` uses it; what is missing here makes packs or verdicts
//! less exact, never wrong.

use std::fs::{self, File};
use std::thread;

use hythe_sys::fanotify::{Group as Events, Queue};
use hythe_sys::io_priority::{IoClass, set_io_priority};
use hythe_sys::residency::cache_state;

use super::kernel::read;
use super::{Group, Probe};

/// Schedulers of block devices that look at priorities.
const HEEDING: [&str; 2] = ["bfq", "mq-deadline"];

pub(super) fn probe() -> Vec<Probe> {
    vec![
        fanotify(),
        cachestat(),
        tracefs(),
        page_flags(),
        pressure(),
        io_priority(),
    ]
}

fn fanotify() -> Probe {
    let name = "fanotify";
    match Events::new(Queue::Unlimited) {
        Ok(_) => Probe::works(
            Group::Storage,
            name,
            "hythe preload record learns which files are opened",
        ),
        Err(error) => Probe::missing(
            Group::Storage,
            name,
            format!("hythe preload record cannot work: {error}"),
        )
        .enable("run as root, on a kernel with CONFIG_FANOTIFY"),
    }
}

fn cachestat() -> Probe {
    let name = "cachestat";
    let asked = File::open("/proc/self/exe").and_then(|file| cache_state(&file, 0..1));
    match asked {
        Ok(_) => Probe::works(
            Group::Storage,
            name,
            "tells which pages were needed and thrown out again",
        ),
        Err(error) => {
            let detail = format!(
                "{error}; recordings have what mincore finds at the end, and what tracefs tells"
            );
            Probe::missing(Group::Storage, name, detail)
                .enable("Linux 6.5, or mount tracefs, which tells it too")
        }
    }
}

fn tracefs() -> Probe {
    let name = "tracefs";
    let mounts = read("/proc/mounts").unwrap_or_default();
    let mut fields = mounts.lines().map(|line| line.split(' ').skip(1));
    let place = fields.find_map(|mut fields| {
        let place = fields.next()?;
        (fields.next()? == "tracefs").then(|| place.to_owned())
    });
    let how = "mount -t tracefs t /sys/kernel/tracing, as root";
    let Some(place) = place else {
        let detail =
            "not mounted: within a file, packs have ascending order instead of that of need";
        return Probe::missing(Group::Storage, name, detail).enable(how);
    };
    match fs::metadata(format!(
        "{place}/events/filemap/mm_filemap_add_to_page_cache"
    )) {
        Ok(_) => Probe::works(
            Group::Storage,
            name,
            format!("{place} tells in which order pages are needed"),
        ),
        Err(error) => Probe::missing(
            Group::Storage,
            name,
            format!("{place} does not tell which pages are needed: {error}"),
        )
        .enable("run as root, on a kernel with CONFIG_EVENT_TRACING"),
    }
}

fn page_flags() -> Probe {
    let name = "page flags";
    match File::open("/proc/kpageflags") {
        Ok(_) => Probe::works(
            Group::Storage,
            name,
            "hythe preload finish tells used pages from unused ones",
        ),
        Err(error) => {
            let detail = format!(
                "/proc/kpageflags: {error}; which pages were used is not known, only which are there"
            );
            Probe::missing(Group::Storage, name, detail)
                .enable("run as root, on a kernel with CONFIG_PROC_PAGE_MONITOR")
        }
    }
}

fn pressure() -> Probe {
    let name = "memory pressure";
    match fs::read_to_string("/proc/pressure/memory") {
        Ok(_) => Probe::works(
            Group::Storage,
            name,
            "PSI: reading ahead stops when others wait for memory",
        ),
        Err(error) => {
            let detail = format!("PSI: {error}; reading ahead stops by free memory alone");
            Probe::missing(Group::Storage, name, detail)
                .enable("a kernel with CONFIG_PSI, and psi=1 on its command line")
        }
    }
}

/// A thread enters the first class and ends; whether anybody looks at that depends on the devices.
fn io_priority() -> Probe {
    let name = "I/O priorities";
    let how = "run as root, and write mq-deadline or bfq to /sys/block/DEVICE/queue/scheduler";
    // The class is the thread's own, so it ends with it.
    let entered = thread::spawn(|| set_io_priority(IoClass::Realtime, 7)).join();
    let devices: Vec<(String, String)> = schedulers();
    let heeding: Vec<&str> = devices
        .iter()
        .filter(|(_, scheduler)| HEEDING.contains(&scheduler.as_str()))
        .map(|(device, _)| device.as_str())
        .collect();
    match entered {
        Ok(Ok(())) if !heeding.is_empty() => Probe::works(
            Group::Storage,
            name,
            format!(
                "a thread entered the first class; {} heed it",
                heeding.join(", ")
            ),
        ),
        Ok(Ok(())) => Probe::missing(
            Group::Storage,
            name,
            "a thread entered the first class, and no disk has a scheduler that heeds it",
        )
        .enable(how),
        Ok(Err(error)) => Probe::missing(
            Group::Storage,
            name,
            format!("a thread may not enter the first class: {error}"),
        )
        .enable(how),
        Err(_) => Probe::unknown(Group::Storage, name, "the thread that tried it panicked"),
    }
}

/// Each block device, and its scheduler.
fn schedulers() -> Vec<(String, String)> {
    let devices = fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let mut all: Vec<_> = devices
        .filter_map(|device| {
            let path = device.path().join("queue/scheduler");
            let chosen = chosen(&read(path.to_str()?)?)?.to_owned();
            Some((device.file_name().into_string().ok()?, chosen))
        })
        .collect();
    all.sort();
    all
}

/// The one in brackets, of `none [mq-deadline] bfq`.
fn chosen(line: &str) -> Option<&str> {
    line.split(' ')
        .find_map(|word| word.strip_prefix('[')?.strip_suffix(']'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scheduler_in_brackets_is_chosen() {
        assert_eq!(chosen("none [mq-deadline] bfq"), Some("mq-deadline"));
        assert_eq!(chosen("[none]"), Some("none"));
        assert_eq!(chosen("none"), None);
    }
}
