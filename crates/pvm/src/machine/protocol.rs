//! What tasks ask the machine for, and what they are told.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::hosts::Host;
use crate::code::Code;
use crate::hostfile::Settings;
use crate::tid::Tid;

/// What a task asks for. Each is answered by a [`Reply`], some only when others have done
/// something.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    /// To be in the machine. The first that is asked for.
    Enroll {
        /// As which task.
        task: Tid,
    },
    /// `pvm_putinfo`.
    Put {
        /// Name of the class.
        class: String,
        /// `PvmMbox*` flags.
        flags: i32,
        /// The message, with its header.
        message: Vec<u8>,
    },
    /// `pvm_recvinfo`.
    Take {
        /// Name of the class.
        class: String,
        /// Number in it.
        index: i32,
        /// `PvmMbox*` flags.
        flags: i32,
    },
    /// `pvm_delinfo`.
    Delete {
        /// Name of the class.
        class: String,
        /// Number in it.
        index: i32,
    },
    /// `pvm_getmboxinfo`.
    Classes {
        /// Which names: those that have it inside; `*` stands for any characters.
        pattern: String,
    },
    /// `pvm_newcontext`.
    NewContext,
    /// `pvm_freecontext`.
    FreeContext {
        /// Which.
        context: i32,
    },
    /// `pvm_joingroup`.
    Join {
        /// Its name.
        group: String,
    },
    /// `pvm_lvgroup`.
    Leave {
        /// Its name.
        group: String,
    },
    /// `pvm_gettid`.
    Member {
        /// Name of the group.
        group: String,
        /// Number in it.
        instance: i32,
    },
    /// `pvm_getinst`.
    Instance {
        /// Name of the group.
        group: String,
        /// Of which task.
        task: Tid,
    },
    /// `pvm_gsize`.
    Size {
        /// Name of the group.
        group: String,
    },
    /// Who is in a group, by their numbers in it.
    Members {
        /// Its name.
        group: String,
    },
    /// `pvm_barrier`.
    Barrier {
        /// Name of the group.
        group: String,
        /// How many come together; -1: as many as are in it.
        count: i32,
    },
    /// `pvm_freezegroup`.
    Freeze {
        /// Its name.
        group: String,
        /// How many it shall have; -1: as many as are in it.
        size: i32,
    },
    /// `pvm_notify`.
    Watch {
        /// Of what.
        event: WatchedEvent,
        /// Of which tasks or hosts.
        of: Vec<Tid>,
        /// Tag of the messages.
        tag: i32,
        /// Their context.
        context: i32,
        /// To end the wait for them: a message for each comes now.
        is_cancelled: bool,
    },
    /// Who is in the machine.
    Tasks,
    /// `pvm_config`.
    Hosts,
    /// `pvm_addhosts`.
    AddHosts {
        /// Their names in the realm.
        names: Vec<String>,
    },
    /// `pvm_delhosts`.
    DeleteHosts {
        /// Their names.
        names: Vec<String>,
    },
    /// To send what this task prints, which comes over the descriptor that goes with the request.
    Collect {
        /// Which prints; it need not have enrolled.
        task: Tid,
        /// Who spawned it.
        parent: Option<Tid>,
        /// To which task.
        to: Tid,
        /// With which tag.
        tag: i32,
        /// In which context.
        context: i32,
    },
    /// Is the output of a task still sent to this one?
    IsCollected {
        /// Of which.
        task: Tid,
    },
    /// What a hostfile says of hosts that are added later; only on the first host.
    SetHosts {
        /// By name.
        named: BTreeMap<String, Settings>,
        /// Of all others.
        others: Settings,
    },
}

/// What `pvm_notify` tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WatchedEvent {
    /// A task has left the machine, or ended.
    TaskExit,
    /// A host is gone.
    HostDelete,
    /// Hosts have come: so many times as the only number of what is watched says, -1 for always.
    HostAdd,
}

/// What is answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reply {
    /// It is done; a number, where one was asked for.
    Number(i32),
    /// It is not.
    Refused(Code),
    /// A message of a mailbox, with its header.
    Message(Vec<u8>),
    /// Names of mailboxes and what they have.
    Classes(Vec<MailboxClass>),
    /// Members of a group, by their numbers in it.
    Members(Vec<(i32, Tid)>),
    /// Who is in the machine.
    Tasks(Vec<TaskRow>),
    /// All hosts.
    Hosts(Vec<Host>),
    /// What became of each host: its number, or an error's.
    Numbers(Vec<i32>),
    /// Nobody joins a group any more.
    Frozen {
        /// By their numbers in it.
        members: Vec<(i32, Tid)>,
        /// Where all of them froze it: which freeze of the machine it was, from 1 on. Else 0.
        number: u64,
    },
}

/// What `pvm_getmboxinfo` says of a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MailboxClass {
    /// The name.
    pub name: String,
    /// Number, number of the owner (0: it is gone), flags of each entry.
    pub entries: Vec<(i32, i32, i32)>,
}

/// A task of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskRow {
    /// Which.
    pub task: Tid,
    /// It has not left.
    pub is_enrolled: bool,
}

/// What goes to a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outgoing {
    /// The answer to what it asked for last.
    Reply(Reply),
    /// A message, with its header.
    Message(Vec<u8>),
}
