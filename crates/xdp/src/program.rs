//! The program at the interface: which socket a frame is for.
//!
//! It looks for IPv4 datagrams of UDP that are whole and fit a chunk, and for both ends of them in
//! a map: what it finds there goes to the socket of that flow at the queue by which it came.
//! Everything else goes the way that it goes without the program: so does what has a flow but no
//! socket at its queue.

use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};

use hythe_sys::bpf::{Attachment, Link, Map, MapKind, load_xdp};

use crate::frame::{Ends, HEADERS_BYTES, PAYLOAD_BYTES_MAX};

const KEY_BYTES: u32 = 12;
/// Longer frames are those that another host's kernel has not cut.
const FRAME_BYTES_MAX: i32 = (HEADERS_BYTES + PAYLOAD_BYTES_MAX) as i32;

// What the program returns, and calls: `linux/bpf.h`.
const PASS: i32 = 2;
const LOOK_UP: i32 = 1;
const REDIRECT: i32 = 51;

/// A program for an interface, with its maps. Dropped, it is on it no more.
#[derive(Debug)]
pub struct Program {
    flows: Map,
    sockets: Map,
    queues: u32,
    code: OwnedFd,
    interface: u32,
    link: Option<Link>,
    how: Attachment,
}

/// A place for the sockets of a flow, one for each queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowIndex(pub u32);

impl Program {
    /// Puts the program on an interface, for so many flows with so many queues, in the first of
    /// these ways that works.
    ///
    /// # Errors
    /// What the last of them said: no permission, or another program is there.
    ///
    /// # Panics
    /// If there is no way.
    pub fn attach(
        interface: u32,
        (flows_max, queues): (u32, u32),
        ways: &[Attachment],
    ) -> io::Result<Self> {
        let flows = Map::create(MapKind::Hash, (KEY_BYTES, 4), flows_max)?;
        let sockets = Map::create(MapKind::Sockets, (4, 4), flows_max * queues)?;
        let code = assemble(flows.as_fd(), sockets.as_fd(), queues);
        let code = load_xdp("hythe", &code)?;
        let mut last = None;
        for &how in ways {
            match Link::attach(&code, interface, how) {
                Ok(link) => {
                    return Ok(Self {
                        flows,
                        sockets,
                        queues,
                        code,
                        interface,
                        link: Some(link),
                        how,
                    });
                }
                Err(error) => last = Some(error),
            }
        }
        Err(last.unwrap_or_else(|| panic!("no way to attach a program")))
    }

    /// How it is attached, or was.
    #[must_use]
    pub fn attachment(&self) -> Attachment {
        self.how
    }

    /// Is it on an interface still?
    #[must_use]
    pub fn is_attached(&self) -> bool {
        let link = self.link.as_ref();
        link.is_some_and(|link| link.interface().is_some())
    }

    /// The index of the interface that it is for.
    #[must_use]
    pub fn interface(&self) -> u32 {
        self.interface
    }

    /// Takes it from its interface, which it costs nothing from now on.
    pub fn detach(&mut self) {
        self.link = None;
    }

    /// Puts it on its interface again, as it was, unless it is there.
    ///
    /// # Errors
    /// Another program is there; the interface is gone.
    pub fn attach_again(&mut self) -> io::Result<()> {
        if !self.is_attached() {
            self.link = None;
            self.link = Some(Link::attach(&self.code, self.interface, self.how)?);
        }
        Ok(())
    }

    /// From now on datagrams with these ends go to these sockets, one for each queue.
    ///
    /// # Errors
    /// The map is full; one is no socket of the queue.
    pub fn add(
        &self,
        ends: Ends,
        FlowIndex(flow): FlowIndex,
        sockets: &[BorrowedFd<'_>],
    ) -> io::Result<()> {
        let first = flow * self.queues;
        for (index, socket) in (first..).zip(sockets) {
            let number = socket.as_raw_fd();
            self.sockets
                .set(&index.to_ne_bytes(), &number.to_ne_bytes())?;
        }
        self.flows.set(&ends.key(), &first.to_ne_bytes())
    }

    /// Datagrams with these ends go the usual way from now on.
    pub fn remove(&self, ends: Ends, FlowIndex(flow): FlowIndex) {
        // What is not there any more needs no removing.
        let _ = self.flows.remove(&ends.key());
        let first = flow * self.queues;
        for index in first..first + self.queues {
            let _ = self.sockets.remove(&index.to_ne_bytes());
        }
    }
}

/// A register of the machine.
#[derive(Clone, Copy)]
struct Register(u64);

const RESULT: Register = Register(0);
const FIRST: Register = Register(1);
const SECOND: Register = Register(2);
const THIRD: Register = Register(3);
const SCRATCH: Register = Register(5);
/// These keep their values through calls.
const QUEUE: Register = Register(6);
const STACK: Register = Register(10);

/// Bytes of a load or store.
#[derive(Clone, Copy)]
enum Width {
    One = 0x10,
    Two = 0x08,
    Four = 0x00,
}

/// Instructions as `struct bpf_insn` has them; jumps to the end are filled in when it is known.
#[derive(Default)]
struct Assembler {
    code: Vec<u64>,
    to_pass: Vec<usize>,
}

impl Assembler {
    fn emit(&mut self, code: u64, to: Register, from: Register, offset: i16, value: i32) {
        let offset = u64::from(offset.cast_unsigned());
        let value = u64::from(value.cast_unsigned());
        self.code
            .push(code | to.0 << 8 | from.0 << 12 | offset << 16 | value << 32);
    }

    fn load(&mut self, width: Width, to: Register, from: Register, offset: i16) {
        self.emit(0x61 | width as u64, to, from, offset, 0);
    }

    fn store(&mut self, to: Register, offset: i16, from: Register) {
        self.emit(0x63, to, from, offset, 0);
    }

    fn copy(&mut self, to: Register, from: Register) {
        self.emit(0xbf, to, from, 0, 0);
    }

    fn set(&mut self, to: Register, value: i32) {
        self.emit(0xb7, to, RESULT, 0, value);
    }

    fn add(&mut self, to: Register, value: i32) {
        self.emit(0x07, to, RESULT, 0, value);
    }

    fn add_register(&mut self, to: Register, from: Register) {
        self.emit(0x0f, to, from, 0, 0);
    }

    fn and(&mut self, to: Register, value: i32) {
        self.emit(0x57, to, RESULT, 0, value);
    }

    fn map(&mut self, to: Register, map: BorrowedFd<'_>) {
        // Two instructions' space; source 1 says that the value is a map's descriptor.
        self.emit(0x18, to, Register(1), 0, map.as_raw_fd());
        self.code.push(0);
    }

    fn call(&mut self, function: i32) {
        self.emit(0x85, RESULT, RESULT, 0, function);
    }

    fn exit(&mut self) {
        self.emit(0x95, RESULT, RESULT, 0, 0);
    }

    fn pass_if_greater(&mut self, one: Register, other: Register) {
        self.to_pass.push(self.code.len());
        self.emit(0x2d, one, other, 0, 0);
    }

    fn pass_unless(&mut self, register: Register, value: i32) {
        self.to_pass.push(self.code.len());
        self.emit(0x55, register, RESULT, 0, value);
    }

    fn pass_if(&mut self, register: Register, value: i32) {
        self.to_pass.push(self.code.len());
        self.emit(0x15, register, RESULT, 0, value);
    }

    fn pass_unless_less(&mut self, register: Register, value: i32) {
        self.to_pass.push(self.code.len());
        self.emit(0x35, register, RESULT, 0, value);
    }

    fn finish(mut self) -> Vec<u64> {
        let pass = self.code.len();
        for from in &self.to_pass {
            // Fits: a few dozen instructions.
            let distance = (pass - from - 1) as u64;
            self.code[*from] |= distance << 16;
        }
        self.set(RESULT, PASS);
        self.exit();
        self.code
    }
}

fn assemble(flows: BorrowedFd<'_>, sockets: BorrowedFd<'_>, queues: u32) -> Vec<u64> {
    let mut code = Assembler::default();
    // `struct xdp_md`: data, its end, ... the queue at 16.
    let (data, end) = (SECOND, THIRD);
    code.load(Width::Four, QUEUE, FIRST, 16);
    code.load(Width::Four, data, FIRST, 0);
    code.load(Width::Four, end, FIRST, 4);
    code.copy(SCRATCH, data);
    code.add(SCRATCH, HEADERS_BYTES as i32);
    code.pass_if_greater(SCRATCH, end);
    code.add(SCRATCH, FRAME_BYTES_MAX - HEADERS_BYTES as i32);
    code.pass_if_greater(end, SCRATCH);
    let expect = |code: &mut Assembler, width, offset, value| {
        code.load(width, SCRATCH, data, offset);
        code.pass_unless(SCRATCH, value);
    };
    // As the frame has them: the machine has this processor's order of bytes.
    let half = |value: u16| i32::from(value.to_be());
    expect(&mut code, Width::Two, 12, half(0x0800));
    expect(&mut code, Width::One, 14, 0x45);
    expect(&mut code, Width::One, 23, 17);
    // More fragments, or not the first of them.
    code.load(Width::Two, SCRATCH, data, 20);
    code.and(SCRATCH, half(0x3fff));
    code.pass_unless(SCRATCH, 0);
    code.pass_unless_less(QUEUE, queues.cast_signed());
    for offset in [0, 4, 8] {
        code.load(Width::Four, SCRATCH, data, 26 + offset);
        code.store(STACK, offset - 12, SCRATCH);
    }
    code.copy(SECOND, STACK);
    code.add(SECOND, -12);
    code.map(FIRST, flows);
    code.call(LOOK_UP);
    code.pass_if(RESULT, 0);
    code.load(Width::Four, SECOND, RESULT, 0);
    code.add_register(SECOND, QUEUE);
    code.map(FIRST, sockets);
    // Where there is no socket.
    code.set(THIRD, PASS);
    code.call(REDIRECT);
    code.exit();
    code.finish()
}
