//! The threads of one measure: set up one by one, let go together, waited for within a bound.
//!
//! Between [`Crew::add`] and [`Crew::run`] a thread stands pinned and prioritised at a gate, so
//! that its memory can be locked. Never leaves a thread behind unless the kernel never lets it run
//! again, which is an error then.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use hythe_sys::scheduling::enter_fifo;

use super::clock::now_ns;
use super::cpus;
use super::recorder::Recorder;
use crate::LatencyError;

/// No thread is longer on its way to the gate, nor from the word to end to its end, unless
/// something is wrong.
const TIME_LIMIT: Duration = Duration::from_secs(10);
/// Enough for the few frames of a cycle; small, because all of it is locked.
const STACK_BYTES: usize = 256 << 10;
/// From the opening of the gate to the first cycle: all threads are asleep again by then.
const LEAD_NS: u64 = 5_000_000;
/// How often ends are looked for.
const LOOK: Duration = Duration::from_millis(20);

/// Where and how a thread runs.
#[derive(Clone, Debug)]
pub(super) struct Post {
    /// Its name, for `ps` and errors.
    pub(super) name: String,
    pub(super) cpu: usize,
    /// Of `SCHED_FIFO`.
    pub(super) priority: Option<u8>,
}

/// What a thread is told when the gate opens, and watches while it works.
#[derive(Clone, Debug)]
pub(super) struct Start {
    /// The instant of the first cycle.
    pub(super) at_ns: u64,
    ended: Arc<AtomicBool>,
}

impl Start {
    /// For tests of the work without a crew.
    #[cfg(test)]
    pub(super) fn now() -> Self {
        Self {
            at_ns: now_ns(),
            ended: Arc::default(),
        }
    }

    /// Shall the thread end before its time?
    pub(super) fn is_over(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }
}

/// What a thread came home with; those that only wake others record nothing.
pub(super) type Found = Result<Option<Recorder>, String>;

/// What all threads found, in the order in which they were added.
#[derive(Debug)]
pub(super) struct Gathered {
    pub(super) found: Vec<Option<Recorder>>,
    /// The instant of the first cycle.
    pub(super) start_ns: u64,
    /// Each came to its own end; else the results are those so far.
    pub(super) is_complete: bool,
}

#[derive(Debug)]
enum Gate {
    Closed,
    Open(Start),
    /// Another thread could not be set up.
    GivenUp,
}

/// Whether a thread could take its post.
type Taken = Result<(), String>;

#[derive(Debug)]
struct Member {
    name: String,
    handle: Option<JoinHandle<Found>>,
}

/// Threads that measure together.
#[derive(Debug)]
pub(super) struct Crew {
    members: Vec<Member>,
    gate: Arc<(Mutex<Gate>, Condvar)>,
    ended: Arc<AtomicBool>,
    ready: (Sender<Taken>, Receiver<Taken>),
}

impl Crew {
    pub(super) fn new() -> Self {
        Self {
            members: Vec::new(),
            gate: Arc::new((Mutex::new(Gate::Closed), Condvar::new())),
            ended: Arc::new(AtomicBool::new(false)),
            ready: channel(),
        }
    }

    /// Starts a thread, and waits until it stands at the gate.
    pub(super) fn add(
        &mut self,
        post: &Post,
        work: impl FnOnce(&Start) -> Found + Send + 'static,
    ) -> Result<(), LatencyError> {
        let (ready, gate, own) = (self.ready.0.clone(), Arc::clone(&self.gate), post.clone());
        let body = move || {
            let taken = take_post(&own);
            let stands = taken.is_ok();
            // Nobody hears it where the crew was given up meanwhile.
            let _ = ready.send(taken);
            match stands.then(|| pass(&gate)).flatten() {
                Some(start) => work(&start),
                None => Ok(None),
            }
        };
        let builder = thread::Builder::new()
            .name(post.name.clone())
            .stack_size(STACK_BYTES);
        let handle = builder
            .spawn(body)
            .map_err(|error| failed(&post.name, format!("it cannot be started: {error}")))?;
        self.members.push(Member {
            name: post.name.clone(),
            handle: Some(handle),
        });
        match self.ready.1.recv_timeout(TIME_LIMIT) {
            Ok(taken) => taken.map_err(|what| failed(&post.name, what)),
            Err(_) => Err(failed(
                &post.name,
                format!(
                    "it did not run within {TIME_LIMIT:?}: is CPU {} taken by a real-time thread?",
                    post.cpu
                ),
            )),
        }
    }

    /// Lets all threads go and waits for their ends, for at most `limit`. `stop` ends them early,
    /// as does the failure of one.
    pub(super) fn run(
        mut self,
        limit: Duration,
        stop: &dyn Fn() -> bool,
    ) -> Result<Gathered, LatencyError> {
        let start_ns = now_ns() + LEAD_NS;
        self.set(Gate::Open(Start {
            at_ns: start_ns,
            ended: Arc::clone(&self.ended),
        }));
        let began = Instant::now();
        let mut found: Vec<Option<Recorder>> = self.members.iter().map(|_| None).collect();
        let (mut failure, mut told_at) = (None, None);
        while self.greet(&mut found, &mut failure) {
            if told_at.is_none() && (failure.is_some() || stop() || began.elapsed() >= limit) {
                self.ended.store(true, Ordering::Relaxed);
                told_at = Some(Instant::now());
            }
            if told_at.is_some_and(|then: Instant| then.elapsed() > TIME_LIMIT) {
                let away = self.members.iter().filter(|member| member.handle.is_some());
                let names: Vec<&str> = away.map(|member| member.name.as_str()).collect();
                return Err(failed(
                    &names.join(", "),
                    format!("no end within {TIME_LIMIT:?}"),
                ));
            }
            thread::sleep(LOOK);
        }
        let is_complete = told_at.is_none();
        let gathered = Gathered {
            found,
            start_ns,
            is_complete,
        };
        failure.map_or(Ok(gathered), Err)
    }

    /// Takes what those that have ended found. False: nobody is left to wait for.
    fn greet(
        &mut self,
        found: &mut [Option<Recorder>],
        failure: &mut Option<LatencyError>,
    ) -> bool {
        for (member, place) in self.members.iter_mut().zip(found) {
            let Some(handle) = member.handle.take_if(|handle| handle.is_finished()) else {
                continue;
            };
            let home = handle
                .join()
                .unwrap_or_else(|_| Err("it panicked".to_owned()));
            match home {
                Ok(recorder) => *place = recorder,
                Err(what) => {
                    failure.get_or_insert_with(|| failed(&member.name, what));
                }
            }
        }
        self.members.iter().any(|member| member.handle.is_some())
    }

    fn set(&self, state: Gate) {
        let (gate, opened) = &*self.gate;
        *gate.lock().unwrap_or_else(PoisonError::into_inner) = state;
        opened.notify_all();
    }
}

impl Drop for Crew {
    /// Whoever still stands at the gate goes home.
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        self.set(Gate::GivenUp);
    }
}

fn failed(name: &str, what: String) -> LatencyError {
    LatencyError::Host {
        what: format!("thread {name}: {what}"),
    }
}

fn take_post(post: &Post) -> Taken {
    cpus::bind(post.cpu).map_err(|error| format!("it may not run on CPU {}: {error}", post.cpu))?;
    post.priority.map_or(Ok(()), |priority| {
        enter_fifo(priority.into())
            .map_err(|error| format!("it gets no real-time priority {priority}: {error}"))
    })
}

/// Waits at the gate. None: it never opened.
fn pass(gate: &(Mutex<Gate>, Condvar)) -> Option<Start> {
    let (gate, opened) = gate;
    let mut state = gate.lock().unwrap_or_else(PoisonError::into_inner);
    // The crew opens it or gives up, also when it is dropped: this wait has an end.
    loop {
        match &*state {
            Gate::Open(start) => return Some(start.clone()),
            Gate::GivenUp => return None,
            Gate::Closed => {}
        }
        state = opened.wait(state).unwrap_or_else(PoisonError::into_inner);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn post(name: &str) -> Post {
        Post {
            name: name.to_owned(),
            cpu: cpus::allowed().expect("Linux")[0],
            priority: None,
        }
    }

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn what_each_found_comes_home_in_order() {
        let mut crew = Crew::new();
        for sample in [5_u64, 6, 7] {
            let work = move |_: &Start| {
                let mut recorder = Recorder::new().map_err(|error| error.to_string())?;
                recorder.record(0, sample);
                Ok((sample != 6).then_some(recorder))
            };
            crew.add(&post("finder"), work).expect("set up");
        }
        let gathered = crew.run(LONG, &|| false).expect("no failure");
        let max = |place: &Option<Recorder>| place.as_ref().map(|recorder| recorder.max);
        let found: Vec<Option<u64>> = gathered.found.iter().map(max).collect();
        assert_eq!(found, [Some(5), None, Some(7)]);
        assert!(gathered.is_complete);
    }

    fn until_over(start: &Start) -> Found {
        while !start.is_over() {
            thread::yield_now();
        }
        Ok(None)
    }

    #[test]
    fn stop_a_limit_or_a_failure_ends_all() {
        for (limit, stops) in [(LONG, true), (Duration::ZERO, false)] {
            let mut crew = Crew::new();
            crew.add(&post("long"), until_over).expect("set up");
            assert!(!crew.run(limit, &|| stops).expect("no failure").is_complete);
        }
        let mut crew = Crew::new();
        crew.add(&post("long"), until_over).expect("set up");
        crew.add(&post("broken"), |_| Err("out of luck".to_owned()))
            .expect("set up");
        let said = crew
            .run(LONG, &|| false)
            .expect_err("one failed")
            .to_string();
        assert!(
            said.contains("broken") && said.contains("out of luck"),
            "{said}"
        );
    }

    #[test]
    fn who_cannot_take_a_post_is_named_and_the_others_go_home() {
        let mut crew = Crew::new();
        let (sender, ended) = channel();
        let kept = sender.clone();
        let work = move |_: &Start| {
            let _ = kept.send("ran");
            Ok(None)
        };
        crew.add(&post("first"), work).expect("set up");
        let nowhere = Post {
            cpu: 1023,
            ..post("second")
        };
        let said = crew
            .add(&nowhere, |_| Ok(None))
            .expect_err("no such CPU")
            .to_string();
        assert!(said.contains("second") && said.contains("1023"), "{said}");
        drop((crew, sender));
        // Hung up without a word: the first thread has ended, and its work never ran.
        assert!(
            ended
                .recv_timeout(TIME_LIMIT)
                .is_err_and(|error| error == std::sync::mpsc::RecvTimeoutError::Disconnected)
        );
    }
}
