//! Groups: membership by the machine, data by messages of members.

use std::time::Duration;

use super::{Session, number};
use crate::buffer::Buffer;
use crate::code::Code;
use crate::inbox::Wanted;
use crate::machine::{Reply, Request};
use crate::tid::Tid;

/// The context of data of groups: one of those that PVM reserves.
pub(super) const GROUP_CONTEXT: i32 = 0x0007_ffff - 3;

impl<F: Clone> Session<F> {
    /// Joins a group: the number in it.
    ///
    /// # Errors
    /// [`Code::NULL_GROUP`], [`Code::DUPLICATE_GROUP`], [`Code::NOT_IN_GROUP`]: it is frozen.
    pub fn join_group(&mut self, group: &str) -> Result<i32, Code> {
        let group = group.to_owned();
        self.ask_number(Request::Join { group })
    }

    /// Leaves a group.
    ///
    /// # Errors
    /// [`Code::NO_GROUP`], [`Code::NOT_IN_GROUP`].
    pub fn leave_group(&mut self, group: &str) -> Result<i32, Code> {
        self.frozen.remove(group);
        self.end_rounds(group);
        let group = group.to_owned();
        self.ask_number(Request::Leave { group })
    }

    /// The member with a number.
    ///
    /// # Errors
    /// [`Code::NO_GROUP`], [`Code::NO_INSTANCE`].
    pub fn group_member(&mut self, group: &str, instance: i32) -> Result<i32, Code> {
        if let Some(members) = self.frozen.get(group) {
            let found = members.iter().find(|(number, _)| *number == instance);
            return found.map_or(Err(Code::NO_INSTANCE), |(_, task)| Ok(task.number()));
        }
        let group = group.to_owned();
        self.ask_number(Request::Member { group, instance })
    }

    /// The number of a member.
    ///
    /// # Errors
    /// [`Code::NO_GROUP`], [`Code::NOT_IN_GROUP`].
    pub fn group_instance(&mut self, group: &str, task: i32) -> Result<i32, Code> {
        let task = Tid::from_number(task);
        if let Some(members) = self.frozen.get(group) {
            let found = members.iter().find(|(_, one)| *one == task);
            return found.map_or(Err(Code::NOT_IN_GROUP), |(number, _)| Ok(*number));
        }
        let group = group.to_owned();
        self.ask_number(Request::Instance { group, task })
    }

    /// How many are in it.
    ///
    /// # Errors
    /// [`Code::NO_GROUP`].
    pub fn group_size(&mut self, group: &str) -> Result<i32, Code> {
        if let Some(members) = self.frozen.get(group) {
            // Fits: a machine has fewer tasks.
            return Ok(members.len() as i32);
        }
        let group = group.to_owned();
        self.ask_number(Request::Size { group })
    }

    /// Comes to a barrier that the server keeps: its [reply](Session::reply) is there once `count`
    /// members have come; -1: all of them. All members of a frozen group [come](Session::come)
    /// without it.
    ///
    /// # Errors
    /// [`Code::SYSTEM`]: also while the reply to another request is to come.
    pub fn begin_barrier(&mut self, group: &str, count: i32) -> Result<(), Code> {
        let group = group.to_owned();
        self.machine.begin(Request::Barrier { group, count })
    }

    /// What became of it.
    ///
    /// # Errors
    /// [`Code::NO_GROUP`]: also when so many cannot come any more, because a member has left;
    /// [`Code::NOT_IN_GROUP`]; [`Code::MISMATCH`]: none, or not as many as others say.
    pub fn end_barrier(&self, reply: Reply) -> Result<i32, Code> {
        number(reply)
    }

    /// What the machine replies to what was begun, waiting for at most so long.
    ///
    /// # Errors
    /// [`Code::SYSTEM`]: also when nothing was begun.
    pub fn reply(&mut self, timeout: Duration) -> Result<Option<Reply>, Code> {
        self.machine.reply(timeout)
    }

    /// Asks that nobody joins any more: the reply is there once `size` members have asked; -1: all
    /// of them.
    ///
    /// # Errors
    /// As [`Session::begin_barrier`].
    pub fn begin_freeze(&mut self, group: &str, size: i32) -> Result<(), Code> {
        let group = group.to_owned();
        self.machine.begin(Request::Freeze { group, size })
    }

    /// What became of it, with `size` as it was asked for: how many members froze it.
    ///
    /// # Errors
    /// As [`Session::end_barrier`]; [`Code::DUPLICATE_GROUP`]: it is frozen.
    pub fn end_freeze(&mut self, group: &str, size: i32, reply: Reply) -> Result<i32, Code> {
        match reply {
            Reply::Frozen { members, number } => {
                let size = match size {
                    // Fits: a machine has fewer tasks.
                    -1 => members.len() as i32,
                    _ => size,
                };
                self.begin_rounds(group, number);
                self.frozen.insert(group.to_owned(), members);
                Ok(size)
            }
            Reply::Refused(code) => Err(code),
            _ => Err(Code::BAD_MESSAGE),
        }
    }

    /// Members by their numbers.
    ///
    /// # Errors
    /// [`Code::NO_GROUP`].
    pub fn group_members(&mut self, group: &str) -> Result<Vec<(i32, Tid)>, Code> {
        if let Some(members) = self.frozen.get(group) {
            return Ok(members.clone());
        }
        let group = group.to_owned();
        members(self.machine.ask(Request::Members { group })?)
    }

    /// Sends the active buffer to all members but this task.
    ///
    /// # Errors
    /// [`Code::NO_GROUP`], [`Code::BAD_PARAMETER`]: a negative tag; [`Code::NO_INSTANCE`]: there
    /// are no others; as [`Session::send`].
    pub fn broadcast(
        &mut self,
        group: &str,
        tag: i32,
        in_place: Option<&[u8]>,
    ) -> Result<(), Code> {
        if tag < 0 {
            return Err(Code::BAD_PARAMETER);
        }
        let own = self.task();
        let members = self.group_members(group)?.into_iter();
        let others = members.map(|(_, task)| task).filter(|task| *task != own);
        let others: Vec<i32> = others.map(Tid::number).collect();
        if others.is_empty() {
            return Err(Code::NO_INSTANCE);
        }
        self.multicast(&others, tag, in_place)
    }

    /// Members for a step that all take, and the member with number `root`.
    ///
    /// # Errors
    /// [`Code::NO_GROUP`]; [`Code::NOT_IN_GROUP`]: this task is none of them;
    /// [`Code::NO_INSTANCE`]: `root` is none.
    pub fn meeting(&mut self, group: &str, root: i32) -> Result<(Vec<(i32, Tid)>, Tid), Code> {
        let members = self.group_members(group)?;
        let own = self.task();
        if members.iter().all(|(_, task)| *task != own) {
            return Err(Code::NOT_IN_GROUP);
        }
        let found = members.iter().find(|(number, _)| *number == root);
        let root = found.map(|(_, task)| *task).ok_or(Code::NO_INSTANCE)?;
        Ok((members, root))
    }

    /// Sends data of a step.
    ///
    /// # Errors
    /// As [`Session::send`].
    pub fn send_step(&mut self, to: Tid, tag: i32, bytes: &[u8]) -> Result<(), Code> {
        if tag < 0 {
            return Err(Code::BAD_PARAMETER);
        }
        self.send_in(GROUP_CONTEXT, to.number(), tag, bytes)
    }

    /// What a member sent for a step, if it has come.
    pub fn take_step(&mut self, from: Tid, tag: i32) -> Option<Buffer> {
        let wanted = Wanted {
            source: from.number(),
            tag,
            context: GROUP_CONTEXT,
        };
        self.take(&wanted)
    }
}

pub(super) fn members(reply: Reply) -> Result<Vec<(i32, Tid)>, Code> {
    match reply {
        Reply::Members(members) => Ok(members),
        Reply::Refused(code) => Err(code),
        _ => Err(Code::BAD_MESSAGE),
    }
}
