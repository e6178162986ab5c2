//! One of the processes: sender, receiver, or relay between them, with a network and a `/dev/shm`
//! of its own. The bench orders, line by line, and it answers.
//!
//! Ends when nobody orders any more.

use std::fs::File;
use std::io;
use std::net::IpAddr;

use super::args::MediaEndArguments;
use super::calls::{self, CallCase};
use super::case::Case;
use super::job::Job;
use super::lossy::{self, LossyCase, Relay};
use super::message::{Order, Outcome, Source};
use super::plays::{self, PlaysCase};
use super::receiver::Receiver;
use super::sender;
use super::tally::Checker;
use crate::error::BenchError;
use crate::network::{Answer, Link, answer, begin, next_order, put_up, ready};

/// What it knows.
struct End {
    /// Sources and, once they were needed, what is in them.
    sources: Vec<(Source, Option<Vec<u8>>)>,
    /// The relay has two: to the sender, to the receiver.
    links: Vec<Link>,
}

/// Takes orders.
pub(crate) fn run(arguments: &MediaEndArguments) -> Result<(), BenchError> {
    begin(arguments.cpu)?;
    let sources: Vec<Source> = serde_json::from_str(&arguments.sources).map_err(io::Error::from)?;
    let mut end = End {
        sources: sources.into_iter().map(|source| (source, None)).collect(),
        links: Vec::new(),
    };
    ready()?;
    while let Some(order) = next_order()? {
        let answered = end.obey(order);
        answer(&answered.unwrap_or_else(|error| Answer::Failed(error.to_string())))?;
    }
    Ok(())
}

impl End {
    fn obey(&mut self, order: Order) -> Result<Answer<Outcome>, BenchError> {
        match order {
            Order::Join(link) => {
                put_up(&link)?;
                self.links.push(link);
                Ok(Answer::Ready)
            }
            Order::Expect(case) => self.receive(case),
            Order::Listen(case) => self.listen(case),
            Order::Take(case) => self.take(case),
            Order::Watch(case) => self.watch(case),
            Order::Play(play) => Ok(Answer::Result(Outcome::Played(plays::play(
                &play,
                self.other()?,
            )?))),
            Order::Pass { seed } => self.pass(seed),
            Order::Call(case) => Ok(Answer::Result(Outcome::Paced(calls::send(
                case,
                self.other()?,
            )?))),
            Order::Stream(case) => Ok(Answer::Result(Outcome::Streamed(lossy::send(
                case,
                self.other()?,
            )?))),
            Order::Collect => Err(BenchError::WrongUse("nothing is expected".to_owned())),
            Order::Send(case) => {
                let source = self.source(case)?;
                let file = File::open(&source.path)?;
                let to = self.other()?;
                let job = Job {
                    case,
                    path: &source.path,
                    file: &file,
                    to,
                };
                Ok(Answer::Result(Outcome::Sent(sender::run(&job)?)))
            }
        }
    }

    /// Two orders, since what comes between them must not wait for the second.
    fn receive(&mut self, case: Case) -> Result<Answer<Outcome>, BenchError> {
        let address = self.address()?;
        let media = self.media(case)?;
        let mut checker = Checker::new(case, media);
        let receiver = Receiver::open(&case, address)?;
        ready()?;
        receiver.run(&mut checker, io::stdin())?;
        // None: the bench has ended, and so will this process.
        next_order::<Order>()?;
        Ok(Answer::Result(Outcome::Received(checker.tally())))
    }

    fn listen(&self, case: CallCase) -> Result<Answer<Outcome>, BenchError> {
        let receiver = calls::Receiver::open(case, self.address()?)?;
        ready()?;
        let arrivals = receiver.run(io::stdin())?;
        next_order::<Order>()?;
        Ok(Answer::Result(Outcome::Arrivals(arrivals)))
    }

    fn take(&self, case: LossyCase) -> Result<Answer<Outcome>, BenchError> {
        let taken = lossy::receive(case, self.address()?, ready, io::stdin())?;
        next_order::<Order>()?;
        Ok(Answer::Result(Outcome::Taken(taken)))
    }

    fn watch(&self, case: PlaysCase) -> Result<Answer<Outcome>, BenchError> {
        let watched = plays::watch(case, self.address()?, ready, io::stdin())?;
        next_order::<Order>()?;
        Ok(Answer::Result(Outcome::Watched(watched)))
    }

    fn pass(&self, seed: u64) -> Result<Answer<Outcome>, BenchError> {
        let [near, far] = [self.link(0)?, self.link(1)?];
        let relay = Relay::open(near.own_ip()?, far.own_ip()?, far.other_ip()?)?;
        ready()?;
        let (passed, order) = relay.run(seed, next_order::<Order>);
        order?;
        Ok(Answer::Result(Outcome::Passed(passed)))
    }

    fn link(&self, place: usize) -> Result<&Link, BenchError> {
        let link = self.links.get(place);
        link.ok_or_else(|| BenchError::WrongUse("there is no link yet".to_owned()))
    }

    /// Its own.
    fn address(&self) -> Result<IpAddr, BenchError> {
        self.link(0)?.own_ip()
    }

    /// Whom it sends to.
    fn other(&self) -> Result<IpAddr, BenchError> {
        self.link(0)?.other_ip()
    }

    fn place(&self, case: Case) -> Result<usize, BenchError> {
        let mut sources = self.sources.iter();
        let place = sources.position(|(source, _)| source.content == case.content);
        place.ok_or_else(|| BenchError::WrongUse(format!("no source of {:?}", case.content)))
    }

    fn source(&self, case: Case) -> Result<&Source, BenchError> {
        Ok(&self.sources[self.place(case)?].0)
    }

    fn media(&mut self, case: Case) -> Result<&[u8], BenchError> {
        let place = self.place(case)?;
        let (source, media) = &mut self.sources[place];
        if media.is_none() {
            *media = Some(std::fs::read(&source.path)?);
        }
        Ok(media.as_deref().unwrap_or_default())
    }
}
