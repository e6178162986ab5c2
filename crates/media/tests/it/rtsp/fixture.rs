//! The service without a network: requests as text, answers and actions to look at, and a clock to
//! turn.

use hythe_rtp::rtsp::{
    Action, ConnectionId, Counters, Expired, Limits, Service, SessionId, Started,
};

use super::catalogue::TestCatalogue;

pub(crate) const HERE: &str = "192.0.2.9:554";
/// What every start is answered with.
pub(crate) const STARTED: Started = Started {
    sequence: 7,
    timestamp: 70,
    from_ns: Some(0),
};

pub(crate) struct ServiceFixture {
    pub(crate) service: Service,
    pub(crate) catalogue: TestCatalogue,
    pub(crate) now_ns: u64,
    /// What starts come to.
    pub(crate) starts: Result<Started, String>,
    pub(crate) connection: ConnectionId,
    number: u32,
}

pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) text: String,
    pub(crate) actions: Vec<Action>,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.text.lines();
        lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }

    pub(crate) fn session(&self) -> SessionId {
        let id = self.header("Session").unwrap();
        let id = id.split(';').next().unwrap();
        SessionId(u64::from_str_radix(id, 16).unwrap())
    }
}

impl ServiceFixture {
    pub(crate) fn new(limits: Limits) -> Self {
        let mut state = 1_u64;
        let mut service = Service::new(
            limits,
            Box::new(move || {
                state = state.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29) ^ 0x55;
                Some(state)
            }),
        );
        let connection = service
            .open("192.0.2.1:4000".parse().unwrap(), HERE.parse().unwrap(), 0)
            .unwrap();
        Self {
            service,
            catalogue: TestCatalogue::new(),
            now_ns: 0,
            starts: Ok(STARTED),
            connection,
            number: 0,
        }
    }

    pub(crate) fn connect(&mut self, peer: &str) -> ConnectionId {
        let peer = peer.parse().unwrap();
        let here = HERE.parse().unwrap();
        self.service.open(peer, here, self.now_ns).unwrap()
    }

    /// One request with these header lines; CSeq is added.
    pub(crate) fn ask(&mut self, method: &str, url: &str, headers: &[&str]) -> Answer {
        self.number += 1;
        let mut text = format!("{method} {url} RTSP/1.0\r\nCSeq: {}\r\n", self.number);
        for header in headers {
            text.push_str(header);
            text.push_str("\r\n");
        }
        let mut answers = self.send(format!("{text}\r\n").as_bytes());
        assert_eq!(answers.len(), 1, "{text}");
        let answer = answers.pop().unwrap();
        let number = self.number.to_string();
        assert_eq!(answer.header("CSeq"), Some(&number[..]), "{}", answer.text);
        answer
    }

    /// What the bytes come to, taken in as the connection has free capacity.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> Vec<Answer> {
        let mut answers = Vec::new();
        let mut rest = bytes;
        loop {
            let bytes = self.service.free_capacity(self.connection).min(rest.len());
            self.service
                .receive(self.connection, &rest[..bytes], self.now_ns);
            rest = &rest[bytes..];
            let before = answers.len();
            while let Some(answer) = self.next() {
                answers.push(answer);
            }
            if rest.is_empty() || bytes == 0 && answers.len() == before {
                return answers;
            }
        }
    }

    fn next(&mut self) -> Option<Answer> {
        let outcome = self
            .service
            .next(self.connection, self.now_ns, &self.catalogue)?;
        let mut actions = outcome.actions.clone();
        let is_start = |action: &&Action| matches!(action, Action::Start(_));
        let starts = actions.iter().filter(is_start);
        let started: Vec<_> = starts.map(|_| self.starts.clone()).collect();
        let reply = self.service.reply(outcome, &started);
        actions.extend(reply.actions);
        let text = String::from_utf8(reply.bytes).unwrap();
        let status = text.strip_prefix("RTSP/1.0 ").unwrap()[..3]
            .parse()
            .unwrap();
        Some(Answer {
            status,
            text,
            actions,
        })
    }

    pub(crate) fn tick_at(&mut self, now_ns: u64) -> Expired {
        self.now_ns = now_ns;
        self.service.tick(now_ns)
    }

    pub(crate) fn counters(&self) -> &Counters {
        self.service.counters()
    }

    /// Sets `stream` of `path` up at client port `port`, in a session or a new one; its header
    /// line.
    pub(crate) fn set_up(
        &mut self,
        path: &str,
        stream: usize,
        port: u16,
        session: Option<&str>,
    ) -> String {
        let transport = format!("Transport: RTP/AVP;unicast;client_port={port}-{}", port + 1);
        let mut headers = vec![&transport[..]];
        headers.extend(session);
        let url = format!("rtsp://h/{path}/stream={stream}");
        let answer = self.ask("SETUP", &url, &headers);
        assert_eq!(answer.status, 200, "{}", answer.text);
        format!("Session: {}", answer.session())
    }
}
