//! Packets built in a slot of the wire region: what the kernel sends from, what is found again,
//! and what does not fit.

use std::fs::File;
use std::net::UdpSocket;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::Duration;

use hythe_media::wire::PacketMemory;
use hythe_media::wire::layout::{FilePayloads, Full, Head, Layout, PAYLOAD_BYTES_MAX};
use hythe_media::wire::run::runs;
use hythe_node::{Node, NodeError, Pool, PoolOptions, TrustPeers, WireOptions};
use hythe_rtp::HEADER_BYTES;
use hythe_rtp::payload::Payload;

/// Ends waits of tests that have failed.
const BOUND: Duration = Duration::from_secs(120);
const SLOT_BYTES: u32 = 256 << 10;
const TRUST: TrustPeers = TrustPeers::i_trust_every_writer_of_this_pool();

/// A pool in shared memory with two slots for the wire; it goes with the value.
struct Scene {
    root: PathBuf,
    node: Node,
}

impl Scene {
    /// Says what is left out where there is no shared memory.
    fn new(name: &str) -> Option<Self> {
        let root = PathBuf::from(format!(
            "/dev/shm/hythe-layout-{}-{name}",
            std::process::id()
        ));
        let options = PoolOptions::new("test").root(&root).bytes(16 << 20);
        if let Err(error) = std::fs::create_dir(&root) {
            eprintln!("SKIPPED (no directory in /dev/shm: {error}): layouts, {name}");
            return None;
        }
        let pool = Pool::open_or_create(&options).unwrap();
        let node = Node::join(&pool, "test").unwrap();
        let scene = Self { root, node };
        let options = WireOptions {
            slot_bytes: SLOT_BYTES,
            slots: 2,
        };
        scene.node.wire_region(&options).unwrap();
        Some(scene)
    }

    fn layout(&self, packets_max: usize) -> Layout {
        let region = self.node.wire_region(&WireOptions::default()).unwrap();
        let lease = self.node.lease_in(region, 1).unwrap();
        Layout::new(lease, packets_max, TRUST).unwrap()
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.root);
    }
}

fn header(sequence: u16) -> [u8; HEADER_BYTES] {
    let mut header = [0x80; HEADER_BYTES];
    header[2..4].copy_from_slice(&sequence.to_be_bytes());
    header
}

fn head(sequence: u16) -> Head {
    Head {
        header: header(sequence),
        due_ns: u64::from(sequence) * 10,
    }
}

fn payload<'p>(prefix: &'p [u8], body: &'p [&'p [u8]]) -> Payload<'p> {
    Payload {
        prefix,
        body,
        marker: false,
        time: 0,
        due: 0,
    }
}

/// As `sendfile` sees them.
fn in_file(memory: &PacketMemory<'_>) -> Vec<u8> {
    let file = File::from(memory.file.unwrap().try_clone_to_owned().unwrap());
    let mut bytes = vec![0; memory.bytes.len()];
    file.read_exact_at(&mut bytes, memory.file_offset).unwrap();
    bytes
}

#[test]
fn packets_follow_each_other_in_memory_and_in_the_file() {
    let Some(scene) = Scene::new("follow") else {
        return;
    };
    let mut layout = scene.layout(100);
    layout
        .push(&head(7), &payload(b"pre", &[b"fix", b"", b"ed"]))
        .unwrap();
    layout.push(&head(8), &payload(b"", &[b"plain"])).unwrap();
    layout.push(&head(9), &payload(b"", &[])).unwrap();
    let expected = [
        &header(7)[..],
        b"prefixed",
        &header(8),
        b"plain",
        &header(9),
    ]
    .concat();
    let memory = layout.memory().unwrap();
    assert_eq!(memory.bytes, expected);
    assert_eq!(in_file(&memory), expected);
    let found: Vec<_> = layout
        .packets()
        .iter()
        .map(|place| (place.offset, place.bytes, place.sequence, place.due_ns))
        .collect();
    assert_eq!(found, [(0, 20, 7, 70), (20, 17, 8, 80), (37, 12, 9, 90)]);
    assert_eq!(
        layout.packet(&layout.packets()[1])[HEADER_BYTES..],
        *b"plain"
    );
}

#[test]
fn packet_that_does_not_fit_changes_nothing() {
    let Some(scene) = Scene::new("full") else {
        return;
    };
    let media = [5; PAYLOAD_BYTES_MAX + 1];
    let large = [&media[..60_000]];
    let large = payload(b"", &large);
    let mut layout = scene.layout(5);
    for sequence in 0..4 {
        layout.push(&head(sequence), &large).unwrap();
    }
    // Four leave 21,840 bytes.
    let payload_bytes = 60_000;
    assert!(!layout.has_capacity(payload_bytes));
    assert_eq!(layout.push(&head(4), &large), Err(Full { payload_bytes }));
    assert_eq!(layout.packets().len(), 4);
    let used = layout.memory().unwrap().bytes.len();
    let left = SLOT_BYTES as usize - 256 - used - HEADER_BYTES;
    assert!(!layout.has_capacity(left + 1));
    layout
        .push(&head(4), &payload(b"", &[&media[..left]]))
        .unwrap();
    assert!(!layout.has_capacity(0));

    layout.clear();
    layout.push(&head(0), &payload(b"", &[&media])).unwrap_err();
    assert!(layout.packets().is_empty() && layout.memory().unwrap().bytes.is_empty());
    // As many as were asked for, however small.
    for sequence in 0..5 {
        layout.push(&head(sequence), &payload(b"", &[])).unwrap();
    }
    assert!(!layout.has_capacity(0));
}

#[test]
fn packets_are_found_by_their_numbers_over_the_end_too() {
    let Some(scene) = Scene::new("find") else {
        return;
    };
    let mut layout = scene.layout(10);
    assert_eq!(layout.find(0), None);
    for sequence in [0xFFFE, 0xFFFF, 0, 1] {
        let number = [sequence as u8];
        layout
            .push(&head(sequence), &payload(b"", &[&number]))
            .unwrap();
    }
    for sequence in [0xFFFE_u16, 0xFFFF, 0, 1] {
        let place = layout.find(sequence).unwrap();
        assert_eq!(layout.packet(place)[HEADER_BYTES], sequence as u8);
        assert_eq!(place.sequence, sequence);
    }
    for sequence in [2, 3, 0x7FFF, 0xFFFD] {
        assert_eq!(layout.find(sequence), None, "{sequence}");
    }
}

#[test]
#[should_panic(expected = "the packet behind 3")]
fn numbers_that_do_not_follow_are_a_bug() {
    let scene = Scene::new("numbers").expect("the packet behind 3: left out");
    let mut layout = scene.layout(10);
    layout.push(&head(3), &payload(b"", &[])).unwrap();
    let _ = layout.push(&head(5), &payload(b"", &[]));
}

#[test]
fn file_is_built_as_its_payloads_would_be() {
    let Some(scene) = Scene::new("file") else {
        return;
    };
    let content: Vec<u8> = (0..100_000_u32).map(|at| (at % 253) as u8).collect();
    let path = scene.root.join("media");
    std::fs::write(&path, &content).unwrap();
    let file = File::open(&path).unwrap();
    let size = 7 * 188;
    let mut part = FilePayloads {
        position: 50,
        payload_bytes: size,
        count: 40,
    };
    let (mut layout, mut one_by_one) = (scene.layout(1000), scene.layout(1000));
    let mut sequence = 65_530_u16;
    let mut shown = Vec::new();
    loop {
        let taken = layout
            .extend_from_file(&file, part, &mut |payload| {
                shown.extend_from_slice(payload);
                let made = head(sequence);
                sequence = sequence.wrapping_add(1);
                made
            })
            .unwrap();
        if taken == 0 {
            break;
        }
        part.position += taken as u64;
    }
    assert!(shown == content[50..], "not what is in the file");
    let mut sequence = 65_530_u16;
    for media in content[50..].chunks(size) {
        one_by_one
            .push(&head(sequence), &payload(b"", &[media]))
            .unwrap();
        sequence = sequence.wrapping_add(1);
    }
    assert_eq!(layout.packets(), one_by_one.packets());
    assert!(layout.memory().unwrap().bytes == one_by_one.memory().unwrap().bytes);
    // The last one is shorter, and ends its run.
    let last = layout.packets().last().unwrap();
    assert_eq!(
        usize::from(last.bytes),
        HEADER_BYTES + (100_000 - 50) % size
    );
    let sent: usize = runs(layout.packets())
        .map(|run| usize::from(run.packets))
        .sum();
    assert_eq!(sent, layout.packets().len());
}

#[test]
fn file_larger_than_the_layout_is_taken_as_far_as_there_is_room() {
    let Some(scene) = Scene::new("storage") else {
        return;
    };
    let file = File::open("/dev/zero").unwrap();
    let mut sequence = 0;
    let mut next = |_: &[u8]| {
        sequence += 1;
        head(sequence)
    };
    let part = FilePayloads {
        position: 0,
        payload_bytes: 1000,
        count: usize::MAX,
    };
    let mut layout = scene.layout(usize::MAX);
    let storage = (SLOT_BYTES as usize - 256) / 1012;
    let taken = layout.extend_from_file(&file, part, &mut next).unwrap();
    assert_eq!((taken, layout.packets().len()), (storage * 1000, storage));
    assert_eq!(layout.extend_from_file(&file, part, &mut next).unwrap(), 0);
    // What cannot be read: nothing is built.
    layout.clear();
    let directory = File::open("/").unwrap();
    layout
        .extend_from_file(&directory, part, &mut next)
        .unwrap_err();
    assert!(layout.packets().is_empty());
}

#[test]
fn renewed_layout_keeps_packets_in_flight() {
    let Some(scene) = Scene::new("renewed") else {
        return;
    };
    let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
    receiver.set_read_timeout(Some(BOUND)).unwrap();
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    sender.connect(receiver.local_addr().unwrap()).unwrap();
    let fill = |layout: &mut Layout, seed: u8| {
        for sequence in 0..60 {
            let media = [seed ^ sequence as u8; 1000];
            layout
                .push(&head(sequence), &payload(b"", &[&media]))
                .unwrap();
        }
    };
    let mut layout = scene.layout(60);
    fill(&mut layout, 0x11);
    let memory = layout.memory().unwrap();
    for place in layout.packets() {
        let mut offset = memory.file_offset + u64::from(place.offset);
        let bytes = usize::from(place.bytes);
        let sent = rustix::fs::sendfile(&sender, memory.file.unwrap(), Some(&mut offset), bytes);
        assert_eq!(sent, Ok(bytes));
    }
    let mut layout = layout.renew().unwrap();
    assert!(layout.packets().is_empty());
    fill(&mut layout, 0x22);
    for sequence in 0..60 {
        let mut packet = [0; 2000];
        let bytes = receiver.recv(&mut packet).unwrap();
        assert_eq!(bytes, HEADER_BYTES + 1000);
        assert_eq!(packet[..HEADER_BYTES], header(sequence));
        let media = &packet[HEADER_BYTES..bytes];
        assert!(media.iter().all(|byte| *byte == 0x11 ^ sequence as u8));
    }
}

#[test]
fn lease_of_another_region_is_no_file_to_send_from() {
    let Some(scene) = Scene::new("other") else {
        return;
    };
    let lease = scene.node.lease(1000).unwrap();
    let mut layout = Layout::new(lease, 10, TRUST).unwrap();
    assert!(layout.memory().unwrap().file.is_none());
    // What was copied when it was sent is written again; fresh pages there are none.
    layout.clear();
    let refused = layout.renew().unwrap_err();
    assert!(
        matches!(refused, NodeError::NotForTheWire { .. }),
        "{refused}"
    );
}

#[test]
fn nothing_is_allocated_once_there_is_a_layout() {
    let Some(scene) = Scene::new("allocations") else {
        return;
    };
    let file = File::open("/dev/zero").unwrap();
    let mut layout = scene.layout(200);
    let part = FilePayloads {
        position: 0,
        payload_bytes: 1316,
        count: 100,
    };
    let allocated = allocation_counter::measure(|| {
        let mut sequence = 0;
        for _ in 0..3 {
            let mut next = |_: &[u8]| {
                sequence += 1;
                head(sequence)
            };
            layout.extend_from_file(&file, part, &mut next).unwrap();
            sequence += 1;
            layout
                .push(&head(sequence), &payload(b"pre", &[&[1; 1000]]))
                .unwrap();
            assert_eq!(layout.memory().unwrap().bytes.len(), 100 * 1328 + 1015);
            assert!(layout.find(sequence).is_some());
            layout.clear();
        }
    });
    assert_eq!(allocated.count_total, 0);
}
