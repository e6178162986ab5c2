//! The wire region: what was sent from it without a copy arrives as it was sent, however late it is
//! read, whoever has leased the slot since, and whatever became of the sender.

use std::fs::{File, OpenOptions};
use std::net::UdpSocket;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::FileExt;
use std::process::Command;
use std::sync::Barrier;

use crate::support::player::{Player, own_role, say, until_told};
use crate::support::{BOUND, Root, eventually, fill, in_a_small_file_system, is_root};
use hythe_node::{
    GroupAccess, Lease, Node, NodeError, Pieces, Pool, PoolError, PoolOptions, PublisherOptions,
    RegionIndex, RegionKind, SubscriberOptions, WireOptions,
};
use rustix::fs::FallocateFlags;

/// Leases every slot of the wire region, sends from each to the port behind the word, and waits.
const SENDER: &str = "sender";
/// May read the pool, and tries to lease for the wire.
const READER: &str = "reader";

const OTHER: u32 = 65534;
const PACKET_BYTES: usize = 1000;
/// Of each socket: as many as its buffer takes, whatever its owner may set.
const QUEUED: usize = 60;
const SOCKETS: usize = 4;
const SLOTS: u32 = 3;

/// Not a test of its own: the other process of the tests below.
#[test]
fn plays_its_role() {
    let Some(role) = own_role() else { return };
    match role.split_once(' ') {
        Some((SENDER, ports)) => send_and_wait(ports),
        _ => read_only(),
    }
}

const fn options(slots: u32) -> WireOptions {
    WireOptions {
        slot_bytes: 256 << 10,
        slots,
    }
}

fn joined(root: &Root, name: &str) -> Node {
    Node::join(&root.pool(), name).expect("joins")
}

fn sums_up_to(node: &Node, held: u32) -> bool {
    let audit = node.pool().snapshot().audit;
    let all = audit.free + audit.held + audit.queued == audit.slots;
    audit.mismatches.is_empty() && audit.held == held && all
}

/// Sockets that are sent to, and read late.
struct Late {
    receivers: Vec<UdpSocket>,
}

impl Late {
    fn new(sockets: usize) -> Self {
        let bind = |_| {
            let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
            socket.set_read_timeout(Some(BOUND)).expect("set");
            socket
        };
        Self {
            receivers: (0..sockets).map(bind).collect(),
        }
    }

    fn ports(&self) -> Vec<u16> {
        let port = |socket: &UdpSocket| socket.local_addr().expect("bound").port();
        self.receivers.iter().map(port).collect()
    }

    /// Everything that is queued, socket by socket.
    fn read(&self) -> Vec<u8> {
        let mut all = Vec::new();
        for socket in &self.receivers {
            for _ in 0..QUEUED {
                let mut packet = [0; 2 * PACKET_BYTES];
                let bytes = socket.recv(&mut packet).expect("queued");
                all.extend_from_slice(&packet[..bytes]);
            }
        }
        all
    }
}

/// Different in every packet and for every `seed`.
fn content(seed: u8, sockets: usize) -> Vec<u8> {
    let bytes = 0..sockets * QUEUED * PACKET_BYTES;
    bytes
        .map(|at| seed ^ (at / PACKET_BYTES) as u8 ^ (at % 239) as u8)
        .collect()
}

/// Packet by packet, without a copy; the first of them to the first port, and so on.
fn send((file, offset): (BorrowedFd<'_>, u64), ports: &[u16]) {
    let mut offset = offset;
    for port in ports {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
        socket.connect(("127.0.0.1", *port)).expect("connected");
        for _ in 0..QUEUED {
            let sent = rustix::fs::sendfile(&socket, file, Some(&mut offset), PACKET_BYTES);
            assert_eq!(sent, Ok(PACKET_BYTES));
        }
    }
}

fn filled(mut lease: Lease, seed: u8) -> Lease {
    lease.write(0, &content(seed, SOCKETS));
    lease
}

#[test]
fn late_reader_gets_message_despite_reused_slot() {
    let Some(root) = Root::on_tmpfs("late readers") else {
        return;
    };
    let node = joined(&root, "test");
    let late = Late::new(SOCKETS);
    let region = node.wire_region(&options(1)).expect("added");
    let lease = filled(node.lease_in(region, 1).expect("free"), 1);
    send(lease.file_range().expect("for the wire"), &late.ports());
    drop(lease);
    let again = filled(node.lease_in(region, 1).expect("free"), 2);
    assert!(late.read() == content(1, SOCKETS), "changed on its way");
    // And what is sent from the new pages is new.
    send(again.file_range().expect("for the wire"), &late.ports());
    let again = filled(again.renew().expect("room"), 3);
    assert!(late.read() == content(2, SOCKETS), "changed on its way");
    drop(again);
    assert!(sums_up_to(&node, 0));
}

/// What the other tests rest on: without fresh pages they would fail.
#[test]
fn pages_that_are_written_again_change_what_a_late_reader_gets() {
    let Some(root) = Root::on_tmpfs("late readers") else {
        return;
    };
    let node = joined(&root, "test");
    let late = Late::new(SOCKETS);
    let region = node.wire_region(&options(1)).expect("added");
    let lease = filled(node.lease_in(region, 1).expect("free"), 1);
    send(lease.file_range().expect("for the wire"), &late.ports());
    let _lease = filled(lease, 2);
    let found = late.read();
    assert!(found != content(1, SOCKETS), "this kernel copies");
    assert!(found == content(2, SOCKETS));
}

fn send_and_wait(ports: &str) {
    let pool = Pool::open(&PoolOptions::new("test")).expect("the test has made it");
    let node = Node::join(&pool, SENDER).expect("joins");
    let region = node.wire_region(&options(SLOTS)).expect("found");
    let ports: Vec<u16> = ports
        .split(' ')
        .map(|port| port.parse().expect("a port"))
        .collect();
    let mut kept = Vec::new();
    for (slot, port) in ports.iter().enumerate() {
        let mut lease = node.lease_in(region, 1).expect("free");
        lease.write(0, &content(slot as u8, 1));
        send(lease.file_range().expect("for the wire"), &[*port]);
        kept.push(lease);
    }
    say("sent");
    until_told();
}

#[test]
fn late_reader_gets_what_a_dead_sender_sent() {
    let Some(root) = Root::on_tmpfs("late readers") else {
        return;
    };
    let node = joined(&root, "test");
    let region = node.wire_region(&options(SLOTS)).expect("added");
    let late = Late::new(SLOTS as usize);
    let ports: Vec<String> = late.ports().iter().map(u16::to_string).collect();
    let mut player = Player::start(&root, &format!("{SENDER} {}", ports.join(" ")));
    assert_eq!(player.hear(), "sent");
    let refused = node.lease_in(region, 1).expect_err("all are held");
    assert!(
        matches!(refused.refusal(), Some(PoolError::PoolFull { slots, .. }) if *slots == SLOTS),
        "{refused}"
    );
    player.kill();
    eventually("its slots come back", || sums_up_to(&node, 0));
    let leases: Vec<Lease> = (0..SLOTS)
        .map(|_| {
            let mut lease = node.lease_in(region, 1).expect("free");
            lease.write(0, &vec![0xFF; lease.capacity()]);
            lease
        })
        .collect();
    let sent: Vec<u8> = (0..SLOTS as u8).flat_map(|slot| content(slot, 1)).collect();
    assert!(late.read() == sent, "changed on its way");
    assert!(sums_up_to(&node, SLOTS));
    drop(leases);
}

#[test]
fn frozen_lease_is_a_sample_that_can_be_sent_and_parted() {
    let Some(root) = Root::on_tmpfs("samples of the wire region") else {
        return;
    };
    let node = joined(&root, "test");
    let late = Late::new(SOCKETS);
    let region = node.wire_region(&options(1)).expect("added");
    let lease = filled(node.lease_in(region, 1).expect("free"), 7);
    let (_, offset) = lease.file_range().expect("for the wire");
    let sent = content(7, SOCKETS);
    let sample = lease.freeze(sent.len());
    assert!(sample.to_vec() == sent);
    let part = sample.part(PACKET_BYTES, PACKET_BYTES).expect("a part");
    let (file, of_part) = part.file_range().expect("for the wire");
    assert_eq!(of_part, offset + PACKET_BYTES as u64);
    let mut in_file = [0; PACKET_BYTES];
    let read = rustix::io::pread(file, &mut in_file, of_part);
    assert_eq!(read, Ok(PACKET_BYTES));
    assert_eq!(in_file, sent[PACKET_BYTES..2 * PACKET_BYTES]);
    send(sample.file_range().expect("for the wire"), &late.ports());
    drop(sample);
    // Still held by the part: nobody writes it.
    assert!(node.lease_in(region, 1).is_err());
    drop(part);
    drop(filled(node.lease_in(region, 1).expect("free"), 8));
    assert!(late.read() == sent, "changed on its way");
}

#[test]
fn sample_of_the_wire_region_travels() {
    let Some(root) = Root::on_tmpfs("samples of the wire region") else {
        return;
    };
    let node = joined(&root, "from");
    // Open since before there was such a region.
    let other = joined(&root, "to");
    let mut subscriber = other
        .subscriber("way", &SubscriberOptions::default())
        .expect("port");
    let mut publisher = node
        .publisher("way", &PublisherOptions::default())
        .expect("port");
    let region = node.wire_region(&options(1)).expect("added");
    let mut lease = node.lease_in(region, 4).expect("free");
    lease.write(0, b"wire");
    publisher.publish(lease, 4).expect("published");
    let sample = subscriber.take(BOUND).expect("sound").expect("published");
    assert_eq!(sample.to_vec(), b"wire");
    let (file, offset) = sample.file_range().expect("for the wire");
    let mut in_file = [0; 4];
    assert_eq!(rustix::io::pread(file, &mut in_file, offset), Ok(4));
    assert_eq!(&in_file, b"wire");
}

#[test]
fn other_buffers_are_not_for_the_wire() {
    let root = Root::new();
    let node = joined(&root, "test");
    let is_refused =
        |error| matches!(error, NodeError::NotForTheWire { region } if region == RegionIndex(0));
    let lease = node.lease(100).expect("free");
    assert!(is_refused(lease.file_range().expect_err("region 0")));
    let sample = lease.freeze(10);
    assert!(is_refused(sample.file_range().expect_err("region 0")));
    drop(sample);
    let lease = node.lease(100).expect("free");
    assert!(is_refused(lease.renew().expect_err("region 0")));
    assert!(sums_up_to(&node, 0));
}

#[test]
fn pool_has_one_wire_region_whoever_asks_first() {
    let Some(root) = Root::on_tmpfs("adding the wire region") else {
        return;
    };
    let pool = root.pool();
    let start = Barrier::new(4);
    let add = |slots| {
        let node = Node::join(&pool, "test").expect("joins");
        start.wait();
        node.wire_region(&options(slots)).expect("added or found")
    };
    let found: Vec<RegionIndex> = std::thread::scope(|scope| {
        let threads: Vec<_> = (1..=4)
            .map(|slots| scope.spawn(move || add(slots)))
            .collect();
        let all = threads.into_iter().map(|thread| thread.join());
        all.map(|found| found.expect("no panic")).collect()
    });
    assert_eq!(found, [found[0]; 4]);
    let snapshot = pool.snapshot();
    let kinds: Vec<RegionKind> = snapshot.regions.iter().map(|region| region.kind).collect();
    assert_eq!(kinds, [RegionKind::Linux, RegionKind::Wire]);
    assert_eq!(snapshot.regions[1].name, "wire");
    assert!(snapshot.audit.mismatches.is_empty());
}

#[test]
fn size_that_does_not_work_is_refused_and_leaves_nothing() {
    let Some(root) = Root::on_tmpfs("adding the wire region") else {
        return;
    };
    let node = joined(&root, "test");
    let full = node.wire_region(&options(100_000)).expect_err("too many");
    let is_full =
        matches!(full.refusal(), Some(PoolError::LedgerFull { left, .. }) if *left < 100_000);
    assert!(is_full, "{full}");
    for (slot_bytes, slots) in [(4096, 0), (0, 1), (1000, 1), (u32::MAX, 1)] {
        let wish = WireOptions { slot_bytes, slots };
        let refused = node.wire_region(&wish).expect_err("no slots like that");
        let is_bad = matches!(refused.refusal(), Some(PoolError::BadGeometry(_)));
        assert!(is_bad, "{refused}");
    }
    assert_eq!(node.pool().snapshot().regions.len(), 1);
    assert!(!node.pool().path().join("region.1").exists());
    node.wire_region(&options(1)).expect("added after all that");
}

#[test]
fn pool_that_is_not_on_a_tmpfs_is_refused() {
    let root = Root::new();
    let block = rustix::fs::statfs(root.path()).expect("there");
    if block.f_type as u64 & 0xFFFF_FFFF == 0x0102_1994 {
        eprintln!("SKIPPED (the directory for temporary files is a tmpfs): other file systems");
        return;
    }
    let node = joined(&root, "test");
    let refused = node.wire_region(&options(1)).expect_err("pages of a disk");
    assert!(
        matches!(&refused, NodeError::Unsafe { path, .. } if path.ends_with("region.1")),
        "{refused}"
    );
    assert!(refused.to_string().contains("/dev/shm"), "{refused}");
    assert_eq!(node.pool().snapshot().regions.len(), 1);
    assert!(!node.pool().path().join("region.1").exists());
}

#[test]
fn tmpfs_with_huge_pages_is_refused() {
    in_a_small_file_system("tmpfs_with_huge_pages_is_refused", |root| {
        let remount = Command::new("mount")
            .args(["-o", "remount,huge=always"])
            .arg(root.path())
            .status();
        if !remount.expect("started").success() {
            eprintln!("SKIPPED (this kernel has no huge pages in a tmpfs): refusing them");
            return;
        }
        let node = joined(root, "test");
        let refused = node.wire_region(&options(1)).expect_err("huge pages");
        assert!(refused.to_string().contains("huge="), "{refused}");
        // Slots of whole huge pages share none.
        let whole = WireOptions {
            slot_bytes: 2 << 20,
            slots: 1,
        };
        let region = node.wire_region(&whole).expect("added");
        drop(node.lease_in(region, 1).expect("free"));
    });
}

#[test]
fn slot_without_room_for_fresh_pages_goes_back() {
    let name = "slot_without_room_for_fresh_pages_goes_back";
    in_a_small_file_system(name, |root| {
        let node = joined(root, "test");
        let refused = node.wire_region(&WireOptions::default());
        let refused = refused.expect_err("more than there is");
        assert!(
            matches!(refused, NodeError::TooLarge { wanted, .. } if wanted == 16 << 20),
            "{refused}"
        );
        assert!(!node.pool().path().join("region.1").exists());
        let region = node.wire_region(&options(2)).expect("fits");
        let path = node.pool().region_path(region);
        // As somebody leaves it who dies between the punch and the reservation.
        let file = OpenOptions::new().write(true).open(&path).expect("opened");
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        rustix::fs::fallocate(&file, hole, 0, 512 << 10).expect("punched");
        let filler = fill(root.path());
        for _ in 0..3 {
            let refused = node.lease_in(region, 1).expect_err("no room");
            let NodeError::NoRoom {
                bytes, path: named, ..
            } = &refused
            else {
                panic!("{refused:?}");
            };
            assert_eq!((*bytes, named), (256 << 10, &path));
            assert!(sums_up_to(&node, 0), "it did not go back");
        }
        drop(filler);
        let mut leases = [0, 1].map(|_| node.lease_in(region, 1).expect("room"));
        for lease in &mut leases {
            lease.write(0, &vec![3; lease.capacity()]);
            lease.check_whole().expect("whole");
        }
    });
}

fn read_only() {
    let pool = Pool::open(&PoolOptions::new("test").owner(0)).expect("opens");
    let node = Node::join(&pool, READER).expect("joins");
    let mut subscriber = node
        .subscriber("data", &SubscriberOptions::default())
        .expect("opens");
    let region = node.wire_region(&options(1)).expect("found");
    say("ready");
    let sample = subscriber.take(BOUND).expect("sound").expect("published");
    let (file, offset) = sample.file_range().expect("may read");
    let mut read = [0; 5];
    rustix::io::pread(file, &mut read, offset).expect("may read");
    say(&String::from_utf8_lossy(&read));
    say(&node
        .lease_in(region, 1)
        .expect_err("may not write")
        .to_string());
    until_told();
}

#[test]
fn who_may_only_read_does_not_lease_for_the_wire() {
    if !is_root("another user") {
        return;
    }
    let Some(root) = Root::on_tmpfs("a reader of the wire region") else {
        return;
    };
    let options_for_group = root.options().group(OTHER).group_access(GroupAccess::Read);
    let pool = Pool::open_or_create(&options_for_group).expect("made");
    let node = Node::join(&pool, "test").expect("joins");
    let region = node.wire_region(&options(2)).expect("added");
    let player = Player::start_as(&root, READER, OTHER, &[OTHER]);
    assert_eq!(player.hear(), "ready");
    let mut publisher = node
        .publisher("data", &PublisherOptions::default())
        .expect("opens");
    let mut lease = node.lease_in(region, 5).expect("free");
    lease.write(0, b"hello");
    publisher.publish(lease, 5).expect("published");
    assert_eq!(player.hear(), "hello");
    let refused = player.hear();
    assert!(
        refused.starts_with("permission denied") && refused.contains("region.1"),
        "{refused}"
    );
    player.end();
    eventually("it left", || sums_up_to(&node, 0));
}

#[test]
fn file_is_read_between_gaps() {
    let root = Root::new();
    let node = joined(&root, "test");
    let path = root.path().join("media");
    std::fs::write(&path, content(9, 1)).expect("written");
    let file = File::open(&path).expect("there");
    let mut lease = node.lease(10_000).expect("free");
    let pieces = Pieces {
        at: 12,
        piece_bytes: 100,
        gap_bytes: 12,
        count: 50,
    };
    let read = lease.read_file_scattered(&file, 3, pieces).expect("read");
    assert_eq!(read, 5000);
    for index in 0..50 {
        let (mut found, mut expected) = ([0; 100], [0; 100]);
        lease.read(12 + index * 112, &mut found);
        file.read_exact_at(&mut expected, 3 + index as u64 * 100)
            .expect("there");
        assert_eq!(found, expected, "piece {index}");
    }
}

#[test]
#[should_panic(expected = "do not fit a buffer")]
fn pieces_beyond_the_buffer_panic() {
    let root = Root::new();
    let node = joined(&root, "test");
    let mut lease = node.lease(100).expect("free");
    let file = File::open("/proc/self/exe").expect("own program");
    let pieces = Pieces {
        at: lease.capacity() - 10,
        piece_bytes: 6,
        gap_bytes: 0,
        count: 2,
    };
    let _ = lease.read_file_scattered(&file, 0, pieces);
}
