//! Segments of Linux processes: by key and id, page by page, refused, forked, killed.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::support::World;
use hythe_abi::segments::{FILE_BYTES, RECORD_BYTES, record};
use hythe_memory::Access;
use hythe_node::hop::HopNode as _;
use hythe_node::{CoreRegionPlan, LinkPlace, Node, Pool, SegmentPlace, SlotClass};
use hythe_rtcore::segment::{Attached, SegmentError, Segments, call_at_each_step};
use hythe_sys::fork::run_in_child;
use hythe_sys::system_v::{self, CREATE, EXCLUSIVE, PRIVATE};
use hythe_testing::Dice;
use rustix::io::Errno;

const AREA: u64 = 1 << 20;
const PAGE: usize = 4096;

/// A child that one test forks has what all tests of this process have attached, and the kernel
/// counts it: so one test at a time.
static ALONE: Mutex<()> = Mutex::new(());

/// A pool with an area of segments, without a core. What is left in it goes with it.
struct Fixture {
    world: World,
    segments: Segments,
    _alone: MutexGuard<'static, ()>,
}

impl Fixture {
    fn new() -> Self {
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let world = World::new();
        let node = Node::join(&world.pool, "agent").expect("joins");
        let slots = [SlotClass {
            slot_bytes: 1024,
            count: 4,
            first: 0,
            offset: 0,
        }];
        let plan = CoreRegionPlan {
            name: "core",
            bytes: 4096,
            classes: &slots,
            link: LinkPlace {
                bytes: 4096,
                offset: 0,
            },
            segments: Some(SegmentPlace {
                offset: AREA,
                bytes: AREA,
            }),
        };
        node.add_core_region(&plan, 2 * AREA).expect("added");
        let segments = Segments::open(&world.pool, None).expect("opens");
        Self {
            world,
            segments,
            _alone: alone,
        }
    }

    fn make(&self, bytes: usize) -> Result<i32, SegmentError> {
        self.segments.get(PRIVATE, bytes, CREATE | 0o600)
    }

    fn attach(&self, id: i32) -> Attached {
        self.segments
            .attach(id, Access::Write, None)
            .expect("attached")
    }

    fn free_bytes(&self) -> u64 {
        self.segments.list().expect("listed")[0].free_bytes
    }

    fn ids(&self) -> Vec<i32> {
        let listed = self.segments.list().expect("listed").remove(0);
        listed.segments.iter().map(|found| found.id).collect()
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        let listed = self.segments.list().unwrap_or_default();
        for found in listed.iter().flat_map(|board| &board.segments) {
            let _ = self.segments.remove(found.id);
        }
    }
}

/// A key that no other test of this machine has.
fn key() -> i32 {
    static NEXT: AtomicI32 = AtomicI32::new(1);
    let number = NEXT.fetch_add(1, Ordering::Relaxed) << 24;
    0x4000_0000 | number ^ std::process::id().cast_signed() & 0xFF_FFFF
}

fn pattern(bytes: usize, seed: u8) -> Vec<u8> {
    (0..bytes).map(|at| seed.wrapping_add(at as u8)).collect()
}

fn fill(attached: &Attached, seed: u8) {
    attached.write(0, &pattern(attached.len(), seed));
}

fn contents(attached: &Attached) -> Vec<u8> {
    let mut bytes = vec![0xFF; attached.len()];
    attached.read(0, &mut bytes);
    bytes
}

fn holds(attached: &Attached, seed: u8) -> bool {
    contents(attached) == pattern(attached.len(), seed)
}

fn is_zeroed(attached: &Attached) -> bool {
    contents(attached).iter().all(|byte| *byte == 0)
}

#[test]
fn one_key_is_one_segment_whatever_its_size() {
    let fixture = Fixture::new();
    for bytes in [1, PAGE - 1, PAGE, PAGE + 1, AREA as usize] {
        let key = key();
        let id = fixture.segments.get(key, bytes, CREATE | EXCLUSIVE | 0o600);
        let id = id.expect("made");
        assert_eq!(fixture.segments.get(key, 0, 0).expect("found"), id);
        let other = Segments::open(&fixture.world.pool, Some("core")).expect("opens");
        assert_eq!(other.get(key, bytes, CREATE | 0o600).expect("found"), id);
        let (one, two) = (fixture.attach(id), fixture.attach(id));
        assert_eq!((one.len(), one.address() % PAGE), (bytes, 0));
        assert!(is_zeroed(&one), "{bytes}");
        fill(&one, 7);
        assert!(holds(&two, 7), "{bytes}");
        let status = fixture.segments.status(id).expect("status");
        assert_eq!(
            (status.attached, status.bytes, status.mode),
            (2, bytes, 0o600)
        );
        // Removed, it is attached still, and another may have the key.
        fixture.segments.remove(id).expect("removed");
        assert!(holds(&two, 7));
        let missing = fixture.segments.get(key, 0, 0).expect_err("removed");
        assert_eq!(missing.errno(), Errno::NOENT.raw_os_error());
        assert_eq!(fixture.ids(), [id]);
        drop((one, two));
        assert_eq!((fixture.ids(), fixture.free_bytes()), (vec![], AREA));
    }
}

#[test]
fn bytes_outside_of_a_segments_pages_are_refused_at_each_edge() {
    let fixture = Fixture::new();
    let id = fixture.make(PAGE + 1).expect("made");
    let attached = fixture.attach(id);
    let read_only = fixture.segments.attach(id, Access::Read, None);
    let read_only = read_only.expect("attached");
    let pages = 2 * PAGE;
    let does = |access: &dyn Fn()| catch_unwind(AssertUnwindSafe(access)).is_ok();
    for (at, bytes, is_inside) in [
        (0, pages, true),
        (pages - 1, 1, true),
        (pages, 0, true),
        (0, pages + 1, false),
        (1, pages, false),
        (pages, 1, false),
        (pages + 1, 0, false),
        (usize::MAX, 0, false),
        (usize::MAX, 2, false),
        (usize::MAX - pages + 1, pages, false),
    ] {
        let reads = does(&|| attached.read(at, &mut vec![0; bytes]));
        assert_eq!(reads, is_inside, "{bytes} bytes read at {at}");
        let writes = does(&|| attached.write(at, &vec![7; bytes]));
        assert_eq!(writes, is_inside, "{bytes} bytes written at {at}");
        let reads = does(&|| read_only.read(at, &mut vec![0; bytes]));
        assert_eq!(reads, is_inside, "{bytes} bytes read at {at}");
    }
    assert!(!does(&|| read_only.write(0, &[7])), "for reading only");
}

#[test]
fn each_refusal_has_the_number_of_the_system_s_own_call() {
    let fixture = Fixture::new();
    let segments = &fixture.segments;
    let number = |error: SegmentError| Errno::from_raw_os_error(error.errno());
    let taken = key();
    let id = segments.get(taken, 5000, CREATE | 0o600).expect("made");
    let get = |key, bytes, flags| number(segments.get(key, bytes, flags).expect_err("refused"));
    assert_eq!(get(taken, 1, CREATE | EXCLUSIVE | 0o600), Errno::EXIST);
    assert_eq!(get(taken, 5001, 0), Errno::INVAL);
    assert_eq!(get(key(), 1, 0), Errno::NOENT);
    assert_eq!(get(PRIVATE, 0, CREATE), Errno::INVAL);
    assert_eq!(get(PRIVATE, AREA as usize + 1, CREATE), Errno::INVAL);
    assert_eq!(get(PRIVATE, AREA as usize, CREATE), Errno::NOSPC);
    // A segment of the kernel alone has the key.
    let plain_key = key();
    let plain = system_v::open(plain_key, 1, CREATE | 0o600).expect("made");
    let refused = segments
        .get(plain_key, 1, CREATE | 0o600)
        .expect_err("plain");
    assert!(
        refused.to_string().contains(&format!("ipcrm -m {plain}")),
        "{refused}"
    );
    assert_eq!(number(refused), Errno::EXIST);
    assert!(!segments.knows(plain).expect("read") && segments.knows(id).expect("read"));
    let attach = |id, at| number(segments.attach(id, Access::Write, at).expect_err("refused"));
    assert_eq!(attach(plain, None), Errno::INVAL);
    assert_eq!(attach(-1, None), Errno::INVAL);
    assert_eq!(attach(id, Some(PAGE + 1)), Errno::INVAL);
    let attached = fixture.attach(id);
    assert_eq!(attach(id, Some(attached.address())), Errno::INVAL);
    system_v::remove(plain).expect("removed");
    assert_eq!(
        number(segments.remove(plain).expect_err("gone")),
        Errno::INVAL
    );
    assert_eq!(
        number(segments.status(plain).expect_err("gone")),
        Errno::INVAL
    );
    let none = Segments::open(&fixture.world.pool, Some("other")).expect_err("no such core");
    assert!(none.to_string().contains("`other`"), "{none}");
    // What was refused has changed nothing.
    assert_eq!(fixture.ids(), [id]);
    assert_eq!(fixture.free_bytes(), AREA - 2 * PAGE as u64);
}

#[test]
fn address_that_is_free_is_taken() {
    let fixture = Fixture::new();
    let id = fixture.make(PAGE).expect("made");
    let free = fixture.attach(id).address();
    let at = fixture.segments.attach(id, Access::Read, Some(free));
    let at = at.expect("attached there");
    assert_eq!((at.address(), at.is_read_only()), (free, true));
}

#[test]
fn full_is_said_with_the_largest_piece_and_128_are_the_limit() {
    let fixture = Fixture::new();
    let id = fixture.make(AREA as usize - PAGE).expect("made");
    let refused = fixture.make(2 * PAGE).expect_err("full").to_string();
    for word in ["8192 bytes", "`core`", "4096 bytes free", "piece 4096"] {
        assert!(refused.contains(word), "no {word} in {refused}");
    }
    fixture.segments.remove(id).expect("removed");
    let made: Vec<i32> = (0..128).map(|_| fixture.make(1).expect("made")).collect();
    let refused = fixture.make(1).expect_err("no record");
    assert_eq!(refused.errno(), Errno::NOSPC.raw_os_error());
    assert!(refused.to_string().contains("128"), "{refused}");
    assert_eq!(fixture.ids(), made);
}

#[test]
fn forked_children_are_counted_until_they_end_however_they_do() {
    let fixture = Fixture::new();
    let id = fixture.make(PAGE).expect("made");
    let attached = fixture.attach(id);
    let count = || system_v::status(id).expect("there").attached;
    for dies in [false, true] {
        let ended = run_in_child(|| {
            if count() != 2 {
                return 1;
            }
            fill(&attached, 9);
            if dies {
                kill_self();
            }
            // The child's own: the parent's stays.
            i32::from(fixture.segments.attach(id, Access::Write, None).is_err())
        });
        assert_eq!(ended.expect("forked"), if dies { 128 + 9 } else { 0 });
        assert!(holds(&attached, 9));
        assert_eq!(count(), 1, "the child is gone");
    }
    // Another program has none of it.
    let mut other = std::process::Command::new("sleep");
    let mut other = other.arg("600").spawn().expect("sleep");
    while std::fs::read_to_string(format!("/proc/{}/comm", other.id()))
        .is_ok_and(|it| it != "sleep\n")
    {
        std::thread::yield_now();
    }
    assert_eq!(count(), 1);
    other.kill().expect("killed");
    other.wait().expect("reaped");
    fixture.segments.remove(id).expect("removed");
    drop(attached);
    assert_eq!(fixture.free_bytes(), AREA);
}

/// Steps of making that are left to this process; 0: all.
static STEPS_LEFT: AtomicU32 = AtomicU32::new(0);

#[test]
fn kernels_segments_go_with_the_pool() {
    let fixture = Fixture::new();
    let key = key();
    let idle = fixture.segments.get(key, PAGE, CREATE | 0o600);
    let idle = idle.expect("made");
    let used = fixture.make(PAGE).expect("made");
    let attached = fixture.attach(used);
    fill(&attached, 3);
    // Who may use the pool may name any segment in its table.
    let other = system_v::open(PRIVATE, PAGE, CREATE | 0o600).expect("a plain one");
    touch(other);
    forge(&fixture, other);

    Pool::remove_by_force(&fixture.world.options).expect("removed");
    let kept = system_v::status(other).map(|status| status.is_removed);
    system_v::remove(other).expect("own");
    assert!(!kept.expect("there"), "another's bytes went with the pool");
    let gone = system_v::status(idle).expect_err("it went with the pool");
    assert_eq!(gone.raw_os_error(), Some(Errno::INVAL.raw_os_error()));
    let left = system_v::status(used).expect("attached still");
    assert!(left.is_removed, "it goes with its last attachment");
    assert!(holds(&attached, 3));
}

/// Writes into a segment of the kernel.
fn touch(id: i32) {
    let write = format!("shmwrite({id}, 'x', 0, 1) or die $!");
    let ended = Command::new("perl").args(["-e", &write]).status();
    assert!(ended.expect("perl").success());
}

/// Writes a segment of one page into the last record of the table.
fn forge(fixture: &Fixture, id: i32) {
    let mut forged = [0; RECORD_BYTES];
    for (at, word) in [
        (record::STATE, 2),
        (record::ID, id.cast_unsigned()),
        (record::KEY, PRIVATE.cast_unsigned()),
        (record::PAGES, 1),
        (record::SEGMENT_BYTES, PAGE as u32),
    ] {
        forged[at..at + 4].copy_from_slice(&word.to_le_bytes());
    }
    let files = fixture.world.files();
    let table = files.iter().find(|name| name.starts_with("segments."));
    let path = fixture.world.pool.path().join(table.expect("a table"));
    let file = File::options().write(true).open(path).expect("own");
    let at = FILE_BYTES - RECORD_BYTES;
    file.write_all_at(&forged, at as u64).expect("own");
}

fn kill_self() {
    let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
}

fn die_at_the_last_step() {
    let left = STEPS_LEFT.load(Ordering::Relaxed);
    if left > 0 {
        STEPS_LEFT.store(left - 1, Ordering::Relaxed);
        if left == 1 {
            kill_self();
        }
    }
}

#[test]
fn killed_maker_leaves_nothing_or_whole_segment() {
    call_at_each_step(die_at_the_last_step);
    let fixture = Fixture::new();
    let mut kills = 0;
    for is_private in [false, true] {
        for steps in 1.. {
            let key = if is_private { PRIVATE } else { key() };
            let ended = run_in_child(|| {
                STEPS_LEFT.store(steps, Ordering::Relaxed);
                i32::from(fixture.segments.get(key, 5000, CREATE | 0o600).is_err())
            });
            match ended.expect("forked") {
                0 => break,
                137 => kills += 1,
                other => panic!("ended with {other} at step {steps}"),
            }
            let ids = fixture.ids();
            let kernel = system_v::list().into_iter();
            // Private ones of other programs may have that size as well.
            let left = kernel.filter(|(id, status)| {
                status.key == key && status.bytes == 5000 && !ids.contains(id)
            });
            if !is_private {
                assert_eq!(left.count(), 0, "step {steps}: a segment without a record");
            }
            match ids.as_slice() {
                [] => assert_eq!(fixture.free_bytes(), AREA, "step {steps}"),
                [id] => {
                    assert_eq!(fixture.attach(*id).len(), 5000);
                    fixture.segments.remove(*id).expect("removed");
                }
                more => panic!("step {steps}: {more:?}"),
            }
        }
        for id in fixture.ids() {
            fixture.segments.remove(id).expect("removed");
        }
    }
    assert!(kills >= 8, "{kills} kills");
}

/// One of the model's segments.
struct Known {
    id: i32,
    bytes: usize,
    seed: u8,
    is_removed: bool,
    attached: Vec<Attached>,
}

#[test]
fn random_sequences_do_what_a_simple_list_does() {
    for seed in 1..=8 {
        let fixture = Fixture::new();
        let mut dice = Dice::new(seed);
        let mut list: Vec<Known> = Vec::new();
        for step in 0..150 {
            let chosen = dice.below(list.len().max(1));
            match (dice.below(4), list.get_mut(chosen)) {
                (1, Some(known)) if known.is_removed => {}
                (1, Some(known)) => known.attached.push(fixture.attach(known.id)),
                (2, Some(known)) => drop(known.attached.pop()),
                (3, Some(known)) if !known.is_removed => {
                    fixture.segments.remove(known.id).expect("removed");
                    known.is_removed = true;
                }
                _ => make_one(&fixture, &mut dice, &mut list),
            }
            list.retain(|known| !known.is_removed || !known.attached.is_empty());
            check(&fixture, &list, &format!("seed {seed}, step {step}"));
        }
    }
}

fn make_one(fixture: &Fixture, dice: &mut Dice, list: &mut Vec<Known>) {
    let bytes = 1 + dice.below(AREA as usize / 4);
    let largest = fixture.segments.list().expect("listed")[0].largest_free_bytes;
    let made = fixture.make(bytes);
    let fits = bytes.next_multiple_of(PAGE) as u64 <= largest;
    assert_eq!(
        made.is_ok(),
        fits,
        "{bytes} bytes, the largest piece {largest}"
    );
    if let Ok(id) = made {
        let seed = dice.below(256) as u8;
        let attached = fixture.attach(id);
        assert!(is_zeroed(&attached));
        fill(&attached, seed);
        list.push(Known {
            id,
            bytes,
            seed,
            is_removed: false,
            attached: vec![attached],
        });
    }
}

fn check(fixture: &Fixture, list: &[Known], which: &str) {
    let listed = fixture.segments.list().expect("listed").remove(0);
    let found: Vec<_> = listed
        .segments
        .iter()
        .map(|found| {
            let status = found.status.expect("ours");
            (
                found.id,
                found.bytes,
                status.attached as usize,
                status.is_removed,
            )
        })
        .collect();
    let known: Vec<_> = list
        .iter()
        .map(|known| {
            (
                known.id,
                known.bytes,
                known.attached.len(),
                known.is_removed,
            )
        })
        .collect();
    assert_eq!(found, known, "{which}");
    let taken: usize = list
        .iter()
        .map(|known| known.bytes.next_multiple_of(PAGE))
        .sum();
    assert_eq!(listed.free_bytes, AREA - taken as u64, "{which}");
    // Nobody has written into another's bytes.
    for known in list {
        if let Some(attached) = known.attached.last() {
            assert!(holds(attached, known.seed), "{which}: segment {}", known.id);
        }
    }
}
