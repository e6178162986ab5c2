//! Spawning.

use super::{Session, variables};
use crate::code::Code;
use crate::machine::{Host, Spawn};
use crate::options::Opt;
use crate::tid::Tid;

/// Flags of `pvm_spawn`.
const ON_HOST: i32 = 1;
const ON_ARCHITECTURE: i32 = 2;
const DEBUG: i32 = 4;
const OTHER_HOSTS: i32 = 32;
const NO_PARENT: i32 = 64;

/// Where tasks are spawned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpawnPlace<'a> {
    /// `PvmTask*` flags.
    pub flags: i32,
    /// Host or architecture, as the flags say.
    pub name: &'a str,
}

impl<F: Clone> Session<F> {
    /// Spawns tasks, and returns what became of each, those that were started first.
    ///
    /// # Errors
    /// [`Code::BAD_PARAMETER`]: none of them.
    pub fn spawn(
        &mut self,
        program: &str,
        arguments: Vec<String>,
        place: SpawnPlace<'_>,
        count: i32,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Vec<Result<Tid, Code>>, Code> {
        let flags = place.flags;
        let count = u32::try_from(count).map_err(|_| Code::BAD_PARAMETER)?;
        if count == 0 {
            return Err(Code::BAD_PARAMETER);
        }
        if program.is_empty() {
            return Ok(vec![Err(Code::NO_FILE); count as usize]);
        }
        let places = self.places(place, count)?;
        if places.is_empty() {
            return Ok(vec![Err(Code::NO_HOST); count as usize]);
        }
        let spawn = Spawn {
            places,
            program: program.to_owned(),
            arguments,
            count,
            variables: self.variables_of_spawned(flags, variable),
            is_debugged: flags & DEBUG != 0,
        };
        let mut outcomes = self.machine.spawn(&spawn);
        outcomes.sort_by_key(Result::is_err);
        self.spawned_for_output(outcomes.iter().filter_map(|one| one.ok()));
        Ok(outcomes)
    }

    /// Hosts that fit, in turn: the first is that behind the one of the last task that was spawned,
    /// or behind its own.
    fn places(&mut self, place: SpawnPlace<'_>, count: u32) -> Result<Vec<Host>, Code> {
        let own = self.task().host();
        let mut hosts = self.hosts()?;
        hosts.retain(|host| fits(host, own, place));
        let last = self.last_place.unwrap_or(own);
        let behind = hosts.iter().position(|host| host.host > last).unwrap_or(0);
        let turn = hosts.iter().cycle().skip(behind).take(count as usize);
        let places: Vec<Host> = turn.cloned().collect();
        self.last_place = places.last().map(|host| host.host).or(self.last_place);
        Ok(places)
    }

    /// Why tasks could not be spawned last, for people; once.
    pub fn take_refusal(&mut self) -> Option<String> {
        self.machine.take_refusal()
    }

    fn variables_of_spawned(
        &self,
        flags: i32,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Vec<(String, String)> {
        let mut given = vec![(variables::CONTEXT.to_owned(), self.context.to_string())];
        let output = [Opt::OUTPUT_TID, Opt::OUTPUT_CODE, Opt::OUTPUT_CONTEXT];
        let [to, tag, context] = output.map(|option| self.options.value(option));
        given.push((
            variables::OUTPUT.to_owned(),
            format!("{to} {tag} {context}"),
        ));
        if flags & NO_PARENT != 0 {
            given.push((variables::NO_PARENT.to_owned(), "1".to_owned()));
        }
        if let Some(exported) = variable(variables::EXPORT) {
            let names = exported.split(':').filter(|name| !name.is_empty());
            given.extend(names.filter_map(|name| Some((name.to_owned(), variable(name)?))));
            given.push((variables::EXPORT.to_owned(), exported));
        }
        given
    }
}

/// `own` is the host of who asks, which `.` means.
fn fits(host: &Host, own: Tid, place: SpawnPlace<'_>) -> bool {
    let SpawnPlace { flags, name } = place;
    let is_named = match (flags & ON_HOST != 0, flags & ON_ARCHITECTURE != 0) {
        (true, _) if [".", "localhost"].contains(&name) => host.host == own,
        (true, _) => host.name == name,
        (false, true) => host.architecture == name,
        (false, false) => return true,
    };
    is_named != (flags & OTHER_HOSTS != 0)
}
