//! What functions return by pointer: the library's until the same function is called again, as PVM
//! says. It is locked only while the session is held, so that no signal handler waits for it.

use std::ffi::{CString, c_char, c_int};
use std::sync::{Mutex, MutexGuard, PoisonError};

use hythe_pvm::machine::{Host, MailboxClass};
use hythe_pvm::session::Row;

use crate::guard::Held;
use crate::structures::{HostInfo, MailboxInfo, TaskInfo};

/// All of it.
#[derive(Default)]
pub(crate) struct Kept {
    pub(crate) classes: Classes,
    pub(crate) hosts: Hosts,
    pub(crate) tasks: Tasks,
    pub(crate) siblings: Vec<c_int>,
    pub(crate) descriptors: Vec<c_int>,
    texts: [CString; Text::COUNT],
}

/// Which function's text.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Text {
    Error,
    TagName,
    RemoteShell,
    Folder,
}

impl Text {
    const COUNT: usize = 4;
}

// SAFETY: its pointers lead to what it owns itself, and who holds it is one thread.
unsafe impl Send for Kept {}

pub(crate) struct Shared(Mutex<Option<Kept>>);

pub(crate) static KEPT: Shared = Shared(Mutex::new(None));

pub(crate) struct Guard(MutexGuard<'static, Option<Kept>>);

impl Shared {
    pub(crate) fn lock(&'static self) -> Guard {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.get_or_insert_default();
        Guard(kept)
    }
}

impl std::ops::Deref for Guard {
    type Target = Kept;

    fn deref(&self) -> &Kept {
        match &*self.0 {
            Some(kept) => kept,
            None => unreachable!("it was put there when it was locked"),
        }
    }
}

impl std::ops::DerefMut for Guard {
    fn deref_mut(&mut self) -> &mut Kept {
        self.0.get_or_insert_default()
    }
}

/// What `pvm_getmboxinfo` returns.
#[derive(Default)]
pub(crate) struct Classes {
    rows: Vec<MailboxInfo>,
    _names: Vec<CString>,
    _numbers: Vec<[Vec<c_int>; 3]>,
}

impl Classes {
    pub(crate) fn new(classes: &[MailboxClass]) -> Self {
        let mut kept = Self::default();
        for class in classes {
            let name = owned(&class.name);
            let entries = class.entries.iter();
            let mut numbers = [
                entries.clone().map(|entry| entry.0).collect::<Vec<_>>(),
                entries.clone().map(|entry| entry.1).collect(),
                entries.map(|entry| entry.2).collect(),
            ];
            let [indices, owners, flags] = &mut numbers;
            kept.rows.push(MailboxInfo {
                name: name.as_ptr().cast_mut(),
                // Fits: there are at most 65,536.
                entries: class.entries.len() as c_int,
                indices: indices.as_mut_ptr(),
                owners: owners.as_mut_ptr(),
                flags: flags.as_mut_ptr(),
            });
            kept._names.push(name);
            kept._numbers.push(numbers);
        }
        kept
    }

    pub(crate) fn count(&self) -> c_int {
        self.rows.len() as c_int
    }

    pub(crate) fn pointer(&mut self) -> *mut MailboxInfo {
        self.rows.as_mut_ptr()
    }
}

/// What `pvm_config` returns.
#[derive(Default)]
pub(crate) struct Hosts {
    rows: Vec<HostInfo>,
    _texts: Vec<CString>,
}

impl Hosts {
    pub(crate) fn new(hosts: &[Host]) -> Self {
        let mut kept = Self::default();
        for host in hosts {
            let (name, architecture) = (owned(&host.name), owned(&host.architecture));
            kept.rows.push(HostInfo {
                host: host.host.number(),
                name: name.as_ptr().cast_mut(),
                architecture: architecture.as_ptr().cast_mut(),
                // Fits: a hostfile says a million at most.
                speed: host.settings.speed as c_int,
                format: host.format,
            });
            kept._texts.extend([name, architecture]);
        }
        kept
    }

    pub(crate) fn pointer(&mut self) -> *mut HostInfo {
        self.rows.as_mut_ptr()
    }
}

/// What `pvm_tasks` returns.
#[derive(Default)]
pub(crate) struct Tasks {
    rows: Vec<TaskInfo>,
    _names: Vec<CString>,
}

impl Tasks {
    pub(crate) fn new(rows: &[Row]) -> Self {
        let mut kept = Self::default();
        for row in rows {
            let program = owned(&row.program);
            kept.rows.push(TaskInfo {
                task: row.task,
                parent: row.parent,
                host: row.host,
                flags: row.flags,
                program: program.as_ptr().cast_mut(),
                pid: row.pid,
            });
            kept._names.push(program);
        }
        kept
    }

    pub(crate) fn pointer(&mut self) -> *mut TaskInfo {
        self.rows.as_mut_ptr()
    }
}

/// Text for C, up to a zero in it.
pub(crate) fn owned(text: &str) -> CString {
    let end = text.find('\0').unwrap_or(text.len());
    CString::new(&text[..end]).unwrap_or_default()
}

/// The pointer to text that is kept. None is in a signal handler that interrupts a call.
pub(crate) fn keep_text(of: Text, text: &str) -> *mut c_char {
    let Ok(_held) = Held::take() else {
        return c"".as_ptr().cast_mut();
    };
    let mut kept = KEPT.lock();
    let place = &mut kept.texts[of as usize];
    *place = owned(text);
    place.as_ptr().cast_mut()
}
