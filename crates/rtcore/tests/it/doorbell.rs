//! A core's doorbell hears the rings behind the first, whenever that came: asked of the emulated
//! device itself.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use crate::support::{Echo, LONG, World, board, boards, eventually, start};
use hythe_node::{PublisherOptions, SubscriberOptions};
use hythe_rtcore::{Board, FlowStatus, control};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Lives of the core. With the fault, one in two to ten began deaf.
const LIVES: u32 = 16;
/// `rtos/boards/mps2/uart.c`: the doorbell's state, and its bit for a byte that was not read.
const STATE: &str = "0x40005004";
const RECEIVE_FULL: u32 = 2;
/// `rtos/boards/virt/its.h`, as QEMU writes it.
const MESSAGE_INTERRUPT: &str = "0x2000";

/// The agent rings while the core starts. A byte that the device has taken before its interrupt was
/// enabled raises none, and while it lies there the device takes no other: the core then lives by
/// its time-outs, a hundred times slower, and nobody is told.
#[test]
fn ring_before_the_core_listens_is_not_the_last_that_it_hears() {
    let Some(plain) = board("mps2-an386") else {
        return;
    };
    share_one_cpu();
    for life in 0..LIVES {
        let world = World::new();
        let folder = board_folder(&world);
        let socket = folder.join("monitor");
        let core = start(&world, &with_monitor(&plain, &folder, &socket));
        let mut echo = Echo::open(&world.pool, "echo").expect("ports");
        for number in 0..4_u8 {
            assert_eq!(echo.round_trip(&[number]).to_vec(), [number]);
        }
        eventually(&format!("life {life} takes the rings"), || {
            doorbell_state(&socket) & RECEIVE_FULL == 0
        });
        drop(echo);
        core.stop().expect("stopped");
        world.assert_clean();
    }
}

/// By its time-outs alone a core would find every message, too: so the emulator says which
/// interrupts the core acknowledged.
#[test]
fn event_of_linux_reaches_the_core_as_a_message_of_the_device() {
    let Some(plain) = board("virt-a53") else {
        return;
    };
    let world = World::new();
    let folder = board_folder(&world);
    let trace = folder.join("trace");
    let traced = format!(
        r#""-trace", "gicv3_icc_iar1_read", "-D", "{}", "-nodefaults""#,
        trace.display()
    );
    let core = start(&world, &with(&plain, &folder, r#""-nodefaults""#, &traced));
    let mut echo = Echo::open(&world.pool, "echo").expect("ports");
    for number in 0..8_u8 {
        assert_eq!(echo.round_trip(&[number]).to_vec(), [number]);
    }
    drop(echo);
    core.stop().expect("stopped");
    world.assert_clean();
    let acknowledged = fs::read_to_string(&trace).expect("the emulator's");
    let messages = acknowledged
        .lines()
        .filter(|line| line.ends_with(&format!("value {MESSAGE_INTERRUPT}")));
    assert!(messages.count() > 0, "{acknowledged}");
}

/// A core that forwards takes no slot of the port: what it waits for is the message ahead of its
/// own to be taken.
#[test]
fn core_that_waits_for_a_place_is_rung_when_a_message_is_taken() {
    for board in boards() {
        let world = World::new();
        let core = start(&world, &board);
        let node = hythe_rtcore::join(&world.pool, "late").expect("joins");
        let pong = node.subscriber("pong", &SubscriberOptions::default().depth(1));
        let ping = node.publisher("ping", &PublisherOptions::default());
        let (mut pong, mut ping) = (pong.expect("opens"), ping.expect("opens"));
        let link = || {
            let status = control::status(&world.pool, board.name()).expect("an agent answers");
            status.link.expect("a link")
        };
        for _ in 0..20 {
            for _ in 0..2 {
                let lease = ping.lease(8).expect("a free slot");
                ping.publish(lease, 8).expect("published");
            }
            // One waits for us, the other one for its place.
            eventually("the core waits", || {
                let now = link();
                let has_one = |flow: &FlowStatus| flow.window == 1 && flow.from_core.waiting() == 1;
                now.core_bell.wanted && now.flows.iter().any(has_one)
            });
            let before = link().linux_bell.rings;
            assert!(pong.try_take().expect("sound").is_some());
            assert_ne!(link().linux_bell.rings, before, "{}", board.name());
            assert!(pong.take(LONG).expect("sound").is_some());
        }
        drop((ping, pong, node));
        core.stop().expect("stopped");
        world.assert_clean();
    }
}

/// Then emulator and emulated core take turns, and the first byte comes at any point of the start.
fn share_one_cpu() {
    let allowed = sched_getaffinity(None).expect("known");
    let first = (0..CpuSet::MAX_CPU).find(|cpu| allowed.is_set(*cpu));
    let mut one = CpuSet::new();
    one.set(first.expect("a CPU"));
    sched_setaffinity(None, &one).expect("one of ours");
}

fn board_folder(world: &World) -> PathBuf {
    let folder = world.root.join("board");
    fs::create_dir(&folder).expect("own");
    folder
}

/// The same board, whose emulator answers questions.
fn with_monitor(plain: &Board, folder: &Path, socket: &Path) -> Board {
    let some = format!(
        r#""-monitor", "unix:{},server=on,wait=off""#,
        socket.display()
    );
    with(plain, folder, r#""-monitor", "none""#, &some)
}

/// The same board in `folder`, with other arguments for its emulator.
fn with(plain: &Board, folder: &Path, some: &str, other: &str) -> Board {
    let image = plain.image(plain.default_app());
    let built = image.parent().expect("a folder");
    fs::copy(&image, folder.join(image.file_name().expect("a name"))).expect("copied");
    let manifest = fs::read_to_string(built.join("board.toml")).expect("built");
    assert!(manifest.contains(some), "{manifest}");
    fs::write(folder.join("board.toml"), manifest.replace(some, other)).expect("own");
    Board::read(folder).expect("the same but for that")
}

fn doorbell_state(socket: &Path) -> u32 {
    let mut monitor = UnixStream::connect(socket).expect("the emulator listens");
    monitor.set_read_timeout(Some(LONG)).expect("set");
    let question = format!("xp /1wx {STATE}\n");
    monitor.write_all(question.as_bytes()).expect("asked");
    let mut said = Vec::new();
    let mut piece = [0; 512];
    // Behind the echo of the question, which has no colon.
    let answer = format!("{:0>16}: 0x", STATE.trim_start_matches("0x"));
    loop {
        let count = monitor.read(&mut piece).expect("an answer");
        assert!(count > 0, "{}", String::from_utf8_lossy(&said));
        said.extend_from_slice(&piece[..count]);
        let text = String::from_utf8_lossy(&said);
        let found = text.split_once(&answer).map(|(_, rest)| rest);
        if let Some((digits, _)) = found.and_then(|rest| rest.split_once('\r')) {
            return u32::from_str_radix(digits, 16).expect("a number");
        }
    }
}
