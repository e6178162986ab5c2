//! An end as the bench sees it: a process that is ordered and answers, and that never outlives the
//! bench.

use std::io::{BufRead, BufReader, Write};
use std::marker::PhantomData;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use super::message::{Answer, Order};
use crate::error::BenchError;
use crate::lookout::{Lookout, NAP};

/// Far beyond what any order takes; a process that is silent for longer is lost.
const BOUND: Duration = Duration::from_secs(120);

/// Killed and waited for when dropped.
#[derive(Debug)]
pub(crate) struct Process<O> {
    name: &'static str,
    child: Child,
    orders: Option<ChildStdin>,
    answers: Receiver<String>,
    /// The last order is not answered yet.
    is_asked: bool,
    lookout: Lookout,
    orders_of: PhantomData<fn(O)>,
}

impl<O: Order> Process<O> {
    /// Starts this program with these arguments as an end, with a network and mounts of its own,
    /// which nothing but this process holds. The calling thread must live as long as the end shall.
    pub(crate) fn start(
        name: &'static str,
        arguments: &[&str],
        cpu: Option<usize>,
        lookout: &Lookout,
    ) -> Result<Self, BenchError> {
        let mut command = Command::new("unshare");
        command.args(["--net", "--mount", "--"]);
        command.arg(std::env::current_exe()?);
        command.args(arguments);
        if let Some(cpu) = cpu {
            command.args(["--cpu", &cpu.to_string()]);
        }
        // A terminal's interrupt is for the bench, which then ends this.
        command.process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        hythe_sys::spawn::die_with_parent(&mut command);
        let mut child = command.spawn().map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => BenchError::Unable(
                "the program `unshare` is missing: install util-linux".to_owned(),
            ),
            _ => error.into(),
        })?;
        let (orders, output) = (child.stdin.take(), child.stdout.take());
        let (said, answers) = channel();
        if let Some(output) = output {
            // Ends with the process, or with the channel.
            std::thread::spawn(move || {
                let lines = BufReader::new(output).lines().map_while(Result::ok);
                for line in lines {
                    if said.send(line).is_err() {
                        break;
                    }
                }
            });
        }
        let mut process = Self {
            name,
            child,
            orders,
            answers,
            is_asked: true,
            lookout: lookout.clone(),
            orders_of: PhantomData,
        };
        // From here on it has its network.
        process.expect_ready()?;
        Ok(process)
    }

    /// By which `ip` finds its network.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Orders, and waits for the answer.
    pub(crate) fn ask(&mut self, order: &O) -> Result<Answer<O::Outcome>, BenchError> {
        let line = serde_json::to_string(order).map_err(std::io::Error::from)? + "\n";
        if let Some(orders) = &mut self.orders {
            // A process that is gone is noticed by the missing answer, which says more.
            let _ = orders.write_all(line.as_bytes());
        }
        self.is_asked = true;
        self.answer()
    }

    /// Orders what is answered with `Ready`.
    pub(crate) fn order(&mut self, order: &O) -> Result<(), BenchError> {
        let answer = self.ask(order)?;
        self.ready(&answer)
    }

    /// As [`Self::order`], even where somebody has asked the bench to stop: what is left behind
    /// otherwise would be there for longer.
    pub(crate) fn order_at_the_end(&mut self, order: &O) -> Result<(), BenchError> {
        self.lookout = Lookout::default();
        if self.is_asked {
            // Of an order that was given up: of no interest any more.
            let _ = self.answer();
        }
        self.order(order)
    }

    /// It said something else than was asked for.
    pub(crate) fn surprise(&self, answer: &Answer<O::Outcome>) -> BenchError {
        BenchError::Invalid(format!("the {} said {answer:?}", self.name))
    }

    fn expect_ready(&mut self) -> Result<(), BenchError> {
        let answer = self.answer()?;
        self.ready(&answer)
    }

    fn ready(&self, answer: &Answer<O::Outcome>) -> Result<(), BenchError> {
        match answer {
            Answer::Ready => Ok(()),
            other => Err(self.surprise(other)),
        }
    }

    fn answer(&mut self) -> Result<Answer<O::Outcome>, BenchError> {
        let asked = Instant::now();
        loop {
            self.lookout.check_stop()?;
            match self.answers.recv_timeout(NAP) {
                Ok(line) => {
                    self.is_asked = false;
                    let answer: Answer<O::Outcome> =
                        serde_json::from_str(&line).map_err(std::io::Error::from)?;
                    return match answer {
                        Answer::Failed(why) => {
                            Err(BenchError::OrderFailed(format!("the {}: {why}", self.name)))
                        }
                        answer => Ok(answer),
                    };
                }
                Err(RecvTimeoutError::Timeout) if asked.elapsed() < BOUND => {}
                Err(RecvTimeoutError::Timeout) => return Err(BenchError::silent(BOUND)),
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(BenchError::PeerLost(format!("the {} has ended", self.name)));
                }
            }
        }
    }
}

impl<O> Drop for Process<O> {
    fn drop(&mut self) {
        // It has ended already, or does so now; there is nobody to tell.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
