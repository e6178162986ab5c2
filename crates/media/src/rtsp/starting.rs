//! Requests whose answer waits until media was started.
//!
//! The owner of the media answers a start through its [`Answer`], at once or later and from any
//! thread, since opening a file may take long. Until then only the connection that asked waits.
//! [`Starting`] belongs to the server's thread: it keeps the requests, collects the answers, and
//! gives up on those that did not come in time.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use rustix::event::{EventfdFlags, eventfd};

use hythe_rtp::rtsp::{Action, ConnectionId, Outcome, SessionId, Start, Started};

/// How long the owner has to begin: longer than a disk that has to spin up, shorter than players
/// wait.
const START_NS: u64 = 8_000_000_000;

/// How a start went.
type Result = std::result::Result<Started, String>;

/// Which start of which request.
type Key = (u64, usize);

/// Where the outcome of a start goes. Dropped without one, the start has failed.
#[derive(Debug)]
pub struct Answer {
    key: Key,
    outcomes: Sender<(Key, Result)>,
    wake: Arc<OwnedFd>,
    is_given: bool,
}

impl Answer {
    /// The media begins with this packet, or why it does not, in one line: the client is told so
    /// with 503.
    pub fn give(mut self, outcome: std::result::Result<Started, String>) {
        self.send(outcome);
    }

    fn send(&mut self, outcome: Result) {
        self.is_given = true;
        // A server that has ended asks for nothing more.
        let _ = self.outcomes.send((self.key, outcome));
        // Full means that it is awake already.
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        if !self.is_given {
            self.send(Err("the media ended before it began".to_owned()));
        }
    }
}

/// A request that waits.
#[derive(Debug)]
struct Waiting {
    connection: ConnectionId,
    outcome: Outcome,
    started: Vec<Option<Result>>,
    since_ns: u64,
}

/// A request whose starts were all answered.
#[derive(Debug)]
pub(super) struct Complete {
    pub(super) connection: ConnectionId,
    pub(super) outcome: Outcome,
    pub(super) started: Vec<Result>,
    /// Starts that were given up: to be stopped, in case they succeed after all.
    pub(super) given_up: Vec<(SessionId, usize)>,
}

/// The requests that wait, at most one for each connection.
#[derive(Debug)]
pub(super) struct Starting {
    waiting: BTreeMap<u64, Waiting>,
    next: u64,
    sender: Sender<(Key, Result)>,
    outcomes: Receiver<(Key, Result)>,
    wake: Arc<OwnedFd>,
}

impl Starting {
    pub(super) fn new() -> io::Result<Self> {
        let (sender, outcomes) = channel();
        Ok(Self {
            waiting: BTreeMap::new(),
            next: 0,
            sender,
            outcomes,
            wake: Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?),
        })
    }

    /// Readable when an answer came.
    pub(super) fn wake(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }

    /// Does a request of this connection wait?
    pub(super) fn has(&self, connection: ConnectionId) -> bool {
        let mut waiting = self.waiting.values();
        waiting.any(|waiting| waiting.connection == connection)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Keeps a request, and says where the outcomes of its starts go.
    pub(super) fn keep(
        &mut self,
        connection: ConnectionId,
        outcome: Outcome,
        now_ns: u64,
    ) -> Vec<(Start, Answer)> {
        let number = self.next;
        self.next += 1;
        let starts = starts(&outcome).cloned().enumerate();
        let starts: Vec<_> = starts
            .map(|(index, start)| {
                let answer = Answer {
                    key: (number, index),
                    outcomes: self.sender.clone(),
                    wake: Arc::clone(&self.wake),
                    is_given: false,
                };
                (start, answer)
            })
            .collect();
        let waiting = Waiting {
            connection,
            outcome,
            started: vec![None; starts.len()],
            since_ns: now_ns,
        };
        self.waiting.insert(number, waiting);
        starts
    }

    /// The requests that can be answered now.
    pub(super) fn take_complete(&mut self, now_ns: u64) -> Vec<Complete> {
        let _ = rustix::io::read(&self.wake, &mut [0; 8]); // nothing to read is as well
        for ((number, index), outcome) in self.outcomes.try_iter() {
            // One that was given up is not there any more.
            let waiting = self.waiting.get_mut(&number);
            if let Some(place) = waiting.and_then(|waiting| waiting.started.get_mut(index)) {
                *place = Some(outcome);
            }
        }
        let is_over = |_: &u64, waiting: &mut Waiting| {
            waiting.started.iter().all(Option::is_some)
                || now_ns.saturating_sub(waiting.since_ns) >= START_NS
        };
        let complete = self.waiting.extract_if(.., is_over);
        complete.map(|(_, waiting)| waiting.complete()).collect()
    }
}

impl Waiting {
    fn complete(self) -> Complete {
        let late = || Err("the media did not begin in time".to_owned());
        let given_up = starts(&self.outcome)
            .zip(&self.started)
            .filter(|(_, started)| started.is_none())
            .map(|(start, _)| (start.session, start.stream))
            .collect();
        let started = self.started.into_iter();
        Complete {
            connection: self.connection,
            started: started.map(|one| one.unwrap_or_else(late)).collect(),
            given_up,
            outcome: self.outcome,
        }
    }
}

fn starts(outcome: &Outcome) -> impl Iterator<Item = &Start> {
    outcome.actions.iter().filter_map(|action| match action {
        Action::Start(start) => Some(start),
        Action::Pause { .. } | Action::Stop { .. } => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use hythe_rtp::format::{Encoding, StreamFormat};
    use hythe_rtp::rtsp::{Catalogue, Limits, Presentation, Service, Stream};

    struct Voice;

    impl Catalogue for Voice {
        fn describe(&self, _path: &str) -> Option<Presentation> {
            let stream = Stream {
                format: StreamFormat {
                    encoding: Encoding::Pcmu,
                    payload_type: 0,
                    clock_hz: 8000,
                    channels: 1,
                    parameters: String::new(),
                },
                server_port: 6000,
                ssrc: None,
                takes_nack: false,
                retransmission: None,
                group: None,
            };
            Some(Presentation {
                streams: vec![stream],
                duration_ns: None,
                can_seek: false,
                can_pause: true,
            })
        }
    }

    /// What PLAY comes to.
    fn play() -> (ConnectionId, Outcome) {
        let mut service = Service::new(Limits::default(), Box::new(|| Some(7)));
        let here = "192.0.2.1:554".parse().unwrap();
        let id = service.open("192.0.2.2:5000".parse().unwrap(), here, 0);
        let id = id.unwrap();
        let requests = "SETUP rtsp://h/voice RTSP/1.0\r\nCSeq: 1\r\n\
            Transport: RTP/AVP;unicast;client_port=5000-5001\r\n\r\n\
            PLAY rtsp://h/voice RTSP/1.0\r\nCSeq: 2\r\nSession: 0000000000000007\r\n\r\n";
        service.receive(id, requests.as_bytes(), 0);
        let set_up = service.next(id, 0, &Voice).unwrap();
        let _ = service.reply(set_up, &[]);
        (id, service.next(id, 0, &Voice).unwrap())
    }

    #[test]
    fn start_that_takes_too_long_is_given_up_and_stopped() {
        let mut starting = Starting::new().unwrap();
        let (id, outcome) = play();
        let mut starts = starting.keep(id, outcome, 1);
        let (start, answer) = starts.pop().unwrap();
        assert!(starting.take_complete(START_NS).is_empty() && starting.has(id));
        let late = starting.take_complete(START_NS + 1).pop().unwrap();
        assert_eq!(late.given_up, [(start.session, 0)]);
        assert!(late.started[0].as_ref().unwrap_err().contains("in time"));
        assert!(starting.is_empty());
        // What comes later is for nobody.
        answer.give(Err(String::new()));
        assert!(starting.take_complete(START_NS + 2).is_empty());
    }
}
