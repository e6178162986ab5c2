//! PVM's error numbers and what PVM says about each.

/// An error number of PVM: negative, as its functions return it.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
pub struct Code(i32);

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $number:literal, $text:literal;)*) => {
        impl Code {
            $(
                #[doc = $text]
                pub const $name: Self = Self($number);
            )*
        }

        const NAMED: &[(i32, &str)] = &[$(($number, $text),)*];
    };
}

codes! {
    BAD_PARAMETER = -2, "Bad parameter";
    MISMATCH = -3, "Parameter mismatch";
    OVERFLOW = -4, "Value too large";
    NO_DATA = -5, "End of buffer";
    NO_HOST = -6, "No such host";
    NO_FILE = -7, "No such file";
    DENIED = -8, "Permission denied";
    NO_MEMORY = -10, "Malloc failed";
    BAD_MESSAGE = -12, "Can't decode message";
    SYSTEM = -14, "Can't contact local daemon";
    NO_BUFFER = -15, "No current buffer";
    NO_SUCH_BUFFER = -16, "No such buffer";
    NULL_GROUP = -17, "Null group name";
    DUPLICATE_GROUP = -18, "Already in group";
    NO_GROUP = -19, "No such group";
    NOT_IN_GROUP = -20, "Not in group";
    NO_INSTANCE = -21, "No such instance";
    HOST_FAILED = -22, "Host failed";
    NO_PARENT = -23, "No parent task";
    NOT_IMPLEMENTED = -24, "Not implemented";
    DAEMON_SYSTEM = -25, "Pvmd system error";
    BAD_VERSION = -26, "Version mismatch";
    OUT_OF_RESOURCES = -27, "Out of resources";
    DUPLICATE_HOST = -28, "Duplicate host";
    CANNOT_START = -29, "Can't start pvmd";
    ALREADY = -30, "Already in progress";
    NO_TASK = -31, "No such task";
    NOT_FOUND = -32, "Not Found";
    EXISTS = -33, "Already Exists";
    HOSTER_NOT_ON_MASTER = -34, "Hoster must run on master host";
    PARENT_NOT_SET = -35, "Spawning parent set PvmNoParent";
    LOOPBACK = -36, "Master Host IP Address is Loopback! (See pvm3/Readme)";
}

impl Code {
    /// The one with this number; `None`: PVM has no such error.
    #[must_use]
    pub fn from_number(number: i32) -> Option<Self> {
        let mut named = NAMED.iter();
        named
            .find(|(named, _)| *named == number)
            .map(|_| Self(number))
    }

    /// As PVM's functions return it.
    #[must_use]
    pub const fn number(self) -> i32 {
        self.0
    }

    /// What PVM says about it.
    #[must_use]
    pub fn text(self) -> &'static str {
        let mut named = NAMED.iter();
        named
            .find(|(number, _)| *number == self.0)
            .map_or("Unknown error", |(_, text)| text)
    }
}

impl std::fmt::Display for Code {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.text())
    }
}

impl std::error::Error for Code {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_name_themselves_and_no_others_do() {
        for number in -36..=-2 {
            // Numbers that PVM leaves out.
            let is_used = ![-9, -11, -13].contains(&number);
            assert_eq!(Code::from_number(number).is_some(), is_used, "{number}");
        }
        assert_eq!(Code::NO_DATA.text(), "End of buffer");
        assert_eq!(Code::from_number(0), None);
    }
}
