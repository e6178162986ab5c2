//! Barriers of a group that nobody joins any more, by messages of its members: the way to the
//! server of the machine and back leads over the agents of two hosts.
//!
//! The member with the least number waits for all others, and then lets them go. Whether somebody
//! cannot come any more the server knows; who waits long asks it.

use std::time::{Duration, Instant};

use super::Session;
use super::groups::{GROUP_CONTEXT, members};
use crate::buffer::{Buffer, Info};
use crate::code::Code;
use crate::machine::{Reply, Request};
use crate::tid::Tid;

/// Tags that no step of a group has; -1 would be any.
const COMES: i32 = -2;
const GOES: i32 = -3;
const CANNOT: i32 = -4;
/// What the first member said before it left is there after so long.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// Words that are kept: each member of each group says one or two at a time.
const WORDS_MAX: usize = 1 << 14;

/// Barriers of a group.
#[derive(Debug)]
pub(super) struct Rounds {
    /// Which freeze of the machine it was: another group of the same name has another.
    freeze: u64,
    /// So far.
    count: u64,
}

/// Is it said at a barrier? Programs see nothing of it, whatever they look for.
pub(super) fn is_word(info: &Info) -> bool {
    info.context == GROUP_CONTEXT && [COMES, GOES, CANNOT].contains(&info.tag)
}

/// A barrier that this task has come to.
#[derive(Debug)]
pub struct Round {
    group: String,
    /// Which group and which barrier of it: all its messages consist of this.
    word: Vec<u8>,
    /// With the least number.
    first: Tid,
    /// Members that the first one waits for; of others, the first one.
    waited_for: Vec<Tid>,
    /// The first member was not in the group any more.
    gone_since: Option<Instant>,
}

impl<F: Clone> Session<F> {
    /// From now on all barriers of a group are rounds, if all members have frozen it: then that has
    /// a number.
    pub(super) fn begin_rounds(&mut self, group: &str, freeze: u64) {
        if freeze > 0 {
            let rounds = Rounds { freeze, count: 0 };
            self.rounds.insert(group.to_owned(), rounds);
        }
    }

    /// Nobody waits for words of this group any more.
    pub(super) fn end_rounds(&mut self, group: &str) {
        if let Some(rounds) = self.rounds.remove(group) {
            let freeze = rounds.freeze.to_le_bytes();
            self.words.retain(|word| !word.body().starts_with(&freeze));
        }
    }

    /// One has come.
    pub(super) fn take_word(&mut self, word: Buffer) {
        match self.words.len() < WORDS_MAX {
            true => self.words.push_back(word),
            false => self.violations += 1,
        }
    }

    /// Comes to a barrier. `None`: it is one that the server keeps, [`Session::begin_barrier`].
    ///
    /// # Errors
    /// As [`Session::send`].
    pub fn come(&mut self, group: &str, count: i32) -> Result<Option<Round>, Code> {
        let own = self.task();
        let Some(members) = self.frozen.get(group) else {
            return Ok(None);
        };
        let all = i32::try_from(members.len());
        let Some((_, first)) = members.iter().min().copied() else {
            return Ok(None);
        };
        let others: Vec<Tid> = members.iter().map(|(_, task)| *task).collect();
        let is_of_all = count == -1 || Ok(count) == all;
        let Some(rounds) = self.rounds.get(group).filter(|_| is_of_all) else {
            return Ok(None);
        };
        let word = [rounds.freeze, rounds.count].map(u64::to_le_bytes).concat();
        let waited_for = match first == own {
            true => others.into_iter().filter(|task| *task != own).collect(),
            false => {
                self.send_in(GROUP_CONTEXT, first.number(), COMES, &word)?;
                vec![first]
            }
        };
        // One whose word did not leave may come again.
        if let Some(rounds) = self.rounds.get_mut(group) {
            rounds.count += 1;
        }
        Ok(Some(Round {
            group: group.to_owned(),
            word,
            first,
            waited_for,
            gone_since: None,
        }))
    }

    /// What became of a barrier, by what has come. `None`: nothing yet.
    pub fn outcome(&mut self, round: &mut Round) -> Option<Result<(), Code>> {
        if round.first != self.task() {
            let is_it = |word: &[u8]| word == round.word;
            let said = self.next_word(round.first, &[GOES, CANNOT], is_it)?;
            return Some(match said.info.tag {
                GOES => Ok(()),
                _ => Err(self.give_up(round)),
            });
        }
        let Round {
            word, waited_for, ..
        } = round;
        waited_for.retain(|member| {
            let came = self.next_word(*member, &[COMES], |said| said == word.as_slice());
            came.is_none()
        });
        match waited_for.is_empty() {
            true => Some(self.tell_others(round, GOES)),
            false => None,
        }
    }

    /// Asks who is in a group: whether all who are waited for can come.
    ///
    /// # Errors
    /// As [`Session::begin_barrier`].
    pub fn begin_look(&mut self, group: &str) -> Result<(), Code> {
        let group = group.to_owned();
        self.machine.begin(Request::Members { group })
    }

    /// Looks at what the machine [replied](Session::reply).
    ///
    /// # Errors
    /// [`Code::NO_GROUP`]: they cannot; [`Code::SYSTEM`].
    pub fn end_look(&mut self, round: &mut Round, reply: Reply) -> Result<(), Code> {
        let members = members(reply)?;
        let is_member = |task: &Tid| members.iter().any(|(_, member)| member == task);
        if round.waited_for.iter().all(is_member) {
            return Ok(());
        }
        if round.first == self.task() {
            // Those who come later find it.
            self.tell_others(round, CANNOT)?;
            return Err(self.give_up(round));
        }
        let since = round.gone_since.get_or_insert_with(Instant::now);
        match since.elapsed() >= LAST_WORDS {
            true => Err(self.give_up(round)),
            false => Ok(()),
        }
    }

    /// The group is of no use any more, as the server says of later barriers.
    fn give_up(&mut self, round: &Round) -> Code {
        self.end_rounds(&round.group);
        Code::NO_GROUP
    }

    /// All of them, also where one cannot be told: that is the error then.
    fn tell_others(&mut self, round: &Round, tag: i32) -> Result<(), Code> {
        let own = self.task();
        let members = self.frozen.get(&round.group).cloned().unwrap_or_default();
        let mut outcome = Ok(());
        for (_, task) in members.iter().filter(|(_, task)| *task != own) {
            let told = self.send_in(GROUP_CONTEXT, task.number(), tag, &round.word);
            outcome = outcome.and(told);
        }
        outcome
    }

    /// The first of these words of a member.
    fn next_word(
        &mut self,
        from: Tid,
        tags: &[i32],
        is_it: impl Fn(&[u8]) -> bool,
    ) -> Option<Buffer> {
        let at = self.words.iter().position(|word| {
            let info = &word.info;
            info.source == from.number() && tags.contains(&info.tag) && is_it(word.body())
        })?;
        self.words.remove(at)
    }
}
