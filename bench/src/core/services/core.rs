//! Services with a core that runs `p1` on the other side (`rtos/apps/p1/README.md`).

use std::time::Duration;

use hythe_node::rpc::Caller;
use hythe_node::{Client, ClientOptions};
use hythe_rtcore::tasks::Tasks;

use super::super::board::Running;
use super::super::pair::CREATE;
use super::case::{Case, Service};
use super::end::{End, Side};
use super::ours::{Calling, NAMES, Ping, Queues, Semaphores};
use crate::error::BenchError;
use crate::lookout::Lookout;

const CALLS: &str = "core/calls";
/// Methods of its own: words go in, and the first word of a result is the function's.
const REVERSE: u32 = 1;
const GET: u32 = 20;
const ATTACH: u32 = 21;
const DETACH: u32 = 22;
const CONTROL: u32 = 25;
/// `IPC_RMID`.
const REMOVE: u32 = 0;
/// Longer than a core takes on a busy machine.
const CALL_BOUND: Duration = Duration::from_secs(10);

/// The task that hands over, and what it is told to do between two semaphores and two queues.
const WORKER: &str = "worker";
const HAND: &str = "hand";
const PUMP: &str = "pump";

/// Opens it, as a node that reaches cores.
pub(super) fn open(case: Case, running: &Running) -> Result<Box<dyn End>, BenchError> {
    let node = running.node(super::super::case::System::Hythe);
    let buffer = vec![0; case.size];
    Ok(match case.service {
        Service::Ping => Box::new(Ping::over(node.clone(), ["ping", "pong"], buffer)?),
        Service::Call => {
            let method = (CALLS, REVERSE);
            Box::new(Calling::of(node, method, <[u8]>::reverse, buffer)?)
        }
        Service::Segment => Box::new(Segments {
            client: node.client(CALLS, &ClientOptions::default())?,
            size: case.size as u32,
        }),
        Service::Semaphore => Box::new(Worked::start(
            Semaphores::open(node.clone(), Side::Near)?,
            (running, HAND),
        )?),
        Service::Message => Box::new(Worked::start(
            Queues::open(node.clone(), Side::Near, buffer)?,
            (running, PUMP),
        )?),
    })
}

/// A task of the core is the far side of an end between processes.
#[derive(Debug)]
struct Worked<E> {
    end: E,
    tasks: Tasks,
}

impl<E> Worked<E> {
    /// What the end is made of is there when the task opens it.
    fn start(end: E, (running, what): (&Running, &str)) -> Result<Self, BenchError> {
        let mut tasks = Tasks::open(running.pool(), running.board(), "tasks").map_err(refused)?;
        let [there, back] = NAMES;
        let argument = format!("{what} {there} {back}");
        tasks.start(WORKER, &argument).map_err(refused)?;
        Ok(Self { end, tasks })
    }
}

impl<E: End> End for Worked<E> {
    fn send(&mut self, number: u64) -> Result<(), BenchError> {
        self.end.send(number)
    }

    fn receive(&mut self, number: u64, lookout: &Lookout) -> Result<(), BenchError> {
        self.end.receive(number, lookout)
    }

    /// The task has closed what it had open.
    fn finish(&mut self) -> Result<(), BenchError> {
        self.tasks.stop(WORKER).map(drop).map_err(refused)
    }
}

fn refused(error: impl std::fmt::Display) -> BenchError {
    BenchError::Unable(error.to_string())
}

/// The core makes, attaches, removes and detaches: a call each, and what it asks its agent for.
#[derive(Debug)]
struct Segments {
    client: Client,
    size: u32,
}

impl Segments {
    fn call<const N: usize>(
        &mut self,
        method: u32,
        words: [u32; N],
    ) -> Result<Vec<u8>, BenchError> {
        let words = words.map(u32::to_le_bytes);
        let mut caller = Caller::new(&mut self.client);
        let result = caller
            .call(method, words.as_flattened(), CALL_BOUND)?
            .to_vec();
        if word(&result, 0).is_none_or(|word| word.cast_signed() < 0) {
            return Err(BenchError::Unable(format!(
                "method {method} of the core refuses: {result:?}"
            )));
        }
        Ok(result)
    }

    fn number(&mut self, method: u32, words: [u32; 3], index: usize) -> Result<u32, BenchError> {
        let result = self.call(method, words)?;
        word(&result, index).ok_or_else(|| BenchError::Unable("a short result".to_owned()))
    }
}

impl End for Segments {
    fn send(&mut self, _number: u64) -> Result<(), BenchError> {
        let id = self.number(GET, [0, self.size, (CREATE | 0o600).cast_unsigned()], 0)?;
        let place = self.number(ATTACH, [id, 0, 0], 1)?;
        self.call(CONTROL, [id, REMOVE, 0, 0, 0])?;
        self.call(DETACH, [place])?;
        Ok(())
    }

    /// Done by then.
    fn receive(&mut self, _number: u64, _lookout: &Lookout) -> Result<(), BenchError> {
        Ok(())
    }
}

fn word(bytes: &[u8], index: usize) -> Option<u32> {
    let word = bytes.get(4 * index..4 * index + 4)?;
    Some(u32::from_le_bytes(word.try_into().ok()?))
}
