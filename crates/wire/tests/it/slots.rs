//! Payload leaves from the slots where it lies, and they are known to be free again.

use std::io::IoSlice;
use std::net::UdpSocket;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::path::Path;

use crate::links::{self, BOUND, FAR, NEAR, Network, udp};
use crate::served::{self, Served, connected, take, wire};
use hythe_memory::{Access, Mapped};
use hythe_testing::{Turn, await_kill, eventually, in_module};
use hythe_wire::{Sent, Wire};
use hythe_xdp::sealed;
use rustix::fs::{FallocateFlags, MemfdFlags, fallocate, memfd_create};
use tempfile::TempDir;

const SLOTS_BYTES: usize = 64 << 10;
const HUGE_PAGE_BYTES: usize = 2 << 20;
const HUGE_PAGES: &str = "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages";
/// Of the child process of a test: where the service is, and whom it sends to.
const ROLE: &str = "HYTHE_TEST_SENDS_AND_STAYS";
/// As many frames as a flow has chunks.
const FRAMES: usize = 128;

/// Huge pages for the time of a test, if this machine gives any.
struct HugePages {
    before: u64,
    /// Another test would take them for its own, or take them away.
    _turn: Turn,
}

impl HugePages {
    /// In the network of all tests, where they take turns.
    fn add(pages: u64) -> Option<Self> {
        let turn = Turn::take("huge-pages");
        let before = std::fs::read_to_string(HUGE_PAGES).ok()?;
        let before: u64 = before.trim().parse().ok()?;
        std::fs::write(HUGE_PAGES, (before + pages).to_string()).ok()?;
        Some(Self {
            before,
            _turn: turn,
        })
    }
}

impl Drop for HugePages {
    fn drop(&mut self) {
        let _ = std::fs::write(HUGE_PAGES, self.before.to_string());
    }
}

struct Slots {
    file: OwnedFd,
    memory: Mapped,
}

impl Slots {
    fn new() -> Self {
        let file = sealed("slots", SLOTS_BYTES).expect("memory");
        let memory = Mapped::file(&file, 0, SLOTS_BYTES, Access::Write).expect("mapped");
        Self { file, memory }
    }

    /// On huge pages, if the kernel has one.
    fn on_huge_pages() -> Option<Self> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::HUGETLB | MemfdFlags::HUGE_2MB;
        let file = memfd_create("huge", flags).ok()?;
        fallocate(&file, FallocateFlags::empty(), 0, HUGE_PAGE_BYTES as u64).ok()?;
        let memory = Mapped::file(&file, 0, HUGE_PAGE_BYTES, Access::Write).ok()?;
        Some(Self { file, memory })
    }

    fn wire(&self, path: &Path, socket: &UdpSocket) -> Wire {
        self.try_wire(path, socket).expect("granted")
    }

    fn try_wire(&self, path: &Path, socket: &UdpSocket) -> std::io::Result<Wire> {
        let slots = Some((self.file.as_fd(), SLOTS_BYTES as u64));
        Wire::connect(path, socket, slots, BOUND)
    }

    /// On a busy machine the kernel may keep the queues for longer than the service waits: then it
    /// is asked again.
    fn until_sent_from(&self, path: &Path, socket: &UdpSocket) -> Wire {
        let mut wire = None;
        eventually("a connection is granted", || {
            drop(wire.take());
            wire = self.try_wire(path, socket).ok();
            wire.as_ref().is_some_and(Wire::sends_from_slots)
        });
        wire.expect("granted")
    }
}

fn sends_from_slots(wire: &Wire) -> bool {
    let can = wire.sends_from_slots();
    if !can {
        eprintln!("SKIPPED: this kernel sends no frame that lies in pieces");
    }
    can
}

/// Sends, also where all chunks are with the kernel still.
fn send(wire: &mut Wire, head: &[u8], at: u64, bytes: usize) {
    eventually("the packet is taken", || {
        let sent = wire.send_from_slots(1, head, at, bytes);
        wire.flush();
        sent == Sent::Taken
    });
}

#[test]
fn payload_leaves_from_slots_and_nothing_of_it_is_copied() {
    let Some(network) = Network::new(1) else {
        return;
    };
    let folder = TempDir::new().expect("made");
    let there = network.at_far(|| Served::start(folder.path(), "far"));
    let (near, far) = connected(&network);
    let slots = Slots::new();
    let mut wire = slots.wire(&there.path, &far);
    if !sends_from_slots(&wire) {
        return;
    }
    near.send(b"known").expect("sent");
    assert_eq!(take(&mut wire), b"known");
    let (mut into, rounds) = ([0; 4096], 1000);
    let mut copied = 0;
    for round in 0..rounds {
        let (at, bytes) = (round * 631 % 60_000, round * 37 % 1400);
        let written: Vec<u8> = (0..bytes).map(|index| (index + round) as u8).collect();
        slots.memory.write(at, &written);
        let head = vec![round as u8; round % 50];
        send(&mut wire, &head, at as u64, bytes);
        copied += head.len();
        let length = near.recv(&mut into).expect("comes");
        assert!(into[..length] == [head, written].concat(), "round {round}");
    }
    // Beside frames that are copied.
    let whole = [IoSlice::new(b"whole")];
    eventually("the packet is taken", || {
        wire.send(1, &whole) == Sent::Taken
    });
    wire.flush();
    let length = near.recv(&mut into).expect("comes");
    assert_eq!(&into[..length], b"whole");
    let statistics = wire.statistics();
    assert_eq!(statistics.sent_from_slots, rounds as u64);
    assert_eq!(statistics.sent, rounds as u64 + 1);
    assert_eq!(statistics.copied_bytes, copied as u64 + 5);
    // All of it comes back, and is known to.
    eventually("all chunks come back", || wire.returned() == wire.taken());
    assert_eq!(wire.dropped().invalid, 0);
}

#[test]
fn payload_leaves_from_slots_on_huge_pages() {
    let _pages = HugePages::add(1);
    let Some(network) = Network::new(1) else {
        return;
    };
    let Some(slots) = Slots::on_huge_pages() else {
        eprintln!("SKIPPED: this machine gives no huge pages");
        return;
    };
    let folder = TempDir::new().expect("made");
    let there = network.at_far(|| Served::start(folder.path(), "far"));
    let (near, far) = connected(&network);
    // Less than a page is asked for, and all of it is registered.
    let mut wire = slots.wire(&there.path, &far);
    if !sends_from_slots(&wire) {
        assert_eq!(wire.copies_because(), "");
        return;
    }
    near.send(b"known").expect("sent");
    assert_eq!(take(&mut wire), b"known");
    let mut into = [0; 4096];
    for round in 0..300_usize {
        let (at, bytes) = (round * 211 % 60_000, 1 + round * 37 % 1400);
        let written: Vec<u8> = (0..bytes).map(|index| (index + round) as u8).collect();
        slots.memory.write(at, &written);
        send(&mut wire, b"head", at as u64, bytes);
        let length = near.recv(&mut into).expect("comes");
        assert!(
            into[..length] == [&b"head"[..], &written].concat(),
            "round {round}"
        );
        // And it receives into the chunks before them.
        near.send(&written).expect("sent");
        assert!(take(&mut wire) == written);
    }
    assert_eq!(wire.statistics().sent_from_slots, 300);
    eventually("all chunks come back", || wire.returned() == wire.taken());
    assert_eq!(wire.dropped().invalid, 0);
}

#[test]
fn bytes_outside_of_slots_are_not_sent() {
    let Some(network) = Network::new(1) else {
        return;
    };
    let folder = TempDir::new().expect("made");
    let there = network.at_far(|| Served::start(folder.path(), "far"));
    let (near, far) = connected(&network);
    let slots = Slots::new();
    let mut wire = slots.wire(&there.path, &far);
    near.send(b"known").expect("sent");
    take(&mut wire);
    let end = SLOTS_BYTES as u64;
    for (at, bytes) in [(end, 1), (end - 10, 11), (u64::MAX, 1), (0, 3800)] {
        let sent = wire.send_from_slots(1, &[0; 48], at, bytes);
        assert_eq!(sent, Sent::NotNow, "{bytes} at {at}");
    }
    assert_eq!((wire.taken(), wire.statistics().sent), (0, 0));
    // Who offers none has none, and that is no failure.
    drop(wire);
    let mut plain = self::wire(&there, &connected(&network).1);
    assert!(!plain.sends_from_slots());
    assert_eq!(plain.copies_because(), "");
    assert_eq!(plain.send_from_slots(1, &[], 0, 1), Sent::NotNow);
}

#[test]
fn service_sends_from_one_file_at_a_time() {
    let Some(network) = Network::new(1) else {
        return;
    };
    let folder = TempDir::new().expect("made");
    let there = network.at_far(|| Served::start(folder.path(), "far"));
    let (first, second) = (Slots::new(), Slots::new());
    let [one, two, three, four] = [(); 4].map(|()| connected(&network));
    let wire = first.wire(&there.path, &one.1);
    if !sends_from_slots(&wire) {
        return;
    }
    let same = first.wire(&there.path, &two.1);
    assert!(same.sends_from_slots());
    assert_eq!(same.copies_because(), "");
    let other = second.wire(&there.path, &three.1);
    assert!(!other.sends_from_slots());
    // It says which file has the place: that of a pool is in the pool's directory.
    let why = other.copies_because();
    assert!(
        why.contains("sends from /memfd:slots") && why.contains("have ended"),
        "{why}"
    );
    drop((wire, same, other));
    // Behind the end of the flows; and it receives as ever.
    let mut wire = second.until_sent_from(&there.path, &four.1);
    four.0.send(b"comes").expect("sent");
    assert_eq!(take(&mut wire), b"comes");
    drop(wire);
    // A file that cannot be mapped to be written is none.
    let number = first.file.as_raw_fd();
    let read_only = std::fs::File::open(format!("/proc/self/fd/{number}")).expect("opened");
    let connect = || {
        let slots = Some((read_only.as_fd(), SLOTS_BYTES as u64));
        Wire::connect(&there.path, &two.1, slots, BOUND)
    };
    let mut wire = connect().expect("granted");
    assert!(!wire.sends_from_slots());
    two.0.send(b"comes").expect("sent");
    assert_eq!(take(&mut wire), b"comes");
}

#[test]
fn interface_returns_kept_slots_when_it_is_up() {
    let Some(network) = Network::new(1) else {
        return;
    };
    let folder = TempDir::new().expect("made");
    let there = network.at_far(|| Served::start(folder.path(), "far"));
    let (near, far) = connected(&network);
    let slots = Slots::new();
    let mut wire = slots.wire(&there.path, &far);
    if !sends_from_slots(&wire) {
        return;
    }
    near.send(b"known").expect("sent");
    take(&mut wire);
    network.at_far(|| links::ip("link set far down"));
    for at in 0..3 {
        assert_eq!(wire.send_from_slots(1, b"head", at * 500, 500), Sent::Taken);
    }
    wire.flush();
    assert_eq!((wire.returned(), wire.taken()), (0, 3));
    assert_eq!(wire.send_from_slots(1, b"head", 0, 500), Sent::NotNow);
    network.at_far(|| links::ip("link set far up"));
    // Nothing else is sent.
    eventually("all chunks come back", || wire.returned() == wire.taken());
}

#[test]
fn smaller_offer_of_file_takes_nothing_from_others() {
    let Some(network) = Network::new(1) else {
        return;
    };
    let folder = TempDir::new().expect("made");
    let there = network.at_far(|| Served::start(folder.path(), "far"));
    let [one, two, three] = [(); 3].map(|()| connected(&network));
    let slots = Slots::new();
    let little = Some((slots.file.as_fd(), 4096));
    let less = Wire::connect(&there.path, &one.1, little, BOUND).expect("granted");
    if !sends_from_slots(&less) {
        return;
    }
    let wire = slots.wire(&there.path, &two.1);
    assert!(!wire.sends_from_slots(), "the kernel knows one page of it");
    drop((less, wire));
    let mut wire = slots.until_sent_from(&there.path, &three.1);
    three.0.send(b"known").expect("sent");
    take(&mut wire);
    slots.memory.write(SLOTS_BYTES - 1000, &[7; 1000]);
    send(&mut wire, b"", SLOTS_BYTES as u64 - 1000, 1000);
    let mut into = [0; 4096];
    assert_eq!(three.0.recv(&mut into).expect("comes"), 1000);
    eventually("all chunks come back", || wire.returned() == wire.taken());
}

#[test]
fn memory_of_another_user_is_not_sent_from() {
    let Some(network) = Network::new(1) else {
        return;
    };
    let folder = TempDir::new().expect("made");
    let there = network.at_far(|| Served::start(folder.path(), "far"));
    let (near, far) = connected(&network);
    let slots = Slots::new();
    let another = rustix::process::Uid::from_raw(rustix::process::geteuid().as_raw() + 1);
    rustix::fs::fchown(&slots.file, Some(another), None).expect("given away");
    let mut wire = slots.wire(&there.path, &far);
    assert!(!wire.sends_from_slots());
    let why = wire.copies_because();
    assert!(why.contains("it is of user"), "{why}");
    near.send(b"comes").expect("sent");
    assert_eq!(take(&mut wire), b"comes");
}

/// Not a test of its own: the process that the next test kills.
#[test]
fn sends_and_stays() {
    let Some((path, near)) = served::child::role(ROLE) else {
        return;
    };
    let slots = Slots::new();
    let mut wire = slots.wire(&path, &near);
    served::child::say_where(&near);
    take(&mut wire);
    for _ in 0..FRAMES {
        let sent = match wire.sends_from_slots() {
            true => wire.send_from_slots(1, b"head", 0, 100),
            false => wire.send(1, &[IoSlice::new(&[0; 104])]),
        };
        assert_eq!(sent, Sent::Taken);
    }
    wire.flush();
    eprintln!("sent {}", wire.statistics().sent);
    await_kill();
}

#[test]
fn chunks_of_a_killed_process_are_anothers() {
    let Some(network) = Network::new(1) else {
        return;
    };
    let folder = TempDir::new().expect("made");
    // Here: the process ends with the thread that has started it.
    let served = Served::start(folder.path(), "near");
    let far = network.at_far(|| udp(FAR));
    let test = in_module("sends_and_stays");
    let (child, near) = served::child::Child::start((&test, ROLE), &served, &far);
    far.connect((NEAR, near)).expect("set");
    far.send(b"known").expect("sent");
    assert_eq!(child.word("sent "), FRAMES.to_string());
    drop(child);
    // Frames that left before are whole.
    let (mut into, mut came) = ([0; 4096], 0);
    while came < FRAMES {
        let length = far.recv(&mut into).expect("comes");
        assert_eq!(length, 104);
        came += 1;
    }
    // All flows that the interface has, each with all its chunks, and another file.
    let slots = Slots::new();
    let pairs: Vec<_> = (0..16).map(|_| connected(&network)).collect();
    let mut wires = Vec::new();
    for (near, _) in &pairs {
        // The flow of the one that was killed ends by and by.
        eventually("a connection is granted", || {
            let wire = slots.try_wire(&served.path, near);
            let is_granted = wire.is_ok();
            wires.extend(wire);
            is_granted
        });
    }
    for ((_, far), wire) in pairs.iter().zip(&mut wires) {
        far.send(b"known").expect("sent");
        take(wire);
        for _ in 0..FRAMES {
            assert_eq!(wire.send(1, &[IoSlice::new(b"x")]), Sent::Taken);
        }
        wire.flush();
        eventually("all chunks come back", || wire.returned() == wire.taken());
    }
}
