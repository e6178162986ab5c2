//! Groups of tasks, and what all members of one do together.
//!
//! Each step goes through one member, its root: the others send to it, it answers. A member that
//! waits for another which has ended learns that; a root then tells all others, so that every call
//! ends with an error that names who is missing.

use std::time::{Duration, Instant};

use super::inbox::Wanted;
use super::{Message, Task};
use crate::tasks::error::TaskError;
use crate::tasks::id::TaskId;
use crate::tasks::message::{Reply, Request};

/// What a message of a group is for; its tag.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// From a member to its root.
    Give = 1,
    /// From the root to a member.
    Take = 2,
    /// As `Take`: a member has ended, its number is the payload.
    Failed = 3,
}

/// A group as its members were when [`Task::group`] or [`Task::join_group`] was called, or
/// [`Group::refresh`]. All of them take the same steps in the same order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    name: String,
    context: u32,
    members: Vec<(u32, TaskId)>,
}

impl Task {
    /// Takes part in a group of the job, which is made if there is none: with the least number
    /// that is free in it.
    ///
    /// # Errors
    /// [`TaskError::Runner`]: a name of no or more than 64 bytes, too many groups.
    pub fn join_group(&self, name: &str) -> Result<Group, TaskError> {
        let request = Request::Join {
            group: name.to_owned(),
            task: self.id(),
        };
        self.group_of(name, &request)
    }

    /// A group of the job, as it is now.
    ///
    /// # Errors
    /// The runner does not answer.
    pub fn group(&self, name: &str) -> Result<Group, TaskError> {
        let request = Request::Members {
            group: name.to_owned(),
        };
        self.group_of(name, &request)
    }

    /// Leaves a group.
    ///
    /// # Errors
    /// [`TaskError::NotInGroup`].
    pub fn leave_group(&self, name: &str) -> Result<(), TaskError> {
        let request = Request::Leave {
            group: name.to_owned(),
            task: self.id(),
        };
        let reply = self.ends().ask(self.id().job_id(), &request)?;
        match reply {
            Some(Reply::Done) => Ok(()),
            _ => Err(TaskError::NotInGroup {
                task: self.id(),
                group: name.to_owned(),
            }),
        }
    }

    /// All that were started with this task, by rank.
    #[must_use]
    pub fn sibling_group(&self) -> Group {
        let first = self.siblings().first().map_or(0, |task| task.index());
        let name = format!("started with {}.{first}", self.id().job_id());
        let siblings = self.siblings().into_iter().enumerate();
        Group {
            context: context(&name),
            name,
            // Fits: a job has at most 512.
            members: siblings.map(|(rank, task)| (rank as u32, task)).collect(),
        }
    }

    fn group_of(&self, name: &str, request: &Request) -> Result<Group, TaskError> {
        let job = self.id().job_id();
        let failed = |reason: String| TaskError::Runner {
            job: job.job(),
            reason,
        };
        let reply = self.ends().ask(job, request)?;
        match reply {
            Some(Reply::Members { members }) => Ok(Group {
                name: name.to_owned(),
                context: context(name),
                members,
            }),
            Some(Reply::Failed { reason }) => Err(failed(reason)),
            Some(other) => Err(failed(format!("an answer that makes no sense: {other:?}"))),
            None => Err(failed("it is gone".to_owned())),
        }
    }
}

impl Group {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How many members it has.
    #[must_use]
    pub const fn size(&self) -> usize {
        self.members.len()
    }

    /// Number and task of each member, by number.
    #[must_use]
    pub fn members(&self) -> &[(u32, TaskId)] {
        &self.members
    }

    /// The number of a task in it.
    #[must_use]
    pub fn instance(&self, task: TaskId) -> Option<u32> {
        let found = self.members.iter().find(|(_, member)| *member == task);
        found.map(|(number, _)| *number)
    }

    /// The task with a number.
    #[must_use]
    pub fn task(&self, instance: u32) -> Option<TaskId> {
        let found = self.members.iter().find(|(number, _)| *number == instance);
        found.map(|(_, task)| *task)
    }

    /// Its members as they are now.
    ///
    /// # Errors
    /// As [`Task::group`].
    pub fn refresh(&mut self, task: &Task) -> Result<(), TaskError> {
        *self = task.group(&self.name)?;
        Ok(())
    }

    /// Waits until all members have come to this call.
    ///
    /// # Errors
    /// [`TaskError::Ended`] names a member that has ended; [`TaskError::Late`]: `timeout` is over.
    pub fn barrier(&self, task: &mut Task, timeout: Duration) -> Result<(), TaskError> {
        let root = self.first()?;
        self.gather(task, root, &[], timeout)?;
        self.broadcast(task, root, &[], timeout).map(drop)
    }

    /// Gives all members the bytes of `root`, whose own are `bytes`; others' do not count.
    ///
    /// # Errors
    /// As [`Group::barrier`], at members that wait for a root that has ended.
    pub fn broadcast(
        &self,
        task: &mut Task,
        root: u32,
        bytes: &[u8],
        timeout: Duration,
    ) -> Result<Vec<u8>, TaskError> {
        self.check_member(task)?;
        let root = self.root(root)?;
        if root != task.id() {
            return self.take(task, root, timeout);
        }
        let parts: Vec<&[u8]> = vec![bytes; self.size()];
        self.give_parts(task, &parts)?;
        Ok(bytes.to_vec())
    }

    /// Gives each member one of the parts that `root` has, in the order of their numbers; others'
    /// do not count.
    ///
    /// # Errors
    /// As [`Group::broadcast`]; [`TaskError::Group`]: there are not as many parts as members.
    pub fn scatter(
        &self,
        task: &mut Task,
        root: u32,
        parts: &[&[u8]],
        timeout: Duration,
    ) -> Result<Vec<u8>, TaskError> {
        self.check_member(task)?;
        let root = self.root(root)?;
        if root != task.id() {
            return self.take(task, root, timeout);
        }
        if parts.len() != self.size() {
            let reason = format!("{} parts for {} members", parts.len(), self.size());
            return Err(self.error(reason));
        }
        self.give_parts(task, parts)?;
        let own = self.members.iter().position(|(_, member)| *member == root);
        Ok(own.map_or_else(Vec::new, |index| parts[index].to_vec()))
    }

    /// Gives `root` what each member has, in the order of their numbers; the others get nothing,
    /// and do not wait.
    ///
    /// # Errors
    /// At the root as [`Group::barrier`].
    pub fn gather(
        &self,
        task: &mut Task,
        root: u32,
        bytes: &[u8],
        timeout: Duration,
    ) -> Result<Vec<Vec<u8>>, TaskError> {
        self.check_member(task)?;
        let root = self.root(root)?;
        if root != task.id() {
            task.send_in(self.context, root, Step::Give as u32, bytes)?;
            return Ok(Vec::new());
        }
        let mut gathered = Vec::with_capacity(self.size());
        let start = Instant::now();
        for &(_, member) in &self.members {
            if member == root {
                gathered.push(bytes.to_vec());
                continue;
            }
            let left = timeout.saturating_sub(start.elapsed());
            match self.next(task, member, Step::Give, left) {
                Ok(message) => gathered.push(message.into_vec()),
                Err(error) => {
                    if let TaskError::Ended { task: ended } = error {
                        self.tell_failure(task, ended);
                    }
                    return Err(error);
                }
            }
        }
        Ok(gathered)
    }

    /// Gives `root` what `combine` makes of all members' values, in the order of their numbers,
    /// each of the same length; the others get nothing, and do not wait.
    ///
    /// # Errors
    /// As [`Group::gather`]; [`TaskError::Group`]: lengths differ.
    pub fn reduce<T: Copy + ReducedValue>(
        &self,
        task: &mut Task,
        root: u32,
        values: &[T],
        combine: impl Fn(T, T) -> T,
        timeout: Duration,
    ) -> Result<Vec<T>, TaskError> {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_bytes()).collect();
        let gathered = self.gather(task, root, &bytes, timeout)?;
        let mut all = gathered.iter().zip(&self.members);
        let Some((first, _)) = all.next() else {
            return Ok(Vec::new());
        };
        let mut reduced = T::from_all(first);
        for (bytes, (_, member)) in all {
            if bytes.len() != first.len() {
                let reason = format!(
                    "task {member} has {} bytes to reduce, others {}",
                    bytes.len(),
                    first.len()
                );
                return Err(self.error(reason));
            }
            let others = T::from_all(bytes).into_iter();
            for (value, other) in reduced.iter_mut().zip(others) {
                *value = combine(*value, other);
            }
        }
        Ok(reduced)
    }

    /// What the root gives. If that failed for another member, so it does here.
    fn take(&self, task: &mut Task, root: TaskId, timeout: Duration) -> Result<Vec<u8>, TaskError> {
        self.next(task, root, Step::Take, timeout)
            .map(Message::into_vec)
    }

    fn give_parts(&self, task: &Task, parts: &[&[u8]]) -> Result<(), TaskError> {
        let mut outcome = Ok(());
        for (&(_, member), part) in self.members.iter().zip(parts) {
            if member != task.id() {
                let sent = task.send_in(self.context, member, Step::Take as u32, part);
                // The others get theirs all the same.
                outcome = outcome.and(sent);
            }
        }
        outcome
    }

    fn next(
        &self,
        task: &mut Task,
        from: TaskId,
        step: Step,
        timeout: Duration,
    ) -> Result<Message, TaskError> {
        let wanted = Wanted {
            context: self.context,
            source: Some(from),
            tag: None,
        };
        let received = task.receive(wanted, timeout)?;
        let message = received.ok_or_else(|| TaskError::Late {
            group: self.name.clone(),
            task: Some(from),
            waited_ms: u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX),
        })?;
        match message.tag() {
            tag if tag == step as u32 => Ok(message),
            tag if tag == Step::Failed as u32 => {
                let number = <u32 as ReducedValue>::from_all(&message.into_vec());
                let ended = number.first().copied().and_then(TaskId::from_number);
                Err(TaskError::Ended {
                    task: ended.unwrap_or(from),
                })
            }
            tag => Err(self.error(format!(
                "task {from} is at another step (message {tag}): all members take the same ones"
            ))),
        }
    }

    /// So that none of the others waits for what will not come.
    fn tell_failure(&self, task: &Task, ended: TaskId) {
        let number = ended.number().to_le_bytes();
        let others = self.members.iter().map(|(_, member)| *member);
        for member in others.filter(|member| *member != task.id() && *member != ended) {
            // Who has ended, too, waits for nothing.
            let _ = task.send_in(self.context, member, Step::Failed as u32, &number);
        }
    }

    fn check_member(&self, task: &Task) -> Result<(), TaskError> {
        match self.instance(task.id()) {
            Some(_) => Ok(()),
            None => Err(TaskError::NotInGroup {
                task: task.id(),
                group: self.name.clone(),
            }),
        }
    }

    fn first(&self) -> Result<u32, TaskError> {
        let first = self.members.first().map(|(number, _)| *number);
        first.ok_or_else(|| self.error("it has no members".to_owned()))
    }

    fn root(&self, instance: u32) -> Result<TaskId, TaskError> {
        let root = self.task(instance);
        root.ok_or_else(|| self.error(format!("it has no member {instance}")))
    }

    fn error(&self, reason: String) -> TaskError {
        TaskError::Group {
            group: self.name.clone(),
            reason,
        }
    }
}

/// A value of which a group makes one of many.
pub trait ReducedValue: Sized {
    /// Little endian.
    fn to_bytes(self) -> Vec<u8>;
    /// As many as there are; what is left over is none.
    fn from_all(bytes: &[u8]) -> Vec<Self>;
}

macro_rules! reduced {
    ($($number:ty),*) => {
        $(impl ReducedValue for $number {
            fn to_bytes(self) -> Vec<u8> {
                self.to_le_bytes().to_vec()
            }

            fn from_all(bytes: &[u8]) -> Vec<Self> {
                let whole = bytes.chunks_exact(size_of::<Self>());
                whole
                    .filter_map(|part| Some(Self::from_le_bytes(part.try_into().ok()?)))
                    .collect()
            }
        })*
    };
}

reduced!(i8, u8, i16, u16, i32, u32, i64, u64, f32, f64);

/// A group's number in messages: never 0. Two groups of one task that share one by chance would
/// mix; of 1,000 groups two do in one of 8,000 jobs.
fn context(name: &str) -> u32 {
    let hash = name.bytes().fold(0x811c_9dc5_u32, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    });
    hash.max(1)
}
