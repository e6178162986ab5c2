//! The processes of a soak: started, sent home, killed, and heard.

use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};

use super::args::SoakArguments;
use super::report::Counts;
use crate::error::BenchError;

/// What a worker has counted since its last report.
pub(super) type WorkerCounts = [u64; 4];

/// A worker, and its input: closed, the worker goes home.
struct Worker {
    child: Child,
    input: Option<ChildStdin>,
}

/// Berths for workers, some of them empty.
pub(super) struct Crew {
    pool: String,
    berths: Vec<Option<Worker>>,
    /// Workers that were sent home, or killed by us, and have not ended yet.
    going: Vec<Child>,
    counts: (Sender<WorkerCounts>, Receiver<WorkerCounts>),
}

impl Crew {
    pub(super) fn new(pool: &str, arguments: &SoakArguments) -> Self {
        Self {
            pool: pool.to_owned(),
            berths: (0..arguments.processes).map(|_| None).collect(),
            going: Vec::new(),
            counts: channel(),
        }
    }

    pub(super) fn berths(&self) -> usize {
        self.berths.len()
    }

    pub(super) fn is_there(&self, berth: usize) -> bool {
        self.berths[berth].is_some()
    }

    pub(super) fn start(&mut self, berth: usize, seed: u64) -> Result<(), BenchError> {
        let mut command = Command::new(std::env::current_exe()?);
        command
            .args(["soak-worker", "--pool", &self.pool])
            .args(["--seed", &seed.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        hythe_sys::spawn::die_with_parent(&mut command);
        let mut child = command.spawn()?;
        let sender = self.counts.0.clone();
        let output = child.stdout.take();
        std::thread::spawn(move || {
            let lines = output.map(|output| BufReader::new(output).lines());
            for line in lines.into_iter().flatten().map_while(Result::ok) {
                if let Some(counts) = parse(&line) {
                    // Nobody listens any more: the run is over.
                    let _ = sender.send(counts);
                }
            }
        });
        let input = child.stdin.take();
        self.berths[berth] = Some(Worker { child, input });
        Ok(())
    }

    /// It leaves in good order.
    pub(super) fn send_home(&mut self, berth: usize) -> Result<(), BenchError> {
        if let Some(mut worker) = self.berths[berth].take() {
            drop(worker.input.take());
            self.going.push(worker.child);
        }
        Ok(())
    }

    /// Returns the process id of the dead.
    pub(super) fn kill(&mut self, berth: usize) -> Result<u32, BenchError> {
        let Some(mut worker) = self.berths[berth].take() else {
            return Ok(0);
        };
        worker.child.kill()?;
        let status = worker.child.wait()?;
        if status.signal() != Some(9) {
            return Err(ended(worker.child.id(), status));
        }
        Ok(worker.child.id())
    }

    /// Those in their berths and those on their way home. Returns how many.
    pub(super) fn kill_all(&mut self) -> u64 {
        let there = self.berths.iter_mut().filter_map(Option::take);
        let mut all: Vec<Child> = there.map(|worker| worker.child).collect();
        all.append(&mut self.going);
        for child in &mut all {
            // Ended by itself is as good.
            let _ = child.kill();
            let _ = child.wait();
        }
        all.len() as u64
    }

    /// A worker that ends without being asked to, or badly, has found something.
    pub(super) fn check_ends(&mut self) -> Result<(), BenchError> {
        for worker in self.berths.iter_mut().flatten() {
            if let Some(status) = worker.child.try_wait()? {
                return Err(ended(worker.child.id(), status));
            }
        }
        let mut still = Vec::new();
        for mut child in self.going.drain(..) {
            match child.try_wait()? {
                None => still.push(child),
                Some(status) if status.success() => {}
                Some(status) => return Err(ended(child.id(), status)),
            }
        }
        self.going = still;
        Ok(())
    }

    /// Adds up what the workers have reported.
    pub(super) fn hear(&self, counts: &mut Counts) {
        for [published, taken, refused, damaged] in self.counts.1.try_iter() {
            counts.published += published;
            counts.taken += taken;
            counts.refused += refused;
            counts.damaged += damaged;
        }
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        self.kill_all();
    }
}

fn ended(pid: u32, status: std::process::ExitStatus) -> BenchError {
    BenchError::Invalid(format!("worker {pid} ended by itself: {status}"))
}

fn parse(line: &str) -> Option<WorkerCounts> {
    let mut counts = [0; 4];
    let mut words = line.split(' ');
    for count in &mut counts {
        *count = words.next()?.parse().ok()?;
    }
    Some(counts)
}
