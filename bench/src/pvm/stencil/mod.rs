//! Program `jacobi` of `bench/programs` natively: tasks of Hythe, started by `hythe run`. What a
//! task tells a neighbour is computed where it is sent from, and what it is told is read where it
//! came: the border rows are copied nowhere.
//!
//! The same points, rounds and order of operations as `jacobi.c`, so the result is the serial one
//! to the bit, and the line that rank 0 prints is that of `program.h`.

mod grid;

use std::time::{Duration, Instant};

use clap::Args;
use hythe_cluster::tasks::{Message, MessageLease, Task, TaskError, TaskId, Wanted};
use hythe_node::TrustPeers;

use self::grid::{Border, Grid, POINT_BYTES};
use crate::cpus;
use crate::error::BenchError;

/// Both ends are this program.
const TRUST: TrustPeers = TrustPeers::i_trust_every_writer_of_this_pool();

/// A border row to the task above, and to the one below.
const UP: u32 = 1;
const DOWN: u32 = 2;
/// A share of the result, and what it took.
const RESULT: u32 = 3;
const FIGURES: u32 = 4;

/// As `program.h` has it.
#[derive(Debug, Args)]
pub(crate) struct StencilArguments {
    /// Points in a row, and rows
    #[arg(long, default_value_t = 512, value_parser = clap::value_parser!(u32).range(1..=8192))]
    size: u32,
    /// How often each point becomes the mean of its neighbours
    #[arg(long, default_value_t = 2000)]
    rounds: u32,
    /// The CPUs of the tasks, used again from the start where there are more tasks
    #[arg(long, value_delimiter = ',')]
    cpus: Vec<usize>,
    /// No wait is longer
    #[arg(long, default_value_t = 120)]
    seconds_max: u64,
}

/// A neighbour, and by which tags they write to each other.
#[derive(Clone, Copy, Debug)]
struct Neighbour {
    task: TaskId,
    to_it: u32,
    from_it: u32,
}

/// One of the tasks, and what it has taken so far.
struct Part {
    task: Task,
    siblings: Vec<TaskId>,
    rank: usize,
    size: usize,
    rounds: u32,
    end: Instant,
    communicating: Duration,
}

/// What a task tells of its run.
#[derive(Clone, Copy, Debug, Default)]
struct Taken {
    total_ns: u64,
    communication_ns: u64,
}

/// Runs as one task of a job.
pub(crate) fn run(arguments: &StencilArguments) -> Result<(), BenchError> {
    let task = Task::join().map_err(failed)?;
    let rank = task.rank() as usize;
    if let Some(&cpu) = arguments.cpus.get(rank % arguments.cpus.len().max(1)) {
        cpus::pin(cpu)?;
    }
    let mut part = Part {
        siblings: task.siblings(),
        task,
        rank,
        size: arguments.size as usize,
        rounds: arguments.rounds,
        end: Instant::now() + Duration::from_secs(arguments.seconds_max),
        communicating: Duration::ZERO,
    };
    if part.size < 2 * part.siblings.len() {
        return Err(BenchError::WrongUse(
            "each task needs two rows: choose a larger --size".to_owned(),
        ));
    }
    let (grid, taken) = part.solve_in_time()?;
    match rank {
        0 => part.report(&grid, taken),
        _ => part.hand_in(&grid, taken),
    }
}

fn failed(error: TaskError) -> BenchError {
    BenchError::PeerLost(error.to_string())
}

impl Part {
    /// Of the rows, those of a rank.
    fn rows_of(&self, rank: usize) -> std::ops::Range<usize> {
        let first = |rank| self.size * rank / self.siblings.len();
        first(rank)..first(rank + 1)
    }

    fn left(&self) -> Duration {
        self.end.saturating_duration_since(Instant::now())
    }

    fn solve_in_time(&mut self) -> Result<(Grid, Taken), BenchError> {
        let group = self.task.sibling_group();
        let left = self.left();
        group.barrier(&mut self.task, left).map_err(failed)?;
        let start = Instant::now();
        let grid = self.solve()?;
        let met = Instant::now();
        let left = self.left();
        group.barrier(&mut self.task, left).map_err(failed)?;
        self.communicating += met.elapsed();
        let taken = Taken {
            total_ns: start.elapsed().as_nanos() as u64,
            communication_ns: self.communicating.as_nanos() as u64,
        };
        Ok((grid, taken))
    }

    fn solve(&mut self) -> Result<Grid, BenchError> {
        let rows = self.rows_of(self.rank);
        let neighbour = |rank: usize, to_it, from_it| Neighbour {
            task: self.siblings[rank],
            to_it,
            from_it,
        };
        let above = (self.rank > 0).then(|| neighbour(self.rank - 1, UP, DOWN));
        let is_last = self.rank + 1 == self.siblings.len();
        let below = (!is_last).then(|| neighbour(self.rank + 1, DOWN, UP));
        let mut grid = Grid::new(rows.start, rows.len(), self.size);
        let mut next = grid.clone();
        for round in 0..self.rounds {
            // What the neighbours have at first is known.
            let is_told = round > 0;
            let tells = round + 1 < self.rounds;
            let from_above = self.receive(above.filter(|_| is_told))?;
            self.edge(
                &grid,
                &mut next,
                above.filter(|_| tells),
                &from_above,
                Border::Above,
            )?;
            let from_below = self.receive(below.filter(|_| is_told))?;
            self.edge(
                &grid,
                &mut next,
                below.filter(|_| tells),
                &from_below,
                Border::Below,
            )?;
            // The borders are on their way meanwhile.
            grid.step_within(&mut next);
            std::mem::swap(&mut grid, &mut next);
        }
        Ok(grid)
    }

    /// One border row of the next grid, which goes to a neighbour where there is one.
    fn edge(
        &mut self,
        grid: &Grid,
        next: &mut Grid,
        to: Option<Neighbour>,
        told: &Option<Message>,
        border: Border,
    ) -> Result<(), BenchError> {
        let told = told.as_ref().map(|message| message.as_slice(TRUST));
        let Some(to) = to else {
            grid.step_border(next, border, told, &mut []);
            return Ok(());
        };
        let mut lease = self.lease(to.task)?;
        grid.step_border(next, border, told, lease.as_mut_slice(TRUST));
        let start = Instant::now();
        let sent = self.task.send_leased(lease, to.to_it);
        self.communicating += start.elapsed();
        sent.map_err(failed)
    }

    fn lease(&mut self, to: TaskId) -> Result<MessageLease, BenchError> {
        let start = Instant::now();
        let lease = self.task.lease(to, self.size * POINT_BYTES);
        self.communicating += start.elapsed();
        lease.map_err(failed)
    }

    /// The border row of a neighbour, where there is one.
    fn receive(&mut self, from: Option<Neighbour>) -> Result<Option<Message>, BenchError> {
        let Some(from) = from else {
            return Ok(None);
        };
        let start = Instant::now();
        let message = self.take(from.task, from.from_it, self.size * POINT_BYTES);
        self.communicating += start.elapsed();
        message.map(Some)
    }

    /// A message of so many bytes.
    fn take(&mut self, from: TaskId, tag: u32, bytes: usize) -> Result<Message, BenchError> {
        let left = self.left();
        let wanted = Wanted::any().from(from).tag(tag);
        let message = self.task.receive(wanted, left).map_err(failed)?;
        let message = message.ok_or_else(|| BenchError::silent(left))?;
        match message.len() == bytes {
            true => Ok(message),
            false => Err(BenchError::Invalid(format!(
                "a message has {} bytes, not {bytes}",
                message.len()
            ))),
        }
    }

    /// To rank 0.
    fn hand_in(&mut self, grid: &Grid, taken: Taken) -> Result<(), BenchError> {
        let root = self.siblings[0];
        let figures = [taken.total_ns, taken.communication_ns].map(u64::to_ne_bytes);
        let sent = self.task.send(root, FIGURES, figures.as_flattened());
        sent.map_err(failed)?;
        let sent = self.task.send(root, RESULT, &grid.points());
        sent.map_err(failed)?;
        // What a task has sent and nobody has taken yet ends with it where it is in its memory.
        match self.task.flush(self.left()) {
            true => Ok(()),
            false => Err(BenchError::silent(self.left())),
        }
    }

    /// Compares the result of all with the serial one, and prints the line.
    fn report(&mut self, own: &Grid, taken: Taken) -> Result<(), BenchError> {
        let mut points = own.points();
        let mut all = vec![taken];
        for rank in 1..self.siblings.len() {
            let from = self.siblings[rank];
            let figures = self.take(from, FIGURES, 2 * size_of::<u64>())?.into_vec();
            let mut figures = figures.chunks_exact(size_of::<u64>()).map(|bytes| {
                let bytes = bytes.try_into().unwrap_or_default();
                u64::from_ne_bytes(bytes)
            });
            all.push(Taken {
                total_ns: figures.next().unwrap_or(0),
                communication_ns: figures.next().unwrap_or(0),
            });
            let bytes = self.rows_of(rank).len() * self.size * POINT_BYTES;
            points.extend(self.take(from, RESULT, bytes)?.into_vec());
        }
        let start = Instant::now();
        let serial = grid::serial(self.size, self.rounds).points();
        let serial_ns = start.elapsed().as_nanos();
        let pairs = points.chunks(POINT_BYTES).zip(serial.chunks(POINT_BYTES));
        let differs = pairs.filter(|(one, other)| one != other).count();
        if differs > 0 {
            return Err(BenchError::Invalid(format!(
                "the result differs from the serial one in {differs} elements"
            )));
        }
        let tasks = all.len() as u64;
        let mean = |figure: fn(&Taken) -> u64| all.iter().map(figure).sum::<u64>() / tasks;
        let printed = serde_json::json!({
            "program": "jacobi", "system": "hythe-native", "tasks": tasks, "size": self.size,
            "rounds": self.rounds, "total_ns": mean(|one| one.total_ns),
            "communication_ns": mean(|one| one.communication_ns), "serial_ns": serial_ns as u64,
        });
        println!("{printed}");
        Ok(())
    }
}
