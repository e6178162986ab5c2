//! Where a pool's memory is: touched or locked on joining, on huge pages, and refusals that name
//! the limit.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::player::{Player, own_role, say, until_told};
use crate::support::{Root, again, is_root};
use hythe_node::hop::{self, HopNode as _, HopPool as _};
use hythe_node::{
    CoreRegionPlan, GroupAccess, LinkPlace, Node, NodeError, Pool, PoolOptions, RegionIndex,
    SlotClass,
};
use hythe_testing::Turn;
use rustix::mm::{MlockAllFlags, mlockall};

/// Joins a pool that asks for locked memory, and says what becomes of it.
const LOCKER: &str = "locker";
/// Everything with huge pages, in a mount namespace of its own.
const HUGE: &str = "huge";
/// Locks all memory that it will have, and opens the pool.
const ALL_LOCKED: &str = "all locked";
/// Joins a pool that asks for its pages to be touched.
const TOUCHER: &str = "toucher";

/// Not a test of its own: the other process of the tests below.
#[test]
fn plays_its_role() {
    let Some(role) = own_role() else { return };
    let root = std::env::var_os("HYTHE_ROOT").expect("set by the test");
    match role.as_str() {
        LOCKER | TOUCHER => {
            // The test's, whoever plays.
            let found = std::fs::read_dir(&root).expect("there").flatten();
            let mut owners = found.filter_map(|entry| entry.file_name().into_string().ok());
            let owner = owners.find(|name| name.parse::<u32>().is_ok());
            let named = format!("{}/test", owner.expect("the test has made a pool"));
            let pool = Pool::open(&PoolOptions::new(&named)).expect("opens");
            let joined = Node::join(&pool, &role);
            say(&joined
                .as_ref()
                .map_or_else(ToString::to_string, |_| "joined".to_owned()));
            until_told();
        }
        ALL_LOCKED => {
            mlockall(MlockAllFlags::FUTURE).expect("nothing is locked yet");
            let owned = PoolOptions::new("test").owner(0);
            say(&Pool::open(&owned).expect_err("too large").to_string());
            until_told();
        }
        HUGE => with_huge_pages(Path::new(&root)),
        other => panic!("no role {other}"),
    }
}

/// A line of `/proc/PID/status` in KiB.
fn status_kib(pid: u32, line: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("runs");
    let found = status.lines().find_map(|found| found.strip_prefix(line));
    let number = found.and_then(|rest| rest.split_ascii_whitespace().nth(1));
    number.expect("a number").parse().expect("a number")
}

const SIZE: usize = 16 << 20;
const SIZE_KIB: u64 = 16 << 10;

#[test]
fn every_page_is_touched_on_joining_if_the_maker_asked_for_it() {
    for (asked, touched) in [(true, true), (false, false)] {
        let root = Root::new();
        Pool::create(&root.options().prefault(asked)).expect("made");
        let player = Player::start(&root, TOUCHER);
        assert_eq!(player.hear(), "joined");
        // In one of them, depending on the file system of the root.
        let mapped = ["RssShmem", "RssFile"].map(|line| status_kib(player.pid(), line));
        let mapped: u64 = mapped.iter().sum();
        assert_eq!(mapped >= SIZE_KIB * 9 / 10, touched, "{mapped} KiB");
        player.end();
    }
}

#[test]
fn every_page_is_locked_on_joining_if_the_maker_asked_for_it() {
    if !is_root("locking more memory than the limit") {
        return;
    }
    let root = Root::new();
    Pool::create(&root.options().lock(true)).expect("made");
    let player = Player::start(&root, LOCKER);
    assert_eq!(player.hear(), "joined");
    let locked = status_kib(player.pid(), "VmLck");
    assert!(locked >= SIZE_KIB * 9 / 10, "{locked} KiB");
    player.end();
}

#[test]
fn too_little_memory_to_lock_names_the_limit() {
    if !is_root("a user with a limit of locked memory") {
        return;
    }
    let root = Root::new();
    let options = root.options().group(0).group_access(GroupAccess::Write);
    Pool::create(&options.lock(true)).expect("made");
    let player = Player::start_limited(&root, LOCKER, 65534, 1 << 20);
    let said = player.hear();
    assert!(said.starts_with("cannot lock "), "{said}");
    assert!(
        said.contains("RLIMIT_MEMLOCK is 1048576 bytes") && said.contains("control"),
        "{said}"
    );
    player.end();
    let pool = Pool::open(&root.options()).expect("opens");
    assert_eq!(
        pool.control().tables().members().count(),
        0,
        "it took no record"
    );
}

/// For the kernel that is the same limit, and for mmap(2) `EAGAIN`, which says nothing to anybody.
#[test]
fn program_that_locks_all_memory_is_told_the_limit() {
    if !is_root("a user with a limit of locked memory") {
        return;
    }
    let root = Root::new();
    let options = root.options().group(0).group_access(GroupAccess::Write);
    Pool::create(&options).expect("made");
    let player = Player::start_limited(&root, ALL_LOCKED, 65534, 4 << 20);
    let said = player.hear();
    assert!(said.starts_with("cannot lock "), "{said}");
    assert!(
        said.contains("mlockall") && said.contains("RLIMIT_MEMLOCK is 4194304 bytes"),
        "{said}"
    );
    player.end();
}

#[test]
fn directory_that_is_no_hugetlbfs_mount_is_refused() {
    let root = Root::new();
    let refused = Pool::create(&root.options().huge_pages(root.path()));
    let error = refused.expect_err("not hugetlbfs").to_string();
    assert!(error.contains("not a hugetlbfs mount"), "{error}");
    let user = root.options().path().parent().expect("has one").to_owned();
    assert_eq!(std::fs::read_dir(user).map_or(0, Iterator::count), 0);
}

/// Whatever its owner writes there, nothing but a pool's file on huge pages is removed.
#[test]
fn record_of_another_place_removes_nothing_there() {
    let root = Root::new();
    drop(root.pool());
    let victim = root.path().join("hythe.victim");
    std::fs::write(&victim, "precious").expect("own");
    let directory = root.options().path();
    std::fs::remove_file(directory.join("region.0")).expect("own");
    let record = directory.join("region.0.at");
    for path in [
        victim.to_str().expect("plain"),
        "/etc/passwd",
        "hythe.x",
        "",
    ] {
        std::fs::write(&record, path).expect("own");
        let pool = Pool::open(&root.options()).expect("the control file is whole");
        let used = Node::join(&pool, "test").and_then(|node| node.lease(1).map(drop));
        assert!(
            matches!(used, Err(NodeError::Unsafe { .. })),
            "{path}: {used:?}"
        );
    }
    std::fs::write(&record, victim.to_str().expect("plain")).expect("own");
    let removed = Pool::remove_by_force(&root.options());
    assert!(removed.is_err(), "it cannot be removed wholly");
    assert_eq!(std::fs::read_to_string(victim).expect("there"), "precious");
}

/// As when its maker was refused the pool's group, or was killed before it wrote.
#[test]
fn unnamed_record_does_not_block_pool_removal() {
    let root = Root::new();
    let records: [(&str, &[u8]); 2] = [("region.3.at", b""), ("region.7.at", b"\0")];
    let add = || {
        drop(root.pool());
        for (name, bytes) in records {
            std::fs::write(root.options().path().join(name), bytes).expect("own");
        }
    };
    add();
    Pool::remove(&root.options()).expect("removed wholly");
    // One that says something is believed.
    add();
    let record = root.options().path().join("region.5.at");
    std::fs::write(record, "nonsense").expect("own");
    Pool::remove(&root.options()).expect_err("it may name a file");
}

/// Adds what a core would have: a region of 4 MiB of slots, and a link in a file of its own.
fn add_core_region(node: &Node) -> RegionIndex {
    let slots = SlotClass {
        slot_bytes: 64 << 10,
        count: 64,
        first: 0,
        offset: 0,
    };
    let plan = CoreRegionPlan {
        name: "board",
        bytes: CORE_BYTES,
        classes: &[slots],
        link: LinkPlace {
            bytes: LINK_BYTES,
            offset: 0,
        },
        segments: None,
    };
    node.add_core_region(&plan, CORE_BYTES).expect("added")
}

const CORE_BYTES: u64 = 4 << 20;
const LINK_BYTES: u32 = 256 << 10;

/// A line of this process' mapping of a file, in KiB: the sum over its parts.
fn mapping_kib(path: &Path, line: &str) -> u64 {
    let maps = std::fs::read_to_string("/proc/self/smaps").expect("own");
    let (mut sum, mut is_here) = (0, false);
    for found in maps.lines() {
        // The first line of a mapping begins with its addresses.
        let first = found.split_ascii_whitespace().next().unwrap_or_default();
        if !first.ends_with(':') {
            is_here = found.ends_with(path.to_str().expect("plain"));
        } else if is_here && first.strip_suffix(':') == Some(line) {
            let number = found.split_ascii_whitespace().nth(1).expect("a number");
            sum += number.parse::<u64>().expect("a number");
        }
    }
    sum
}

/// The mappings of a core's region and link, by a process that joined a pool made with `options`:
/// the sum of that line, in KiB.
fn core_kib(options: &PoolOptions, line: &str) -> [u64; 2] {
    let pool = Pool::open_or_create(options).expect("made");
    let node = Node::join(&pool, "test").expect("joins");
    let region = add_core_region(&node);
    drop(pool.map_link(region).expect("there"));
    drop(node.lease_in(region, 1).expect("free"));
    let link = pool.path().join(format!("link.{}", region.0));
    [pool.region_path(region), link].map(|path| mapping_kib(&path, line))
}

const CORE_KIB: [u64; 2] = [CORE_BYTES >> 10, LINK_BYTES as u64 >> 10];

#[test]
fn every_page_of_a_core_s_region_is_touched_where_it_is_mapped() {
    if again::is_emulated() {
        eprintln!("SKIPPED (the emulator shows no mappings of its guest): a core's region");
        return;
    }
    let root = Root::new();
    assert_eq!(core_kib(&root.options().prefault(true), "Rss"), CORE_KIB);
    let root = Root::new();
    let [region, link] = core_kib(&root.options(), "Rss");
    assert!(region < CORE_KIB[0] / 2, "{region} KiB without being asked");
    assert!(link < CORE_KIB[1] / 2, "{link} KiB without being asked");
}

#[test]
fn every_page_of_a_core_s_region_is_locked_where_it_is_mapped() {
    if !is_root("locking more memory than the limit") {
        return;
    }
    if again::is_emulated() {
        eprintln!("SKIPPED (the emulator shows no mappings of its guest): a core's region");
        return;
    }
    let root = Root::new();
    assert_eq!(core_kib(&root.options().lock(true), "Locked"), CORE_KIB);
    let root = Root::new();
    assert_eq!(core_kib(&root.options(), "Locked"), [0, 0]);
}

const COUNTER: &str = "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages";

/// Huge pages for the time of a test.
struct HugePages {
    before: u64,
    /// Another test would take them for its own, or take them away.
    _turn: Turn,
}

impl HugePages {
    fn reserve(pages: u64) -> Option<Self> {
        let turn = Turn::take("huge-pages");
        let count =
            || -> Option<u64> { std::fs::read_to_string(COUNTER).ok()?.trim().parse().ok() };
        let before = count()?;
        std::fs::write(COUNTER, (before + pages).to_string()).ok()?;
        let reserved = Self {
            before,
            _turn: turn,
        };
        (count()? == before + pages).then_some(reserved)
    }
}

impl Drop for HugePages {
    fn drop(&mut self) {
        let _ = std::fs::write(COUNTER, self.before.to_string());
    }
}

#[test]
fn slots_on_huge_pages() {
    if !is_root("huge pages") {
        return;
    }
    if again::is_emulated() {
        eprintln!(
            "SKIPPED (the emulator maps at addresses where no huge page begins): slots on huge pages"
        );
        return;
    }
    let Some(_pages) = HugePages::reserve(12) else {
        eprintln!("SKIPPED (this machine gives no huge pages): slots on huge pages");
        return;
    };
    let root = Root::new();
    let place = root.path().with_extension("huge");
    std::fs::create_dir(&place).expect("a fresh directory");
    let player = Player::start_in_container(&root, HUGE, &place);
    assert_eq!(player.hear(), "done");
    player.end();
    std::fs::remove_dir(place).expect("own");
}

fn mount_huge(place: &Path) {
    std::fs::create_dir(place).expect("a fresh directory");
    let mounted = Command::new("mount")
        .args(["-t", "hugetlbfs", "none"])
        .arg(place)
        .status();
    assert!(mounted.expect("started").success());
}

fn names(place: &Path) -> Vec<PathBuf> {
    let found = std::fs::read_dir(place).expect("there");
    found.map(|entry| entry.expect("read").path()).collect()
}

/// In a namespace where mounts are nobody else's business.
fn with_huge_pages(root: &Path) {
    let mount = root.join("mount");
    mount_huge(&mount);
    let options = PoolOptions::new("test").bytes(SIZE).huge_pages(&mount);
    Pool::create(&options).expect("made");
    assert_eq!(names(&mount).len(), 1);
    // Who opens it need not know.
    let plain = PoolOptions::new("test");
    let pool = Pool::open(&plain).expect("opens");
    let node = Node::join(&pool, "test").expect("joins");
    let mut lease = node.lease(1 << 20).expect("free");
    lease.write(0, &[7; 1 << 20]);
    let mut read = [0; 10];
    lease.read((1 << 20) - 10, &mut read);
    assert_eq!(read, [7; 10]);
    let maps = std::fs::read_to_string("/proc/self/smaps").expect("own");
    let huge = maps.split("KernelPageSize:").skip(1);
    assert!(
        huge.map(str::trim_start)
            .any(|size| size.starts_with("2048 kB"))
    );
    too_few_pages(&mount);
    cards(&mount, &node);
    elsewhere(&mount, &pool);
    // The mount stays busy for as long as anything of it is mapped.
    drop((lease, node, pool));
    Pool::remove(&plain).expect("nobody is there");
    assert_eq!(names(&mount).len(), 0, "left behind on the mount");
    let unmounted = Command::new("umount").arg(&mount).status();
    assert!(unmounted.expect("started").success());
    std::fs::remove_dir(&mount).expect("own");
    say("done");
    until_told();
}

fn too_few_pages(mount: &Path) {
    let large = PoolOptions::new("large").bytes(256 << 20).huge_pages(mount);
    let refused = Pool::create(&large).expect_err("there are not so many");
    assert!(
        matches!(refused, NodeError::NoHugePages { needed, free, total, page_kib: 2048, .. }
            if needed > total && free < total),
        "{refused:?}"
    );
    assert!(refused.to_string().contains("nr_hugepages"), "{refused}");
    assert_eq!(names(mount).len(), 1, "half a region is left");
    assert_eq!(Pool::list(&large).expect("listed"), ["test"]);
}

/// The region for network cards is where the slots are, or not made.
fn cards(mount: &Path, node: &Node) {
    // As many as there are, so that none is left.
    let free = || -> u64 {
        let text = std::fs::read_to_string(COUNTER.replace("nr_", "free_")).expect("counted");
        text.trim().parse().expect("a number")
    };
    let all = std::fs::File::create(mount.join("all")).expect("made");
    let reserve = |pages: u64| {
        let none = rustix::fs::FallocateFlags::empty();
        rustix::fs::fallocate(&all, none, 0, pages * (2 << 20))
    };
    // Others may take one meanwhile.
    let is_taken = reserve(free()).or_else(|_| reserve(free()));
    is_taken.expect("they are free");
    let refused = hop::card_region(node.participant()).expect_err("too few");
    assert!(
        matches!(
            refused,
            NodeError::NoHugePages {
                needed: 2,
                page_kib: 2048,
                ..
            }
        ),
        "{refused:?}"
    );
    assert!(refused.to_string().contains("nr_hugepages"), "{refused}");
    assert_eq!(names(mount).len(), 2, "half a region is left");
    drop(all);
    std::fs::remove_file(mount.join("all")).expect("own");
    let card = hop::card_region(node.participant()).expect("made");
    let lies_on = rustix::fs::fstatfs(&card.file).expect("open");
    assert_eq!(lies_on.f_bsize, 2 << 20, "its pages are huge");
    assert_eq!(names(mount).len(), 2);
    let mut lease = node.lease_in(card.index, 30_000).expect("free");
    lease.write(29_999, &[9]);
    let sample = lease.freeze(30_000);
    let (_, offset) = hop::place_of(&sample);
    let mut byte = [0];
    rustix::io::pread(&card.file, &mut byte, offset + 29_999).expect("read");
    assert_eq!(byte, [9]);
}

/// Another mount of the same files: as a container sees them at another place.
fn elsewhere(mount: &Path, pool: &Pool) {
    let other = mount.with_extension("other");
    std::fs::create_dir(&other).expect("a fresh directory");
    let bound = Command::new("mount")
        .arg("--bind")
        .args([mount, &other])
        .status();
    assert!(bound.expect("started").success());
    let record = pool.path().join("region.0.at");
    let before = std::fs::read(&record).expect("own");
    let name = Path::new(std::str::from_utf8(&before).expect("plain"))
        .file_name()
        .expect("has one");
    // As the maker saw it, where there is nothing here.
    let missing = Path::new("/missing").join(name);
    std::fs::write(&record, missing.to_str().expect("plain")).expect("own");
    let plain = Pool::open(&PoolOptions::new("test")).expect("opens");
    let failed = Node::join(&plain, "test").and_then(|node| node.lease(1).map(drop));
    assert!(failed.is_err(), "found without its mount");
    let told = PoolOptions::new("test").huge_pages(&other);
    let pool = Pool::open(&told).expect("opens");
    let node = Node::join(&pool, "test").expect("joins");
    drop(node.lease(10).expect("free"));
    drop((node, pool, plain));
    std::fs::write(&record, before).expect("own");
    let unmounted = Command::new("umount").arg(&other).status();
    assert!(unmounted.expect("started").success());
    std::fs::remove_dir(&other).expect("own");
}
