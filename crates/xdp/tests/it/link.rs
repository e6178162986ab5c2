//! Frames of a real interface reach the sockets that they are for, and leave from them.

use std::net::{SocketAddr, SocketAddrV4, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Instant;

use crate::links::{BOUND, FAR, NEAR, Network, udp};
use hythe_memory::Mapped;
use hythe_xdp::frame::{self, Datagram, Ends, HEADERS_BYTES};
use hythe_xdp::{
    Address, Attachment, CHUNK_BYTES, FlowIndex, Frame, Program, Queue, QueueSocket, Region,
    RingSizes, TaskSocket, interface_index, observe,
};

const CHUNKS: u32 = 64;
const RINGS: RingSizes = RingSizes {
    receive: CHUNKS,
    send: 16,
};

fn address(socket: &UdpSocket) -> SocketAddrV4 {
    match socket.local_addr().expect("bound") {
        SocketAddr::V4(address) => address,
        SocketAddr::V6(address) => panic!("{address}"),
    }
}

/// The far end: a program, and a queue with a task's socket.
struct Far {
    program: Program,
    queue: QueueSocket,
    task: TaskSocket,
    shared: OwnedFd,
    memory: Mapped,
    _region: Region,
}

impl Far {
    fn open(how: Attachment) -> Self {
        let interface = interface_index("far").expect("there");
        let region = Region::create(2 * CHUNKS).expect("memory");
        let queue = Queue {
            interface,
            number: 0,
        };
        let mut owner = QueueSocket::bind(&region, queue, CHUNKS).expect("bound");
        assert!(!owner.is_zero_copy(), "veth cannot");
        for chunk in 0..u64::from(CHUNKS) {
            assert!(owner.fill.push(Address(chunk * CHUNK_BYTES as u64)));
        }
        owner.fill.publish();
        owner.kick();
        let shared = owner.share(queue, RINGS).expect("made");
        let task = TaskSocket::map(shared.try_clone().expect("copied"), RINGS).expect("mapped");
        let program = Program::attach(interface, (4, 1), &[how]).expect("attached");
        assert_eq!(program.attachment(), how);
        Self {
            program,
            queue: owner,
            task,
            shared,
            memory: region.map().expect("mapped"),
            _region: region,
        }
    }

    fn take(&mut self) -> (Frame, Datagram, Vec<u8>) {
        let start = Instant::now();
        loop {
            if let Some(frame) = self.task.receive.pop() {
                let mut bytes = vec![0; frame.bytes as usize];
                self.memory.read(frame.address as usize, &mut bytes);
                self.task.receive.release();
                let datagram = frame::parse(&bytes).expect("a datagram");
                let payload = bytes[datagram.payload.clone()].to_vec();
                return (frame, datagram, payload);
            }
            assert!(
                start.elapsed() < BOUND,
                "nothing: {:?}",
                self.task.dropped()
            );
            std::thread::yield_now();
        }
    }

    fn send(&mut self, chunk: u32, datagram: &Datagram, payload: &[u8]) {
        let at = chunk as usize * CHUNK_BYTES;
        let (stations, ends) = (datagram.stations.swapped(), datagram.ends.swapped());
        let headers = frame::headers(stations, ends, payload.len());
        self.memory.write(at, &headers);
        self.memory.write(at + HEADERS_BYTES, payload);
        assert!(self.task.send.push(Frame {
            address: at as u64,
            bytes: (HEADERS_BYTES + payload.len()) as u32,
        }));
        self.task.send.publish();
        self.task.kick().expect("sent");
    }
}

fn a_flow_goes_past_the_kernel(how: Attachment) {
    let Some(network) = Network::new(1) else {
        return;
    };
    let (near, other) = (udp(NEAR), udp(NEAR));
    let far = network.at_far(|| udp(FAR));
    let ends = Ends {
        from: address(&near),
        to: address(&far),
    };
    let mut bound = network.at_far(|| Far::open(how));
    let mut observer = observe(&bound.shared, RINGS).expect("mapped");
    let sockets = [bound.shared.as_fd()];
    bound
        .program
        .add(ends, FlowIndex(3), &sockets)
        .expect("added");
    let mut buffer = [0; 4096];
    // More than there are chunks: they come back.
    let mut sent = 0_u32;
    for round in 0..3 * CHUNKS {
        let payload = vec![round as u8; 1 + round as usize * 11 % 1400];
        near.send_to(&payload, ends.to).expect("sent");
        let (frame, datagram, got) = bound.take();
        assert_eq!((datagram.ends, &got), (ends, &payload));
        observer
            .given_back(|back| {
                assert_eq!(back, frame);
                assert!(bound.queue.fill.push(Address(back.address)));
            })
            .expect("sound");
        bound.queue.fill.publish();
        bound.queue.kick();
        // The kernel's copy of what is sent is made when the call returns.
        bound.send(CHUNKS + round % CHUNKS, &datagram, &payload);
        sent += 1;
        let (bytes, from) = near.recv_from(&mut buffer).expect("answered");
        assert_eq!((&buffer[..bytes], from), (&payload[..], ends.to.into()));
        while let Some(Address(done)) = bound.queue.completion.pop() {
            assert!(done / CHUNK_BYTES as u64 >= u64::from(CHUNKS));
            sent -= 1;
        }
        bound.queue.completion.release();
    }
    assert!(sent < CHUNKS, "{sent} chunks have not come back");
    // Another port's, to the same socket, goes the usual way.
    other.send_to(b"for the kernel", ends.to).expect("sent");
    let (bytes, from) = far.recv_from(&mut buffer).expect("passed");
    assert_eq!(&buffer[..bytes], b"for the kernel");
    assert_eq!(from, address(&other).into());
    assert!(bound.task.receive.is_empty());
    // And so does everything, when the flow is taken away.
    bound.program.remove(ends, FlowIndex(3));
    near.send_to(b"not any more", ends.to).expect("sent");
    let (bytes, _) = far.recv_from(&mut buffer).expect("passed");
    assert_eq!(&buffer[..bytes], b"not any more");
    assert!(bound.program.is_attached());
}

#[test]
fn flow_goes_past_the_kernel_behind_its_buffers() {
    a_flow_goes_past_the_kernel(Attachment::Generic);
}

#[test]
fn flow_goes_past_the_kernel_in_the_driver() {
    a_flow_goes_past_the_kernel(Attachment::Driver);
}

#[test]
fn what_comes_by_another_queue_or_is_long_goes_the_usual_way() {
    let Some(network) = Network::new(2) else {
        return;
    };
    let far = network.at_far(|| udp(FAR));
    let bound = network.at_far(|| Far::open(Attachment::Generic));
    let mut buffer = [0; 65536];
    let (mut passed, mut redirected) = (0, 0);
    let mut bound = bound;
    let mut near_sockets = Vec::new();
    // The kernel spreads flows over the queues of the sender, whose number is that of the receiver.
    for number in 0..64 {
        let near = udp(NEAR);
        let ends = Ends {
            from: address(&near),
            to: address(&far),
        };
        let sockets = [bound.shared.as_fd()];
        bound
            .program
            .add(ends, FlowIndex(0), &sockets)
            .expect("added");
        near.send_to(&[number; 10], ends.to).expect("sent");
        far.set_nonblocking(true).expect("set");
        let start = Instant::now();
        loop {
            if let Some(frame) = bound.task.receive.pop() {
                bound.task.receive.release();
                assert_eq!(frame.bytes as usize, HEADERS_BYTES + 10);
                redirected += 1;
                break;
            }
            if far.recv(&mut buffer).is_ok() {
                assert_eq!(buffer[..10], [number; 10]);
                passed += 1;
                break;
            }
            assert!(start.elapsed() < BOUND, "{number} was lost");
        }
        bound.program.remove(ends, FlowIndex(0));
        near_sockets.push(near);
    }
    assert_eq!(passed + redirected, 64);
    assert!(redirected > 0, "none came by the queue");
}

#[test]
fn queue_has_one_owner_and_an_interface_one_program() {
    let Some(network) = Network::new(1) else {
        return;
    };
    let refused = network.at_far(|| {
        let bound = Far::open(Attachment::Generic);
        let interface = interface_index("far").expect("there");
        let second = Program::attach(interface, (4, 1), &[Attachment::Generic]);
        let second = second.expect_err("refused");
        let region = Region::create(4).expect("memory");
        let queue = |number| Queue { interface, number };
        let busy = QueueSocket::bind(&region, queue(0), 4).expect_err("refused");
        let none = QueueSocket::bind(&region, queue(9), 4).expect_err("refused");
        assert!(bound.program.is_attached());
        [second, busy, none].map(|error| error.raw_os_error())
    });
    let errors = [16, 16, 22].map(Some);
    assert_eq!(refused, errors, "EBUSY, EBUSY, EINVAL");
    let gone = network.at_far(|| interface_index("hythe-none").expect_err("refused"));
    assert!(gone.to_string().contains("hythe-none"), "{gone}");
}
