//! All of a machine's state, and what each request does to it.

use std::collections::{BTreeMap, BTreeSet};

use super::barriers::{Barriers, Purpose};
use super::groups::Groups;
use super::hosts::Hosts;
use super::mailboxes::{Mailboxes, Taken};
use super::protocol::{Outgoing, Reply, Request, TaskRow, WatchedEvent};
use crate::buffer::{Buffer, Encoding, Kind, set_sender};
use crate::code::Code;
use crate::tid::{FIRST_HOST, MACHINE, Tid};

/// Those that the daemon of the machine's host gives out, as PVM numbers them.
const FIRST_CONTEXT: i32 = FIRST_HOST.number() + 1;
/// Those from here on are reserved by PVM.
const RESERVED_CONTEXTS: i32 = 0x0007_ffff - 9;
const WATCHES_MAX: usize = 1 << 16;
/// Of one task.
const WATCHES_EACH_MAX: usize = 1 << 12;

/// `TO_EOF` of `pvmproto.h`: a task prints nothing more.
const OUTPUT_ENDS: i32 = 0;
/// `TO_SPAWN`: a task that prints was spawned; its parent follows.
const OUTPUT_BEGINS: i32 = -1;
/// `TO_NEW`: it is about to be; the same.
const OUTPUT_IS_NEW: i32 = -2;

/// What is to be sent, to which task.
pub(super) type Sent = Vec<(Tid, Outgoing)>;

#[derive(Debug)]
struct Watch {
    by: Tid,
    of: Tid,
    event: WatchedEvent,
    tag: i32,
    context: i32,
}

/// Who asked for a message of a mailbox that is not there yet.
#[derive(Debug)]
struct Reader {
    task: Tid,
    class: String,
    index: i32,
    flags: i32,
}

#[derive(Clone, Copy, Debug)]
struct Collected {
    to: Tid,
    tag: i32,
    context: i32,
}

/// The state of a machine.
#[derive(Debug, Default)]
pub struct State {
    enrolled: BTreeSet<Tid>,
    /// Left, and not known to have ended: their processes may go on. Numbers of others are used
    /// again.
    left: BTreeSet<Tid>,
    mailboxes: Mailboxes,
    groups: Groups,
    barriers: Barriers,
    /// Groups that all their members froze, so far.
    freezes: u64,
    contexts: BTreeSet<i32>,
    watches: Vec<Watch>,
    hosts: Hosts,
    readers: Vec<Reader>,
    collected: BTreeMap<Tid, Collected>,
}

impl State {
    /// Takes a task into the machine. False: it is in it.
    pub fn enroll(&mut self, task: Tid) -> bool {
        self.left.remove(&task);
        self.enrolled.insert(task)
    }

    /// What a task of the machine asks for. Its reply is among what is returned, unless it has to
    /// wait for others.
    pub fn ask(&mut self, task: Tid, request: Request) -> Sent {
        let mut sent = Vec::new();
        if let Some(reply) = self.answer(task, request, &mut sent) {
            sent.push((task, Outgoing::Reply(reply)));
        }
        sent
    }

    /// A task has left the machine, or its process has ended.
    pub fn leave(&mut self, task: Tid) -> Sent {
        if self.enrolled.remove(&task) {
            self.left.insert(task);
        }
        self.watches.retain(|watch| watch.by != task);
        self.readers.retain(|reader| reader.task != task);
        self.mailboxes.forget(task);
        let mut sent = Vec::new();
        for name in self.groups.of(task) {
            // It is a member.
            let _ = self.groups.leave(&name, task);
            let released = self.barriers.member_left(&self.groups, &name, task);
            sent.extend(told(released, &Reply::Refused(Code::NO_GROUP)));
        }
        sent.extend(self.tell_end(task));
        sent
    }

    /// The process of a task that never enrolled, or left, has ended.
    pub fn ended(&mut self, task: Tid) -> Sent {
        self.left.remove(&task);
        self.tell_end(task)
    }

    /// Tasks whose end has to be known: somebody waits for it, or they have left.
    #[must_use]
    pub fn to_look_at(&self) -> BTreeSet<Tid> {
        let ends = |watch: &&Watch| watch.event == WatchedEvent::TaskExit;
        let watched = self.watches.iter().filter(ends).map(|watch| watch.of);
        let watched = watched.filter(|task| task.is_task());
        watched.chain(self.left.iter().copied()).collect()
    }

    /// A task has printed; nothing: it prints no more.
    pub fn output(&mut self, task: Tid, bytes: &[u8]) -> Sent {
        let Some(&collected) = self.collected.get(&task) else {
            return Vec::new();
        };
        if bytes.is_empty() {
            self.collected.remove(&task);
        }
        // Fits: it was read into a buffer of some kilobytes.
        let what = match bytes.is_empty() {
            true => OUTPUT_ENDS,
            false => bytes.len() as i32,
        };
        self.output_message(task, collected, what, bytes)
    }

    fn answer(&mut self, task: Tid, request: Request, sent: &mut Sent) -> Option<Reply> {
        Some(match request {
            Request::Enroll { .. } => Reply::Refused(Code::ALREADY),
            Request::NewContext => number(self.new_context()),
            Request::FreeContext { context } => match self.contexts.remove(&context) {
                true => Reply::Number(0),
                false => Reply::Refused(Code::NOT_FOUND),
            },
            Request::Watch {
                event,
                of,
                tag,
                context,
                is_cancelled,
            } => {
                if of.len() > WATCHES_EACH_MAX {
                    return Some(Reply::Refused(Code::OUT_OF_RESOURCES));
                }
                let watches = of.into_iter().map(|of| Watch {
                    by: task,
                    of,
                    event,
                    tag,
                    context,
                });
                match is_cancelled {
                    true => self.cancel(watches.collect(), sent),
                    false => self.watch(watches.collect(), sent),
                }
            }
            Request::Tasks => self.rows(),
            Request::Hosts => self.hosts(),
            // Whoever serves the machine does that.
            Request::AddHosts { .. } | Request::DeleteHosts { .. } | Request::SetHosts { .. } => {
                Reply::Refused(Code::NOT_IMPLEMENTED)
            }
            Request::Collect {
                task,
                parent,
                to,
                tag,
                context,
            } => self.collect(task, parent, Collected { to, tag, context }, sent),
            Request::IsCollected { task } => {
                Reply::Number(i32::from(self.collected.contains_key(&task)))
            }
            Request::Put { .. }
            | Request::Take { .. }
            | Request::Delete { .. }
            | Request::Classes { .. } => return self.answer_mailbox(task, request, sent),
            _ => return self.answer_group(task, request, sent),
        })
    }

    fn answer_mailbox(&mut self, task: Tid, request: Request, sent: &mut Sent) -> Option<Reply> {
        Some(match request {
            Request::Put {
                class,
                flags,
                mut message,
            } => {
                set_sender(&mut message, task);
                let put = self.mailboxes.put(task, &class, flags, message);
                if put.is_ok() {
                    self.serve_readers(&class, sent);
                }
                number(put)
            }
            Request::Take {
                class,
                index,
                flags,
            } => return self.take(task, class, index, flags),
            Request::Delete { class, index } => {
                number(self.mailboxes.delete(task, &class, index).map(|_| index))
            }
            Request::Classes { pattern } => Reply::Classes(self.mailboxes.classes(&pattern)),
            _ => Reply::Refused(Code::BAD_MESSAGE),
        })
    }

    fn answer_group(&mut self, task: Tid, request: Request, sent: &mut Sent) -> Option<Reply> {
        let groups = &mut self.groups;
        Some(match request {
            Request::Join { group } => number(groups.join(&group, task)),
            Request::Leave { group } => {
                let left = groups.leave(&group, task);
                if left.is_ok() {
                    let released = self.barriers.member_left(&self.groups, &group, task);
                    sent.extend(told(released, &Reply::Refused(Code::NO_GROUP)));
                }
                number(left.map(|()| 0))
            }
            Request::Member { group, instance } => number(groups.find(&group).and_then(|found| {
                let member = found.members.get(&instance);
                member.map(|one| one.number()).ok_or(Code::NO_INSTANCE)
            })),
            Request::Instance { group, task } => {
                let found = groups.find(&group);
                number(found.and_then(|found| found.instance(task).ok_or(Code::NOT_IN_GROUP)))
            }
            Request::Size { group } => number(groups.find(&group).map(|found| found.size())),
            Request::Members { group } => self.members(&group),
            Request::Barrier { group, count } => {
                return self.meet(Purpose::Barrier, &group, task, count, sent);
            }
            Request::Freeze { group, size } => {
                return self.meet(Purpose::Freeze, &group, task, size, sent);
            }
            _ => Reply::Refused(Code::BAD_MESSAGE),
        })
    }

    fn rows(&self) -> Reply {
        let row = |is_enrolled| {
            move |task: &Tid| TaskRow {
                task: *task,
                is_enrolled,
            }
        };
        let left = self.left.iter().map(row(false));
        Reply::Tasks(self.enrolled.iter().map(row(true)).chain(left).collect())
    }

    fn take(&mut self, task: Tid, class: String, index: i32, flags: i32) -> Option<Reply> {
        match self.mailboxes.take(task, &class, index, flags) {
            Taken::Message(message) => Some(Reply::Message(message)),
            Taken::Refused(code) => Some(Reply::Refused(code)),
            // A task waits for one answer at a time; one that does not is no program of PVM's.
            Taken::Waits if self.readers.iter().any(|reader| reader.task == task) => {
                Some(Reply::Refused(Code::BAD_MESSAGE))
            }
            Taken::Waits => {
                self.readers.push(Reader {
                    task,
                    class,
                    index,
                    flags,
                });
                None
            }
        }
    }

    /// A message was put down: who waits for one of that name looks again.
    fn serve_readers(&mut self, class: &str, sent: &mut Sent) {
        let readers = std::mem::take(&mut self.readers);
        for reader in readers {
            if reader.class != class {
                self.readers.push(reader);
                continue;
            }
            let Reader {
                task,
                class,
                index,
                flags,
            } = reader;
            if let Some(reply) = self.take(task, class, index, flags) {
                sent.push((task, Outgoing::Reply(reply)));
            }
        }
    }

    fn new_context(&mut self) -> Result<i32, Code> {
        let free = (FIRST_CONTEXT..RESERVED_CONTEXTS).find(|one| !self.contexts.contains(one));
        let context = free.ok_or(Code::OUT_OF_RESOURCES)?;
        self.contexts.insert(context);
        Ok(context)
    }

    fn members(&self, group: &str) -> Reply {
        match self.groups.find(group) {
            Ok(found) => {
                let members = found.members.iter();
                Reply::Members(members.map(|(number, one)| (*number, *one)).collect())
            }
            Err(code) => Reply::Refused(code),
        }
    }

    /// The group was frozen by so many.
    fn frozen(&mut self, group: &str, by: usize) -> Reply {
        match self.members(group) {
            Reply::Members(members) => {
                let are_all = by == members.len();
                self.freezes += u64::from(are_all);
                let number = if are_all { self.freezes } else { 0 };
                Reply::Frozen { members, number }
            }
            refused => refused,
        }
    }

    fn meet(
        &mut self,
        purpose: Purpose,
        group: &str,
        task: Tid,
        count: i32,
        sent: &mut Sent,
    ) -> Option<Reply> {
        match self
            .barriers
            .arrive(&mut self.groups, purpose, group, task, count)
        {
            Ok(released) => {
                let reply = match purpose {
                    Purpose::Barrier => Reply::Number(0),
                    // All keep the same, before one of them leaves.
                    Purpose::Freeze => self.frozen(group, released.len()),
                };
                sent.extend(told(released, &reply));
                None
            }
            Err(code) => Some(Reply::Refused(code)),
        }
    }

    fn watch(&mut self, watches: Vec<Watch>, sent: &mut Sent) -> Reply {
        // That of a task stands for its host, too.
        let is_sound = |watch: &Watch| watch.event != WatchedEvent::TaskExit || watch.of.is_task();
        if !watches.iter().all(is_sound) {
            return Reply::Refused(Code::BAD_PARAMETER);
        }
        if watches.iter().any(hosts::ends_additions) {
            let by = watches.first().map(|watch| watch.by);
            let is_it =
                |watch: &Watch| Some(watch.by) == by && watch.event == WatchedEvent::HostAdd;
            self.watches.retain(|watch| !is_it(watch));
            return Reply::Number(0);
        }
        let asks = watches.first().map(|watch| watch.by);
        let own = self.watches.iter().filter(|watch| Some(watch.by) == asks);
        if own.count() + watches.len() > WATCHES_EACH_MAX
            || self.watches.len() + watches.len() > WATCHES_MAX
        {
            return Reply::Refused(Code::OUT_OF_RESOURCES);
        }
        for watch in watches {
            let is_over = match watch.event {
                WatchedEvent::TaskExit => {
                    self.left.contains(&watch.of) || !self.hosts.has(watch.of.host())
                }
                WatchedEvent::HostDelete => !self.hosts.has(watch.of.host()),
                WatchedEvent::HostAdd => false,
            };
            match is_over {
                true => sent.extend(notice(&watch)),
                false => self.watches.push(watch),
            }
        }
        Reply::Number(0)
    }

    /// The waits end as if all of it had happened.
    fn cancel(&mut self, cancelled: Vec<Watch>, sent: &mut Sent) -> Reply {
        for one in &cancelled {
            let is_it = |watch: &Watch| {
                let is_of = watch.of == one.of || watch.event == WatchedEvent::HostAdd;
                is_of && (watch.by, watch.event, watch.tag) == (one.by, one.event, one.tag)
            };
            if let Some(at) = self.watches.iter().position(is_it) {
                sent.extend(notice(&self.watches.remove(at)));
            }
        }
        Reply::Number(0)
    }

    fn tell_end(&mut self, task: Tid) -> Sent {
        let is_it = |watch: &Watch| watch.of == task && watch.event == WatchedEvent::TaskExit;
        let (over, go_on) = std::mem::take(&mut self.watches)
            .into_iter()
            .partition(is_it);
        self.watches = go_on;
        over.iter().flat_map(notice).collect()
    }

    fn collect(
        &mut self,
        task: Tid,
        parent: Option<Tid>,
        collected: Collected,
        sent: &mut Sent,
    ) -> Reply {
        if !self.enrolled.contains(&collected.to) || self.collected.contains_key(&task) {
            return Reply::Refused(Code::NO_TASK);
        }
        self.collected.insert(task, collected);
        // Four bytes lie in a message as an integer of this machine does.
        let parent_bytes = parent.map_or(0, Tid::number).to_ne_bytes();
        for what in [OUTPUT_IS_NEW, OUTPUT_BEGINS] {
            sent.extend(self.output_message(task, collected, what, &parent_bytes));
        }
        Reply::Number(0)
    }

    fn output_message(&self, task: Tid, collected: Collected, what: i32, bytes: &[u8]) -> Sent {
        let Collected { to, tag, context } = collected;
        if !self.enrolled.contains(&to) {
            return Vec::new();
        }
        let mut message = Buffer::new(Encoding::Xdr);
        let packed = message
            .pack_int(task.number())
            .and_then(|()| message.pack_int(what))
            .and_then(|()| message.pack(Kind::Byte, bytes, bytes.len(), 1));
        match packed {
            Ok(()) => vec![sent_by_machine(message, to, tag, context)],
            Err(_) => Vec::new(),
        }
    }
}

fn number(outcome: Result<i32, Code>) -> Reply {
    match outcome {
        Ok(number) => Reply::Number(number),
        Err(code) => Reply::Refused(code),
    }
}

fn told(tasks: Vec<Tid>, reply: &Reply) -> impl Iterator<Item = (Tid, Outgoing)> {
    let tasks = tasks.into_iter();
    tasks.map(|task| (task, Outgoing::Reply(reply.clone())))
}

/// That a task or host is gone, for who asked for it; of hosts that come, that none did.
fn notice(watch: &Watch) -> Option<(Tid, Outgoing)> {
    let mut message = Buffer::new(Encoding::Xdr);
    let what = match watch.event {
        WatchedEvent::HostAdd => 0,
        WatchedEvent::TaskExit | WatchedEvent::HostDelete => watch.of.number(),
    };
    message.pack_int(what).ok()?;
    Some(sent_by_machine(message, watch.by, watch.tag, watch.context))
}

fn sent_by_machine(mut message: Buffer, to: Tid, tag: i32, context: i32) -> (Tid, Outgoing) {
    message.info.tag = tag;
    message.info.context = context;
    message.info.source = MACHINE.number();
    message.info.destination = to.number();
    (to, Outgoing::Message(message.frame().to_vec()))
}

mod hosts;
#[cfg(test)]
mod tests;
