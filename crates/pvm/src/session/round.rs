//! Barriers of a group that nobody joins any more, by messages of its members: the way to the
//! server of the machine and back leads over the agents of two hosts.
//!
//! The member with the least number waits for all others, and then lets them go. Whether somebody
//! cannot come any more the server knows; who waits long asks it.

use std::time::{Duration, Instant};

use super::Session;
use super::groups::GROUP_CONTEXT;
use crate::buffer::Buffer;
use crate::code::Code;
use crate::inbox::Wanted;
use crate::machine::Request;
use crate::tid::Tid;

/// Tags that no step of a group has; -1 would be any.
const COMES: i32 = -2;
const GOES: i32 = -3;
const CANNOT: i32 = -4;
/// What the first member said before it left is there after so long.
const LAST_WORDS: Duration = Duration::from_secs(2);

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
    /// From now on all barriers of a group are rounds, if all members have said so at once.
    pub(super) fn begin_rounds(&mut self, group: &str, size: i32, members: &[(i32, Tid)]) {
        if usize::try_from(size) == Ok(members.len()) {
            self.rounds.insert(group.to_owned(), 0);
        }
    }

    /// Nobody waits for messages of this group any more.
    pub(super) fn end_rounds(&mut self, group: &str) {
        self.rounds.remove(group);
        let tags = [COMES, GOES, CANNOT];
        while self
            .take_of_group(None, &tags, |word| word.get(8..) == Some(group.as_bytes()))
            .is_some()
        {}
    }

    /// Comes to a barrier. `None`: it is one that the server keeps, [`Session::barrier`].
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
        let Some(number) = self.rounds.get_mut(group).filter(|_| is_of_all) else {
            return Ok(None);
        };
        let mut word = number.to_le_bytes().to_vec();
        *number += 1;
        word.extend_from_slice(group.as_bytes());
        let waited_for = match first == own {
            true => others.into_iter().filter(|task| *task != own).collect(),
            false => {
                self.send_in(GROUP_CONTEXT, first.number(), COMES, &word)?;
                vec![first]
            }
        };
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
            let said = self.take_of_group(Some(round.first), &[GOES, CANNOT], is_it)?;
            return Some(match said.info.tag {
                GOES => Ok(()),
                _ => Err(self.give_up(round)),
            });
        }
        let Round {
            word, waited_for, ..
        } = round;
        waited_for.retain(|member| {
            let came = self.take_of_group(Some(*member), &[COMES], |said| said == word.as_slice());
            came.is_none()
        });
        match waited_for.is_empty() {
            true => Some(self.tell_others(round, GOES)),
            false => None,
        }
    }

    /// Asks whether all who are waited for can come.
    ///
    /// # Errors
    /// [`Code::NO_GROUP`]: no; [`Code::SYSTEM`].
    pub fn look_at_members(&mut self, round: &mut Round) -> Result<(), Code> {
        let group = round.group.clone();
        let members = self.ask_members(Request::Members { group })?;
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

    fn tell_others(&mut self, round: &Round, tag: i32) -> Result<(), Code> {
        let own = self.task();
        let members = self.frozen.get(&round.group).cloned().unwrap_or_default();
        let mut others = members.iter().filter(|(_, task)| *task != own);
        others
            .try_for_each(|(_, task)| self.send_in(GROUP_CONTEXT, task.number(), tag, &round.word))
    }

    /// The first message of these that waits in the inbox.
    fn take_of_group(
        &mut self,
        from: Option<Tid>,
        tags: &[i32],
        is_it: impl Fn(&[u8]) -> bool,
    ) -> Option<Buffer> {
        let wanted = Wanted {
            source: from.map_or(-1, Tid::number),
            tag: -1,
            context: GROUP_CONTEXT,
        };
        let place = self.inbox.find_where(|message| {
            wanted.is(message) && tags.contains(&message.info.tag) && is_it(message.body())
        })?;
        self.inbox.take(place)
    }
}
