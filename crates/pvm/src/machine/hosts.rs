//! Hosts of a machine. A number is never given twice: what ran on a host that is gone is not taken
//! for what runs on one that came later.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::buffer::{NATIVE_FORMAT, format_of};
use crate::code::Code;
use crate::hostfile::Settings;
use crate::tid::{FIRST_HOST, Tid};

/// A host of the machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// Its number.
    pub host: Tid,
    /// Its name.
    pub name: String,
    /// Its architecture, as PVM names it.
    pub architecture: String,
    /// Its data format.
    pub format: i32,
    /// What a hostfile says of it.
    pub settings: Settings,
}

/// PVM's name of this architecture.
#[must_use]
pub const fn architecture() -> &'static str {
    architecture_of(size_of::<usize>())
}

/// PVM's name of one with addresses of so many bytes.
const fn architecture_of(pointer_bytes: usize) -> &'static str {
    match pointer_bytes {
        8 => "LINUX64",
        _ => "LINUX",
    }
}

#[derive(Debug)]
pub(super) struct Hosts {
    /// By number; the first is always there.
    rows: Vec<Host>,
    last: u32,
    /// What the last hostfile says, and of all others.
    said: BTreeMap<String, Settings>,
    said_of_others: Settings,
}

impl Default for Hosts {
    fn default() -> Self {
        Self {
            rows: vec![Host {
                host: FIRST_HOST,
                name: "localhost".to_owned(),
                architecture: architecture().to_owned(),
                format: NATIVE_FORMAT,
                settings: Settings::default(),
            }],
            last: FIRST_HOST.host_number(),
            said: BTreeMap::new(),
            said_of_others: Settings::default(),
        }
    }
}

impl Hosts {
    pub(super) fn rows(&self) -> &[Host] {
        &self.rows
    }

    pub(super) fn name_first(&mut self, name: &str) {
        name.clone_into(&mut self.rows[0].name);
    }

    /// Holds for hosts that come, and for the first if it is named.
    pub(super) fn set(&mut self, said: BTreeMap<String, Settings>, of_others: Settings) {
        if let Some(settings) = said.get(&self.rows[0].name) {
            settings.clone_into(&mut self.rows[0].settings);
        }
        self.said = said;
        self.said_of_others = of_others;
    }

    pub(super) fn named(&self, name: &str) -> Option<Tid> {
        let found = self.rows.iter().find(|row| row.name == name);
        found.map(|row| row.host)
    }

    pub(super) fn has(&self, host: Tid) -> bool {
        self.rows.iter().any(|row| row.host == host)
    }

    /// One that is taken for a host like the first until it is said what it is.
    pub(super) fn add(&mut self, name: &str) -> Result<Tid, Code> {
        if self.named(name).is_some() {
            return Err(Code::DUPLICATE_HOST);
        }
        let host = Tid::numbered_host(self.last + 1).ok_or(Code::OUT_OF_RESOURCES)?;
        self.last += 1;
        let settings = self.said.get(name).unwrap_or(&self.said_of_others);
        let settings = settings.clone();
        self.rows.push(Host {
            host,
            name: name.to_owned(),
            settings,
            ..self.rows[0].clone()
        });
        Ok(host)
    }

    pub(super) fn describe(&mut self, host: Tid, pointer_bytes: usize, is_big_endian: bool) {
        let mut rows = self.rows.iter_mut();
        if let Some(row) = rows.find(|row| row.host == host) {
            architecture_of(pointer_bytes).clone_into(&mut row.architecture);
            row.format = format_of(pointer_bytes, is_big_endian);
        }
    }

    /// False: it was not there, or is the first.
    pub(super) fn remove(&mut self, host: Tid) -> bool {
        let before = self.rows.len();
        self.rows
            .retain(|row| row.host == FIRST_HOST || row.host != host);
        self.rows.len() < before
    }
}
