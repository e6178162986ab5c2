//! What a process and the service say to each other: one packet each, with descriptors.
//!
//! The process: version, how many bytes of a file it would send from (0: none), its UDP socket, and
//! that file. The service: version, number and generation of the flow, whether frames may be sent
//! from that file, whether the program was on the interface before, and whether for others (a byte
//! each), why frames are not sent from that file; then the control file, the bell, and for each
//! queue its region and a socket; or the version and why not.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::fcntl_get_seals;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recv, recvmsg, sendmsg, sockopt,
};

use crate::layout::{FLOWS_MAX, FlowPlace, GENERATIONS, QUEUES_MAX};

/// Changes with every change of what is here or in `layout`.
const VERSION: u32 = 4;
/// The longest packet.
const PACKET_BYTES_MAX: usize = 512;
/// Of a reason.
const REASON_CHARS_MAX: usize = 200;
/// Control file and bell, and two for each queue.
pub(crate) const FILES_MAX: usize = 2 + 2 * QUEUES_MAX as usize;

/// What a process gets.
#[derive(Debug)]
pub(crate) struct Grant {
    pub(crate) place: FlowPlace,
    /// Frames may be sent from the file that it has passed.
    pub(crate) sends_from_slots: bool,
    /// Why not, if it has passed one.
    pub(crate) copies_because: String,
    /// The program was on the interface before.
    pub(crate) was_on: bool,
    /// For others, who use it still.
    pub(crate) has_others: bool,
    pub(crate) control: OwnedFd,
    pub(crate) bell: OwnedFd,
    /// Region and socket of each queue.
    pub(crate) queues: Vec<(OwnedFd, OwnedFd)>,
}

/// What a process asks for.
#[derive(Debug)]
pub(crate) struct Asked {
    /// Whose datagrams it would receive.
    pub(crate) socket: OwnedFd,
    /// What it would send from, and how many bytes of that.
    pub(crate) card: Option<(OwnedFd, u64)>,
    /// It would send from something that is no memory.
    pub(crate) lacks_card: bool,
}

/// Asks for sockets in the place of this one, and to send from so many bytes of that file.
pub(crate) fn ask(
    connection: impl AsFd,
    socket: BorrowedFd<'_>,
    card: Option<(BorrowedFd<'_>, u64)>,
) -> io::Result<()> {
    let mut packet = VERSION.to_le_bytes().to_vec();
    let bytes = card.map_or(0, |(_, bytes)| bytes);
    packet.extend_from_slice(&bytes.to_le_bytes());
    let card = card.map(|(file, _)| file);
    let files: Vec<BorrowedFd<'_>> = std::iter::once(socket).chain(card).collect();
    send(connection, &packet, &files)
}

/// What a process asks. `None`: nothing has come. `strange` gets descriptors of what nobody is to
/// pass, whatever else came.
pub(crate) fn asked(
    connection: impl AsFd,
    mut strange: impl FnMut(OwnedFd),
) -> io::Result<Option<Asked>> {
    let received = receive(connection, |file| match is_expected(&file) {
        true => Some(file),
        false => {
            strange(file);
            None
        }
    });
    let Some((packet, files)) = received? else {
        return Ok(None);
    };
    let (version, bytes) = packet
        .split_first_chunk::<4>()
        .ok_or(io::ErrorKind::InvalidData)?;
    let bytes: [u8; 8] = bytes.try_into().map_err(|_| io::ErrorKind::InvalidData)?;
    let (mut files, bytes) = (files.into_iter(), u64::from_le_bytes(bytes));
    let socket = files.next().filter(|_| *version == VERSION.to_le_bytes());
    let socket = socket.ok_or(io::ErrorKind::InvalidData)?;
    let card = files.next().filter(|_| bytes > 0);
    Ok(Some(Asked {
        socket,
        lacks_card: card.is_none() && bytes > 0,
        card: card.map(|file| (file, bytes)),
    }))
}

/// Has a process that has all it asked for sent something more, or left? What it has sent is not
/// received, nor are descriptors with it: they go with the connection.
pub(crate) fn has_spoken(connection: impl AsFd) -> bool {
    let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
    let peeked = recv(connection, &mut [0], flags);
    !matches!(
        peeked,
        Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR)
    )
}

/// A socket of UDP, or memory: to look at it, and to close it, takes no time.
fn is_expected(file: &OwnedFd) -> bool {
    let protocol = sockopt::socket_protocol(file);
    protocol == Ok(Some(rustix::net::ipproto::UDP)) || fcntl_get_seals(file).is_ok()
}

/// Grants it.
pub(crate) fn grant(
    connection: impl AsFd,
    (place, says, copies_because): (FlowPlace, [bool; 3], &str),
    (control, bell): (BorrowedFd<'_>, BorrowedFd<'_>),
    queues: &[(BorrowedFd<'_>, BorrowedFd<'_>)],
) -> io::Result<()> {
    let mut packet = VERSION.to_le_bytes().to_vec();
    packet.extend_from_slice(&place.number.to_le_bytes());
    packet.extend_from_slice(&place.generation.to_le_bytes());
    packet.extend(says.map(u8::from));
    add_reason(&mut packet, copies_because);
    let mut files = vec![control, bell];
    files.extend(
        queues
            .iter()
            .flat_map(|(region, socket)| [*region, *socket]),
    );
    send(connection, &packet, &files)
}

/// Refuses it.
pub(crate) fn refuse(connection: impl AsFd, reason: &str) {
    let mut packet = VERSION.to_le_bytes().to_vec();
    add_reason(&mut packet, reason);
    // Who hung up needs no answer.
    let _ = send(connection, &packet, &[]);
}

/// The first of what a grant says, if there is such a place.
fn place_of(bytes: &[u8]) -> Option<FlowPlace> {
    let (number, rest) = bytes.split_first_chunk::<4>()?;
    let (generation, _) = rest.split_first_chunk::<4>()?;
    let place = FlowPlace {
        number: u32::from_le_bytes(*number),
        generation: u32::from_le_bytes(*generation),
    };
    let is_one = place.number < FLOWS_MAX && place.generation < GENERATIONS;
    is_one.then_some(place)
}

fn add_reason(packet: &mut Vec<u8>, reason: &str) {
    packet.extend(reason.bytes().take(PACKET_BYTES_MAX - packet.len()));
}

fn reason_of(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.chars().take(REASON_CHARS_MAX).collect()
}

/// The answer. `None`: nothing has come.
pub(crate) fn answered(connection: impl AsFd) -> io::Result<Option<Grant>> {
    let Some((packet, files)) = receive(connection, Some)? else {
        return Ok(None);
    };
    let (version, rest) = packet
        .split_first_chunk::<4>()
        .ok_or(io::ErrorKind::InvalidData)?;
    if u32::from_le_bytes(*version) != VERSION {
        return Err(io::Error::other("the wire program is of another version"));
    }
    let mut files = files.into_iter();
    let (Some(control), Some(bell)) = (files.next(), files.next()) else {
        return Err(io::Error::other(reason_of(rest)));
    };
    let place = place_of(rest).ok_or(io::ErrorKind::InvalidData)?;
    let [sends_from_slots, was_on, has_others, why @ ..] = &rest[8..] else {
        return Err(io::ErrorKind::InvalidData.into());
    };
    let mut queues = Vec::with_capacity(QUEUES_MAX as usize);
    while let (Some(region), Some(socket)) = (files.next(), files.next()) {
        queues.push((region, socket));
    }
    Ok(Some(Grant {
        place,
        sends_from_slots: *sends_from_slots != 0,
        copies_because: reason_of(why),
        was_on: *was_on != 0,
        has_others: *has_others != 0,
        control,
        bell,
        queues,
    }))
}

fn send(connection: impl AsFd, packet: &[u8], files: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FILES_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !files.is_empty() && !control.push(SendAncillaryMessage::ScmRights(files)) {
        return Err(io::ErrorKind::OutOfMemory.into());
    }
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    sendmsg(connection, &[IoSlice::new(packet)], &mut control, flags)?;
    Ok(())
}

type Received = (Vec<u8>, Vec<OwnedFd>);

fn receive(
    connection: impl AsFd,
    keep: impl FnMut(OwnedFd) -> Option<OwnedFd>,
) -> io::Result<Option<Received>> {
    let mut packet = [0; PACKET_BYTES_MAX];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FILES_MAX))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let mut pieces = [IoSliceMut::new(&mut packet)];
    let received = match recvmsg(connection, &mut pieces, &mut control, flags) {
        Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => return Ok(None),
        received => received?,
    };
    let files = control.drain().flat_map(|message| match message {
        RecvAncillaryMessage::ScmRights(files) => files.collect(),
        _ => Vec::new(),
    });
    let files = files.filter_map(keep).collect();
    // As where this process may open no more files. Who has the sockets of some queues only would
    // never see what comes by the others.
    if received.flags.contains(ReturnFlags::CTRUNC) {
        return Err(io::Error::other(
            "not all descriptors of a message could be taken (`ulimit -n`)",
        ));
    }
    match received.bytes {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        bytes => Ok(Some((packet[..bytes].to_vec(), files))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::closer::tests::lingering;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    fn pair() -> (OwnedFd, OwnedFd) {
        let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
        socketpair(family, kind, SocketFlags::CLOEXEC, None).expect("made")
    }

    fn file() -> OwnedFd {
        rustix::fs::memfd_create("file", rustix::fs::MemfdFlags::CLOEXEC).expect("made")
    }

    #[test]
    fn what_nobody_is_to_pass_is_closed_by_others() {
        let (service, process) = pair();
        let (socket, peer) = lingering();
        ask(&process, socket.as_fd(), Some((file().as_fd(), 4096))).expect("sent");
        drop(socket);
        let (to, from) = std::sync::mpsc::channel();
        let asking = std::thread::spawn(move || {
            let mut strange = Vec::new();
            let asked = asked(&service, |file| strange.push(file));
            let _ = to.send((strange.len(), asked));
            strange
        });
        // It only ends a test that has failed.
        let asked = from.recv_timeout(std::time::Duration::from_secs(60));
        drop(peer);
        drop(asking.join().expect("no panic"));
        let (strange, asked) = asked.expect("it does not wait");
        assert_eq!(strange, 1);
        // What is left is that file, which is no socket: whoever serves says so.
        let left = asked.expect("a packet").expect("came");
        assert!(fcntl_get_seals(&left.socket).is_ok() && left.lacks_card);
    }

    #[test]
    fn message_of_which_files_are_lacking_is_refused() {
        let (service, process) = pair();
        // More than the other side takes, as if it could open no more.
        let files: Vec<OwnedFd> = (0..FILES_MAX + 8).map(|_| file()).collect();
        let files: Vec<BorrowedFd<'_>> = files.iter().map(|file| file.as_fd()).collect();
        let place = [VERSION.to_le_bytes(), [0; 4], [0; 4]].concat();
        let packet = [place, vec![0; 3]].concat();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FILES_MAX + 8))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        assert!(control.push(SendAncillaryMessage::ScmRights(&files)));
        let pieces = [IoSlice::new(&packet)];
        sendmsg(&service, &pieces, &mut control, SendFlags::DONTWAIT).expect("sent");
        let error = answered(&process).expect_err("files are lacking");
        assert!(error.to_string().contains("descriptors"), "{error}");
        // Nothing but the files was wrong.
        send(&service, &packet, &files[..4]).expect("sent");
        let granted = answered(&process).expect("sound").expect("came");
        assert_eq!(granted.queues.len(), 1);
    }

    #[test]
    fn files_arrive_and_refusals_say_why() {
        let (service, process) = pair();
        assert!(asked(&service, drop).expect("sound").is_none());
        for bytes in [None, Some(8192)] {
            let card = file();
            let card = bytes.map(|bytes| (card.as_fd(), bytes));
            ask(&process, file().as_fd(), card).expect("sent");
            let asked = asked(&service, drop).expect("sound").expect("came");
            assert_eq!(asked.card.map(|(_, bytes)| bytes), bytes);
        }
        let files: Vec<OwnedFd> = (0..6).map(|_| file()).collect();
        let of = |index: usize| files[index].as_fd();
        let queues = [(of(2), of(3)), (of(4), of(5))];
        let place = |number, generation| FlowPlace { number, generation };
        let says = |place| (place, [true, false, true], "others have it");
        for none in [place(FLOWS_MAX, 0), place(0, GENERATIONS)] {
            grant(&service, says(none), (of(0), of(1)), &queues).expect("sent");
            answered(&process).expect_err("there is no such place");
        }
        grant(&service, says(place(7, 9)), (of(0), of(1)), &queues).expect("sent");
        let granted = answered(&process).expect("sound").expect("came");
        assert_eq!(granted.copies_because, "others have it");
        assert_eq!((granted.place, granted.queues.len()), (place(7, 9), 2));
        let says = [granted.sends_from_slots, granted.was_on, granted.has_others];
        assert_eq!(says, [true, false, true]);
        refuse(&service, &"no ".repeat(1000));
        let error = answered(&process).expect_err("refused");
        assert!(error.to_string().starts_with("no no"), "{error}");
        // Without a socket, or of another version.
        let nothing = [&VERSION.to_le_bytes()[..], &[0; 8]].concat();
        send(&process, &nothing, &[]).expect("sent");
        asked(&service, drop).expect_err("no socket");
        send(&process, &[9; 12], &[file().as_fd()]).expect("sent");
        asked(&service, drop).expect_err("another version");
        send(&process, &VERSION.to_le_bytes(), &[file().as_fd()]).expect("sent");
        asked(&service, drop).expect_err("another version");
        drop(process);
        asked(&service, drop).expect_err("gone");
    }
}
