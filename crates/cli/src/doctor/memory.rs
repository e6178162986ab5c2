//! Where pools live: shared memory, huge pages, the limit on locked memory.

use std::fs;

use rustix::fs::{
    FallocateFlags, MemfdFlags, StatVfs, StatVfsMountFlags, fallocate, memfd_create, statvfs,
};
use rustix::process::{Resource, getrlimit};

use super::kernel::{Capability, has, read, size};
use super::{Group, Probe};

const SHARED_MEMORY: &str = "/dev/shm";
/// The default pool: `min(64 MiB, RAM / 8)`.
const DEFAULT_POOL_BYTES: u64 = 64 << 20;

pub(super) fn probe() -> Vec<Probe> {
    vec![shared_memory(), huge_pages(), locked_memory()]
}

fn shared_memory() -> Probe {
    match statvfs(SHARED_MEMORY) {
        Ok(figures) => room(&figures),
        Err(error) => {
            let detail = format!("cannot be used: {error}");
            Probe::missing(Group::Memory, SHARED_MEMORY, detail)
                .enable("mount -t tmpfs tmpfs /dev/shm")
        }
    }
}

/// Of the file system with these figures.
fn room(figures: &StatVfs) -> Probe {
    let group = Group::Memory;
    // As in a container whose root is read-only. Root cannot write then either.
    if figures.f_flag.contains(StatVfsMountFlags::RDONLY) {
        return Probe::missing(
            group,
            SHARED_MEMORY,
            "is read-only: no pool can be made there",
        )
        .enable("mount -o remount,rw /dev/shm (in a container: --tmpfs /dev/shm)");
    }
    let total = figures.f_blocks * figures.f_frsize;
    let free = figures.f_bavail * figures.f_frsize;
    let detail = format!("{} of {} are free", size(free), size(total));
    if free < DEFAULT_POOL_BYTES {
        let detail = format!(
            "{detail}, less than the default pool of {}",
            size(DEFAULT_POOL_BYTES)
        );
        return Probe::missing(group, SHARED_MEMORY, detail)
            .enable("mount -o remount,size=256m /dev/shm (in a container: --shm-size=256m)");
    }
    Probe::works(group, SHARED_MEMORY, detail)
}

/// Takes one huge page for a moment.
fn huge_pages() -> Probe {
    let (group, name) = (Group::Memory, "huge pages");
    let how = "sysctl vm.nr_hugepages=64 (at boot: hugepages=64), and mount -t hugetlbfs for `hythe pool create --huge-pages`";
    let Some(bytes) = huge_page_bytes() else {
        return Probe::missing(
            group,
            name,
            "the kernel has no hugetlbfs (CONFIG_HUGETLBFS)",
        );
    };
    let taken = memfd_create("hythe-doctor", MemfdFlags::HUGETLB | MemfdFlags::CLOEXEC)
        .and_then(|file| fallocate(&file, FallocateFlags::empty(), 0, bytes));
    match taken {
        Ok(()) => {
            let reserved = read("/proc/sys/vm/nr_hugepages").unwrap_or_else(|| "some".into());
            let mounts = mounts();
            let place = if mounts.is_empty() {
                "nowhere"
            } else {
                &mounts
            };
            let detail = format!(
                "a page of {} was taken; {reserved} are reserved; hugetlbfs is mounted {place}",
                size(bytes)
            );
            Probe::works(group, name, detail)
        }
        Err(error) => {
            let reserved = read("/proc/sys/vm/nr_hugepages").unwrap_or_else(|| "unknown".into());
            let detail = format!(
                "no page of {} to be had ({error}); reserved pages: {reserved}",
                size(bytes)
            );
            Probe::missing(group, name, detail).enable(how)
        }
    }
}

/// The default size of huge pages.
fn huge_page_bytes() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("Hugepagesize:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    (fs::metadata("/sys/kernel/mm/hugepages").is_ok() && kib > 0).then_some(kib << 10)
}

/// Where hugetlbfs is mounted.
fn mounts() -> String {
    let text = fs::read_to_string("/proc/mounts").unwrap_or_default();
    let places = text.lines().filter_map(|line| {
        let mut fields = line.split(' ').skip(1);
        let place = fields.next()?;
        (fields.next()? == "hugetlbfs").then(|| format!("on {place}"))
    });
    places.collect::<Vec<_>>().join(", ")
}

fn locked_memory() -> Probe {
    let (group, name) = (Group::Memory, "locked memory");
    let limit = getrlimit(Resource::Memlock).current;
    let text = limit.map_or_else(|| "unlimited".into(), size);
    if has(Capability::IpcLock) {
        return Probe::works(
            group,
            name,
            format!("limit {text}, of no effect with CAP_IPC_LOCK"),
        );
    }
    match limit {
        Some(bytes) if bytes < DEFAULT_POOL_BYTES => {
            let detail = format!(
                "limit {text}, less than a pool of {}",
                size(DEFAULT_POOL_BYTES)
            );
            Probe::missing(group, name, detail)
                .enable("a line \"USER - memlock unlimited\" in /etc/security/limits.conf")
        }
        _ => Probe::works(group, name, format!("limit {text}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Status;

    #[test]
    fn shared_memory_that_is_read_only_is_missing() {
        let mut figures = statvfs("/").expect("figures of a file system");
        (figures.f_bavail, figures.f_frsize) = (DEFAULT_POOL_BYTES, 1);
        figures.f_flag = StatVfsMountFlags::NOSUID;
        assert_eq!(room(&figures).status, Status::Works);
        figures.f_flag |= StatVfsMountFlags::RDONLY;
        let probe = room(&figures);
        assert_eq!(probe.status, Status::Missing);
        assert!(probe.detail.contains("read-only"), "{}", probe.detail);
        figures.f_flag = StatVfsMountFlags::empty();
        figures.f_bavail -= 1;
        assert_eq!(room(&figures).status, Status::Missing, "too little");
    }
}
