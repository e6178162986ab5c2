//! What stands in for `across` where the demo was built without the protocol of the agents.

use std::io;

use hythe::Pool;
use hythe_command::error::CliError;
use hythe_command::workspace::Workspace;

use crate::Host;

/// Two hosts, which there never are.
pub(super) enum Across {}

impl Across {
    pub(super) fn make(_: &mut Workspace) -> Result<Self, CliError> {
        let text = "this program was built without --across: `hythe demo --across` has it";
        Err(CliError::WrongUse(text.to_owned()))
    }

    pub(super) fn pool(&self) -> &Pool {
        match *self {}
    }

    pub(super) fn go_to(&self, _: Host) -> io::Result<()> {
        match *self {}
    }

    pub(super) fn part(&self) -> io::Result<u32> {
        match *self {}
    }
}
