//! Whether the words of a link can be what both sides wrote, and the agent's way to mend them.
//!
//! A core that writes over its own section, or over Linux's, leaves words that nobody writes again
//! while the link is in use. A new Linux session has both sides write all of them: what the core
//! held under the old one is void, as with a new agent (`spec/link.md`, "Sessions"). Called by the
//! agent, and by ports for what they say of a link that is down.

use std::time::{Duration, Instant};

use hythe_abi::link::{CORE_MAGIC, VERSION, core_header, linux_header};
use hythe_memory::Ordering;
use hythe_node::Pool;
use hythe_node::hop::HopPool as _;

use super::map::{EndpointRecord, LinkMap};
use super::violation::{ViolatedWord, Violation};

/// Words that are impossible are looked at once more: the other side may be writing them.
const LOOKS: u32 = 2;
/// Between two new sessions: first this, then twice as long each time.
const PAUSE: Duration = Duration::from_millis(500);
const PAUSE_MAX: Duration = Duration::from_secs(16);
/// A link that was sound for so long begins with the first pause again.
const SOUND: Duration = Duration::from_secs(10);
/// `state` of a core that is met.
const UP: u32 = 1;
const REFUSED: u32 = 2;

/// What the agent knows of a link that is in use, in private memory.
#[derive(Debug)]
pub(crate) struct Health {
    session: u32,
    geometry: Vec<(usize, u32)>,
    records: Vec<EndpointRecord>,
    seen: u32,
    pause: Duration,
    /// When a session was begun anew last.
    renewed: Option<Instant>,
}

impl Health {
    /// Of a link whose core has answered this session of the agent.
    pub(crate) fn begin(pool: &Pool, link: &LinkMap, session: u32) -> Self {
        let region = pool.region(link.region());
        let geometry = region.map(|region| link.geometry_words(&region));
        Self {
            session,
            geometry: geometry.unwrap_or_default(),
            records: link.status().endpoints,
            seen: 0,
            pause: PAUSE,
            renewed: None,
        }
    }

    /// Looks at the link, and begins a session anew where words have been impossible for a while.
    /// Says then what was.
    pub(crate) fn look(&mut self, pool: &Pool, link: &LinkMap) -> Option<Violation> {
        let since = self.renewed.map(|at| at.elapsed());
        let Some(found) = self.violation(pool, link) else {
            self.seen = 0;
            if since.is_some_and(|since| since > SOUND) {
                self.pause = PAUSE;
            }
            return None;
        };
        self.seen += 1;
        if self.seen < LOOKS || since.is_some_and(|since| since < self.pause) {
            return None;
        }
        if since.is_some() {
            self.pause = (2 * self.pause).min(PAUSE_MAX);
        }
        self.seen = 0;
        self.renewed = Some(Instant::now());
        self.session = pool.control().new_session();
        link.renew(&self.geometry, self.session);
        Some(found)
    }

    fn violation(&self, pool: &Pool, link: &LinkMap) -> Option<Violation> {
        let found = |word, value| Some(Violation { word, value });
        let is_other = link.linux_session() != self.session;
        let session = (linux_header::SESSION, is_other);
        let changed = |&(at, value): &(usize, u32)| (at, link.word(at) != value);
        let mut linux = self.geometry.iter().map(changed).chain([session]);
        if let Some((at, _)) = linux.find(|(_, is_changed)| *is_changed) {
            return found(ViolatedWord::LinuxSection, at as u32);
        }
        if let Some(violation) = link.header_violation() {
            return Some(violation);
        }
        // While a core begins a life it may write its records.
        link.life()?;
        let mut records = self.records.iter();
        if let Some(changed) =
            records.find(|&record| link.endpoint(record.index).as_ref() != Some(record))
        {
            return found(ViolatedWord::Record, changed.index as u32);
        }
        let flows = self
            .records
            .iter()
            .flat_map(|record| link.flows(record.index));
        let mut echoes = flows.map(|flow| link.sessions(flow).1);
        echoes
            .find(|&echo| !pool.control().was_session(echo))
            .and_then(|echo| found(ViolatedWord::FlowEcho, echo))
    }
}

impl LinkMap {
    fn word(&self, at: usize) -> u32 {
        self.words().load(at, Ordering::Acquire)
    }

    /// What of the core's header nobody can have written in good order.
    pub(super) fn header_violation(&self) -> Option<Violation> {
        let word = |at| self.word(self.layout().core_header() + at);
        let found = |word, value| Some(Violation { word, value });
        // First the state: what the core wrote before it is visible then.
        let (state, magic) = (word(core_header::STATE), word(core_header::MAGIC));
        let (version, echo) = (word(core_header::VERSION), word(core_header::ECHO));
        let linux = self.linux_session();
        match state {
            // It may be writing the others.
            0 => None,
            UP | REFUSED if magic != CORE_MAGIC => found(ViolatedWord::Magic, magic),
            UP if version != VERSION => found(ViolatedWord::Version, version),
            UP | REFUSED if echo != linux && linux != 0 => found(ViolatedWord::Echo, echo),
            UP | REFUSED => None,
            state => found(ViolatedWord::State, state),
        }
    }

    /// Why no port can be attached now.
    pub(super) fn why_down(&self) -> String {
        let word = |at| self.word(self.layout().core_header() + at);
        if self.linux_session() == 0 {
            return "its link is down: its agent has ended, or starts it anew".to_owned();
        }
        if let Some(violation) = self.header_violation() {
            return format!("its link is down: {violation}");
        }
        match word(core_header::STATE) {
            UP => "no port was free in time".to_owned(),
            REFUSED => format!(
                "its link is down: the core refused it, for reason {}",
                word(core_header::REASON)
            ),
            _ => "its link is down: the core has not answered its agent".to_owned(),
        }
    }

    /// Writes anew what only Linux writes, and begins a session, which the core has to answer with
    /// all its words.
    fn renew(&self, geometry: &[(usize, u32)], session: u32) {
        for &(at, value) in geometry {
            self.words().store(at, value, Ordering::Relaxed);
        }
        self.begin_session(session);
    }
}
