//! Variables of the environment by which a user chooses something.
//!
//! One that is set to nothing chooses nothing, as one that is not set: `Environment=HYTHE_ROOT=` of
//! a unit, `environment: HYTHE_ROOT=` of a container and `HYTHE_ROOT= hythe list` all mean that.

use std::ffi::OsString;

/// The value of a variable; `None`: it is not set, or empty.
#[must_use]
pub fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// The same as text; `None` also for what is no text.
#[must_use]
pub fn text(name: &str) -> Option<String> {
    variable(name)?.into_string().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unset_variable_chooses_nothing() {
        assert_eq!(variable("HYTHE_TEST_NOT_SET"), None);
        assert_eq!(text("HYTHE_TEST_NOT_SET"), None);
        assert_eq!(variable("PATH"), std::env::var_os("PATH"));
    }
}
