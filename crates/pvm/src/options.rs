//! Options of a task: `pvm_setopt`, `pvm_getopt`.

use crate::code::Code;

/// Which one, as `pvm3.h` numbers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opt(i32);

impl Opt {
    /// Direct links or the daemons; both are the same here.
    pub const ROUTE: Self = Self(1);
    /// Whether errors are printed, and end the task.
    pub const AUTO_ERROR: Self = Self(3);
    /// Who gets what spawned tasks print.
    pub const OUTPUT_TID: Self = Self(4);
    /// With which tag.
    pub const OUTPUT_CODE: Self = Self(5);
    /// Whether reserved tags may be sent.
    pub const RESERVED: Self = Self(11);
    /// Who gets what this task prints.
    pub const SELF_OUTPUT_TID: Self = Self(12);
    /// With which tag.
    pub const SELF_OUTPUT_CODE: Self = Self(13);
    /// Whether output that is caught is marked.
    pub const SHOW_TIDS: Self = Self(18);
    /// In which context output is sent.
    pub const OUTPUT_CONTEXT: Self = Self(21);
    /// The same for this task's.
    pub const SELF_OUTPUT_CONTEXT: Self = Self(23);
    /// Whether a reset spares the task.
    pub const NO_RESET: Self = Self(25);

    const LAST: i32 = 25;

    /// What a task prints by itself and what its children do go the same way.
    const fn of_children(self) -> Option<Self> {
        match self {
            Self::SELF_OUTPUT_TID => Some(Self::OUTPUT_TID),
            Self::SELF_OUTPUT_CODE => Some(Self::OUTPUT_CODE),
            Self::SELF_OUTPUT_CONTEXT => Some(Self::OUTPUT_CONTEXT),
            _ => None,
        }
    }
}

/// All options of a task.
#[derive(Clone, Debug)]
pub struct Options {
    values: [i32; Opt::LAST as usize + 1],
}

impl Default for Options {
    fn default() -> Self {
        let mut values = [0; Opt::LAST as usize + 1];
        for (option, value) in [
            // `PvmAllowDirect`.
            (Opt::ROUTE, 2),
            (Opt::AUTO_ERROR, 1),
            // Bytes of a fragment, of which there are none here.
            (Opt(10), 4080),
            (Opt::SHOW_TIDS, 1),
        ] {
            values[option.0 as usize] = value;
        }
        Self { values }
    }
}

impl Options {
    /// An option that is known to exist.
    #[must_use]
    pub const fn value(&self, option: Opt) -> i32 {
        self.values[option.0 as usize]
    }

    /// Sets one that is known to exist, whatever the value.
    pub const fn assign(&mut self, option: Opt, value: i32) {
        self.values[option.0 as usize] = value;
        if let Some(children) = option.of_children() {
            self.values[children.0 as usize] = value;
        }
    }

    /// One by its number.
    ///
    /// # Errors
    /// [`Code::BAD_PARAMETER`]: there is none.
    pub fn get(&self, number: i32) -> Result<i32, Code> {
        check(number).map(|option| self.value(option))
    }

    /// Sets one; what it was.
    ///
    /// # Errors
    /// [`Code::BAD_PARAMETER`]: there is none, or it has no such value; [`Code::NOT_IMPLEMENTED`].
    pub fn set(&mut self, number: i32, value: i32) -> Result<i32, Code> {
        if OF_SHARED_MEMORY.contains(&number) {
            return Err(Code::NOT_IMPLEMENTED);
        }
        let option = check(number)?;
        let is_sound = match option {
            Opt::ROUTE => (1..=3).contains(&value),
            Opt::AUTO_ERROR => (0..=3).contains(&value),
            _ => true,
        };
        if !is_sound {
            return Err(Code::BAD_PARAMETER);
        }
        let before = self.value(option);
        self.assign(option, value);
        Ok(before)
    }
}

/// `PvmPollType` and `PvmPollTime` are for PVM's shared memory, which it has on few systems.
const OF_SHARED_MEMORY: [i32; 2] = [19, 20];

fn check(number: i32) -> Result<Opt, Code> {
    match (1..=Opt::LAST).contains(&number) && !OF_SHARED_MEMORY.contains(&number) {
        true => Ok(Opt(number)),
        false => Err(Code::BAD_PARAMETER),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_have_defaults_and_bounds() {
        let mut options = Options::default();
        assert_eq!(options.get(1), Ok(2));
        assert_eq!(options.set(1, 3), Ok(2));
        assert_eq!(options.set(1, 4), Err(Code::BAD_PARAMETER));
        assert_eq!(options.get(1), Ok(3));
        for number in [0, -1, 19, 20, 26, i32::MAX] {
            assert_eq!(options.get(number), Err(Code::BAD_PARAMETER));
            let refusal = match number {
                19 | 20 => Code::NOT_IMPLEMENTED,
                _ => Code::BAD_PARAMETER,
            };
            assert_eq!(options.set(number, 1), Err(refusal));
        }
    }

    #[test]
    fn children_print_where_the_task_does() {
        let mut options = Options::default();
        options.set(12, 0x40001).expect("an option");
        assert_eq!(options.value(Opt::OUTPUT_TID), 0x40001);
        options.set(4, 0).expect("an option");
        assert_eq!(options.value(Opt::SELF_OUTPUT_TID), 0x40001);
    }
}
