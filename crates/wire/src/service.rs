//! The service of an interface: who may have sockets, and what becomes of them.
//!
//! One thread. It is woken by processes that connect, leave, or ring because they have given chunks
//! back; while there are any it looks every few milliseconds, whoever rings. It never waits for a
//! process, and believes none: a socket is for what would come to a UDP socket that the process
//! has, in the network of this interface, so nobody gets what is for another user.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder};
use std::io::{self, IoSliceMut};
use std::net::SocketAddrV4;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use hythe_memory::{Access, Mapped, Memory as _, Ordering};
use hythe_sys::accept::{Accepted, Acceptor};
use hythe_sys::local_socket::{LocalListener, Peers};
use hythe_sys::namespaces::network_of;
use hythe_xdp::frame::Ends;
use hythe_xdp::{Attachment, FlowIndex, Observer, Program, interface_index};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd};
use rustix::io::{Errno, ReadWriteFlags, preadv2};
use rustix::net::{
    AddressFamily, SocketAddrAny, SocketFlags, SocketType, getpeername, getsockname, socket_with,
    sockopt,
};

use crate::card::{Card, CardIdentity, not_in_memory};
use crate::closer::Closer;
use crate::layout::{
    CLIENTS_MAX, CONTROL_BYTES, FLOWS_MAX, FlowPlace, FlowPlaces, RECEIVE_CHUNKS, path_of,
};
use crate::message::{Asked, asked, grant, has_spoken, refuse};
use crate::queue::{ServedQueue, queue_count_of, take_queues, take_queues_again};

/// Looks so often while there are flows.
const LOOK: Duration = Duration::from_millis(5);
/// And so often whether the interface is there still.
const IDLE: Duration = Duration::from_secs(1);
/// A process that has connected asks within this.
const ASKING: Duration = Duration::from_secs(5);
/// Behind the last flow the program stays on the interface for so long.
const LEAVING: Duration = Duration::from_millis(500);
/// Behind the end of a flow: no packet is on the way to its socket any more.
const SETTLING: Duration = Duration::from_millis(100);
/// A process that has read nothing for so long reads nothing for long, perhaps.
const STANDING: Duration = Duration::from_millis(250);
const BACKLOG: i32 = 16;
/// Looks so often whether what others have passed is closed, so that more can be taken in.
const CLOSING: Duration = Duration::from_millis(100);
const FLAGS: SocketFlags = SocketFlags::CLOEXEC.union(SocketFlags::NONBLOCK);

/// What is served, and for whom.
#[derive(Clone, Debug)]
pub struct Options {
    /// The interface's name.
    pub interface: String,
    /// Processes of this user, and root's, get sockets.
    pub user: u32,
    /// Where to listen; by default [`path_of`](crate::path_of) the interface.
    pub path: Option<PathBuf>,
    /// How the program is put on the interface: the first that works.
    pub attachments: Vec<Attachment>,
}

/// A service. Dropped, everything of the interface goes the usual way.
#[derive(Debug)]
pub struct Service {
    // First: nothing comes any more when the sockets go.
    program: Program,
    /// The program is on the interface, where it costs other traffic, for flows only.
    is_on: bool,
    /// When there was a flow last.
    used: Instant,
    queues: Vec<ServedQueue>,
    /// What is registered besides, to send from.
    card: Option<Card>,
    /// What could not be, and why.
    refused_card: Option<(CardIdentity, String)>,
    interface: u32,
    clients: Vec<Client>,
    flows: BTreeMap<u32, Flow>,
    places: FlowPlaces,
    bell: OwnedFd,
    listener: LocalListener,
    acceptor: Acceptor,
    closer: Closer,
    network: u64,
    options: Options,
    path: PathBuf,
    /// How many queues the interface had when they were taken, if its driver says so.
    queue_count: Option<u32>,
    /// When that was looked at last.
    counted: Instant,
    /// Queues have come or gone: nobody can connect until all of them are served.
    starts_anew: bool,
    /// In the interface's network, to ask for what it has.
    probe: OwnedFd,
}

/// A process that is connected.
#[derive(Debug)]
struct Client {
    connection: OwnedFd,
    since: Instant,
    flow: Option<u32>,
}

#[derive(Debug)]
struct Flow {
    /// Of its number: another had that before.
    generation: u32,
    ends: Ends,
    /// Of the process: as long as it is there, nobody else has its port.
    socket: OwnedFd,
    control: Mapped,
    /// Of each queue: its socket, as long as something may come, and what is given back.
    sockets: Vec<(OwnedFd, Observer)>,
    /// Its process has given chunks back since the last turn.
    has_read: bool,
    /// Since when it has had some to read, and has given none back.
    stands: Option<Instant>,
    /// Since when its process is gone.
    ended: Option<Instant>,
}

impl Service {
    /// Takes an interface: puts the program on it, takes its queues, and listens.
    ///
    /// # Errors
    /// What could not be had, and what for.
    pub fn open(options: Options) -> io::Result<Self> {
        let interface = interface_index(&options.interface)?;
        let probe = socket_with(AddressFamily::INET, SocketType::DGRAM, FLAGS, None)?;
        // First: what changes meanwhile is noticed.
        let queue_count = queue_count_of(&probe, &options.interface);
        let queues =
            take_queues(interface, None).map_err(|error| match Errno::from_io_error(&error) {
                Some(Errno::NOBUFS) => io::Error::other(
                    "more memory would be locked than this process may (`ulimit -l`, or \
                     LimitMEMLOCK= of its unit)",
                ),
                _ => named("its queues", &error),
            })?;
        let sizes = (FLOWS_MAX, queues.len() as u32);
        // To find out how, and whether it may.
        let mut program = Program::attach(interface, sizes, &options.attachments)
            .map_err(|error| named("a program on it", &error))?;
        program.detach();
        let path = match &options.path {
            Some(path) => path.clone(),
            None => path_of(&options.interface),
        };
        let listener = open_listener(&path, options.user)
            .map_err(|error| named(&path.display().to_string(), &error))?;
        Ok(Self {
            program,
            is_on: false,
            used: Instant::now(),
            queues,
            card: None,
            refused_card: None,
            interface,
            clients: Vec::new(),
            flows: BTreeMap::new(),
            places: FlowPlaces::default(),
            bell: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            listener,
            acceptor: Acceptor::default(),
            closer: Closer::start()?,
            network: network_of(&probe).map_err(|error| named("its network", &error))?,
            options,
            path,
            queue_count,
            counted: Instant::now(),
            starts_anew: false,
            probe,
        })
    }

    /// How the program is put on the interface, whether the card itself reads and writes the
    /// region, and how many queues there are: for people.
    #[must_use]
    pub fn describe(&self) -> String {
        let how = match self.program.attachment() {
            Attachment::Driver => "in the driver",
            Attachment::Generic => "generic",
        };
        let copies = match self.queues.iter().all(ServedQueue::is_zero_copy) {
            true => "without a copy",
            false => "with a copy by the kernel each way",
        };
        let queues = match self.queues.len() {
            1 => "its queue".to_owned(),
            many => format!("{many} queues"),
        };
        format!("{} by {queues}, {how}, {copies}", self.options.interface)
    }

    /// How many flows there are, those that are about to end included.
    #[must_use]
    pub fn flows(&self) -> usize {
        self.flows.len()
    }

    /// Serves until `stop` becomes readable.
    ///
    /// # Errors
    /// The interface is gone, or the program was taken from it.
    pub fn run(&mut self, stop: impl AsFd) -> io::Result<()> {
        loop {
            if self.turn(stop.as_fd())? {
                return Ok(());
            }
        }
    }

    /// Waits for something to do, for a bounded time, and does it. True: it is to stop.
    fn turn(&mut self, stop: BorrowedFd<'_>) -> io::Result<bool> {
        let timeout = match (self.flows.is_empty(), self.is_on) {
            (true, false) => IDLE,
            (true, true) => LEAVING,
            (false, _) => LOOK,
        };
        let mut files = vec![
            PollFd::new(&stop, PollFlags::IN),
            PollFd::new(&self.bell, PollFlags::IN),
        ];
        // What cannot be taken in now would have each turn begin at once.
        let (pause, is_busy) = (self.acceptor.pause(), self.closer.is_busy());
        if self.takes_more() && pause.is_none() {
            files.push(PollFd::new(&self.listener, PollFlags::IN));
        }
        let clients = self.clients.iter();
        let heard = clients.filter(|client| !is_busy || client.flow.is_some());
        files.extend(heard.map(|client| PollFd::new(&client.connection, PollFlags::IN)));
        let timeout = pause.map_or(timeout, |pause| timeout.min(pause));
        let timeout = if is_busy {
            timeout.min(CLOSING)
        } else {
            timeout
        };
        // Refused, it is asked in another way.
        let is_to_stop = hythe_sys::wait::ready(&mut files, timeout)[0];
        drop(files);
        silence(&self.bell);
        self.recycle();
        self.accept();
        self.hear();
        if self.queues.is_empty() {
            self.retake();
        } else if self.counted.elapsed() >= IDLE {
            self.end_disconnected();
            self.count_queues();
        }
        match self.program_stays() {
            true => Ok(is_to_stop),
            false => Err(io::Error::other(format!(
                "{} is gone, or its program was taken away",
                self.options.interface
            ))),
        }
    }

    /// Takes the program from the interface when nobody uses it. False: somebody else did, or the
    /// interface is gone.
    fn program_stays(&mut self) -> bool {
        if !self.is_on {
            return match interface_index(&self.options.interface) {
                Ok(index) => index == self.program.interface(),
                // Whether it is there shows when files can be opened again.
                Err(error) => is_shortage(&error),
            };
        }
        if !self.program.is_attached() {
            return false;
        }
        if !self.flows.is_empty() {
            self.used = Instant::now();
        } else if self.used.elapsed() >= LEAVING {
            self.program.detach();
            self.is_on = false;
        }
        true
    }

    /// Fills and completes.
    fn recycle(&mut self) {
        let (now, mut over) = (Instant::now(), Vec::new());
        for (index, queue) in self.queues.iter_mut().enumerate() {
            for (number, flow) in &mut self.flows {
                let (_, observer) = &mut flow.sockets[index];
                if flow.ended.is_some_and(|ended| now - ended >= SETTLING) {
                    queue.take_over(observer);
                    continue;
                }
                match queue.take_back(observer) {
                    Ok(count) => flow.has_read |= count > 0,
                    Err(word) if flow.ended.is_none() => {
                        tracing::warn!(flow = number, ?word, "a process has broken its ring");
                        flow.end(&self.program, *number, now);
                        over.push(Some(*number));
                    }
                    Err(_) => {}
                }
            }
            queue.turn(|place, chunk| {
                if let Some(flow) = self.flows.get(&place.number) {
                    flow.completed(place, chunk);
                }
            });
        }
        self.flows
            .values_mut()
            .for_each(|flow| flow.note_reads(now));
        if let Some((number, flow)) = standing(&mut self.flows, self.queues.len(), now) {
            tracing::warn!(
                flow = number,
                "a process reads nothing, and others lack its chunks"
            );
            flow.end(&self.program, number, now);
            over.push(Some(number));
        }
        // At once: when they leave later, their numbers may be others'.
        self.hang_up(|client| over.contains(&client.flow));
        self.flows
            .retain(|_, flow| flow.ended.is_none_or(|ended| now - ended < SETTLING));
    }

    fn accept(&mut self) {
        while self.takes_more() {
            let report = |error: &io::Error| {
                tracing::warn!(%error, "processes that connect are refused (`ulimit -n`)");
            };
            let accepted = self
                .listener
                .accept_or_refuse(&mut self.acceptor, report, |stranger| {
                    refuse(&stranger, "it serves another user");
                    self.closer.hang_up(stranger);
                });
            match accepted {
                Accepted::Connection(connection) => self.clients.push(Client {
                    connection,
                    since: Instant::now(),
                    flow: None,
                }),
                Accepted::Surplus(connection) => {
                    let reason = "its program may open no more files (`ulimit -n`)";
                    refuse(&connection, reason);
                    self.closer.hang_up(connection);
                }
                Accepted::Nothing => return,
            }
        }
    }

    fn takes_more(&self) -> bool {
        self.clients.len() < CLIENTS_MAX && !self.closer.is_busy()
    }

    /// Lets go of processes of which this is so.
    fn hang_up(&mut self, is_over: impl Fn(&Client) -> bool) {
        for client in self.clients.extract_if(.., |client| is_over(client)) {
            self.closer.hang_up(client.connection);
        }
    }

    /// Takes what processes ask, and takes flows from those that have left.
    fn hear(&mut self) {
        let now = Instant::now();
        for mut client in std::mem::take(&mut self.clients) {
            let stays = match client.flow {
                Some(_) => !has_spoken(&client.connection),
                None => self.hear_asking(&mut client, now),
            };
            if stays {
                self.clients.push(client);
                continue;
            }
            if let Some((number, flow)) = client
                .flow
                .and_then(|number| Some((number, self.flows.get_mut(&number)?)))
            {
                flow.end(&self.program, number, now);
            }
            self.closer.hang_up(client.connection);
        }
    }

    /// Takes what one asks that has no flow yet. False: it is refused.
    fn hear_asking(&mut self, client: &mut Client, now: Instant) -> bool {
        // Descriptors are taken only where what nobody is to pass can be closed.
        let heard = match self.closer.is_busy() {
            true => Ok(None),
            false => asked(&client.connection, |strange| self.closer.close(strange)),
        };
        let begun = match heard {
            Ok(None) => return now - client.since < ASKING,
            Ok(Some(asked)) => self.begin(&client.connection, asked),
            Err(error) => Err(error),
        };
        if let Err(error) = &begun {
            refuse(&client.connection, &error.to_string());
        }
        client.flow = begun.ok();
        client.flow.is_some()
    }

    fn begin(&mut self, connection: &OwnedFd, asked: Asked) -> io::Result<u32> {
        // Who has connected before, or holds the file. Sockets of the queues that it could have
        // are not those of all, and keep the service from having these.
        if self.starts_anew {
            return Err(io::Error::other("its queues have changed: it starts anew"));
        }
        let ends = self.ends_of(&asked.socket)?;
        // One that has ended is there only until the kernel has sent what it had.
        let mut others = self.flows.values().filter(|flow| flow.ended.is_none());
        if others.any(|flow| flow.ends == ends) {
            return Err(io::Error::other("that socket has a flow already"));
        }
        let place = self.places.next(|number| self.flows.contains_key(&number));
        let place = place.ok_or_else(|| {
            io::Error::other(format!("{FLOWS_MAX} flows are there, which is the limit"))
        })?;
        let number = place.number;
        let refused = asked.lacks_card.then(|| Err(not_in_memory()));
        let registered = asked.card.map(|(file, bytes)| {
            let card = Card::checked(file, bytes, self.options.user);
            card.and_then(|card| self.register(card))
        });
        let registered = registered.or(refused);
        let copies_because = match &registered {
            Some(Err(error)) => error.to_string(),
            _ => String::new(),
        };
        let sends_from_slots = matches!(registered, Some(Ok(())));
        if self.queues.is_empty() {
            return Err(io::Error::other(
                "a process that has left still has a socket of this interface",
            ));
        }
        let shared = self.queues.iter().map(ServedQueue::share);
        let sockets = shared.collect::<io::Result<Vec<_>>>()?;
        let control = hythe_xdp::sealed("hythe-xdp-control", CONTROL_BYTES)?;
        let mapped = Mapped::file(&control, 0, CONTROL_BYTES, Access::Write)?;
        let files: Vec<BorrowedFd<'_>> = sockets.iter().map(|(socket, _)| socket.as_fd()).collect();
        let was_on = self.is_on;
        let has_others = self.flows.values().any(|flow| flow.ended.is_none());
        self.program
            .attach_again()
            .map_err(|error| named("a program on it", &error))?;
        (self.is_on, self.used) = (true, Instant::now());
        let added = self.program.add(ends, FlowIndex(number), &files);
        let passed = added.and_then(|()| {
            let regions = self.queues.iter().map(ServedQueue::region);
            let queues: Vec<_> = regions.zip(files.iter().copied()).collect();
            let files = (control.as_fd(), self.bell.as_fd());
            let says = [sends_from_slots, was_on, has_others];
            grant(connection, (place, says, &copies_because), files, &queues)
        });
        if let Err(error) = passed {
            self.program.remove(ends, FlowIndex(number));
            return Err(error);
        }
        self.places.take(number);
        tracing::debug!(flow = number, ?ends, "a flow has begun");
        self.flows.insert(
            number,
            Flow {
                generation: place.generation,
                ends,
                socket: asked.socket,
                control: mapped,
                sockets,
                has_read: false,
                stands: None,
                ended: None,
            },
        );
        Ok(number)
    }

    /// Has the kernel send from this file. That is done while there are no flows: it takes nothing
    /// into a region that is registered, so the queues are taken anew. The error says, for people,
    /// why it is not sent from.
    fn register(&mut self, card: Card) -> io::Result<()> {
        let registered = self.card.as_ref();
        if registered.is_some_and(|registered| registered.has(&card)) {
            return Ok(());
        }
        if self.flows.values().any(|flow| flow.ended.is_none()) {
            let whose = registered.map_or_else(
                || "those of programs that have offered no slots".to_owned(),
                |registered| format!("and it sends from {}", registered.name()),
            );
            return Err(io::Error::other(format!(
                "it has flows, {whose}; when all of them have ended, slots of another pool can be \
                 sent from"
            )));
        }
        if let Some((refused, why)) = &self.refused_card
            && *refused == card.identity()
        {
            return Err(io::Error::other(why.clone()));
        }
        // With the queues go all chunks: none is on its way to flows that have just ended.
        self.flows.clear();
        self.queues.clear();
        match take_queues_again(self.interface, &card) {
            Ok(queues) => {
                (self.queues, self.card) = (queues, Some(card));
                Ok(())
            }
            Err(error) => {
                tracing::warn!(%error, "a pool's region is not sent from");
                let is_busy = Errno::from_io_error(&error) == Some(Errno::BUSY);
                let is_passing = is_busy || is_shortage(&error);
                self.refused_card = (!is_passing).then(|| (card.identity(), error.to_string()));
                self.card = None;
                self.retake();
                Err(error)
            }
        }
    }

    /// Takes queues that could not be taken anew: a process that has left keeps one as long as it
    /// keeps a socket. Until then there are no flows, and all goes the usual way.
    fn retake(&mut self) {
        let count = queue_count_of(&self.probe, &self.options.interface);
        let taken = match (take_queues(self.interface, self.card.as_ref()), &self.card) {
            (Err(error), Some(_))
                if error.kind() != io::ErrorKind::ResourceBusy && !is_shortage(&error) =>
            {
                tracing::warn!(%error, "slots are sent from no more: their file is refused");
                self.card = None;
                take_queues(self.interface, None)
            }
            (taken, _) => taken,
        };
        match taken {
            Ok(queues) => (self.queues, self.queue_count) = (queues, count.or(self.queue_count)),
            Err(error) => return tracing::debug!(%error, "the queues are not to be had"),
        }
        if self.starts_anew
            && let Err(error) = self.serve_anew()
        {
            tracing::debug!(%error, "the interface is not to be had");
            self.queues.clear();
        }
    }

    /// Ends flows whose process has connected its socket to another end, or to none: what comes may
    /// be for somebody else, who has the port now.
    fn end_disconnected(&mut self) {
        let now = Instant::now();
        let flows = self.flows.iter();
        let others = flows
            .filter(|(_, flow)| flow.ended.is_none())
            .filter(|(_, flow)| self.ends_of(&flow.socket).ok() != Some(flow.ends));
        let others: Vec<u32> = others.map(|(number, _)| *number).collect();
        for number in &others {
            if let Some(flow) = self.flows.get_mut(number) {
                flow.end(&self.program, *number, now);
            }
        }
        self.hang_up(|client| client.flow.is_some_and(|flow| others.contains(&flow)));
    }

    /// Starts anew where queues have come or gone: what comes by a queue that is not served never
    /// reaches a flow's sockets past the kernel, and sockets of a flow cannot become more. Flows go
    /// the usual way meanwhile, since for their processes the service has ended.
    fn count_queues(&mut self) {
        self.counted = Instant::now();
        let count = queue_count_of(&self.probe, &self.options.interface);
        // A driver that starts anew itself does not say.
        if count.is_none() || count == self.queue_count {
            return;
        }
        let (interface, before) = (&self.options.interface, self.queue_count);
        tracing::warn!(interface, ?before, now = ?count, "its queues have changed: starts anew");
        // For agents that look whether somebody serves.
        let _ = fs::remove_file(&self.path);
        self.starts_anew = true;
        self.program.detach();
        self.is_on = false;
        self.hang_up(|_| true);
        self.flows.clear();
        self.queues.clear();
    }

    /// With the queues that there are now: the program is made for so many.
    fn serve_anew(&mut self) -> io::Result<()> {
        let sizes = (FLOWS_MAX, self.queues.len() as u32);
        self.program = Program::attach(self.interface, sizes, &self.options.attachments)?;
        self.program.detach();
        // Another file: that is how agents see that this is another service.
        let before = std::mem::replace(
            &mut self.listener,
            open_listener(&self.path, self.options.user)?,
        );
        self.closer.close(before.into());
        self.starts_anew = false;
        tracing::info!(queues = self.queues.len(), "serves all queues");
        Ok(())
    }

    /// The ends of what comes to a process's socket.
    fn ends_of(&self, socket: &OwnedFd) -> io::Result<Ends> {
        let is_udp = sockopt::socket_protocol(socket)? == Some(rustix::net::ipproto::UDP)
            && sockopt::socket_domain(socket)? == AddressFamily::INET;
        if !is_udp {
            return Err(io::Error::other("only UDP over IPv4 is served"));
        }
        if network_of(socket)? != self.network {
            return Err(io::Error::other("that socket is in another network"));
        }
        let peer = getpeername(socket)?.ok_or(io::ErrorKind::NotConnected)?;
        Ok(Ends {
            from: of_v4(peer)?,
            to: of_v4(getsockname(socket)?)?,
        })
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // Gone already is fine.
        let _ = fs::remove_file(&self.path);
    }
}

impl Flow {
    /// The kernel has sent a chunk of the flow that has this place, or had it before.
    fn completed(&self, place: FlowPlace, chunk: u32) {
        if place.generation == self.generation {
            // Release, with the acquire of the process: the kernel reads it no more.
            self.control.store(chunk as usize * 4, 0, Ordering::Release);
        }
    }

    /// Behind what it has given back at a turn.
    fn note_reads(&mut self, now: Instant) {
        let mut observers = self.sockets.iter().map(|(_, observer)| observer);
        if self.has_read || observers.all(|observer| observer.held() == 0) {
            self.stands = None;
        } else {
            self.stands.get_or_insert(now);
        }
        self.has_read = false;
    }

    /// Nothing comes to it from now on but what is on its way.
    fn end(&mut self, program: &Program, number: u32, now: Instant) {
        // Once: its ends may be another's by now.
        if self.ended.is_none() {
            program.remove(self.ends, FlowIndex(number));
            self.ended = Some(now);
        }
    }
}

/// Of flows that have stood for a while, and that have half of the chunks of a queue together while
/// there are others: the one that has most of them. A process may be stopped, or have left its
/// sockets to a child; what comes for others would find no chunk for as long.
fn standing(
    flows: &mut BTreeMap<u32, Flow>,
    queues: usize,
    now: Instant,
) -> Option<(u32, &mut Flow)> {
    let living = || flows.iter().filter(|(_, flow)| flow.ended.is_none());
    let stands = |flow: &Flow| flow.stands.is_some_and(|since| now - since >= STANDING);
    if living().all(|(_, flow)| stands(flow)) {
        return None;
    }
    let number = (0..queues).find_map(|queue| {
        let held = |flow: &Flow| flow.sockets[queue].1.held();
        let standing = || living().filter(|(_, flow)| stands(flow));
        let all: u32 = standing().map(|(_, flow)| held(flow)).sum();
        let most = standing().max_by_key(|(_, flow)| held(flow));
        let most = most.filter(|_| all >= RECEIVE_CHUNKS / 2);
        most.map(|(number, _)| *number)
    })?;
    flows.get_mut(&number).map(|flow| (number, flow))
}

fn open_listener(path: &Path, user: u32) -> io::Result<LocalListener> {
    if let Some(folder) = path.parent() {
        // Whatever the umask: who may write it could put a socket of its own there.
        DirBuilder::new()
            .recursive(true)
            .mode(0o755)
            .create(folder)?;
    }
    let _ = fs::remove_file(path);
    let peers = Peers::ComparedUser(user);
    LocalListener::bind(path, SocketType::SEQPACKET, BACKLOG, peers)
}

/// The bell rings no more. Processes have the same file, and one of them may have changed its flags
/// so that a plain read would wait.
fn silence(bell: &OwnedFd) {
    let mut count = [0; 8];
    let mut pieces = [IoSliceMut::new(&mut count)];
    let _ = preadv2(bell, &mut pieces, u64::MAX, ReadWriteFlags::NOWAIT);
}

/// This program may open no more files at present: says nothing about what it tried to open.
fn is_shortage(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(Errno::MFILE | Errno::NFILE)
    )
}

fn of_v4(address: SocketAddrAny) -> io::Result<SocketAddrV4> {
    SocketAddrV4::try_from(address).map_err(|_| io::Error::other("an address is not of IPv4"))
}

fn named(what: &str, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{what}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bell_that_a_process_has_set_to_wait_keeps_nobody() {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).expect("made");
        let rings = || {
            let mut files = [PollFd::new(&bell, PollFlags::IN)];
            hythe_sys::wait::ready(&mut files, Duration::ZERO)[0]
        };
        let ring = || rustix::io::write(&bell, &1_u64.to_ne_bytes()).expect("written");
        ring();
        silence(&bell);
        assert!(!rings());
        // As a process can with its copy.
        rustix::fs::fcntl_setfl(&bell, rustix::fs::OFlags::empty()).expect("set");
        let (to, from) = std::sync::mpsc::channel();
        let is_done = std::thread::scope(|scope| {
            scope.spawn(|| {
                silence(&bell);
                to.send(())
            });
            // It only ends a test that has failed.
            let is_done = from.recv_timeout(Duration::from_secs(60));
            ring();
            is_done
        });
        assert_eq!(is_done, Ok(()), "it waits");
        assert!(rings());
        silence(&bell);
        assert!(!rings());
    }

    #[test]
    fn what_is_completed_late_frees_nothing_of_a_later_flow() {
        let file = hythe_xdp::sealed("control", CONTROL_BYTES).expect("memory");
        let control = || Mapped::file(&file, 0, CONTROL_BYTES, Access::Write).expect("mapped");
        let ends = Ends {
            from: "10.0.0.1:1".parse().expect("an address"),
            to: "10.0.0.2:2".parse().expect("an address"),
        };
        let mut places = FlowPlaces::default();
        let mut next = || {
            // All other numbers are in use.
            let place = places.next(|number| number != 5).expect("free");
            places.take(place.number);
            place
        };
        let [before, now] = [next(), next()];
        assert_eq!(before.number, now.number);
        let flow = Flow {
            generation: now.generation,
            ends,
            socket: file.try_clone().expect("copied"),
            control: control(),
            sockets: Vec::new(),
            has_read: false,
            stands: None,
            ended: None,
        };
        let with_kernel = |chunk: u32| control().load(chunk as usize * 4, Ordering::Acquire);
        for chunk in [0, 7] {
            control().store(chunk as usize * 4, 1, Ordering::Relaxed);
            let completed = |place: FlowPlace| {
                let (place, chunk) =
                    FlowPlace::of_frame(place.frame_at(chunk) as u64).expect("a frame");
                flow.completed(place, chunk);
            };
            completed(before);
            assert_eq!(with_kernel(chunk), 1, "of a flow that has ended");
            completed(now);
            assert_eq!(with_kernel(chunk), 0);
        }
    }
}
